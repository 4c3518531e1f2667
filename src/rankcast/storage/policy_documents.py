"""Delivery policies in files: a mapping with the policy's name and its numbers.

The structure is known to be right here (see `structure`). JSON has one kind of number, so `3.0` is a whole number too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

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
            return Periodic(int(entry["k"]), parse_duration(entry["period"]))
        case "sliding":
            return Sliding(int(entry["k"]), int(entry["window"]))
        case "topkw":
            window = entry["window"]
            return TopKWindow(int(entry["k"]), parse_duration(window) if isinstance(window, str) else int(window))
    return ALL_MATCHES


def policy_to_document(policy: Policy) -> dict[str, Any] | None:
    """Return the mapping of a policy; None for the default, which needs no words."""
    match policy:
        case AllMatches():
            return None
        case Continuous():
            return {"policy": "continuous", "k": policy.k}
        case Periodic():
            return {"policy": "periodic", "k": policy.k, "period": format_duration(policy.period)}
        case Sliding():
            return {"policy": "sliding", "k": policy.k, "window": policy.window}
        case TopKWindow():
            window = policy.window
            return {
                "policy": "topkw",
                "k": policy.k,
                "window": format_duration(window) if isinstance(window, timedelta) else window,
            }
