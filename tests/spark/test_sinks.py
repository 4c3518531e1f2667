"""What sinks promise: every row of every batch once, whatever is written again, and no mixing of two runs."""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import postgres_server
from rankcast.model.errors import InvalidFileError, InvalidValueError
from rankcast.spark.metrics import Counts
from rankcast.spark.sinks.databases import DatabaseError, DatabaseSink, is_database
from rankcast.spark.sinks.files import FileSink
from rankcast.spark.sinks.outputs import computed
from rankcast.spark.sinks.sinks import run_of, sink_of, write_outputs

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "subscriber": pa.string(),
        "subscription": pa.string(),
        "source": pa.string(),
        "id": pa.string(),
        "time": TIME,
        "rank": pa.float64(),
        "matched": pa.list_(pa.string()),
        "delivered": TIME,
        "city": pa.string(),
        "reason": pa.string(),
        "original": pa.string(),
        "events": pa.int64(),
        "matches": pa.int64(),
    }
)


def notification(number: int, subscriber: str = "ana", subscription: str | None = None, rank: float = 0.5) -> tuple:
    time = START + timedelta(seconds=number)
    event = ("/flats", f"flat-{number}", time, rank, ["fair"], time + timedelta(minutes=1), "Porto")
    return ("notification", subscriber, subscription, *event, None, None, None, None)


def late(number: int) -> tuple:
    return ("late", None, None, "/flats", f"flat-{number}", START, *[None] * 8)


def rejected(original: str) -> tuple:
    return ("rejected", *[None] * 9, "not JSON", original, None, None)


def counts(events: int, matches: int) -> tuple:
    return ("counts", *[None] * 11, events, matches)


FIRST = [notification(1), notification(2, subscription="large"), late(7), rejected("{"), counts(3, 3)]
SECOND = [notification(3), notification(1, "rui"), rejected("}"), rejected("}"), counts(2, 2)]


def frame(spark: SparkSession, rows: list[tuple]) -> DataFrame:
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(named, SCHEMA))


class Kind(NamedTuple):
    """A database and a way to ask it."""

    url: str
    ask: Callable[[str], list[tuple]]


def opened(address: Kind) -> DatabaseSink:
    sink = DatabaseSink(address.url)
    sink.open("run")
    return sink


def write(spark: SparkSession, sink: object, number: int, rows: list[tuple]) -> None:
    with computed(frame(spark, rows), number) as batch:
        sink.write(batch)


def test_one_pass_over_a_batch_gives_its_tables_and_its_counts(spark):
    with computed(frame(spark, FIRST), 0) as batch:
        assert batch.counts == Counts(events=3, matches=3, delivered=2, late=1, rejected=1)
        columns = {output.table: table.columns for output, table in batch.tables.items()}
    assert columns["notifications"][-2:] == ["delivered", "city"]
    assert columns["rejected"] == ["reason", "original"]
    assert columns["late"] == ["source", "id", "time"]


@pytest.mark.parametrize("written", ["parquet", "json"])
def test_every_table_of_a_folder_reads_as_one(spark, tmp_path, written):
    sink = FileSink(spark, str(tmp_path / "out"), format=written)
    sink.open("run")
    write(spark, sink, 0, FIRST)
    write(spark, sink, 1, SECOND)
    read = spark.read.format(written).load
    notifications = read(str(tmp_path / "out" / "notifications"))
    assert sorted((row.subscriber, row.id, row.batch) for row in notifications.collect()) == [
        ("ana", "flat-1", 0),
        ("ana", "flat-2", 0),
        ("ana", "flat-3", 1),
        ("rui", "flat-1", 1),
    ]
    assert sorted(row.original for row in read(str(tmp_path / "out" / "rejected")).collect()) == ["{", "}", "}"]
    assert [row.id for row in read(str(tmp_path / "out" / "late")).collect()] == ["flat-7"]


def test_a_batch_that_is_written_again_replaces_all_that_an_attempt_left(spark, tmp_path):
    out = tmp_path / "out"
    sink = FileSink(spark, str(out))
    sink.open("run")
    write(spark, sink, 0, FIRST)
    write(spark, sink, 1, [*SECOND, late(8)])
    half_written = out / "notifications" / "_writing-1"
    half_written.mkdir()
    (half_written / "part-0.parquet").write_bytes(b"cut off")
    orphan = out / "notifications" / "batch=1" / "part-99999.parquet"
    orphan.write_bytes(b"an orphan")
    write(spark, sink, 1, SECOND)
    assert spark.read.parquet(str(out / "notifications")).count() == 4
    assert not orphan.exists()
    assert not half_written.exists()
    assert not (out / "late" / "batch=1").exists()


