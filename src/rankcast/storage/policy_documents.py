"""Delivery policies in files: a mapping with the policy's name and its numbers.

The structure is known to be right here (see `structure`). JSON has one kind of number, so `3.0` is a whole number too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rankcast.model.diversity import Diversity
from rankcast.model.policies import ALL_MATCHES, AllMatches, Continuous, Periodic, Policy, Sliding, TopKWindow
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
