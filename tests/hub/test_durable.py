"""A hub with a path: killed at any moment and opened again, it goes on; full disks, bad calls, other files."""

import json
import re
import resource
from datetime import timedelta
from threading import Event as Signal
from threading import Thread

import pytest

import rankcast.hub.core
from hub_builders import BEYOND_UTC, NOW, copied, flat, got, log_rows
from rankcast.hub import CallbackError, Hub, HubLogError
from rankcast.model.errors import (
    DuplicateIdError,
    InvalidEventError,
    InvalidFileError,
    InvalidValueError,
    PriorityCycleError,
)
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.model.values import ValueType
from rankcast.testing.clock import FakeClock


class TestReopening:
    def test_many_events_of_one_time_that_came_in_another_order_than_their_ids(self, path):
        with Hub(path=path, clock=FakeClock(NOW)) as hub:
            hub.subscribe("ana", "true", deliver=Sliding(20, 20))
            for name in "azyxwvutsrqponm":
                hub.publish({"id": name}, now=NOW)
            before = hub.read("ana", now=NOW)
        with Hub(path=path, clock=FakeClock(NOW)) as hub:
            assert hub.read("ana", now=NOW) == before
        assert [note.event.id for note in before] == sorted("azyxwvutsrqponm")

    def test_identities_are_forgotten_in_the_same_order(self, opened, monkeypatch):
        monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 2)
        hub = opened()
        hub.subscribe("all", "true")
        for number in (1, 2, 3):
            hub.publish(flat(number))
        hub.close()
        hub = opened()
        assert [len(hub.publish(flat(number))) for number in (2, 1, 2)] == [0, 1, 1]

    def test_numbers_go_on_where_they_were_even_past_ids_that_are_forgotten(self, opened, monkeypatch):
        monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 2)
        hub = opened()
        hub.subscribe("all", "true")
        assert [hub.publish(event)[0].event.id for event in ({"id": "2"}, {}, {})] == ["2", "1", "3"]
        assert opened().publish({})[0].event.id == "4"

    def test_events_keep_their_types(self, opened):
        schema = Schema({"rent": ValueType.FLOAT, "posted": ValueType.TIME})
        hub = opened(schema=schema)
        hub.subscribe("ana", "posted < time '2026-01-02' and rent > 1", deliver=Periodic(1, timedelta(hours=1)))
        hub.publish({"rent": 700, "posted": "2026-01-01", "tags": ("a", "b"), "seen": [NOW]})
        (note,) = opened(schema=schema).finish()
        assert note.event.data == {"rent": 700, "posted": "2026-01-01", "tags": ("a", "b"), "seen": [NOW]}
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
        assert [json.loads(row.body)["is"] for row in log_rows(again)[2:]] == ["ChangeSubscriber", "AddSubscriber"]

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
        assert hub.recovered == ()
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


def test_without_a_path_there_is_nothing_to_close_or_recover():
    with Hub() as hub:
        hub.subscribe("ana", "true")
    assert hub.recovered == ()
    assert len(hub.publish({"x": 1})) == 1


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

    def test_an_error_of_the_disk_closes_the_hub_and_leaves_nothing_to_do_but_to_reopen_it(self, opened):
        hub = opened()
        hub.subscribe("ana", "x > 0")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
        try:
            with pytest.raises(HubLogError, match="disk I/O error; the hub is closed"):
                hub.publish({"x": 2, "text": "x" * 100_000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        with pytest.raises(HubLogError, match="the hub is closed"):
            hub.publish({"x": 1})
        hub.close()
        again = opened()
        assert [subscriber.id for subscriber in again.subscribers] == ["ana"]
        assert got(again.publish({"x": 1})) == [("ana", "1", 1.0)]

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
        hub._journal.log.append([log_rows(hub)[0]._replace(number=2, body='{"is":"Resubscribe"}')])
        for _ in range(2):
            with pytest.raises(InvalidFileError, match=r"flats\.hub: is damaged after input 1: .*'Resubscribe'"):
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

    def test_other_calendars_than_those_it_was_written_with_are_logged_once(self, opened, monkeypatch, caplog):
        opened().close()
        opened().close()
        assert not caplog.records
        monkeypatch.setattr("rankcast.hub.durable.TZDATA_VERSION", "2099z")
        for _ in range(2):
            opened().close()
        (told,) = caplog.messages
        assert re.search(r"flats\.hub: its calendars were those of tzdata 20\d\d\w; from now on 2099z", told)

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
