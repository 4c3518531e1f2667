"""A Spark session for a command: what Spark has to say goes to a file, and standard error stays the command's own.

Spark's JVM takes over the standard error of the process that starts it, for as long as it lives. So while it starts,
standard error is a file; the file is named when something fails, and removed when nothing does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.sql import SparkSession

from rankcast.cli.output.streams import complain
from rankcast.model.errors import RankcastError
from rankcast.spark.session import spark_session

SETTINGS: Mapping[str, str] = {
    "spark.ui.showConsoleProgress": "false",  # the command has a display of its own
    "spark.log.level": "WARN",
}


class RunError(RankcastError):
    """Something failed in Spark."""


@contextmanager
def session_of_command(master: str | None) -> Iterator[SparkSession]:
    """Give a session; one that this starts ends with the block."""
    running = SparkSession.getActiveSession()
    if running is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has its own ways of logging
        session = spark_session(master, settings={} if running is not None else SETTINGS)
        try:
            yield session
        finally:
            if running is None:
                session.stop()
        return
    descriptor, name = tempfile.mkstemp(prefix="rankcast-spark-", suffix=".log")
    log = Path(name)
    with os.fdopen(descriptor, "wb") as stream, _standard_error(stream.fileno()):
        session = spark_session(master, settings=SETTINGS)
    keep = True
    try:
        yield session
        keep = False
    except (RankcastError, KeyboardInterrupt) as error:
        keep = isinstance(error, RunError)  # the others say all there is to say
        raise
    finally:
        with suppress(Py4JError, OSError):  # whoever asked the command to end may have asked Spark's JVM too
            session.stop()
        if keep:
            complain(f"what Spark said is in {log}")
        else:
            log.unlink(missing_ok=True)


@contextmanager
def _standard_error(descriptor: int) -> Iterator[None]:
    """Let the standard error of the processes that are started in the block go to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
