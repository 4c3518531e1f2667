"""Runs every kernel of the package that an engine calls, so that it is compiled, or loaded, before there is any event.

The kernels of `topkw_dense` are not among them: studies and benchmarks use it, no engine does.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from rankcast.delivery.engine.contents import Contents
from rankcast.delivery.engine.queue_table import QueueTable
from rankcast.delivery.rules.queues import selected_by_kernel, selection_arguments
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.shards import Shard
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.times import NEVER

_DIVERSITIES = (Diversity(0.5, {"c": 1.0}), Diversity(0.5, {}))
_SPAN = timedelta(microseconds=2)
_PLAIN: tuple[Policy, ...] = (AllMatches(), Continuous(1), Periodic(1, _SPAN), Sliding(1, 2), TopKWindow(1, _SPAN))
_POLICIES = (
    *_PLAIN,
    *(
        policy
        for diversity in _DIVERSITIES
        for policy in (Periodic(1, _SPAN, diversity), Sliding(1, 2, diversity), TopKWindow(1, 2, diversity))
    ),
)


def warm_up() -> None:
    """Deliver a few events by every policy: by shards, and one by one."""
    _warm_shards()
    _warm_single_events()
    for diversity in _DIVERSITIES:
        for contents in ([(("c", 1),)] * 3, [(("c", 1),), (("d", 1),), ()]):
            selected_by_kernel(selection_arguments(contents, diversity), [0.1, 0.2, 0.3], 2)


def _warm_shards() -> None:
    policies = _POLICIES
    shard = Shard.of(policies, lateness=1)
    for time in (10, 11, 12, 20):  # the same events again: repetitions, and at last later ones
        shard.take(MatchBatch.from_bytes(_chunk(len(policies), time).to_bytes()))
        shard.advance(time)
        shard = Shard.from_bytes(shard.to_bytes())
    shard.unknown(_chunk(1, 5).events)
    _ = shard.next_watermark
    shard.finish()


def _chunk(queues: int, time: int, count: int = 4) -> MatchBatch:
    """Return events of one time, each wanted by every queue."""
    known = Contents.of({at: {"c": at % 2} for at in range(count)})
    events = EventTable.of(
        np.full(count, time),
        Ragged.of_texts(["s"] * count),
        Ragged.of_texts(map(str, range(count))),
        contents=(Ragged(known.starts, known.attributes), Ragged(known.starts, known.values)),
        payload=Ragged.of_texts(["p"] * count),
    )
    queue, event = np.divmod(np.arange(queues * count, dtype=np.int32), np.int32(count))
    rows = len(queue)
    return MatchBatch(
        events,
        queue,
        event,
        np.linspace(0.0, 1.0, rows),
        np.full(rows, NEVER),
        np.ones(rows, np.int32),
        variant=np.arange(count),
        reports_late=True,
    )


def _warm_single_events() -> None:
    """Serve events one by one, with queues that change in between."""
    queues = QueueTable.of(_POLICIES)
    queues.serve()
    for at in range(12):
        contents = Contents.of({number: {"c": number % 2} for number in range(at + 1)})
        score = int(np.float64(at % 4 / 4).view(np.int64))
        rows = np.array([(queue, at, NEVER if at % 3 else at + 2, score) for queue in range(len(_POLICIES))]).T.copy()
        queues.arrive(rows, rows.shape[1], at, at, at % 2, contents)
    for number, policy in enumerate(_POLICIES):
        queues.put(number, queues.get(number, policy), policy)
    queues.compact()
    queues.renumber(np.array([1]), np.array([2]), 0)
