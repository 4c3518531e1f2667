"""What ranks the texts of events in one segment, derived from its dimensions: keys of string cuts, and an automaton."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.automaton import Automaton
from rankcast.matching.encoding.cuts import keys_of_bytes
from rankcast.matching.encoding.dimensions import Dimensions


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """By attribute, `reversed_of` and `group_of` have its list of reversed cuts and its automaton, or -1.

    Patterns of the automaton are numbered like the dimensions of substrings.
    """

    string_keys: Array
    reversed_of: Array
    reversed_keys: Array
    group_of: Array
    automaton: Automaton

    @staticmethod
    def of(dimensions: Dimensions) -> Texts:
        """Return what ranks texts in some dimensions."""
        groups: dict[int, list[bytes]] = {}
        for attribute, literal in zip(
            dimensions.substring_attribute.tolist(), dimensions.substrings.items(), strict=True
        ):
            groups.setdefault(attribute, []).append(literal)
        return Texts(
            keys_of_bytes(dimensions.strings.start, dimensions.strings.data),
            _places(dimensions, dimensions.reversed_attribute),
            keys_of_bytes(dimensions.reversed_cuts.start, dimensions.reversed_cuts.data),
            _places(dimensions, np.array(list(groups), np.int64)),
            Automaton.of(list(groups.values())),
        )


def _places(dimensions: Dimensions, attributes: Array) -> Array:
    """Return by attribute its place among some of them, or -1."""
    places = np.full(len(dimensions.attributes), -1, np.int32)
    places[attributes] = np.arange(len(attributes))
    return places
