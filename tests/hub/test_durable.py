"""A hub with a path: killed at any moment and opened again, it goes on as if nothing had happened."""

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import count, islice
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import durable_publisher
import rankcast.hub.core
from durable_publisher import plain, publish, subscribe
from rankcast.hub import CallbackError, Hub, HubLogError
from rankcast.hub.commands import Subscribe, Update
from rankcast.hub.durable import Codec
from rankcast.language.parser import parse_filter
from rankcast.model.errors import (
    DuplicateIdError,
    InvalidEventError,
    InvalidFileError,
    InvalidValueError,
    PriorityCycleError,
)
from rankcast.model.events import Event
from rankcast.model.notifying import AT_ONCE, Gathered, OnDemand
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.values import ValueType
from rankcast.testing.clock import FakeClock
from rankcast.testing.strategies import notified_subscribers

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEYOND_UTC = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def flat(number=1, **attributes):
    return Event.of(attributes, id=str(number), source="/flats")


def got(notifications):
    return [(note.subscriber, note.event.id, note.rank) for note in notifications]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flats.hub"


@pytest.fixture
def opened(path):
    """Opens the hub, as after the end of the process that had it open before."""
    hubs = []

    def opened(**options):
        for hub in hubs:
            crash(hub)
        hub = Hub(path=path, **{"clock": FakeClock(NOW), "sync": "normal", **options})
        hubs.append(hub)
        return hub

    yield opened
    for hub in hubs:
        crash(hub)


def crash(hub):
    """Leave the file as a killed process does: whatever has been written is there, and nothing is tidied up."""
    hub._journal.abandon()


def log_rows(hub):
    return list(hub._journal.log.rows(hub._journal.last - hub._journal.since))