def test_an_output_without_rows_is_an_empty_table(spark, tmp_path):
    write_outputs(frame(spark, [counts(5, 0)]), FileSink(spark, str(tmp_path / "out")))
    for table in ("notifications", "late", "rejected"):
        found = spark.read.parquet(str(tmp_path / "out" / table))
        assert (found.count(), len(found.columns) > 1) == (0, True)


def test_a_folder_belongs_to_one_run(spark, tmp_path):
    FileSink(spark, str(tmp_path / "out")).open("one")
    FileSink(spark, str(tmp_path / "out")).open("one")
    with pytest.raises(InvalidFileError, match=r"out: holds the output of another run"):
        FileSink(spark, str(tmp_path / "out")).open("two")
    with pytest.raises(InvalidFileError, match=r"out: holds parquet files; this run writes json"):
        FileSink(spark, str(tmp_path / "out"), format="json").open("one")


def test_a_folder_with_other_things_in_it_is_left_alone(spark, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidFileError, match=r"holds 'thesis.txt', which is no output of rankcast"):
        FileSink(spark, str(tmp_path)).open("run")
    with pytest.raises(InvalidFileError, match=r"thesis.txt: is a file; expected a folder"):
        FileSink(spark, str(tmp_path / "thesis.txt")).open("run")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_format_is_refused(spark, tmp_path):
    with pytest.raises(InvalidValueError, match="'xml' is unknown; expected parquet or json"):
        FileSink(spark, str(tmp_path), format="xml")


