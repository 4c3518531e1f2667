"""Clocks, and the best of several repeats.

Costs are CPU time (`process_time`): what other processes take from the machine then does not count, and threads that
an engine starts do. Where waiting is part of the question (latency, throughput of threads, start-up) the clock is
`perf_counter`. The smallest of several repeats is the one with the least disturbance; engines that are compared take
turns, so that a slow minute of the machine hits all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import TypeAlias, TypeVar

Clock: TypeAlias = Callable[[], float]
Result = TypeVar("Result")


def timed(function: Callable[[], Result], clock: Clock = process_time) -> tuple[float, Result]:
    """Return the seconds a call took, and its result."""
    start = clock()
    result = function()
    return clock() - start, result


def best_of(repeats: int, function: Callable[[], object], clock: Clock = process_time) -> float:
    """Return the least seconds of several calls."""
    return min(timed(function, clock)[0] for _ in range(repeats))


def best_of_each(
    repeats: int, functions: Mapping[str, Callable[[], object]], clock: Clock = process_time
) -> dict[str, float]:
    """Return the least seconds of each of several functions that take turns."""
    best = dict.fromkeys(functions, math.inf)
    for _ in range(repeats):
        for name, function in functions.items():
            best[name] = min(best[name], timed(function, clock)[0])
    return best


def count_within(seconds: float, work: Callable[[int], object], most: int) -> int:
    """Return how many items `work(count)` does in about a span of CPU time: at least one, at most `most`."""
    count = 1
    while True:
        took, _ = timed(partial(work, count))
        if count >= most or took >= seconds / 2:
            return count
        # At most tenfold: the first calls are slower than the rest.
        grown = int(count * 0.9 * seconds / max(took, 1e-9))
        count = min(most, 10 * count, max(count + 1, grown))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed.

    >>> quantile([5.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
