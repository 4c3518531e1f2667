"""The table of caps counts as the rules say, delivery by delivery, whatever becomes of it in between."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.engine.caps import CapTable
from rankcast.delivery.engine.contents import Contents
from rankcast.delivery.rules.caps import changed_counts, counted, used_up
from rankcast.model.errors import InvalidValueError
from rankcast.model.periods import Every
from rankcast.model.policies import AllMatches, Cap
from rankcast.model.times import LAST_INSTANT, instant_of, microseconds
from rankcast.testing.strategies import caps

HOUR = timedelta(hours=1)
POLICIES = st.builds(AllMatches, at_most=st.just(()) | caps((timedelta(minutes=5), HOUR, timedelta(days=9))))
EVENTS = [{}, {"n": 1}, {"n": 1.0, "s": "a"}, {"n": True, "s": "b"}, {"x": 0.5, "s": "a"}, {"n": 2, "u": "c"}]
CONTENTS = Contents.of(dict(enumerate(EVENTS)))
NEW_YEAR = microseconds(instant_of(1_767_225_600_000_000))


@st.composite
def runs(draw):
    """Policies, and batches of (queue, minutes since the batch before, event), with changes of policies in between."""
    policies = draw(st.lists(POLICIES, min_size=1, max_size=4))
    rows = st.tuples(
        st.integers(0, len(policies) - 1), st.sampled_from((0, 1, 20, 60 * 24)), st.integers(0, len(EVENTS) - 1)
    )
    change = st.tuples(st.integers(0, len(policies) - 1), st.none() | POLICIES)
    return policies, draw(st.lists(st.lists(rows, max_size=12) | change, max_size=6))


class Definition:
    """What the rules say."""

    def __init__(self, policies):
        self.counts = [changed_counts((), policy.at_most) for policy in policies]

    def hand_over(self, queue, now, event):
        after = counted(self.counts[queue], EVENTS[event], instant_of(now))
        assert (after is None) == (used_up(self.counts[queue], EVENTS[event], instant_of(now)) is not None)
        self.counts[queue] = self.counts[queue] if after is None else after
        return after is None

    def at(self, queue, now):
        return tuple(own.at(instant_of(now)) for own in self.counts[queue])


@given(run=runs(), seed=st.booleans())
def test_a_table_of_caps_is_the_rules_for_all_queues_at_once(run, seed):
    policies, steps = run
    table, definition, now = CapTable.of(policies), Definition(policies), NEW_YEAR
    for step in steps:
        if isinstance(step, tuple):
            queue, policy = step
            table.change(queue, policy)
            kept = () if policy is None else policy.at_most
            definition.counts[queue] = changed_counts(definition.counts[queue] if policy else (), kept)
        else:
            timed = []
            for queue, minutes, event in step:
                now += minutes * 60_000_000
                timed.append((queue, now, event))
            queue, instants, event = np.array(sorted(timed, key=lambda row: row[0]), np.int64).reshape(-1, 3).T
            found = table.hand_over(queue, instants, event, CONTENTS).tolist()
            rows = zip(queue.tolist(), instants.tolist(), event.tolist(), strict=True)
            assert found == [definition.hand_over(*row) for row in rows]
        if seed:
            table = CapTable.from_arrays(table.to_arrays(now), len(policies))
    for queue in range(len(policies)):
        assert tuple(own.at(instant_of(now)) for own in table.get(queue)) == definition.at(queue, now)


def test_values_are_forgotten_with_their_period_and_the_table_stays_small():
    table = CapTable.of([AllMatches(at_most=Cap(1, HOUR, per="n"))])
    for hour in range(30):
        contents = Contents.of({at: {"n": 1_000 * hour + at} for at in range(1_000)})
        instants = np.full(1_000, 3_600_000_000 * hour)
        is_capped = table.hand_over(np.zeros(1_000, np.int64), instants, np.arange(1_000), contents)
        assert not is_capped.any()
    assert len(table.to_arrays(0)["values"]) == 1_000
    assert len(table.to_arrays(3_600_000_000 * 30)["values"]) == 0
    assert len(table._places) <= 16_384


def test_nothing_ends_at_the_end_of_time():
    table = CapTable.of([AllMatches(at_most=[Cap(1, timedelta(days=9_000_000)), Cap(2, Every("month"))])])
    instants = np.array([0, LAST_INSTANT, LAST_INSTANT])
    assert table.hand_over(np.zeros(3, np.int64), instants).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("lines", lambda lines: lines + np.array([9, 0, 0, 0, 0])),
        ("lines", lambda lines: lines * np.array([1, 0, 1, 1, 1])),
        ("lines", lambda lines: lines[::-1]),
        ("values", lambda values: values + np.array([7, 0, 0, 0])),
        ("values", lambda values: np.concatenate([values, values])),
        ("settings", lambda settings: settings[:-1]),
        ("settings", lambda settings: settings[:0]),
    ],
)
def test_arrays_that_are_no_table_are_refused(name, spoil):
    caps_of_both = [Cap(2, HOUR, per="n"), Cap(3, Every("day"))]
    table = CapTable.of([AllMatches(at_most=caps_of_both), AllMatches(at_most=caps_of_both)])
    table.hand_over(np.zeros(1, np.int64), np.array([NEW_YEAR]), np.array([1]), CONTENTS)
    arrays = table.to_arrays(NEW_YEAR)
    assert CapTable.from_arrays(arrays, 2).get(0) == table.get(0)
    with pytest.raises(InvalidValueError):
        CapTable.from_arrays({**arrays, name: spoil(arrays[name])}, 2)


def test_what_counted_in_a_period_that_is_over_goes_with_the_caps_of_its_queue():
    policy = AllMatches(at_most=[Cap(1, HOUR, per="n"), Cap(1, timedelta(days=9))])
    table, queue, event = CapTable.of([policy]), np.zeros(2, np.int64), np.array([1, 1])
    instants = np.array([NEW_YEAR, NEW_YEAR + 2 * HOUR // timedelta(microseconds=1)])
    assert table.hand_over(queue, instants, event, CONTENTS).tolist() == [False, True]
    for after in (None, policy, None, policy):
        table.change(0, after)
        assert table.get(0) == changed_counts((), () if after is None else after.at_most)
