"""The diverse best of some candidates: by the plain algorithm when they are few, by kernels when they are many.

Both give the same selection. Values are numbered as they come for the kernels, so nothing depends on digests here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankcast.delivery.contents import MISSING, Array, Content
from rankcast.delivery.kernels_diversity import select_diverse
from rankcast.model.diversity import Diversity, Weights
from rankcast.model.values import Value
from rankcast.ranking.diversity import diverse_best

FEW = 16
"""Candidates up to which the plain algorithm is as fast as arrays are made."""


def diverse_selection(contents: Sequence[Content], ranks: Sequence[float], k: int, diversity: Diversity) -> list[int]:
    """Return the positions of the k events selected greedily, in order; events are oldest first.

    >>> films = [(("genre", "drama"),), (("genre", "drama"),), (("genre", "war"),)]
    >>> diverse_selection(films, [0.9, 0.8, 0.5], 2, Diversity())
    [0, 2]
    """
    if len(contents) <= FEW:
        return diverse_best([dict(content) for content in contents], ranks, k, diversity.sigma, diversity.distance)
    return selection_of_arrays(contents, ranks, k, diversity)


def selection_of_arrays(contents: Sequence[Content], ranks: Sequence[float], k: int, diversity: Diversity) -> list[int]:
    """Return what `diverse_selection` does, by kernels whatever the number of events."""
    numbers: dict[tuple[bool, Value], int] = {}
    codes, lists = np.zeros((0, 0), np.int64), _lists((), numbers)
    if diversity.weights:
        codes = _matrix(contents, list(diversity.weights), numbers)
    else:
        lists = _lists(contents, numbers)
    selected = np.empty(min(k, len(contents)), np.int64)
    weights = diversity.weights
    select_diverse(
        np.array(ranks, np.float64),
        diversity.sigma,
        np.array(list(weights.values()), np.float64),
        Weights(weights).total,
        codes,
        *lists,
        selected,
        np.empty(len(selected)),
    )
    return [int(at) for at in selected]


def _number(value: Value, numbers: dict[tuple[bool, Value], int]) -> int:
    """Return the number of a value; Python takes 1 for True, rankcast does not."""
    return numbers.setdefault((isinstance(value, bool), value), len(numbers) + 1 + MISSING)


def _matrix(contents: Sequence[Content], names: list[str], numbers: dict[tuple[bool, Value], int]) -> Array:
    lines = {name: line for line, name in enumerate(names)}
    codes = np.full((len(names), len(contents)), MISSING, np.int64)
    for at, content in enumerate(contents):
        for name, value in content:
            line = lines.get(name)
            if line is not None:
                codes[line, at] = _number(value, numbers)
    return codes


def _lists(contents: Sequence[Content], numbers: dict[tuple[bool, Value], int]) -> tuple[Array, Array, Array, Array]:
    """Return where each event's attributes begin and end, their numbers in the order of names, and their values'."""
    names = sorted({name for content in contents for name, _ in content})
    places = {name: place for place, name in enumerate(names)}
    ends = np.cumsum([len(content) for content in contents], dtype=np.int64)
    attributes = [places[name] for content in contents for name, _ in content]
    values = [_number(value, numbers) for content in contents for _, value in content]
    starts = np.concatenate([[0], ends])[:-1].astype(np.int64)
    return starts, ends, np.array(attributes, np.int64), np.array(values, np.int64)
