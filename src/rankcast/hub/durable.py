"""The journal of a durable hub: commands and states to and from the rows of a log file.

An input is in the log before anything of it happens: after a crash it is left out or all there. Reopening takes the
last snapshot and applies the inputs after it with the `now` they had then; callbacks are not called again.

Every input also names the earlier ones that were *open* when it was written: their calls had not handed over their
notifications yet. So after a crash the inputs in doubt are known without a second write per call: the last one, and
those that it names as open. Their notifications are `recovered`; all others were handed over. A snapshot carries the
notifications of the inputs that are open, because it replaces those inputs.

Snapshots are written every so many inputs, and at least as many as there are subscribers, so that their cost per input
stays bounded; and on closing.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rankcast.delivery.rules.snapshots import restored, snapshot
from rankcast.delivery.stream.lateness import PendingEvent, ReorderingState
from rankcast.hub.commands import (
    Advance,
    Command,
    Finish,
    HubState,
    Publish,
    PublishMany,
    Subscribe,
    Unsubscribe,
    Update,
)
from rankcast.hub.core import Core
from rankcast.hub.engine import SNAPSHOT_EVERY
from rankcast.hub.results import Match, Notification
from rankcast.matching.index import Run
from rankcast.model.errors import (
    InvalidEventError,
    InvalidFileError,
    InvalidSubscriptionError,
    InvalidValueError,
    RankcastError,
    shown,
)
from rankcast.model.events import Event, Identity
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.model.times import format_time, parse_time
from rankcast.serving.subscriber_state import QueueState, SubscriberRecord
from rankcast.storage.durations import format_duration
from rankcast.storage.events.typed import event_from_record, event_to_record
from rankcast.storage.hub_log import HubLog, HubLogError, Row, Snapshot, Sync
from rankcast.storage.subscribers.files import subscribers_from_document, subscribers_to_document
from rankcast.storage.text_files import invalid_file


@dataclass(slots=True)
class FileJournal:
    """A journal in a log file. Calls must not overlap; the hub's lock sees to that."""

    log: HubLog
    codec: Codec
    every: int
    lateness: timedelta | None = None
    last: int = 0
    since: int = 0
    opened_at: int = 0
    members: int = 0
    restored: bool = False
    unsettled: dict[int, list[Notification]] = field(default_factory=dict)

    @staticmethod
    def opened(
        path: str | os.PathLike[str],
        schema: Schema | None,
        sync: Sync | str = Sync.FULL,
        every: int = SNAPSHOT_EVERY,
        lateness: timedelta | None = None,
    ) -> FileJournal:
        """Open or make the file of a hub; a file that was made under another schema or lateness is refused."""
        if sync not in (*Sync, *(kind.value for kind in Sync)):
            raise InvalidValueError(f"sync: {shown(sync)} is not one of {', '.join(kind.value for kind in Sync)}")
        if not _is_count(every):
            raise InvalidValueError(f"snapshot_every: {shown(every)} is not a whole number of at least 1")
        stated = {"schema": json.dumps(_schema_document(schema), sort_keys=True), "lateness": _shown_lateness(lateness)}
        log = HubLog.open(path, about=stated, sync=Sync(sync))
        for name, value in stated.items():
            if log.about.get(name) != value:
                log.close()
                raise invalid_file(str(log.path), None, f"belongs to a hub with another {name}")
        return FileJournal(log, Codec(schema), every, lateness)

    def restore(self, run: Run | None = None, kernels: bool | None = None) -> tuple[Core, tuple[Notification, ...]]:
        """Start from the state that was kept and apply the commands after it; return what is in doubt too."""
        try:
            return self._restored(run, kernels)
        except (RankcastError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, InvalidFileError):
                raise
            raise invalid_file(str(self.log.path), None, f"is damaged after input {self.last}: {error}") from error
        finally:
            if not self.restored:
                self.abandon()

    def _restored(self, run: Run | None, kernels: bool | None) -> tuple[Core, tuple[Notification, ...]]:
        kept = self.log.snapshot()
        state = HubState()
        given: dict[int, list[Notification]] = {}
        if kept is not None:
            self.last = kept.number
            state, given = self.codec.state(kept.body)
        core = Core(state, self.lateness, run, kernels)
        for row in self.log.rows(self.last):
            given = {number: given[number] for number in row.open}
            given[row.number] = core.apply(self.codec.command(row)).delivered
            self.last = row.number
            self.since += 1
        self.opened_at = self.last
        self.restored = True
        return core, tuple(note for number in sorted(given) for note in given[number])

    @property
    def wants_state(self) -> bool:
        """Whether so many inputs have come since the last snapshot that it is time for another."""
        return self.since >= max(self.every, self.members)

    def keep_state(self, state: HubState) -> None:
        """Write a snapshot and drop the inputs before it."""
        self._check_open()
        self.log.replace(Snapshot(self.last, self.codec.body(state, self.unsettled)))
        self.since, self.members = 0, len(state.subscribers)

    def check(self, command: Publish) -> None:
        """Raise InvalidEventError for an event that cannot be written down."""
        self.codec.row(0, command, ())

    def record(self, *commands: Command) -> int:
        """Write commands to the log, all or none; return the number of the last one."""
        self._check_open()
        unsettled = tuple(sorted(self.unsettled))
        self.log.append(
            self.codec.row(number, command, unsettled) for number, command in enumerate(commands, start=self.last + 1)
        )
        self.last += len(commands)
        self.since += len(commands)
        return self.last

    def applied(self, number: int, notifications: list[Notification]) -> None:
        """Hold on to what a command gave until it is settled; nothing needs no settling."""
        if notifications:
            self.unsettled[number] = notifications

    def settle(self, number: int) -> None:
        """Forget what a command gave: the call has handed it over."""
        self.unsettled.pop(number, None)

    def abandon(self) -> None:
        """Close without a snapshot."""
        self.log.close()

    def close(self, state: HubState) -> None:
        """Write a snapshot if there were inputs since the file was opened, and close.

        A file that an error of the disk has closed is left as it is.
        """
        if not self.log.is_open:
            return
        try:
            if self.last > self.opened_at:
                self.keep_state(state)
        finally:
            self.abandon()

    def _check_open(self) -> None:
        if not self.log.is_open:
            raise HubLogError(f"{self.log.path}: the hub is closed")


