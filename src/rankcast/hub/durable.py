"""The journal of a durable hub: commands and states to and from the rows of a log file.

An input is in the log before anything of it happens: after a crash it is left out or all there. Reopening takes the
last snapshot and applies the inputs after it with the `now` they had then; callbacks are not called again.

Every input also names the earlier ones that were *open* when it was written: their calls had not handed over their
notifications yet. So after a crash the inputs in doubt are known without a second write per call: the last one, and
those that it names as open. Their notifications are `recovered`; all others were handed over. A snapshot carries the
notifications of the inputs that are open, because it replaces those inputs.

Snapshots are written every so many inputs, and at least as many as there are subscribers, so that their cost per input
stays bounded; and on closing.

The file names the version of tzdata: inputs that are applied again under other calendars may end periods elsewhere, so
that is logged when the file is opened.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from datetime import timedelta

from msgspec.structs import replace

from rankcast.hub.core import Command, Core, HubState, PublishEvent, PublishEvents
from rankcast.hub.hub import SNAPSHOT_EVERY
from rankcast.language.lossless import decode, encode
from rankcast.matching.index import Run
from rankcast.model.advertisements import Advertisements
from rankcast.model.errors import (
    InvalidEventError,
    InvalidFileError,
    InvalidMessageError,
    InvalidValueError,
    RankcastError,
    shown,
)
from rankcast.model.periods import TZDATA_VERSION
from rankcast.model.schema import Schema
from rankcast.serving.results import Notification
from rankcast.storage.durations import format_duration
from rankcast.storage.hub_log import HubLog, HubLogError, LoggedState, Row, Sync
from rankcast.storage.text_files import invalid_file

ZONES = "tzdata"
"""What a file calls the version of the zones whose calendars it was last written with."""

log_of_hub = logging.getLogger("rankcast.hub")


@dataclass(slots=True)
class FileJournal:
    """A journal in a log file. Calls must not overlap; the hub's lock sees to that."""

    log: HubLog
    schema: Schema | None
    every: int
    lateness: timedelta | None = None
    last: int = 0
    since: int = 0
    opened_at: int = 0
    members: int = 0
    restored: bool = False
    unsettled: dict[int, list[Notification]] = field(default_factory=dict)

    @staticmethod
    def open(
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
        shown_lateness = "none" if lateness is None else format_duration(lateness)
        stated = {"schema": encode(schema, Schema | None).decode(), "lateness": shown_lateness}
        log = HubLog.open(path, about={**stated, ZONES: TZDATA_VERSION}, sync=Sync(sync))
        for name, value in stated.items():
            if log.about.get(name) != value:
                log.close()
                raise invalid_file(str(log.path), None, f"belongs to a hub with another {name}")
        if (before := log.about.get(ZONES)) != TZDATA_VERSION:
            log_of_hub.warning(
                "%s: its calendars were those of tzdata %s; from now on %s", path, before, TZDATA_VERSION
            )
            log.restate(ZONES, TZDATA_VERSION)
        return FileJournal(log, schema, every, lateness)

    def restore(self, run: Run | None = None, kernels: bool | None = None) -> tuple[Core, tuple[Notification, ...]]:
        """Start from the state that was kept and apply the commands after it; return what is in doubt too."""
        try:
            return self._replay(run, kernels)
        except (RankcastError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, InvalidFileError):
                raise
            raise invalid_file(str(self.log.path), None, f"is damaged after input {self.last}: {error}") from error
        finally:
            if not self.restored:
                self.abandon()

    def _replay(self, run: Run | None, kernels: bool | None) -> tuple[Core, tuple[Notification, ...]]:
        kept = self.log.snapshot()
        state = HubState()
        given: dict[int, list[Notification]] = {}
        if kept is not None:
            self.last = kept.number
            found: KeptState = decode(kept.body, KeptState, "the state", shared=True)
            state, given = found.state, dict(found.unsettled)
        core = Core(state, self.lateness, run, kernels)
        for row in self.log.rows(self.last):
            given = {number: given[number] for number in row.open}
            given[row.number] = core.apply(self._command(row, core.advertisements)).delivered
            self.last = row.number
            self.since += 1
        self.opened_at = self.last
        self.restored = True
        return core, tuple(note for number in sorted(given) for note in given[number])

    def _command(self, row: Row, advertisements: Advertisements) -> Command:
        """Return the command of a row; events conform to the schemas as they did when it was written."""
        command: Command = decode(row.body.encode(), Command, "the input")
        if isinstance(command, PublishEvent):
            return self._conform(command, advertisements)
        if isinstance(command, PublishEvents):
            return PublishEvents(tuple(self._conform(publish, advertisements) for publish in command.publishes))
        return command

    def _conform(self, publish: PublishEvent, advertisements: Advertisements) -> PublishEvent:
        event = publish.event if self.schema is None else publish.event.conformed(self.schema)
        if publish.advertisement is not None:
            event = event.conformed(advertisements[publish.advertisement].schema)
        return publish if event is publish.event else replace(publish, event=event)

    @property
    def wants_state(self) -> bool:
        """Whether so many inputs have come since the last snapshot that it is time for another."""
        return self.since >= max(self.every, self.members)

    def keep_state(self, state: HubState) -> None:
        """Write a snapshot and drop the inputs before it."""
        self._check_open()
        kept = KeptState(state, tuple(self.unsettled.items()))
        self.log.replace(LoggedState(self.last, encode(kept, KeptState, shared=True)))
        self.since, self.members = 0, len(state.subscribers)

    def check(self, command: PublishEvent) -> None:
        """Raise InvalidEventError for an event that cannot be written down."""
        _body(command)

    def record(self, *commands: Command) -> int:
        """Write commands to the log, all or none; return the number of the last one."""
        self._check_open()
        unsettled = tuple(sorted(self.unsettled))
        self.log.append(
            Row(number, unsettled, _body(command)) for number, command in enumerate(commands, start=self.last + 1)
        )
        self.last += len(commands)
        self.since += len(commands)
        return self.last

    def hold(self, number: int, notifications: list[Notification]) -> None:
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
class KeptState:
    """The body of a snapshot: a state, and the notifications of the inputs that were open, by their numbers."""

    state: HubState
    unsettled: tuple[tuple[int, list[Notification]], ...]


def _body(command: Command) -> str:
    """Return a command as text; raise InvalidEventError for a payload that cannot be written down."""
    try:
        return encode(command, Command).decode()
    except InvalidMessageError as error:
        raise InvalidEventError(str(error).removeprefix("event.")) from None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1
