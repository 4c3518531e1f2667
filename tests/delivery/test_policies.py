"""The delivery policies, rule by rule and against their brute-force definitions."""

from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from rankcast.delivery.rules.changes import changed_queue, new_queue
from rankcast.delivery.rules.queues import Candidate, best, finished, place, step
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Sliding, TopKWindow
from rankcast.model.times import EARLIEST, LATEST
from rankcast.testing.definitions import ExpectedDelivery, Offer, due
from rule_builders import START, at, candidate, delivered_by_match, seconds, timeline


def test_all_delivers_everything_but_what_has_expired():
    assert delivered_by_match(
        AllMatches(), [candidate(1, 0.1), candidate(2, 0.9, expires=2), candidate(3, 0.5, expires=4)]
    ) == [
        ["1"],
        [],
        ["3"],
    ]


def test_continuous_delivers_an_equally_good_newer_event():
    assert delivered_by_match(
        Continuous(2), [candidate(1, 0.5), candidate(2, 0.5), candidate(3, 0.5), candidate(4, 0.4)]
    ) == [
        ["1"],
        ["2"],
        ["3"],
        [],
    ]


def test_continuous_counts_only_valid_events_that_are_strictly_better():
    assert delivered_by_match(Continuous(1), [candidate(1, 0.9, expires=3), candidate(2, 0.5), candidate(3, 0.5)]) == [
        ["1"],
        [],
        ["3"],
    ]


def test_continuous_remembers_more_than_k_events_once_they_expire():
    """Keeping only the k best delivered pairs would deliver the third: the first is still valid and better."""
    assert delivered_by_match(
        Continuous(1), [candidate(0, 0.5, expires=6), candidate(1, 0.8, expires=2), candidate(2, 0.2, expires=4)]
    ) == [["0"], ["1"], []]


def test_continuous_with_k_0_delivers_nothing():
    assert delivered_by_match(Continuous(0), [candidate(1, 0.5)]) == [[]]


def test_sliding_evaluates_partial_windows_at_every_match():
    assert delivered_by_match(Sliding(k=1, window=3), [candidate(1, 0.2), candidate(2, 0.1), candidate(3, 0.3)]) == [
        ["1"],
        [],
        ["3"],
    ]


def test_sliding_delivers_an_old_event_once_better_ones_leave_the_window():
    assert delivered_by_match(Sliding(k=1, window=2), [candidate(1, 0.9), candidate(2, 0.5), candidate(3, 0.1)]) == [
        ["1"],
        [],
        ["2"],
    ]


def test_sliding_lets_expired_events_leave_before_the_new_one_enters():
    """The expired second event frees its place, so the first is still in the window and the third is not the best."""
    assert delivered_by_match(
        Sliding(k=1, window=2), [candidate(1, 0.9), candidate(2, 0.5, expires=3), candidate(4, 0.4)]
    ) == [
        ["1"],
        [],
        [],
    ]


def test_order_is_score_then_newer_then_source_and_id():
    tied = [candidate(1, 0.5, name="b"), candidate(1, 0.5, name="a"), candidate(2, 0.5, name="c"), candidate(0, 0.6)]
    assert [chosen.identity.id for chosen in best(tied, 4)] == ["0", "c", "a", "b"]


class TestChangingThePolicy:
    def test_a_smaller_window_keeps_the_most_recent_events(self):
        queue = new_queue(Sliding(1, 3))
        for arriving in (candidate(1, 0.9), candidate(2, 0.8), candidate(3, 0.7)):
            queue, _ = step(queue, arriving, arriving.time)
        _, delivered = step(changed_queue(queue, Sliding(1, 2), at(3)), candidate(4, 0.1), at(4))
        assert [one.candidate.identity.id for one in delivered] == ["3"]

    def test_another_kind_of_policy_starts_empty(self):
        queue, _ = step(new_queue(Continuous(1)), candidate(1, 0.9), at(1))
        assert changed_queue(queue, Sliding(1, 2), at(1)) == new_queue(Sliding(1, 2))

    def test_a_larger_k_delivers_what_is_still_held_at_the_next_instant(self):
        queue = new_queue(TopKWindow(1, 5))
        for arriving in (candidate(1, 0.9), candidate(2, 0.8)):
            queue, _ = step(queue, arriving, arriving.time)
        _, delivered = step(changed_queue(queue, TopKWindow(2, 5), at(2)), candidate(3, 0.1), at(3))
        assert [one.candidate.identity.id for one in delivered] == ["2"]

    def test_a_period_holds_what_it_would_deliver_so_a_larger_k_is_for_what_comes(self):
        queue = new_queue(Periodic(1, seconds(10)))
        for arriving in (candidate(1, 0.9, expires=5), candidate(2, 0.8), candidate(3, 0.7)):
            queue, _ = step(queue, arriving, arriving.time)
        queue = changed_queue(queue, Periodic(3, seconds(10)), at(3))
        queue, _ = step(queue, candidate(4, 0.1), at(4))
        _, delivered = step(queue, None, at(10))
        assert [one.candidate.identity.id for one in delivered] == ["2", "4"]

    def test_a_period_under_way_ends_when_it_was_to_end(self):
        queue, _ = step(new_queue(Periodic(1, seconds(10))), candidate(1, 0.9), at(1))
        queue = changed_queue(queue, Periodic(2, seconds(60)), at(1))
        queue, _ = step(queue, candidate(2, 0.8), at(2))
        _, delivered = step(queue, None, at(11))
        assert [(one.candidate.identity.id, one.time) for one in delivered] == [("1", at(10)), ("2", at(10))]


