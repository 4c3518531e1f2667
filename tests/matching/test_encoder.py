"""Encoding is exact at the edges of every type, and says what is wrong with a value it cannot take."""

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costly import costly
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import (
    keys_of_bytes,
    positions_of_bytes,
    positions_of_numbers,
    rank_floats,
    rank_integers,
    split_integers,
    split_number,
)
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.segments.building import build_segment
from rankcast.model.errors import InvalidEventError
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.values import INT_MAX, INT_MIN

near_powers = st.builds(
    lambda power, offset, sign: max(INT_MIN, min(INT_MAX, sign * (2**power + offset))),
    st.integers(52, 63),
    st.integers(-3, 3),
    st.sampled_from((-1, 1)),
)
numbers = st.one_of(near_powers, st.integers(INT_MIN, INT_MAX), near_powers.map(float), st.floats(allow_nan=False))


@given(numbers, numbers)
def test_split_numbers_compare_like_the_numbers(one, other):
    assert (split_number(one) < split_number(other)) == (one < other)
    assert (split_number(one) == split_number(other)) == (one == other)


@given(st.lists(st.one_of(near_powers, st.integers(INT_MIN, INT_MAX))))
def test_columns_of_integers_are_split_like_single_ones(values):
    keys, rests = split_integers(np.array(values, np.int64))
    assert list(zip(keys.tolist(), rests.tolist(), strict=True)) == [split_number(value) for value in values]


cuts = st.tuples(numbers.filter(math.isfinite), st.booleans()).map(lambda cut: (*split_number(cut[0]), int(cut[1])))


@costly
@given(st.lists(cuts, max_size=40), st.lists(numbers, max_size=40), st.integers(0, 3))
def test_numbers_are_placed_among_cuts_alike_one_by_one_and_in_columns(drawn, values, spare):
    """A cut (key, rest) is at or below a number (key, rest) as pairs are; cuts of other tables lie around."""
    table = sorted({(key, rest + above) for key, rest, above in drawn})
    around = [(math.inf, 0)] * spare
    keys = np.array([key for key, _ in (*around, *table, *around)], np.float64)
    rests = np.array([rest for _, rest in (*around, *table, *around)], np.int16)
    first, last = spare, spare + len(table)
    expected = [sum(cut <= split_number(value) for cut in table) for value in values]
    split = [split_number(value) for value in values]
    value_keys, value_rests = np.array([key for key, _ in split]), np.array([rest for _, rest in split], np.int16)
    assert positions_of_numbers(keys, rests, first, last, value_keys, value_rests).tolist() == expected
    for kind, kernel in ((int, rank_integers), (float, rank_floats)):
        own = [at for at, value in enumerate(values) if type(value) is kind]
        ranks = np.zeros((len(own), 3), np.int32)
        column = np.array([values[at] for at in own], np.int64 if kind is int else np.float64)
        assert kernel(keys, rests, first, last, column, ranks[:, 1])
        assert ranks.tolist() == [[0, 1 + expected[at], 0] for at in own]


texts = st.text("ab\0é😀", max_size=12) | st.text("a", max_size=12)


@given(st.sets(texts, max_size=20), st.lists(texts, max_size=10), st.integers(0, 2))
def test_texts_are_placed_among_cuts_by_their_bytes(drawn, values, spare):
    around = ["zz"] * spare
    table = ByteTable.of_texts((*around, *sorted(drawn), *around))
    keys = keys_of_bytes(table.start, table.data)
    asked = ByteTable.of_texts(values)
    found = positions_of_bytes(keys, table.start, table.data, spare, spare + len(drawn), asked.start, asked.data)
    assert found.tolist() == [sum(cut <= value for cut in drawn) for value in values]


def searcher_of(*wanted):
    return Index(
        segments=[build_segment(Entry.of(number, Filter.of(one)) for number, one in enumerate(wanted))]
    ).reader()


def test_integers_above_2_to_the_53_do_not_pass_through_floats():
    searcher = searcher_of(attr("n") == 2**53 + 1, attr("n") > 2**53, attr("n") <= 2.0**53)
    assert searcher.match_one({"n": 2**53}).tolist() == [2]
    assert sorted(searcher.match_one({"n": 2**53 + 1}).tolist()) == [0, 1]
    assert searcher.match_one({"n": 2.0**53}).tolist() == [2]
    batch = pa.RecordBatch.from_pydict({"n": [2**53, 2**53 + 1]})
    offsets, found = searcher.match_batch(batch)
    assert (offsets.tolist(), sorted(found.tolist()[1:])) == ([0, 1, 3], [0, 1])


def test_nan_and_null_are_missing():
    searcher = searcher_of(~attr("x").exists(), attr("x") != 1)
    for missing in ({"x": math.nan}, {"x": None}, {}, {"y": 1}):
        assert searcher.match_one(missing).tolist() == [0]
    offsets, found = searcher.match_batch(pa.RecordBatch.from_pydict({"x": [math.nan, None, 2.0]}))
    assert (offsets.tolist(), found.tolist()) == ([0, 1, 2, 3], [0, 0, 1])


@pytest.mark.parametrize("value", [b"bytes", 2**63, 10**400, object(), datetime(2026, 1, 1), "\ud800"])  # noqa: DTZ001
def test_values_that_no_attribute_may_have_are_refused_by_name(value):
    wanted = (attr("x") > 1, attr("x") == "a")
    few = Index([Entry.of(number, Filter.of(one)) for number, one in enumerate(wanted)]).reader()
    for reader in (searcher_of(*wanted), few):
        with pytest.raises(InvalidEventError, match="x"):
            reader.match_one({"x": value})
        assert reader.match_one({"y": value}).tolist() == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a"]),
        pa.array([2**63], pa.uint64()),
        pa.array([datetime(2026, 1, 1)]),  # noqa: DTZ001
    ],
)
def test_columns_that_no_attribute_may_have_are_refused_by_name(column):
    with pytest.raises(InvalidEventError, match="'x'"):
        searcher_of(attr("x") > 1).match_batch(pa.RecordBatch.from_arrays([column], ["x"]))


def test_a_column_twice_is_refused():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([{"b": 2}])], ["a.b", "a"])
    with pytest.raises(InvalidEventError, match="twice"):
        searcher_of(attr("a.b") > 1).match_batch(batch)


def test_numpy_values_are_taken():
    searcher = searcher_of(attr("x") > 1, attr("x").exists())
    assert sorted(searcher.match_one({"x": np.float32(1.5)}).tolist()) == [0, 1]
    assert searcher.match_one({"x": np.int64(1)}).tolist() == [1]


def test_dates_are_midnight():
    searcher = searcher_of(attr("t") == datetime(2026, 3, 1, tzinfo=UTC))
    days = pa.array([datetime(2026, 3, 1, tzinfo=UTC).date(), None])
    offsets, _ = searcher.match_batch(pa.RecordBatch.from_arrays([days], ["t"]))
    assert offsets.tolist() == [0, 1, 1]
