"""Versions of the subscribers: what a stream sees of a table that changes under it, and what it never sees."""

import json
import logging
import threading
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import ALL_MATCHES, Continuous, Policy, Sliding
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import EPOCH, NEVER
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.subscribers import versions
from rankcast.spark.subscribers.changing import batch_of_task, watermark_of_batch
from rankcast.spark.subscribers.tables import FolderTable, append_subscribers
from rankcast.spark.subscribers.timelines import ALWAYS, Revision, Timeline, document_at, timeline_of
from rankcast.spark.subscribers.version_files import Pin, Pins, VersionChange
from rankcast.spark.subscribers.versions import Versions, schedule

SECOND = 1_000_000


def person(name: str, rent: int, deliver: Policy = ALL_MATCHES) -> Subscriber:
    return Subscriber(name, (Subscription("1", parse_filter(f"rent < {rent}")),), deliver)


def second(time: int):
    return EPOCH + timedelta(seconds=time)


class World:
    """A table, a store and a driver that may be started anew."""

    def __init__(self, root: Path, **options) -> None:
        self.root = root
        self.table = root / "table"
        self.table.mkdir()
        self.options = options
        self.start()

    def start(self) -> None:
        self.versions = Versions(FolderTable(self.table), self.root / "store", **self.options)

    def say(self, *people: Subscriber, **more) -> Path:
        return append_subscribers(self.table, people, **more)

    def names(self, version: int) -> set[str]:
        return set(self.versions.folder.timelines(version))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def compiled(monkeypatch) -> list[set[str]]:
    """Who was compiled, call by call."""
    asked: list[set[str]] = []
    compile_changes = versions.changed_audience
    monkeypatch.setattr(
        versions,
        "changed_audience",
        lambda old, new, *more: (asked.append(set(new)), compile_changes(old, new, *more))[1],
    )
    return asked


def test_a_version_stays_until_the_table_changes(world: World) -> None:
    world.say(person("ana", 500))
    assert [world.versions.prepare(batch, None).version for batch in range(3)] == [1, 1, 1]
    world.say(person("eva", 700))
    assert [world.versions.prepare(batch, None).version for batch in range(3, 6)] == [2, 2, 2]
    assert world.names(1) == {"ana"}
    assert world.names(2) == {"ana", "eva"}


def test_only_what_differs_is_compiled_again(world: World, compiled) -> None:
    world.say(person("ana", 500), person("eva", 500), person("leo", 500))
    world.versions.prepare(0, None)
    world.say(person("eva", 900), gone=["leo"])
    world.versions.prepare(1, 20_000)
    assert compiled == [{"ana", "eva", "leo"}, {"eva", "leo"}]


def test_filters_are_compared_without_the_bounds_of_periods(world: World) -> None:
    """As in a hub, where a subscriber who changes has no bounds of that."""
    world.say(person("ana", 500))
    world.say(person("ana", 700), active_from=second(5))
    audience = CompiledSubscribers.load(world.versions.folder.audience(world.versions.prepare(0, None).version))
    assert audience.filters.texts() == ["rent < 500", "rent < 700"]


def test_a_table_that_is_written_anew_and_says_the_same_makes_no_version(world: World) -> None:
    file = world.say(person("ana", 500))
    world.versions.prepare(0, None)
    file.write_bytes(file.read_bytes())
    assert world.versions.prepare(1, None).version == 1


def test_a_repeated_batch_gets_its_version_whatever_the_table_says_by_now(world: World) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("ana", 900))
    world.start()
    assert world.versions.prepare(0, None).version == 1
    assert world.versions.prepare(1, None).version == 2


def test_a_driver_that_starts_again_goes_on_from_the_pinned_version(world: World, compiled) -> None:
    world.say(person("ana", 500), person("eva", 500))
    world.versions.prepare(0, None)
    compiled.clear()
    world.start()
    assert world.versions.prepare(1, None).version == 1
    assert compiled == []
    world.say(person("leo", 500))
    assert world.versions.prepare(2, None).version == 2
    assert compiled == [{"leo"}]
    assert world.versions.folder.changes(2) == []
    assert queue_owners(world.versions.folder.audience(2)) == ["ana", "eva", "leo"]


