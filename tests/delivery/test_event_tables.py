"""Tables of events are ordered, joined and taken apart, and rows name only what is in them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.matched_sets import SETS, positions
from rankcast.model.errors import InvalidValueError

TEXTS = st.text(max_size=4) | st.sampled_from(["a", "aa", "é", "\uffff", "\U00010000"])


@st.composite
def event_tables(draw):
    """Events with ties of every part of their order."""
    events = draw(
        st.lists(
            st.tuples(st.integers(0, 3), TEXTS, TEXTS, st.binary(max_size=3), st.lists(st.integers(-5, 5), max_size=2)),
            max_size=12,
        )
    )
    times, sources, ids, payloads, codes = (
        (list(column) for column in zip(*events, strict=True)) if events else [[]] * 5
    )
    attributes = Ragged.of(codes)
    contents = Ragged(attributes.starts, attributes.values.astype(np.int64))
    return EventTable.of(
        np.array(times, np.int64),
        Ragged.of_texts(sources),
        Ragged.of_texts(ids),
        contents=(contents, Ragged(contents.starts, contents.values * 2)),
        payload=Ragged.from_arrow(pa.array(payloads, pa.binary())),
    )


def shown(table):
    """Everything that an event table says, as plain values."""
    return (
        table.time.tolist(),
        table.source.texts(),
        table.id.texts(),
        table.attributes.starts.tolist(),
        table.attributes.values.tolist(),
        table.values.values.tolist(),
        table.payload.to_arrow(text=False).to_pylist(),
    )


@given(event_tables())
def test_the_order_of_events_is_that_of_their_times_and_identities(table):
    order, repeats = table.in_order()
    keys = list(zip(table.time.tolist(), table.source.texts(), table.id.texts(), strict=True))
    ordered = [keys[at] for at in order]
    assert ordered == sorted(keys)
    assert repeats.tolist() == [at > 0 and ordered[at - 1] == key for at, key in enumerate(ordered)]


@given(event_tables(), st.randoms(use_true_random=False))
def test_which_of_several_events_with_one_identity_and_time_counts_does_not_depend_on_their_order(table, random):
    shuffled = list(range(len(table)))
    random.shuffle(shuffled)
    other = table.taken(np.array(shuffled, np.int64))
    (order, repeats), (other_order, other_repeats) = table.in_order(), other.in_order()
    assert shown(table.taken(order[~repeats])) == shown(other.taken(other_order[~other_repeats]))


@given(st.lists(event_tables(), max_size=4))
def test_joined_tables_have_the_events_of_all(tables):
    joined = shown(EventTable.joined(tables))
    for column in (0, 1, 2, 4, 5, 6):
        assert joined[column] == [value for table in tables for value in shown(table)[column]]


def test_texts_of_a_slice_of_an_arrow_array():
    array = pa.array(["zero", "one", "", "drei", "four"]).slice(1, 3)
    assert Ragged.from_arrow(array).texts() == ["one", "", "drei"]
    assert Ragged.from_arrow(array).to_arrow().to_pylist() == ["one", "", "drei"]
    with pytest.raises(InvalidValueError, match="1 of 2 texts are null"):
        Ragged.from_arrow(pa.array(["one", None]))


def test_matched_sets_are_masks_or_listed():
    assert positions(0, Ragged.of([])) == []
    assert positions(SETS - 1, Ragged.of([])) == list(range(19))
    assert positions(SETS, Ragged.of([[19, 25]])) == [19, 25]


class TestRows:
    CHUNK = MatchBatch(
        EventTable.of(np.array([5]), Ragged.of_texts(["s"]), Ragged.of_texts(["1"])),
        *(np.array([0], np.int32) for _ in range(2)),
        np.array([0.5]),
        np.array([9]),
        np.array([1], np.int32),
    )

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("event", 1, "array event: 1 at 0; expected 0 to 0"),
            ("queue", -1, "array queue: -1 at 0; expected 0 to more"),
            ("matched", SETS, "array matched: 524,288 at 0; expected 0 to 524,287"),
            ("score", np.nan, "array score: is not a number, at 0"),
        ],
    )
    def test_rows_that_name_what_is_not_there(self, column, value, message):
        columns = {name: getattr(self.CHUNK, name) for name in ("queue", "event", "score", "expires", "matched")}
        columns[column] = np.array([value], columns[column].dtype)
        with pytest.raises(InvalidValueError, match=message):
            MatchBatch(self.CHUNK.events, **columns)
