"""Chunks and notices survive packing, whatever is in them, and what was not packed here is refused."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.stream.batches import SETS, DeliveryBatch, MatchBatch, positions
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import NEVER

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


@st.composite
def chunks(draw):
    events = draw(event_tables())
    rows = draw(st.integers(0, 20 if len(events) else 0))
    columns = [
        draw(st.lists(values, min_size=rows, max_size=rows))
        for values in (
            st.integers(0, 9),
            st.integers(0, max(0, len(events) - 1)),
            st.floats(allow_nan=False),
            st.sampled_from([NEVER, 5]),
            st.integers(0, 3) | st.integers(SETS, SETS + 1),
        )
    ]
    return MatchBatch(
        events,
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int32),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int32),
        Ragged.of([[20, 21], [3, 40]]),
        draw(st.integers(0, 9)),
        draw(st.booleans()),
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


def said(chunk):
    columns = (
        chunk.queue,
        chunk.event,
        chunk.score,
        chunk.expires,
        chunk.matched,
        chunk.sets.starts,
        chunk.sets.values,
    )
    return shown(chunk.events), [column.tolist() for column in columns], chunk.version, chunk.reports_late


@given(chunks())
def test_a_chunk_is_what_it_was_before_packing(chunk):
    assert said(MatchBatch.from_bytes(chunk.to_bytes())) == said(chunk)


@given(chunks())
def test_notices_are_what_they_were_before_packing(chunk):
    notices = DeliveryBatch(
        chunk.events, chunk.queue, chunk.event, chunk.expires, chunk.score, chunk.matched, chunk.sets
    )
    read = DeliveryBatch.from_bytes(notices.to_bytes())
    assert len(read) == len(notices)
    assert shown(read.events) == shown(notices.events)
    for name in ("queue", "event", "time", "score", "matched"):
        assert getattr(read, name).tolist() == getattr(notices, name).tolist()


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


class TestRefused:
    CHUNK = MatchBatch(
        EventTable.of(np.array([5]), Ragged.of_texts(["s"]), Ragged.of_texts(["1"])),
        *(np.array([0], np.int32) for _ in range(2)),
        np.array([0.5]),
        np.array([9]),
        np.array([1], np.int32),
    )

    @given(st.data())
    def test_bytes_that_are_damaged_never_do_harm(self, data):
        packed = bytearray(self.CHUNK.to_bytes())
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] = data.draw(st.integers(0, 255))
        with suppress(InvalidValueError):
            chunk = MatchBatch.from_bytes(bytes(packed))
            assert len(chunk.queue) <= 1
            assert (chunk.event < len(chunk.events)).all()

    def test_bytes_that_are_cut_short_are_refused_wherever(self):
        packed = self.CHUNK.to_bytes()
        for length in range(len(packed)):
            with pytest.raises(InvalidValueError, match="chunk: "):
                MatchBatch.from_bytes(packed[:length])
        with pytest.raises(InvalidValueError, match=r"chunk: \d+ bytes, where \d+ were expected"):
            MatchBatch.from_bytes(packed + bytes(8))

    def test_another_version_is_named(self):
        packed = bytearray(self.CHUNK.to_bytes())
        packed[8] = 7
        with pytest.raises(InvalidValueError, match="chunk: version 7 is not 1, the one that is known"):
            MatchBatch.from_bytes(bytes(packed))

    def test_notices_are_no_chunk(self):
        with pytest.raises(InvalidValueError, match="notices: these bytes do not begin as packed notices do"):
            DeliveryBatch.from_bytes(self.CHUNK.to_bytes())

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("event", 1, "names an event that is not in its table"),
            ("queue", -1, "a queue below 0"),
            ("matched", SETS, "a matched set that is not in its table"),
            ("score", np.nan, "the score of row 0 is not a number"),
        ],
    )
    def test_rows_that_name_what_is_not_there(self, column, value, message):
        columns = {name: getattr(self.CHUNK, name) for name in ("queue", "event", "score", "expires", "matched")}
        columns[column] = np.array([value], columns[column].dtype)
        with pytest.raises(InvalidValueError, match=message):
            MatchBatch(self.CHUNK.events, **columns)
