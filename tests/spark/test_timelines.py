"""The timeline of a subscriber against its definition, instant by instant."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.subscriptions import Priority, Subscriber, Subscription
from rankcast.model.times import EPOCH, NEVER
from rankcast.spark.subscribers.timelines import (
    ALWAYS,
    Period,
    Revision,
    document_at,
    missed,
    spliced,
    timeline_of,
    within,
)

INSTANTS = [ALWAYS, *range(12), NEVER - 1]
starts = st.sampled_from([ALWAYS, *range(10)])
ends = st.sampled_from([*range(1, 11), NEVER])
revisions = st.builds(Revision, st.sampled_from([None, "a", "b", "c"]), starts, ends, st.integers(0, 3))


def said_by(rows: list[Revision], time: int) -> str | None:
    """The definition: of the rows that hold, the one with the highest sequence, then the latest start."""
    holding = [row for row in rows if row.start <= time < row.end]
    return max(holding, key=lambda row: (row.sequence, row.start)).document if holding else None


def without_ties(rows: list[Revision]) -> list[Revision]:
    return list({(row.sequence, row.start): row for row in rows}.values())


@given(st.lists(revisions, max_size=8).map(without_ties))
def test_a_timeline_says_what_the_best_row_says_at_every_instant_in_as_few_periods_as_can_be(
    rows: list[Revision],
) -> None:
    """So it does not depend on the order of rows either."""
    timeline = timeline_of(rows)
    assert [document_at(timeline, time) for time in INSTANTS] == [said_by(rows, time) for time in INSTANTS]
    assert all(period.start < period.end for period in timeline)
    for first, second in pairwise(timeline):
        assert first.end < second.start or (first.end == second.start and first.document != second.document)


@given(st.lists(revisions, max_size=6).map(without_ties), st.lists(revisions, max_size=6), st.integers(0, 11))
def test_a_splice_is_the_old_timeline_before_the_frontier_and_the_new_one_after_it(
    rows: list[Revision], more: list[Revision], frontier: int
) -> None:
    before, after = timeline_of(rows), timeline_of(without_ties(rows + more))
    made = spliced(before, after, frontier)
    for time in INSTANTS:
        assert document_at(made, time) == document_at(before if time < frontier else after, time)


@given(st.lists(st.builds(Revision, st.sampled_from([None, "a", "b"]), starts, ends, st.integers(0, 3)), max_size=6))
def test_changes_that_arrive_one_by_one_in_time_give_the_timeline_of_all_of_them_at_once(rows: list[Revision]) -> None:
    """What makes results independent of when a version arrives: each row is known before any event reaches it."""
    rows = sorted(without_ties(rows), key=lambda row: row.start)
    timeline = ()
    for count, row in enumerate(rows, start=1):
        timeline = spliced(timeline, timeline_of(rows[:count]), row.start)
    assert timeline == timeline_of(rows)


A, NOBODY = [Revision("a")], []


@pytest.mark.parametrize(
    ("before", "after", "late", "result"),
    [
        (A, [*A, Revision("b", start=5)], 5, [Period(ALWAYS, 7, "a"), Period(7, NEVER, "b")]),
        (A, [Revision("a", end=5)], 5, [Period(ALWAYS, 7, "a")]),  # an end can be missed, too
        (NOBODY, A, None, [Period(7, NEVER, "a")]),  # what states no instant is meant to happen right away
        (A, NOBODY, None, [Period(ALWAYS, 7, "a")]),
        (
            [Revision("a", end=5), Revision("b", start=5)],
            [Revision("b", start=5)],  # a row about the past that is no longer there changes nothing
            None,
            [Period(ALWAYS, 5, "a"), Period(5, NEVER, "b")],
        ),
    ],
)
def test_a_change_is_missed_when_it_happens_at_the_frontier_only_because_it_came_so_late(
    before: list[Revision], after: list[Revision], late: int | None, result: list[Period]
) -> None:
    old, new = timeline_of(before), timeline_of(after)
    assert [missed(old, new, frontier) for frontier in (3, 5, 7)] == [None, None, late]
    assert spliced(old, new, 7) == tuple(result)


def at(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def test_a_subscriber_within_a_period_sees_nothing_outside_it() -> None:
    ana = Subscriber(
        "ana",
        (
            Subscription("always", parse_filter("x > 1")),
            Subscription("early", parse_filter("x > 2"), active_until=at(10)),
            Subscription("long", parse_filter("x > 3"), active_from=at(2), active_until=at(50)),
        ),
        priorities=(Priority("early", "long"),),
    )
    always, early, long = within(ana, Period(20, 30, "")).subscriptions
    assert (always.active_from, always.active_until) == (at(20), at(30))
    assert (long.active_from, long.active_until) == (at(20), at(30))
    assert not early.filter.is_satisfiable
    assert within(ana, Period(ALWAYS, NEVER, "")) is ana


def test_the_first_instant_is_before_every_event() -> None:
    assert datetime.min.replace(tzinfo=UTC) == EPOCH + timedelta(microseconds=ALWAYS)
