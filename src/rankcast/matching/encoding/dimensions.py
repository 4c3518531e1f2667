"""Rank space: every value an attribute may have becomes a small integer that kernels can compare.

Each attribute is one dimension. Its ranks are laid out in regions, one after the other:

    0           the attribute is missing
    numbers     one rank between any two neighbouring cuts of the numbers in use, so cuts + 1 ranks
    strings     likewise
    false, true
    times       likewise
    lists       the empty one, then one rank for those of each family: what their elements are is not told here

Every end point of every subscription is a cut, so all values of one rank satisfy exactly the same predicates, and a
value set of `rankcast.model` is a list of ranges of ranks: `> 5` is one range, so are `prefix`, `exists` (everything
but 0) and `not exists` (0); `!=` has a gap and `in` has several.

What ranges cannot say of a string gets dimensions of its own, derived from the same attribute:

    reversed    the string read backwards, where a suffix is a prefix: 0 is "no string", then cuts + 1 ranks
    contains    one dimension per substring asked for: 1 where it occurs, else 0
    elements    one dimension per condition on the elements of a list, kept as a substring (`elements`)

Rank 0 is always what an event without the attribute has, so events are encoded sparsely. Patterns beyond suffix and
contains keep a residue that is verified on the text itself; what they imply is indexed in the dimensions above.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.elements import KINDS, Postings


@dataclass(frozen=True)
class Dimensions:
    """The cuts of every dimension. Dimensions 0.. are the attributes, then the reversed ones, then the substrings."""

    attributes: ByteTable
    number_start: Array
    number_keys: Array
    number_rests: Array
    string_start: Array
    strings: ByteTable
    time_start: Array
    times: Array
    reversed_attribute: Array
    reversed_start: Array
    reversed_cuts: ByteTable
    substring_attribute: Array
    substrings: ByteTable

    def __len__(self) -> int:
        return len(self.rank_counts)

    @property
    def first_reversed(self) -> int:
        """The first dimension of reversed strings."""
        return len(self.attributes)

    @property
    def first_substring(self) -> int:
        """The first dimension of a substring."""
        return self.first_reversed + len(self.reversed_attribute)

    @cached_property
    def first_string(self) -> Array:
        """Per attribute, the rank of the smallest strings; the numbers before it start at 1."""
        return np.diff(self.number_start) + 2

    @cached_property
    def first_bool(self) -> Array:
        """Per attribute, the rank of false; true follows."""
        return self.first_string + np.diff(self.string_start) + 1

    @cached_property
    def first_time(self) -> Array:
        """Per attribute, the rank of the earliest times."""
        return self.first_bool + 2

    @cached_property
    def first_list(self) -> Array:
        """Per attribute, the rank of the empty list; those of lists by family follow."""
        return self.first_time + np.diff(self.time_start) + 1

    @cached_property
    def postings(self) -> Postings:
        """Where an event finds the conditions on elements that it satisfies."""
        return Postings.of(self)

    @cached_property
    def rank_counts(self) -> Array:
        """The number of ranks of every dimension."""
        return np.concatenate(
            (
                self.first_list + KINDS,
                np.diff(self.reversed_start) + 2,
                np.full(len(self.substring_attribute), 2, np.int64),
            )
        )
