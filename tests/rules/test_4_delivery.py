"""Section 4 of the rules: delivery, handing over, late events, changes. One class per rule, with the counterexample of
every correction.
"""

import itertools
import json
import random
from dataclasses import replace as replaced
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankcast as rc
from command_line import lines, run
from rankcast.containers.container import pack
from rankcast.delivery.engine.queue_table import QUEUE_TABLE, VERSION, QueueTable
from rankcast.delivery.rules.bounded import queue_length
from rankcast.delivery.rules.policies import AnyQueue, changed_queue, current, new_queue
from rankcast.delivery.rules.queues import best, finished, step
from rankcast.delivery.stream.lateness import Remembered
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidSubscriptionError, InvalidValueError
from rankcast.model.events import Identity
from rankcast.model.policies import Bounded, Continuous, Digest, Diversity, OnDemand, Periodic, Sliding, TopKWindow
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import LATEST, format_time, parse_time
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import save_subscribers
from rankcast.testing.clock import FakeClock
from rankcast.testing.conformance import Case, check
from rule_builders import (
    ENGINES,
    after,
    at,
    candidate,
    delivered_by_match,
    deliveries,
    event,
    graded,
    handed,
    handed_at,
    names_of,
    played,
    rounds,
    seconds,
)


def one_who(policy, **settings):
    """Return a subscriber who wants everything."""
    return Subscriber("ana", (Subscription("1", rc.parse_filter("true"), 0.5),), policy, **settings)


ORDERED = (("a", 1, 3), ("b", 1, 5), ("c", 2, 5), ("d", 4, 1), ("e", 4, 7), ("f", 9, 2))
"""Events in the order of (time, source, id): names, seconds and x."""


def shuffled(items, seed):
    return tuple(random.Random(seed).sample(items, len(items)))


DRIFT = [candidate(time, score) for time, score in ((1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6))]


def subscribed(hub, *filters, **options):
    hub.subscribe("ana", dict(filters) if filters else {"x >= 0": 0.5}, **options)
    return hub


def published(hub, *times, **options):
    """Publish events at times, each with x equal to its time; return the ids that are delivered, call by call."""
    return [[note.event.id for note in hub.publish(event(f"{t}", time=t, x=t, **options), now=at(t))] for t in times]


class TestOrder:
    def test_score_then_newer_then_source_and_id(self):
        tied = [
            candidate(1, 0.5, name="b"),
            candidate(1, 0.5, name="a"),
            candidate(2, 0.5, name="c"),
            candidate(0, 0.6),
        ]
        assert [one.identity.id for one in best(tied, 4)] == ["0", "c", "a", "b"]

    def test_events_of_equal_time_are_one_instant_for_windows_of_time(self, engine):
        arrivals = [candidate(1, 0.1, name="a"), candidate(1, 0.9, name="b")]
        assert played(engine, TopKWindow(1, seconds(5)), arrivals) == [(1, "b")]

    def test_for_windows_of_counts_they_are_taken_one_by_one(self, engine):
        arrivals = [candidate(1, 0.1, name="a"), candidate(1, 0.9, name="b")]
        assert sorted(played(engine, TopKWindow(1, 5), arrivals)) == [(1, "a"), (1, "b")]

    @pytest.mark.parametrize(
        "policy", [Continuous(2), Periodic(2, seconds(3)), Sliding(2, 3), TopKWindow(2, 3), TopKWindow(2, seconds(3))]
    )
    def test_an_event_is_delivered_at_most_once_per_queue(self, engine, policy):
        found = [name for _, name in played(engine, policy, [candidate(t, (t * 7 % 5) / 5) for t in range(30)])]
        assert len(found) == len(set(found)) > 0

    def test_duplicates_of_an_identity_are_ignored(self):
        hub = subscribed(rc.Hub())
        assert published(hub, 1) == [["1"]]
        assert hub.publish(event("1", time=2, x=5), now=at(2)) == []

    def test_other_identity_with_the_same_content_is_distinct(self):
        hub = subscribed(rc.Hub())
        found = [hub.publish(event(name, time=1, x=1), now=at(1)) for name in ("a", "b")]
        assert [len(notes) for notes in found] == [1, 1]


class TestTies:
    """Which of equally good events are delivered; one rank for all, but where scores are given."""

    def one_rank(self, count):
        return [candidate(time, 0.5, name=f"{time:03}") for time in range(count)]

    def test_with_one_rank_sliding_delivers_200_of_200_and_6_where_ties_are_kept(self, engine):
        found = [played(engine, Sliding(3, 100, ties=ties), self.one_rank(200)) for ties in ("newer", "keep")]
        assert len(found[0]) == 200
        assert [name for _, name in found[1]] == ["000", "001", "002", "100", "101", "102"]

    def test_an_event_is_kept_back_while_k_delivered_ones_as_good_are_in_the_window(self, engine):
        arrivals = self.one_rank(9)
        assert played(engine, TopKWindow(1, 4, ties="keep"), arrivals) == [(0, "000"), (4, "004"), (8, "008")]
        assert played(engine, TopKWindow(1, seconds(4), ties="keep"), arrivals) == [(0, "000"), (4, "004"), (8, "008")]

    def test_or_with_continuous_delivery_are_still_valid(self, engine):
        arrivals = [candidate(0, 0.5, expires=3), candidate(1, 0.5), candidate(2, 0.6), candidate(3, 0.5)]
        assert [name for _, name in played(engine, Continuous(1, ties="keep"), arrivals)] == ["0", "2"]
        assert [name for _, name in played(engine, Continuous(1, ties="keep"), arrivals[:2] + arrivals[3:])] == [
            "0",
            "3",
        ]

    def test_a_better_one_is_delivered_as_ever(self, engine):
        arrivals = [candidate(time, score) for time, score in enumerate((0.5, 0.5, 0.7, 0.7, 0.6, 0.9))]
        assert [name for _, name in played(engine, Sliding(1, 9, ties="keep"), arrivals)] == ["0", "2", "5"]

    def test_when_a_delivered_one_leaves_the_newest_of_those_kept_back_comes_next(self, engine):
        arrivals = [candidate(0, 0.5, expires=4), candidate(1, 0.5), candidate(2, 0.5)]
        assert played(engine, TopKWindow(1, seconds(9), ties="keep"), arrivals) == [(0, "0"), (4, "2")]

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
        st.integers(0, 4),
        st.permutations(range(12)),
    )
    def test_both_wordings_of_the_rule_agree(self, window, k, ages):
        """Fewer than k delivered score as high, best first; among equals the delivered come first, then the newer."""
        events = [(score, was_delivered, age) for (score, was_delivered), age in zip(window, ages, strict=False)]
        delivered = {one for one in events if one[1]}
        for one in sorted(events, key=lambda event: (-event[0], event[2]))[:k]:
            if one not in delivered and sum(other[0] >= one[0] for other in delivered) < k:
                delivered.add(one)
        first = sorted(events, key=lambda event: (-event[0], not event[1], event[2]))[:k]
        assert delivered == {one for one in events if one[1]} | set(first)

    @pytest.mark.parametrize(
        "policy",
        [
            Periodic(2, seconds(5)),
            Periodic(2, seconds(5), Diversity()),
            Sliding(2, 4, Diversity()),
            TopKWindow(2, 4, Diversity()),
            TopKWindow(2, seconds(4), Diversity()),
        ],
        ids=str,
    )
    def test_nothing_changes_for_periods_and_with_diversity(self, engine, policy):
        events = [event(f"{time:03}", time=time, kind=time % 3) for time in range(20)]
        found = [handed_at(engine, one_who(replaced(policy, ties=ties)), *events) for ties in ("newer", "keep")]
        assert found[0] == found[1]

    def test_a_rule_that_is_none_is_refused(self):
        with pytest.raises(InvalidSubscriptionError, match="ties: 'older' is not one of newer, keep"):
            Sliding(3, 100, ties="older")


