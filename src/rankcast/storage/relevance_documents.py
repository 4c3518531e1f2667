"""Relevance functions and decay in files: a mapping with the function's name and its numbers.

The structure is known to be right here (see `structure`). Defaults are left out, and a target that has nothing but its
value is that number alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Relevance, Target
from rankcast.storage.durations import format_duration, parse_duration

EXACT_INTEGERS = 2**53
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
    return int(number) if number.is_integer() and abs(number) < EXACT_INTEGERS else number


def decay_from_document(entry: Mapping[str, Any]) -> Decay:
    """Return the decay of a mapping.

    >>> decay_from_document({"half_life": "1d"}).half_life.days
    1
    """
    return Decay(parse_duration(entry["half_life"]))


def decay_to_document(decay: Decay) -> dict[str, Any]:
    """Return the mapping of a decay."""
    return {"half_life": format_duration(decay.half_life)}
