"""All substrings of many patterns that occur in a text, in one pass over the text.

The automaton of Aho and Corasick, "Efficient string matching" (CACM 1975), over UTF-8 bytes: a byte occurrence of one
text in another is a character occurrence. Nodes are the prefixes of the patterns; children are kept as a sorted list
per node, except at the root, which nearly every byte of a text visits; `fail` is the longest proper suffix that is a
node; `next_end` jumps to the longest proper suffix that is a whole pattern.

Cost: the text's length plus what is found, times the number of children looked at (a bisection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import compiled, inlined

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Automaton:
    """The arrays of one automaton; node 0 is the root. Patterns are numbered in the order given."""

    root: Array
    child_start: Array
    child_byte: Array
    child_node: Array
    fail: Array
    ends: Array
    next_end: Array

    @staticmethod
    def of(patterns: Sequence[bytes]) -> Automaton:
        """Return the automaton of some distinct patterns, none of them empty."""
        children: list[dict[int, int]] = [{}]
        ends = [-1]
        for number, pattern in enumerate(patterns):
            node = 0
            for byte in pattern:
                following = children[node].get(byte)
                if following is None:
                    following = len(children)
                    children[node][byte] = following
                    children.append({})
                    ends.append(-1)
                node = following
            ends[node] = number
        fail, next_end = _links(children, ends)
        root = np.zeros(256, np.int32)
        for byte, node in children[0].items():
            root[byte] = node
        items = [sorted(own.items()) for own in children]
        start = np.zeros(len(children) + 1, np.int64)
        np.cumsum([len(own) for own in items], out=start[1:])
        flat = [pair for own in items for pair in own]
        return Automaton(
            root,
            start,
            np.array([byte for byte, _ in flat], np.uint8),
            np.array([node for _, node in flat], np.int32),
            np.array(fail, np.int32),
            np.array(ends, np.int32),
            np.array(next_end, np.int32),
        )

    def find(self, start: Array, data: Array) -> tuple[Array, Array]:
        """Return (text, pattern) for every pattern that occurs in every text of a byte table, each pair once."""
        if not len(self.child_byte):
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        pattern_count = int(self.ends.max()) + 1
        found: tuple[Array, Array] = _find(
            start,
            data,
            self.root,
            self.child_start,
            self.child_byte,
            self.child_node,
            self.fail,
            self.ends,
            self.next_end,
            np.full(pattern_count, -1, np.int64),
        )
        return found


def _links(children: list[dict[int, int]], ends: list[int]) -> tuple[list[int], list[int]]:
    """Return the longest proper suffix of every node that is a node, and the longest that is a pattern (0: none)."""
    fail = [0] * len(children)
    next_end = [0] * len(children)
    queue = list(children[0].values())
    for node in queue:
        for byte, child in children[node].items():
            suffix = fail[node]
            while suffix and byte not in children[suffix]:
                suffix = fail[suffix]
            fail[child] = children[suffix].get(byte, 0)
            queue.append(child)
        suffix = fail[node]
        next_end[node] = suffix if ends[suffix] >= 0 else next_end[suffix]
    return fail, next_end


@inlined
def _child(node: int, byte: int, child_start: Array, child_byte: Array, child_node: Array) -> int:
    low, high = child_start[node], child_start[node + 1]
    last = high
    while low < high:
        middle = (low + high) >> 1
        if child_byte[middle] < byte:
            low = middle + 1
        else:
            high = middle
    return child_node[low] if low < last and child_byte[low] == byte else -1


@compiled
def _find(
    start: Array,
    data: Array,
    root: Array,
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
        node = 0
        for k in range(start[text], start[text + 1]):
            byte = data[k]
            while node:
                following = _child(node, byte, child_start, child_byte, child_node)
                if following >= 0:
                    break
                node = int(fail[node])
            node = int(following) if node else int(root[byte])
            end = node if ends[node] >= 0 else int(next_end[node])
            while end:
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
