"""Has the kernels of matching and of the Spark pipeline compiled, or loaded, before there is any event."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.shards import Shard
from rankcast.matching.warming import warm_up as warm_up_matching
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.relevance import Cosine
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.spark.delivery.unpacked_rows import notification_rows
from rankcast.spark.matching.choosing import keep_chosen
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import UnfilteredRanks, chunks_of
from rankcast.spark.matching.stage import rank_events
from rankcast.spark.sources.event_reader import OpenEvents


def warm_up(*, deliver: bool = True) -> None:
    """Match, rank and pack an event, as every job does; deliver and unpack it, too, which takes longer to compile."""
    warm_up_matching()
    everything = Filter.of(Constant(True))
    plain = Subscription(SubscriptionId("1"), everything)
    near = Subscription(SubscriptionId("1"), everything, relevance=Cosine("v", (1.0,)))
    audience = CompiledSubscribers.of([Subscriber(SubscriberId("1"), (plain,)), Subscriber(SubscriberId("2"), (near,))])
    event = Event("1", "/", time=datetime(1970, 1, 1, tzinfo=UTC), data={"v": [1.0]})
    events = OpenEvents(np.zeros(1, np.int64), [event], None)
    table = events.table(audience.queues.wanted_content)
    rows, features = rank_events(events, audience, *events.matched(audience.reader))
    numbers = np.zeros(1, np.int64)
    keep_chosen(numbers, numbers, numbers, numbers, numbers, numbers, np.zeros(1, bool))
    apart = UnfilteredRanks(features, events.expires)
    chunks = [packed.chunk.to_bytes() for packed in chunks_of(table, rows, audience, 0, 1, 0, apart=apart)]
    if deliver:
        shard = Shard.of(audience.queues.policies_of(0, 1))
        for chunk in chunks:
            shard.take(MatchBatch.from_bytes(chunk))
        notification_rows(shard.finish(), 0, 1, audience)
