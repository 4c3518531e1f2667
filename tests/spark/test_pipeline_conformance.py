"""Spark delivers what the definitions say: the conformance suite on tables and streams, and on the tasks by themselves.

The tasks of a pipeline, called one after the other without Spark, take many random cases in little time.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from rankcast.language.parser import parse_filter
from rankcast.model.events import Event
from rankcast.model.relevance import Decay
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.samples.feeds import FEEDS
from rankcast.spark.delivery.stage import BatchDelivery
from rankcast.spark.delivery.unpacked_rows import UnpackTask
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import PackTask
from rankcast.spark.sources.event_reader import typed_document
from rankcast.testing.arrivals import Arrived, arrivals, check_arrivals
from rankcast.testing.conformance import Case, advertised_cases, cases, check
from rankcast.testing.spark_engine import SparkEngine, deliveries_of
from spark.stages import READER, InMemory


def _unlimited(one):
    """The same subscriber without caps, which only hubs and brokers know so far."""
    owned = (
        structs.replace(own, deliver=own.deliver and replace(own.deliver, at_most=())) for own in one.subscriptions
    )
    plain = replace(one.deliver, at_most=())
    return structs.replace(one, subscriptions=tuple(owned), deliver=plain, muted_until=None)


def _read_at_last(case):
    """The same with lists read after the last event, and events of one time in the order in which shards take them."""
    events = sorted(case.events, key=lambda event: (event.time, event.source, event.id))
    reads = () if not events else (events[-1].time,)
    return replace(case, subscribers=tuple(map(_unlimited, case.subscribers)), events=tuple(events), reads=reads)


class Cases(list):
    """Several cases in one: each Spark job costs half a second, so they share it."""

    def __repr__(self):
        return f"{len(self)} cases"

    def joined(self):
        """One case with everybody and everything; ids tell whose they were."""
        people = [
            structs.replace(_unlimited(one), id=f"{at}/{one.id}")
            for at, case in enumerate(self)
            for one in case.subscribers
        ]
        events = [_of_case(at, one) for at, case in enumerate(self) for one in case.events]
        advertised = [
            replace(one, id=f"{at}/{one.id}", source=f"{at}/{one.source}")
            for at, case in enumerate(self)
            for one in case.advertisements
        ]
        asked = {
            _of_case(at, one).identity: case.asked[one.identity]
            for at, case in enumerate(self)
            for one in case.events
            if one.identity in case.asked
        }
        return _read_at_last(Case(tuple(people), tuple(events), (), tuple(advertised), asked))


def _of_case(at, event):
    return replace(event, id=f"{at}/{event.id}", source=f"{at}/{event.source}")


MANY = st.lists(cases() | advertised_cases(everything=True), min_size=8, max_size=8).map(Cases)
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


def _all_unlimited(found):
    return replace(found, subscribers=tuple(map(_unlimited, found.subscribers)))


SEVERAL = arrivals(several=6).map(_all_unlimited)


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


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GIVEN = pa.schema([("value", pa.string()), ("k", pa.int64())])


class InProcess:
    """The tasks of the three stages, on batches of a few events each."""

    def __init__(self, shards, size):
        self.shards = shards
        self.size = size

    def arrived(self, arrivals):
        case = Case(arrivals.subscribers, arrivals.events)
        return Arrived(self.deliveries(case, arrivals.lateness // timedelta(microseconds=1)))

    def deliveries(self, case, lateness=0):
        source = InMemory(CompiledSubscribers.of(case.subscribers, filters=True))
        rows = [{"value": typed_document(event), "k": case.asked.get(event.identity)} for event in case.events]
        parts = [rows[at : at + self.size] for at in range(0, len(rows), self.size)]
        reader = replace(READER, names=("value", "k"), advertisements=case.advertisements, k_column="k")
        pack, unpack = PackTask(reader, source, self.shards), UnpackTask(source, self.shards)
        packed = [row for part in parts for row in pack(iter([pa.RecordBatch.from_pylist(part, GIVEN)]))]
        delivered = list(BatchDelivery(source, self.shards, lateness)(iter(packed)))
        batches = list(unpack(iter(delivered)))
        if not batches:
            return []
        table = pa.Table.from_batches(batches)
        assert sum(table["events"].drop_null().to_pylist()) == len(case.events)
        return deliveries_of([table], case.subscribers, max((event.time for event in case.events), default=EPOCH))


@settings(max_examples=60)
@given(
    (cases(everything=True) | advertised_cases(everything=True)).map(_read_at_last),
    st.integers(1, 4),
    st.integers(1, 20),
)
def test_the_stages_deliver_what_the_definitions_say(case, shards, size):
    check(InProcess(shards, size), case)


@settings(max_examples=60)
@given(arrivals().map(_all_unlimited), st.integers(1, 4), st.integers(1, 20))
def test_of_events_that_come_again_the_first_counts_for_everybody(arrived, shards, size):
    check_arrivals(InProcess(shards, size), arrived)


def _decaying(name, text):
    return Subscriber(name, (Subscription("s", parse_filter(text), 0.5),), decay=Decay(timedelta(hours=1)))


@given(st.integers(1, 3), st.integers(1, 2), st.permutations([1, 2, 3]))
def test_of_one_identity_and_time_one_publication_counts_for_everybody(shards, size, contents):
    """Nothing says which of them came first; that it is the same one for all queues matters, decaying ones too."""
    people = tuple(_decaying(str(x), f"x = {x} or x = 0") for x in (1, 2, 3))
    events = tuple(Event("1", "/s", time=EPOCH, data={"x": x}) for x in contents)
    (found,) = InProcess(shards, size).deliveries(Case(people, events))
    assert found.rank == 0.5
    assert found == InProcess(1, 3).deliveries(Case(people, events[::-1]))[0]
