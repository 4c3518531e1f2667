"""Parquet: how Arrow types become attributes, and what a column or a row is reported for."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast.model.errors import InvalidFileError, Problem
from rankcast.model.events import DEFAULT_TYPE, Event, content_id
from rankcast.storage.events import arrow
from rankcast.storage.events.files import read_events

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPOILT = pa.Array.from_buffers(pa.string(), 3, pa.array([b"x", b"\xff", b"z"]).buffers())


@pytest.fixture
def read(tmp_path):
    """Write columns to a Parquet file and read it: (events, problems)."""

    def read_columns(**columns):
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table(columns), path)
        found = list(read_events(path))
        return tuple([item for item in found if isinstance(item, kind)] for kind in (Event, Problem))

    return read_columns


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([True]), True),
        (pa.array([7], pa.int8()), 7),
        (pa.array([7], pa.uint64()), 7),
        (pa.array([1.5], pa.float32()), 1.5),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([datetime(2026, 3, 1, 12)], pa.timestamp("us")), NOON),  # noqa: DTZ001 (a naive one is the point)
        (pa.array([NOON], pa.timestamp("ms", "Europe/Lisbon")), NOON),
        (pa.array([1_999], pa.timestamp("ns")), datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
        (pa.array([-1], pa.timestamp("ns")), datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)),
        (pa.array([date(2026, 3, 1)], pa.date32()), datetime(2026, 3, 1, tzinfo=UTC)),
        (pa.array([date(2026, 3, 1)], pa.date64()), datetime(2026, 3, 1, tzinfo=UTC)),
        (pa.array([Decimal(7)], pa.decimal128(5, 0)), 7),
        (pa.array([Decimal("7.25")], pa.decimal128(5, 2)), 7.25),
    ],
)
def test_arrow_types_become_values(read, array, value):
    (event,), problems = read(a=array)
    assert problems == []
    assert event.attributes["a"] == value
    assert type(event.attributes["a"]) is type(value)


@pytest.mark.parametrize("array", [pa.array([None], pa.int64()), pa.array([None]), pa.array([float("nan")])])
def test_null_and_nan_are_missing(read, array):
    (event,), _ = read(a=array)
    assert "a" not in event.attributes


def test_a_struct_is_a_nested_payload(read):
    kind = pa.struct([("city", pa.string()), ("built", pa.timestamp("ns"))])
    found, _ = read(address=pa.array([{"city": "Porto", "built": 0}, None], kind))
    assert found[0].attributes["address.city"] == "Porto"
    assert found[0].attributes["address.built"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert not any(name.startswith("address") for name in found[1].attributes)


def test_lists_of_values_of_one_type_are_attributes(read):
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    found, problems = read(
        tags=pa.array([["a", "b", None, "a"], [], None]),
        due=pa.array([[noon], [], [noon, None]], pa.list_(pa.timestamp("ns"))),
        v=pa.array([[0.5, 1.5], [2.5, 2.5], None], pa.list_(pa.float32(), 2)),
    )
    assert problems == []
    assert [event.attributes.get("tags") for event in found] == [("a", "b"), (), None]
    assert [event.attributes.get("due") for event in found] == [(noon,), (), (noon,)]
    assert [event.vector("v") for event in found] == [(0.5, 1.5), (2.5, 2.5), None]
    assert found[1].attributes["v"] == (2.5,)


def test_a_column_of_another_type_is_left_out_and_reported_once(read):
    inner = pa.struct([("raw", pa.binary()), ("n", pa.int64())])
    outer = pa.struct([("inner", inner)])
    found, problems = read(
        span=pa.array([1, 2], pa.duration("s")),
        part=pa.array([{"inner": {"raw": b"x", "n": 1}}, {"inner": {"raw": b"y", "n": 2}}], outer),
        n=pa.array([1, 2]),
    )
    assert [event.data for event in found] == [{"part": {"inner": {"n": n}}, "n": n} for n in (1, 2)]
    assert [problem.message for problem in problems] == [
        "column 'span' of type duration[s] is left out: not a type of value",
        "column 'part.inner.raw' of type binary is left out: not a type of value",
    ]
    assert all(problem.warning for problem in problems)


def test_rows_without_id_and_source_get_a_digest_and_the_files_name(read):
    found, _ = read(n=pa.array([1, 2]))
    ids = [content_id({"type": DEFAULT_TYPE}, {"n": n}) for n in (1, 2)]
    assert [(event.id, event.source) for event in found] == [(name, "x.parquet") for name in ids]
    (numbered,), _ = read(id=pa.array([17]))
    assert numbered.id == "17"


def test_envelope_columns_go_to_the_envelope(read):
    (event,), _ = read(time=pa.array(["2026-03-01T12:00:00Z"]), expirytime=pa.array([NOON], pa.timestamp("us", "UTC")))
    assert (event.time, event.expires) == (NOON, NOON)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1, 2**63, 3], pa.uint64()), "a: 9223372036854775808 does not fit a 64-bit integer"),
        (pa.array([0, 2**62, 0], pa.timestamp("us")), "a: a time outside the years 1 to 9999"),
        (SPOILT, "a: not UTF-8: byte 0xff at offset 0"),
        (pa.ListArray.from_arrays([0, 1, 2, 3], SPOILT), "a: not UTF-8: byte 0xff at offset 0"),
    ],
)
def test_a_value_that_is_none_of_ours_sets_its_row_aside(read, array, message):
    found, problems = read(id=pa.array([1, 2, 3]), a=array)
    assert [event.id for event in found] == ["1", "3"]
    assert [(problem.line, problem.message) for problem in problems] == [(2, message)]


def test_a_bad_value_in_a_struct_is_named_with_its_path(read):
    _, problems = read(a=pa.array([{"t": 2**62}], pa.struct([("t", pa.timestamp("us"))])))
    assert [problem.message for problem in problems] == ["a.t: a time outside the years 1 to 9999"]


def test_many_batches_are_read_in_order(read, monkeypatch):
    monkeypatch.setattr(arrow, "BATCH_ROWS", 3)
    found, _ = read(n=pa.array(range(10)))
    assert [event.data["n"] for event in found] == list(range(10))


@pytest.mark.parametrize("keep", [0, 4, 100])
def test_a_file_that_is_cut_off_is_unusable(tmp_path, keep):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidFileError, match="not a Parquet file"):
        list(read_events(path))


def test_damage_in_the_middle_ends_the_events_with_a_problem(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": list(range(20_000))}), path, row_group_size=5_000, use_dictionary=False)
    content = bytearray(path.read_bytes())
    third = pq.ParquetFile(path).metadata.row_group(2).column(0)
    content[third.data_page_offset : third.data_page_offset + third.total_compressed_size] = bytes(
        third.total_compressed_size
    )
    path.write_bytes(content)
    *events, problem = read_events(path)
    assert [event.data["n"] for event in events] == list(range(len(events)))
    assert 0 < len(events) <= 10_000
    assert problem.line == len(events) + 1
    assert problem.message.startswith("the rest cannot be read")


def test_two_columns_of_one_name_make_the_file_unusable(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(InvalidFileError, match="the column 'a' occurs twice"):
        list(read_events(path))


def test_a_column_name_that_is_not_text_is_a_problem_of_the_file(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a_name_to_spoil": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"a_name_to_spoil", b"a_name_to_sp\xfbil"))
    with pytest.raises(InvalidFileError, match="not a Parquet file: the name of a column is not UTF-8"):
        list(read_events(path))
