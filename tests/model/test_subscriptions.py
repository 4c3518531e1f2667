"""Subscriptions, subscribers, policies and advertisements: what they mean, and what is refused."""

import math
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import DuplicateIdError, InvalidSubscriptionError, UnknownAttributeError
from rankcast.model.events import Event
from rankcast.model.expressions import Constant, attr
from rankcast.model.filters import Filter
from rankcast.model.policies import (
    ALL_MATCHES,
    AllMatches,
    Continuous,
    Diversity,
    Periodic,
    Sliding,
    TopKWindow,
    diversity_of,
)
from rankcast.model.relevance import Closeness, Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription, unique_subscribers
from rankcast.model.values import ValueType
from rankcast.testing.strategies import times

EVERYTHING = Filter.of(Constant(True))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


NEAR = Closeness([Target("x", 1)])
DISTANCE = IdealPoint([Target("x", 1)])
WITHIN = IdealPoint([Target("x", 1)], reach=2)


def subscription(name="a", **fields):
    return Subscription(name, EVERYTHING, **fields)


def owner(*subscriptions, **fields):
    return Subscriber("s", subscriptions or (subscription(),), **fields)


A, B = subscription("a"), subscription("b")
FAR_A, FAR_B = (subscription(name, relevance=DISTANCE) for name in "ab")
BEFORE = {"priorities": (Priority("a", "b"),)}
COUNTED = (Continuous, lambda k: Periodic(k, HOUR), lambda k: Sliding(k, 1), lambda k: TopKWindow(k, 1))
NO_TIMES = ["2026-03-01", 5, math.nan, datetime(2026, 3, 1), True]  # noqa: DTZ001
NO_RANKS = [-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0.5", 1 + 2**-52, 10**400, 10**5000]
NO_WEIGHTS = [-1, math.nan, math.inf, 1e308, 10**400, True, "1", None]
NO_IDS = ["", " ", "\t\n", None, 5, "x" * 1_001, "\ud800"]
NO_SPANS = [timedelta(0), -TICK, 3_600, None, "1h"]
REFUSED = {
    "active_until: .* is not after active_from, 2026-03-01T12:00:00Z": [
        partial(subscription, active_from=NOON, active_until=until) for until in (NOON, NOON - TICK)
    ],
    "active_from: ": [partial(subscription, active_from=bound) for bound in NO_TIMES],
    r"filter: .* is not a Filter; expected parse_filter\(text\) or Filter.of\(expression\)": [
        partial(Subscription, "a", wanted) for wanted in ("rent < 900", attr("rent") < 900, None)
    ],
    r"deliver: .* is not a delivery policy; expected AllMatches\(\), Continuous\(k\), ": [
        partial(owner, deliver=policy) for policy in (3, "sliding", Sliding, None)
    ],
    "rank: .* is not a number from 0 to 1": [partial(subscription, rank=rank) for rank in NO_RANKS],
    "weight: .* is not a finite number of at least 0": [partial(subscription, weight=weight) for weight in NO_WEIGHTS],
    "id: ": [partial(make, name) for make in (subscription, Subscriber) for name in NO_IDS],
    "rank_by: 'max' is not a RankBy": [partial(owner, rank_by="max")],
    "most_specific: 'no' is not True or False": [partial(owner, most_specific="no")],
    "subscriptions: 'a' is not a Subscription": [partial(owner, "a")],
    "subscriptions: .* is not a tuple": [partial(Subscriber, "s", wrong) for wrong in (None, 5)],
    "priorities: .* is not a tuple": [partial(owner, priorities=None)],
    "priorities: 5 is not a Priority, which is a pair": [partial(owner, priorities=[5])],
    r"priorities: subscriber 's' has no subscription \[\]": [partial(owner, priorities=[([], {})])],
    "diversity: .* is not possible here; expected a Periodic": [partial(Continuous, 2, diversity=Diversity())],
    "priorities: subscriber 's' has no subscription 'b'": [partial(owner, **BEFORE)],
    "subscription 'b' has a rank although there are priorities": [
        partial(owner, A, subscription("b", rank=0), **BEFORE)
    ],
    "decay: .* is not a Decay": [partial(owner, decay=HOUR)],
    "k: .* is not a whole number of at least 0": [
        partial(make, k) for make in COUNTED for k in (-1, 1.0, True, None, "1", math.inf)
    ],
    "window: .* is not a whole number of at least 1": [
        partial(make, 1, window) for make in (Sliding, TopKWindow) for window in (0, -1, 1.5, True, None, "1h")
    ],
    "period: .* is not a period; expected a timedelta": [partial(Periodic, 1, span) for span in NO_SPANS],
    "window: .* is not a duration above zero": [partial(TopKWindow, 1, span) for span in NO_SPANS[:2]],
    "k: .* is not a whole number of at least 1": [
        partial(Advertisement, "a", "/s", EVERYTHING, k=k) for k in (0, -1, True, 1.5)
    ],
    "advertisement id: ''": [partial(Advertisement, "", "/s", EVERYTHING)],
    "relevance: 0.5 is not an IdealPoint, a Closeness or a Cosine": [partial(subscription, relevance=0.5)],
    "refresh: .* is not a duration above zero": [partial(subscription, refresh=timedelta(0))],
    "an ideal point needs a reach to be combined with a rank": [partial(subscription, relevance=DISTANCE, rank=0.5)],
    "subscription 'b': relevance: an ideal point needs a reach .* another subscription's ranks": [
        partial(owner, subscription("a", **other), FAR_B)
        for other in ({}, {"rank": 0.5}, {"relevance": NEAR}, {"relevance": WITHIN})
    ],
    "needs a reach to be combined with priorities": [partial(owner, FAR_A, FAR_B, **BEFORE)],
    "needs a reach to be combined with decay": [partial(owner, FAR_A, FAR_B, decay=Decay(HOUR))],
    "sigma: .* is not a number from 0 to 1": [partial(Diversity, sigma) for sigma in (1.1, True, math.nan, "0.5")],
    "not a mapping": [partial(Diversity, weights=["a"])],
    "weight of a: .* is not a finite number above 0": [
        partial(Diversity, weights={"a": weight}) for weight in (0, True, math.inf)
    ],
    "weights: an attribute name is 1 to 1,000 characters, not": [
        partial(Diversity, weights={name: 1}) for name in ("", 1, "a" * 1_001)
    ],
    "weights: attribute name: .* half a surrogate pair": [partial(Diversity, weights={"a\ud800": 1})],
    "too large": [partial(Diversity, weights={"a": 10**400})],
    "their sum is not a finite number": [partial(Diversity, weights={"a": 1e308, "b": 1e308})],
    r"diversity: 0\.5 is not a Diversity": [
        *(partial(policy, 1, HOUR, 0.5) for policy in (Periodic, TopKWindow)),
        partial(Sliding, 1, 2, 0.5),
    ],
    "k: 5,000 is more than 1,000": [partial(Sliding, 5_000, 5_000, Diversity())],
    "k: 1,001 is more than 1,000": [partial(policy, 1_001, HOUR, Diversity()) for policy in (Periodic, TopKWindow)],
    "would take 2,000,000 distances per event; expected at most 1": [partial(TopKWindow, 1_000, 2_000, Diversity())],
}


@pytest.mark.parametrize(("message", "make"), [(message, make) for message, makes in REFUSED.items() for make in makes])
def test_what_makes_no_sense_is_refused(message, make):
    with pytest.raises(InvalidSubscriptionError, match=message):
        make()


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


class TestFields:
    @pytest.mark.parametrize("rank", [0, 1, 0.0, 1.0, 0.5, -0.0, 5e-324])
    def test_a_rank_lies_between_0_and_1(self, rank):
        assert subscription(rank=rank).rank == rank

    def test_any_other_text_is_an_id(self):
        assert subscription(" é😀\0 ").id == " é😀\0 "


class TestSubscribers:
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
        with pytest.raises(DuplicateIdError, match="subscriber 's' has two subscriptions 'a'"):
            owner(A, A)
        with pytest.raises(DuplicateIdError, match="there are two subscribers 'one'"):
            unique_subscribers([one, two, Subscriber("one")])
        with pytest.raises(InvalidSubscriptionError, match=r"subscribers: 'people\.yaml' is no Subscriber"):
            unique_subscribers("people.yaml")


class TestPolicies:
    WINDOWS = (Sliding(0, 1), Sliding(5, 3), TopKWindow(1, 1), TopKWindow(1, HOUR))

    @pytest.mark.parametrize("policy", [AllMatches(), Continuous(0), Periodic(1, TICK), *WINDOWS])
    def test_what_is_a_policy(self, policy):
        assert Subscriber("s", deliver=policy).deliver == policy
        assert hash(policy) == hash(policy)


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


class TestRelevance:
    def test_within_a_reach_a_distance_is_combined_with_a_rank(self):
        assert subscription(relevance=WITHIN, rank=0.5).rank == 0.5

    def test_distances_compete_with_distances(self):
        both = tuple(subscription(name, relevance=DISTANCE) for name in "ab")
        assert Subscriber("ana", both).subscriptions == both

    def test_filter_and_relevance_are_checked_against_a_schema(self):
        schema = Schema({"x": ValueType.FLOAT})
        assert subscription(relevance=NEAR).under(schema).relevance == NEAR
        with pytest.raises(UnknownAttributeError, match="unknown attribute 'x'"):
            subscription(relevance=NEAR).under(Schema({"price": ValueType.FLOAT}))


def test_lists_become_tuples_which_nobody_can_change():
    owned = [Subscription("1", parse_filter("x > 1"))]
    made = Subscriber("ana", owned)
    owned.append(owned[0])
    assert made == Subscriber("ana", (owned[0],))
    assert hash(made) == hash(Subscriber("ana", (owned[0],)))


weights = st.dictionaries(st.sampled_from("abc"), st.sampled_from((1, 0.1, 0.7, 3.0)))
contents = st.dictionaries(st.sampled_from("abcd"), st.sampled_from((0, -0.0, 1, 1.0, True, "1")))


class TestDiversity:
    def test_the_order_of_weights_does_not_matter(self):
        one, other = Diversity(0.5, {"a": 1, "b": 2}), Diversity(0.5, {"b": 2.0, "a": 1.0})
        assert one == other
        assert hash(one) == hash(other)
        assert list(one.weights) == list(other.weights) == ["a", "b"]

    def test_weights_are_kept_as_they_were_stated(self):
        stated = {"a": 1.0}
        diversity = Diversity(0.5, stated)
        stated["a"] = 5.0
        assert diversity.weights == {"a": 1.0}

    @pytest.mark.parametrize(("policy", "window"), [(Periodic, HOUR), (Sliding, 2), (TopKWindow, 2)])
    def test_policies_with_diversity_stay_hashable_and_differ_from_those_without(self, policy, window):
        plain, diverse = policy(1, window), policy(1, window, Diversity(0.3, {"a": 1}))
        assert (diversity_of(plain), diversity_of(diverse)) == (None, Diversity(0.3, {"a": 1}))
        assert len({plain, diverse, policy(1, window)}) == 2

    def test_what_delivers_on_arrival_alone_does_not_diversify(self):
        assert diversity_of(AllMatches()) is None
        assert diversity_of(Continuous(3)) is None

    @given(weights, contents, contents)
    def test_a_distance_is_symmetric_to_the_last_bit_and_from_0_to_1(self, chosen, first, second):
        diversity = Diversity(weights=chosen)
        assert diversity.distance(first, second) == diversity.distance(second, first)
        assert 0 <= diversity.distance(first, second) <= 1

    @given(weights, contents, contents)
    def test_a_distance_is_1_minus_the_weighted_share_of_equal_attributes(self, chosen, first, second):
        def kind(value):
            return (isinstance(value, bool), isinstance(value, str), value)

        counted = chosen or dict.fromkeys({*first, *second}, 1)
        alike = [
            name for name in counted if name in first and name in second and kind(first[name]) == kind(second[name])
        ]
        share = math.fsum(counted[name] for name in alike) / math.fsum(counted.values()) if counted else 1
        assert Diversity(weights=chosen).distance(first, second) == pytest.approx(1 - share, abs=1e-12)

    def test_up_to_the_bound_a_selection_is_accepted(self):
        assert Sliding(1_000, 1_000, Diversity()).k == 1_000
        assert Sliding(5_000, 5_000).k == 5_000
