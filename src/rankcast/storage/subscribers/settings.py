"""How a subscriber's settings are written in files: policies, when it is notified, relevance, priorities.

A policy is a mapping with its name and its numbers, and perhaps with a cap or a list of them (`at_most`); `notify` is
`at_once`, `on_demand`, or a mapping with the period of digests; a period is a duration, or a mapping that says what
comes `every` day (or hour, week, month), and when; a relevance function is a mapping with its name and its numbers; a
priority is "big before cheap", or a mapping where an id itself would make that ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.periods import UNITS, Every, Period
from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    AllMatches,
    Bounded,
    Cap,
    Continuous,
    Digest,
    Diversity,
    Notify,
    OnDemand,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
    stated_settings,
)
from rankcast.model.relevance import Closeness, Cosine, IdealPoint, Relevance, Target
from rankcast.model.subscriptions import Priority, SubscriptionId
from rankcast.storage.durations import format_duration, parse_duration

_POLICIES: Mapping[str, type[Policy]] = {
    "all": AllMatches,
    "continuous": Continuous,
    "periodic": Periodic,
    "sliding": Sliding,
    "topkw": TopKWindow,
}
"""Policies by their names in files, where their other keys are the names of their fields."""


def policy_from_document(entry: Mapping[str, Any]) -> Policy:
    """Return the policy of a mapping.

    >>> policy_from_document({"policy": "continuous", "k": 3})
    Continuous(k=3)
    """
    settings: dict[str, Any] = {name: _read_setting(name, value) for name, value in entry.items() if name != "policy"}
    return _POLICIES[entry["policy"]](**settings)


def _read_setting(name: str, value: Any) -> int | Period | Diversity | TieRule | Bounded | tuple[Cap, ...]:
    if name == "diversity":
        return Diversity(**value)
    if name == "ties":
        return TieRule(value)
    if name == "queue":
        return Bounded(value["bounded"])
    if name == "at_most":
        return tuple(map(_cap_from_document, value if isinstance(value, list) else [value]))
    if isinstance(value, Mapping):
        return period_from_document(value)
    return parse_duration(value) if name == "period" or isinstance(value, str) else int(value)


def policy_to_document(policy: Policy) -> dict[str, Any] | None:
    """Return the mapping of a policy; None for the default, which needs no words."""
    if policy == ALL_MATCHES:
        return None
    entry = {"policy": next(name for name, kind in _POLICIES.items() if isinstance(policy, kind))}
    return entry | {name: _write_setting(value) for name, value in stated_settings(policy)}


def _write_setting(value: int | str | Period | Diversity | Bounded | tuple[Cap, ...]) -> Any:
    if isinstance(value, Every):
        return period_to_document(value)
    if isinstance(value, Diversity):
        return {"sigma": value.sigma, **({"weights": dict(value.weights)} if value.weights else {})}
    if isinstance(value, Bounded):
        return {"bounded": value.sigma}
    if isinstance(value, tuple):
        caps = [_cap_to_document(cap) for cap in value]
        return caps if len(caps) > 1 else caps[0]
    return format_duration(value) if isinstance(value, timedelta) else value


def _cap_from_document(entry: Mapping[str, Any]) -> Cap:
    """Return the cap of a mapping.

    >>> _cap_from_document({"count": 1, "every": "week", "per": "company"}).every.unit
    'week'
    """
    return Cap(int(entry["count"]), period_from_document(entry), entry.get("per"))


def _cap_to_document(cap: Cap) -> dict[str, Any]:
    return {"count": cap.count, **period_to_document(cap.every), **({} if cap.per is None else {"per": cap.per})}


CALENDAR = ("at", "weekday", "day", "zone")
"""What a mapping says of a calendar, beside `every`."""


def period_from_document(entry: Mapping[str, Any]) -> Period:
    """Return the period of a mapping, which may say other things too: `every` is a unit of the calendar or a duration.

    >>> period_from_document({"every": "day", "at": "08:00"})
    Every(unit='day', at='08:00', weekday=None, day=None, zone=None)
    """
    every, settings = entry["every"], {name: entry[name] for name in CALENDAR if name in entry}
    if every in UNITS:
        return Every(every, **settings)
    if settings:
        problem = f"{next(iter(settings))}: goes with every {', '.join(UNITS[:-1])} or {UNITS[-1]}"
        raise InvalidSubscriptionError(f"{problem}, not with a duration, {shown(every)}")
    return parse_duration(every)


def period_to_document(period: Period) -> dict[str, Any]:
    """Return the mapping of a period."""
    if isinstance(period, timedelta):
        return {"every": format_duration(period)}
    at = {} if period.at == Every("day").at else {"at": period.at}
    others = {name: value for name in CALENDAR[1:] if (value := getattr(period, name)) is not None}
    return {"every": period.unit, **at, **others}


def notify_from_document(entry: str | Mapping[str, Any]) -> Notify:
    """Return what an entry says.

    >>> notify_from_document({"every": "15m"})
    Digest(every=datetime.timedelta(seconds=900))
    """
    if isinstance(entry, str):
        return OnDemand() if entry == "on_demand" else AT_ONCE
    return Digest(period_from_document(entry))


def notify_to_document(notify: Notify) -> str | dict[str, Any]:
    """Return the entry that says so."""
    if isinstance(notify, Digest):
        return period_to_document(notify.every)
    return "on_demand" if isinstance(notify, OnDemand) else "at_once"


_EXACT_INTEGERS = 2**53
"""Below it every whole float is an integer that reads back as the same float."""


def relevance_from_document(entry: Mapping[str, Any]) -> Relevance:
    """Return the relevance function of a mapping.

    >>> relevance_from_document({"function": "cosine", "attribute": "embedding", "vector": [1, 0.5]})
    Cosine(attribute='embedding', vector=(1.0, 0.5))
    """
    if entry["function"] == "cosine":
        return Cosine(entry["attribute"], tuple(entry["vector"]))
    targets = tuple(
        Target(name, **target) if isinstance(target, dict) else Target(name, target)
        for name, target in entry["targets"].items()
    )
    return Closeness(targets) if entry["function"] == "closeness" else IdealPoint(targets, entry.get("reach"))


def relevance_to_document(relevance: Relevance) -> dict[str, Any]:
    """Return the mapping of a relevance function."""
    if isinstance(relevance, Cosine):
        vector = [_plain(number) for number in relevance.vector]
        return {"function": "cosine", "attribute": relevance.attribute, "vector": vector}
    targets = {target.attribute: _target(target) for target in relevance.targets}
    if isinstance(relevance, Closeness):
        return {"function": "closeness", "targets": targets}
    reach = {} if relevance.reach is None else {"reach": _plain(relevance.reach)}
    return {"function": "ideal_point", "targets": targets, **reach}


def _target(target: Target) -> float | dict[str, float]:
    others = {name: _plain(getattr(target, name)) for name in ("scale", "weight") if getattr(target, name) != 1}
    return {"value": _plain(target.value), **others} if others else _plain(target.value)


def _plain(number: float) -> float:
    return int(number) if number.is_integer() and abs(number) < _EXACT_INTEGERS else number


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