class TestRule1Continuous:
    def test_deliver_unless_k_valid_delivered_events_have_a_higher_rank(self, engine):
        arrivals = [candidate(1, 0.5), candidate(2, 0.9), candidate(3, 0.7), candidate(4, 0.6)]
        assert rounds(engine, Continuous(2), arrivals) == [["1"], ["2"], ["3"], []]

    @pytest.mark.parametrize("kernels", [False, True], ids=["steps", "kernels"])
    @pytest.mark.parametrize(("lateness", "delivered"), [(None, ["b", "a"]), (1, ["a"])])
    def test_events_of_one_time_and_rank_are_decided_by_source_and_id(self, kernels, lateness, delivered):
        """As they come; in that order where all of a time are seen before any is taken."""
        hub = rc.Hub(kernels=kernels, lateness=lateness and seconds(lateness))
        hub.subscribe("ana", {"true": 0.5}, deliver=Continuous(1))
        same = [event(name, time=1) for name in ("b", "c", "a")]
        found = [note.event.id for one in same for note in hub.publish(one, now=at(1))]
        assert found + [note.event.id for note in hub.finish()] == delivered

    def test_erratum_an_equal_newer_event_is_delivered(self, engine):
        """The text of section 5.2 says greater or equal, Algorithm 2 prints greater."""
        assert rounds(engine, Continuous(1), [candidate(t, 0.5) for t in (1, 2, 3)]) == [["1"], ["2"], ["3"]]

    def test_valid_means_expires_after_now(self, engine):
        arrivals = [candidate(1, 0.9, expires=3), candidate(2, 0.5), candidate(3, 0.5)]
        assert rounds(engine, Continuous(1), arrivals) == [["1"], [], ["3"]]

    def test_an_event_that_has_expired_on_arrival_is_not_delivered(self, engine):
        assert rounds(engine, Continuous(1), [candidate(2, 0.9, expires=2)]) == [[]]

    def test_erratum_keeping_only_k_pairs_is_wrong_once_events_expire(self, engine):
        """(time, rank, expiry) = (0, .5, 6), (1, .8, 2), (2, .2, 4) with k = 1: the first still beats the third."""
        arrivals = [candidate(0, 0.5, expires=6), candidate(1, 0.8, expires=2), candidate(2, 0.2, expires=4)]
        assert rounds(engine, Continuous(1), arrivals) == [["0"], ["1"], []]

    def test_what_is_kept_is_the_k_skyband_on_rank_and_expiry(self):
        queue = after(
            Continuous(1), (candidate(0, 0.5, expires=6), candidate(1, 0.8, expires=2), candidate(2, 0.9, expires=9))
        )
        assert [one.identity.id for one in queue.delivered] == ["2"]


class TestRule2Periodic:
    def test_periods_are_half_open(self, engine):
        arrivals = [candidate(0, 0.5), candidate(9, 0.5), candidate(10, 0.5)]
        assert played(engine, Periodic(5, seconds(10)), arrivals) == [(10, "9"), (10, "0"), (20, "10")]

    def test_the_best_k_that_expire_after_the_end_are_delivered_at_the_end(self, engine):
        arrivals = [candidate(1, 0.9, expires=10), candidate(2, 0.5, expires=11), candidate(3, 0.4)]
        assert played(engine, Periodic(1, seconds(10)), arrivals) == [(10, "2")]

    def test_at_most_k_per_period(self, engine):
        found = played(engine, Periodic(2, seconds(10)), [candidate(t, t % 4 / 4) for t in range(35)])
        assert [len(list(group)) for _, group in itertools.groupby(found, key=lambda one: one[0])] == [2, 2, 2, 2]

    def test_the_order_of_arrival_within_a_period_does_not_matter(self, engine):
        for order in itertools.permutations((0.9, 0.5, 0.7)):
            ranks = dict(zip(("1", "2", "3"), order, strict=True))
            found = played(
                engine, Periodic(2, seconds(10)), [candidate(int(name), rank) for name, rank in ranks.items()]
            )
            assert sorted(ranks[name] for _, name in found) == [0.7, 0.9]


BERLIN = "Europe/Berlin"


