"""Sessions: Java is found, settings are checked, workers know rankcast."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rankcast.spark import session as sessions
from rankcast.spark.session import (
    INITIAL_PARTITIONS,
    PARTITIONS,
    REQUIRED,
    SparkSetupError,
    _fit_to_machine,
    check_session,
    java_home,
    prepare_environment,
    spark_session,
)


def test_a_session_has_what_the_pipeline_needs(spark):
    check_session(spark)
    assert all(spark.conf.get(key) == value for key, value in REQUIRED.items())


def test_a_running_session_is_used_again(spark):
    assert spark_session() is spark


def test_a_session_with_another_state_store_is_refused_by_the_name_of_its_setting(spark):
    key = "spark.sql.streaming.stateStore.providerClass"
    wanted = spark.conf.get(key)
    spark.conf.set(key, "some.other.Store")
    try:
        with pytest.raises(SparkSetupError, match=r"stateStore\.providerClass = 'some\.other\.Store'"):
            check_session(spark)
    finally:
        spark.conf.set(key, wanted)


@pytest.mark.parametrize(
    ("master", "stated", "partitions", "initial"),
    [
        ("local[2]", False, "2", "200"),
        ("local[2]", True, "200", None),
        ("spark://host:7077", False, "200", None),
    ],
)
def test_streams_on_one_machine_have_as_many_partitions_as_cores_unless_it_is_stated(
    master, stated, partitions, initial
):
    context = SimpleNamespace(
        master=master, defaultParallelism=2, getConf=lambda: SimpleNamespace(contains=lambda _: stated)
    )
    held = {PARTITIONS: "200"}
    conf = SimpleNamespace(get=held.get, set=held.__setitem__)
    _fit_to_machine(SimpleNamespace(sparkContext=context, conf=conf))
    assert (held[PARTITIONS], held.get(INITIAL_PARTITIONS)) == (partitions, initial)


def test_workers_are_forked_with_rankcast_imported(spark):
    def modules(batches):
        import pyarrow as pa  # noqa: PLC0415 (runs in a worker)

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"there": ["numba" in sys.modules]})

    assert [row.there for row in spark.range(1).mapInArrow(modules, "there boolean").collect()] == [True]


def _java(folder, version, *, executable=True):
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.touch()
    java.chmod(0o755 if executable else 0o644)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_is_found_where_java_home_says_else_in_the_usual_folders_oldest_that_is_new_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sessions, "_USUAL_FOLDERS", (str(tmp_path / "jvm"),))
    _java(tmp_path / "jvm" / "a", "21.0.1")
    _java(tmp_path / "jvm" / "b", "1.8.0_402")
    wanted = _java(tmp_path / "jvm" / "c", "17.0.9")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_home() == wanted
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "own", "25")))
    assert java_home() == tmp_path / "own"
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "old", "11.0.2")))
    assert java_home() == wanted


def test_no_java_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(sessions, "_USUAL_FOLDERS", (str(_java(tmp_path / "x" / "y", "17", executable=False).parent),))
    with pytest.raises(SparkSetupError, match=r"no Java 17 or newer found.*set JAVA_HOME"):
        prepare_environment()


def test_the_environment_is_given_the_home_that_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "own", "21")))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "python-of-the-user")
    prepare_environment()
    assert Path(os.environ["JAVA_HOME"]) == tmp_path / "own"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == "python-of-the-user"
