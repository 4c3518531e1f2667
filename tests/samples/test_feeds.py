from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.matching.naive import matching_subscriptions
from rankcast.model.cloudevents import event_from_json, event_to_json
from rankcast.model.errors import InvalidValueError, UnknownIdError
from rankcast.model.expressions import OF_ELEMENTS, And, Constant, Constraint, Expression, Not, Operator, Or
from rankcast.model.policies import AllMatches, Continuous, Sliding, diversity_of
from rankcast.ranking.preferences import preference_ranks
from rankcast.samples.feeds import DEFAULT_START, FEEDS, Feed, feed_named, flats, movies, trades
from rankcast.samples.feeds.housing import CITIES

every_feed = pytest.mark.parametrize("feed", FEEDS.values(), ids=list(FEEDS))


@every_feed
@given(shorter=st.integers(0, 300), seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_a_longer_feed_begins_with_the_shorter_one_of_its_seed(feed: Feed, shorter: int, seed: int) -> None:
    longer = list(feed.events(300, seed=seed))
    assert longer[:shorter] == list(feed.events(shorter, seed=seed))
    assert longer != list(feed.events(300, seed=seed + 1))
    few = feed.subscribers(shorter // 20, seed=seed)
    assert feed.subscribers(15, seed=seed)[: len(few)] == few


@every_feed
@given(start=st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
@settings(max_examples=20)
def test_times_begin_at_the_start_and_never_go_back(feed: Feed, start: datetime) -> None:
    times = [event.time for event in feed.events(600, start=start)]
    assert all(time is not None for time in times)
    assert times[0] >= start
    assert all(earlier <= later for earlier, later in pairwise(times))
    assert times[-1] - times[0] <= 3 * feed.span + timedelta(days=3)


@every_feed
def test_events_fit_the_schema_and_survive_json(feed: Feed) -> None:
    for event in feed.events(600, seed=3):
        conformed = event.conformed(feed.schema)
        assert conformed is event
        back = event_from_json(event_to_json(event)).conformed(feed.schema)
        assert back.attributes == event.attributes


@every_feed
def test_every_declared_attribute_occurs_and_the_optional_ones_are_sometimes_missing(feed: Feed) -> None:
    events = list(feed.events(1_500))
    for name in feed.schema.attributes:
        present = sum(name in event.attributes for event in events)
        assert present > 0, name
        assert name not in feed.schema.required or present == len(events), name
    incomplete = [event for event in events if feed.schema.attributes.keys() - event.attributes.keys()]
    assert 0.2 < len(incomplete) / len(events) <= 1


@every_feed
def test_identities_are_unique_and_some_events_expire_always_after_they_come(feed: Feed) -> None:
    events = list(feed.events(1_000))
    assert len({event.identity for event in events}) == 1_000
    expiring = [event for event in events if event.expires is not None]
    assert expiring
    assert all(event.time < event.expires for event in expiring)


@every_feed
def test_an_event_matches_a_few_percent_of_the_subscriptions(feed: Feed) -> None:
    subscribers = feed.subscribers(150)
    total = sum(len(subscriber.subscriptions) for subscriber in subscribers)
    events = list(feed.events(150))
    matched = sum(len(matching_subscriptions(subscribers, event)) for event in events)
    assert 0.01 < matched / (total * len(events)) < 0.06


@every_feed
def test_subscribers_have_several_subscriptions_mixed_preferences_and_policies_that_a_hub_runs(feed: Feed) -> None:
    subscribers = feed.subscribers(200)
    assert len({subscriber.id for subscriber in subscribers}) == 200
    assert all(2 <= len(subscriber.subscriptions) <= 4 for subscriber in subscribers)
    assert {type(subscriber.deliver) for subscriber in subscribers} == {AllMatches, Sliding, Continuous}
    assert 5 < sum(diversity_of(subscriber.deliver) is not None for subscriber in subscribers) < 60
    ranked = [s for s in subscribers if all(subscription.rank is not None for subscription in s.subscriptions)]
    ordered = [s for s in subscribers if s.priorities]
    assert len(ranked) > 60
    assert len(ordered) > 40
    assert len(ranked) + len(ordered) < 200
    for subscriber in ranked + ordered:
        ranks = list(preference_ranks(subscriber).values())
        assert ranks[0] == max(ranks)
        assert len(set(ranks)) > 1


@every_feed
def test_filters_are_satisfiable_and_checked_against_the_schema(feed: Feed) -> None:
    for subscriber in feed.subscribers(100):
        for subscription in subscriber.subscriptions:
            assert subscription.filter.is_satisfiable
            assert subscription.filter == subscription.filter.under(feed.schema)


@every_feed
def test_some_subscriptions_begin_or_end_on_the_way(feed: Feed) -> None:
    subscriptions = [s for subscriber in feed.subscribers(200) for s in subscriber.subscriptions]
    bounds = [bound for s in subscriptions for bound in (s.active_from, s.active_until) if bound is not None]
    assert any(s.active_from for s in subscriptions)
    assert any(s.active_until for s in subscriptions)
    assert len(bounds) < len(subscriptions) / 5
    assert all(DEFAULT_START <= bound <= DEFAULT_START + feed.span for bound in bounds)


def test_together_the_filters_use_all_of_the_language_but_lists() -> None:
    expressions = [
        subscription.filter.expression
        for feed in FEEDS.values()
        for subscriber in feed.subscribers(100)
        for subscription in subscriber.subscriptions
    ]
    used = {kind for expression in expressions for kind in _kinds(expression)}
    assert used == {*Operator, And, Or, Not} - OF_ELEMENTS


def _kinds(expression: Expression) -> set[object]:
    if isinstance(expression, Constraint):
        return {expression.operator}
    if isinstance(expression, Constant):
        return {Constant}
    parts = (expression.part,) if isinstance(expression, Not) else expression.parts
    return {type(expression)}.union(*map(_kinds, parts))


def test_rent_follows_city_and_size() -> None:
    prices = {city.name: city.price for city in CITIES}
    known = [event.attributes for event in flats.events(2_000) if "size_m2" in event.attributes]
    worth = [prices[flat["city"]] * flat["size_m2"] for flat in known]
    assert np.corrcoef(np.log(worth), np.log([flat["rent"] for flat in known]))[0, 1] > 0.8
    lisbon = [flat for flat in known if flat["city"] == "Lisboa"]
    assert np.corrcoef([flat["size_m2"] for flat in lisbon], [flat["rent"] for flat in lisbon])[0, 1] > 0.7


def test_directors_keep_to_a_genre_and_new_films_have_no_rating_yet() -> None:
    shown = [event.attributes for event in movies.events(2_000)]
    by_director: dict[object, list[object]] = {}
    for film in shown:
        by_director.setdefault(film["director"], []).append(film["genre"])
    busy = [genres for genres in by_director.values() if len(genres) >= 20]
    at_home = [max(map(genres.count, genres)) / len(genres) for genres in busy]
    assert np.mean(at_home) > 0.55
    assert {film["year"] for film in shown if "rating" not in film} == {2025}


def test_prices_of_one_share_walk_in_small_steps_and_trades_are_milliseconds_apart() -> None:
    events = list(trades.events(3_000))
    last: dict[object, float] = {}
    for event in events:
        symbol, price = event.attributes["symbol"], event.attributes["price"]
        assert abs(price / last.get(symbol, price) - 1) < 0.05
        last[symbol] = price
    gap = (events[-1].time - events[0].time) / len(events)
    assert timedelta(milliseconds=10) < gap < timedelta(milliseconds=40)
    assert all(event.time.microsecond % 1_000 == 0 for event in events)


def test_no_trades_at_night_or_at_weekends() -> None:
    friday_evening = datetime(2025, 3, 7, 20, 0, tzinfo=UTC)
    saturday = datetime(2025, 3, 8, 10, 0, tzinfo=UTC)
    for start in (friday_evening, saturday):
        first = next(trades.events(1, start=start))
        assert first.time.date() == datetime(2025, 3, 10, tzinfo=UTC).date()
        assert first.time.hour == 8


def test_a_start_without_a_time_zone_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="has no time zone"):
        flats.events(1, start=datetime(2025, 3, 3))  # noqa: DTZ001


def test_an_unknown_feed_is_an_error_that_lists_the_feeds() -> None:
    assert feed_named("flats") is flats
    with pytest.raises(UnknownIdError, match="'houses'; expected one of flats, movies, trades"):
        feed_named("houses")