class TestReopening:
    def test_subscribers_windows_and_numbers_are_there_again(self, opened):
        hub = opened()
        hub.subscribe("ana", {"x = 2": 1.0, "x = 1": 0.5}, deliver=Sliding(k=1, window=2))
        assert got(hub.publish({"x": 2})) == [("ana", "1", 1.0)]
        assert got(hub.publish({"x": 1})) == []
        subscribers = hub.subscribers
        hub = opened()
        assert hub.subscribers == subscribers
        assert got(hub.publish({"x": 1})) == [("ana", "2", 0.5)]
        assert got(hub.publish({"x": 2})) == [("ana", "4", 1.0)]

    def test_changes_and_ends_of_subscriptions_last(self, opened):
        hub = opened()
        for name in ("ana", "rui", "eva"):
            hub.subscribe(name, {"x > 0": 0.5, "x > 1": 1.0})
        hub.update("ana", subscriptions="x = 7", deliver=Continuous(3))
        hub.unsubscribe("rui")
        hub.unsubscribe("eva", "2")
        before = hub.subscribers
        hub = opened()
        assert hub.subscribers == before
        assert got(hub.publish(flat(1, x=7))) == [("ana", "1", 1.0), ("eva", "1", 0.5)]

    def test_an_identity_published_before_is_still_known(self, opened):
        hub = opened()
        hub.subscribe("all", "true")
        assert len(hub.publish(flat(1))) == 1
        with opened() as hub:
            assert hub.publish(flat(1)) == []
        assert opened().publish(flat(1)) == []

    def test_identities_are_forgotten_in_the_same_order(self, opened, monkeypatch):
        monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 2)
        hub = opened()
        hub.subscribe("all", "true")
        for number in (1, 2, 3):
            hub.publish(flat(number))
        hub.close()
        hub = opened()
        assert [len(hub.publish(flat(number))) for number in (2, 1, 2)] == [0, 1, 1]

    def test_what_is_kept_back_and_counted_as_late_is_there_again(self, opened):
        for ended in (crash, Hub.close):
            hub = opened(lateness=timedelta(seconds=5))
            hub.subscribe(ended.__name__, "true")
            for number, seconds in ((1, 20), (2, 17), (3, 9)):
                hub.publish(Event(f"{number} {ended.__name__}", "/s", time=at(seconds)), now=at(20))
            ended(hub)
        hub = opened(lateness=timedelta(seconds=5))
        assert hub.late_count == 2
        assert [note.event.id for note in hub.advance(at(23)) if note.subscriber == "close"] == ["2 close", "2 crash"]
        assert len(hub.finish()) == 4

    def test_numbers_go_on_where_they_were_even_past_ids_that_are_forgotten(self, opened, monkeypatch):
        monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 2)
        hub = opened()
        hub.subscribe("all", "true")
        assert [hub.publish(event)[0].event.id for event in ({"id": "2"}, {}, {})] == ["2", "1", "3"]
        assert opened().publish({})[0].event.id == "4"

    @pytest.mark.parametrize("ended", [crash, Hub.close])
    def test_what_falls_due_while_the_hub_is_closed_is_delivered_with_its_instant(self, opened, ended):
        hub = opened()
        hub.subscribe("period", "true", deliver=Periodic(k=1, period=timedelta(seconds=10)))
        hub.subscribe("window", {"x = 1": 1.0, "x = 0": 0.5}, deliver=TopKWindow(k=1, window=timedelta(seconds=20)))
        assert got(hub.publish(flat(1, x=1))) == [("window", "1", 1.0)]
        assert hub.publish(flat(2, x=0), now=at(5)) == []
        ended(hub)
        notifications = opened(clock=FakeClock(at(3600))).advance()
        assert [(*one, note.time) for one, note in zip(got(notifications), notifications, strict=True)] == [
            ("period", "2", 1.0, at(10)),
            ("window", "2", 0.5, at(20)),
        ]

    def test_a_log_is_applied_with_the_times_it_was_written_at(self, opened):
        hub = opened(clock=FakeClock(at(0)))
        hub.subscribe("all", "true", deliver=TopKWindow(k=1, window=timedelta(seconds=10)))
        hub.publish({"x": 1})
        hub = opened(clock=FakeClock(at(5)))
        assert hub.recovered[0].time == at(0)
        (note,) = hub.publish({"x": 2})
        assert (note.event.id, note.time, note.event.time) == ("2", at(5), at(5))

    def test_events_keep_their_types(self, opened):
        schema = Schema({"rent": ValueType.FLOAT, "posted": ValueType.TIME})
        hub = opened(schema=schema)
        hub.subscribe("ana", "posted < time '2026-01-02' and rent > 1", deliver=Periodic(1, timedelta(hours=1)))
        hub.publish({"rent": 700, "posted": "2026-01-01", "tags": ("a", NOW)})
        (note,) = opened(schema=schema).finish()
        assert note.event.data == {"rent": 700, "posted": "2026-01-01", "tags": ("a", NOW)}
        assert (type(note.event.attributes["rent"]), note.event.attributes["posted"]) == (float, NOW)

    def test_given_subscribers_are_added_once_and_updated_when_they_differ(self, opened):
        first = opened(subscribers=[Subscriber("ana"), Subscriber("rui")])
        assert len(log_rows(first)) == 2
        again = opened(subscribers=[Subscriber("ana", deliver=Continuous(1)), Subscriber("rui"), Subscriber("eva")])
        assert [(one.id, one.deliver) for one in again.subscribers] == [
            ("ana", Continuous(1)),
            ("rui", AllMatches()),
            ("eva", AllMatches()),
        ]
        assert [row.kind for row in log_rows(again)[2:]] == ["update", "subscribe"]

    def test_callbacks_are_given_anew(self, opened):
        hub = opened()
        hub.subscribe("ana", "true", callback=(first := []).append)
        hub.publish(flat(1))
        hub = opened()
        hub.publish(flat(2))
        hub.listen("ana", (second := []).append)
        hub.publish(flat(3))
        hub.listen("ana", None)
        hub.publish(flat(4))
        assert [[note.event.id for note in calls] for calls in (first, second)] == [["1"], ["3"]]