ENDS = {
    "a time in a gap is the first instant after it": (
        rc.Every("day", at="02:30", zone=BERLIN),
        {"2026-03-29T00:59:59.999999Z": "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z": "2026-03-30T00:30:00Z"},
    ),
    "a time that exists twice is the first": (
        rc.Every("day", at="02:30", zone=BERLIN),
        {"2026-10-25T00:29:00Z": "2026-10-25T00:30:00Z", "2026-10-25T01:29:00Z": "2026-10-26T01:30:00Z"},
    ),
    "the local date goes back, and is not asked": (
        rc.Every("day", zone="America/Havana"),  # 00:00 to 00:59 comes twice
        {"2025-11-02T04:30:00Z": "2025-11-03T05:00:00Z", "2025-11-02T05:30:00Z": "2025-11-03T05:00:00Z"},
    ),
    "midnight is left out": (
        rc.Every("day", zone="America/Sao_Paulo"),
        {"2018-11-04T02:59:00Z": "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z": "2018-11-05T02:00:00Z"},
    ),
    "equal starts are one: a day is left out": (
        rc.Every("day", zone="Pacific/Apia"),
        {"2011-12-29T20:00:00Z": "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z": "2011-12-31T10:00:00Z"},
    ),
    "a week that begins on the day left out": (
        rc.Every("week", weekday="friday", zone="Pacific/Apia"),
        {"2011-12-29T20:00:00Z": "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z": "2012-01-05T10:00:00Z"},
    ),
    "a month that begins on the day left out": (
        rc.Every("month", day=30, at="12:00", zone="Pacific/Apia"),
        {"2011-12-30T09:59:00Z": "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z": "2012-01-29T22:00:00Z"},
    ),
    "5:45 hours before UTC": (
        rc.Every("day", at="08:00", zone="Asia/Kathmandu"),
        {"2026-07-01T02:14:59Z": "2026-07-01T02:15:00Z", "2026-07-01T02:15:00Z": "2026-07-02T02:15:00Z"},
    ),
    "half an hour is left out": (
        rc.Every("day", at="02:15", zone="Australia/Lord_Howe"),
        {"2026-10-03T15:29:00Z": "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z": "2026-10-04T15:15:00Z"},
    ),
    "an offset with seconds, of which 44:30 are left out": (
        rc.Every("day", zone="Africa/Monrovia"),
        {"1972-01-06T00:00:00Z": "1972-01-06T00:44:30Z", "1972-01-07T00:00:00Z": "1972-01-07T00:44:30Z"},
    ),
    "Monday": (rc.Every("week"), {"2026-11-19T00:00:00Z": "2026-11-23T00:00:00Z"}),
    "another weekday": (
        rc.Every("week", weekday="friday", at="08:00"),
        {"2026-11-19T00:00:00Z": "2026-11-20T08:00:00Z"},
    ),
    "the 31st is the last day of a shorter month": (
        rc.Every("month", day=31),
        {
            "2028-02-01T00:00:00Z": "2028-02-29T00:00:00Z",
            "2028-02-29T00:00:00Z": "2028-03-31T00:00:00Z",
            "2028-04-01T00:00:00Z": "2028-04-30T00:00:00Z",
        },
    ),
    "a leap day, and none in 2100": (
        rc.Every("month", day=29),
        {"2096-02-28T12:00:00Z": "2096-02-29T00:00:00Z", "2100-02-27T12:00:00Z": "2100-02-28T00:00:00Z"},
    ),
    "an hour has 3,600 seconds": (
        rc.Every("hour", at="00:20"),
        {"2026-03-29T00:50:00Z": "2026-03-29T01:20:00Z", "2026-03-29T01:20:00Z": "2026-03-29T02:20:00Z"},
    ),
    "the year 1": (
        rc.Every("day", at="08:00", zone="Asia/Tokyo"),  # 9:18:59 then
        {"0001-01-01T00:00:00Z": "0001-01-01T22:41:01Z", "0001-01-02T00:00:00Z": "0001-01-02T22:41:01Z"},
    ),
}


class TestRule2Calendars:
    @staticmethod
    def ends(engine, every, *times, zone=None):
        """Return when the period of a calendar is over that each of some times lies in."""
        who = one_who(Periodic(9, every), zone=zone)
        events = [rc.Event(f"{number}", "/s", time=parse_time(time)) for number, time in enumerate(times)]
        return [format_time(one.time) for one in sorted(deliveries(engine, who, *events), key=lambda one: one.event)]

    @pytest.mark.parametrize(("every", "ends"), ENDS.values(), ids=ENDS)
    def test_a_period_ends_when_the_clock_first_shows_its_end_or_a_later_time(self, engine, every, ends):
        assert self.ends(engine, every, *ends) == list(ends.values())

    @pytest.mark.parametrize(
        "name", [name for name in ENGINES if name != "overlay"]
    )  # whose heartbeats need the year 10,000
    def test_a_period_that_would_end_after_the_year_9999_ends_with_it(self, name):
        every, times = rc.Every("day", at="08:00", zone=BERLIN), ("9999-12-30T00:00:00Z", "9999-12-31T12:00:00Z")
        assert self.ends(ENGINES[name], every, *times) == ["9999-12-30T07:00:00Z", format_time(LATEST)]

    def test_the_zone_is_that_of_the_calendar_else_that_of_the_subscriber_else_utc(self, engine):
        time = "2026-07-01T12:00:00Z"
        tokyo = rc.Every("day", zone="Asia/Tokyo")
        assert self.ends(engine, tokyo, time, zone=BERLIN) == ["2026-07-01T15:00:00Z"]
        assert self.ends(engine, rc.Every("day"), time, zone=BERLIN) == ["2026-07-01T22:00:00Z"]
        assert self.ends(engine, rc.Every("day"), time) == ["2026-07-02T00:00:00Z"]
        assert self.ends(engine, rc.Every("hour", at="00:20"), time, zone=BERLIN) == ["2026-07-01T12:20:00Z"]

    def test_every_hour_is_the_same_everywhere_and_a_zone_is_refused(self):
        with pytest.raises(InvalidSubscriptionError, match="zone"):
            rc.Every("hour", zone=BERLIN)

    @pytest.mark.parametrize("kernels", [False, True], ids=["steps", "kernels"])
    def test_another_zone_of_a_subscriber_counts_for_the_next_period(self, kernels):
        hub = rc.Hub(kernels=kernels)
        hub.subscribe("ana", "true", deliver=rc.Periodic(9, rc.Every("day")))
        hub.publish({}, now=parse_time("2026-07-01T12:00:00Z"))
        hub.update("ana", zone=BERLIN)
        ends = [note.time for note in hub.advance(parse_time("2026-07-02T12:00:00Z"))]
        hub.publish({}, now=parse_time("2026-07-02T12:00:00Z"))
        ends += [note.time for note in hub.advance(parse_time("2026-07-04"))]
        assert list(map(format_time, ends)) == ["2026-07-02T00:00:00Z", "2026-07-02T22:00:00Z"]


