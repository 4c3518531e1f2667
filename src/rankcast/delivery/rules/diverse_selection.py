"""The diverse best of some candidates: by the plain algorithm when they are few, by kernels when they are many.

Both give the same selection. Values are numbered as they come for the kernels, so nothing depends on digests here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import is_loaded
from rankcast.delivery.engine.contents import MISSING, Content
from rankcast.delivery.engine.kernels.diverse import select_diverse
from rankcast.model.policies import Diversity, Weights
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
    if len(contents) <= FEW or not is_loaded(select_diverse):  # a first event is not to wait for a compiler
        return diverse_best([dict(content) for content in contents], ranks, k, diversity.sigma, diversity.distance)
    return selection_of_arrays(contents, ranks, k, diversity)


class SelectionArrays(NamedTuple):
    """What the kernel selects from: ranks, how they are weighed, and contents as a matrix or as lists."""

    ranks: Array
    sigma: float
    weights: Array
    total: float
    codes: Array
    starts: Array
    ends: Array
    attributes: Array
    values: Array


def selection_of_arrays(contents: Sequence[Content], ranks: Sequence[float], k: int, diversity: Diversity) -> list[int]:
    """Return what `diverse_selection` does, by the kernel whatever the number of events."""
    return selected_by_kernel(selection_arrays(contents, ranks, diversity), k)


def selected_by_kernel(arrays: SelectionArrays, k: int) -> list[int]:
    """Return the positions of the k events selected from arrays, in order."""
    selected = np.empty(min(k, len(arrays.ranks)), np.int64)
    select_diverse(*arrays, selected, np.empty(len(selected)))
    found: list[int] = selected.tolist()
    return found


def selection_arrays(contents: Sequence[Content], ranks: Sequence[float], diversity: Diversity) -> SelectionArrays:
    """Return contents and ranks as the kernel takes them."""
    weights = Weights(diversity.weights or dict.fromkeys(_common_names(contents), 1.0))
    numbers: Numbers = defaultdict(count(MISSING + 1).__next__)
    return SelectionArrays(
        np.array(ranks, np.float64),
        diversity.sigma,
        np.array(list(weights.values()), np.float64),
        weights.total,
        _matrix(contents, list(weights), numbers),
        *_lists(() if weights else contents, numbers),
    )


def _common_names(contents: Sequence[Content]) -> list[str]:
    """Return the attributes of all events, if all have the same."""
    names = [name for name, _ in contents[0]] if contents else []
    return names if _all_have(names, contents) else []


def _all_have(names: list[str], contents: Sequence[Content]) -> bool:
    """Whether all events have just these attributes."""
    return all([name for name, _ in content] == names for content in contents)


Numbers: TypeAlias = defaultdict[object, int]
"""Values and their numbers. Python takes 1 for True, rankcast does not: a bool is put into a tuple."""


def _key(value: Value) -> object:
    return (value,) if value.__class__ is bool else value


def _matrix(contents: Sequence[Content], names: list[str], numbers: Numbers) -> Array:
    if _all_have(names, contents):
        listed = [numbers[_key(value)] for content in contents for _, value in content]
        return np.ascontiguousarray(np.array(listed, np.int64).reshape(len(contents), len(names)).T)
    lines = {name: line for line, name in enumerate(names)}
    codes = np.full((len(names), len(contents)), MISSING, np.int64)
    for at, content in enumerate(contents):
        for name, value in content:
            line = lines.get(name)
            if line is not None:
                codes[line, at] = numbers[_key(value)]
    return codes


def _lists(contents: Sequence[Content], numbers: Numbers) -> tuple[Array, Array, Array, Array]:
    """Return where each event's attributes begin and end, their numbers in the order of names, and their values'."""
    names = sorted({name for content in contents for name, _ in content})
    places = {name: place for place, name in enumerate(names)}
    ends = np.cumsum([len(content) for content in contents], dtype=np.int64)
    attributes = [places[name] for content in contents for name, _ in content]
    values = [numbers[_key(value)] for content in contents for _, value in content]
    starts = np.concatenate([[0], ends])[:-1].astype(np.int64)
    return starts, ends, np.array(attributes, np.int64), np.array(values, np.int64)