def test_a_version_that_was_made_and_never_pinned_is_left_aside(world: World, monkeypatch) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("eva", 500))
    with monkeypatch.context() as patched:
        patched.setattr(world.versions.pins, "pin", lambda _: 1 / 0)  # the driver dies here
        with pytest.raises(ZeroDivisionError):
            world.versions.prepare(1, None)
    world.start()
    world.say(person("leo", 500))
    assert world.versions.prepare(1, None).version == 3
    assert world.versions.folder.about(3).base == 1
    assert world.names(3) == {"ana", "eva", "leo"}


def test_a_change_takes_effect_at_its_own_time(world: World) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("ana", 900, Sliding(1, 5)), active_from=second(50))
    world.versions.prepare(1, 20_000)
    (change,) = world.versions.folder.changes(2)
    assert change[:3] == (0, 50 * SECOND, Sliding(1, 5))
    told = json.loads(change.ranking)
    assert (told["queue"], told["own"], told["names"]) == (0, None, ["1"])
    assert [one["id"] for one in told["file"]["subscribers"]] == ["ana"]
    assert world.versions.counts.late_changes == 0


def test_a_change_that_comes_too_late_takes_effect_at_the_frontier_and_says_so(world: World, caplog) -> None:
    world.options["lateness"] = timedelta(seconds=5)
    world.start()
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("ana", 900, Continuous(3)), active_from=second(22))
    with caplog.at_level(logging.WARNING):
        world.versions.prepare(1, 20_000)
    frontier = 25 * SECOND + 1_000
    assert [change[:3] for change in world.versions.folder.changes(2)] == [(0, frontier, Continuous(3))]
    assert world.versions.folder.about(2).late == (("ana", 22 * SECOND, frontier),)
    assert world.versions.counts.late_changes == 1
    assert "the change at 1970-01-01T00:00:22Z came after events of that time" in caplog.text
    assert "takes effect at 1970-01-01T00:00:25.001Z" in caplog.text


def test_whoever_comes_without_a_time_comes_at_the_frontier(world: World) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("eva", 500))
    world.versions.prepare(1, 20_000)
    (period,) = world.versions.folder.timelines(2)["eva"]
    assert (period.start, period.end) == (20 * SECOND + 1_000, NEVER)
    assert world.versions.folder.changes(2) == [VersionChange(1, period.start, ALL_MATCHES)]
    assert world.versions.counts.late_changes == 0


def test_whoever_is_gone_leaves_when_events_have_passed_and_comes_back_to_the_same_queue(world: World) -> None:
    world.say(person("ana", 500), person("eva", 500))
    world.versions.prepare(0, None)
    world.say(gone=["ana"], active_from=second(30))
    world.versions.prepare(1, 20_000)
    assert world.versions.folder.changes(2) == [VersionChange(0, 30 * SECOND, None)]
    world.say(person("leo", 500))
    world.versions.prepare(2, 40_000)
    assert world.names(3) == {"eva", "leo"}
    world.say(person("ana", 900), active_from=second(60))
    world.versions.prepare(3, 50_000)
    assert VersionChange(0, 60 * SECOND, ALL_MATCHES) in world.versions.folder.changes(4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "eva", "document": {"subscriptions": [{"filter": "rent <"}]}}', "rejected.jsonl:1: subscriber 'eva'"),
        ("no JSON", "rejected.jsonl:1: not JSON"),
        ('{"id": "ana", "document": {"subscriptions": []}, "sequence": 1}', "says something else"),
    ],
)
def test_a_bad_update_is_not_taken_and_the_version_before_stays(world: World, caplog, line: str, message: str) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    bad = world.table / "rejected.jsonl"
    bad.write_text(line + "\n")
    world.say(person("leo", 500))
    assert [world.versions.prepare(batch, None).version for batch in (1, 2)] == [1, 1]
    (report,) = (world.root / "store" / "rejected").iterdir()
    assert message in report.read_text()
    assert message in caplog.text
    assert caplog.text.count("is not taken and version 1 stays in force") == 1
    assert world.versions.counts.refused_updates == 1
    bad.unlink()
    assert world.versions.prepare(3, None).version == 2
    assert world.names(2) == {"ana", "leo"}


def test_a_table_that_cannot_be_reached_leaves_the_version_in_force(world: World, caplog) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.table.rename(world.root / "elsewhere")
    assert [world.versions.prepare(batch, None).version for batch in (1, 2)] == [1, 1]
    assert caplog.text.count("No such file or directory") == 1


def test_a_stream_does_not_start_on_a_bad_table(world: World) -> None:
    (world.table / "bad.jsonl").write_text("no JSON\n")
    with pytest.raises(InvalidFileError, match=r"bad.jsonl:1: not JSON"):
        world.versions.prepare(0, None)
    assert world.versions.pins.of(0) is None