@dataclass(frozen=True, slots=True)
class Codec:
    """Commands and states as JSON, and back, under the schema of a hub."""

    schema: Schema | None

    def row(self, number: int, command: Command, unsettled: tuple[int, ...]) -> Row:
        """Return a command as a row of the log; raise InvalidEventError for a payload that cannot be stored."""
        now: datetime | None = None
        body: dict[str, Any] = {}
        match command:
            case Publish(now=now):
                body = _publish_record(command)
            case PublishMany(publishes=publishes):
                body = {"events": [{**_publish_record(one), "now": format_time(one.now)} for one in publishes]}
            case Subscribe(subscriber=subscriber) | Update(subscriber=subscriber):
                body = subscribers_to_document([subscriber])
            case Unsubscribe(subscriber=name):
                body = {"id": name}
            case Advance(now=now):
                pass
        try:
            text = json.dumps(body, separators=(",", ":"))
        except ValueError as error:  # an integer in a list that is too long to be written
            raise InvalidEventError(f"data: cannot be stored: {error}") from None
        return Row(number, now, type(command).__name__.lower(), unsettled, text)

    def command(self, row: Row) -> Command:
        """Return the command of a row."""
        body = json.loads(row.body)
        match row.kind, row.now:
            case "publish", datetime() as now:
                return self._publish(body, now)
            case "publishmany", None:
                return PublishMany(tuple(self._publish(one, parse_time(one["now"])) for one in body["events"]))
            case "subscribe", None:
                return Subscribe(*self._subscribers(body))
            case "update", None:
                return Update(*self._subscribers(body))
            case "unsubscribe", None:
                return Unsubscribe(SubscriberId(body["id"]))
            case "advance", datetime() as now:
                return Advance(now)
            case "finish", None:
                return Finish()
        raise InvalidSubscriptionError(f"there is no input {row.kind!r} with the time {row.now}")

    def body(self, state: HubState, unsettled: Mapping[int, list[Notification]]) -> bytes:
        """Return a state, and the notifications of open inputs, as the body of a snapshot. Events are stored once."""
        events: dict[int, int] = {}
        records: list[dict[str, Any]] = []

        def place(event: Event) -> int:
            if id(event) not in events:
                events[id(event)] = len(records)
                records.append(event_to_record(event))
            return events[id(event)]

        def written(one: Notification) -> tuple[Any, ...]:
            gathered = None if one.gathered is None else format_time(one.gathered)
            return (
                one.subscriber,
                place(one.event),
                one.rank,
                one.matched,
                format_time(one.time),
                one.subscription,
                gathered,
            )

        document = {
            "latest": format_time(state.latest),
            "next_id": state.next_id,
            "seen": [(*identity, format_time(time)) for identity, time in state.seen],
            "late": state.late,
            "watermark": format_time(state.waiting.watermark),
            "waiting": [(format_time(one.time), place(one.item)) for one in state.waiting.waiting],
            "subscribers": subscribers_to_document(record.subscriber for record in state.subscribers),
            "queues": [
                [
                    (
                        one.subscription,
                        base64.b64encode(snapshot(one.queue)).decode("ascii"),
                        [(place(match.event), match.rank, match.matched) for match in one.held],
                    )
                    for one in record.queues
                ]
                for record in state.subscribers
            ],
            "gathered": [[written(note) for note in record.gathered] for record in state.subscribers],
            "open": {number: [written(note) for note in notes] for number, notes in unsettled.items()},
            "events": records,
        }
        return json.dumps(document, separators=(",", ":")).encode("ascii")

    def state(self, body: bytes) -> tuple[HubState, dict[int, list[Notification]]]:
        """Return the state of a snapshot and the notifications of the inputs that were open."""
        document = json.loads(body)
        events = [self._event(record) for record in document["events"]]
        records = [
            SubscriberRecord(
                subscriber,
                tuple(_queue(subscriber, events, *queue) for queue in queues),
                tuple(_notification(events, *note) for note in gathered),
            )
            for subscriber, queues, gathered in zip(
                self._subscribers(document["subscribers"]), document["queues"], document["gathered"], strict=True
            )
        ]
        unsettled = {
            int(number): [_notification(events, *note) for note in notes] for number, notes in document["open"].items()
        }
        waiting = (PendingEvent(parse_time(time), events[at].identity, events[at]) for time, at in document["waiting"])
        state = HubState(
            parse_time(document["latest"]),
            document["next_id"],
            tuple((Identity(source, name), parse_time(time)) for source, name, time in document["seen"]),
            tuple(records),
            ReorderingState(parse_time(document["watermark"]), tuple(waiting)),
            document["late"],
        )
        return state, unsettled

    def _publish(self, record: Mapping[str, Any], now: datetime) -> Publish:
        return Publish(self._event(record), now, record["closed"], record["next_id"])

    def _event(self, record: Mapping[str, Any]) -> Event:
        event = event_from_record(record)
        return event if self.schema is None else event.conformed(self.schema)

    def _subscribers(self, document: dict[str, Any]) -> tuple[Subscriber, ...]:
        declared = {} if self.schema is None else {"schema": _schema_document(self.schema)}
        found = subscribers_from_document({**document, **declared})
        problems = [problem.message for problem in found.problems if not problem.warning]
        if problems:
            raise InvalidSubscriptionError(problems[0])
        return found.subscribers


