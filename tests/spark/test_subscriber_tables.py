"""Subscriber tables: what rows say, what is reported about bad ones, what is written is read back."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import Sliding
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import NEVER, microseconds
from rankcast.spark.subscribers.tables import (
    DataFrameTable,
    FolderTable,
    RowReader,
    RowReading,
    TableRow,
    append_subscribers,
)
from rankcast.spark.subscribers.timelines import ALWAYS
from rankcast.testing.strategies import subscribers

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHEAP = {"subscriptions": [{"filter": "rent < 900", "rank": 0.5}]}


def rows(*values: dict) -> list[TableRow]:
    return [TableRow("table", at, one) for at, one in enumerate(values, start=1)]


def read(*values: dict) -> RowReading:
    return RowReader().read(rows(*values))


def messages(*values: dict) -> list[str]:
    return [str(problem) for problem in read(*values).problems]


def test_a_row_has_a_document_or_the_same_in_columns() -> None:
    as_text = read({"id": "ana", "document": json.dumps({"id": "ana", **CHEAP})})
    without_id = read({"id": "ana", "document": json.dumps(CHEAP)})
    in_columns = read({"id": "ana", **CHEAP, "deliver": None, "sequence": None})
    assert as_text == without_id == in_columns
    assert as_text.problems == ()


def test_times_are_texts_or_times() -> None:
    said = [read({"id": "ana", **CHEAP, "active_from": start}) for start in ("2026-03-01T12:00:00Z", NOON)]
    assert said[0] == said[1]
    (period,) = said[0].timelines["ana"]
    assert (period.start, period.end) == (microseconds(NOON), NEVER)


def test_a_row_without_a_document_says_that_the_subscriber_is_not_there() -> None:
    later = {"id": "ana", "document": None, "active_from": NOON, "sequence": 1}
    (period,) = read({"id": "ana", "document": json.dumps(CHEAP)}, later).timelines["ana"]
    assert (period.start, period.end) == (ALWAYS, microseconds(NOON))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"document": json.dumps(CHEAP)}, "subscriber id: None is not a string of 1 to 1000 characters"),
        ({"id": 7, **CHEAP}, "subscriber id: 7 is not a string of 1 to 1000 characters"),
        ({"id": "ana", "document": "{"}, "document: not JSON: Expecting property name"),
        ({"id": "ana", "document": "[]"}, "document: [] is not an object; expected a subscriber in JSON"),
        ({"id": "ana", "document": '{"id": "eva"}'}, "document: its id is 'eva'; expected 'ana', the row's"),
        ({"id": "ana", **CHEAP, "active_from": "soon"}, "active_from: 'soon' is not a time; expected an RFC 3339"),
        ({"id": "ana", **CHEAP, "active_from": 5}, "active_from: 5 is not a time; expected an RFC 3339 time"),
        ({"id": "ana", **CHEAP, "active_from": NOON, "active_until": NOON}, "active_until: 2026-03-01 12:00:00+00:00"),
        ({"id": "ana", **CHEAP, "sequence": -1}, "sequence: -1 is not a whole number from 0 to 2^63-1"),
        ({"id": "ana", **CHEAP, "sequence": 1.5}, "sequence: 1.5 is not a whole number from 0 to 2^63-1"),
        ({"id": "ana", **CHEAP, "delivr": 1}, "subscriber 'ana': unknown key 'delivr'; did you mean 'deliver'?"),
        ({"id": "ana", "subscriptions": [{"filter": "rent <"}]}, "subscriber 'ana', subscription '1': filter: column"),
        ({"id": "ana", "document": '{"subscriptions": 5}'}, "subscriber 'ana', subscriptions: 5 is not a list"),
    ],
)
def test_a_bad_row_is_reported_with_its_place_its_value_and_what_was_expected(row: dict, message: str) -> None:
    (found,) = messages({"id": "eva", **CHEAP}, row)
    assert found.startswith(f"table:2: {message}")


def test_rows_that_count_as_much_and_differ_are_reported() -> None:
    other = {"subscriptions": [{"filter": "rooms > 3"}]}
    (found,) = messages({"id": "ana", **CHEAP}, {"id": "ana", **CHEAP}, {"id": "ana", **other})
    assert found.startswith("table:3: subscriber 'ana': table:1 says something else from the same active_from on")


def test_a_warning_does_not_make_a_reading_bad() -> None:
    found = read({"id": "ana", "subscriptions": [{"filter": "x > 2 and x < 1"}]})
    assert all(problem.warning for problem in found.problems)
    assert [problem.warning for problem in found.problems] == [True]


def test_texts_that_are_known_are_not_read_again(monkeypatch) -> None:
    reader = RowReader()
    first = reader.read(rows({"id": "ana", **CHEAP}))
    monkeypatch.setattr("rankcast.spark.subscribers.tables.subscribers_from_document", None)
    assert reader.read(rows({"id": "ana", **CHEAP})) == first


def test_several_revisions_of_one_subscriber_are_read_beside_those_of_others() -> None:
    reader = RowReader()
    found = reader.read(
        rows(
            *({"id": "ana", "subscriptions": [{"filter": f"x > {at}"}], "sequence": at} for at in range(3)),
            {"id": "eva", **CHEAP},
        )
    )
    assert [reader.subscriber(period.document).id for line in found.timelines.values() for period in line] == [
        "ana",
        "eva",
    ]
    assert len(reader.subscribers) == 4


def ana(rent: int) -> Subscriber:
    return Subscriber("ana", (Subscription("1", parse_filter(f"rent < {rent}")),), Sliding(2, 9))


def test_what_is_appended_later_counts_from_its_time_on(tmp_path: Path) -> None:
    append_subscribers(tmp_path, [ana(500)])
    append_subscribers(tmp_path, [ana(700)], active_from=NOON)
    append_subscribers(tmp_path, gone=["ana"], active_from=NOON + timedelta(hours=1))
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["00000001.jsonl", "00000002.jsonl", "00000003.jsonl"]
    content = FolderTable(tmp_path).poll(None)
    reader = RowReader()
    line = reader.read(content.rows).timelines["ana"]
    assert [reader.subscriber(period.document) for period in line] == [ana(500), ana(700)]
    assert [period.end for period in line] == [microseconds(NOON), microseconds(NOON + timedelta(hours=1))]


@settings(max_examples=25)
@given(st.lists(subscribers(), max_size=4, unique_by=lambda one: one.id))
def test_subscribers_are_read_back_as_they_were_written(tmp_path_factory, given_ones: list[Subscriber]) -> None:
    folder = tmp_path_factory.mktemp("table")
    append_subscribers(folder, given_ones)
    reader = RowReader()
    found = reader.read(FolderTable(folder).poll(None).rows)
    assert all(problem.warning for problem in found.problems)
    assert [reader.subscriber(line[0].document) for line in found.timelines.values()] == given_ones


def test_parquet_with_nested_columns_says_the_same_as_lines(tmp_path: Path) -> None:
    document = {"id": "ana", **CHEAP, "deliver": {"policy": "sliding", "k": 3, "window": 9}}
    start = pa.array([NOON], pa.timestamp("ns", "Europe/Lisbon"))
    nested = {name: [value] for name, value in document.items()}
    pq.write_table(pa.table({**nested, "active_from": start, "sequence": [4]}), tmp_path / "a.parquet")
    line = {"id": "ana", "document": document, "active_from": "2026-03-01T12:00:00Z", "sequence": 4}
    (tmp_path / "b.jsonl").write_text(json.dumps(line) + "\n\n")
    content = FolderTable(tmp_path).poll(None)
    assert {row.file for row in content.rows} == {str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl")}
    one, other = (RowReader().read([row]) for row in content.rows)
    assert one.timelines == other.timelines
    assert [(problem.line, problem.message, problem.warning) for problem in one.problems] == [
        (problem.line, problem.message, True) for problem in other.problems
    ]


def test_a_folder_is_read_again_only_when_a_file_of_it_has_changed(tmp_path: Path) -> None:
    table = FolderTable(tmp_path)
    append_subscribers(tmp_path, [ana(500)])
    mark = table.poll(None).mark
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.jsonl").touch()
    (tmp_path / "notes.txt").touch()
    assert table.poll(mark) is None
    append_subscribers(tmp_path, [ana(600)])
    assert table.poll(mark).mark != mark


def test_files_that_cannot_be_read_are_reported_and_the_others_are_read(tmp_path: Path) -> None:
    append_subscribers(tmp_path, [ana(500)])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "bad.jsonl").write_bytes(b'{"id": "eva"\n[1]\n\xff\n')
    content = FolderTable(tmp_path).poll(None)
    assert [row.values["id"] for row in content.rows] == ["ana"]
    places = [(Path(problem.file).name, problem.line) for problem in content.problems]
    assert places == [("bad.jsonl", 1), ("bad.jsonl", 2), ("bad.jsonl", 3), ("bad.parquet", None)]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="No such file or directory"):
        FolderTable(tmp_path / "none").poll(None)


def test_a_dataframe_is_known_by_its_rows(spark) -> None:
    shown = [("ana", json.dumps(CHEAP), NOON, 1), ("eva", json.dumps(CHEAP), None, 1)]
    columns = "id string, document string, active_from timestamp, sequence bigint"
    table = DataFrameTable("crm", lambda: spark.createDataFrame(shown, columns))
    content = table.poll(None)
    found = RowReader().read(content.rows)
    assert [period.start for period in found.timelines["ana"]] == [microseconds(NOON)]
    shown.reverse()
    assert table.poll(content.mark) is None
    shown.pop()
    assert table.poll(content.mark) is not None


def test_a_table_of_a_database_is_read_through_jdbc(spark, tmp_path: Path) -> None:
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    database = {
        "url": "jdbc:derby:memory:crm;create=true",
        "table": "subscribers",
        "properties": {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"},  # a database that Spark brings along
    }
    columns = "id string, document string, active_from timestamp, sequence bigint"
    spark.createDataFrame([("ana", json.dumps(CHEAP), NOON, 1)], columns).write.jdbc(**database)
    table = DataFrameTable("crm", lambda: spark.read.jdbc(**database))
    content = table.poll(None)
    assert [period.start for period in RowReader().read(content.rows).timelines["ana"]] == [microseconds(NOON)]
    assert table.poll(content.mark) is None
    spark.createDataFrame([("eva", json.dumps(CHEAP), None, 1)], columns).write.jdbc(**database, mode="append")
    assert set(RowReader().read(table.poll(content.mark).rows).timelines) == {"ana", "eva"}
