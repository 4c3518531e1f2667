"""What the demo on Spark measures: what matched against what was delivered, for each policy.

List diversity is the mean distance over all pairs of one subscriber's flats, by equal weights of a few attributes: 1
minus the mean share of pairs that are equal in an attribute. Pairs are counted by value, so it costs one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankcast.model.events import Event

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Matches or notifications: the number of the subscriber, that of the event, the rank, the seconds it waited."""

    subscriber: Ints
    event: Ints
    rank: Floats
    waited: Floats

    def of(self, subscribers: Ints) -> Rows:
        """Return the rows of some subscribers."""
        own = np.isin(self.subscriber, subscribers)
        return Rows(self.subscriber[own], self.event[own], self.rank[own], self.waited[own])

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some subscribers: how much matched and was delivered, how good and how diverse it was, how long it waited."""

    name: str
    subscribers: int
    matched: int
    delivered: int
    matched_rank: float
    delivered_rank: float
    matched_diversity: float
    delivered_diversity: float
    waited: tuple[float, float, float]
    """Hours from publication to delivery: the mean, the median, and what nine of ten notifications do not exceed."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        mean, median, most = self.waited
        return {
            "policy": self.name,
            "subscribers": self.subscribers,
            "matched": self.matched,
            "delivered": self.delivered,
            "mean_rank": {"matched": self.matched_rank, "delivered": self.delivered_rank},
            "list_diversity": {"matched": self.matched_diversity, "delivered": self.delivered_diversity},
            "waited_hours": {"mean": mean, "median": median, "nine_of_ten": most},
        }


def read_rows(folder: Path, subscribers: Sequence[str]) -> Rows:
    """Return the rows that Spark wrote, with subscribers as their numbers."""
    table = pq.read_table(folder)
    numbers = pc.index_in(table["subscriber"], value_set=pa.array(subscribers, pa.string()))
    return Rows(
        numbers.to_numpy().astype(np.int64),
        table["event"].to_numpy().astype(np.int64),
        table["rank"].to_numpy(),
        table["waited"].to_numpy(),
    )


def codes_of(events: Sequence[Event], attributes: Sequence[str]) -> list[Ints]:
    """Return for each attribute the numbers of the events' values; -1 is a missing one."""
    found = []
    for name in attributes:
        numbers: dict[object, int] = {}
        values = (event.attributes.get(name) for event in events)
        found.append(
            np.array([-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values], np.int64)
        )
    return found


def list_diversity(rows: Rows, codes: Sequence[Ints]) -> float:
    """Return the mean over subscribers, of those who have two flats or more, of their list's diversity."""
    if not len(rows):
        return 0.0
    subscribers, own = np.unique(rows.subscriber, return_inverse=True)
    counts = np.bincount(own)
    pairs = counts * (counts - 1) / 2
    alike = np.zeros(len(subscribers))
    for column in codes:
        width = int(column.max(initial=0)) + 1
        values = column[rows.event]
        known = values >= 0
        equal = np.bincount(own[known] * width + values[known], minlength=len(subscribers) * width)
        alike += (equal * (equal - 1) / 2).reshape(len(subscribers), width).sum(axis=1)
    several = pairs > 0
    return float(np.mean(1 - alike[several] / pairs[several] / len(codes))) if several.any() else 0.0


def figures(name: str, subscribers: Ints, matched: Rows, delivered: Rows, codes: Sequence[Ints]) -> Figures:
    """Return the figures of some subscribers."""
    offered, got = matched.of(subscribers), delivered.of(subscribers)
    hours = got.waited / 3600
    waited = (_mean(hours), *(float(np.quantile(hours, share)) if len(hours) else 0.0 for share in (0.5, 0.9)))
    return Figures(
        name,
        len(subscribers),
        len(offered),
        len(got),
        _mean(offered.rank),
        _mean(got.rank),
        list_diversity(offered, codes),
        list_diversity(got, codes),
        (waited[0], waited[1], waited[2]),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
