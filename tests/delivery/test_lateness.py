"""Events out of order are put in order, those that come too late are told apart, and repetitions are recognised."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.stream.lateness import Remembered, Reordering
from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Identity
from rankcast.model.times import EARLIEST

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def name(number, source="/s"):
    return Identity(source, str(number))


def taken(buffer, inputs):
    """Add (number, time, now) one after the other; return what is given back and what is late, in order."""
    given_back, late = [], []
    for number, time, now in inputs:
        buffer.move_on(at(now))
        if buffer.is_late(at(time)):
            late.append(number)
        else:
            buffer.add(at(time), name(number), number)
        given_back += [one.item for one in buffer.released()]
    return given_back, late


def test_what_may_still_be_preceded_is_kept_back_and_the_rest_comes_in_order():
    buffer = Reordering(timedelta(seconds=5))
    assert taken(buffer, [(1, 3, 3), (2, 1, 3), (3, 7, 7)]) == ([2], [])
    assert [one.item for one in buffer.rest()] == [1, 3]


def test_an_event_of_the_watermarks_own_time_is_not_late_and_waits():
    buffer = Reordering(timedelta(seconds=5))
    assert taken(buffer, [(1, 10, 10), (2, 5, 10), (3, 4, 10)]) == ([], [3])
    assert len(buffer) == 2


def test_without_lateness_nothing_waits_but_the_future():
    buffer = Reordering(timedelta(0))
    assert taken(buffer, [(1, 1, 1), (2, 1, 1), (3, 9, 2), (4, 1, 2), (5, 10, 10)]) == ([1, 2, 3, 5], [4])


def test_events_of_one_time_come_by_source_and_id_once_they_have_waited():
    buffer = Reordering(timedelta(seconds=1))
    for source, number in (("/b", 1), ("/a", 2), ("/a", 1)):
        buffer.add(START, name(number, source), (source, number))
    buffer.move_on(at(2))
    assert [one.item for one in buffer.released()] == [("/a", 1), ("/a", 2), ("/b", 1)]


def test_after_the_end_of_the_input_what_would_precede_it_is_late():
    buffer = Reordering(timedelta(seconds=60))
    buffer.add(at(9), name(1), 1)
    assert [one.item for one in buffer.rest()] == [1]
    assert (buffer.is_late(at(8)), buffer.is_late(at(9))) == (True, False)


def test_time_before_the_year_one_is_no_time():
    buffer = Reordering(timedelta(days=1_000_000))
    buffer.move_on(START)
    assert buffer.watermark == EARLIEST


@pytest.mark.parametrize("lateness", [timedelta(seconds=-1), 5, None])
def test_a_lateness_is_a_duration_of_at_least_zero(lateness):
    with pytest.raises(InvalidValueError, match=r"lateness: .* is not a duration of at least zero"):
        Reordering(lateness)


ARRIVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=25)


@given(arrivals=ARRIVALS, allowed=st.integers(0, 8))
def test_all_that_is_no_later_than_allowed_is_given_back_in_order_and_the_rest_is_late(arrivals, allowed):
    """By the definition: late is what is behind the largest time so far by more than the lateness."""
    buffer = Reordering(timedelta(seconds=allowed))
    delayed = sorted(
        ((time, number, time + delay) for number, (time, delay) in enumerate(arrivals)), key=lambda a: a[2]
    )
    inputs = [(number, time, time) for time, number, _ in delayed]
    latest = [max((time for _, time, _ in inputs[: end + 1]), default=0) for end in range(len(inputs))]
    late = [number for (number, time, _), now in zip(inputs, latest, strict=True) if now - time > allowed]
    given_back, found_late = taken(buffer, inputs)
    given_back += [one.item for one in buffer.rest()]
    times = {number: time for number, time, _ in inputs}
    assert found_late == late
    assert [times[number] for number in given_back] == sorted(times[number] for number in times if number not in late)


@given(arrivals=ARRIVALS, allowed=st.integers(0, 8), cut=st.integers(0, 25))
def test_a_buffer_made_of_a_state_goes_on_as_the_one_before(arrivals, allowed, cut):
    lateness = timedelta(seconds=allowed)
    inputs = [(number, time, time + delay) for number, (time, delay) in enumerate(arrivals)]
    buffer, whole = Reordering(lateness), Reordering(lateness)
    first = taken(buffer, inputs[:cut])
    again = Reordering(lateness, buffer.state())
    assert again.state() == buffer.state()
    second = taken(again, inputs[cut:])
    assert (first[0] + second[0], first[1] + second[1]) == taken(whole, inputs)
    assert list(again.rest()) == list(whole.rest())


def test_what_is_remembered_is_the_state():
    known = Remembered()
    for number in range(6):
        known.add(name(number), at(number))
        known.forget(at(number), at_least=2, span=timedelta(seconds=4))
    assert [name(number) in known for number in range(6)] == [False, False, True, True, True, True]
    assert Remembered(known.state()).state() == known.state()