class TestSnapshots:
    def test_they_replace_the_inputs_before_them(self, opened):
        hub = opened(snapshot_every=3)
        hub.subscribe("ana", "true", deliver=Sliding(1, 5))
        for number in range(7):
            hub.publish(flat(number))
        assert [row.number for row in log_rows(hub)] == [7, 8]
        hub = opened()
        assert hub.publish(flat(6)) == []

    def test_closing_writes_one(self, opened, path):
        with opened() as hub:
            hub.subscribe("ana", "true")
        hub = opened()
        assert (log_rows(hub), len(hub.subscribers)) == ([], 1)
        assert hub.recovered == ()

    def test_there_are_no_more_of_them_than_inputs_per_subscriber(self, opened):
        hub = opened(snapshot_every=1, subscribers=[Subscriber(str(number)) for number in range(5)])
        hub.publish(flat(0))
        for number in range(1, 5):
            hub.publish(flat(number))
        assert len(log_rows(hub)) == 5


class TestWhatIsInDoubt:
    def test_the_last_call_is_since_nothing_shows_that_it_was_received(self, opened):
        hub = opened()
        hub.subscribe("ana", "true")
        for number in (1, 2):
            hub.publish(flat(number))
        hub = opened()
        assert got(hub.recovered) == [("ana", "2", 1.0)]
        assert hub.publish(flat(2)) == []

    def test_it_stays_so_until_the_next_input(self, opened):
        hub = opened()
        hub.subscribe("ana", "true")
        hub.publish(flat(1))
        assert [len(opened().recovered) for _ in range(3)] == [1, 1, 1]
        opened().close()
        hub = opened()
        assert len(hub.recovered) == 1
        hub.advance()
        assert opened().recovered == ()

    def test_an_application_that_closes_has_received_everything(self, opened):
        hub = opened()
        hub.subscribe("ana", "true")
        hub.publish(flat(1))
        hub.close()
        assert opened().recovered == ()

    def test_a_call_whose_callbacks_are_running_is_whatever_other_calls_do(self, opened):
        hub = opened(snapshot_every=4)
        entered, leave = Signal(), Signal()

        def wait(note):
            entered.set()
            leave.wait(10)

        hub.subscribe("slow", "x = 1", callback=wait)
        hub.subscribe("fast", "x = 2")
        thread = Thread(target=lambda: hub.publish(flat(1, x=1)))
        thread.start()
        assert entered.wait(10)
        for number in range(2, 9):  # far enough for a snapshot, which has to carry what is in doubt
            hub.publish(flat(number, x=2))
        again = Hub(path=copied(hub), clock=FakeClock(NOW))
        leave.set()
        thread.join()
        assert got(again.recovered) == [("slow", "1", 1.0), ("fast", "8", 1.0)]
        again.close()
        hub.publish(flat(9, x=2))
        assert got(opened().recovered) == [("fast", "9", 1.0)]

    def test_a_call_that_was_interrupted_is_even_after_closing(self, opened):
        def interrupt(note):
            raise KeyboardInterrupt

        hub = opened()
        hub.subscribe("ana", "x = 1", callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            hub.publish(flat(1, x=1))
        hub.publish(flat(2, x=0))
        hub.close()
        assert got(opened().recovered) == [("ana", "1", 1.0)]

    def test_a_callback_that_fails_hands_its_notification_to_the_caller(self, opened):
        def fail(note):
            raise ValueError("no")

        hub = opened()
        hub.subscribe("ana", "true", callback=fail)
        with pytest.raises(CallbackError):
            hub.publish(flat(1))
        hub.close()
        assert opened().recovered == ()


def copied(hub):
    """A copy of the files as they are, which is what a killed process would leave."""
    log = hub._journal.log
    copy = log.path.with_name("copy.hub")
    for suffix in ("", "-wal"):
        code = "import shutil, sys; shutil.copyfile(*sys.argv[1:])"  # elsewhere: closing a file here would unlock it
        subprocess.run([sys.executable, "-c", code, f"{log.path}{suffix}", f"{copy}{suffix}"], check=True)
    return copy


class TestFailures:
    def test_a_full_disk_fails_the_call_and_changes_nothing(self, opened):
        hub = opened()
        hub.subscribe("ana", {"x > 1": 1.0, "x > 0": 0.5}, deliver=Continuous(1))
        connection = hub._journal.log._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        before = hub.subscribers
        with pytest.raises(HubLogError, match="disk is full; nothing was changed"):
            hub.publish({"x": 2, "text": "x" * 50_000})
        with pytest.raises(HubLogError, match="disk is full"):
            hub.update("ana", subscriptions="x in (" + ", ".join(map(str, range(9_000))) + ")")
        assert hub.subscribers == before
        connection.execute("PRAGMA max_page_count = 1000000")
        assert got(hub.publish({"x": 1})) == [("ana", "1", 0.5)]
        assert got(opened().recovered) == [("ana", "1", 0.5)]

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            (lambda hub: hub.publish({"x": {1, 2}}), InvalidEventError),
            (lambda hub: hub.publish({"x": [{1, 2}]}), InvalidEventError),
            (lambda hub: hub.publish({"x": [10**5000]}), InvalidEventError),
            (lambda hub: hub.publish({"x": [BEYOND_UTC]}), InvalidEventError),
            (lambda hub: hub.advance(NOW.replace(tzinfo=None)), InvalidValueError),
            (lambda hub: hub.subscribe("ana", "true"), DuplicateIdError),
            (lambda hub: hub.update("ana", priorities=["1 before 2", "2 before 1"]), PriorityCycleError),
        ],
    )
    def test_a_call_that_is_refused_is_not_in_the_log(self, opened, wrong, error):
        hub = opened()
        hub.subscribe("ana", ["x = 1", "true"])
        before = log_rows(hub)
        with pytest.raises(error):
            wrong(hub)
        assert log_rows(hub) == before
        assert got(hub.publish({"x": 1})) == [("ana", "1", 1.0)]

    def test_a_closed_hub_refuses_changes_and_still_answers(self, opened):
        hub = opened()
        hub.subscribe("ana", "true")
        hub.close()
        hub.close()
        with pytest.raises(HubLogError, match="the hub is closed"):
            hub.publish({"x": 1})
        assert hub.explain({"x": 1}, "ana").delivered

    def test_one_file_is_one_hub(self, path):
        with Hub(path=path), pytest.raises(InvalidFileError, match="is in use"):
            Hub(path=path)

    def test_another_schema_is_refused_and_the_file_freed(self, path):
        Hub(path=path, schema=Schema({"x": ValueType.INT})).close()
        with pytest.raises(InvalidFileError, match="another schema"):
            Hub(path=path)
        Hub(path=path, schema=Schema({"x": ValueType.INT})).close()

    def test_another_lateness_is_refused_and_the_file_freed(self, path):
        Hub(path=path, lateness=timedelta(seconds=5)).close()
        for other in (None, timedelta(0)):
            with pytest.raises(InvalidFileError, match="another lateness"):
                Hub(path=path, lateness=other)
        Hub(path=path, lateness=timedelta(seconds=5)).close()

    def test_a_log_that_cannot_be_understood_is_refused_and_the_file_freed(self, opened, path):
        hub = opened()
        hub.subscribe("ana", "true")
        hub._journal.log.append([log_rows(hub)[0]._replace(number=2, kind="resubscribe")])
        for _ in range(2):
            with pytest.raises(InvalidFileError, match=r"flats\.hub: is damaged after input 1: .*'resubscribe'"):
                opened()

    def test_bad_subscribers_at_the_start_free_the_file(self, path):
        with pytest.raises(DuplicateIdError):
            Hub([Subscriber("ana"), Subscriber("ana")], path=path)
        with Hub(path=path) as hub:
            assert hub.subscribers == ()

    @pytest.mark.parametrize("options", [{"sync": "half"}, {"snapshot_every": 0}, {"snapshot_every": "often"}])
    def test_options_are_checked(self, path, options):
        with pytest.raises(InvalidValueError, match=next(iter(options))):
            Hub(path=path, **options)
        assert not path.exists()

    def test_an_interrupt_between_writing_and_applying_asks_for_reopening(self, opened, monkeypatch):
        hub = opened()
        hub.subscribe("ana", "true")

        def interrupted(command):
            raise KeyboardInterrupt

        monkeypatch.setattr(hub._core, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hub.publish(flat(1))
        with pytest.raises(HubLogError, match="closed"):
            hub.publish(flat(2))
        hub = opened()
        assert got(hub.recovered) == [("ana", "1", 1.0)]
        assert hub.publish(flat(1)) == []


def test_without_a_path_there_is_nothing_to_close_or_recover():
    with Hub() as hub:
        hub.subscribe("ana", "true")
    assert hub.recovered == ()
    assert len(hub.publish({"x": 1})) == 1


POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 2)),
    st.builds(Periodic, st.integers(1, 2), st.just(timedelta(seconds=3))),
    st.builds(Sliding, st.integers(1, 2), st.integers(1, 4)),
    st.builds(TopKWindow, st.integers(1, 2), st.integers(1, 4) | st.just(timedelta(seconds=3))),
)
NAMES = st.sampled_from(["ana", "rui"])
RANKS = st.sampled_from([{"x >= 0": 0.5}, {"x > 1": 1.0, "x > 0": 0.4, "true": 0.1}, {"x = 2": 0.3}])
WAYS = st.sampled_from([AT_ONCE, OnDemand(), Gathered(timedelta(seconds=2)), Gathered(timedelta(seconds=5))])
PUBLICATIONS = st.tuples(
    st.just("publish"),
    st.none() | st.integers(0, 9),
    st.integers(0, 3),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(-1, 4),
)
STEPS = st.one_of(
    PUBLICATIONS,
    PUBLICATIONS,
    st.tuples(st.just("wait"), st.integers(1, 4)),
    st.tuples(st.just("subscribe"), NAMES, RANKS, POLICIES),
    st.tuples(st.just("update"), NAMES, RANKS, st.none() | POLICIES),
    st.tuples(st.just("notify"), NAMES, WAYS),
    st.tuples(st.just("own"), NAMES, POLICIES),
    st.tuples(st.just("decay"), NAMES, st.none() | st.just(Decay(timedelta(seconds=2)))),
    st.tuples(st.just("unsubscribe"), NAMES),
    st.tuples(st.just("advance")),
    st.tuples(st.just("finish")),
    st.tuples(st.just("reopen"), st.sampled_from([crash, Hub.close])),
)


