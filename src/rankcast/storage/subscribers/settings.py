"""How a subscriber's settings are written in files: policies, when it is notified, relevance, priorities.

A policy is a mapping with its name and its numbers; `notify` is `at_once`, `on_demand`, or a mapping with the period of
digests; a relevance function is a mapping with its name and its numbers; a priority is "big before cheap", or a mapping
where an id itself would make that ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    AllMatches,
    Continuous,
    Diversity,
    Gathered,
    Notify,
    OnDemand,
    Periodic,
    Policy,
    Sliding,
    TopKWindow,
)
from rankcast.model.relevance import Closeness, Cosine, IdealPoint, Relevance, Target
from rankcast.model.subscriptions import Priority, SubscriptionId
from rankcast.storage.durations import format_duration, parse_duration


def policy_from_document(entry: Mapping[str, Any]) -> Policy:
    """Return the policy of a mapping.

    >>> policy_from_document({"policy": "continuous", "k": 3})
    Continuous(k=3)
    """
    match entry["policy"]:
        case "continuous":
            return Continuous(int(entry["k"]))
        case "periodic":
            return Periodic(int(entry["k"]), parse_duration(entry["period"]), _diversity(entry))
        case "sliding":
            return Sliding(int(entry["k"]), int(entry["window"]), _diversity(entry))
        case "topkw":
            window = parse_duration(entry["window"]) if isinstance(entry["window"], str) else int(entry["window"])
            return TopKWindow(int(entry["k"]), window, _diversity(entry))
    return ALL_MATCHES


def _diversity(entry: Mapping[str, Any]) -> Diversity | None:
    return Diversity(**entry["diversity"]) if "diversity" in entry else None


def policy_to_document(policy: Policy) -> dict[str, Any] | None:
    """Return the mapping of a policy; None for the default, which needs no words."""
    match policy:
        case AllMatches():
            return None
        case Continuous():
            return {"policy": "continuous", "k": policy.k}
        case Periodic():
            entry: dict[str, Any] = {"policy": "periodic", "k": policy.k, "period": format_duration(policy.period)}
        case Sliding():
            entry = {"policy": "sliding", "k": policy.k, "window": policy.window}
        case TopKWindow():
            window = format_duration(policy.window) if isinstance(policy.window, timedelta) else policy.window
            entry = {"policy": "topkw", "k": policy.k, "window": window}
    return entry if policy.diversity is None else {**entry, "diversity": _diversity_entry(policy.diversity)}


def _diversity_entry(diversity: Diversity) -> dict[str, Any]:
    entry: dict[str, Any] = {"sigma": diversity.sigma}
    return {**entry, "weights": dict(diversity.weights)} if diversity.weights else entry


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
