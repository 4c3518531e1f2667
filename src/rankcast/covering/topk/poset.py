"""The poset of subscriptions: a graph whose edges lead from each filter to those directly below it.

A node is one filter; whoever has an equal filter shares it, each with its rank. There is an edge from one node to
another when the first covers the second and no third lies between them (the Hasse diagram of covering). Roots are the
nodes that none covers; only they need to be known upstream.

An event is matched from the roots: a node that does not accept it hides everything below, which is skipped unless
another way leads there. The paper's name for this graph is the preferential subscription graph (PSG).

Paper: preference-aware publish/subscribe delivery with diversity (PrefSIENA), chapter 5.
Cost: adding compares with all nodes in one pass of a kernel, then looks for the nearest of those found above and below.
"""

from __future__ import annotations

from collections.abc import Hashable, KeysView, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.topk.order import BoxColumns, Order, nearest
from rankcast.model.errors import UnknownIdError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import AttributeValue


@dataclass(slots=True)
class _Node:
    wanted: Filter
    members: dict[Hashable, float] = field(default_factory=dict)
    parents: set[int] = field(default_factory=set)
    children: set[int] = field(default_factory=set)


class PosetWalk(NamedTuple):
    """What matching an event came to: the nodes that accept it, in the order found, and how many were asked."""

    accepting: list[int]
    visited: int


class Poset:
    """Filters of members, each a node between those that cover it and those it covers."""

    def __init__(self, schema: Schema | None = None) -> None:
        self._order = Order(schema=schema)
        self._all = BoxColumns(self._order)
        self._nodes: dict[int, _Node] = {}
        self._node_of: dict[Filter, int] = {}
        self._roots: set[int] = set()
        self._next = 0

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> KeysView[int]:
        """All nodes: a view."""
        return self._nodes.keys()

    @property
    def roots(self) -> frozenset[int]:
        """The nodes that no other covers."""
        return frozenset(self._roots)

    def find(self, wanted: Filter) -> int | None:
        """Return the node of a filter, or None when nobody has it."""
        return self._node_of.get(wanted)

    def filter(self, node: int) -> Filter:
        """Return the filter of a node."""
        return self._node(node).wanted

    def members(self, node: int) -> Mapping[Hashable, float]:
        """Return who has the filter of a node, and with which ranks."""
        return dict(self._node(node).members)

    def parents(self, node: int) -> frozenset[int]:
        """Return the nodes directly above one."""
        return frozenset(self._node(node).parents)

    def children(self, node: int) -> frozenset[int]:
        """Return the nodes directly below one."""
        return frozenset(self._node(node).children)

    def count_above(self, node: int) -> int:
        """Return how many nodes cover one."""
        self._node(node)
        return len(self._order.above(node, self._all))

    def depth(self, node: int) -> int:
        """Return the number of nodes on the longest way from a root to one, both included."""
        above = self._order.above(node, self._all)
        depths: dict[int, int] = {}
        for upper in (*self._order.top_down(above).tolist(), node):
            depths[upper] = 1 + max((depths[parent] for parent in self._node(upper).parents), default=0)
        return depths[node]

    def add(self, member: Hashable, wanted: Filter, rank: float = 1.0) -> int:
        """Give a member a filter, or another rank for one that it has; return the node."""
        node = self._node_of.get(wanted)
        if node is None:
            node = self._insert(wanted)
        self._nodes[node].members[member] = rank
        return node

    def remove(self, member: Hashable, wanted: Filter) -> None:
        """Take a filter from a member; the node goes with its last member."""
        number = self._node_of.get(wanted)
        if number is None or member not in self._nodes[number].members:
            raise UnknownIdError(f"{shown(member)} has no such filter in the poset")
        node = self._nodes[number]
        del node.members[member]
        if not node.members:
            self._delete(number, node)

    def walk(self, attributes: Mapping[str, AttributeValue]) -> PosetWalk:
        """Return all nodes that accept an event: everything below one that does not is skipped."""
        accepting: list[int] = []
        waiting = sorted(self._roots)
        seen = set(waiting)
        visited = 0
        while waiting:
            number = waiting.pop()
            node = self._nodes[number]
            visited += 1
            if node.wanted.accepts(attributes):
                accepting.append(number)
                new = node.children - seen
                seen |= new
                waiting += sorted(new)
        return PosetWalk(accepting, visited)

    def _node(self, number: int) -> _Node:
        if number not in self._nodes:
            raise UnknownIdError(f"there is no node {number} in the poset")
        return self._nodes[number]

    def _insert(self, wanted: Filter) -> int:
        number, self._next = self._next, self._next + 1
        self._order.add(number, wanted)
        parents = self._nearest(self._order.above(number, self._all), upwards=True)
        children = self._nearest(self._order.below(number, self._all), upwards=False)
        for parent in parents:
            between = self._nodes[parent].children & children  # the new node lies on these edges
            self._nodes[parent].children -= between
            self._nodes[parent].children.add(number)
            for child in between:
                self._nodes[child].parents.discard(parent)
        for child in children:
            self._nodes[child].parents.add(number)
            self._roots.discard(child)
        if not parents:
            self._roots.add(number)
        self._nodes[number] = _Node(wanted, parents=parents, children=children)
        self._node_of[wanted] = number
        self._all.add(number)
        return number

    def _delete(self, number: int, node: _Node) -> None:
        del self._nodes[number], self._node_of[node.wanted]
        self._all.remove(number)
        self._roots.discard(number)
        for parent in node.parents:
            self._nodes[parent].children.discard(number)
        for child in node.children:
            self._nodes[child].parents.discard(number)
        for child in node.children:
            # What was above the node is above the child: an edge is due where nothing else lies between.
            others = self._order.above(child, self._all)
            parents = self._nearest(others, upwards=True)
            for parent in parents - self._nodes[child].parents:
                self._nodes[parent].children.add(child)
            self._nodes[child].parents = parents
            if not parents:
                self._roots.add(child)
        self._order.remove(number)

    def _nearest(self, related: Array, *, upwards: bool) -> set[int]:
        """Return, of the nodes above (or below) one, those with none of the others in between."""
        if self._order.partial[related].any():
            return self._nearest_one_by_one(related, upwards=upwards)
        kept = np.empty(len(related), np.int64)
        count = nearest(self._order.boxes.starts, self._order.boxes.ends, related, upwards, kept)
        return set(kept[:count].tolist())

    def _nearest_one_by_one(self, related: Array, *, upwards: bool) -> set[int]:
        group = BoxColumns(self._order)
        for number in related.tolist():
            group.add(number)
        between = self._order.below if upwards else self._order.above
        return {number for number in related.tolist() if not len(between(number, group))}
