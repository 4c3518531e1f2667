"""Every engine passes the conformance suite, on random cases and on generated feeds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from rankcast.model.advertisements import Advertisement
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.periods import Every
from rankcast.model.policies import (
    AllMatches,
    Cap,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TopKWindow,
)
from rankcast.model.relevance import Closeness, Decay, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.overlay.routing.strategies import Strategy
from rankcast.samples.feeds import FEEDS
from rankcast.testing.arrivals import Arrivals, HubOfArrivals, arrivals, check_arrivals
from rankcast.testing.conformance import Case, HubEngine, IndexEngine, advertised_cases, cases, check
from rankcast.testing.overlay_engine import OverlayEngine

HUBS = {"hub": HubEngine(), "hub-steps": HubEngine(kernels=False), "hub-kernels": HubEngine(kernels=True)}
ENGINES = HUBS | {"index": IndexEngine(), "growing-index": IndexEngine(incremental=True)}
OVERLAYS = {f"overlay-{strategy.value}": OverlayEngine(strategy) for strategy in Strategy}


@given(case=cases())
def test_random_cases(case):
    for engine in ENGINES.values():  # to draw a case takes longer than to check it
        check(engine, case)


@given(case=cases(everything=True))
def test_random_cases_with_own_policies_and_every_way_to_be_notified(case):
    for engine in HUBS.values():
        check(engine, case)


@given(case=advertised_cases(everything=True))
def test_random_cases_whose_events_are_for_the_k_best_subscribers(case):
    for engine in HUBS.values():
        check(engine, case)


MOMENTS = st.integers(0, 3).map(lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))


@settings(max_examples=60)
@given(
    times=st.lists(MOMENTS, min_size=1, max_size=7).map(sorted),
    ends=st.lists(st.none() | MOMENTS, min_size=7, max_size=7),
    ids=st.permutations("abcdefg"),
    reads=st.sets(MOMENTS, min_size=1).map(sorted),
    k=st.integers(1, 3),
)
def test_lists_of_continuous_delivery_have_the_newest_of_equals_however_long_each_is_valid(times, ends, ids, reads, k):
    events = [
        Event(*one, time=at, expires=end) for one, at, end in zip([(i, "/s") for i in ids], times, ends, strict=False)
    ]
    reader = Subscriber("ana", (Subscription("1", Filter.of(Constant(True))),), Continuous(k), notify=OnDemand())
    case = Case((reader,), tuple(events), tuple(reads))
    for engine in HUBS.values():
        check(engine, case)
    check(OverlayEngine(Strategy.REGULAR_COVER, 2), case)


def test_events_at_both_ends_of_time():
    policies = {
        "window": TopKWindow(1, timedelta(seconds=3), ties="keep"),
        "day": Periodic(1, Every("day", at="02:30", zone="Asia/Kathmandu")),
        "capped": AllMatches(at_most=[Cap(1, Every("month")), Cap(1, timedelta(days=9_000_000), per="x")]),
    }
    wanted = Filter.of(Constant(True))
    owned = tuple(Subscription(name, wanted, deliver=policy) for name, policy in policies.items())
    readers = (Subscriber("ana", owned), Subscriber("bo", owned, notify=Digest(Every("week"))))
    times = (EARLIEST, EARLIEST + TICK, LATEST - timedelta(seconds=4), LATEST - TICK)
    case = Case(readers, tuple(Event(str(at), "/s", time=time) for at, time in enumerate(times)))
    for engine in (*HUBS.values(), OverlayEngine(Strategy.REGULAR_COVER, 3)):
        check(engine, case)


@given(arrived=arrivals())
def test_random_events_that_come_out_of_order_too_late_or_again(arrived):
    check_arrivals(HubOfArrivals(), arrived)


def test_the_suite_notices_an_engine_that_takes_repetitions_or_hides_late_events():
    start, second = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1)
    everything = Subscriber("ana", (Subscription("1", Filter.of(Constant(True))),))
    times = {"a": 5, "b": 9, "c": 1}
    events = [Event(name, "/s", time=start + at * second) for name, at in times.items()]
    events.insert(1, replace(events[0], time=start + 4 * second))
    arrived = Arrivals((everything,), tuple(events), 5 * second)
    check_arrivals(HubOfArrivals(), arrived)
    found = HubOfArrivals().arrived(arrived)
    assert [one.event.id for one in found.deliveries] == ["a", "b"]
    assert found.late == {3}

    class Careless:
        def __init__(self, result):
            self.result = result

        def arrived(self, _):
            return self.result

    for careless, message in [
        (replace(found, late=()), "differs from the oracle"),
        (replace(found, deliveries=[*found.deliveries, found.deliveries[0]]), "3 delivered, 2 expected"),
        (replace(found, reported=[]), "reports as late"),
    ]:
        with pytest.raises(AssertionError, match=message):
            check_arrivals(Careless(careless), arrived)


@pytest.mark.parametrize("engine", (ENGINES | OVERLAYS).values(), ids=ENGINES | OVERLAYS)
@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
def test_generated_feeds(engine, feed):
    check(engine, Case(tuple(feed.subscribers(20, seed=5)), tuple(feed.events(150, seed=6))))


@settings(max_examples=30)
@given(case=cases(everything=True), brokers=st.integers(1, 7), seed=st.integers(0, 99))
def test_random_cases_on_overlays_of_every_strategy(case, brokers, seed):
    for strategy in Strategy:
        check(OverlayEngine(strategy, brokers, seed), case)


@settings(max_examples=30)
@given(case=advertised_cases(everything=True), brokers=st.integers(1, 7), seed=st.integers(0, 99))
def test_random_cases_for_the_k_best_subscribers_on_overlays_of_every_strategy(case, brokers, seed):
    for strategy in Strategy:
        check(OverlayEngine(strategy, brokers, seed), case)


def test_the_suite_notices_an_engine_that_does_not_choose_or_lets_the_choice_change_ranks():
    two = tuple(Subscription(str(rank), Filter.of(Constant(True)), rank) for rank in (0.9, 0.4))
    people = tuple(Subscriber(name, two, rank_by=RankBy.MEAN) for name in ("ana", "bo"))
    (event,) = next(iter(FEEDS.values())).events(1, seed=1)
    case = Case(people, (event,), advertisements=(Advertisement("a", event.source, k=1),))
    for engine in (HubEngine(), OverlayEngine(Strategy.ANCESTOR_COVER_K, 3)):
        check(engine, case)

    class Careless:
        def __init__(self, change):
            self.change = change

        def deliveries(self, case):
            return self.change(case)

    for change in (
        lambda case: HubEngine().deliveries(replace(case, advertisements=())),
        lambda case: [one._replace(rank=0.9) for one in HubEngine().deliveries(case)],
    ):
        with pytest.raises(AssertionError, match="differs from the oracle"):
            check(Careless(change), case)


def test_the_suite_notices_an_engine_that_loses_or_invents_a_delivery():
    class Careless:
        def __init__(self, change):
            self.change = change

        def deliveries(self, case):
            return self.change(HubEngine().deliveries(case))

    (feed, *_) = FEEDS.values()
    everyone = Subscriber("all", (Subscription("1", Filter.of(Constant(True))),))
    case = Case((everyone,), tuple(feed.events(5, seed=1)))
    check(Careless(lambda found: found), case)
    for change in (
        lambda found: found[1:],
        lambda found: [*found, found[0]],
        lambda found: [one._replace(rank=0) for one in found],
    ):
        with pytest.raises(AssertionError, match="differs from the oracle"):
            check(Careless(change), case)


@pytest.mark.parametrize(
    "forget",
    [
        lambda one: structs.replace(
            one, subscriptions=tuple(structs.replace(inner, relevance=None) for inner in one.subscriptions)
        ),
        lambda one: structs.replace(
            one, subscriptions=tuple(structs.replace(inner, refresh=None) for inner in one.subscriptions)
        ),
        lambda one: structs.replace(one, decay=None),
    ],
    ids=["relevance", "refresh", "decay"],
)
def test_the_suite_notices_an_engine_that_forgets_relevance_refresh_times_or_decay(forget):
    class Forgetful:
        def deliveries(self, case):
            return HubEngine().deliveries(Case(tuple(map(forget, case.subscribers)), case.events))

    hour = timedelta(hours=1)
    wanted = Subscription(
        "1", Filter.of(Constant(True)), refresh=3 * hour, relevance=Closeness([Target("x", 0, scale=10)])
    )
    someone = Subscriber("someone", (wanted,), Continuous(1), decay=Decay(hour))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    published = [(0, 1), (1, 5), (2, 9), (4, 9.5)]
    events = [Event(str(hours), "/s", time=start + hours * hour, data={"x": x}) for hours, x in published]
    case = Case((someone,), tuple(events))
    check(HubEngine(), case)
    with pytest.raises(AssertionError, match="differs from the oracle"):
        check(Forgetful(), case)


def test_the_suite_notices_an_engine_that_forgets_diversity():
    class Forgetful:
        def deliveries(self, case):
            plain = (structs.replace(one, deliver=replace(one.deliver, diversity=None)) for one in case.subscribers)
            return HubEngine().deliveries(Case(tuple(plain), case.events))

    someone = Subscriber("someone", (Subscription("1", Filter.of(Constant(True))),), Sliding(2, 3, Diversity()))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    published = [(0, "war"), (1, "drama"), (2, "war"), (3, "war")]
    events = [
        Event(str(hours), "/s", time=start + timedelta(hours=hours), data={"genre": genre})
        for hours, genre in published
    ]
    case = Case((someone,), tuple(events))
    check(HubEngine(), case)
    with pytest.raises(AssertionError, match="differs from the oracle"):
        check(Forgetful(), case)


def test_an_empty_case_delivers_nothing():
    check(HubEngine(), Case((), (Event("1", "/s"),)))
