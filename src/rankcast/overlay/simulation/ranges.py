"""Subscriptions that cover one another: the setting of the paper on top-k covering.

A subscription is a closed range of each attribute. The paper says that subscriptions are uniform and span 30% to 60% of
the space of publications, and no more. What fits its numbers is one attribute, a width uniform between the two bounds
and a start uniform among those that leave room for it; with two attributes or more far fewer cover one another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError
from rankcast.model.expressions import all_of, attr
from rankcast.model.filters import Filter

WIDTHS = (0.3, 0.6)
"""The share of the domain that a range takes: from, and to."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Closed ranges in [0, 1]: a row per subscription, a column per attribute."""

    starts: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.starts)

    def filters(self) -> list[Filter]:
        """Return the subscriptions as filters over the attributes a0, a1 and so on."""
        names = [f"a{at}" for at in range(self.starts.shape[1])]
        rows = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [
            Filter.of(all_of(*(attr(name).between(*sides) for name, *sides in zip(names, low, high, strict=True))))
            for low, high in rows
        ]


def ranges(
    count: int, random: np.random.Generator, widths: tuple[float, float] = WIDTHS, attributes: int = 1
) -> Ranges:
    """Draw so many subscriptions."""
    low, high = widths
    if not 0 <= low <= high <= 1:
        raise InvalidValueError(f"widths: {low} to {high} are no shares of a domain; expected 0 <= from <= to <= 1")
    width = random.uniform(low, high, (count, attributes))
    starts = random.random((count, attributes)) * (1 - width)
    return Ranges(starts, starts + width)
