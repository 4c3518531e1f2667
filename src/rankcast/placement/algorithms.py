"""All placement algorithms by name."""

from __future__ import annotations

from enum import Enum

import numpy as np

from rankcast.placement.greedy import (
    balance,
    closest,
    closest_without_balance,
    greedy_offline,
    greedy_online,
    greedy_without_latency,
)
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.programme.slp import place_by_programme
from rankcast.placement.search import MOST_TRIES, Progress, anneal, exchange

MOVES_PER_SUBSCRIBER, FEWEST_MOVES = 10, 20_000
"""How long local search goes on unless it is told."""


class Algorithm(Enum):
    """The algorithms; what the paper calls them is said beside each."""

    GREEDY_ONLINE = "greedy-online"  # Gr
    GREEDY_OFFLINE = "greedy-offline"  # Gr*
    GREEDY_WITHOUT_LATENCY = "greedy-without-latency"  # Gr-l
    CLOSEST_WITHOUT_BALANCE = "closest-without-balance"  # Closest-b
    CLOSEST = "closest"  # Closest
    BALANCE = "balance"  # Balance
    PROGRAMME = "programme"  # SLP1 on one level, SLP on several
    LOCAL_SEARCH = "local-search"  # not in the paper; starts from greedy-offline, ends with exchanges


def place(
    problem: PlacementProblem,
    algorithm: Algorithm,
    random: np.random.Generator,
    moves: int | None = None,
    progress: Progress | None = None,
) -> Placement:
    """Place by an algorithm; `moves` and `progress` are those of local search. A seed gives one placement."""
    match algorithm:
        case Algorithm.GREEDY_ONLINE:
            return greedy_online(problem)
        case Algorithm.GREEDY_OFFLINE:
            return greedy_offline(problem)
        case Algorithm.GREEDY_WITHOUT_LATENCY:
            return greedy_without_latency(problem)
        case Algorithm.CLOSEST_WITHOUT_BALANCE:
            return closest_without_balance(problem, random)
        case Algorithm.CLOSEST:
            return closest(problem, random)
        case Algorithm.BALANCE:
            return balance(problem, random)
        case Algorithm.PROGRAMME:
            return place_by_programme(problem, random).placement
    tried = max(FEWEST_MOVES, MOVES_PER_SUBSCRIBER * len(problem)) if moves is None else moves
    found = anneal(problem, greedy_offline(problem), random, tried, progress)
    return exchange(problem, found, random, min(tried, MOST_TRIES))
