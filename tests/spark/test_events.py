"""Events of DataFrames: columns become attributes as in event files, and rows that are no events are set aside."""

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from rankcast.delivery.engine.contents import WantedContent, content_codes
from rankcast.model.errors import InvalidEventError, RankcastError
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.relevance import Cosine
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import LATEST, TICK
from rankcast.model.values import ValueType, checked_attribute
from rankcast.ranking.batch import RankingTable
from rankcast.spark.matching.stage import rejected_rows
from rankcast.spark.sources.event_reader import ColumnEvents
from rankcast.spark.sources.event_values import ORIGINAL, REASON
from rankcast.spark.sources.events import ARRIVAL, EventColumns, prepared
from rankcast.storage.events.rows import event_of_row
from rankcast.testing.strategies import times

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ARRIVED = datetime(2026, 3, 2, tzinfo=UTC)
UTC_TIME = pa.timestamp("us", "UTC")


def _reader(spark, ddl, columns=None, schema=None):
    return prepared(spark.createDataFrame([], ddl), columns, schema)[1]


def _reading(spark, ddl, columns=None, schema=None):
    """What reads rows of a DataFrame with these columns: it gives the events, and the rows that are none."""
    reader = _reader(spark, ddl, columns, schema)
    fields = to_arrow_schema(spark.createDataFrame([], ddl).schema, timezone="UTC").append(pa.field(ARRIVAL, UTC_TIME))
    return lambda rows: reader.read(pa.RecordBatch.from_pylist([{**row, ARRIVAL: ARRIVED} for row in rows], fields))


def _arriving(**columns):
    rows = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({**columns, ARRIVAL: pa.array([ARRIVED] * rows, UTC_TIME)})


def _attributes(events):
    """The attributes of each event of a batch in columns, as filters see them."""
    columns = pa.RecordBatch.from_pydict(events.columns).to_pylist()
    held = [{name: checked_attribute(value, name) for name, value in row.items()} for row in columns]
    return [{name: value for name, value in row.items() if value is not None} for row in held]


WIDE_DDL = (
    "id string, source string, type string, time timestamp, expirytime timestamp, n bigint, small tinyint, x double, "
    "f float, s string, flag boolean, day date, whole decimal(20,0), price decimal(10,2), "
    "address struct<city: string, zip: int, inner: struct<type: int>>, `data.subject` string, tags array<string>, "
    "scores array<double>, due array<timestamp>"
)
TEXT = st.sampled_from(["", "a", "é", "😀"])
WHOLE = 10**20 - 1
VALUES = {
    "id": st.sampled_from(["1", "2", ""]),
    "source": TEXT,
    "type": TEXT,
    "time": times(),
    "expirytime": times(),
    "n": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-128, 127),
    "x": st.floats(),
    "f": st.floats(width=32),
    "s": TEXT,
    "flag": st.booleans(),
    "day": st.dates(),
    "whole": st.integers(-WHOLE, WHOLE).map(Decimal) | st.integers(-5, 5).map(Decimal),
    "price": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    "address": st.fixed_dictionaries(
        {
            "city": st.none() | TEXT,
            "zip": st.none() | st.integers(0, 99),
            "inner": st.none() | st.fixed_dictionaries({"type": st.none() | st.integers(0, 9)}),
        }
    ),
    "data.subject": TEXT,
    "tags": st.lists(st.none() | TEXT, max_size=3),
    "scores": st.lists(st.none() | st.floats(), max_size=3),
    "due": st.lists(st.none() | times(), max_size=3),
}


def _expected(row):
    """The attributes of a row by the rules of event files, or None when it is no event."""
    plain = {
        name: (int(value) if name == "whole" else float(value)) if isinstance(value, Decimal) else value
        for name, value in row.items()
    }
    try:
        return dict(event_of_row(plain, source="/events").stamped(ARRIVED).attributes)
    except RankcastError:
        return None