class TestRule3Sliding:
    def test_the_window_is_the_w_most_recent_matching_events(self, engine):
        assert rounds(engine, Sliding(1, 2), DRIFT) == [["1"], [], ["2"], ["3"]]

    def test_events_that_do_not_match_take_no_place(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "x = 2": 0.5, "x = 3": 0.1}, deliver=rc.Sliding(1, 2))
        found = [len(hub.publish(event(f"{n}", x=x))) for n, x in enumerate((1, 7, 7, 7, 2, 7, 3))]
        assert found == [1, 0, 0, 0, 0, 0, 1]

    def test_partial_windows_are_evaluated_too(self, engine):
        assert rounds(engine, Sliding(1, 9), DRIFT[:1]) == [["1"]]

    def test_the_expired_leave_first_and_free_their_places_then_the_new_one_enters(self, engine):
        """w = 2, k = 1, (time, rank, expiry) = (1, .9, -), (2, .5, 3), (4, .4, -): the first is still in the window."""
        arrivals = [candidate(1, 0.9), candidate(2, 0.5, expires=3), candidate(4, 0.4)]
        assert rounds(engine, Sliding(1, 2), arrivals) == [["1"], [], []]

    @given(st.lists(st.integers(0, 4), max_size=25), st.integers(1, 5), st.integers(1, 6))
    def test_property_3_1_at_most_one_delivery_per_match_without_expiry_and_diversity(self, scores, k, window):
        arrivals = [candidate(time, score / 4) for time, score in enumerate(scores)]
        assert all(len(found) <= 1 for found in delivered_by_match(Sliding(k, window), arrivals))

    def test_property_3_1_fails_with_expiry(self, engine):
        arrivals = [
            candidate(1, 0.9, expires=5),
            candidate(2, 0.8, expires=5),
            candidate(3, 0.1),
            candidate(4, 0.2),
            candidate(6, 0.3),
        ]
        assert rounds(engine, Sliding(2, 4), arrivals)[-1] == ["6", "4"]


class TestRule4TopKWindow:
    def test_whatever_is_in_the_top_k_at_any_instant_is_delivered(self, engine):
        arrivals = [candidate(0, 0.9), candidate(2, 0.5), candidate(3, 0.4)]
        assert played(engine, TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (5, "2"), (7, "3")]

    def test_an_event_lives_until_the_window_or_its_expiry_ends(self, engine):
        arrivals = [candidate(0, 0.9, expires=3), candidate(2, 0.5)]
        assert played(engine, TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (3, "2")]
        arrivals = [candidate(0, 0.9, expires=99), candidate(2, 0.5)]
        assert played(engine, TopKWindow(1, seconds(5)), arrivals) == [(0, "0"), (5, "2")]

    def test_it_is_not_alive_at_the_end_itself(self, engine):
        assert played(engine, TopKWindow(1, seconds(5)), [candidate(0, 0.5), candidate(5, 0.4)]) == [(0, "0"), (5, "5")]

    def test_windows_of_time_are_evaluated_at_every_departure(self, engine):
        found = played(engine, TopKWindow(1, seconds(10)), DRIFT)
        assert found == [(1, "1"), (11, "2"), (12, "3"), (13, "4")]

    def test_windows_of_counts_expire_and_insert_atomically(self, engine):
        """The second is never the best: the third, which is better, enters as the first leaves."""
        arrivals = [candidate(1, 0.9), candidate(2, 0.1), candidate(3, 0.5)]
        assert played(engine, TopKWindow(1, 2), arrivals) == [(1, "1"), (3, "3")]

    def test_k_0_delivers_nothing(self, engine):
        assert played(engine, TopKWindow(0, 3), DRIFT) == played(engine, TopKWindow(0, seconds(3)), DRIFT) == []

    def test_a_count_window_of_at_most_k_delivers_everything(self, engine):
        assert played(engine, TopKWindow(3, 3), DRIFT) == [(time, f"{time}") for time in (1, 2, 3, 4)]

    def test_a_window_of_no_time_is_refused(self):
        with pytest.raises(InvalidSubscriptionError, match=r"window: .* is not a duration above zero"):
            TopKWindow(1, timedelta(0))

    def test_no_shortcut_by_an_assumed_rate_a_window_of_time_may_hold_fewer_than_k(self, engine):
        """With one event now and one much later both are delivered, however many a window holds on average."""
        burst = [candidate(0, 0.9 - n / 100, name=f"{n:02}") for n in range(20)]
        found = played(engine, TopKWindow(3, seconds(5)), [*burst, candidate(60, 0.1, name="late")])
        assert found[-1] == (60, "late")

    def test_in_a_window_of_counts_an_expired_event_keeps_its_place(self, engine):
        """It is still one of the two most recent when the third arrives, so the first is not."""
        arrivals = [candidate(1, 0.9), candidate(2, 0.5, expires=3), candidate(4, 0.4)]
        assert played(engine, TopKWindow(1, 2), arrivals) == [(1, "1"), (4, "4")]

    def test_what_expires_at_an_instant_leaves_with_the_insertion_of_its_first_event(self, engine):
        """The second is never the best: the third, which is better, enters as the first expires."""
        arrivals = [candidate(1, 0.9, expires=3), candidate(2, 0.1), candidate(3, 0.5)]
        assert played(engine, TopKWindow(1, 5), arrivals) == [(1, "1"), (3, "3")]


