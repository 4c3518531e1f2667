"""What the delivery stage keeps in Spark's state and in shared memory, without Spark: commits, failures, losses."""

import os
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidValueError
from rankcast.model.policies import Sliding
from rankcast.spark.delivery import live_state as state_live
from rankcast.spark.delivery import stage as delivery
from rankcast.spark.delivery import state
from rankcast.spark.delivery.live_state import live_shard
from rankcast.spark.delivery.stage import Delivery, shard_keys
from rankcast.spark.delivery.state import MessageKind, ShardInput, StateError, StoredShard
from spark.packed_deliveries import QUEUES, SECOND, Policies, batches_of, chunk_of, collected, expected, rows_of, told


class Variable:
    """A state variable of Spark as far as the stage uses it: a value, or a map."""

    def __init__(self, store, name):
        self.store, self.name = store, name

    def get(self):
        return self.store.get(self.name)

    def update(self, value):
        self.store[self.name] = value

    def getValue(self, key):  # noqa: N802
        return self.store.get((self.name, key))

    def updateValue(self, key, value):  # noqa: N802
        self.store[self.name, key] = value

    def removeKey(self, key):  # noqa: N802
        del self.store[self.name, key]


class Handle:
    """Spark's side of one task: state that is committed with it or not at all."""

    def __init__(self, committed):
        self.store = dict(committed)

    def getValueState(self, name, schema):  # noqa: N802
        return Variable(self.store, name)

    def getMapState(self, name, key, value):  # noqa: N802
        return Variable(self.store, name)

    def registerTimer(self, time):  # noqa: N802
        self.store["timers"] = self.store.get("timers", frozenset()) | {time}

    def deleteTimer(self, time):  # noqa: N802
        assert time in self.store["timers"]
        self.store["timers"] -= {time}


class KilledError(Exception):
    """A task is killed."""


class Spark:
    """Runs the stage for one shard as Spark does: attempts until one succeeds, then a commit."""

    def __init__(self):
        self.committed, self.watermark, self.newest, self.found = {}, 0, 0, []

    def batch(self, rows=(), *, end=False, failing=()):
        packed = [
            {"kind": int(MessageKind.CHUNK), "data": chunk_of(part, 1).to_bytes()}
            for part in batches_of(rows, 2)
            if part
        ]
        packed += [{"kind": int(MessageKind.END), "data": b""}] * end
        for failure in (*failing, None):
            handle = Handle(self.committed)
            try:
                found = list(self.attempt(handle, packed, failure))
            except KilledError:
                continue
            self.committed = handle.store
            self.found += found
        self.newest = max([self.newest, *(row[0] for row in rows)])
        self.watermark = self.newest // 1000

    def attempt(self, handle, packed, failure):
        processor = Delivery(Policies(), 1, 0)
        processor.init(handle)
        if failure is not None:
            failure(processor)
        timers, key = TimerValues(-1, self.watermark), (shard_keys(1)[0],)
        if packed:
            yield from processor.handleInputRows(key, iter(packed), timers)
        for time in sorted(handle.store.get("timers", ())):
            if time <= self.watermark:
                yield from processor.handleExpiredTimer(key, timers, ExpiredTimerInfo(time))
                handle.deleteTimer(time)  # whatever the call has set

    @property
    def notices(self):
        return collected([row.asDict() for row in self.found], 1)[0]


def at_commit(processor):
    """Die when all is done but the head."""

    def die(head):
        raise KilledError

    processor._state.commit = die


def after_commit(processor):
    """Die in the task's last moment: the live shard is complete, Spark's commit never comes."""
    called = processor._called

    def die_after(*arguments):
        yield from called(*arguments)
        raise KilledError

    processor._called = die_after


def at_append(processor):
    """Die when the shard has changed in memory and nothing is written."""

    def die(*arguments):
        raise KilledError

    processor._state.append = die


@pytest.fixture(autouse=True)
def live_folder(tmp_path_factory, monkeypatch):
    """Live shards of these tests, in a folder of their own."""
    folder = tmp_path_factory.mktemp("live")
    monkeypatch.setattr(delivery, "query_folder", lambda query: folder)
    return folder