def taken(hub, clock, step):
    """Take a step and return what it delivers; a step that is refused delivers the name of its error."""
    try:
        match step:
            case ("publish", name, x, lifetime, age):
                envelope = {} if lifetime is None else {"expirytime": clock() + timedelta(seconds=lifetime)}
                envelope |= {} if age is None else {"time": clock() - timedelta(seconds=age)}
                envelope |= {} if name is None else {"id": str(name)}
                return hub.publish({"x": x, **envelope}, now=None if x else clock())
            case ("subscribe", name, ranks, policy):
                hub.subscribe(name, ranks, deliver=policy)
            case ("update", name, ranks, policy):
                hub.update(name, subscriptions=ranks, deliver=policy)
            case ("notify", name, notify):
                hub.update(name, notify=notify)
            case ("own", name, policy):
                hub.update(name, subscriptions=[Subscription("own", parse_filter("x > 0"), deliver=policy)])
            case ("decay", name, decay):
                hub.update(name, decay=decay)
            case ("unsubscribe", name):
                hub.unsubscribe(name)
            case ("advance",):
                return hub.advance()
            case ("finish",):
                return hub.finish()
    except rankcast.RankcastError as error:
        return type(error).__name__
    return []


def explained(hub):
    readable = [
        (one.id, name) for one in hub.subscribers for name, policy in one.policies.items() if policy != AllMatches()
    ]
    return [hub.read(*names) for names in readable] + [
        (subscriber.id, x, str(hub.explain({"x": x}, subscriber.id))) for subscriber in hub.subscribers for x in (0, 2)
    ]