def test_a_pinned_version_that_is_missing_is_an_error_that_says_what_to_do(world: World) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.versions.folder.remove(1)
    for batch in (0, 1):
        world.start()
        with pytest.raises(InvalidFileError, match=r"version 1 of the subscribers is not there.*bring the folder back"):
            world.versions.prepare(batch, None)


def test_a_damaged_version_is_an_error(world: World) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    (world.versions.folder.path(1) / "timelines.parquet").write_bytes(b"PAR1")
    world.start()
    with pytest.raises(InvalidFileError, match=r"timelines.parquet: is damaged"):
        world.versions.prepare(1, None)


def test_versions_go_once_no_batch_that_can_be_repeated_needs_them(world: World) -> None:
    world.options["retain"] = 2
    world.start()
    for batch in range(6):
        world.say(person("ana", 500 + batch))
        world.versions.prepare(batch, None)
    assert world.versions.folder.numbers() == [4, 5, 6]
    assert world.versions.pins.versions() == {4, 5, 6}


def test_a_disk_that_is_full_leaves_no_half_version(world: World, monkeypatch) -> None:
    world.say(person("ana", 500))
    world.versions.prepare(0, None)
    world.say(person("ana", 900))

    def full(self, folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(CompiledSubscribers, "save", full)
        with pytest.raises(InvalidFileError, match="cannot be written: No space left on device"):
            world.versions.prepare(1, None)
    assert [entry.name for entry in world.versions.folder.root.iterdir()] == ["00000001"]
    assert world.versions.pins.of(1) is None
    assert world.versions.prepare(1, None).version == 2


# A row of the table: whose, what (None: gone), when it holds, and how many batches before its time it becomes known.
NAMES = ["ana", "eva"]
rows = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([None, 1, 2, 3]),
    st.integers(1, 9),
    st.integers(1, 5) | st.none(),
    st.integers(1, 9),
)
POLICIES = {1: ALL_MATCHES, 2: Sliding(1, 3), 3: Sliding(1, 3)}


@given(st.lists(rows, max_size=6), st.sets(st.integers(0, 9)), st.integers(0, 2))
@settings(max_examples=40)
def test_results_do_not_depend_on_when_rows_arrive_as_long_as_they_come_before_the_events(
    tmp_path_factory, given_rows, restarts: set[int], lateness: int
) -> None:
    """Batch n brings the events of second n; a row for second t arrives at some batch up to t, and drivers die."""
    world = World(tmp_path_factory.mktemp("world"), lateness=timedelta(seconds=lateness))
    everything: dict[str, list[Revision]] = {name: [] for name in NAMES}
    pending: list[VersionChange] = []
    done: list[VersionChange] = []
    seen: dict[tuple[str, int], list[str]] = {}
    version = 0
    for batch in range(10):
        for at, (name, rent, start, length, early) in enumerate(given_rows):
            if batch == max(0, start - early):
                end = None if length is None else second(start + length)
                row = {"id": name, "document": None if rent is None else document(rent), "sequence": at}
                row |= {"active_from": second(start).isoformat(), "active_until": end and end.isoformat()}
                (world.table / f"{at}.jsonl").write_text(json.dumps(row) + "\n")
                text = None if rent is None else str(rent)
                last = NEVER if length is None else (start + length) * SECOND
                everything[name].append(Revision(text, start * SECOND, last, at))
        if batch in restarts:
            world.start()
        newest = batch * 1_000 - 1  # in milliseconds: the batches before this one had every event before second n
        pin = world.versions.prepare(batch, None if batch == 0 else newest - lateness * 1_000)
        if pin.version != version:
            version, frontier = pin.version, world.versions.folder.about(pin.version).frontier
            done += [change for change in pending if change.time < frontier]
            pending = world.versions.folder.changes(version)
        lines = world.versions.folder.timelines(version)
        for time in range(max(0, batch - lateness), batch + 1):  # events of this second, and late ones
            for name in NAMES:
                seen.setdefault((name, time), []).append(rent_at(lines.get(name, ()), time * SECOND))
    stated = {name: timeline_of(own) for name, own in everything.items()}
    for (name, time), rents in seen.items():
        assert set(rents) == {document_at(stated[name], time * SECOND)}
    queues = world.versions.folder  # every queue's changes, as the shards carried them out, are those of one timeline
    for name, line in stated.items():
        policies = [POLICIES[int(period.document)] for period in line]
        wanted = [step for step in schedule(line, policies) if step[0] <= 9 * SECOND]
        numbers = queue_owners(queues.audience(version))
        own = [change for change in (*done, *pending) if name in numbers and change.queue == numbers.index(name)]
        steps = [(change.time, change.policy) for change in own if change.time <= 9 * SECOND]
        same = {after for before, after in pairwise(steps) if before[1] == after[1]}  # only ranks are others then
        assert [step for step in steps if step not in same] == wanted