FAILURES = st.lists(st.sampled_from([at_commit, after_commit, at_append]), max_size=2)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 5), failures=st.lists(FAILURES, min_size=6, max_size=6), lose=st.sets(st.integers(0, 5)))
def test_failing_tasks_lost_memory_and_snapshots_change_nothing(live_folder, seed, failures, lose):
    rows, spark = rows_of(60, seed), Spark()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state, "SMALLEST_LOG", 6_000)
        patched.setattr(state, "LARGEST_PART", 1_000)
        for number, part in enumerate(batches_of(rows, 6)):
            if number in lose:
                (live_folder / "shard-0" / "head").unlink(missing_ok=True)
            spark.batch(part, failing=failures[number])
        spark.batch(end=True)
    assert spark.notices == expected(rows)
    (live_folder / "shard-0" / "head").unlink(missing_ok=True)


def test_without_more_rows_time_calls_the_shard(live_folder):
    """Data, then empty batches as Spark makes them when the watermark has moved: nothing is due any more at the end."""
    rows, spark = rows_of(40), Spark()
    for part in batches_of(rows, 3):
        spark.batch(part)
        spark.batch()
    done = [one for one in expected(rows) if one[1] < spark.watermark * 1000]
    assert [one for one in spark.notices if one[1] < spark.watermark * 1000] == done
    assert len(spark.committed["timers"]) <= 1


def test_the_state_stays_bounded_over_many_batches(live_folder, monkeypatch):
    monkeypatch.setattr(state, "SMALLEST_LOG", 20_000)
    spark, sizes = Spark(), []
    for part in batches_of(rows_of(800, step=0.5), 50):
        spark.batch(part)
        sizes.append(sum(len(value[0]) for key, value in spark.committed.items() if isinstance(key, tuple)))
    assert max(sizes[25:]) < 1.5 * max(sizes[:25])
    assert max(sizes) < 100_000


def test_a_live_shard_is_used_for_its_token_only_and_once(live_folder):
    shard = Shard.of([Sliding(1, 3)] * 5)
    with live_shard(live_folder, 7) as live:
        live.kept(shard, b"token")
    with live_shard(live_folder, 7) as live:
        assert live.taken(b"other") is None
        assert live.taken(b"token") is None
    with live_shard(live_folder, 7) as live:
        assert live.taken(b"") is None
        live.kept(shard, b"token")
        found = live.taken(b"token")
        assert found is not None
        assert found.to_bytes() == shard.to_bytes()
        assert live.taken(b"token") is None


def test_a_live_shard_is_changed_in_place_and_moves_when_it_grows(live_folder):
    shard, twin = (Shard.of([Sliding(2, 500)] * QUEUES) for _ in range(2))
    files = set()
    for number, part in enumerate(batches_of(rows_of(300), 30)):
        with live_shard(live_folder, 0) as live:
            shard = live.taken(bytes([number])) or shard
            for one in (shard, twin):
                one.take(chunk_of(part, 1))
                one.advance(part[-1][0])
            live.kept(shard, bytes([number + 1]))
        files.add(tuple(path.name for path in (live_folder / "shard-0").glob("arena-*")))
    assert all(len(names) <= 1 for names in files)
    assert 1 < len(files) < 20
    assert shard.to_bytes() == twin.to_bytes()


def test_a_live_shard_that_held_nothing_is_kept_whole_when_it_holds_something(live_folder):
    shard = Shard.of([Sliding(1, 3)])
    with live_shard(live_folder, 0) as live:
        live.kept(shard, b"empty")
    with live_shard(live_folder, 0) as live:
        shard = live.taken(b"empty")
        shard.take(chunk_of([(5 * SECOND, "a", 0, 0.5, 10 * SECOND)], 1))
        shard.advance(6 * SECOND)
        live.kept(shard, b"full")
    with live_shard(live_folder, 0) as live:
        assert live.taken(b"full").to_bytes() == shard.to_bytes()


