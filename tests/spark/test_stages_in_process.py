"""What the tasks of a pipeline do, called one after the other without Spark: many random cases, in little time."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from rankcast.language.parser import parse_filter
from rankcast.model.events import Event, Identity
from rankcast.model.policies import AT_ONCE
from rankcast.model.relevance import Decay
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.spark.delivery.stage import BatchDelivery
from rankcast.spark.delivery.unpacked_rows import UnpackTask
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packed_rows import PackTask
from rankcast.spark.sources.event_contents import typed_document
from rankcast.testing.arrivals import Arrived, arrivals, check_arrivals
from rankcast.testing.conformance import Case, cases, check
from rankcast.testing.definitions import ExpectedDelivery
from spark.stages import READER, InMemory

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InProcess:
    """The tasks of the three stages, on batches of a few events each."""

    def __init__(self, shards, size):
        self.shards = shards
        self.size = size

    def arrived(self, arrivals):
        return Arrived(self.deliveries(arrivals, arrivals.lateness // timedelta(microseconds=1)))

    def deliveries(self, case, lateness=0):
        source = InMemory(CompiledSubscribers.of(case.subscribers))
        texts = [typed_document(event) for event in case.events]
        parts = [texts[at : at + self.size] for at in range(0, len(texts), self.size)]
        pack, unpack = PackTask(READER, source, self.shards), UnpackTask(source, self.shards)
        packed = [row for part in parts for row in pack(iter([pa.RecordBatch.from_pydict({"value": part})]))]
        delivered = list(BatchDelivery(source, self.shards, lateness)(iter(packed)))
        rows = [row for batch in unpack(iter(delivered)) for row in self._rows(batch)]
        assert sum(row["events"] or 0 for row in rows) == len(case.events)
        return [
            ExpectedDelivery(
                row["subscriber"],
                Identity(row["source"], row["id"]),
                row["rank"],
                tuple(row["matched"]),
                EPOCH + timedelta(microseconds=row["delivered"]),
                row["subscription"],
            )
            for row in rows
            if row["kind"] == "notification"
        ]

    def _rows(self, batch):
        at = batch.schema.names.index("delivered")
        return batch.set_column(at, "delivered", batch.column("delivered").cast(pa.int64())).to_pylist()


def _at_once(case):
    """The same with everybody notified at once, and events of one time in the order in which shards take them."""
    events = sorted(case.events, key=lambda event: (event.time, event.source, event.id))
    return Case(tuple(structs.replace(one, notify=AT_ONCE) for one in case.subscribers), tuple(events))


@settings(max_examples=60)
@given(cases(everything=True).map(_at_once), st.integers(1, 4), st.integers(1, 20))
def test_the_stages_deliver_what_the_definitions_say(case, shards, size):
    check(InProcess(shards, size), case)


@settings(max_examples=60)
@given(arrivals(), st.integers(1, 4), st.integers(1, 20))
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
