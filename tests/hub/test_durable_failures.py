"""A durable hub when something goes wrong: full disks, bad calls, files that are not what they should be."""

import resource
from datetime import timedelta

import pytest

from hub_builders import BEYOND_UTC, NOW, flat, got, log_rows
from rankcast.hub import Hub, HubLogError
from rankcast.model.errors import (
    DuplicateIdError,
    InvalidEventError,
    InvalidFileError,
    InvalidValueError,
    PriorityCycleError,
)
from rankcast.model.policies import Continuous
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.model.values import ValueType


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