def queue_owners(folder: Path) -> list[str]:
    return [key.subscriber for key in CompiledSubscribers.load(folder).queues.keys]


def document(rent: int) -> dict:
    deliver = {} if rent == 1 else {"deliver": {"policy": "sliding", "k": 1, "window": 3}}
    return {**deliver, "subscriptions": [{"filter": f"rent < {rent}"}]}


def rent_at(line: Timeline, time: int) -> str | None:
    found = document_at(line, time)
    return None if found is None else json.loads(found)["subscriptions"][0]["filter"].removeprefix("rent < ")


def test_a_queue_that_continues_in_the_next_period_is_not_told_so() -> None:
    line = timeline_of([Revision("a", ALWAYS, 5), Revision("b", 5)])
    assert schedule(line, [Sliding(1, 3), Sliding(1, 3)]) == [(ALWAYS, Sliding(1, 3))]
    assert schedule(line, [Sliding(1, 3), None]) == [(ALWAYS, Sliding(1, 3)), (5, None)]


def test_the_first_pin_of_a_batch_stands(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    assert pins.of(3) is None
    assert pins.pin(Pin(3, version=1, frontier=10)) == Pin(3, 1, 10)
    assert pins.pin(Pin(3, version=2, frontier=99)) == Pin(3, 1, 10)
    assert pins.of(3) == Pin(3, 1, 10)
    assert [file.name for file in (tmp_path / "pins").iterdir()] == ["0000000003"]


def test_of_many_writers_one_wins_and_all_learn_who(tmp_path: Path) -> None:
    found: list[Pin] = []
    start = threading.Barrier(8)

    def write(version: int) -> None:
        start.wait()
        found.append(Pins(tmp_path).pin(Pin(7, version, 0)))

    threads = [threading.Thread(target=write, args=(version,)) for version in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_pins_are_found_by_batch_and_forgotten_in_order(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    for batch, version in ((8, 1), (9, 1), (10, 2), (100, 3)):
        pins.pin(Pin(batch, version, batch))
    assert pins.newest_before(100) == Pin(10, 2, 10)
    assert pins.newest_before(8) is None
    assert pins.versions() == {1, 2, 3}
    pins.forget_before(10)
    assert pins.of(9) is None
    assert pins.versions() == {2, 3}


@pytest.mark.parametrize("damage", ["", "{}", '{"batch": 3}', "\xff", '{"batch": 3, "version": 2, "frontier": 0}'])
def test_a_damaged_pin_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    pins = Pins(tmp_path)
    pins.pin(Pin(3, 1, 0))
    (tmp_path / "0000000003").write_text(damage, "latin-1")
    with pytest.raises(InvalidFileError, match="0000000003: is damaged: expected the version of the subscribers"):
        pins.of(3)


def test_a_pin_whose_bits_were_changed_is_damaged(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.pin(Pin(3, 1, 0))
    file = tmp_path / "0000000003"
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(InvalidFileError, match="is damaged"):
        pins.of(3)


def test_outside_a_stream_there_is_no_batch() -> None:
    assert batch_of_task() is None


def test_the_watermark_of_a_batch_is_read_from_spark_s_offset_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch, watermark in ((0, 0), (1, 1767225591000)):
        text = "v1\n" + json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 5, "conf": {}}) + "\n{}"
        (tmp_path / "offsets" / str(batch)).write_text(text)
    assert watermark_of_batch(tmp_path, 0) is None
    assert watermark_of_batch(tmp_path, 1) == 1767225591000
    (tmp_path / "offsets" / "2").write_text("v1\n")
    with pytest.raises(InvalidFileError, match="is damaged or no offset log of Spark"):
        watermark_of_batch(tmp_path, 2)
    with pytest.raises(InvalidFileError, match="No such file"):
        watermark_of_batch(tmp_path, 3)
