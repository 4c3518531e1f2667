"""Kernels over sequences of different lengths: copying some of them, comparing texts, digests.

Cost: one pass over what they are given.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined

SEED, FACTOR = -3750763034362895579, 1099511628211
"""Of the Fowler-Noll-Vo digest."""


@compiled
def copy_ragged(starts: Array, values: Array, chosen: Array, new_starts: Array, target: Array) -> None:
    """Copy the chosen sequences, one behind the other."""
    for at in range(len(chosen)):
        start, to = starts[chosen[at]], new_starts[at]
        for offset in range(new_starts[at + 1] - to):
            target[to + offset] = values[start + offset]


@inlined
def is_same(starts: Array, values: Array, one: int, other: int) -> bool:
    """Whether two sequences are equal."""
    start, length = starts[one], starts[one + 1] - starts[one]
    second = starts[other]
    if starts[other + 1] - second != length:
        return False
    for offset in range(length):  # noqa: SIM110 (a kernel has no generators)
        if values[start + offset] != values[second + offset]:
            return False
    return True


@compiled
def same_texts(starts: Array, values: Array, first: Array, second: Array) -> Array:
    """Return which pairs of sequences are equal."""
    same = np.empty(len(first), np.bool_)
    for at in range(len(first)):
        same[at] = is_same(starts, values, first[at], second[at])
    return same


@inlined
def mixed(before: int, said: int) -> int:
    """Return 64 bits that depend on all that was mixed into them, in its order."""
    found = (before ^ said) * FACTOR
    return found ^ (found >> 29)


@inlined
def digest(starts: Array, values: Array, one: int, seed: int) -> int:
    """Return 64 bits that equal sequences have in common."""
    found = seed
    for at in range(starts[one], starts[one + 1]):
        found = (found ^ values[at]) * FACTOR
    return found ^ (found >> 29)


@compiled
def digests(starts: Array, values: Array, chosen: Array) -> Array:
    """Return the digests of the chosen sequences."""
    found = np.empty(len(chosen), np.int64)
    for at in range(len(chosen)):
        found[at] = digest(starts, values, chosen[at], SEED)
    return found
