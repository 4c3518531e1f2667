"""Notifications as JSON lines and as rows of a table.

One event is in many notifications, and most of a line is the event, so its text is made once; so are those of names and
times, which are in many lines too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar

from rankcast.cli.output.streams import is_utf8, json_text
from rankcast.cli.output.terminal import shown_attributes, shown_time
from rankcast.hub import Notification
from rankcast.model.cloudevents import event_to_json
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import format_time
from rankcast.model.values import AttributeValue

COLUMNS = {"Handed over (UTC)": "left", "Subscriber": "left", "Rank": "right", "Matched": "left", "Event": "rest"}


MOST_EVENTS = 4_096
"""Events whose texts are kept."""

MOST_NAMES = 65_536
"""Names of subscribers, sets of subscriptions and times whose texts are kept, of each so many."""

Named = TypeVar("Named")


class _Texts(dict[Named, str]):
    """The JSON of names, each made once while there is room: asking a dictionary is quicker than calling anything."""

    def __init__(self, make: Callable[[Named], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Named) -> str:
        if len(self) == MOST_NAMES:
            self.clear()
        made = self[key] = self._make(key)
        return made


class NotificationLines:
    """Notifications as lines of JSON, with the event as a CloudEvent."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        self._text = partial(json_text, ascii_only=ascii_only)
        self._names: _Texts[str] = _Texts(self._text)
        self._lists: _Texts[tuple[str, ...]] = _Texts(lambda names: ", ".join(map(self._names.__getitem__, names)))
        self._times: _Texts[datetime] = _Texts(format_time)
        self._events: dict[int, tuple[Event, str]] = {}

    def lines(self, notifications: Iterable[Notification]) -> str:
        """Return notifications as lines."""
        return "".join(map(self._line, notifications))

    def _line(self, notification: Notification) -> str:
        own = later = ""
        if notification.subscription is not None:
            own = f' "subscription": {self._names[notification.subscription]},'
        if notification.digest is not None:
            later = f' "handed_over": "{self._times[notification.digest]}",'
        known = self._events.get(id(notification.event))
        return (
            f'{{"subscriber": {self._names[notification.subscriber]},{own} "rank": {notification.rank!r}, '
            f'"matched": [{self._lists[notification.matched]}], "time": "{self._times[notification.time]}",{later} '
            f'"event": {self._event(notification.event) if known is None else known[1]}}}\n'
        )

    def _event(self, event: Event) -> str:
        """Return an event as JSON, made once for an object: equal ones may be written differently, as 1 and 1.0 are."""
        if len(self._events) == MOST_EVENTS:
            self._events.clear()
        text = self._text(event_to_json(event))
        self._events[id(event)] = (event, text)
        return text


Writer: TypeAlias = Callable[[Iterable[Notification]], object]
"""What takes notifications."""


def notification_writer() -> Writer:
    """Return what writes notifications to standard output, a line of JSON each."""
    lines = NotificationLines(ascii_only=not is_utf8(sys.stdout))
    return lambda notifications: sys.stdout.write(lines.lines(notifications))


def notification_row(notification: Notification) -> tuple[str, ...]:
    """Return a notification as a row of COLUMNS."""
    return (
        shown_time(notification.handed_over),
        notification.subscriber,
        f"{notification.rank:.2f}",
        ", ".join(notification.matched),
        shown_event(notification.event),
    )


def shown_event(event: Event) -> str:
    """Return an event on one line: its id and what it carries."""
    return f"{event.id}: {shown_attributes(payload(event))}"


def payload(event: Event) -> Mapping[str, AttributeValue]:
    """Return the attributes of an event that do not belong to its envelope."""
    return {name: value for name, value in event.attributes.items() if name not in ENVELOPE_TYPES}