def _publish_record(command: Publish) -> dict[str, Any]:
    return {**event_to_record(command.event), "closed": command.closed, "next_id": command.next_id}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def _schema_document(schema: Schema | None) -> dict[str, Any] | None:
    return None if schema is None else dict(subscribers_to_document((), schema)["schema"])


def _shown_lateness(lateness: timedelta | None) -> str:
    return "none" if lateness is None else format_duration(lateness)


def _queue(
    subscriber: Subscriber, events: list[Event], subscription: str | None, queue: str, held: list[Any]
) -> QueueState:
    name = None if subscription is None else SubscriptionId(subscription)
    matches = (Match(subscriber.id, events[at], rank, _ids(matched), name) for at, rank, matched in held)
    return QueueState(name, restored(_decoded(queue)), tuple(matches))


def _notification(
    events: list[Event],
    subscriber: str,
    at: int,
    rank: float,
    matched: list[str],
    time: str,
    subscription: str | None,
    gathered: str | None,
) -> Notification:
    return Notification(
        SubscriberId(subscriber),
        events[at],
        rank,
        _ids(matched),
        parse_time(time),
        None if subscription is None else SubscriptionId(subscription),
        None if gathered is None else parse_time(gathered),
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidSubscriptionError(f"the state of a queue is not base64: {error}") from None


def _ids(names: Iterable[str]) -> tuple[SubscriptionId, ...]:
    return tuple(map(SubscriptionId, names))
