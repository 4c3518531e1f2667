"""Rows for the delivery stage, packed, and what is to be delivered of them."""

from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np

from rankcast.delivery.stream.batches import DeliveryBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import PLAIN
from rankcast.delivery.stream.shards import Shard
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import NEVER
from rankcast.spark.delivery.state import MessageKind

SECOND = 1_000_000
POLICIES = (
    AllMatches(),
    Continuous(2),
    Periodic(2, timedelta(seconds=20)),
    Sliding(2, 5),
    TopKWindow(2, timedelta(seconds=9)),
    TopKWindow(1, 4),
)
QUEUES = 23


class Policies:
    """Queue q of all has policy q modulo their number."""

    def policies(self, shard, shards):
        return 0, [POLICIES[queue % len(POLICIES)] for queue in range(shard, QUEUES, shards)]

    def handovers(self, shard, shards):
        return [PLAIN for _ in range(shard, QUEUES, shards)]


def rows_of(events, seed=1, step=1.0):
    """Rows (time, id, queue, score, expires) in the order of time, with ties and expiries."""
    random = Random(seed)
    time = 1_000 * SECOND
    rows = []
    for number in range(events):
        time += int(random.choice([0, 1, 2]) * step * SECOND)
        for queue in random.sample(range(QUEUES), 6):
            expires = NEVER if random.random() < 0.7 else time + random.randrange(15) * SECOND
            rows.append((time, f"e{number % 97:03}-{number}", queue, random.choice([0.1, 0.5, 0.9]), expires))
    return rows


def chunk_of(rows, shards):
    events = list(dict.fromkeys(row[:2] for row in rows))
    places = {event: at for at, event in enumerate(events)}
    table = EventTable.of(
        np.array([time for time, _ in events], np.int64),
        Ragged.of_texts(["s"] * len(events)),
        Ragged.of_texts(name for _, name in events),
    )
    return MatchBatch(
        table,
        np.array([row[2] // shards for row in rows], np.int32),
        np.array([places[row[:2]] for row in rows], np.int32),
        np.array([row[3] for row in rows], np.float64),
        np.array([row[4] for row in rows], np.int64),
        np.zeros(len(rows), np.int32),
        reports_late=True,
    )


def packed_of(rows, shards, random=None):
    """Packed rows (shard, time, kind, data), several chunks for a shard when `random` is given."""
    packed = []
    for shard in range(shards):
        own = [row for row in rows if row[2] % shards == shard]
        parts = [own]
        if random is not None:
            random.shuffle(own)
            cut = random.randrange(len(own) + 1)
            parts = [own[:cut], own[cut:]]
        packed += [
            (shard, moment(max(row[0] for row in part)), int(MessageKind.CHUNK), chunk_of(part, shards).to_bytes())
            for part in parts
            if part
        ]
    return packed


def moment(time):
    return datetime.fromtimestamp(time / SECOND, UTC)


def told(notices, shard, shards):
    sources, ids = notices.events.source.texts(), notices.events.id.texts()
    columns = (notices.queue, notices.event, notices.time, notices.score)
    return [
        (queue * shards + shard, time, sources[event], ids[event], score)
        for queue, event, time, score in zip(*(column.tolist() for column in columns), strict=True)
    ]


def expected(rows, *, lateness=0, changes=()):
    """What one shard with all queues delivers of everything in order."""
    shard = Shard.of(Policies().policies(0, 1)[1], lateness=lateness)
    shard.change(changes)
    shard.take(chunk_of(rows, 1))
    return sorted(told(shard.finish(), 0, 1))


def collected(rows, shards):
    notices, late = [], []
    for row in rows:
        if row["kind"] == MessageKind.NOTICES:
            notices += told(DeliveryBatch.from_bytes(bytes(row["data"])), row["shard"], shards)
        elif row["kind"] == MessageKind.LATE:
            late += MatchBatch.from_bytes(bytes(row["data"])).events.id.texts()
    return sorted(notices), late


def batches_of(rows, count):
    size = max(1, -(-len(rows) // count))
    return [rows[at : at + size] for at in range(0, len(rows), size)]
