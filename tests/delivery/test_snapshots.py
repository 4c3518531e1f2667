"""Snapshots of queues: what is restored is equal and goes on as if nothing had happened."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.rules.arrival import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.rules.changes import new_queue
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.delivery.rules.snapshots import SnapshotError, restored, snapshot
from rankcast.delivery.rules.timed import PeriodicQueue, TopKWindowQueue
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import EARLIEST, LATEST
from rankcast.testing.strategies import values

START = datetime(2026, 1, 1, tzinfo=UTC)

DIVERSITIES = st.none() | st.builds(
    Diversity, st.sampled_from((0, 0.3, 1)), st.dictionaries(st.sampled_from(("a", "é", "time")), st.just(0.1))
)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 4)),
    st.builds(Periodic, st.integers(0, 4), st.integers(1, 5).map(lambda count: timedelta(seconds=count)), DIVERSITIES),
    st.builds(Sliding, st.integers(0, 4), st.integers(1, 5), DIVERSITIES),
    st.builds(Sliding, st.integers(0, 4), st.just(2**70)),
    st.builds(
        TopKWindow,
        st.integers(0, 4),
        st.integers(1, 5) | st.integers(1, 5).map(lambda count: timedelta(seconds=count)) | st.just(timedelta.max),
        DIVERSITIES,
    ),
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


def kept(queue):
    """A queue that went through bytes, checked to be the same."""
    content = snapshot(queue)
    again = restored(content)
    assert again == queue
    assert list(map(types, again.held)) == list(map(types, queue.held))
    assert snapshot(again) == content
    return again


def types(candidate):
    return [type(value) for _, value in candidate.content]


@given(streams(), POLICIES)
def test_a_restored_queue_is_equal_and_continues_identically_at_every_point(stream, policy):
    queue = other = new_queue(policy)
    for arriving, closed in stream:
        queue, delivered = step(queue, arriving, arriving.time, closed=closed)
        other, again = step(kept(other), arriving, arriving.time, closed=closed)
        assert again == delivered
    assert finished(kept(queue)) == finished(queue)
    assert other == queue


def test_the_first_and_the_last_time_and_every_float_survive():
    held = tuple(
        Candidate(Identity("s", str(score)), EARLIEST, score, LATEST) for score in (0.1, -0.0, 5e-324, float("inf"))
    )
    assert kept(ContinuousQueue(Continuous(9), held)).delivered == held


def test_every_field_of_every_queue_is_in_the_snapshot():
    """A field added to a queue has to be added to its snapshot, and then here."""
    policies = (AllMatches(), Continuous(1), Sliding(1, 1), Periodic(1, timedelta(1)), TopKWindow(1, 1))
    kinds = [type(new_queue(policy)) for policy in policies]
    assert {kind: [field.name for field in fields(kind)] for kind in kinds} == {
        EverythingQueue: ["policy"],
        ContinuousQueue: ["policy", "delivered"],
        SlidingQueue: ["policy", "recent", "delivered", "entered", "places"],
        PeriodicQueue: ["policy", "end", "arrivals"],
        TopKWindowQueue: ["policy", "living", "delivered", "unseen", "entered"],
    }


def full_window():
    queue = new_queue(Sliding(k=10, window=100))
    for number in range(100):
        now = START + timedelta(seconds=number)
        expires = now + timedelta(days=1)
        queue, _ = step(queue, Candidate(Identity("/flats", f"flat-{number}"), now, number % 7 / 7, expires), now)
    return queue


def test_a_window_of_a_hundred_events_takes_less_than_4_kb():
    assert len(snapshot(full_window())) < 4096


def test_another_version_is_refused():
    with pytest.raises(SnapshotError, match="version 2; this rankcast reads 3"):
        restored(b"\x02" + snapshot(full_window())[1:])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x03\x09\x01", "kind 9"),
        (b"", "damaged"),
        (b"\x03\x02\x01\x00\x00\x00", "window: 0"),
        (b"\x03\x02\x01\x05\x01" + bytes(6) + b"\xf8\x7f\x00\x00\x00", "sigma: nan"),
        (
            b"\x03\x02\x01\x05\x00\x01\x00\x01\x01s\x01\x01g\x01\x00\x01a\x04" + bytes(17) + b"\x01\x00\x09",
            "value of kind 9",
        ),
        (snapshot(full_window()) + b"x", "1 bytes too many"),
    ],
)
def test_what_is_not_a_snapshot_is_refused(content, problem):
    with pytest.raises(SnapshotError, match=problem):
        restored(content)


def test_a_snapshot_that_is_cut_short_is_refused_wherever_it_is_cut():
    content = snapshot(full_window())
    for length in range(0, len(content), 7):
        with pytest.raises(SnapshotError, match="damaged"):
            restored(content[:length])


def test_a_queue_without_a_snapshot_is_refused():
    @dataclass(frozen=True)
    class Other:
        pass

    with pytest.raises(SnapshotError, match="Other"):
        snapshot(Other())


def test_a_queue_that_contradicts_itself_is_refused():
    stray = Candidate(Identity("s", "a"), START, 0.5)
    with pytest.raises(SnapshotError, match="does not hold"):
        snapshot(SlidingQueue(Sliding(1, 2), (), frozenset({stray.identity})))
