"""Priorities in files: "big before cheap", or a mapping where an id itself would make that ambiguous."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.subscriptions import Priority, SubscriptionId

_BEFORE = re.compile(r"\s+before\s+")


def parse_priority(entry: str | Mapping[str, str]) -> Priority:
    """Return the priority of a text or mapping.

    >>> parse_priority("big before cheap") == parse_priority({"first": "big", "then": "cheap"})
    True
    """
    if not isinstance(entry, str):
        return Priority(SubscriptionId(entry["first"]), SubscriptionId(entry["then"]))
    names = _BEFORE.split(entry.strip())
    if len(names) != 2:
        raise InvalidSubscriptionError(
            f"priorities: {shown(entry)} has {len(names)} names; write one pair, such as 'big before cheap'"
        )
    return Priority(SubscriptionId(names[0]), SubscriptionId(names[1]))


def format_priority(priority: Priority) -> str | dict[str, str]:
    """Return the text of a priority, or its mapping when the text would be read as something else."""
    text = f"{priority.first} before {priority.then}"
    names = _BEFORE.split(text.strip())
    return text if names == list(priority) else {"first": priority.first, "then": priority.then}
