"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, on free ports."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from rankcast.spark.session import prepare_environment
from spark_stream_program import QUICK_JVM

SPARK_HOME = Path(pyspark.__file__).parent
DEADLINE = 300.0
"""Seconds after which a process that should have said something is taken to be stuck."""


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Give the URL of a master with so many workers of one core; they end with the block."""
    prepare_environment()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        log = folder / "master.log"
        running.enter_context(_running(log, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        url = _said(log, r"Starting Spark master at (spark://\S+)")[0]
        for number in range(workers):
            own = folder / f"worker-{number}"
            arguments = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            running.enter_context(
                _running(folder / f"{own.name}.log", "worker.Worker", *arguments, "--work-dir", str(own), url)
            )
        _said(log, r"Registering worker", times=workers)
        yield url


@contextmanager
def _running(log: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    settings = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM}
    environment = {**os.environ, **settings}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE)


def _said(log: Path, pattern: str, times: int = 1) -> list[str]:
    """Wait until a log says something so many times; return what it says."""
    end = time.monotonic() + DEADLINE
    while len(found := re.findall(pattern, log.read_text("utf-8", "replace"))) < times:
        assert time.monotonic() < end, f"{log} does not say {pattern!r}:\n{log.read_text('utf-8', 'replace')}"
        time.sleep(0.05)
    return found