class TestTheBoundedQueue:
    """The best one of three events, with room for two."""

    POLICY = TopKWindow(1, 3, queue=Bounded(0.3))
    ARRIVALS = tuple(candidate(time, score) for time, score in ((1, 0.9), (2, 0.8), (3, 0.7), (4, 0.1), (5, 0.05)))

    def test_its_length_for_each_k(self):
        lengths = {1: 10, 2: 13, 5: 20, 10: 30, 20: 46, 50: 88, 100: 151, 200: 271, 500: 609, 1000: 1152, 2000: 2213}
        assert {k: queue_length(k, 0.001) for k in lengths} == lengths
        assert (queue_length(1, 0.3), queue_length(7, 1.0), queue_length(0, 0.001)) == (2, 7, 0)

    def test_what_was_dropped_keeps_its_place_and_is_missed_and_a_worse_one_delivered_instead(self, engine):
        """The third finds two better ones. As the second leaves, the fourth is the best that is held."""
        assert played(engine, TopKWindow(1, 3), self.ARRIVALS) == [(1, "1"), (4, "2"), (5, "3")]
        assert played(engine, self.POLICY, self.ARRIVALS) == [(1, "1"), (4, "2"), (5, "4")]

    def test_a_better_one_drops_the_worst_and_of_equals_the_older(self):
        queue = after(self.POLICY, [candidate(1, 0.5), candidate(2, 0.5), candidate(3, 0.5)])
        assert [one.identity.id for one in queue.held] == ["2", "3"]

    def test_what_expires_makes_room(self, engine):
        arrivals = [candidate(1, 0.9, expires=3), candidate(2, 0.8), candidate(3, 0.7)]
        assert played(engine, self.POLICY, arrivals) == [(1, "1"), (3, "2")]
        assert [one.identity.id for one in after(self.POLICY, arrivals).held] == ["2", "3"]

    def test_a_change_acts_on_what_is_held(self):
        exact = after(TopKWindow(1, 9), self.ARRIVALS)
        bounded = changed_queue(exact, TopKWindow(1, 9, queue=Bounded(0.3)), at(5))
        assert [one.identity.id for one in bounded.held] == ["1", "2"]
        longer = changed_queue(bounded, TopKWindow(3, 9, queue=Bounded(1)), at(5))
        assert names_of(step(longer, candidate(6, 0.01), at(6))[1]) == ["2", "6"]

    def test_it_is_refused_where_it_makes_no_sense(self):
        for window, others in ((timedelta(1), {}), (9, {"ties": "keep"}), (9, {"diversity": Diversity()})):
            with pytest.raises(InvalidSubscriptionError, match="queue: only that of a window of so many events"):
                TopKWindow(1, window, queue=Bounded(), **others)
        for sigma in (0, 1.5, 1e-10, True, "1"):
            with pytest.raises(InvalidSubscriptionError, match=r"sigma: .* is not a number from 1e-09 to 1"):
                Bounded(sigma)
        with pytest.raises(InvalidSubscriptionError, match=r"queue: 0.001 is not a Bounded; expected Bounded\(sigma\)"):
            TopKWindow(1, 9, queue=0.001)
        with pytest.raises(InvalidSubscriptionError, match=r"k: 1,000,001 is more than 1,000,000"):
            TopKWindow(1_000_001, 2_000_000, queue=Bounded())


class TestRule5Expiry:
    @pytest.mark.parametrize(
        ("refreshes", "expires", "expected"),
        [
            pytest.param([None], 100, [], id="from the event, at the end"),
            pytest.param([None], 101, ["1"], id="from the event, after the end"),
            pytest.param([100], None, [], id="or from a refresh time of the subscription, at the end"),
            pytest.param([101], None, ["1"], id="or from a refresh time, after the end"),
            pytest.param([500], 50, [], id="the smaller of the two counts"),
            pytest.param([50], 500, [], id="whichever it is"),
            pytest.param([50, 500], None, ["1"], id="with several matching subscriptions the largest refresh counts"),
            pytest.param([50, None], None, ["1"], id="a subscription without a refresh has the largest"),
        ],
    )
    def test_expiry_comes_from(self, engine, refreshes, expires, expected):
        owned = tuple(
            Subscription(f"{n}", rc.parse_filter("x >= 0"), 0.5, refresh=None if one is None else seconds(one))
            for n, one in enumerate(refreshes)
        )
        who = Subscriber("ana", owned, Periodic(9, seconds(100)))
        assert handed(engine, who, event("1", time=0, expires=expires, x=1)) == expected


class TestRule11WhatAQueueHolds:
    """Each counterexample of a shorter rule: what it would have dropped is delivered, or holds another one back."""

    def held(self, policy, arrivals):
        queue = after(policy, arrivals)
        return [one.identity.id for one in queue.held]

    def test_an_event_that_is_not_newer_does_not_outstay_in_a_window_of_counts(self, engine):
        arrivals = [candidate(1, 0.9, expires=9), candidate(2, 0.5, expires=9), candidate(3, 0.4, expires=9)]
        assert self.held(Sliding(1, 2), arrivals) == ["2", "3"]
        assert rounds(engine, Sliding(1, 2), arrivals) == [["1"], [], ["2"]]

    def test_expiry_counts_beside_the_place(self):
        arrivals = [candidate(0, 0.2, expires=7), candidate(3, 0.2, expires=5)]
        assert self.held(Sliding(1, 3), arrivals) == self.held(TopKWindow(1, 3), arrivals) == ["0", "3"]

    def test_delivered_events_stay_while_they_hold_back_others(self, engine):
        arrivals = [candidate(2, 0.3, expires=4), candidate(3, 0.2)]
        assert self.held(TopKWindow(1, seconds(4)), arrivals) == ["2", "3"]
        assert played(engine, TopKWindow(1, seconds(4)), arrivals) == [(2, "2"), (4, "3")]

    def test_without_expiry_few_of_a_large_window_are_held(self):
        """About k(1 + ln(w/k)), give or take 3 standard deviations: 56 of 1,000 with k = 10."""
        ranks = np.random.default_rng(7).random(1_500).tolist()
        arrivals = [candidate(time, rank) for time, rank in enumerate(ranks)]
        for policy in (Sliding(10, 1_000), TopKWindow(10, 1_000), TopKWindow(10, seconds(1_000))):
            assert 38 < len(self.held(policy, arrivals)) < 74

    def test_what_is_dropped_keeps_its_place_until_it_expires(self, engine):
        """The second is dropped for the third; when it expires, the first is in the window of two again as one."""
        arrivals = [candidate(1, 0.9), candidate(2, 0.1, expires=4), candidate(3, 0.5), candidate(5, 0.2)]
        assert rounds(engine, Sliding(1, 3), arrivals) == [["1"], [], [], []]
        assert self.held(Sliding(1, 3), arrivals[:3]) == ["1", "3"]

    @pytest.mark.parametrize("policy", [Sliding, TopKWindow])
    def test_with_ties_kept_what_was_delivered_stays_while_it_holds_back_an_equal(self, engine, policy):
        """The first is not among what can still be the best, but the third is kept back by it."""
        arrivals = [candidate(time, 0.5) for time in (1, 2, 3, 4)]
        assert self.held(policy(1, 3), arrivals[:2]) == ["2"]
        assert self.held(policy(1, 3, ties="keep"), arrivals[:2]) == ["1", "2"]
        assert played(engine, policy(1, 3, ties="keep"), arrivals) == [(1, "1"), (4, "4")]

    def test_with_ties_kept_one_of_two_that_are_equal_and_leave_together_holds_back(self):
        window = TopKWindow(2, seconds(9), ties="keep")
        queue = after(window, (candidate(1, 0.5, name="a"), candidate(1, 0.5, name="b")))
        assert [one.identity.id for one in queue.held] == ["a", "b"]
        assert [one.identity.id for one in changed_queue(queue, replaced(window, k=1), at(2)).held] == ["a"]

    def test_with_ties_kept_the_later_of_equals_holds_back_for_longer_whichever_id_is_better(self):
        queue = after(Sliding(2, 9), (candidate(1, 0.5, name="a"), candidate(1, 0.5, name="b")))
        queue = changed_queue(queue, Sliding(1, 9, ties="keep"), at(1))
        queue, delivered = step(queue, candidate(2, 0.5), at(2))
        assert ([one.identity.id for one in queue.held], delivered) == (["b", "2"], [])

    def test_with_ties_kept_continuous_delivery_holds_what_its_list_shows(self):
        """The first and the third are as good as the second and outlive it, and yet it is the second on the list."""
        arrivals = [candidate(0, 0.5, expires=20), candidate(1, 0.5, expires=10), candidate(2, 0.9, expires=30)]
        queue = after(Continuous(2, ties="keep"), arrivals)
        assert [one.identity.id for one in current(queue, at(3))] == ["2", "1"]

    def test_after_a_larger_k_just_what_was_held_can_be_delivered(self):
        queue = after(Sliding(1, 9), (candidate(1, 0.3), candidate(2, 0.9), candidate(3, 0.1)))
        queue = changed_queue(queue, Sliding(5, 9), at(3))
        assert names_of(step(queue, candidate(4, 0.2), at(4))[1]) == ["4", "3"]