class TestPeriodic:
    def test_periods_are_half_open_and_deliver_the_best_k_at_their_end(self):
        arrivals = [candidate(0, 0.1), candidate(5, 0.9), candidate(9, 0.5), candidate(10, 0.2)]
        assert timeline(Periodic(2, seconds(10)), arrivals) == [(10, "5"), (10, "9"), (20, "10")]

    def test_an_event_that_expires_by_the_end_of_its_period_is_not_delivered(self):
        arrivals = [candidate(1, 0.9, expires=10), candidate(2, 0.5, expires=11)]
        assert timeline(Periodic(1, seconds(10)), arrivals) == [(10, "2")]

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


class TestTopKWindow:
    def test_an_event_is_delivered_when_a_better_one_leaves_the_window(self):
        arrivals = [candidate(0, 0.9), candidate(2, 0.5)]
        assert timeline(TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (5, "2")]

    def test_an_event_that_expires_makes_room_at_that_instant(self):
        arrivals = [candidate(0, 0.9, expires=3), candidate(2, 0.5)]
        assert timeline(TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (3, "2")]
        assert timeline(TopKWindow(1, 9), arrivals) == [(0, "0"), (3, "2")]

    def test_arrivals_of_one_instant_enter_before_it_is_evaluated(self):
        arrivals = [candidate(1, 0.1, name="a"), candidate(1, 0.9, name="b")]
        assert timeline(TopKWindow(1, seconds(5)), arrivals) == [(1, "b")]

    def test_events_of_one_time_enter_a_counted_window_one_by_one(self):
        arrivals = [candidate(1, 0.1, name="a"), candidate(1, 0.9, name="b")]
        assert timeline(TopKWindow(1, 5), arrivals) == [(1, "a"), (1, "b")]

    def test_an_event_is_not_alive_at_the_instant_its_window_ends(self):
        arrivals = [candidate(0, 0.5), candidate(5, 0.4)]
        assert timeline(TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (5, "5")]

    def test_k_0_delivers_nothing_and_a_window_of_at_most_k_events_everything(self):
        arrivals = [candidate(second, second / 10) for second in range(8, 0, -1)]
        arrivals = [Candidate(one.identity, at(number), one.score) for number, one in enumerate(arrivals)]
        assert timeline(TopKWindow(0, 3), arrivals) == []
        assert len(timeline(TopKWindow(3, 3), arrivals)) == 8


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


@given(
    streams().map(lambda stream: [Candidate(one.identity, one.time, one.score) for one in stream]),
    st.integers(0, 4),
    st.integers(1, 5),
)
def test_without_expiry_sliding_delivers_at_most_one_event_per_match(stream, k, window):
    assert all(len(delivered) <= 1 for delivered in delivered_by_match(Sliding(k, window), stream))


def test_with_expiry_sliding_may_deliver_several_at_once():
    stream = [
        candidate(1, 0.9, expires=5),
        candidate(2, 0.8, expires=5),
        candidate(3, 0.1),
        candidate(4, 0.2),
        candidate(6, 0.3),
    ]
    assert delivered_by_match(Sliding(2, 4), stream)[-1] == ["6", "4"]


def test_an_event_that_has_expired_before_its_time_does_not_date_back_what_arrives_with_it():
    arrivals = [candidate(5, 0.5, name="good"), candidate(5, 0.9, expires=3, name="expired")]
    assert timeline(TopKWindow(1, seconds(10)), arrivals) == [(5, "good")]


WINDOWS = st.integers(1, 5) | st.integers(1, 20)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 4)),
    st.builds(Periodic, st.integers(0, 4), st.integers(1, 5).map(seconds), DIVERSITIES),
    st.builds(Sliding, st.integers(0, 4), WINDOWS, DIVERSITIES),
    st.builds(TopKWindow, st.integers(0, 4), WINDOWS | WINDOWS.map(seconds), DIVERSITIES),
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


