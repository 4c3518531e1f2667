"""The delivery policies against their brute-force definitions, changes, and lists; rule by rule in tests/rules."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from rankcast.delivery.rules.bounded import bound_of
from rankcast.delivery.rules.policies import changed_queue, current, handed_over, new_queue
from rankcast.delivery.rules.queues import Candidate, finished, place, step
from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.events import Identity
from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    AllMatches,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TieRule,
    TopKWindow,
    check_notify,
    keeps_ties,
)
from rankcast.model.times import EARLIEST, LATEST
from rankcast.testing.definitions import ExpectedDelivery, Offer, due
from rankcast.testing.strategies import bounded_windows
from rule_builders import START, after, at, candidate, delivered_by_match, names_of, seconds, timeline


class TestChangingThePolicy:
    def test_another_kind_of_policy_starts_empty(self):
        queue, _ = step(new_queue(Continuous(1)), candidate(1, 0.9), at(1))
        assert changed_queue(queue, Sliding(1, 2), at(1)) == new_queue(Sliding(1, 2))

    def test_a_period_holds_what_it_would_deliver_so_a_larger_k_is_for_what_comes(self):
        queue = after(Periodic(1, seconds(10)), (candidate(1, 0.9, expires=5), candidate(2, 0.8), candidate(3, 0.7)))
        queue = changed_queue(queue, Periodic(3, seconds(10)), at(3))
        queue, _ = step(queue, candidate(4, 0.1), at(4))
        _, delivered = step(queue, None, at(10))
        assert names_of(delivered) == ["2", "4"]

    def test_a_period_under_way_ends_when_it_was_to_end(self):
        queue, _ = step(new_queue(Periodic(1, seconds(10))), candidate(1, 0.9), at(1))
        queue = changed_queue(queue, Periodic(2, seconds(60)), at(1))
        queue, _ = step(queue, candidate(2, 0.8), at(2))
        _, delivered = step(queue, None, at(11))
        assert [(one.candidate.identity.id, one.time) for one in delivered] == [("1", at(10)), ("2", at(10))]


class TestPeriodic:
    def test_nothing_is_delivered_before_the_period_ends(self):
        queue, delivered = step(new_queue(Periodic(1, seconds(10))), candidate(1, 0.9), at(1))
        assert (delivered, queue.next_instant) == ([], at(10))
        assert step(queue, None, at(9)) == (queue, [])

    def test_periods_reach_over_both_ends_of_time(self):
        for period in (timedelta(microseconds=1), timedelta(days=365_000), timedelta.max):
            for time in (EARLIEST, LATEST):
                queue, _ = step(new_queue(Periodic(1, period)), Candidate(Identity("s", "1"), time, 0.5), time)
                assert time <= queue.next_instant <= LATEST
                assert len(finished(queue)[1]) == 1


CONTENTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from((0, 1, 1.0, True, "1")))
DIVERSITIES = st.none() | st.builds(
    Diversity,
    st.sampled_from((0.0, 0.3, 0.5, 1.0)),
    st.dictionaries(st.sampled_from("abz"), st.sampled_from((0.1, 1, 0.7))),
)


@st.composite
def streams(draw):
    """Events in time order with ties in score, time and content, some of them expiring."""
    steps = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.none() | st.integers(0, 6), CONTENTS), max_size=30)
    )
    time, stream = 0, []
    for number, (wait, score, lifetime, content) in enumerate(steps):
        time += wait
        expires = None if lifetime is None else time + lifetime
        stream.append(candidate(time, score / 3, expires, name=f"{number:02}", **content))
    return stream


def test_an_event_that_has_expired_before_its_time_does_not_date_back_what_arrives_with_it():
    arrivals = [candidate(5, 0.5, name="good"), candidate(5, 0.9, expires=3, name="expired")]
    assert timeline(TopKWindow(1, seconds(10)), arrivals) == [(5, "good")]


WINDOWS = st.integers(1, 5) | st.integers(1, 20)
TIES = st.sampled_from(TieRule)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 4), ties=TIES),
    st.builds(Periodic, st.integers(0, 4), st.integers(1, 5).map(seconds), DIVERSITIES, ties=TIES),
    st.builds(Sliding, st.integers(0, 4), WINDOWS, DIVERSITIES, ties=TIES),
    st.builds(TopKWindow, st.integers(0, 4), WINDOWS | WINDOWS.map(seconds), DIVERSITIES, ties=TIES),
    bounded_windows(st.integers(0, 4), WINDOWS),
)


@given(streams(), POLICIES)
def test_every_policy_equals_its_definition(stream, policy):
    offers = [
        Offer(
            ExpectedDelivery("s", one.identity, one.score, (), one.time),
            one.time,
            one.expires or datetime.max.replace(tzinfo=UTC),
            one.content,
        )
        for one in stream
    ]
    expected = [((one.time - START).total_seconds(), one.event.id) for one in due(policy, offers)]
    assert sorted(timeline(policy, stream)) == sorted(expected)


@given(streams(), POLICIES)
def test_deliveries_come_in_the_order_of_their_instants(stream, policy):
    instants = [instant for instant, _ in timeline(policy, stream)]
    assert instants == sorted(instants)


@given(streams(), POLICIES, st.lists(st.integers(0, 60), max_size=6))
def test_looking_at_the_clock_in_between_changes_nothing(stream, policy, looks):
    """Steps without an arrival only bring forward what is due, as long as they do not close an instant early."""
    queue, found, waiting = new_queue(policy), [], sorted(looks)
    for arriving in stream:
        while waiting and at(waiting[0]) < arriving.time:
            queue, delivered = step(queue, None, at(waiting.pop(0)), closed=False)
            found += delivered
        queue, delivered = step(queue, arriving, arriving.time, closed=False)
        found += delivered
    _, delivered = finished(queue)
    seen = [((one.time - START).total_seconds(), one.candidate.identity.id) for one in (*found, *delivered)]
    assert seen == timeline(policy, stream)


def outstays(queue, one, other):
    """Whether one event leaves a queue no sooner than another."""
    if isinstance(queue.policy, Continuous):
        return one.outlives(other)
    if isinstance(queue.policy, TopKWindow) and isinstance(queue.policy.window, timedelta):
        return queue.leaves(one) >= queue.leaves(other)
    return one.arrival > other.arrival and one.outlives(other)


def holds_back_for_as_long(queue, one, other):
    """Whether a delivered event scores as high as another one and leaves no sooner; of equal ones the later does."""
    both = one.score == other.score and outstays(queue, other, one)
    return one.score >= other.score and outstays(queue, one, other) and (not both or place(one) < place(other))


@given(streams(), POLICIES)
def test_a_queue_holds_no_more_than_can_still_be_among_its_best(stream, policy):
    assume(getattr(policy, "diversity", None) is None)
    queue = new_queue(policy)
    for arriving in stream:
        queue, _ = step(queue, arriving, arriving.time, closed=False)
        if (most := bound_of(policy)) is not None:
            assert len(queue.held) <= most
            continue
        for one in queue.held:
            before = [other for other in queue.held if place(other) < place(one)]
            if isinstance(policy, Periodic):
                assert len(before) < policy.k
                assert one.is_valid_at(queue.end)
            elif sum(outstays(queue, other, one) for other in before) >= policy.k:
                assert keeps_ties(policy)
                delivered = [other for other in queue.held if other.identity in queue.delivered]
                assert one in delivered
                assert sum(holds_back_for_as_long(queue, other, one) for other in delivered) < policy.k


@dataclass
class Entered:
    """An event that entered a queue; one that is not held keeps its place."""

    event: Candidate
    held: bool = True
    delivered: bool = False


class ByTheWords:
    """Sliding or continuous delivery as the rules have it, all that is held judged at once and by itself."""

    def __init__(self, policy):
        self.policy, self.entered = policy, []

    def arrive(self, event, now):
        """Let an event arrive; return what is delivered. Of equals those that were come first, if ties are kept."""
        if not event.is_valid_at(now):
            return []
        self.leave(now, coming=1)
        self.entered.append(Entered(event))
        held, keep = [one for one in self.entered if one.held], keeps_ties(self.policy)
        held.sort(key=lambda one: (-one.event.score, keep and not one.delivered, *place(one.event)))
        new = [one for one in held[: self.policy.k] if not one.delivered]
        for one in new:
            one.delivered = True
        if isinstance(self.policy, Continuous) and not new:
            self.entered.pop()
        self.drop()
        return [one.event.identity for one in new]

    def change(self, policy, scores, now):
        """Let policy and ranks change; what has no score any more matches no more."""
        self.policy = policy
        self.leave(now, coming=0)
        for one in self.entered:
            score = scores[one.event.score]
            one.held = one.held and score is not None
            one.event = replace(one.event, score=score or 0.0)
        self.drop()

    def leave(self, now, coming):
        """Let what has expired leave, then what the window has no room for beside so many that come."""
        self.entered = [one for one in self.entered if one.event.is_valid_at(now)]
        if isinstance(self.policy, Sliding):
            self.entered = self.entered[max(0, len(self.entered) + coming - self.policy.window) :]

    def drop(self):
        """Hold what fewer than k others come before and outstay; what was delivered, if it still holds back equals."""
        held = [(at, one) for at, one in enumerate(self.entered) if one.held]
        delivered = [(at, one) for at, one in held if one.delivered]
        kept = [self.is_among_best(own, held, lambda other, one: place(other) < place(one)) for own in held]
        if keeps_ties(self.policy) and isinstance(self.policy, Sliding):
            by_score = [
                own[1].delivered and self.is_among_best(own, delivered, lambda other, one: other.score >= one.score)
                for own in held
            ]
            kept = [one or other for one, other in zip(kept, by_score, strict=True)]
        for (_, one), is_kept in zip(held, kept, strict=True):
            one.held = is_kept

    def is_among_best(self, own, others, comes_before):
        """Whether fewer than k others come before one and leave no sooner: a newer one, where places count."""
        at, one = own
        above = 0
        for other_at, other in others:
            is_newer = other_at > at or isinstance(self.policy, Continuous)
            outstays = is_newer and other.event.outlives(one.event)
            above += other is not one and outstays and comes_before(other.event, one.event)
        return above < self.policy.k


SCORES = (0.0, 1 / 3, 2 / 3, 1.0)


@given(streams(), st.sampled_from((Sliding, Continuous)), st.data())
def test_changes_of_k_window_ranks_and_ties_act_on_what_is_held(stream, kind, data):
    def some_policy():
        sizes = (data.draw(st.integers(0, 3)), *([data.draw(st.integers(1, 12))] if kind is Sliding else []))
        return kind(*sizes, ties=data.draw(TIES))

    policy = some_policy()
    queue, expected = new_queue(policy), ByTheWords(policy)
    for arriving in stream:
        if data.draw(st.integers(0, 4)) == 0:
            policy = some_policy()
            scores = dict(zip(SCORES, data.draw(st.permutations((*SCORES, 1.0, None)))[:4], strict=True))
            scores = data.draw(st.sampled_from((dict(zip(SCORES, SCORES, strict=True)), scores)))
            queue = changed_queue(
                queue,
                policy,
                arriving.time,
                lambda one, scores=scores: None if (to := scores[one.score]) is None else replace(one, score=to),
            )
            expected.change(policy, scores, arriving.time)
        queue, delivered = step(queue, arriving, arriving.time)
        assert [one.candidate.identity for one in delivered] == expected.arrive(arriving, arriving.time)
        assert {(one.identity, one.score) for one in queue.held} == {
            (one.event.identity, one.event.score) for one in expected.entered if one.held
        }


def film(second, genre, director, rank, expires=None):
    return candidate(second, rank, expires, genre=genre, director=director)


class TestDiversity:
    FILMS = (
        film(0, "drama", "Spielberg", 0.8),
        film(1, "horror", "Burton", 0.9),
        film(2, "horror", "Hitchcock", 0.85),
        film(3, "drama", "Spielberg", 0.8),
        film(4, "drama", "Tarantino", 0.9),
    )

    def test_deliveries_come_in_the_order_of_selection(self):
        period = Periodic(3, seconds(10), Diversity())
        assert timeline(period, self.FILMS) == [(10, "1"), (10, "4"), (10, "2")]

    def test_of_equals_the_older_one_is_chosen_whatever_order_they_came_in(self):
        policy = Periodic(1, seconds(10), Diversity())
        one, other = candidate(1, 0.5, name="b"), candidate(1, 0.5, name="a")
        assert timeline(policy, [one, other, candidate(2, 0.5)]) == [(10, "a")]

    def test_a_policy_that_comes_to_diversify_goes_on_with_what_is_held(self):
        queue = after(Sliding(1, 3), self.FILMS[1:3])
        _, delivered = step(changed_queue(queue, Sliding(2, 3, Diversity()), at(2)), self.FILMS[3], at(3))
        assert names_of(delivered) == ["3"]


@given(streams(), st.integers(0, 4), st.integers(1, 5))
def test_with_sigma_1_diversity_only_changes_who_wins_among_equals(stream, k, window):
    """Scores told apart by their place leave no equals."""
    told_apart = [replace(one, score=(one.score * 3 + at / 100) / 4) for at, one in enumerate(stream)]
    assert delivered_by_match(Sliding(k, window, Diversity(1.0)), told_apart) == delivered_by_match(
        Sliding(k, window), told_apart
    )


def test_at_one_instant_periods_end_before_the_digest_and_events_arrive_after_it():
    every, ended, arriving = Digest(seconds(10)), Periodic(1, seconds(5)), Continuous(1)
    assert [handed_over(every, ended, at(second)) for second in (5, 10, 15)] == [at(10), at(10), at(20)]
    assert [handed_over(every, arriving, at(second)) for second in (0, 9, 10)] == [at(10), at(10), at(20)]
    assert handed_over(every, ended, LATEST) == handed_over(every, arriving, LATEST) == LATEST
    assert handed_over(AT_ONCE, ended, at(3)) == handed_over(OnDemand(), ended, at(3)) == at(3)


ARRIVALS = [candidate(1, 0.5), candidate(2, 0.9, expires=5), candidate(3, 0.2), candidate(4, 0.7)]


@pytest.mark.parametrize(
    ("policy", "second", "expected"),
    [
        (ALL_MATCHES, 4, []),
        (Continuous(2), 4, ["2", "4"]),
        (Continuous(2), 5, ["4", "1"]),
        (Sliding(2, 3), 4, ["2", "4"]),
        (Sliding(2, 3), 5, ["4", "3"]),
        (Periodic(2, seconds(6)), 4, ["4", "1"]),
        (Periodic(2, seconds(6)), 5, ["4", "1"]),
        (Periodic(2, seconds(6)), 6, []),
        (TopKWindow(3, 2), 4, ["4", "3"]),
        (TopKWindow(3, seconds(3)), 4, ["2", "4", "3"]),
        (TopKWindow(3, seconds(3)), 6, ["4"]),
        (TopKWindow(0, seconds(3)), 4, []),
    ],
)
def test_the_current_list_is_the_best_k_of_what_is_held_and_valid(policy, second, expected):
    assert [one.identity.id for one in current(after(policy, ARRIVALS), at(second))] == expected


@given(st.lists(st.sampled_from((0.1, 0.5, 0.9)), max_size=8), st.integers(0, 3), st.integers(1, 5))
def test_the_current_list_of_a_sliding_window_was_delivered(scores, k, window):
    """Whatever is in the list when nothing expires has been delivered by the proactive policy."""
    queue, delivered = new_queue(Sliding(k, window)), set()
    for second, score in enumerate(scores):
        queue, more = step(queue, candidate(second, score), at(second))
        delivered |= {one.candidate.identity for one in more}
        assert {one.identity for one in current(queue, at(second))} <= delivered


@pytest.mark.parametrize("wrong", ["digest", 5, None, timedelta(hours=1)])
def test_what_is_no_way_to_notify_is_refused(wrong):
    with pytest.raises(InvalidSubscriptionError, match=r"notify: .* is not AtOnce\(\), Digest\(every\) or OnDemand"):
        check_notify(wrong)


@pytest.mark.parametrize("wrong", [timedelta(0), seconds(-1), 60])
def test_the_period_of_a_digest_is_above_zero(wrong):
    with pytest.raises(InvalidSubscriptionError, match=r"every: .* is not a period; expected a timedelta above zero"):
        Digest(wrong)
