"""Everything that rankcast keeps or sends as arrays: how to make one, write it, read it, and use it as programs do."""

import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.delivery.engine.contents import Contents, WantedContent, attribute_code
from rankcast.delivery.engine.queue_table import QUEUE_TABLE, ArrivalRows, QueueTable
from rankcast.delivery.engine.queue_table import VERSION as QUEUE_TABLE_VERSION
from rankcast.delivery.stream import batches, queue_changes, shards
from rankcast.delivery.stream.batches import DeliveryBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import Handover
from rankcast.delivery.stream.matched_sets import SETS
from rankcast.delivery.stream.queue_changes import QueueChange, pack_changes, unpack_changes
from rankcast.delivery.stream.shards import Shard
from rankcast.delivery.stream.unfiltered import UnfilteredRows
from rankcast.language.parser import parse_filter
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.periods import Every
from rankcast.model.policies import (
    AT_ONCE,
    AllMatches,
    Bounded,
    Cap,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TopKWindow,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import EPOCH, FIRST_INSTANT, LAST_INSTANT, NEVER
from rankcast.ranking.batch import Features
from rankcast.ranking.batch_table import RankingTable
from rankcast.spark.matching import compiled_subscribers
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import rank_events
from rankcast.spark.sources.event_reader import OpenEvents
from rankcast.storage.index_files import INDEX, INDEX_VERSION, load_index, save_index

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICIES = (
    Sliding(2, 5),
    Sliding(2, 5, ties="keep"),
    TopKWindow(2, timedelta(microseconds=30)),
    TopKWindow(1, 4),
    TopKWindow(1, 9, queue=Bounded(1)),
    Continuous(3),
    Periodic(2, timedelta(microseconds=20)),
    AllMatches(),
    Sliding(2, 6, Diversity(0.5, {"a": 1})),
    Periodic(1, timedelta(microseconds=25), Diversity()),
)
CAPS = (
    (),
    (Cap(1, timedelta(microseconds=7)),),
    (Cap(2, timedelta(microseconds=20), per="a"), Cap(3, Every("day"))),
)
CAPPED = [replace(policy, at_most=CAPS[at % len(CAPS)]) for at, policy in enumerate(POLICIES)]
WAYS = [
    Handover(notify, muted_until)
    for notify in (AT_ONCE, Digest(timedelta(microseconds=9)), OnDemand(), AT_ONCE, Digest(Every("hour")))
    for muted_until in (None, EPOCH + timedelta(microseconds=16))
]


class Kept:
    """One type that is kept; `make` gives equal objects for equal numbers, and `use` a plain answer."""

    kind: str
    version: int

    def make(self, seed: int) -> Any:
        raise NotImplementedError

    def write(self, made: Any) -> bytes:
        return made.to_bytes()

    def read(self, packed: bytes) -> Any:
        raise NotImplementedError

    def use(self, made: Any) -> Any:
        raise NotImplementedError


class KeptIndex(Kept):
    kind, version = INDEX, INDEX_VERSION

    def make(self, seed):
        random = Random(seed)
        few = {"delta": 64} if seed % 2 else {}
        return Index([Entry.of(2 * at, parse_filter(some_filter(random, at))) for at in range(300)], **few)

    def write(self, made):
        with TemporaryDirectory() as folder:
            save_index(Path(folder) / "index", made.snapshot)
            return (Path(folder) / "index").read_bytes()

    def read(self, packed):
        with TemporaryDirectory() as folder:
            (Path(folder) / "index").write_bytes(packed)
            return load_index(Path(folder) / "index")

    def use(self, made):
        reader, random = made.reader(), Random(1)
        attributes = [some_attributes(random) for _ in range(20)]
        found = [sorted(reader.match_one(one).tolist()) for one in attributes]
        batch = pa.RecordBatch.from_pylist([{name: one.get(name) for name in NAMES} for one in attributes], SCHEMA)
        offsets, numbers = reader.match_batch(batch)
        pieces = [sorted(numbers[offsets[at] : offsets[at + 1]].tolist()) for at in range(len(attributes))]
        made.add(Entry.of(1, parse_filter("rent < 500")))
        if 4 in made:
            made.remove(4)
        reader = self.read(self.write(made)).reader()
        return found, pieces, [sorted(reader.match_one(one).tolist()) for one in attributes]


NAMES = ("rent", "rooms", "city", "name", "furnished", "since")
SCHEMA = pa.schema(
    {
        "rent": pa.float64(),
        "rooms": pa.int64(),
        "city": pa.string(),
        "name": pa.string(),
        "furnished": pa.bool_(),
        "since": pa.timestamp("us", "UTC"),
    }
)


def some_filter(random, at):
    rent, rooms, word = random.randint(0, 999), random.randint(0, 9), f"w{random.randint(0, 30)}"
    return (
        f"rent < {rent} and rooms >= {rooms}",
        f"city = '{word}' and rent > {rent / 7}",
        f"city = '{word}'",
        f"rent != {rent} and rooms != {rooms} and rooms in (1, 3, {rooms}, 20)",
        f"name like '%{word}%' and rooms < {rooms + 3}",
        f"name like '%{word}' or rent between {rent} and {rent + 50}",
        f"name like 'a_{word}%'",
        f"furnished = true and rent < {rent} and since > time '2026-01-0{1 + rooms % 9}T00:00:00Z'",
        f"not exists city and rent < {rent}",
        "true" if at < 20 else f"name prefix '{word}'",
    )[at % 10]


def some_attributes(random):
    every = {
        "rent": random.choice([random.randint(0, 999) * 1.0, random.random() * 1000]),
        "rooms": random.randint(0, 9),
        "city": f"w{random.randint(0, 30)}",
        "name": random.choice(["aw", "aéw", "", "x"]) + f"w{random.randint(0, 30)}",
        "furnished": random.random() < 0.5,
        "since": datetime(2026, 1, random.randint(1, 9), tzinfo=UTC),
    }
    return {name: value for name, value in every.items() if random.random() < 0.8}


class KeptSubscribers(Kept):
    kind, version = compiled_subscribers.KIND, compiled_subscribers.VERSION

    def make(self, seed):
        random = Random(seed)
        return CompiledSubscribers.of(
            [some_subscriber(random, at) for at in range(60)], apart=seed % 2 == 1, filters=True
        )

    def write(self, made):
        with TemporaryDirectory() as folder:
            made.save(Path(folder))
            return (Path(folder) / compiled_subscribers.FILE).read_bytes()

    def read(self, packed):
        with TemporaryDirectory() as folder:
            (Path(folder) / compiled_subscribers.FILE).write_bytes(packed)
            return CompiledSubscribers.load(Path(folder), verify=True)

    def use(self, made):
        random = Random(2)
        data = [{"v": [random.random(), 1.0], **some_attributes(random)} for _ in range(10)]
        published = [
            Event(str(at), "/s", time=NOON, data={name: one for name, one in own.items() if name != "since"})
            for at, own in enumerate(data)
        ]
        events = OpenEvents(np.arange(len(published)), published, None)
        rows, _ = rank_events(events, made, *made.with_apart(*events.matched(made.reader)))
        keys = made.queues.keys
        names = [made.queues.names_of(queue) for queue in range(len(keys))]
        table = made.table_apart(0, 2).to_arrays()
        found = [(keys[queue], round(rank, 9)) for queue, rank in zip(rows.queue.tolist(), rows.rank, strict=True)]
        positions = made.position[rows.matched].tolist()
        subscribers = made.person.tolist(), made.draws.tolist(), made.filters.texts()
        decays = made.decays(rows.queue).tolist()
        columns = {name: array.tolist() for name, array in table.items()}
        return found, names, positions, subscribers, decays, made.queues.policies_of(0, 2), columns


def some_subscriber(random, at):
    relevance = (
        None,
        IdealPoint([Target("rent", 500, scale=100)], reach=5.0),
        Closeness([Target("rent", 500, scale=100), Target("rooms", 2, scale=1)]),
        Cosine("v", (1.0, random.random())),
    )
    everything = at % 3 == 0
    own = tuple(
        Subscription(
            f"s{number}",
            parse_filter("true" if everything else some_filter(random, number + at)),
            0.5 if number else 0.25,
            relevance=relevance[1 + at % 3] if everything else relevance[at % 4],
        )
        for number in range(1 if everything else 3)
    )
    decay = Decay(timedelta(hours=5)) if at % 5 == 1 else None
    how = list(RankBy)[at % len(RankBy)]
    is_rank = decay is None and how is not RankBy.WEIGHTED_SUM  # what diversity needs
    policy = POLICIES[at % (len(POLICIES) if is_rank else len(POLICIES) - 2)]
    return Subscriber(f"who{at}", own, policy, rank_by=how, decay=decay)


def some_events(random, count, first=0):
    times = np.sort(np.array([first + random.randint(0, 10) for _ in range(count)], np.int64))
    codes = Ragged(np.arange(count + 1) * 2, np.array([random.randint(1, 9) for _ in range(2 * count)], np.int64))
    names = Ragged(codes.starts, np.tile(np.sort([attribute_code("a"), attribute_code("b")]), count))
    return EventTable.of(
        times,
        Ragged.of_texts(random.choice(["s", "é", ""]) for _ in range(count)),
        Ragged.of_texts(f"{first}-{at}" for at in range(count)),
        contents=(names, codes),
        payload=Ragged.of_texts(random.choice(["", "payload"]) for _ in range(count)),
    )


def some_batch(random, first=0, *, dense=False):
    events = some_events(random, random.randint(1, 12), first)
    rows = random.randint(0, 30)
    unfiltered = None
    if dense:
        near = Subscription("1", parse_filter("true"), relevance=Cosine("v", (1.0, 2.0)))
        ideal = Subscription("1", parse_filter("true"), relevance=Closeness([Target("x", 1)]))
        ranking = RankingTable.of([Subscriber("s", (near,)), Subscriber("t", (ideal,))], [0, 3])
        vectors = (np.arange(len(events) + 1) * 2, np.ones(2 * len(events)))
        features = Features.of(ranking, len(events), {"x": np.arange(len(events)) * 0.5}, {"v": vectors})
        expires = np.full(len(events), NEVER)
        unfiltered = UnfilteredRows(ranking.table, np.array([1, 2]), events.time, expires, features)
    return MatchBatch(
        events,
        np.array([random.randrange(len(POLICIES)) for _ in range(rows)], np.int32),
        np.array([random.randrange(len(events)) for _ in range(rows)], np.int32),
        np.array([random.random() for _ in range(rows)]),
        np.array([random.choice([NEVER, first + 40]) for _ in range(rows)], np.int64),
        np.array([random.choice([0, 5, SETS, SETS + 1]) for _ in range(rows)], np.int32),
        Ragged.of([[1, 30], [2, 40, 50]]),
        random.randint(0, 3),
        random.random() < 0.5,
        np.array([random.randint(0, 2) for _ in range(len(events))]) if random.random() < 0.5 else None,
        unfiltered,
    )


def said(batch):
    """What a batch of rows and events says, as plain values."""
    events = batch.events
    texts = (events.id.texts(), events.source.texts(), events.payload.values.tobytes())
    columns = [getattr(batch, name).tolist() for name in ("queue", "event", "score", "matched")]
    sets = (batch.sets.starts.tolist(), batch.sets.values.tolist())
    return texts, events.time.tolist(), events.attributes.values.tolist(), columns, sets


class KeptMatches(Kept):
    kind, version = batches.MATCHES, batches.VERSION

    def make(self, seed):
        return some_batch(Random(seed), dense=seed % 3 == 0)

    def read(self, packed):
        return MatchBatch.from_bytes(packed)

    def use(self, made):
        shard = Shard.of(POLICIES)
        late = shard.take(made)
        return said(made), made.version, made.reports_late, len(late), said(shard.finish())


class KeptDeliveries(Kept):
    kind, version = batches.DELIVERIES, batches.VERSION

    def make(self, seed):
        shard, random = Shard.of(POLICIES), Random(seed)
        shard.take(some_batch(random))
        return shard.advance(1 + random.randint(0, 40))

    def read(self, packed):
        return DeliveryBatch.from_bytes(packed)

    def use(self, made):
        part = made.part(len(made) // 3, len(made) - 1) if len(made) > 2 else made
        return said(made), said(DeliveryBatch.joined([made, part])), made.time.tolist()


class KeptShard(Kept):
    kind, version = shards.KIND, shards.VERSION

    def make(self, seed):
        random = Random(seed)
        policies, ways = (POLICIES, ()) if seed % 4 == 0 else (CAPPED, random.sample(WAYS, len(WAYS)))
        shard = Shard.of(policies, handovers=ways, lateness=seed % 5, version=seed % 3)
        shard.change([QueueChange(1, 15, Sliding(1, 3), "ranks"), QueueChange(2, 12, None), QueueChange(3, 40, None)])
        for step in range(3):
            # A version below 0 would be that of subscribers who do not change.
            shard.take(some_batch(random, 10 * step, dense=step == 2 and seed % 2 == 1))
            shard.advance(10 * step + 3)
        return shard

    def read(self, packed):
        return Shard.from_bytes(packed)

    def use(self, made):
        first = made.watermark if FIRST_INSTANT <= made.watermark <= LAST_INSTANT - 100 else 0
        late = made.take(some_batch(Random(3), first))
        made.unknown(late)
        due = made.next_watermark
        notices = [said(made.advance(first + 5)), said(made.advance(first + 30))]
        lists = made.lists()
        notices += [] if lists is None else [said(lists.entries)]
        again = Shard.from_bytes(made.to_bytes())
        return len(late), due, made.version, notices, said(again.finish()), said(made.finish())


class KeptQueues(Kept):
    kind, version = QUEUE_TABLE, QUEUE_TABLE_VERSION
    CONTENTS = Contents.of({event: {"a": event % 3} for event in range(100)})

    def make(self, seed):
        queues = QueueTable.of(POLICIES)
        queues.take(self._rows(Random(seed), 0), self.CONTENTS)
        return queues

    @staticmethod
    def _rows(random, first):
        count = 8
        queue = np.repeat(np.arange(len(POLICIES)), count)
        event = np.tile(np.arange(first, first + count), len(POLICIES))
        expires = np.array([random.choice([NEVER, first + 20]) for _ in event])
        return ArrivalRows(queue, event, event, expires, np.array([random.random() for _ in event]))

    def read(self, packed):
        return QueueTable.from_bytes(packed)

    def use(self, made):
        first = int(made.clocks.max(initial=0))
        found = []
        if 0 <= first < 80:
            found.append(made.take(self._rows(Random(4), first + 1), self.CONTENTS))
            found.append(made.advance(first + 12, self.CONTENTS))
        held = [made.get(queue) for queue in range(len(made))]
        found.append(made.finish(self.CONTENTS))
        return [[column.tolist() for column in part] for part in found], held


class KeptChanges(Kept):
    kind, version = queue_changes.KIND, queue_changes.VERSION

    def make(self, seed):
        random = Random(seed)
        return [
            QueueChange(
                random.randint(0, 7), random.randint(-5, 99), random.choice([None, *POLICIES]), random.choice(["", "é"])
            )
            for _ in range(random.randint(0, 9))
        ]

    def write(self, made):
        return pack_changes(made)

    def read(self, packed):
        return unpack_changes(packed)

    def use(self, made):
        shard = Shard.of(POLICIES)
        shard.change([change for change in made if change.queue < 100])
        return made, WantedContent.of(change.policy for change in made if change.policy), said(shard.finish())


KEPT = {
    "index": KeptIndex(),
    "compiled subscribers": KeptSubscribers(),
    "match batch": KeptMatches(),
    "delivery batch": KeptDeliveries(),
    "shard": KeptShard(),
    "queue table": KeptQueues(),
    "queue changes": KeptChanges(),
}


class Answer(NamedTuple):
    """What became of some bytes: they were used, refused with a message, or something unexpected happened."""

    outcome: str
    message: str = ""


def answer_all(connection: Any) -> None:
    """Read and use whatever bytes come, in a process of its own, so that a kernel that is led astray ends only that."""
    while True:
        name, packed = connection.recv()
        connection.send(answer(KEPT[name], packed))


def answer(kept: Kept, packed: bytes) -> Answer:
    """Read and use bytes."""
    try:
        made = kept.read(packed)
    except RankcastError as error:
        return Answer("refused", f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 (that there are no others is what is tested)
        return Answer("unexpected", traceback.format_exc())
    try:
        kept.use(made)
    except RankcastError as error:
        return Answer("used", str(error))
    except Exception:  # noqa: BLE001
        return Answer("unexpected", traceback.format_exc())
    return Answer("used")
