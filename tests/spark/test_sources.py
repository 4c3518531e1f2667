"""Sources: every event of every format, and every row that is none with its reason; nothing lost, nothing fatal."""

import gzip
import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from rankcast.model.errors import InvalidFileError, InvalidValueError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.samples.feeds import DEFAULT_START, feed_named
from rankcast.spark.session import SparkSetupError
from rankcast.spark.sources.event_values import ORIGINAL, REASON
from rankcast.spark.sources.sources import (
    Layout,
    Piece,
    csv_rows,
    events_of_messages,
    format_of,
    rate_events,
    read_events,
    read_kafka,
    row_of,
    source_of,
)
from rankcast.storage.events.files import EventFormat, write_events
from rankcast.storage.events.files import read_events as read_file

FLATS = feed_named("flats")
SCHEMA = Schema({"city": ValueType.STRING, "rent": ValueType.INT, "size.rooms": ValueType.INT}, frozenset({"rent"}))
GOOD = '{"id": 1, "time": "2026-03-01T09:00:00Z", "city": "Porto", "rent": 700, "size": {"rooms": 2}}'


def rows(events: DataFrame) -> list[dict]:
    return [row.asDict(recursive=True) for row in events.collect()]


def good(events: DataFrame) -> list[dict]:
    return [row for row in rows(events) if row[REASON] is None]


def rejected(events: DataFrame) -> list[tuple[str, str]]:
    return sorted((row[REASON], row[ORIGINAL]) for row in rows(events) if row[REASON] is not None)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet"])
def test_a_file_holds_the_same_events_as_for_the_hub(spark, tmp_path, suffix):
    path = tmp_path / f"some flats.{suffix}"
    write_events(path, FLATS.events(40, 1, DEFAULT_START))
    expected = {event.id: dict(event.attributes) for event in read_file(path, FLATS.schema)}
    found = read_events(spark, str(path), FLATS.schema).events
    names = [name for name in found.columns if name not in (REASON, ORIGINAL)]
    for row in rows(found):
        for name in names:
            value = row[name]
            value = value.astimezone(UTC) if isinstance(value, datetime) else value
            assert value == expected[row["id"]].get(name), name
    assert found.count() == 40


def test_a_line_that_is_no_event_is_rejected_with_its_reason_and_the_rest_is_read(spark, tmp_path):
    path = tmp_path / "flats.jsonl"
    bad = ["{", '{"rent": "cheap"}', '{"city": "Faro"}', "[1]", '{"rent": 1, "rent": 2}', '{"rent": 1, "time": "noon"}']
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n\n" + "\n".join(bad).encode() + b'\n{"city": "\xff"}\n')
    found = read_events(spark, str(path), SCHEMA).events
    (row,) = good(found)
    assert (row["id"], row["source"], row["city"], row["rent"], row["size.rooms"]) == (
        "1",
        "flats.jsonl",
        "Porto",
        700,
        2,
    )
    reasons = {original: reason for reason, original in rejected(found)}
    assert reasons.keys() == {*bad, '{"city": "�"}'}
    assert reasons["{"].startswith("flats.jsonl: not JSON: ")
    assert reasons['{"rent": "cheap"}'] == "flats.jsonl: rent: 'cheap' is of type string; expected a value of type int"
    assert reasons['{"city": "Faro"}'] == "flats.jsonl: required attribute missing: rent"
    assert reasons["[1]"] == "flats.jsonl: [1] is not a JSON object"
    assert reasons['{"city": "�"}'].startswith("flats.jsonl: not UTF-8: byte 0xff")


def test_without_a_schema_events_keep_whatever_attributes_they_have(spark, tmp_path):
    path = tmp_path / "flats.jsonl"
    path.write_text(GOOD + '\n{"any": "thing", "price": 1.5}\nnonsense\n')
    found = read_events(spark, str(path))
    assert found.columns.document == "document"
    first, second = (json.loads(row["document"]) for row in good(found.events))
    assert first == {**json.loads(GOOD), "id": "1", "source": "flats.jsonl"}
    assert second.items() >= {"any": "thing", "price": 1.5, "source": "flats.jsonl"}.items()
    assert [original for _, original in rejected(found.events)] == ["nonsense"]


def test_an_event_without_an_id_is_known_by_its_content():
    made = [
        row_of(Piece(text, "a.jsonl"), Layout(SCHEMA))["id"]
        for text in (b'{"rent": 1}', b'{"rent": 1} ', b'{"rent": 2}')
    ]
    assert made[0] == made[1] != made[2]


def test_bad_records_of_a_csv_file_have_their_line(spark, tmp_path):
    path = tmp_path / "flats.csv"
    path.write_text('id,time,city,rent\n1,2026-03-01T09:00:00Z,"Vila\nReal",700\n2,,Porto,cheap\n3,,,\nx,y\n')
    found = read_events(spark, str(path), SCHEMA).events
    assert [(row["id"], row["city"], row["rent"]) for row in good(found)] == [("1", "Vila\nReal", 700)]
    assert rejected(found) == [
        ("flats.csv:4: rent: 'cheap' is not a whole number", "2,,Porto,cheap"),
        ("flats.csv:5: required attribute missing: rent", "3,,,"),
        ("flats.csv:6: 2 cells; expected 4, as in the header; the line is 'x,y'", "x,y"),
    ]


