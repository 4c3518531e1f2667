"""Diverse selection: the best k events that are not near-copies of each other.

The distance of two events is 1 minus the weighted share of the attributes on which they are equal; an attribute that
one of them lacks counts as different. A list's diversity is the mean distance over its pairs. Greedy selection takes
the event of the best rank first, then always the one with the largest

    sigma * rank + (1 - sigma) * (mean distance to what is selected)

so sigma = 1 is plain ranking. Ties go to the better rank, then to the OLDER event. Each round updates the mean
distances from the event selected last, so k of q events cost k*q distances. Fewer than k events are all selected.

Paper: PrefSIENA, chapter 4. Two corrections: its Table 4.1 prints the sum over pairs, not the mean, and the printed
Property 4.1 divides by |L| where the mean over L and one more event needs |L| + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

from rankcast.model.diversity import Diversity

__all__ = ["Diversity", "diverse_best", "list_diversity", "most_diverse"]

Item = TypeVar("Item")


def list_diversity(items: Sequence[Item], distance: Callable[[Item, Item], float]) -> float:
    """Return the mean distance over the pairs of a list; 0 for fewer than two."""
    distances = [distance(first, second) for first, second in combinations(items, 2)]
    return sum(distances) / len(distances) if distances else 0.0


def diverse_best(
    items: Sequence[Item], ranks: Sequence[float], k: int, sigma: float, distance: Callable[[Item, Item], float]
) -> list[int]:
    """Return the positions of the k items selected greedily, in the order of selection; `items` are oldest first.

    >>> diverse_best(["drama", "drama", "war"], [0.9, 0.8, 0.5], 2, 0.5, lambda one, other: float(one != other))
    [0, 2]
    """
    selected: list[int] = []
    left = list(range(len(items)))
    mean = [0.0] * len(items)
    while left and len(selected) < k:
        count = len(selected)
        if count:
            last = items[selected[-1]]
            for at in left:
                mean[at] = (mean[at] * (count - 1) + distance(items[at], last)) / count
            chosen = max(left, key=lambda at: (sigma * ranks[at] + (1 - sigma) * mean[at], ranks[at], -at))
        else:
            chosen = max(left, key=lambda at: (ranks[at], -at))
        left.remove(chosen)
        selected.append(chosen)
    return selected


def most_diverse(items: Sequence[Item], k: int, distance: Callable[[Item, Item], float]) -> tuple[Item, ...]:
    """Return the k items of the largest list diversity by trying all of them: the oracle, exponential in k."""
    return max(combinations(items, min(k, len(items))), key=lambda chosen: list_diversity(chosen, distance))
