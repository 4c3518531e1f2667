"""Has the kernels of the match stage compiled, or read from numba's cache, before there is any event."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from rankcast.matching.warming import warm_up as warm_up_matching
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.relevance import Cosine
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.spark.audience import Audience
from rankcast.spark.chunks import chunks_of
from rankcast.spark.event_batches import OpenEvents
from rankcast.spark.matching import ranked


def warm_up() -> None:
    """Match and rank one event for one subscriber, and pack the row."""
    warm_up_matching()
    wanted = Subscription(SubscriptionId("1"), Filter.of(Constant(True)), relevance=Cosine("v", (1.0,)))
    audience = Audience.of([Subscriber(SubscriberId("1"), (wanted,))])
    event = Event("1", "/", time=datetime(1970, 1, 1, tzinfo=UTC), data={"v": [1.0]})
    events = OpenEvents(np.zeros(1, np.int64), [event], None)
    rows = ranked(events, audience, *events.matched(audience.reader))
    for packed in chunks_of(events.table(audience.queues.wanted_content), rows, audience, 0, 1, 0):
        packed.chunk.to_bytes()
