"""In files, when a subscriber is notified: `at_once`, `on_demand`, or a mapping with the period of gathering.

The structure is known to be right here (see `structure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankcast.model.notifying import AT_ONCE, Gathered, Notify, OnDemand
from rankcast.storage.durations import format_duration, parse_duration


def notify_from_document(entry: str | Mapping[str, Any]) -> Notify:
    """Return what an entry says.

    >>> notify_from_document({"every": "15m"})
    Gathered(every=datetime.timedelta(seconds=900))
    """
    if isinstance(entry, str):
        return OnDemand() if entry == "on_demand" else AT_ONCE
    return Gathered(parse_duration(entry["every"]))


def notify_to_document(notify: Notify) -> str | dict[str, str]:
    """Return the entry that says so."""
    if isinstance(notify, Gathered):
        return {"every": format_duration(notify.every)}
    return "on_demand" if isinstance(notify, OnDemand) else "at_once"