class TestRule8Changes:
    def held(self, policy):
        return after(policy, DRIFT[:3])

    def next_delivered(self, queue):
        return names_of(step(queue, candidate(5, 0.1), at(5))[1])

    def test_a_larger_k_acts_from_the_next_instant_on_what_is_still_held(self):
        assert self.next_delivered(changed_queue(self.held(TopKWindow(1, 9)), TopKWindow(2, 9), at(4))) == ["2"]
        assert self.next_delivered(changed_queue(self.held(Sliding(1, 9)), Sliding(3, 9), at(4))) == ["2", "3"]

    def test_ties_act_from_the_next_instant_on_what_is_held(self):
        queue = after(Sliding(1, 9), (candidate(1, 0.5), candidate(2, 0.5)))
        queue, found = step(changed_queue(queue, Sliding(1, 9, ties="keep"), at(2)), candidate(3, 0.5), at(3))
        assert found == []
        assert [one.identity.id for one in queue.held] == ["2", "3"]
        queue, found = step(changed_queue(queue, Sliding(1, 9), at(3)), candidate(4, 0.1), at(4))
        assert names_of(found) == ["3"]

    def test_a_smaller_window_keeps_the_most_recent(self):
        assert self.next_delivered(changed_queue(self.held(Sliding(1, 9)), Sliding(1, 2), at(4))) == ["3"]

    def test_nothing_is_delivered_by_the_change_itself_and_nothing_retracted(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x >= 0": 0.5}, deliver=rc.Sliding(5, 9))
        assert published(hub, 1) == [["1"]]
        hub.update("ana", deliver=rc.Sliding(0, 9))
        assert published(hub, 2) == [[]]

    def test_unsubscribing_discards_state_and_pending_results(self):
        hub = subscribed(rc.Hub(), deliver=rc.Periodic(5, seconds(10)))
        published(hub, 1)
        hub.unsubscribe("ana")
        assert hub.advance(at(20)) == []

    def test_subscribing_again_starts_empty(self):
        hub = subscribed(rc.Hub(), deliver=rc.Sliding(1, 9))
        published(hub, 3)
        hub.unsubscribe("ana")
        subscribed(hub, deliver=rc.Sliding(1, 9))
        assert published(hub, 4) == [["4"]]

    def test_a_subscription_sees_only_events_between_its_activation_and_its_end(self, engine):
        owned = Subscription("s", rc.parse_filter("x >= 0"), 0.5, active_from=at(2), active_until=at(4))
        events = [event(f"{time}", time, x=time) for time in (1, 2, 3, 4)]
        assert handed(engine, Subscriber("ana", (owned,)), *events) == ["2", "3"]


class TestRule9Time:
    def test_a_replay_passes_the_event_s_own_time(self):
        hub = subscribed(rc.Hub(), deliver=rc.Periodic(1, seconds(10)))
        assert published(hub, 1, 11) == [[], ["1"]]

    def test_the_end_of_a_bounded_input_completes_open_periods_and_windows(self):
        hub = subscribed(rc.Hub(), deliver=rc.Periodic(1, seconds(10)))
        published(hub, 1)
        assert [note.event.id for note in hub.finish()] == ["1"]
        _, found = finished(step(new_queue(TopKWindow(1, seconds(9))), candidate(1, 0.5), at(1), closed=False)[0])
        assert names_of(found) == ["1"]

    def test_time_never_goes_back(self):
        hub = subscribed(rc.Hub(), deliver=rc.Periodic(1, seconds(10)))
        published(hub, 15)
        assert hub.advance(at(3)) == []
        assert [(note.event.id, note.time) for note in hub.advance(at(20))] == [("15", at(20))]

    @pytest.mark.parametrize("lateness", [None, seconds(0), seconds(5)])
    def test_a_clock_that_steps_back_makes_no_event_late_and_what_has_no_time_has_the_latest(self, lateness):
        clock, late = FakeClock(at(100)), []
        hub = rc.Hub(clock=clock, lateness=lateness, on_late=late.append)
        hub.subscribe("ana", "true")
        notes = hub.publish({"x": 1})
        clock.set(at(0))
        notes += hub.publish({"x": 2}) + hub.finish()
        assert ([note.event.time for note in notes], late) == ([at(100), at(100)], [])


class TestRule10State:
    POLICIES = (
        Continuous(2),
        Periodic(2, seconds(4)),
        Sliding(2, 3),
        TopKWindow(2, 3),
        TopKWindow(2, seconds(4)),
        Sliding(2, 3, ties="keep"),
        Sliding(2, 4, diversity=Diversity(0.3)),
    )
    STREAM = tuple(
        candidate(t, (t * 7 % 5) / 5, None if t % 3 else t + 4, name=f"{t:02}", genre="abc"[t % 3]) for t in range(14)
    )

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("moment", [0, 1, 5, 13])
    def test_restore_of_a_snapshot_goes_on_as_if_nothing_happened(self, policy, moment):
        queue = after(policy, self.STREAM[:moment])
        other = decode(encode(queue, AnyQueue), AnyQueue, "queue")
        for arriving in self.STREAM[moment:]:
            (queue, ours), (other, theirs) = (step(one, arriving, arriving.time) for one in (queue, other))
            assert ours == theirs
        assert finished(queue)[1] == finished(other)[1]

    def test_state_is_explicit_a_step_leaves_the_queue_it_was_given_as_it_is(self):
        queue = new_queue(Sliding(1, 2))
        first = step(queue, DRIFT[0], at(1))
        assert step(queue, DRIFT[0], at(1)) == first
        assert queue == new_queue(Sliding(1, 2))

    def test_state_is_versioned(self):
        other = pack(QUEUE_TABLE, VERSION + 1, QueueTable.of([Sliding(1, 2)]).to_arrays())
        with pytest.raises(InvalidValueError, match="version"):
            QueueTable.from_bytes(other)


def hub_with(policy, **options):
    """Return a hub in which ana wants events with x >= 0, the larger x the better."""
    hub = rc.Hub(**{name: options.pop(name) for name in ("lateness", "on_late") if name in options})
    wanted = {f"x = {x}": x / 10 for x in range(11)}
    hub.subscribe("ana", wanted, deliver=policy, **options)
    return hub


def put(hub, *stream):
    """Publish (time, x) in this order, each at its own time; return (id, instant) of what is delivered by each."""
    found = []
    for time, x in stream:
        notes = hub.publish(event(f"{time}", time=time, x=x), now=at(time))
        found.append([(note.event.id, (note.time - at(0)).total_seconds()) for note in notes])
    return found


class TestRule6HandingOver:
    """Events are named for their seconds; the larger x, the better."""

    TEN = Digest(seconds(10))

    @pytest.mark.parametrize(
        ("policy", "notify", "events", "expected"),
        [
            pytest.param(
                *(Sliding(1, 5), rc.AtOnce(), [(1, 3), (2, 5)], [(1, "1"), (2, "2")]),
                id="proactive: each policy at its own instants",
            ),
            pytest.param(
                *(Sliding(1, 5), TEN, [(1, 3), (2, 5)], [(10, "1"), (10, "2")]),
                id="a digest: together at its instant",
            ),
            pytest.param(
                *(Periodic(1, seconds(10)), TEN, [(1, 3)], [(10, "1")]), id="a period that ends at a digest is in it"
            ),
            pytest.param(
                *(Periodic(1, seconds(10)), TEN, [(1, 3), (10, 4)], [(10, "1"), (20, "10")]),
                id="an event that arrives at a digest is in the next period",
            ),
            pytest.param(
                *(rc.AllMatches(), TEN, [(1, 3), (10, 4)], [(10, "1"), (20, "10")]),
                id="an event that arrives at a digest is in the next digest",
            ),
            pytest.param(
                *(TopKWindow(1, seconds(9)), TEN, [(1, 3), (2, 1)], [(10, "1"), (20, "2")]),
                id="what a window delivers when the instant of a digest is over is in the next",
            ),
            pytest.param(
                *(Sliding(1, 5), TEN, [(1, 3, 2)], [(10, "1")]), id="what has expired meanwhile is handed over too"
            ),
            pytest.param(
                *(Periodic(1, seconds(4)), TEN, [(1, 3), (5, 5)], [(10, "1"), (10, "5")]),
                id="a digest may have another period than the policy",
            ),
            pytest.param(
                *(Sliding(1, 5), Digest(rc.Every("day", at="08:00")), [(1, 3)], [(23 * 3_600, "1")]),
                id="and follow a calendar, in the zone of the subscriber",
            ),
        ],
    )
    def test_what_a_policy_delivers_is_handed_over(self, engine, policy, notify, events, expected):
        made = [event(f"{time}", time, *end, x=x) for time, x, *end in events]
        assert handed_at(engine, graded(policy, notify=notify, zone="Asia/Tokyo"), *made) == expected

    def test_a_digest_has_the_times_of_delivery_too(self, engine):
        (found,) = deliveries(engine, graded(Sliding(1, 5), notify=self.TEN), event("1", 1, x=3))
        assert (found.time, found.digest) == (at(1), at(10))

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            pytest.param(Sliding(2, 3), {"2", "3"}, id="of a window: the best k of what is valid in it"),
            pytest.param(TopKWindow(2, 3), {"2", "3"}, id="of any window"),
            pytest.param(Continuous(2), {"1", "2"}, id="of continuous delivery: of its valid delivered events"),
            pytest.param(
                Periodic(2, seconds(10)), {"2", "3"}, id="of a period: what it would deliver if nothing more arrived"
            ),
        ],
    )
    def test_on_demand_the_current_list_is_read_and_nothing_is_handed_over(self, engine, policy, expected):
        events = [
            event("0", 0, 4, x=10),
            *(event(f"{time}", time, x=x) for time, x in ((1, 3), (2, 9), (3, 5), (4, 1))),
        ]
        case = Case((graded(policy, notify=OnDemand()),), tuple(events), reads=(at(4),))
        check(engine, case)
        assert {found.event.id for found in engine.deliveries(case)} == expected

    def test_reading_changes_nothing(self):
        hub = hub_with(rc.Sliding(2, 3), notify=OnDemand())
        put(hub, (1, 3), (2, 9))
        assert hub.read("ana", now=at(2)) == hub.read("ana", now=at(2))


