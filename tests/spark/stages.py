"""What the tasks of a pipeline's stages need to be called without Spark."""

from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.policies import Notify, Policy
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.sources.event_reader import EventReader

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

    def handovers(self, shard: int, shards: int) -> list[Notify]:
        return self.audience.queues.handovers_of(shard, shards)

    def changes(self, shards: int) -> tuple[int, dict[int, list[QueueChange]]] | None:
        return None
