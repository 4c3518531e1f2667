"""What is written down comes back as it was; whatever was not written so is refused with its place."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.rules.policies import AnyQueue, ContinuousQueue, new_queue
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.hub.core import AddSubscriber, ChangeSubscriber, Command
from rankcast.language.lossless import decode, encode, from_plain, to_plain
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Continuous, Policy, Sliding, TopKWindow
from rankcast.model.schema import Schema
from rankcast.model.times import EARLIEST, LATEST
from rankcast.model.values import ValueType
from rankcast.testing.strategies import diversities, events, notified_subscribers, policies_with, values
from written_forms import spoil

START = datetime(2026, 1, 1, tzinfo=UTC)

POLICIES = st.one_of(
    policies_with((timedelta(seconds=1), timedelta(seconds=4)), most=5),
    st.just(Sliding(2, 2**70)),
    st.builds(TopKWindow, st.integers(0, 4), st.just(timedelta.max), st.none() | diversities()),
)
CONTENTS = st.just(()) | st.dictionaries(st.sampled_from(("a", "é", "time")), values()).map(
    lambda content: tuple(sorted(content.items()))
)


@st.composite
def streams(draw):
    """Candidates in time order, with ties, expiry and whether the instant is over after each."""
    steps = st.tuples(
        st.integers(0, 2),
        st.integers(0, 3),
        st.none() | st.integers(0, 6),
        st.sampled_from(["s", "", "über"]),
        st.booleans(),
        CONTENTS,
    )
    time, stream = START, []
    for number, (wait, score, lifetime, source, closed, content) in enumerate(draw(st.lists(steps, max_size=20))):
        time += timedelta(seconds=wait)
        expires = None if lifetime is None else time + timedelta(seconds=lifetime)
        stream.append((Candidate(Identity(source, f"é{number}"), time, score / 3, expires, content), closed))
    return stream


def again(value, declared):
    """A value that went through bytes, checked to be the same."""
    content = encode(value, declared)
    found = decode(content, declared, "value")
    assert found == value
    assert encode(found, declared) == content
    return found


class TestQueues:
    @given(streams(), POLICIES)
    def test_a_queue_is_equal_and_continues_identically_at_every_point(self, stream, policy):
        queue = other = new_queue(policy)
        for arriving, closed in stream:
            queue, delivered = step(queue, arriving, arriving.time, closed=closed)
            other = again(other, AnyQueue)
            other, found = step(other, arriving, arriving.time, closed=closed)
            assert found == delivered
        assert finished(again(queue, AnyQueue)) == finished(queue)
        assert other == queue

    @given(streams())
    def test_contents_keep_their_types(self, stream):
        held = tuple(candidate for candidate, _ in stream)
        found = again(ContinuousQueue(Continuous(1), held), AnyQueue)
        assert repr(found.delivered) == repr(held)

    def test_the_first_and_the_last_time_and_every_float_survive(self):
        held = tuple(
            Candidate(Identity("s", str(score)), EARLIEST, score, LATEST) for score in (0.1, -0.0, 5e-324, float("inf"))
        )
        assert repr(again(ContinuousQueue(Continuous(9), held), AnyQueue).delivered) == repr(held)


@given(notified_subscribers(), st.sampled_from([AddSubscriber, ChangeSubscriber]))
def test_every_subscriber_comes_back_with_its_filters_as_they_were_written(subscriber, kind):
    found = again(kind(subscriber), Command)
    assert [subscription.filter.expression for subscription in found.subscriber.subscriptions] == [
        subscription.filter.expression for subscription in subscriber.subscriptions
    ]


class TestEvents:
    @given(events())
    def test_every_event_comes_back_as_it_was(self, event):
        found = again(event, Event)
        assert repr(found) == repr(event)
        assert repr(found.attributes) == repr(event.attributes)

    def test_what_json_has_no_form_for(self):
        data = {
            "times": [START, date(2026, 1, 2)],
            "pair": (1, 2.0),
            "day": date(2026, 1, 1),
            "big": 2**63 - 1,
            "whole": 1.0,
            "none": None,
            "far": float("inf"),
            "$time": "no time",
            "inner": {"$object": [1, 2], "of": {"is": "Renew"}},
        }
        event = replace(Event.of(data, id="1", source="s"), extensions={"seen": START}, expires=START + timedelta(1))
        assert repr(again(event, Event)) == repr(event)
        assert again(Event("1", "s", data=b"\x00\xff"), Event).data == b"\x00\xff"

    @pytest.mark.parametrize(
        ("value", "place"),
        [
            ([{1, 2}], r"data\[0\]: {1, 2}"),
            ([{1: 2}], r"data\[0\]: 1 .*name of a value"),
            ([START.replace(tzinfo=None)], "a time with its zone"),
            ([10**5000], "cannot be stored"),
        ],
    )
    def test_what_cannot_be_written_is_refused_with_its_place(self, value, place):
        with pytest.raises(InvalidMessageError, match=place):
            encode(Event("1", "s", data=value), Event)

    def test_what_has_no_written_form_is_an_error_and_not_the_end_of_a_list(self):
        with pytest.raises(InvalidMessageError, match="'no number' has no written form"):
            to_plain((1.0, None, "no number"), tuple[float | None, ...])


class TestSharedEvents:
    @given(st.lists(events(), max_size=4), st.lists(st.integers(0, 3), max_size=8))
    def test_events_are_written_once_and_are_one_object_again(self, known, places):
        held = tuple(known[place] for place in places if place < len(known))
        content = encode(held, tuple[Event, ...], shared=True)
        assert len(json.loads(content)["events"]) == len({id(event) for event in held})
        found = decode(content, tuple[Event, ...], "events", shared=True)
        assert repr(found) == repr(held)
        assert len({id(event) for event in found}) == len({id(event) for event in held})

    def test_what_a_schema_has_converted_stays_converted(self):
        event = Event.of({"x": 1, "y": "2026-01-01T00:00:00Z"}, id="1", source="s")
        event = event.conformed(Schema({"x": ValueType.FLOAT, "y": ValueType.TIME}))
        (found,) = decode(encode((event,), tuple[Event, ...], shared=True), tuple[Event, ...], "events", shared=True)
        assert repr(found.attributes) == repr(event.attributes)
        assert found.data == event.data

    @pytest.mark.parametrize("place", [-1, 1, True, "0", None])
    def test_a_place_that_is_none_is_refused(self, place):
        content = json.dumps({"events": [{"id": "1", "source": "s"}], "value": [place]}).encode()
        with pytest.raises(InvalidMessageError, match=r"is not the place of one of 1 events"):
            decode(content, tuple[Event, ...], "state", shared=True)


@st.composite
def written(draw):
    """Something of each kind that is written, with its declared type."""
    policy, stream = draw(st.tuples(POLICIES, streams()))
    queue = new_queue(policy)
    for arriving, closed in stream:
        queue, _ = step(queue, arriving, arriving.time, closed=closed)
    return draw(
        st.sampled_from([(queue, AnyQueue), (policy, Policy)])
        | st.tuples(events(), st.just(Event))
        | st.tuples(notified_subscribers().map(AddSubscriber), st.just(Command))
    )


@given(written(), st.data())
def test_anything_in_any_place_is_read_or_refused(case, data):
    value, declared = case
    plain = to_plain(value, declared)
    spoil(plain, data)
    try:
        found = from_plain(plain, declared)
    except InvalidMessageError:
        return
    assert from_plain(to_plain(found, declared), declared) == found


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(content):
    with pytest.raises(InvalidMessageError):
        decode(content, AnyQueue, "queue")
