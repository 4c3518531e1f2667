"""What ranks the texts of events in one segment, derived from its dimensions: keys of string cuts, and an automaton.

All substrings of many patterns that occur in a text, in one pass over the text.

The automaton of Aho and Corasick, "Efficient string matching" (CACM 1975), over UTF-8 bytes: a byte occurrence of one
text in another is a character occurrence. There is one for each attribute that is asked for substrings, all in the same
arrays: node r is the root of group r. The other nodes are the prefixes of the patterns; children are kept as a sorted
list per node, except at the roots, which nearly every byte of a text visits; `fail` is the longest proper suffix that
is a node; `next_end` jumps to the longest proper suffix that is a whole pattern, or to a root.

Cost: the text's length plus what is found, times the number of children looked at (a bisection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.matching.encoding.cuts import keys_of_bytes
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.encoding.elements import MARK


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


@dataclass(frozen=True, slots=True)
class Automaton:
    """The arrays of the automata of some groups of patterns. Patterns are numbered in the order given, over all."""

    roots: Array
    """256 nodes per group: where each byte leads to from its root."""
    child_start: Array
    child_byte: Array
    child_node: Array
    fail: Array
    ends: Array
    next_end: Array

    @staticmethod
    def of(groups: Sequence[Sequence[bytes]]) -> Automaton:
        """Return the automata of groups of distinct patterns, none of them empty; what has a `MARK` is no text."""
        children: list[dict[int, int]] = [{} for _ in groups]
        ends = [-1] * len(groups)
        count = 0
        for root, patterns in enumerate(groups):
            for pattern in patterns:
                if pattern.startswith(MARK):
                    count += 1
                    continue
                node = root
                for byte in pattern:
                    following = children[node].get(byte)
                    if following is None:
                        following = len(children)
                        children[node][byte] = following
                        children.append({})
                        ends.append(-1)
                    node = following
                ends[node] = count
                count += 1
        fail, next_end = _links(children, ends, len(groups))
        roots = np.repeat(np.arange(len(groups), dtype=np.int32), 256).reshape(-1, 256)
        for root in range(len(groups)):
            for byte, node in children[root].items():
                roots[root, byte] = node
        items = [sorted(own.items()) for own in children]
        start = np.zeros(len(children) + 1, np.int64)
        np.cumsum([len(own) for own in items], out=start[1:])
        flat = [pair for own in items for pair in own]
        return Automaton(
            roots.reshape(-1),
            start,
            np.array([byte for byte, _ in flat], np.uint8),
            np.array([node for _, node in flat], np.int32),
            np.array(fail, np.int32),
            np.array(ends, np.int32),
            np.array(next_end, np.int32),
        )

    def find(self, group: int, start: Array, data: Array) -> tuple[Array, Array]:
        """Return (text, pattern) for every pattern of a group in every text of a byte table, each pair once."""
        found: tuple[Array, Array] = _find(
            group,
            start,
            data,
            self.roots,
            self.child_start,
            self.child_byte,
            self.child_node,
            self.fail,
            self.ends,
            self.next_end,
            np.full(int(self.ends.max(initial=-1)) + 1, -1, np.int64),
        )
        return found


def _links(children: list[dict[int, int]], ends: list[int], groups: int) -> tuple[list[int], list[int]]:
    """Return the longest proper suffix of every node that is a node, and the longest that is a pattern, or a root."""
    fail = list(range(groups)) + [0] * (len(children) - groups)
    next_end = fail.copy()
    for root in range(groups):
        queue = list(children[root].values())
        for node in queue:
            fail[node] = root
        for node in queue:
            for byte, child in children[node].items():
                suffix = fail[node]
                while suffix != root and byte not in children[suffix]:
                    suffix = fail[suffix]
                fail[child] = children[suffix].get(byte, root)
                queue.append(child)
            suffix = fail[node]
            next_end[node] = suffix if ends[suffix] >= 0 else next_end[suffix]
    return fail, next_end


@inlined
def follow(
    root: int,
    node: int,
    byte: int,
    roots: Array,
    child_start: Array,
    child_byte: Array,
    child_node: Array,
    fail: Array,
) -> int:
    """Return the node after one more byte of a text."""
    while node != root:
        low, high = child_start[node], child_start[node + 1]
        last = high
        while low < high:
            middle = (low + high) >> 1
            if child_byte[middle] < byte:
                low = middle + 1
            else:
                high = middle
        if low < last and child_byte[low] == byte:
            return int(child_node[low])
        node = int(fail[node])
    return int(roots[(root << 8) + byte])


@compiled
def _find(
    root: int,
    start: Array,
    data: Array,
    roots: Array,
    child_start: Array,
    child_byte: Array,
    child_node: Array,
    fail: Array,
    ends: Array,
    next_end: Array,
    seen: Array,
) -> tuple[Array, Array]:
    texts = np.empty(64, np.int32)
    patterns = np.empty(64, np.int32)
    count = 0
    for text in range(len(start) - 1):
        node = root
        for k in range(start[text], start[text + 1]):
            node = follow(root, node, data[k], roots, child_start, child_byte, child_node, fail)
            end = node if ends[node] >= 0 else int(next_end[node])
            while ends[end] >= 0:
                pattern = ends[end]
                if seen[pattern] != text:
                    seen[pattern] = text
                    if count == len(texts):
                        texts = np.concatenate((texts, np.empty(count, np.int32)))
                        patterns = np.concatenate((patterns, np.empty(count, np.int32)))
                    texts[count] = text
                    patterns[count] = pattern
                    count += 1
                end = int(next_end[end])
    return texts[:count], patterns[:count]