@given(rows=st.lists(st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), max_size=4))
def test_columns_become_the_attributes_that_an_event_file_would_give(spark, rows):
    found, rejected = _wide(spark)(rows)
    expected = [_expected(row) for row in rows]
    assert found.rows.tolist() == [at for at, one in enumerate(expected) if one is not None]
    assert len(rejected) == expected.count(None)
    assert _attributes(found) == [one for one in expected if one is not None]


def _wide(spark, known=[]):  # noqa: B006 (made once: it asks Spark for its schema)
    if not known:
        known.append(_reading(spark, WIDE_DDL))
    return known[0]


def test_times_and_expiries_are_microseconds(spark):
    read = _reading(spark, "id string, time timestamp, expirytime timestamp")
    found, _ = read([{"id": "1", "time": NOON}, {"id": "2", "time": NOON, "expirytime": LATEST}])
    micros = (NOON - datetime(1970, 1, 1, tzinfo=UTC)) // TICK
    assert found.times.tolist() == [micros, micros]
    assert found.expires.tolist() == [2**63 - 1, (LATEST - datetime(1970, 1, 1, tzinfo=UTC)) // TICK]


def test_other_columns_can_take_the_envelopes_places(spark):
    columns = EventColumns(id="order_no", time="created", source="shop", expires="until")
    read = _reading(spark, "order_no int, created string, shop string, until date, id string, city string", columns)
    row = {"order_no": 7, "created": "2026-03-01T13:00:00+01:00", "until": date(2026, 3, 2), "id": "x", "city": "Porto"}
    found, rejected = read([row, {**row, "created": "yesterday"}])
    assert _attributes(found) == [
        {
            "id": "7",
            "source": "/events",
            "specversion": "1.0",
            "type": "rankcast.event",
            "time": NOON,
            "expirytime": datetime(2026, 3, 2, tzinfo=UTC),
            "data.id": "x",
            "city": "Porto",
        }
    ]
    assert [one.reason for one in rejected] == [
        "time: 'yesterday' is not a time; expected an RFC 3339 time such as 2026-03-01T09:30:00Z"
    ]
    assert json.loads(rejected[0].original)["created"] == "yesterday"


@pytest.mark.parametrize(
    ("ddl", "columns", "message"),
    [
        ("time timestamp", EventColumns(id="no"), "id: the events have no column 'no'; they have time"),
        ("id string", EventColumns(time="at"), "time: the events have no column 'at'; they have id"),
        ("id double, time timestamp", None, "id: the column 'id' is double; expected a string or a whole number"),
        ("id string, time int", None, "time: the column 'time' is int; expected a timestamp"),
        ("id string, time timestamp, type int", None, "type: the column 'type' is int; expected a string"),
        ("id string, time timestamp", EventColumns(payload="p"), "payload: the events have no column 'p'"),
        ("id int, time timestamp, p int", EventColumns(payload="p"), "payload: the column 'p' is int; expected JSON"),
        ("value int", EventColumns(document="value"), "document: the column 'value' is int; expected JSON"),
    ],
)
def test_a_dataframe_without_events_is_refused_with_what_to_do(spark, ddl, columns, message):
    with pytest.raises(InvalidEventError, match=message):
        _reader(spark, ddl, columns)


def test_payload_and_document_exclude_each_other():
    with pytest.raises(InvalidEventError, match="cannot both be given"):
        EventColumns(payload="a", document="b")


def test_rows_are_checked_against_the_declared_schema(spark):
    declared = {"n": ValueType.INT, "x": ValueType.FLOAT, "t": ValueType.TIME, "s": ValueType.STRING}
    schema = Schema(declared, required=frozenset({"n"}))
    read = _reading(spark, "id int, time timestamp, n double, x bigint, t string, s string", None, schema)
    good = {"id": 1, "time": NOON, "n": 3.0, "x": 2, "t": "2026-03-01", "s": "a"}
    changes = [{}, {"n": 3.5}, {"n": None}, {"n": math.nan}, {"x": 2**53 + 1}, {"t": "soon"}, {"x": None}]
    found, rejected = read([{**good, **change} for change in changes])
    assert found.rows.tolist() == [0, 6]
    (first, _) = _attributes(found)
    assert (first["n"], first["x"], first["t"]) == (3, 2.0, datetime(2026, 3, 1, tzinfo=UTC))
    assert [one.reason.partition(";")[0] for one in rejected] == [
        "n: 3.5 is of type float",
        "required attribute missing: n",
        "required attribute missing: n",
        "x: 9007199254740993 is of type int",
        "t: 'soon' is not a time",
    ]


def test_text_that_is_not_utf8_is_rejected(spark):
    reader = _reader(spark, "id string, time timestamp, s string")
    texts = pa.array([b"good", b"b\xffd"]).cast(pa.binary()).view(pa.string())
    columns = [pa.array(["1", "2"]), pa.array([NOON, NOON], UTC_TIME), texts]
    found, rejected = reader.read(pa.RecordBatch.from_arrays(columns, names=["id", "time", "s"]))
    assert found.rows.tolist() == [0]
    assert [one.reason for one in rejected] == ["s: not UTF-8: byte 0xff at offset 1"]
    assert json.loads(rejected[0].original)["id"] == "2"


def test_what_a_source_could_not_read_is_passed_on(spark):
    read = _reading(spark, f"id string, time timestamp, {REASON} string, {ORIGINAL} string")
    rows = [{"id": "1", "time": NOON}, {REASON: "line 2 is cut short", ORIGINAL: '{"id": '}]
    found, rejected = read(rows)
    assert found.rows.tolist() == [0]
    assert rejected == [("line 2 is cut short", '{"id": ')]


def test_a_payload_column_has_attributes_beside_the_columns(spark):
    read = _reading(spark, "id int, time timestamp, city string, p string", EventColumns(payload="p"))
    payloads = ['{"rent": 700, "type": "flat", "size": {"rooms": 2}, "v": [1, 2.5]}', None, "{", "[1]", '{"city": "x"}']
    rows = [{"id": at, "time": NOON, "city": "Porto", "p": text} for at, text in enumerate(payloads)]
    found, rejected = read(rows)
    first, second = found._events
    assert first.attributes.items() >= {"rent": 700, "data.type": "flat", "size.rooms": 2, "city": "Porto"}.items()
    assert first.vector("v") == (1.0, 2.5)
    assert (second.id, dict(second.data)) == ("1", {"city": "Porto"})
    assert [one.reason.partition(" at ")[0] for one in rejected] == [
        "not JSON: Expecting property name enclosed in double quotes",
        "p: [1] is not a JSON object",
        "city: both a column and a key of p",
    ]


def test_documents_are_cloudevents_or_plain_events(spark):
    reader = _reader(spark, "value string", EventColumns(document="value", default_source="/kafka"))
    cloud = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "time": "2026-03-01T12:00:00Z"}
    typed = {name: value for name, value in cloud.items() if name != "specversion"}
    texts = [
        json.dumps({**cloud, "data": {"rent": 1}}),
        json.dumps({"id": 5, "time": "2026-03-01T12:00:00Z", "rent": 2}),
        json.dumps({"$event": {**typed, "data": {"at": {"$time": "2026-03-01T12:00:00Z"}}}}),
        json.dumps({"id": 5, "rent": 2}),
        json.dumps({"time": "2026-03-01T12:00:00Z"}),
        json.dumps({"$event": {**typed, "at": "2026-03-01T12:00:00Z"}}),
        "no",
        None,
    ]
    found, rejected = reader.read(_arriving(value=pa.array(texts)))
    assert [(event.source, event.id, event.time) for event in found._events] == [
        ("/s", "a", NOON),
        ("/kafka", "5", NOON),
        ("/s", "a", NOON),
        ("/kafka", "5", ARRIVED),
        ("/kafka", found._events[4].identified().id, NOON),
    ]
    assert found._events[2].attributes["at"] == NOON
    assert [one.reason.partition(";")[0].partition(":")[0] for one in rejected] == [
        "event",
        "not JSON",
        "the document is null",
    ]


