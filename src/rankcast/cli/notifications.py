"""Notifications as JSON lines and as rows of a table.

One event is in many notifications, and most of a line is the event, so its text is made once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from rankcast.cli.streams import is_utf8, json_line
from rankcast.cli.terminal import shown_attributes, shown_time
from rankcast.hub import Notification
from rankcast.model.cloudevents import event_to_json
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import format_time
from rankcast.model.values import Value

COLUMNS = {"Time (UTC)": "left", "Subscriber": "left", "Rank": "right", "Matched": "left", "Event": "rest"}


MOST_EVENTS = 4_096
"""Events whose texts are kept."""


class NotificationLines:
    """Notifications as lines of JSON, with the event as a CloudEvent."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        self._ascii_only = ascii_only
        self._events: dict[int, tuple[Event, str]] = {}

    def line(self, notification: Notification) -> str:
        """Return a notification as a line, without its end."""
        own = {} if notification.subscription is None else {"subscription": notification.subscription}
        gathered = {} if notification.gathered is None else {"gathered": format_time(notification.gathered)}
        rest = {
            "subscriber": notification.subscriber,
            **own,
            "rank": notification.rank,
            "matched": notification.matched,
            "time": format_time(notification.time),
            **gathered,
        }
        head = json_line(rest, ascii_only=self._ascii_only)
        return f'{head[:-1]}, "event": {self._text(notification.event)}}}'

    def _text(self, event: Event) -> str:
        """Return an event as JSON, made once for an object: equal ones may be written differently, as 1 and 1.0 are."""
        known = self._events.get(id(event))
        if known is None:
            if len(self._events) == MOST_EVENTS:
                self._events.clear()
            known = self._events[id(event)] = (event, json_line(event_to_json(event), ascii_only=self._ascii_only))
        return known[1]


Writer: TypeAlias = Callable[[Notification], None]
"""What takes each notification."""


def notification_writer() -> Writer:
    """Return what writes notifications to standard output, a line of JSON each."""
    lines = NotificationLines(ascii_only=not is_utf8(sys.stdout))
    return lambda notification: _write_line(lines.line(notification))


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")


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