def test_a_marker_of_another_version_is_refused(spark, tmp_path):
    (tmp_path / "_rankcast.json").write_text('{"version": 99}')
    with pytest.raises(InvalidFileError, match="cannot read"):
        FileSink(spark, str(tmp_path)).open("run")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> Iterator[Kind]:
    if request.param == "sqlite":
        path = tmp_path / "out.db"

        def ask_sqlite(statement: str) -> list[tuple]:
            connection = sqlite3.connect(path)
            try:
                return connection.execute(statement).fetchall()
            finally:
                connection.close()

        yield Kind(f"sqlite:///{path}", ask_sqlite)
        return
    url = request.getfixturevalue("postgres")

    def ask_postgres(statement: str) -> list[tuple]:
        with psycopg.connect(url) as connection:
            return connection.execute(statement).fetchall()

    yield Kind(url, ask_postgres)
    with psycopg.connect(url) as connection:
        for table in ("notifications", "late", "rejected", "rankcast_queries"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")


def test_a_database_gets_every_row_once_however_often_a_batch_is_written(spark, database):
    sink = opened(database)
    for number, rows in ((0, FIRST), (0, FIRST), (1, SECOND), (1, SECOND)):
        write(spark, sink, number, rows)
    found = database.ask(
        "SELECT subscriber, subscription, source, id, rank, city, batch FROM notifications ORDER BY 1, 4"
    )
    assert found == [
        ("ana", "", "/flats", "flat-1", 0.5, "Porto", 0),
        ("ana", "large", "/flats", "flat-2", 0.5, "Porto", 0),
        ("ana", "", "/flats", "flat-3", 0.5, "Porto", 1),
        ("rui", "", "/flats", "flat-1", 0.5, "Porto", 1),
    ]
    assert database.ask("SELECT id, batch FROM late") == [("flat-7", 0)]
    assert database.ask("SELECT original, batch FROM rejected ORDER BY batch, original") == [
        ("{", 0),
        ("}", 1),
        ("}", 1),
    ]


def test_times_and_lists_keep_their_meaning(spark, database):
    sink = opened(database)
    write(spark, sink, 0, FIRST)
    (found,) = database.ask("SELECT time, delivered, matched FROM notifications WHERE id = 'flat-1'")
    if database.url.startswith("sqlite"):
        assert found == ("2026-03-01T09:00:01Z", "2026-03-01T09:01:01Z", '["fair"]')
    else:
        assert found == (START + timedelta(seconds=1), START + timedelta(seconds=61), ["fair"])


def test_a_batch_that_fails_half_way_leaves_nothing(spark, database):
    sink = opened(database)
    write(spark, sink, 0, FIRST)
    broken = frame(spark, [notification(9)]).selectExpr(
        *[name for name in frame(spark, []).columns if name != "original"],
        "cast(raise_error('the disk is gone') as string) AS original",
    )
    rows = frame(spark, SECOND).unionByName(broken.where("kind = 'rejected' OR original IS NULL"))
    with pytest.raises(Exception, match="the disk is gone"), computed(rows, 1) as batch:
        sink.write(batch)
    assert database.ask("SELECT count(*) FROM notifications WHERE batch = 1") == [(0,)]


def test_queries_share_a_database_and_a_query_belongs_to_one_run(spark, database):
    for name in ("flats", "films"):
        sink = DatabaseSink(database.url, query=name)
        sink.open(f"run of {name}")
        write(spark, sink, 0, FIRST)
    assert database.ask("SELECT query, count(*) FROM notifications GROUP BY query ORDER BY query") == [
        ("films", 2),
        ("flats", 2),
    ]
    with pytest.raises(DatabaseError, match="the rows of query 'flats' belong to another run"):
        DatabaseSink(database.url, query="flats").open("another")


def test_columns_that_come_later_are_added(spark, database):
    sink = opened(database)
    write(spark, sink, 0, FIRST)
    again = DatabaseSink(database.url)
    with computed(frame(spark, SECOND).withColumnRenamed("city", 'a "quoted" name'), 1) as batch:
        again.write(batch)
    assert database.ask('SELECT "a ""quoted"" name" FROM notifications ORDER BY batch, subscriber') == [
        (None,),
        (None,),
        ("Porto",),
        ("Porto",),
    ]


def test_characters_that_a_database_cannot_hold_are_escaped(spark, database):
    sink = opened(database)
    write(spark, sink, 0, [rejected("a\x00b 'quoted'\t\\N \U0001f600")])
    assert database.ask("SELECT original FROM rejected") == [("a\\u0000b 'quoted'\t\\N \U0001f600",)]


def test_what_is_wrong_with_a_database_is_one_line_without_the_password(tmp_path):
    with pytest.raises(DatabaseError, match=r"^postgresql://ana@/flats\?host=/nowhere: [^\n]*No such file[^\n]*$"):
        DatabaseSink("postgresql://ana:secret@/flats?host=/nowhere").open("run")
    with pytest.raises(DatabaseError, match="unable to open database file"):
        DatabaseSink(f"sqlite:///{tmp_path}/missing/out.db").open("run")
    for address in ("sqlite://", "sqlite://host/out.db", "mysql://host/name"):
        with pytest.raises(InvalidValueError, match="expected sqlite:///"):
            DatabaseSink(address)


def test_the_address_of_an_output_says_what_it_is(spark, tmp_path):
    assert is_database("postgresql://localhost/flats")
    assert not is_database("hdfs://host/out")
    assert isinstance(sink_of(spark, f"sqlite:///{tmp_path}/out.db"), DatabaseSink)
    assert isinstance(sink_of(spark, str(tmp_path)), FileSink)


def test_a_checkpoint_names_its_run_and_nothing_else_is_taken_for_one(spark, tmp_path, monkeypatch, caplog):
    checkpoint = str(tmp_path / "checkpoint")
    assert run_of(spark, checkpoint) == run_of(spark, checkpoint)
    assert not caplog.records
    monkeypatch.setattr("rankcast.spark.sinks.sinks.TZDATA_VERSION", "2099z")
    run_of(spark, checkpoint)
    assert "began with the calendars of tzdata 2" in caplog.messages[0]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidFileError, match=r"other: holds other things but no rankcast.json"):
        run_of(spark, str(tmp_path / "other"))
    marker = tmp_path / "checkpoint" / "rankcast.json"
    marker.write_text('{"version": 99, "run": "from the future"}')
    with pytest.raises(InvalidFileError, match=r"rankcast.json: Checksum error"):
        run_of(spark, str(tmp_path / "checkpoint"))
    marker.with_name(".rankcast.json.crc").unlink()
    with pytest.raises(InvalidFileError, match="that this version cannot read"):
        run_of(spark, str(tmp_path / "checkpoint"))
