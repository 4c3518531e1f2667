"""Diverse selection: the best k events that are not near-copies of each other.

The distance of two events is 1 minus the weighted share of the attributes on which they are equal, lists to the extent
of their overlap; an attribute that one of them lacks counts as different. A selection's diversity is the mean distance
over its pairs. Greedy selection takes the event of the best rank first, then always the one with the largest

    sigma * rank + (1 - sigma) * (mean distance to what is selected)

so sigma = 1 is plain ranking. Ties go to the better rank, then to the OLDER event. Each round updates the mean
distances from the event selected last, so k of q events cost k*q distances. Fewer than k events are all selected.

Paper: PrefSIENA, chapter 4. Two corrections: its Table 4.1 prints the sum over pairs, not the mean, and the printed
Property 4.1 divides by |L| where the mean over L and one more event needs |L| + 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar, cast

from rankcast.model.policies import Diversity, likeness
from rankcast.model.values import AttributeValue, family_of

__all__ = ["Diversity", "diverse_best", "list_diversity", "mean_distance", "most_diverse"]

Item = TypeVar("Item")


def list_diversity(items: Sequence[Item], distance: Callable[[Item, Item], float]) -> float:
    """Return the mean distance over the pairs of a list; 0 for fewer than two."""
    distances = [distance(first, second) for first, second in combinations(items, 2)]
    return sum(distances) / len(distances) if distances else 0.0


def mean_distance(contents: Iterable[Mapping[str, AttributeValue]], diversity: Diversity) -> float:
    """Return the list diversity of events by their attributes, without looking at all pairs.

    A distance is 1 minus a share of equal attributes, so only the numbers of events that have a value matter. Without
    weights the share is of the attributes that either event has; events are taken together that have the same ones, and
    there are few such kinds. Cost: the attributes of all events, times the kinds.

    >>> mean_distance([{"genre": "war"}, {"genre": "drama"}, {"genre": "war"}], Diversity()) == 2 / 3
    True
    """
    kinds: dict[tuple[str, ...], list[Mapping[str, AttributeValue]]] = {}
    for content in contents:
        compared = diversity.weights or content
        kinds.setdefault(tuple(name for name in sorted(compared) if name in content), []).append(content)
    counted = [
        (names, len(members), {name: Counter([_key(content[name]) for content in members]) for name in names})
        for names, members in kinds.items()
    ]
    events, total = sum(size for _, size, _ in counted), 0.0
    for at, (names, size, values) in enumerate(counted):
        for others, other_size, other_values in counted[at:]:
            within = values is other_values
            pairs = size * (size - 1) / 2 if within else size * other_size
            every = sum(diversity.weights.values()) if diversity.weights else float(len({*names, *others}))
            alike = sum(
                (diversity.weights[name] if diversity.weights else 1.0)
                * _equal_pairs(values[name], other_values[name], within=within)
                for name in names
                if name in other_values
            )
            total += pairs - alike / every if every else 0.0
    return total / (events * (events - 1) / 2) if events > 1 else 0.0


def _key(value: AttributeValue) -> object:
    """Return a value as one that is counted: true apart from 1, which Python takes for it; a list with its family."""
    if isinstance(value, tuple):
        return family_of(value[0]) if value else None, value
    return (value,) if value.__class__ is bool else value


def _value(key: object) -> AttributeValue:
    return cast(AttributeValue, key[-1] if isinstance(key, tuple) else key)


def _equal_pairs(values: Counter[object], others: Counter[object], *, within: bool) -> float:
    """Return how many pairs have the same value, two of one kind or one of each; lists count as far as they overlap."""
    if any(isinstance(_value(key), tuple) for key in (*values, *others)):
        pairs = combinations(values.items(), 2) if within else product(values.items(), others.items())
        alike = sum(count * more * likeness(_value(key), _value(other)) for (key, count), (other, more) in pairs)
        return alike + (_same(values) if within else 0)
    return _same(values) if within else sum(count * others[value] for value, count in values.items() if value in others)


def _same(values: Counter[object]) -> float:
    return sum(count * (count - 1) for count in values.values()) / 2


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
