"""What takes long in a hub's index, such as merging segments, is done by one thread that all hubs of a process share.

An error there changes no answer: the index goes on as it was, and the next change tries again. It is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

log = logging.getLogger("rankcast.hub")


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "rankcast-index")


def run_in_background(job: Callable[[], object]) -> None:
    """Have a job done when those before it are."""
    _executor().submit(job).add_done_callback(_report)


def _report(done: Future[object]) -> None:
    error = done.exception()
    if error is not None:
        log.error("work on a hub's index failed", exc_info=error)
