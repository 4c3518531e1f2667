"""The diversity of a list that grows, without keeping the list: the mean distance over all pairs so far.

A distance is 1 minus a share of equal attributes, so the distances of one event to many others need only the counts of
their values. Without weights the share is taken of the attributes that either event has; events are counted by which
attributes they have, and there are few such kinds. Cost of an event: its attributes times the kinds of events seen.

Paper: PrefSIENA, chapter 4 (the mean over pairs; its Table 4.1 prints the sum).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankcast.model.diversity import Diversity
from rankcast.model.values import Family, Value, family_of


@dataclass(slots=True)
class _Kind:
    """Events with the same attributes: how many there are, and how many have which value where."""

    events: int = 0
    values: Counter[tuple[str, Family, Value]] = field(default_factory=Counter)


class RunningDiversity:
    """The mean distance over all pairs of the events added so far.

    >>> seen = RunningDiversity(Diversity())
    >>> for genre in ("war", "drama", "war"):
    ...     seen.add({"genre": genre})
    >>> round(seen.mean, 3)
    0.667
    """

    def __init__(self, diversity: Diversity) -> None:
        self._weights = diversity.weights
        self._kinds: dict[frozenset[str], _Kind] = {}
        self._events = 0
        self._sum = 0.0

    @property
    def mean(self) -> float:
        """The list's diversity; 0 for fewer than two events."""
        pairs = self._events * (self._events - 1) / 2
        return self._sum / pairs if pairs else 0.0

    def add(self, attributes: Mapping[str, Value]) -> None:
        """Add an event with these attributes."""
        wanted = {name: value for name, value in attributes.items() if not self._weights or name in self._weights}
        own = frozenset(wanted)
        for names, kind in self._kinds.items():
            self._sum += self._distances(wanted, own, names, kind)
        kind = self._kinds.setdefault(own, _Kind())
        kind.events += 1
        kind.values.update((name, family_of(value), value) for name, value in wanted.items())
        self._events += 1

    def _distances(self, wanted: Mapping[str, Value], own: frozenset[str], names: frozenset[str], kind: _Kind) -> float:
        """Return the sum of the distances of an event to those of a kind."""
        total = sum(self._weights.values()) if self._weights else float(len(own | names))
        if not total:
            return 0.0
        alike = sum(
            (self._weights[name] if self._weights else 1.0) * kind.values[(name, family_of(value), value)]
            for name, value in wanted.items()
            if name in names
        )
        return kind.events - alike / total
