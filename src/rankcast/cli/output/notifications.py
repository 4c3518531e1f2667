"""Notifications as JSON lines and as rows of a table.

One event is in many notifications, and most of a line is the event, so its text is made once; so are those of names and
times, which are in many lines too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from rankcast.cli.output.streams import is_utf8, json_text
from rankcast.cli.output.terminal import shown_attributes, shown_time
from rankcast.hub import Notification
from rankcast.model.cloudevents import event_to_json
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import format_time
from rankcast.model.values import Value

COLUMNS = {"Time (UTC)": "left", "Subscriber": "left", "Rank": "right", "Matched": "left", "Event": "rest"}


MOST_EVENTS = 4_096
"""Events whose texts are kept."""

MOST_NAMES = 65_536
"""Names of subscribers and subscriptions whose texts are kept."""


@lru_cache(MOST_NAMES)
def _quoted(name: str, *, ascii_only: bool) -> str:
    return json_text(name, ascii_only=ascii_only)


_time = lru_cache(MOST_EVENTS)(format_time)


class NotificationLines:
    """Notifications as lines of JSON, with the event as a CloudEvent."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        self._ascii_only = ascii_only
        self._events: dict[int, tuple[Event, str]] = {}

    def lines(self, notifications: Iterable[Notification]) -> str:
        """Return notifications as lines."""
        return "".join(map(self._line, notifications))

    def _line(self, notification: Notification) -> str:
        own = gathered = ""
        if notification.subscription is not None:
            own = f' "subscription": {self._name(notification.subscription)},'
        if notification.gathered is not None:
            gathered = f' "gathered": "{_time(notification.gathered)}",'
        subscriber, matched = self._name(notification.subscriber), self._names(notification.matched)
        return (
            f'{{"subscriber": {subscriber},{own} "rank": {notification.rank!r}, "matched": [{matched}], '
            f'"time": "{_time(notification.time)}",{gathered} "event": {self._text(notification.event)}}}\n'
        )

    def _name(self, name: str) -> str:
        return _quoted(name, ascii_only=self._ascii_only)

    def _names(self, names: tuple[str, ...]) -> str:
        return self._name(names[0]) if len(names) == 1 else ", ".join(map(self._name, names))

    def _text(self, event: Event) -> str:
        """Return an event as JSON, made once for an object: equal ones may be written differently, as 1 and 1.0 are."""
        known = self._events.get(id(event))
        if known is None:
            if len(self._events) == MOST_EVENTS:
                self._events.clear()
            known = self._events[id(event)] = (event, json_text(event_to_json(event), ascii_only=self._ascii_only))
        return known[1]


Writer: TypeAlias = Callable[[Iterable[Notification]], object]
"""What takes notifications."""


def notification_writer() -> Writer:
    """Return what writes notifications to standard output, a line of JSON each."""
    lines = NotificationLines(ascii_only=not is_utf8(sys.stdout))
    return lambda notifications: sys.stdout.write(lines.lines(notifications))


def notification_row(notification: Notification) -> tuple[str, ...]:
    """Return a notification as a row of COLUMNS."""
    return (
        shown_time(notification.time),
        notification.subscriber,
        f"{notification.rank:.2f}",
        ", ".join(notification.matched),
        shown_event(notification.event),
    )


def shown_event(event: Event) -> str:
    """Return an event on one line: its id and what it carries."""
    return f"{event.id}: {shown_attributes(payload(event))}"


def payload(event: Event) -> Mapping[str, Value]:
    """Return the attributes of an event that do not belong to its envelope."""
    return {name: value for name, value in event.attributes.items() if name not in ENVELOPE_TYPES}
