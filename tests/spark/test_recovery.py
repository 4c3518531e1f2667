"""What survives: a stream that is killed again and again has the output of one that never was."""

import random
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import spark_stream_program
from crashing_programs import Program, files_under, until
from rankcast.model.errors import InvalidFileError
from spark.builders import forget_last_commit
from spark_cluster import SPARK_HOME, standalone_cluster
from spark_stream_program import outputs_of

PROGRAM = [sys.executable, spark_stream_program.__file__]
SEED = 11


@pytest.fixture(scope="module")
def uninterrupted(spark, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    spark_stream_program.prepare(folder)
    spark_stream_program.run(folder, spark)
    return folder


def test_the_uninterrupted_stream_is_worth_comparing_with(uninterrupted: Path) -> None:
    outputs = outputs_of(uninterrupted)
    assert set(outputs) == {"late", "lists", "notifications", "rejected"}
    assert len(outputs["notifications"]) > 300
    assert len(outputs["rejected"]) == spark_stream_program.FILES
    assert len(outputs["late"]) == spark_stream_program.FILES - 2
    people = {line.partition('"subscriber":"')[2].partition('"')[0] for line in outputs["notifications"]}
    assert len(people) == 34


def start(folder: Path, *arguments: str) -> Program:
    return Program([*PROGRAM, str(folder), *arguments], folder / "log")


def said(folder: Path) -> str:
    return (folder / "log").read_text()[-5_000:]


def _has_come(files: float, watched: list[Path]) -> bool:
    return files_under(*watched) >= files


def test_kill_9_of_driver_and_workers_loses_nothing_and_repeats_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    folder = tmp_path / "killed"
    spark_stream_program.prepare(folder)
    watched = [folder / "checkpoint", folder / "out"]
    whole = files_under(uninterrupted / "checkpoint", uninterrupted / "out")
    for share in (draw.uniform(0.02, 0.4), draw.uniform(0.4, 0.8)):
        moment = partial(_has_come, share * whole, watched)
        assert until(lambda moment=moment: start(folder).killed_when(moment)), said(folder)
    # Tasks may be tried again now: the stream goes on when its Python workers are killed in mid-batch.
    program = start(folder, "local[2,4]")
    program.loses_workers_when(partial(_has_come, 0.82 * whole, watched))
    assert program.wait() == 0 or until(lambda: start(folder).wait() == 0), said(folder)
    assert outputs_of(folder) == outputs_of(uninterrupted)


@contextmanager
def full_disk(batch: int) -> Iterator[None]:
    """Let nothing be written any more from batch 2 on."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if batch >= 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_stops_the_stream_with_a_clear_error_and_nothing_is_lost(
    spark, uninterrupted: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "full"
    spark_stream_program.prepare(folder)
    with pytest.raises(StreamingQueryException, match="cannot be written: File too large"):
        spark_stream_program.run(folder, spark, around=full_disk)
    spark_stream_program.run(folder, spark)
    assert outputs_of(folder) == outputs_of(uninterrupted)


ON_A_SMALL_DISK = """
checkpoint=$1 kept=$2 size=$3; shift 3
mount -t tmpfs -o "size=$size" rankcast "$checkpoint" || exit 9
"$@"; code=$?
cp -a "$checkpoint/." "$kept" || exit 9
exit $code
"""
"""Runs a command with a checkpoint on a file system of its own, which only the command sees; keeps what is on it."""


@pytest.mark.soak
def test_a_disk_that_is_full_for_spark_itself_stops_the_stream_and_nothing_is_lost(
    uninterrupted: Path, tmp_path: Path
) -> None:
    folder, kept = tmp_path / "small", tmp_path / "kept"
    spark_stream_program.prepare(folder)
    (folder / "checkpoint").mkdir()
    kept.mkdir()
    whole = sum(path.stat().st_blocks * 512 for path in (uninterrupted / "checkpoint").rglob("*"))
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    command += [str(folder / "checkpoint"), str(kept), str(whole // 2)]
    program = Program([*command, *PROGRAM, str(folder)], tmp_path / "log")
    assert program.wait() == 1, program.said()
    assert "No space left on device" in program.said()
    before = outputs_of(folder)
    assert all(set(lines) <= set(outputs_of(uninterrupted)[name]) for name, lines in before.items())
    kept.rename(folder / "checkpoint")
    assert until(lambda: start(folder).wait() == 0), said(folder)
    assert outputs_of(folder) == outputs_of(uninterrupted)


def test_a_standalone_cluster_of_two_workers_puts_out_the_same(uninterrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "submitted"
    spark_stream_program.prepare(folder)
    submit = SPARK_HOME / "bin" / "spark-submit"
    # Spark's script would look for its home by itself, and not find it in a path with a space.
    environment = {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with standalone_cluster(tmp_path / "cluster") as master:
        command = [str(submit), "--master", master, spark_stream_program.__file__, str(folder), master]
        program = Program(command, tmp_path / "log", **environment)
        assert program.wait() == 0, program.said()
    executors = {log.parent.name for log in (tmp_path / "cluster").glob("worker-*/app-*/*/stderr")}
    assert len(executors) == 2
    assert outputs_of(folder) == outputs_of(uninterrupted)


def test_a_batch_that_is_done_again_gives_the_same_output(spark, uninterrupted: Path) -> None:
    before = outputs_of(uninterrupted)
    forget_last_commit(uninterrupted / "checkpoint")
    spark_stream_program.run(uninterrupted, spark)
    assert outputs_of(uninterrupted) == before


@pytest.fixture
def finished(uninterrupted: Path, tmp_path: Path) -> Path:
    """A copy of the stream, its last batch to be done again."""
    folder = tmp_path / "copy"
    shutil.copytree(uninterrupted, folder)
    forget_last_commit(folder / "checkpoint")
    return folder


@pytest.mark.parametrize("damaged", ["offsets/*", "subscribers/pins/*", "state/0/*/*"])
def test_a_corrupt_checkpoint_is_an_error_and_what_is_put_out_stays(spark, finished: Path, damaged: str) -> None:
    """All of the state: Spark makes good a damaged snapshot of it by its logs of changes, as long as it has these."""
    before = outputs_of(finished)
    for file in (finished / "checkpoint").glob(damaged):
        if file.is_file():
            file.write_bytes(b"damaged")
    with pytest.raises((StreamingQueryException, InvalidFileError)):
        spark_stream_program.run(finished, spark)
    assert outputs_of(finished) == before
