"""Notifications as JSON lines and as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankcast.cli.terminal import shown_attributes, shown_time
from rankcast.hub import Notification
from rankcast.model.cloudevents import event_to_json
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import format_time
from rankcast.model.values import Value

COLUMNS = {"Time (UTC)": "left", "Subscriber": "left", "Rank": "right", "Matched": "left", "Event": "rest"}


def notification_to_json(notification: Notification) -> dict[str, Any]:
    """Return a notification as a JSON object; the event in it is a CloudEvent."""
    own = {} if notification.subscription is None else {"subscription": notification.subscription}
    gathered = {} if notification.gathered is None else {"gathered": format_time(notification.gathered)}
    return {
        "subscriber": notification.subscriber,
        **own,
        "rank": notification.rank,
        "matched": list(notification.matched),
        "time": format_time(notification.time),
        **gathered,
        "event": event_to_json(notification.event),
    }


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
