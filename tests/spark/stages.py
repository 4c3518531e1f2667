"""What the tasks of a pipeline's stages need to be called without Spark."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from rankcast.delivery.stream.handovers import Handover
from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.policies import Policy
from rankcast.spark.delivery.stage import BatchDelivery
from rankcast.spark.delivery.unpacked_rows import UnpackTask
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import PackTask
from rankcast.spark.sources.event_reader import EventReader, typed_document
from rankcast.testing.arrivals import Arrived
from rankcast.testing.conformance import Case
from rankcast.testing.spark_engine import deliveries_of

READER = EventReader(
    names=("value",),
    leaves=(),
    places=tuple((name, name) for name in ("id", "source", "time", "expirytime")),
    payload=None,
    document="value",
    default_source="/events",
    schema=None,
    carried=None,
)
"""Reads a column of whole events as JSON."""


class InMemory:
    """An audience that need not be saved."""

    def __init__(self, audience: CompiledSubscribers, *, keeps_contents: bool = False) -> None:
        self.audience = audience
        self.keeps_contents = keeps_contents

    def current(self) -> tuple[int, CompiledSubscribers]:
        return self.audience.queues.fingerprint, self.audience

    def policies(self, shard: int, shards: int) -> tuple[int, list[Policy]]:
        return self.audience.queues.fingerprint, self.audience.queues.policies_of(shard, shards)

    def handovers(self, shard: int, shards: int) -> list[Handover]:
        return self.audience.queues.handovers_of(shard, shards)

    def changes(self, shards: int) -> tuple[int, dict[int, list[QueueChange]]] | None:
        return None


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
