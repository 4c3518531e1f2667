"""The comparison of group cover with pairwise cover: how active sets grow, in closed and in open schemas.

Pairwise covering does not depend on the schema here: a range on an attribute that the other subscription does not name
never covers it, whether the attribute may be missing or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rankcast.covering.active import ActiveSet
from rankcast.covering.group import Checking, Strategy
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast_lab.studies.findings import Settings
from rankcast_lab.workloads.group_cover import NARROW, WIDE, comparison

Array: TypeAlias = np.ndarray[Any, Any]

ATTRIBUTES = (10, 15, 20)
RANGES = {"narrow": NARROW, "wide": WIDE}
SUBSCRIPTIONS, QUICK_SUBSCRIPTIONS = 5_000, 600
SEEDS = 3
MARKS = 20
"""Places along a curve."""

WAYS = ("pairwise", "group", "group, open")


@dataclass(frozen=True, slots=True)
class Growth:
    """How many are active after so many have come, by way: means over seeds; `spread` is the deviation at the end."""

    ranges: str
    attributes: int
    marks: tuple[int, ...]
    active: dict[str, tuple[float, ...]]
    spread: dict[str, float]
    exhausted: int

    def share(self, way: str) -> float:
        """Return the active share at the end, in percent."""
        return 100 * self.active[way][-1] / self.marks[-1]

    def ratio(self, way: str, mark: int = -1) -> float:
        """Return the size of an active set as a share of the pairwise one, in percent."""
        return 100 * self.active[way][mark] / self.active["pairwise"][mark]


def growths(settings: Settings) -> list[Growth]:
    """Measure all curves."""
    return [_growth(settings, name, attributes) for name in RANGES for attributes in ATTRIBUTES]


def _growth(settings: Settings, name: str, attributes: int) -> Growth:
    count = QUICK_SUBSCRIPTIONS if settings.quick else SUBSCRIPTIONS
    marks = tuple(count * (at + 1) // MARKS for at in range(MARKS))
    sizes: dict[str, list[list[int]]] = {way: [] for way in WAYS}
    exhausted = 0
    for seed in range(settings.seed, settings.seed + (1 if settings.quick else SEEDS)):
        drawn = comparison(np.random.default_rng(seed), count, attributes, RANGES[name])
        filters = drawn.filters()
        for way in WAYS:
            settings.say(f"comparison, {name} ranges, m={attributes}, {way}, seed {seed}")
            checking = Checking(Strategy.PAIRWISE) if way == "pairwise" else Checking()
            schema = drawn.schema(closed=way != "group, open")
            found, used_up = grown(filters, marks, checking, schema)
            sizes[way].append(found)
            exhausted += used_up
    means = {way: tuple(np.mean(found, axis=0).tolist()) for way, found in sizes.items()}
    spread = {way: float(100 * np.std([one[-1] for one in found]) / count) for way, found in sizes.items()}
    return Growth(name, attributes, marks, means, spread, exhausted)


def grown(filters: list[Filter], marks: tuple[int, ...], checking: Checking, schema: Schema) -> tuple[list[int], int]:
    """Return the size of the active set whenever so many have come, and how many budgets were used up."""
    kept, found, due = ActiveSet(checking, schema), [], set(marks)
    for number, wanted in enumerate(filters, start=1):
        kept.add(number, wanted)
        if number in due:
            found.append(len(kept.active))
    return found, kept.exhausted