@given(notified_subscribers(), st.sampled_from([Subscribe, Update]))
def test_every_subscriber_can_be_written_down(subscriber, kind):
    codec = Codec(None)
    command = kind(subscriber)
    again = codec.command(codec.row(1, command, ()))
    assert again == command
    assert [one.filter.expression for one in again.subscriber.subscriptions] == [
        one.filter.expression for one in subscriber.subscriptions
    ]


def test_relevance_refresh_and_decay_last(opened):
    ideal = Subscription("near", parse_filter("true"), relevance=IdealPoint([Target("x", 5)], reach=10))
    soon = Subscription("soon", parse_filter("x > 0"), rank=0.5, refresh=timedelta(seconds=2))
    ana = Subscriber("ana", (ideal,), TopKWindow(1, timedelta(seconds=9)), decay=Decay(timedelta(seconds=5)))
    hub, other = opened(subscribers=[ana, Subscriber("rui", (soon,), Continuous(1))]), Hub(clock=FakeClock(NOW))
    for subscriber in hub.subscribers:
        other.add(subscriber)
    for number, x in enumerate((5, 1, 4, 0, 6, 2)):
        assert hub.publish(flat(number, x=x), now=at(number)) == other.publish(flat(number, x=x), now=at(number))
        hub = opened()
        assert hub.subscribers == other.subscribers
    assert got(hub.finish()) == got(other.finish())