def test_lists_are_checked_against_the_declared_schema(spark):
    schema = Schema({"tags": ValueType.STRINGS, "due": ValueType.TIMES, "n": ValueType.INT})
    read = _reading(spark, "id int, time timestamp, tags string, due array<string>, n array<int>", None, schema)
    good = {"id": 1, "time": NOON, "tags": "a", "due": ["2026-03-01", None]}
    found, rejected = read([good, {**good, "due": ["soon"]}, {**good, "n": [1]}])
    (first,) = _attributes(found)
    assert (first["tags"], first["due"]) == (("a",), (datetime(2026, 3, 1, tzinfo=UTC),))
    assert [one.reason.partition(";")[0] for one in rejected] == ["due: 'soon' is not a time", "n: [1] is a list"]


def test_arrays_of_numbers_are_vectors(spark):
    wanted = Subscription("1", Filter.of(Constant(True)), relevance=Cosine("item.v", (1.0, 0.0)))
    ranking = RankingTable.of([Subscriber("a", (wanted,))], [0])
    read = _reading(spark, "id int, time timestamp, item struct<v: array<int>>")
    lists = [{"v": [3, 4]}, {"v": None}, None, {"v": [1, None]}, {"v": []}]
    found, _ = read([{"id": 1, "time": NOON, "item": item} for item in lists])
    features = found.features(ranking)
    assert features.size.tolist() == [[2, -1, -1, -1, -1]]
    assert features.values[:2].tolist() == [0.75, 1.0]


