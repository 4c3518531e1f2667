"""Subscriptions, subscribers, policies and advertisements: what they mean, and what is refused."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import DuplicateIdError, InvalidSubscriptionError, UnknownAttributeError, shown
from rankcast.model.events import Event
from rankcast.model.expressions import Constant, attr
from rankcast.model.filters import Filter
from rankcast.model.policies import ALL_MATCHES, AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Advertisement, Priority, RankBy, Subscriber, Subscription, unique_subscribers
from rankcast.model.values import ValueType
from rankcast.testing.strategies import subscribers, times

EVERYTHING = Filter.of(Constant(True))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


def subscription(name="a", **fields):
    return Subscription(name, EVERYTHING, **fields)


def refused(reason):
    return pytest.raises(InvalidSubscriptionError, match=reason)


class TestActivation:
    def test_an_event_without_a_time_is_seen_only_without_bounds(self):
        assert subscription().is_active_at(None)
        assert not subscription(active_from=NOON).is_active_at(None)
        assert not subscription(active_until=NOON).is_active_at(None)

    @given(times(), times(), st.none() | times())
    def test_the_start_belongs_to_it_and_the_end_does_not(self, start, end, time):
        time = end if time is None else time
        assert subscription(active_until=end).is_active_at(time) == (time < end)
        assert subscription(active_from=end).is_active_at(time) == (time >= end)
        if start < end:
            assert subscription(active_from=start, active_until=end).is_active_at(time) == (start <= time < end)

    def test_bounds_are_kept_in_utc(self):
        local = subscription(active_from=NOON.astimezone(timezone(HOUR)))
        assert local.active_from.tzinfo is UTC

    @pytest.mark.parametrize("until", [NOON, NOON - TICK])
    def test_it_ends_after_it_starts(self, until):
        with refused("active_until: .* is not after active_from, 2026-03-01T12:00:00Z"):
            subscription(active_from=NOON, active_until=until)

    @pytest.mark.parametrize("bound", ["2026-03-01", 5, math.nan, datetime(2026, 3, 1), True])  # noqa: DTZ001
    def test_bounds_are_aware_times(self, bound):
        with refused("active_from: "):
            subscription(active_from=bound)


class TestFields:
    @pytest.mark.parametrize("wanted", ["rent < 900", attr("rent") < 900, None])
    def test_a_filter_is_made_before(self, wanted):
        with refused(r"filter: .* is not a Filter; expected parse_filter\(text\) or Filter.of\(expression\)"):
            Subscription("a", wanted)

    @pytest.mark.parametrize("policy", [3, "sliding", Sliding, None])
    def test_delivery_is_a_policy(self, policy):
        with refused(r"deliver: .* is not a delivery policy; expected AllMatches\(\), Continuous\(k\), "):
            Subscriber("ana", (subscription(),), policy)

    @pytest.mark.parametrize("rank", [0, 1, 0.0, 1.0, 0.5, -0.0, 5e-324])
    def test_a_rank_lies_between_0_and_1(self, rank):
        assert subscription(rank=rank).rank == rank

    @pytest.mark.parametrize(
        "rank", [-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0.5", 1 + 2**-52, 10**400, 10**5000], ids=shown
    )
    def test_any_other_rank_is_refused(self, rank):
        with refused("rank: .* is not a number from 0 to 1"):
            subscription(rank=rank)

    @pytest.mark.parametrize("weight", [-1, math.nan, math.inf, 1e308, 10**400, True, "1", None])
    def test_a_weight_is_finite_and_not_negative(self, weight):
        with refused("weight: .* is not a finite number of at least 0"):
            subscription(weight=weight)

    @pytest.mark.parametrize("name", ["", " ", "\t\n", None, 5, "x" * 1_001, "\ud800"])
    def test_an_id_is_a_readable_text(self, name):
        for make in (subscription, Subscriber):
            with refused("id: "):
                make(name)

    def test_any_other_text_is_an_id(self):
        assert subscription(" é😀\0 ").id == " é😀\0 "


class TestSubscribers:
    @pytest.mark.parametrize(
        ("wrong", "expected"),
        [
            ({"rank_by": "max"}, "rank_by: 'max' is not a RankBy"),
            ({"most_specific": "no"}, "most_specific: 'no' is not True or False"),
            ({"subscriptions": ("a",)}, "subscriptions: 'a' is not a Subscription"),
            ({"subscriptions": None}, "subscriptions: .* is not a tuple"),
            ({"subscriptions": 5}, "subscriptions: .* is not a tuple"),
            ({"priorities": None}, "priorities: .* is not a tuple"),
            ({"subscriptions": (subscription("a"),) * 2}, "subscriber 's' has two subscriptions 'a'"),
            ({"priorities": (Priority("a", "c"),)}, "priorities: subscriber 's' has no subscription 'c'"),
            ({"subscriptions": (subscription("a"), subscription("b", rank=0.5)), "priorities": (Priority("a", "b"),)},
             "subscription 'b' has a rank although there are priorities"),
            ({"decay": HOUR}, "decay: .* is not a Decay"),
        ],
    )  # fmt: skip
    def test_what_it_has_is_of_the_right_kind(self, wrong, expected):
        with pytest.raises((InvalidSubscriptionError, DuplicateIdError), match=expected):
            Subscriber("s", **{"subscriptions": (subscription("a"),), **wrong})

    def test_the_defaults(self):
        plain = Subscriber("s")
        assert (plain.deliver, plain.rank_by, plain.most_specific) == (ALL_MATCHES, RankBy.MAX, False)

    def test_a_subscription_is_found_by_its_id(self):
        owner = Subscriber("s", (subscription("a"), subscription("b")))
        assert owner.subscription("b") is owner.subscriptions[1]
        assert owner.subscription("c") is None

    def test_subscribers_are_unique_by_id(self):
        one, two = Subscriber("one"), Subscriber("two")
        assert list(unique_subscribers([one, two])) == ["one", "two"]
        with pytest.raises(DuplicateIdError, match="there are two subscribers 'one'"):
            unique_subscribers([one, two, Subscriber("one")])
        with pytest.raises(InvalidSubscriptionError, match=r"subscribers: 'people\.yaml' is no Subscriber"):
            unique_subscribers("people.yaml")

    @given(subscribers())
    def test_any_drawn_subscriber_finds_its_own(self, owner):
        assert all(owner.subscription(found.id) is found for found in owner.subscriptions)


class TestPolicies:
    WINDOWS = (Sliding(0, 1), Sliding(5, 3), TopKWindow(1, 1), TopKWindow(1, HOUR))

    @pytest.mark.parametrize("policy", [AllMatches(), Continuous(0), Periodic(1, TICK), *WINDOWS])
    def test_what_is_a_policy(self, policy):
        assert Subscriber("s", deliver=policy).deliver == policy
        assert hash(policy) == hash(policy)

    @pytest.mark.parametrize("k", [-1, 1.0, True, None, "1", math.inf])
    def test_k_is_a_whole_number(self, k):
        for make in (Continuous, lambda k: Periodic(k, HOUR), lambda k: Sliding(k, 1), lambda k: TopKWindow(k, 1)):
            with refused("k: .* is not a whole number of at least 0"):
                make(k)

    @pytest.mark.parametrize("window", [0, -1, 1.5, True, None, "1h"])
    def test_a_window_of_events_is_a_whole_number(self, window):
        for make in (Sliding, TopKWindow):
            with refused("window: .* is not a whole number of at least 1"):
                make(1, window)

    @pytest.mark.parametrize("span", [timedelta(0), -TICK, 3_600, None, "1h"])
    def test_a_span_of_time_is_above_zero(self, span):
        with refused("period: .* is not a duration above zero"):
            Periodic(1, span)
        if isinstance(span, timedelta):
            with refused("window: .* is not a duration above zero"):
                TopKWindow(1, span)


class TestAdvertisements:
    CHEAP = Advertisement(
        "cheap",
        "/flats",
        Filter.of(attr("rent") < 500),
        Schema({"rent": ValueType.INT, "city": ValueType.STRING}, frozenset({"city"})),
    )

    @pytest.mark.parametrize(
        ("attributes", "source", "permitted"),
        [
            ({"rent": 400, "city": "Porto"}, "/flats", True),
            ({"rent": 400, "city": "Porto", "rooms": 2}, "/flats", True),
            ({"rent": 500, "city": "Porto"}, "/flats", False),
            ({"rent": 400}, "/flats", False),
            ({"city": "Porto"}, "/flats", False),
            ({"rent": 400, "city": "Porto"}, "/boats", False),
        ],
    )
    def test_they_permit_the_events_of_their_source_and_space(self, attributes, source, permitted):
        assert self.CHEAP.permits(Event.of(attributes, id="1", source=source)) is permitted

    @pytest.mark.parametrize("k", [0, -1, True, 1.5])
    def test_k_is_at_least_one(self, k):
        with refused("k: .* is not a whole number of at least 1"):
            Advertisement("a", "/s", EVERYTHING, k=k)

    def test_an_id_is_needed(self):
        with refused("advertisement id: ''"):
            Advertisement("", "/s", EVERYTHING)


class TestRelevance:
    NEAR = Closeness([Target("x", 1)])
    DISTANCE = IdealPoint([Target("x", 1)])
    WITHIN = IdealPoint([Target("x", 1)], reach=2)

    @pytest.mark.parametrize(
        ("wrong", "expected"),
        [
            ({"relevance": 0.5}, "relevance: 0.5 is not an IdealPoint, a Closeness or a Cosine"),
            ({"refresh": timedelta(0)}, "refresh: .* is not a duration above zero"),
            ({"relevance": DISTANCE, "rank": 0.5}, "an ideal point needs a reach to be combined with a rank"),
        ],
    )
    def test_a_relevance_and_a_refresh_are_what_they_should_be(self, wrong, expected):
        with refused(expected):
            subscription(**wrong)

    def test_within_a_reach_a_distance_is_combined_with_a_rank(self):
        assert subscription(relevance=self.WITHIN, rank=0.5).rank == 0.5

    @pytest.mark.parametrize("other", [{}, {"rank": 0.5}, {"relevance": NEAR}, {"relevance": WITHIN}])
    def test_distances_compete_with_distances_only(self, other):
        with refused("subscription 'b': relevance: an ideal point needs a reach .* another subscription's ranks"):
            Subscriber("ana", (subscription("a", **other), subscription("b", relevance=self.DISTANCE)))
        both = tuple(subscription(name, relevance=self.DISTANCE) for name in "ab")
        assert Subscriber("ana", both).subscriptions == both

    def test_distances_are_not_combined_with_priorities_or_decay(self):
        both = tuple(subscription(name, relevance=self.DISTANCE) for name in "ab")
        with refused("needs a reach to be combined with priorities"):
            Subscriber("ana", both, priorities=(Priority("a", "b"),))
        with refused("needs a reach to be combined with decay"):
            Subscriber("ana", both, decay=Decay(HOUR))

    def test_filter_and_relevance_are_checked_against_a_schema(self):
        schema = Schema({"x": ValueType.FLOAT})
        assert subscription(relevance=self.NEAR).under(schema).relevance == self.NEAR
        with pytest.raises(UnknownAttributeError, match="unknown attribute 'x'"):
            subscription(relevance=self.NEAR).under(Schema({"price": ValueType.FLOAT}))


def test_lists_become_tuples_which_nobody_can_change():
    owned = [Subscription("1", parse_filter("x > 1"))]
    made = Subscriber("ana", owned)
    owned.append(owned[0])
    assert made == Subscriber("ana", (owned[0],))
    assert hash(made) == hash(Subscriber("ana", (owned[0],)))