FILES = count()


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=25), every=st.integers(1, 6), lateness=st.none() | st.integers(0, 3))
def test_a_hub_that_is_reopened_does_what_one_that_never_ended_does(tmp_path_factory, steps, every, lateness):
    path = tmp_path_factory.getbasetemp() / f"random-{next(FILES)}.hub"
    clock = FakeClock(NOW)
    allowed = None if lateness is None else timedelta(seconds=lateness)

    def opened():
        return Hub(path=path, clock=clock, sync="normal", snapshot_every=every, lateness=allowed)

    durable, other = opened(), Hub(clock=clock, lateness=allowed)
    for hub in (durable, other):
        hub.subscribe("eva", {"x > 1": 1.0, "true": 0.5}, deliver=TopKWindow(1, timedelta(seconds=3)))
    for step in steps:
        if step[0] == "reopen":
            step[1](durable)
            durable = opened()
        elif step[0] == "wait":
            clock.advance(timedelta(seconds=step[1]))
        else:
            assert taken(durable, clock, step) == taken(other, clock, step)
        assert durable.subscribers == other.subscribers
        assert explained(durable) == explained(other)
        assert durable.late_count == other.late_count
    durable.close()


CHILD = Path(durable_publisher.__file__)
EVENTS = 150


def killed(path, first, lines, sync, lateness):
    """Let a child publish from a number on and kill it once it has printed so many lines; return all it printed."""
    with subprocess.Popen(
        [sys.executable, CHILD, path, sync, str(lateness), str(first), str(EVENTS)], stdout=subprocess.PIPE, text=True
    ) as child:
        printed = list(islice(child.stdout, lines))
        child.kill()
        printed += child.stdout
    return [json.loads(line) for line in printed if line.endswith("\n")]


@pytest.mark.parametrize("lateness", [None, 3])
def test_killed_at_any_moment_a_hub_loses_nothing_and_delivers_nothing_twice(path, lateness):
    """The publisher starts again with the first event that was not acknowledged to it, as any publisher would.

    With a lateness of three seconds some events wait when the process ends, and some come too late.
    """
    allowed = durable_publisher.allowed(str(lateness))
    with Hub(lateness=allowed) as other:
        subscribe(other)
        expected = [note for number in range(EVENTS) for note in plain(publish(other, number))] + plain(other.finish())
        late = other.late_count
    chance = random.Random(17)
    delivered, first = [[]], 0
    for sync in ("full", "normal", "full", "normal"):
        begun, *calls = killed(path, first, 1 + chance.randrange(30), sync, lateness)
        assert_only_the_last_call_is_in_doubt(begun["recovered"], delivered)
        delivered += [begun["recovered"]] * (begun["recovered"] != delivered[-1])
        for call in calls:
            assert call["published"] == first
            delivered.append(call["notifications"])
            first += 1
    with Hub(path=path, sync="normal", lateness=allowed) as hub:
        recovered = plain(hub.recovered)
        assert_only_the_last_call_is_in_doubt(recovered, delivered)
        delivered += [recovered] * (recovered != delivered[-1])
        delivered += [plain(publish(hub, number)) for number in range(first, EVENTS)]
        delivered.append(plain(hub.finish()))
        assert hub.late_count >= late
    assert first > 4
    assert bool(late) == (lateness is not None)
    assert [note for notifications in delivered for note in notifications] == expected


def assert_only_the_last_call_is_in_doubt(recovered, delivered):
    """What is recovered is what the last call printed, or nothing of it was ever printed."""
    printed = {json.dumps(note) for notifications in delivered for note in notifications}
    assert recovered == delivered[-1] or not printed & set(map(json.dumps, recovered))
