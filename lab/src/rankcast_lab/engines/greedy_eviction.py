"""Online greedy placement that makes room by chance: the variants of Gr that the paper tried and found wanting.

Subscribers are placed one after the other where filters grow least. When all candidates of one are full, somebody is
taken out of one of them at random to make room, and is placed again next, or after all others. Nothing says that this
ends: it is given up after so many steps, and whoever has no place then goes where filters grow least all the same.

Filters only grow while it runs; in the end they are fitted to those who stayed. Cost: some hundred microseconds a step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.dynamic.dynamic import LivingFilters
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.programme.fitting import fit_filters


class Again(Enum):
    """When those who were taken out are placed again."""

    NEXT = "next"
    LAST = "last"


@dataclass(frozen=True, slots=True, eq=False)
class Evicting:
    """A placement, how many were taken out on the way, and how many had no place when it was given up."""

    placement: Placement
    evicted: int
    homeless: int


def greedy_with_eviction(problem: PlacementProblem, random: np.random.Generator, again: Again, steps: int) -> Evicting:
    """Place in the order of numbers, at most so many times; loads are held against `beta_max`."""
    filters = LivingFilters(problem.tree, problem.boxes_of_brokers, problem.interests.attributes, problem.density)
    rooms = problem.rooms(problem.beta_max)
    columns_of = [np.flatnonzero(row & (problem.shares_of_leaves > 0)) for row in problem.candidates]
    members: list[list[int]] = [[] for _ in rooms]
    column_of = np.full(len(problem), -1)
    waiting = deque(range(len(problem)))
    lost: list[int] = []
    evicted = 0
    while waiting and steps > 0:
        steps -= 1
        subscriber = waiting.popleft()
        columns = columns_of[problem.site_of[subscriber]]
        loads = np.array([len(members[column]) for column in columns])
        is_open = loads < rooms[columns]
        if not is_open.any() and not loads.any():  # leaves without any room at this number of subscribers
            lost.append(subscriber)
            continue
        if not is_open.any():
            column = int(random.choice(columns[loads > 0]))
            out = members[column].pop(int(random.integers(len(members[column]))))
            column_of[out] = -1
            evicted += 1
            (waiting.appendleft if again is Again.NEXT else waiting.append)(out)
            waiting.appendleft(subscriber)
            continue
        column = _cheapest(problem, filters, subscriber, columns[is_open], loads[is_open])
        filters.let_in(int(problem.tree.leaves[column]), problem.interests.parts(int(problem.interest_of[subscriber])))
        members[column].append(subscriber)
        column_of[subscriber] = column
    lost += waiting
    for subscriber in lost:
        columns = columns_of[problem.site_of[subscriber]]
        column_of[subscriber] = _cheapest(problem, filters, subscriber, columns, np.zeros(len(columns)))
    return Evicting(fit_filters(problem, column_of, random), evicted, len(lost))


def _cheapest(problem: PlacementProblem, filters: LivingFilters, subscriber: int, columns: Array, loads: Array) -> int:
    parts = problem.interests.parts(int(problem.interest_of[subscriber]))
    costs = filters.growths(problem.tree.leaves[columns], parts)
    return int(columns[np.lexsort((loads / problem.shares_of_leaves[columns], costs))[0]])
