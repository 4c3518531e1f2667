"""Spark on tables and on streams delivers what the definitions say: the conformance suite, on rich cases."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from rankcast.model.policies import AT_ONCE
from rankcast.samples.feeds import FEEDS
from rankcast.testing.arrivals import arrivals, check_arrivals
from rankcast.testing.conformance import Case, cases, check
from rankcast.testing.spark_engine import SparkEngine


def _at_once(case):
    """The same with everybody notified at once; single subscriptions keep their own policies."""
    return Case(tuple(structs.replace(one, notify=AT_ONCE) for one in case.subscribers), case.events)


class Cases(list):
    """Several cases in one: each Spark job costs half a second, so they share it."""

    def __repr__(self):
        return f"{len(self)} cases"

    def joined(self):
        """One case with everybody and everything; ids tell whose they were."""
        people = [structs.replace(one, id=f"{at}/{one.id}") for at, case in enumerate(self) for one in case.subscribers]
        events = [replace(one, id=f"{at}/{one.id}") for at, case in enumerate(self) for one in case.events]
        return Case(tuple(people), tuple(sorted(events, key=lambda event: (event.time, event.source, event.id))))


MANY = st.lists(cases() | cases(everything=True).map(_at_once), min_size=8, max_size=8).map(Cases)
RICH = settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@RICH
@given(many=MANY, partitions=st.integers(1, 8), shards=st.integers(1, 5), seed=st.integers(0, 99))
def test_tables(spark, many, partitions, shards, seed):
    check(SparkEngine(spark, partitions=partitions, shards=shards, seed=seed), many.joined())


@RICH
@given(
    many=MANY,
    batches=st.integers(1, 4),
    partitions=st.integers(1, 4),
    shards=st.integers(1, 5),
    displaced=st.sampled_from((0, 10)),
    seed=st.integers(0, 99),
)
def test_streams(spark, many, batches, partitions, shards, displaced, seed):
    engine = SparkEngine(spark, batches, partitions, shards, displaced, seed)
    check(engine, many.joined())


SEVERAL = arrivals(several=6)


@RICH
@given(several=SEVERAL, partitions=st.integers(1, 8), shards=st.integers(1, 5), seed=st.integers(0, 99))
def test_tables_with_repetitions(spark, several, partitions, shards, seed):
    check_arrivals(SparkEngine(spark, partitions=partitions, shards=shards, seed=seed), several)


@RICH
@given(
    several=SEVERAL,
    batches=st.integers(2, 4),
    partitions=st.integers(1, 8),
    shards=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_streams_with_repetitions_and_late_events(spark, several, batches, partitions, shards, seed):
    check_arrivals(SparkEngine(spark, batches, partitions, shards, seed=seed), several)


def test_generated_feeds(spark):
    feeds = Cases(Case(tuple(feed.subscribers(20, seed=5)), tuple(feed.events(150, seed=6))) for feed in FEEDS.values())
    case = feeds.joined()
    check(SparkEngine(spark), case)
    check(SparkEngine(spark, batches=3), case)


def test_the_suite_would_notice(spark):
    (feed, *_) = FEEDS.values()
    people, events = feed.subscribers(20, seed=5), feed.events(150, seed=6)
    case = Case(tuple(people), tuple(events))

    class Careless:
        def deliveries(self, case):
            return SparkEngine(spark).deliveries(Case(case.subscribers, case.events[5:]))

    with pytest.raises(AssertionError, match="differs from the oracle"):
        check(Careless(), case)
