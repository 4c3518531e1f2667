"""Subscribers that change, from table to notifications: what is delivered does not depend on when they are told.

The stages of the pipeline are called here as Spark calls them, micro-batch by micro-batch, without Spark.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.delivery.stream.shards import Shard
from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.events import Event
from rankcast.model.policies import Continuous, Diversity, Periodic, Sliding
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import microseconds
from rankcast.spark.delivery.rerank import RERANKING, Payload, changes_ranks
from rankcast.spark.delivery.unpacked_rows import notification_rows
from rankcast.spark.matching.choosing import chosen_matches
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import chunks_of
from rankcast.spark.matching.stage import rank_events
from rankcast.spark.sources.event_reader import ColumnEvents, event_contents, event_of_content, typed_document
from rankcast.spark.subscribers.tables import FolderTable
from rankcast.spark.subscribers.versions import Versions
from rankcast.testing import strategies
from spark.builders import NOON
from spark.stages import READER

SECOND = timedelta(seconds=1)
LAST = 12
SHARDS = 2
DELIVER = [
    {"policy": "periodic", "k": 1, "period": "4s"},
    {"policy": "continuous", "k": 1},
    {"policy": "periodic", "k": 2, "period": "4s"},
    {"policy": "sliding", "k": 1, "window": 3},
    {"policy": "sliding", "k": 2, "window": 5},
    {"policy": "topkw", "k": 1, "window": "3s"},
    {"policy": "topkw", "k": 1, "window": 4},
    {"policy": "sliding", "k": 2, "window": 5, "diversity": {"sigma": 0.5, "weights": {"x": 1.0}}},
    {"policy": "periodic", "k": 2, "period": "4s", "diversity": {"sigma": 0.2, "weights": {"y": 1.0}}},
    None,
]
AT_MOST = [{"count": 1, "every": "3s"}, [{"count": 2, "every": "5s"}, {"count": 1, "every": "9s", "per": "y"}]]
SUBSCRIPTIONS = [
    {"id": "low", "filter": "x < 6", "rank": 0.7},
    {"id": "low", "filter": "x < 4", "rank": 0.2, "weight": 0.5},
    {"id": "odd", "filter": "x in (1, 3, 5, 7)", "rank": 0.5, "refresh": "2s"},
    {"id": "near", "filter": "y > 0", "relevance": {"function": "ideal_point", "targets": {"x": 4}, "reach": 8}},
    {"id": "own", "filter": "y < 3", "rank": 0.4, "deliver": {"policy": "sliding", "k": 1, "window": 3}},
]


@st.composite
def documents(draw) -> dict:
    chosen = {one["id"]: one for one in draw(st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=1))}
    ranks = {"rank_by": draw(st.sampled_from(["max", "min", "mean", "weighted_sum"]))}
    ranks |= draw(st.sampled_from([{}, {}, {"decay": {"half_life": "5s"}}, {"most_specific": True}]))
    ranks |= draw(st.sampled_from([{}, {}, {"notify": {"every": "4s"}}, {"notify": {"every": "3s"}}]))
    ranks |= draw(st.sampled_from([{}, {}, {"muted_until": str(NOON + 5 * SECOND)}]))
    deliver = draw(st.sampled_from(DELIVER))
    if deliver is not None:
        deliver |= draw(st.sampled_from([{}, *({"at_most": at_most} for at_most in AT_MOST)]))
    if deliver is None or "diversity" not in deliver:
        return {"subscriptions": list(chosen.values()), **ranks, **({} if deliver is None else {"deliver": deliver})}
    return {"subscriptions": list(chosen.values()), "deliver": deliver}  # a diverse selection wants ranks up to 1


# A row of the table: who, what (None: gone), from which second on, for how long, and how early it is told.
names = st.sampled_from(["ana", "eva", "leo"])
seconds = st.integers(1, LAST)
rows = st.tuples(names, st.none() | documents(), seconds, st.none() | st.integers(1, 6), st.floats(0, 1))

contents = st.fixed_dictionaries({"x": st.integers(0, 8), "y": st.integers(0, 3)})


@st.composite
def streams(draw) -> tuple[list[Event], timedelta]:
    """Events in the order they arrive, none later than the lateness allows."""
    lateness = draw(st.sampled_from([0, 1, 3]))
    halves = sorted(draw(st.lists(st.integers(0, 2 * LAST), min_size=1, max_size=25)))
    events = []
    for at, half in enumerate(halves):
        time = NOON + half * SECOND / 2
        lasts = draw(st.none() | st.integers(1, 4))
        expires = None if lasts is None else time + lasts * SECOND
        events.append(Event(str(at), "/s", time=time, expires=expires, data=draw(contents)))
    delays = [draw(st.integers(0, 2 * lateness)) for _ in events]
    order = sorted(range(len(events)), key=lambda at: (halves[at] + delays[at], at))
    return [events[at] for at in order], lateness * SECOND


def batches_of(events: list[Event], cuts: list[int]) -> list[list[Event]]:
    return [events[low:high] for low, high in pairwise(sorted({0, len(events), *(c % len(events) for c in cuts)}))]


class Pipeline:
    """The stages of the pipeline in one process; any of its parts may be started again at any batch."""

    def __init__(self, root: Path, lateness: timedelta, *advertised: Advertisement) -> None:
        self.table = root / "table"
        self.table.mkdir(parents=True)
        self.root, self.lateness = root, lateness
        self.reader = replace(READER, advertisements=advertised)
        self.newest: int | None = None
        self.shards: list[Shard] = []
        self.delivered: list[tuple] = []
        self.batch = 0
        self.told = 0
        self.restart()

    def restart(self) -> None:
        table, store = FolderTable(self.table), self.root / "store"
        self.versions = Versions(table, store, lateness=self.lateness)
        self.shards = [Shard.from_bytes(shard.to_bytes()) for shard in self.shards]

    def tell(self, number: int, row: tuple) -> None:
        name, document, start, length, _ = row
        end = None if length is None else NOON + (start + length) * SECOND
        said = {"id": name, "document": document, "sequence": number}
        said |= {"active_from": (NOON + start * SECOND).isoformat(), "active_until": end and end.isoformat()}
        (self.table / f"{number}.jsonl").write_text(json.dumps(said) + "\n")

    @property
    def watermark(self) -> int | None:
        """Spark's: in milliseconds, what the batches before have seen."""
        return None if self.newest is None else (self.newest - self.lateness // timedelta(microseconds=1)) // 1_000

    def run(self, events: list[Event]) -> None:
        pin = self.versions.prepare(self.batch, self.watermark)
        folder = self.versions.folder
        audience = CompiledSubscribers.load(folder.audience(pin.version), verify=True)
        about = folder.about(pin.version)
        if not self.shards:
            late = self.lateness // timedelta(microseconds=1)
            begun = (
                (audience.queues.policies_of(at, SHARDS), audience.queues.handovers_of(at, SHARDS))
                for at in range(SHARDS)
            )
            self.shards = [Shard.of(policies, handovers=ways, lateness=late) for policies, ways in begun]
        for shard in self.shards:
            shard.reranking = RERANKING
        if about.frontier == pin.frontier and about.number != self.told:
            self.told = about.number
            for shard, own in enumerate(self.shards):
                changes = [one for one in folder.changes(pin.version) if one.queue % SHARDS == shard]
                own.change([QueueChange(q // SHARDS, *rest) for q, *rest in changes], since=about.frontier)
        batch, _ = self.reader.read(pa.RecordBatch.from_pydict({"value": list(map(typed_document, events))}))
        matched = chosen_matches(batch, self.reader, audience, *batch.matched(audience.reader))
        found, _ = rank_events(batch, audience, *matched)
        table = batch.table(audience.queues.wanted_content)
        for packed in chunks_of(table, found, audience, pin.version, SHARDS, 0, contents=batch.contents()):
            assert len(self.shards[packed.shard].take(packed.chunk)) == 0
        if self.watermark is not None:
            self.notify(audience, [shard.advance(self.watermark * 1_000) for shard in self.shards])
        self.newest = max([*batch.times.tolist(), *([] if self.newest is None else [self.newest])], default=None)
        self.audience = audience
        self.batch += 1

    def finish(self) -> list[tuple]:
        self.notify(self.audience, [shard.finish() for shard in self.shards])
        return sorted(self.delivered)

    def notify(self, audience, notices: list) -> None:
        for shard, own in enumerate(notices):
            for row in notification_rows(own, shard, SHARDS, audience).to_pylist():
                key = (row["subscriber"], row["subscription"] or "", row["id"], microseconds(row["delivered"]))
                self.delivered.append((*key, row["rank"], sorted(row["matched"]), microseconds(row["handed_over"])))


@settings(max_examples=15, phases=(Phase.explicit, Phase.generate))
@given(st.lists(rows, max_size=7), streams(), st.lists(st.integers(0, 30), max_size=5), st.sets(st.integers(0, 6)))
def test_what_is_delivered_does_not_depend_on_when_changes_are_told(
    tmp_path_factory, given_rows: list[tuple], stream, cuts: list[int], restarts: set[int]
) -> None:
    events, lateness = stream
    root = tmp_path_factory.mktemp("told")
    at_once = Pipeline(root / "at once", lateness)
    for number, row in enumerate(given_rows):
        at_once.tell(number, row)
    at_once.run(events)
    in_parts = Pipeline(root / "in parts", lateness)
    batches = batches_of(events, cuts)
    told = _batches_of_rows(given_rows, batches)
    for at, batch in enumerate(batches):
        for number in told.get(at, []):
            in_parts.tell(number, given_rows[number])
        if at in restarts:
            in_parts.restart()
        in_parts.run(batch)
    assert in_parts.finish() == at_once.finish()
    assert in_parts.versions.counts.late_changes == 0


def _batches_of_rows(given_rows: list[tuple], batches: list[list[Event]]) -> dict[int, list[int]]:
    """Choose for each row a batch in which it is told, before any event of its time or later has come."""
    newest = [max(event.time for event in batch) for batch in batches]
    told: dict[int, list[int]] = {}
    for number, (_, _, start, _, early) in enumerate(given_rows):
        first_too_late = next(
            (at + 1 for at, time in enumerate(newest) if time >= NOON + start * SECOND - timedelta(milliseconds=1)),
            len(batches),
        )
        told.setdefault(min(int(early * first_too_late), first_too_late - 1), []).append(number)
    return told


def test_a_k_that_is_raised_in_mid_period_is_for_what_comes_from_then_on(tmp_path: Path) -> None:
    """The first four seconds hold the best one of x = 1, 2, 3; then there is room for two more."""
    pipeline = Pipeline(tmp_path, timedelta(0))
    ranked = [{"id": str(x), "filter": f"x = {x}", "rank": 0.1 * x} for x in range(1, 7)]
    for number, (k, start) in enumerate([(1, 0), (3, 2)]):
        said = {"subscriptions": ranked, "deliver": {"policy": "periodic", "k": k, "period": "4s"}}
        begin = (NOON + start * SECOND).isoformat()
        text = json.dumps({"id": "ana", "document": said, "sequence": number, "active_from": begin})
        (pipeline.table / f"{number}.jsonl").write_text(text + "\n")
    seconds = {1: 0.5, 3: 0.6, 2: 1, 4: 2.5}
    events = [Event(str(x), "/s", time=NOON + at * SECOND, data={"x": x}) for x, at in seconds.items()]
    pipeline.run(events)
    found = pipeline.finish()
    assert [one[:4] for one in found] == [("ana", "", event, microseconds(NOON + 4 * SECOND)) for event in ("3", "4")]
    assert found == _delivered_by_hub(pipeline, events)


def test_a_notification_has_the_rank_at_delivery_though_ranks_change_before_it_is_told(tmp_path: Path) -> None:
    """All is released together: the first event is delivered, still held when its rank changes, and told after that."""
    pipeline = Pipeline(tmp_path, timedelta(0))
    for number, rank in enumerate([0.7, 0.2, 0.4]):
        said = {
            "subscriptions": [{"id": "low", "filter": "x < 6", "rank": rank}],
            "deliver": {"policy": "sliding", "k": 1, "window": 9},
            "decay": {"half_life": "5s"},
        }
        pipeline.tell(number, ("ana", said, 4 * number, None, 0))
    events = [Event(str(at), "/s", time=NOON + at * SECOND, data={"x": 1}) for at in (1, 2, 5, 9)]
    pipeline.run(events)
    found = pipeline.finish()
    assert [(one[2], one[4]) for one in found] == [("1", 0.7), ("2", 0.7), ("5", 0.2), ("9", 0.4)]
    assert found == _delivered_by_hub(pipeline, events)


@settings(max_examples=15, phases=(Phase.explicit, Phase.generate))
@given(st.lists(rows, max_size=7), streams(), st.none() | st.tuples(st.integers(1, 2), strategies.audience_rankings()))
def test_what_is_delivered_is_what_a_hub_delivers_whose_subscribers_change_at_these_times(
    tmp_path_factory, given_rows: list[tuple], stream, best: tuple | None
) -> None:
    events, lateness = stream
    advertised = () if best is None else (Advertisement("of all", "/s", k=best[0], ranking=best[1]),)
    pipeline = Pipeline(tmp_path_factory.mktemp("hub"), lateness, *advertised)
    for number, row in enumerate(given_rows):
        pipeline.tell(number, row)
    pipeline.run(events)
    assert pipeline.finish() == _delivered_by_hub(pipeline, events)


def _delivered_by_hub(pipeline: Pipeline, events: list[Event]) -> list[tuple]:
    reader = pipeline.versions._reader
    lines = pipeline.versions.folder.timelines(1)
    steps: list[tuple[int, int, str, object]] = []
    for name, line in lines.items():
        for period in line:
            steps.append((period.start, 1, name, reader.subscriber(period.document)))
            steps.append((period.end, 0, name, None))
    steps += [(microseconds(event.time), 2, event.id, event) for event in events]
    hub = Hub(advertisements=pipeline.reader.advertisements)
    notes = []
    for time, _, name, what in sorted(steps, key=lambda step: step[:3]):
        now = NOON + timedelta(microseconds=max(time, 0) - microseconds(NOON)) if time < 2**62 else None
        if isinstance(what, Event):
            notes += hub.publish(what, now=what.time)
            continue
        if now is None:
            continue
        notes += _until(hub, now)
        following = [step for step in steps if step[0] == time and step[1] == 1 and step[2] == name]
        known = name in {one.id for one in hub.subscribers}
        if what is None:
            if not following:
                hub.unsubscribe(name)
        elif known:
            _hold_what_periods_may_deliver(hub, name)
            hub.update(what)
        else:
            hub.add(what)
    notes += hub.finish()
    return sorted(
        (
            note.subscriber,
            note.subscription or "",
            note.event.id,
            microseconds(note.time),
            note.rank,
            sorted(note.matched),
            microseconds(note.handed_over),
        )
        for note in notes
    )


def _hold_what_periods_may_deliver(hub: Hub, name: str) -> None:
    """Let a hub hold no more of an open period than Spark does: a changed period makes it forget the rest."""
    deliver = next(one.deliver for one in hub.subscribers if one.id == name)
    if isinstance(deliver, Periodic):
        hub.update(name, deliver=replace(deliver, period=deliver.period + SECOND))


def _until(hub: Hub, now: datetime) -> list:
    """Let the hub do everything that is due before now: not yet what is due at that very instant."""
    return hub.advance(now - timedelta(microseconds=1))


def again(event: Event, content: bytes) -> Event:
    return event_of_content(content, event.source, event.id, microseconds(event.time))


@given(strategies.events())
def test_an_event_comes_back_as_it_was(event: Event):
    event = event.stamped(NOON)
    (content,) = event_contents([event])
    found = again(event, content)
    assert (found, found.attributes) == (event, event.attributes)


def test_events_in_columns_come_back_with_what_filters_and_relevance_see():
    times = pa.array([NOON, NOON + timedelta(microseconds=1)], pa.timestamp("us", "UTC"))
    columns = {
        "id": pa.array(["1", "2"]),
        "source": pa.array(["/a", "/b"]),
        "time": times,
        "specversion": pa.array(["1.0", "1.0"]),
        "type": pa.array(["t", "t"]),
        "expirytime": pa.array([None, NOON], pa.timestamp("us", "UTC")),
        "rent": pa.array([700, None]),
        "rate": pa.array([1.0, float("inf")]),
        "built": times,
        "size.rooms": pa.array([2, 3]),
        "data.type": pa.array(["flat", None]),
        "is_new": pa.array([True, False]),
    }
    vectors = {"item.embedding": pa.array([[1.0, 0.5], None], pa.list_(pa.float64()))}
    batch = ColumnEvents(np.arange(2), columns, vectors, None)
    for at, content in enumerate(batch.contents()):
        found = event_of_content(content, f"/{'ab'[at]}", str(at + 1), microseconds(NOON) + at)
        seen = {**columns, "item.embedding": vectors["item.embedding"]}
        expected = {name: column[at].as_py() for name, column in seen.items() if column[at].is_valid}
        expected |= {name: tuple(value) for name, value in expected.items() if isinstance(value, list)}
        assert found.attributes == expected
        assert all(type(found.attributes[name]) is type(value) for name, value in expected.items())
        assert found.vector("item.embedding") == (None if at else (1.0, 0.5))


@given(
    st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0, 1)),
    st.none() | st.binary(max_size=20),
    st.binary(max_size=20),
)
def test_a_payload_comes_back_as_it_was(ranks: dict[int, float], content: bytes | None, carried: bytes):
    payload = Payload(ranks, content, carried)
    assert Payload.from_bytes(payload.to_bytes()) == payload
    assert Payload.from_bytes(b"") == Payload({}, None, b"")


ANA = Subscriber("ana", (Subscription("1", parse_filter("x < 5"), 0.5),), Sliding(1, 5))


@pytest.mark.parametrize(
    ("after", "is_other"),
    [
        (ANA, False),
        (Subscriber("ana", ANA.subscriptions, Continuous(3)), False),
        (Subscriber("ana", ANA.subscriptions, Sliding(1, 5, Diversity(0.5, {"x": 1.0}))), True),
        (Subscriber("ana", (Subscription("1", parse_filter("x < 5"), 0.6),), Sliding(1, 5)), True),
        (Subscriber("ana", (Subscription("1", parse_filter("x < 6"), 0.5),), Sliding(1, 5)), True),
        (Subscriber("ana", ANA.subscriptions, Sliding(1, 5), rank_by=RankBy.MEAN), True),
    ],
)
def test_only_what_bears_on_ranks_has_them_made_anew(after: Subscriber, is_other: bool):
    assert changes_ranks(ANA, after, None) is is_other
