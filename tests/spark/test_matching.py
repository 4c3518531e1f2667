"""The match stage: who wants which event, as the naive matcher and the ranks of preferences say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.matched_sets import positions
from rankcast.delivery.stream.shards import Shard
from rankcast.language.parser import parse_filter
from rankcast.matching.index import Index
from rankcast.matching.naive import matches
from rankcast.model.errors import InvalidEventError, UnknownIdError
from rankcast.model.events import Event
from rankcast.model.policies import Continuous, Periodic, Sliding
from rankcast.model.relevance import Closeness, Target
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import TICK
from rankcast.ranking.batch_table import COSINE, NONE
from rankcast.ranking.preferences import Preferences
from rankcast.samples.feeds import FEEDS
from rankcast.spark.delivery.rerank import Payload
from rankcast.spark.matching import shipping
from rankcast.spark.matching import stage as matching
from rankcast.spark.matching.compiled_subscribers import FILE, CompiledSubscribers, QueueKey, changed_audience, loaded
from rankcast.spark.matching.packing import chunks_of
from rankcast.spark.matching.shipping import SavedAudience
from rankcast.spark.matching.stage import match, rank_events
from rankcast.spark.sources.event_reader import OpenEvents, typed_document
from rankcast.spark.sources.events import EventColumns
from rankcast.storage.events.files import write_events
from rankcast.testing.strategies import VECTOR, events, subscribers, times, vectors
from spark.builders import NOON, person

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FLAT = Event("1", "/s", time=NOON, data={"rent": 1})


def _expected(people, published):
    for event in published:
        for someone in people:
            satisfied = [one.id for one in someone.subscriptions if matches(one, event)]
            preferences = Preferences.of(someone)
            found = preferences.ranked(event, satisfied) if satisfied else None
            if found is not None:
                expires = preferences.expires(found.matched, event.time, event.expires)
                score = preferences.score(found.rank, event.time)
                yield (*event.identity, event.time, expires, someone.id, None, found.rank, score, list(found.matched))


class Crowd(tuple):
    """Some people and some events; too many to be shown."""

    def __repr__(self):
        return f"{len(self[0])} people, {len(self[1])} events"


@st.composite
def _crowds(draw):
    people = draw(st.lists(subscribers(), min_size=10, max_size=30, unique_by=lambda one: one.id))
    published = []
    for at, event in enumerate(draw(st.lists(events(), min_size=10, max_size=40))):
        vector = draw(st.none() | vectors())
        data = event.data if vector is None else {**event.data, VECTOR: vector}
        published.append(replace(event, id=f"{event.id}-{at}", time=draw(times()), data=data))
    return Crowd((people, published))


def _key(row):
    return row[0], row[1], row[4]


def _rows(frame):
    """The rows of a DataFrame; `collect` cannot show the first and last times."""
    table = frame.toArrow()
    columns = [
        [None if tick is None else EPOCH + tick * TICK for tick in column.cast(pa.int64()).to_pylist()]
        if pa.types.is_timestamp(column.type)
        else column.to_pylist()
        for column in table.columns
    ]
    return list(zip(*columns, strict=True))


@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(_crowds())
def test_random_events_and_subscribers(spark, crowd):
    people, published = crowd
    documents = spark.createDataFrame([(typed_document(one),) for one in published], "value string")
    found = match(documents.repartition(3), CompiledSubscribers.of(people), columns=EventColumns(document="value"))
    assert sorted(_rows(found), key=_key) == sorted(_expected(people, published), key=_key)


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
def test_feeds_in_columns(spark, feed, tmp_path):
    people, published = list(feed.subscribers(40, seed=3)), list(feed.events(300, seed=4))
    write_events(tmp_path / "events.parquet", published)
    frame = spark.read.parquet(str(tmp_path / "events.parquet"))
    found = match(frame, CompiledSubscribers.of(people))
    assert sorted(_rows(found), key=_key) == sorted(_expected(people, published), key=_key)


def _flats(spark, rows):
    return spark.createDataFrame(rows, "id int, time timestamp, city string, rent int, k int")


def test_columns_of_the_events_can_be_kept(spark):
    frame = _flats(spark, [(1, NOON, "Porto", 700, 3), (2, None, "Porto", 1, 4), (3, NOON, "Faro", 5, 6)])
    found = match(
        frame,
        CompiledSubscribers.of([person("ana", "rent < 800"), person("ben", "city = 'Faro'")]),
        keep=["k", "city"],
    )
    assert sorted((row.id, row.subscriber, row.k, row.city) for row in found.collect()) == [
        ("1", "ana", 3, "Porto"),
        ("2", "ana", 4, "Porto"),
        ("3", "ana", 6, "Faro"),
        ("3", "ben", 6, "Faro"),
    ]
    with pytest.raises(InvalidEventError, match="keep: matches have a column 'id' of their own"):
        match(frame, CompiledSubscribers.of([]), keep=["id"])
    with pytest.raises(InvalidEventError, match="keep: the events have no column 'nope'"):
        match(frame, CompiledSubscribers.of([]), keep=["nope"])


def test_pieces_are_small_when_events_match_a_lot(spark, monkeypatch):
    monkeypatch.setattr(matching, "MATCHES", 100)
    monkeypatch.setattr(matching, "FIRST_EVENTS", 8)
    monkeypatch.setattr(matching, "FEWEST_EVENTS", 2)
    audience = CompiledSubscribers.of([person(str(at), "rent > 0") for at in range(25)])
    frame = _flats(spark, [(at, NOON, "Porto", 1, 1) for at in range(30)])
    selected, reader = matching.prepared(frame)
    pieces = list(matching.matched_pieces(iter(selected.toArrow().to_batches()), reader, audience))
    assert max(len(piece.rows.event) for piece in pieces[1:]) <= 100
    assert sum(len(piece.rows.event) for piece in pieces) == 30 * 25


def _same(first, second):
    assert first.queues.keys == second.queues.keys
    assert [first.queues.policy_of(at) for at in range(len(first.queues))] == [
        second.queues.policy_of(at) for at in range(len(second.queues))
    ]
    assert first.ranking.numbers == second.ranking.numbers
    for name, array in first.ranking.table.to_arrays().items():
        assert np.array_equal(array, second.ranking.table.to_arrays()[name])


def test_an_audience_is_saved_and_mapped_back(tmp_path):
    near = Closeness([Target("rent", 700, scale=100)])
    people = [
        person("ana", "rent < 800", "rent < 500", deliver=Sliding(3, 10)),
        Subscriber("ben", (Subscription("x", parse_filter("true"), relevance=near),), Periodic(1, timedelta(hours=1))),
    ]
    audience = CompiledSubscribers.of(people)
    audience.save(tmp_path / "a")
    again = CompiledSubscribers.load(tmp_path / "a", verify=True)
    _same(audience, again)
    assert (len(again), again.subscribers) == (3, 2)
    assert again.queues.names_of(0) == ["0", "1"]
    assert again.queues.policies_of(1, 2) == [Periodic(1, timedelta(hours=1))]
    assert loaded(tmp_path / "a") is loaded(tmp_path / "a")
    assert again.queue_number(QueueKey("ben")) == 1
    with pytest.raises(UnknownIdError, match="there is no queue"):
        again.queue_number(("cleo", None))


def test_a_host_without_the_folder_unpacks_what_came_with_the_task(tmp_path, monkeypatch):
    class Broadcast:
        def __init__(self, value):
            self.value = value

    audience = CompiledSubscribers.of([person("ana", "rent < 800")])
    audience.save(tmp_path / "driver")
    content = Broadcast((tmp_path / "driver" / FILE).read_bytes())
    ship = SavedAudience(str(tmp_path / "driver"), shipping._mark(tmp_path / "driver"), content)
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path / "worker"))
    (tmp_path / "worker").mkdir()
    away = replace(ship, folder=str(tmp_path / "not-here"))
    _same(audience, away.current()[1])
    _same(audience, ship.current()[1])
    assert {path.name.split("-")[0] for path in (tmp_path / "worker").iterdir()} == {"rankcast"}
    content.value = b""  # unpacked already: not needed again
    _same(audience, away.current()[1])


def test_a_subscriber_of_several_periods_has_one_queue_and_ranks_as_it_is_at_the_time(spark):
    early = Subscription("a", parse_filter("rent > 0"), 0.25, active_until=NOON)
    late = Subscription("a", parse_filter("rent > 0"), 0.75, active_from=NOON)
    other = Subscription("b", parse_filter("rent > 0"), 0.5, active_from=NOON)
    people = [Subscriber("ana", (early,)), Subscriber("ana", (other, late))]
    audience = CompiledSubscribers.of(people)
    assert audience.queues.keys == [QueueKey("ana")]
    assert audience.queues.names_of(0) == ["a", "b"]
    frame = _flats(spark, [(1, NOON - timedelta(1), "x", 1, 1), (2, NOON, "x", 1, 1)])
    found = sorted((row.id, row.rank, row.matched) for row in match(frame, audience).collect())
    assert found == [("1", 0.25, ["a"]), ("2", 0.75, ["b", "a"])]


def _chunks(people, published, shards, carried=None):
    """The audience of some people, their rows of some events, and these in chunks."""
    audience = CompiledSubscribers.of(people)
    batch = OpenEvents(np.arange(len(published)), published, carried)
    rows, _ = rank_events(batch, audience, *batch.matched(audience.reader))
    table = batch.table(audience.queues.wanted_content)
    return audience, rows, list(chunks_of(table, rows, audience, 7, shards, 1 % shards))


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(_crowds(), st.integers(2, 5), st.booleans())
def test_chunks_hold_every_row_once_with_its_rank_and_what_matched(crowd, shards, carry):
    people, published = crowd
    carried = pa.array([f"<{one.id}>" for one in published]) if carry else None
    audience, _, packed = _chunks(people, published, shards, carried)
    found = []
    for shard, newest, chunk in packed:
        again = MatchBatch.from_bytes(chunk.to_bytes())
        assert again.version == 7
        assert newest == again.events.time.max()
        assert again.reports_late == (shard == 1)
        payloads = again.events.payload.to_arrow(text=False).to_pylist()
        for at in range(len(again.queue)):
            queue, event = int(again.queue[at]) * shards + shard, int(again.event[at])
            ranks, _, kept = Payload.from_bytes(payloads[event])
            names = audience.queues.names_of(queue)
            matched = [names[place] for place in positions(int(again.matched[at]), again.sets)]
            rank = ranks.get(queue, float(again.score[at]))
            identity = again.events.id.texts()[event]
            assert kept == (f"<{identity}>".encode() if carry else b"")
            found.append((identity, audience.queues.keys[queue].subscriber, rank, float(again.score[at]), matched))
    expected = [(row[1], row[4], row[6], row[7], row[8]) for row in _expected(people, published)]
    assert sorted(found) == sorted(expected)
    (reporting,) = [chunk for shard, _, chunk in packed if shard == 1] or [None]
    assert reporting is None or reporting.events.id.texts() == [one.id for one in published]


def test_more_subscriptions_than_a_mask_has_bits_are_a_set():
    _, _, ((_, _, chunk), *_) = _chunks([person("ana", *["rent > 0"] * 30)], [FLAT], 2)
    assert positions(int(chunk.matched[0]), chunk.sets) == list(range(30))


def test_a_shard_refuses_the_chunks_of_other_subscribers(tmp_path):
    people = [person("ana", "rent > 0"), person("ben", "rent > 0")]
    audience, other = CompiledSubscribers.of(people), CompiledSubscribers.of(people[::-1])
    mark = audience.queues.fingerprint
    audience.save(tmp_path / "a")
    assert mark == CompiledSubscribers.load(tmp_path / "a").queues.fingerprint != other.queues.fingerprint
    shard = Shard.of(audience.queues.policies_of(0, 1), version=mark)
    ((_, _, chunk),) = _chunks(people, [FLAT], 1)[2]
    shard.take(replace(chunk, version=mark))
    with pytest.raises(InvalidEventError, match="the state of the delivery belongs to other subscribers"):
        shard.take(replace(chunk, version=other.queues.fingerprint))
    assert shard.waiting == 2


def described(audience: CompiledSubscribers, number: int) -> tuple:
    """Everything that is known of a subscription, by names instead of numbers."""
    ranking, table = audience.ranking, audience.ranking.table
    queue, profile = int(table.queue[number]), int(table.profile[number])
    name = audience.queues.names_of(queue)[audience.position[number]]
    wider = table.general[table.general_start[number] : table.general_end[number]].tolist()
    return (
        audience.queues.keys[queue],
        name,
        float(table.rank[number]),
        float(table.weight[number]),
        int(table.refresh[number]),
        int(table.rank_by[profile]),
        tuple(table.half_life[profile].tolist()),
        tuple(sorted(audience.queues.names_of(queue)[audience.position[one]] for one in wider)),
        _function(ranking, int(table.relevance[number])),
        *audience.filters.taken(np.array([number])).texts(),
    )


def _function(ranking, function: int) -> tuple:
    table = ranking.table
    if function == NONE:
        return ()
    parts = slice(int(table.part_start[function]), int(table.part_start[function + 1]))
    names = ranking.vectors if table.kind[function] == COSINE else ranking.numbers
    columns = [names[column] for column in table.part_column[parts].tolist()]
    numbers = [tuple(column[parts].tolist()) for column in (table.part_value, table.part_scale, table.part_weight)]
    return (int(table.kind[function]), float(table.reach[function]), tuple(columns), *numbers)


def satisfied(audience: CompiledSubscribers, event) -> list[tuple]:
    return sorted(described(audience, number) for number in audience.reader.match_one(event.attributes).tolist())


everyone = st.lists(subscribers(), max_size=4, unique_by=lambda one: one.id)


@given(st.lists(everyone, min_size=1, max_size=4), st.lists(events(), max_size=5), st.sets(st.integers(0, 3)))
@settings(max_examples=25)
def test_a_changed_audience_is_the_audience_of_those_who_are_there(
    tmp_path_factory, steps: list[list[Subscriber]], published: list, reloads: set[int]
) -> None:
    audience, there = None, {}
    numbers: dict[QueueKey, int] = {}
    for at, step in enumerate(steps):
        wanted = {one.id: one for one in step}
        changed = {name: () for name in there if name not in wanted}
        changed |= {name: (one,) for name, one in wanted.items() if there.get(name) != one}
        audience, there = changed_audience(audience, changed), wanted
        if at in reloads:
            folder = tmp_path_factory.mktemp("saved")
            audience.save(folder)
            audience = CompiledSubscribers.load(folder, verify=True)
        found = {key: audience.queue_number(key) for key in audience.queues.keys}
        assert numbers.items() <= found.items()
        numbers = found
    fresh = CompiledSubscribers.of(there.values(), filters=True)
    for event in published:
        assert satisfied(audience, event) == satisfied(fresh, event)
    assert len(audience) == len(fresh)


BEST = Continuous(1)


def _ana(rent: int, name: str, policy=BEST) -> Subscriber:
    return Subscriber("ana", (Subscription(name, parse_filter(f"rent < {rent}")),), policy)


def test_names_within_a_queue_keep_their_positions() -> None:
    audience = changed_audience(None, {"ana": (_ana(500, "cheap"),)})
    audience = changed_audience(audience, {"ana": (_ana(900, "dear"),)})
    assert audience.queues.names_of(0) == ["cheap", "dear"]
    (number,) = audience.reader.match_one({"rent": 100}).tolist()
    assert audience.position[number] == 1


def test_the_policies_that_a_queue_may_get_later_are_known() -> None:
    periods = (_ana(500, "a"), _ana(500, "a", Sliding(1, 2)))
    audience = changed_audience(None, {"ana": periods})
    assert audience.queues.policies_of(0, 1) == [Continuous(1)]
    assert set(audience.queues.policies) == {Continuous(1), Sliding(1, 2)}
    audience = changed_audience(audience, {"ana": (_ana(500, "a", Sliding(1, 3)),)})
    assert audience.queues.policies_of(0, 1) == [Continuous(1)]
    assert Sliding(1, 3) in audience.queues.policies


def test_only_what_changes_enters_the_index(monkeypatch) -> None:
    many = {f"s{at}": (Subscriber(f"s{at}", _ana(at, "a").subscriptions),) for at in range(50)}
    audience = changed_audience(None, many)
    added: list[int] = []
    original = Index.add
    monkeypatch.setattr(Index, "add", lambda self, entry: (added.append(entry.number), original(self, entry)))
    audience = changed_audience(audience, {"s7": (), "s9": (Subscriber("s9", _ana(3, "b").subscriptions),)})
    assert added == [50]
    assert len(audience) == 49
    assert np.array_equal(audience.reader.match_one({"rent": 48}), np.array([49]))