@given(streams(), POLICIES)
def test_a_queue_holds_no_more_than_can_still_be_among_its_best(stream, policy):
    assume(getattr(policy, "diversity", None) is None)
    queue = new_queue(policy)
    for arriving in stream:
        queue, _ = step(queue, arriving, arriving.time, closed=False)
        for one in queue.held:
            before = [other for other in queue.held if place(other) < place(one)]
            if isinstance(policy, Periodic):
                assert len(before) < policy.k
                assert one.is_valid_at(queue.end)
            else:
                assert sum(outstays(queue, other, one) for other in before) < policy.k


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

    def test_the_second_window_of_section_4_2_delivers_e4_and_e2(self):
        """A film before e1 to e4 keeps e2 back until then: partial windows are evaluated here as well."""
        assert delivered_by_match(Sliding(2, 3, Diversity()), self.FILMS) == [["0"], ["1"], [], ["3"], ["4", "2"]]

    def test_with_diversity_sliding_may_deliver_several_at_once_without_expiry(self):
        """Property 3.1 fails: a newcomer is taken first, and another one is then the most different."""
        assert len(delivered_by_match(Sliding(2, 3, Diversity()), self.FILMS)[-1]) == 2
        assert all(len(delivered) <= 1 for delivered in delivered_by_match(Sliding(2, 3), self.FILMS))

    def test_a_counted_window_of_topkw_may_deliver_several_at_once_as_well(self):
        assert delivered_by_match(TopKWindow(2, 3, Diversity()), self.FILMS)[-1] == ["4", "2"]

    def test_deliveries_come_in_the_order_of_selection(self):
        period = Periodic(3, seconds(10), Diversity())
        assert timeline(period, self.FILMS) == [(10, "1"), (10, "4"), (10, "2")]

    def test_a_period_delivers_as_many_events_as_without_diversity(self):
        for k in range(7):
            diverse = timeline(Periodic(k, seconds(10), Diversity()), self.FILMS)
            assert len(diverse) == len(timeline(Periodic(k, seconds(10)), self.FILMS)) == min(k, 5)

    def test_of_equals_the_older_one_is_chosen_whatever_order_they_came_in(self):
        policy = Periodic(1, seconds(10), Diversity())
        one, other = candidate(1, 0.5, name="b"), candidate(1, 0.5, name="a")
        assert timeline(policy, [one, other, candidate(2, 0.5)]) == [(10, "a")]

    def test_a_departure_can_let_several_into_the_diverse_best(self):
        """With topkw every instant counts at which something enters or leaves."""
        films = (
            film(0, "war", "Kurosawa", 1.0, expires=5),
            film(1, "drama", "Ozu", 0.9, expires=5),
            film(2, "war", "Kubrick", 0.4),
            film(3, "drama", "Ozu", 0.3),
        )
        assert timeline(TopKWindow(2, seconds(100), Diversity(0.9)), films) == [(0, "0"), (1, "1"), (5, "2"), (5, "3")]

    def test_only_the_attributes_with_a_weight_count(self):
        by_genre, by_director = (Diversity(weights={name: 1}) for name in ("genre", "director"))
        films = (film(1, "war", "Kubrick", 0.9), film(2, "war", "Coppola", 0.8), film(3, "drama", "Kubrick", 0.7))
        assert timeline(Periodic(2, seconds(10), by_genre), films) == [(10, "1"), (10, "3")]
        assert timeline(Periodic(2, seconds(10), by_director), films) == [(10, "1"), (10, "2")]

    def test_a_policy_that_comes_to_diversify_goes_on_with_what_is_held(self):
        queue = new_queue(Sliding(1, 3))
        for arriving in self.FILMS[1:3]:
            queue, _ = step(queue, arriving, arriving.time)
        _, delivered = step(changed_queue(queue, Sliding(2, 3, Diversity()), at(2)), self.FILMS[3], at(3))
        assert [one.candidate.identity.id for one in delivered] == ["3"]


@given(streams(), st.integers(0, 4), st.integers(1, 5))
def test_with_sigma_1_diversity_only_changes_who_wins_among_equals(stream, k, window):
    """Scores told apart by their place leave no equals."""
    told_apart = [replace(one, score=(one.score * 3 + at / 100) / 4) for at, one in enumerate(stream)]
    assert delivered_by_match(Sliding(k, window, Diversity(1.0)), told_apart) == delivered_by_match(
        Sliding(k, window), told_apart
    )