def test_contents_in_columns_have_the_codes_of_single_events(spark):
    columns = {
        "id": pa.array(["1", "2", "3"]),
        "n": pa.array([1, None, 3]),
        "x": pa.array([1.0, math.nan, 2.5]),
        "s": pa.array(["a", "a", None]),
        "tags": pa.array([["a", "b", None, "a"], [], None]),
        "t": pa.array([NOON, None, NOON + timedelta(1)], UTC_TIME),
        "source": pa.array(["/s"] * 3),
        "time": pa.array([NOON] * 3, UTC_TIME),
    }
    events = ColumnEvents(None, columns, {}, None)
    for wanted in (WantedContent(payload=True), WantedContent(frozenset({"s", "tags", "id"}))):
        table = events.table(wanted)
        for at, attributes in enumerate(_attributes(events)):
            names, values = content_codes(wanted.of_event(attributes))
            own = slice(table.attributes.starts[at], table.attributes.starts[at + 1])
            assert table.attributes.values[own].tolist() == names.tolist()
            assert table.values.values[own].tolist() == values.tolist()


def test_on_spark_variants_are_read_and_bad_rows_are_kept(spark):
    rows = spark.createDataFrame(
        [("1", NOON, '{"rent": 5}'), ("", NOON, "{}"), ("3", None, "{}"), ("4", NOON, "[]")],
        "id string, time timestamp, json string",
    ).selectExpr("id", "time", "parse_json(json) as data", "map('a', 1) as left_out")
    found = rejected_rows(rows, columns=EventColumns(payload="data")).collect()
    assert sorted(row.reason for row in found) == [
        "data: [] is not a JSON object",
        "id: '' is not a non-empty string",
    ]
    by_reason = {row.reason[:2]: json.loads(row.original) for row in found}
    assert by_reason["id"] == {"id": "", "time": "2026-03-01 12:00:00+00:00", "data": "{}"}


def test_rows_without_id_and_time_are_known_by_their_content_and_have_the_time_of_their_arrival(spark):
    found, rejected = _reading(spark, "a string, b int")([{"a": "x", "b": 1}, {"a": "x", "b": 1}, {"b": 1}])
    first, second, third = _attributes(found)
    assert (rejected, first) == ([], second)
    assert first == event_of_row({"a": "x", "b": 1}, source="/events").stamped(ARRIVED).attributes
    assert third["id"] != first["id"]
