"""Spark sessions that fit rankcast: where Java is, the settings that the pipeline relies on, and why Spark failed.

Any session will do if it has `REQUIRED`; `spark_session()` makes one, and `check_session` says what a session of one's
own lacks. Each setting stands here with its reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from rankcast.model.errors import RankcastError, shown

MINIMUM_JAVA = 17
"""What Spark 4 needs."""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

REQUIRED: Mapping[str, str] = {
    # transformWithState keeps its state in RocksDB and refuses any other store.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # Two attempts of one task would write one shard's state at the same time.
    "spark.speculation": "false",
}

PREFERRED: Mapping[str, str] = {
    # Times are UTC everywhere in rankcast: what Spark shows and parses should be the same.
    "spark.sql.session.timeZone": "UTC",
    # One matching call, and one packed row per shard, for each of these: fewer would be all overhead.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Saves what changed of the state instead of a snapshot with every micro-batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # To count the keys of the state, Spark would read the old value of each that is written; here they are large.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Python workers are forked from a daemon that has imported rankcast already.
    "spark.python.daemon.module": "rankcast.spark.daemon",
}

PARTITIONS = "spark.sql.shuffle.partitions"
INITIAL_PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"

_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_OWN = re.compile(r"^rankcast\.[\w.]+: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^\[[A-Z_.0-9]+\] ")

_USUAL_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines")


class SparkSetupError(RankcastError):
    """Spark cannot be used as it is set up: no Java, or a session with other settings than the pipeline needs."""


def spark_session(
    master: str | None = None, *, name: str = "rankcast", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with the settings that rankcast needs; `settings` are added to them.

    Without a `master` it is the one of `spark-submit` or, in a plain process, all cores of this machine. A session
    that is already running is used if it has the settings. On one machine a stream keeps its state in as many
    partitions as there are cores, unless `spark.sql.shuffle.partitions` is set: Spark's 200 are for clusters, and every
    one of them costs time with every micro-batch.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        prepare_environment()
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    elif running is None and "PYSPARK_GATEWAY_PORT" not in os.environ and "MASTER" not in os.environ:
        builder = builder.master("local[*]")
    for key, value in {**REQUIRED, **PREFERRED, **(settings or {})}.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    check_session(found)
    if running is None:
        _fit_to_machine(found)
    return found


def _fit_to_machine(spark: SparkSession) -> None:
    context = spark.sparkContext
    if str(context.master).startswith("local") and not context.getConf().contains(PARTITIONS):
        # Batches start from as many partitions as before, which Spark then joins as it sees fit; streams cannot.
        spark.conf.set(INITIAL_PARTITIONS, spark.conf.get(PARTITIONS) or "200")
        spark.conf.set(PARTITIONS, str(context.defaultParallelism))


def check_session(spark: SparkSession) -> None:
    """Raise SparkSetupError when a session has another setting than one that the pipeline relies on."""
    for key, wanted in REQUIRED.items():
        found = spark.conf.get(key, None)
        if found != wanted and not (found is None and wanted == "false"):
            raise SparkSetupError(
                f"the Spark session has {key} = {shown(found)}; the pipeline needs {wanted}: "
                f"set it where the session is built, or use rankcast.spark.spark_session()"
            )


def prepare_environment() -> None:
    """Let a JVM start from this process: find Java where JAVA_HOME is not set, and use this Python for the workers."""
    home = java_home()
    if home is None:
        raise SparkSetupError(
            f"no Java {MINIMUM_JAVA} or newer found, which Spark needs: install a JRE (Debian, Ubuntu: "
            "apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def java_home() -> Path | None:
    """Return the home of a Java that is new enough: JAVA_HOME, the one on the path, or one in the usual folders."""
    candidates = [os.environ["JAVA_HOME"]] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path is not None:
        candidates.append(str(Path(on_path).resolve().parent.parent))
    return next((home for home in map(Path, (*candidates, *_usual_homes())) if _is_new_enough(home)), None)


def _usual_homes() -> Iterable[str]:
    """Return what lies in the usual folders, oldest version first: Spark supports the long-term releases longest."""
    folders = [Path(folder) for folder in _USUAL_FOLDERS if Path(folder).is_dir()]
    homes = [home / "Contents" / "Home" if "Library" in home.parts else home for f in folders for home in f.iterdir()]
    return [str(home) for home in sorted(homes, key=lambda home: (_version(home) or 0, str(home)))]


def _is_new_enough(home: Path) -> bool:
    version = _version(home)
    return version is not None and version >= MINIMUM_JAVA


def _version(home: Path) -> int | None:
    """Return the major version of a Java; its release file answers without starting a JVM."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    release = home / "release"
    if release.is_file():
        found = re.search(r'^JAVA_VERSION="([^"]*)"', release.read_text("utf-8", "replace"), re.MULTILINE)
    else:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
        found = re.search(r'version "([^"]*)"', said)
    numbers = re.match(r"(?:1\.)?(\d+)", found[1]) if found else None  # "1.8.0_402" is Java 8
    return int(numbers[1]) if numbers else None


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure in one line, out of the many that Spark gives.

    An error in a worker or in a sink reaches the driver as the text of a traceback, inside the text of another error.
    What matters is the innermost exception; of an error of rankcast, its message alone, which names place and value.

    >>> reason_of(
    ...     Exception(
    ...         "[X_FAILED] no\\nTraceback:\\n  File ...\\nrankcast.model.errors.InvalidFileError: out: is full\\n"
    ...     )
    ... )
    'out: is full'
    >>> reason_of(Exception("[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\\n== Plan ==\\n..."))
    'The table `x` cannot be found.'
    """
    text = str(error)
    own = _OWN.findall(text)
    if own:
        return str(own[0])
    if "Traceback" in text:
        raised = _RAISED.findall(text[text.index("Traceback") :])
        if raised:
            name, message = raised[0]
            return f"{name}: {message}"
    lines = [line for line in text.splitlines() if line.strip()]
    return _CLASS.sub("", lines[0].strip()) if lines else type(error).__name__