class TestRule7LateEvents:
    def test_an_event_later_than_allowed_goes_to_the_late_output_and_changes_nothing(self):
        late = []
        hub = hub_with(rc.Sliding(1, 5), lateness=seconds(2), on_late=late.append)
        put(hub, (10, 3))
        hub.publish(event("old", time=7, x=9), now=at(10))
        assert [one.event.id for one in late] == ["old"]
        assert [note.event.id for note in hub.finish()] == ["10"]

    def test_late_events_are_counted(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(2))
        put(hub, (10, 3))
        for time in (1, 2, 3):
            hub.publish(event(f"old {time}", time=time, x=1), now=at(10))
        assert hub.late_count == 3

    def test_the_same_identity_is_ignored_while_it_waits_and_after(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(5))
        put(hub, (10, 3))
        again = event("10", time=10, x=3)
        hub.publish(again, now=at(11))
        assert [note.event.id for note in hub.advance(at(30))] == ["10"]
        assert hub.publish(again, now=at(31)) == []

    def test_the_same_content_under_another_identity_is_distinct(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(5))
        for name in ("a", "b"):
            hub.publish(event(name, time=10, x=3), now=at(10))
        assert [note.event.id for note in hub.finish()] == ["a", "b"]


class TestRule8ChangesInEventTime:
    def test_ranks_that_change_reorder_what_is_still_held(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "x = 2": 0.5}, deliver=rc.Periodic(2, seconds(10)))
        put(hub, (1, 1), (2, 2))
        hub.update("ana", subscriptions={"x = 1": 0.1, "x = 2": 0.5})
        assert [note.event.id for note in hub.advance(at(10))] == ["2", "1"]

    def test_what_matches_no_subscription_any_more_is_dropped(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "x = 2": 0.5}, deliver=rc.Periodic(2, seconds(10)))
        put(hub, (1, 1), (2, 2))
        hub.unsubscribe("ana", "1")
        assert [note.event.id for note in hub.advance(at(10))] == ["2"]

    @pytest.mark.parametrize("order", [((1, 3), (4, 5), (9, 7)), ((4, 5), (1, 3), (9, 7)), ((9, 7), (4, 5), (1, 3))])
    def test_activation_is_in_event_time_and_does_not_depend_on_the_order_of_arrival(self, order):
        wanted = rc.Subscription("s", rc.parse_filter("x >= 0"), 0.5, active_from=at(3), active_until=at(9))
        hub = rc.Hub([rc.Subscriber("ana", (wanted,))], lateness=seconds(60))
        for time, x in order:
            hub.publish(event(f"{time}", time=time, x=x), now=at(10))
        assert [note.event.id for note in hub.finish()] == ["4"]