def test_a_csv_file_without_a_schema_keeps_the_types_of_its_header(spark, tmp_path):
    path = tmp_path / "flats.csv"
    path.write_text("id,rent:int,posted:time\n1,700,2026-03-01T09:00:00Z\n")
    (row,) = good(read_events(spark, str(path)).events)
    record = json.loads(row["document"])
    assert record["$event"]["data"] == {"rent": 700, "posted": {"$time": "2026-03-01T09:00:00Z"}}


def test_a_csv_file_that_cannot_be_read_is_rejected_and_the_others_are_read(spark, tmp_path):
    (tmp_path / "good.csv").write_text("id,rent\n1,700\n")
    (tmp_path / "header.csv").write_text("id,id,rent\n1,1,700\n")
    found = read_events(spark, str(tmp_path), SCHEMA).events
    assert [row["source"] for row in good(found)] == ["good.csv"]
    assert rejected(found) == [("header.csv:1: header: the column 'id' occurs twice", "id,id,rent")]


def test_of_a_damaged_csv_file_is_read_what_can_be_read():
    whole = "id,rent\n" + "".join(f"{number},{number * 7919 % 1000}\n" for number in range(100_000))
    packed = gzip.compress(whole.encode(), mtime=0)
    made = list(csv_rows(Piece(packed[: len(packed) // 2], "flats.csv.gz"), Layout()))
    assert 1_000 < len([row for row in made if REASON not in row]) < 100_000
    assert made[-1][REASON].startswith("flats.csv.gz: nothing more can be read: the compressed data is damaged")


def test_the_format_is_that_of_the_files(spark, tmp_path):
    (tmp_path / "a" / "day=1").mkdir(parents=True)
    (tmp_path / "a" / "_SUCCESS").write_text("")
    (tmp_path / "a" / "day=1" / "x.parquet").write_text("")
    assert format_of(spark, str(tmp_path / "a")) is EventFormat.PARQUET
    assert format_of(spark, str(tmp_path / "*.csv.gz")) is EventFormat.CSV
    with pytest.raises(InvalidFileError, match="missing: no such file or folder"):
        format_of(spark, str(tmp_path / "missing"))
    (tmp_path / "a" / "y.csv").write_text("")
    with pytest.raises(InvalidFileError, match="a: files of several formats; say which format the events have"):
        format_of(spark, str(tmp_path / "a"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidFileError, match=r"empty: no event file \(.jsonl, .csv, .parquet\)"):
        format_of(spark, str(tmp_path / "empty"))


def test_a_stream_of_parquet_needs_files_or_a_schema(spark, tmp_path):
    with pytest.raises(InvalidFileError, match="no Parquet file there"):
        read_events(spark, str(tmp_path), format=EventFormat.PARQUET, stream=True)
    found = read_events(spark, str(tmp_path), SCHEMA, format=EventFormat.PARQUET, stream=True).events
    assert found.isStreaming
    assert {"id", "time", "rent"} <= set(found.columns)


def test_kafka_without_its_connector_says_what_to_add(spark):
    with pytest.raises(SparkSetupError, match=r"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\."):
        read_kafka(spark, "localhost:9092", "flats", SCHEMA)


def test_messages_of_kafka_have_an_id_and_a_time_at_least(spark):
    time = datetime(2026, 3, 1, tzinfo=UTC)
    messages = pa.table(
        {
            "key": pa.array([None] * 3, pa.binary()),
            "value": [b'{"rent": 5}', b"{", None],
            "topic": ["flats"] * 3,
            "partition": pa.array([2] * 3, pa.int32()),
            "offset": [7, 8, 9],
            "timestamp": pa.array([time] * 3, pa.timestamp("us", tz="UTC")),
        }
    )
    found = events_of_messages(spark.createDataFrame(messages), SCHEMA).events
    (row,) = good(found)
    assert (row["id"], row["source"], row["rent"]) == ("2/7", "kafka:flats", 5)
    assert row["time"].astimezone(UTC) == time
    assert [reason.partition(": ")[0] for reason, _ in rejected(found)] == [
        "topic flats, partition 2, offset 8",
        "topic flats, partition 2, offset 9",
    ]


def test_the_rate_source_gives_events(spark):
    source = rate_events(spark, 5)
    assert source.events.isStreaming
    assert source.events.columns == ["id", "source", "time", "value"]


def test_the_address_of_events_says_what_they_are(spark, tmp_path):
    write_events(tmp_path / "flats.csv", FLATS.events(3, 1, DEFAULT_START))
    assert source_of(spark, str(tmp_path / "flats.csv"), SCHEMA).events.count() == 3
    assert source_of(spark, "rate://5", stream=True).events.columns[-1] == "value"
    with pytest.raises(SparkSetupError, match="Kafka's connector"):
        source_of(spark, "kafka://one:9092,two:9092/flats", stream=True)
    for address in ("kafka://host", "kafka:///flats", "rate://fast", "rate://5"):
        with pytest.raises(InvalidValueError, match="expected"):
            source_of(spark, address)