def test_without_room_nothing_is_kept(live_folder, monkeypatch):
    def no_room(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    shard = Shard.of([Sliding(1, 3)])
    shard.take(chunk_of([(5 * SECOND, "a", 0, 0.5, 10 * SECOND)], 1))
    shard.advance(6 * SECOND)
    with live_shard(live_folder, 0) as live:
        live.kept(shard, b"token")
        assert live.taken(b"token") is None
    assert [path.name for path in (live_folder / "shard-0").iterdir()] == ["lock"]


def test_folders_that_no_process_uses_are_removed(tmp_path):
    mine = state_live.query_folder("mine", tmp_path)
    left = tmp_path / f"{state_live.PREFIX}{os.getuid()}-left"
    left.mkdir()
    (left / "in-use").touch()
    assert state_live.clean(tmp_path) == 1
    assert mine.is_dir()
    assert not left.exists()


def test_a_folder_that_is_removed_while_it_is_taken_is_made_again(tmp_path, monkeypatch):
    lock, removed = state_live.fcntl.flock, []

    def cleaned_before(mark, kind):
        if kind == state_live.fcntl.LOCK_SH and not removed:
            removed.append(state_live.clean(tmp_path))
        lock(mark, kind)

    monkeypatch.setattr(state_live.fcntl, "flock", cleaned_before)
    taken = state_live.query_folder("taken", tmp_path)
    assert removed == [1]
    assert (taken / "in-use").exists()
    assert state_live.clean(tmp_path) == 0


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("log", None, "part 0 of its log is missing"),
        ("snapshot", None, "part 0 of its snapshot is missing"),
        ("log", slice(-1), "log: an entry of"),
    ],
)
def test_a_damaged_state_is_an_error(name, damage, message):
    spark = Spark()
    for part in batches_of(rows_of(10), 2):
        spark.batch(part)
    (kept,) = spark.committed.pop((name, (0,)))
    if damage is not None:
        spark.committed[name, (0,)] = (kept[damage],)
    found = StoredShard(Handle(spark.committed))
    with pytest.raises(StateError, match=f"the state of a delivery shard is damaged: {message}"):
        found.restored(found.head(), never)


def never():
    raise AssertionError("a shard that has state does not begin anew")


@given(st.integers(-5, 5), st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=9)), max_size=4))
def test_input_survives_packing_and_cut_bytes_are_refused(watermark, rows):
    given = ShardInput(watermark, rows, foresees=bool(rows))
    packed = given.to_bytes()
    assert ShardInput.from_bytes(packed) == given
    with pytest.raises(InvalidValueError, match="log: an entry"):
        ShardInput.from_bytes(packed[: Random(len(packed)).randrange(len(packed))])


def test_the_order_of_rows_of_one_input_does_not_matter():
    rows = rows_of(30)
    chunks = [(int(MessageKind.CHUNK), chunk_of(part, 1).to_bytes()) for part in batches_of(rows, 4)]
    answers = []
    for order in (chunks, chunks[::-1]):
        shard = Shard.of(Policies().policies(0, 1)[1])
        outcome = ShardInput(0, [(int(MessageKind.END), b""), *order]).apply(shard)
        answers.append([one.to_bytes() for one in outcome.notices])
    assert answers[0] == answers[1]
    assert np.array_equal(outcome.late.time, [])


@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([0, 700, 3 * SECOND]), st.data())
@settings(max_examples=40)
def test_to_foresee_the_next_watermark_changes_nothing_but_when_things_happen(seed, batches, lateness, data):
    """Rows come out of order, some too late; what waits for Spark's watermark and what foresees it agree."""
    rows = rows_of(40, seed, step=data.draw(st.sampled_from([0.0005, 1.0])))
    Random(seed).shuffle(rows)
    outcomes = {}
    for foresees in (False, True):
        shard = Shard.of(Policies().policies(0, 1)[1], lateness=lateness)
        watermark, newest, outcomes[foresees], late = 0, 0, [], []
        for batch in batches_of(rows, batches):
            packed = [(int(MessageKind.CHUNK), chunk_of(part, 1).to_bytes()) for part in batches_of(batch, 2) if part]
            outcome = ShardInput(watermark, packed, foresees).apply(shard)
            assert not foresees or shard.watermark >= watermark
            newest = max([newest, *(row[0] for row in batch)])
            watermark = newest // 1000 * 1000 - lateness // 1000 * 1000
            outcomes[foresees] += told_of(outcome)
            late += outcome.late.id.texts()
        outcomes[foresees] += told_of(ShardInput(watermark, [(int(MessageKind.END), b"")], foresees).apply(shard))
        outcomes[foresees] = sorted(outcomes[foresees]), sorted(late)
    assert outcomes[False] == outcomes[True]


def told_of(outcome):
    return [line for notices in outcome.notices for line in told(notices, 0, 1)]