class TestRule9Buffering:
    POLICIES = (rc.Continuous(2), rc.Periodic(2, seconds(4)), rc.Sliding(2, 3), rc.TopKWindow(2, seconds(4)))

    @pytest.mark.parametrize("policy", POLICIES)
    @given(
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 10)), max_size=12, unique_by=lambda one: one[0]),
        st.data(),
    )
    def test_events_no_later_than_allowed_give_exactly_the_result_of_processing_in_order(self, policy, stream, data):
        shuffled = data.draw(st.permutations(stream))

        def everything(order):
            hub = hub_with(policy, lateness=seconds(20))
            notes = [note for time, x in order for note in hub.publish(event(f"{time:02}", time=time, x=x), now=at(12))]
            return [(note.event.id, note.time) for note in (*notes, *hub.finish())]

        assert everything(shuffled) == everything(sorted(stream))

    def test_a_hub_s_log_records_each_now_and_its_replay_uses_it(self, tmp_path):
        """Brought back long after, the hub is in the same period as when it ended."""
        path = tmp_path / "hub.db"
        with rc.Hub(path=path, clock=lambda: at(3)) as hub:
            hub.subscribe("ana", {"x >= 0": 0.5}, deliver=rc.Periodic(1, seconds(10)))
            hub.publish(event("1", x=1))
        with rc.Hub(path=path, clock=lambda: at(4)) as hub:
            assert hub.advance() == []
            assert [(note.event.id, note.time) for note in hub.advance(at(5_000))] == [("1", at(10))]


class TestDuplicates:
    def test_an_identity_is_remembered_for_a_span_and_past_that_it_is_new(self):
        known = Remembered()
        known.add(Identity("/s", "1"), at(0))
        known.forget(at(9), at_least=0, span=seconds(10))
        assert Identity("/s", "1") in known
        known.forget(at(10), at_least=0, span=seconds(10))
        assert Identity("/s", "1") not in known

    def test_memory_is_bounded_but_for_what_the_span_needs(self):
        known = Remembered()
        for number in range(100):
            known.add(Identity("/s", f"{number}"), at(number))
            known.forget(at(number), at_least=20, span=seconds(5))
        assert len(known.state()) == 20


class TestRule12BoundedInput:
    """One result, whatever the order of lines; by the command on a file, and by the stages of Spark in batch."""

    LINES = (
        *({"id": name, "time": format_time(at(second)), "x": x} for name, second, x in ORDERED),
        {"x": 9},  # known by its content, and of the time of the start
        {"x": 9},
        {"x": 8},
    )

    @pytest.mark.parametrize(
        "policy", [Sliding(1, 3), Continuous(2), TopKWindow(1, seconds(3)), Periodic(1, seconds(3))]
    )
    @pytest.mark.parametrize("seed", range(3))
    def test_match_and_spark_deliver_the_same(self, tmp_path, policy, seed):
        who, path = graded(policy), tmp_path / "events.jsonl"
        save_subscribers(tmp_path / "people.yaml", [who])
        path.write_text("".join(json.dumps(line) + "\n" for line in shuffled(self.LINES, seed)))
        command = ["match", path, "--subscribers", tmp_path / "people.yaml", "--json", "--now", format_time(at(2))]
        told = run(*command)
        assert "3 events without a time" in told.stderr or "2 events without a time" in told.stderr
        by_match = [(note["event"]["id"], note["time"]) for note in lines(told.stdout)]
        path.write_text("".join(json.dumps(line) + "\n" for line in self.LINES))
        assert run(*command).stdout == told.stdout
        events = [one.stamped(at(2)) for one in read_events(str(path)) if isinstance(one, rc.Event)]
        by_spark = ENGINES["spark-stages"].deliveries(Case((who,), shuffled(events, seed)))
        assert sorted(by_match) == sorted((one.event.id, format_time(one.time)) for one in by_spark)
