"""Scenarios 1.a to 2.c of group cover: one tested box and the rows that cover it, or do not.

Every tested box constrains all attributes, so that open and closed schemas are the same here. Points are drawn
uniformly from the tested box in values, as in the paper; d is worked out with the printed estimate of the open share,
and with the sound one beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import TypeAlias

import numpy as np

from rankcast.covering.conflicts import (
    ConflictTable,
    Estimate,
    MinimisedRows,
    Reason,
    exact_cover,
    minimised_cover_set,
    open_share,
    points_needed,
    quick_decision,
    random_cover,
)
from rankcast_lab.engines.chains import chain_probability, held_back
from rankcast_lab.studies.findings import Settings
from rankcast_lab.workloads.group_cover import (
    CoverCase,
    extreme_non_cover,
    no_intersection,
    non_cover,
    pairwise_cover,
    redundant_cover,
)

ATTRIBUTES = (10, 15, 20)
ROWS = tuple(range(10, 311, 30))
DELTA = 1e-10
DELTAS = (1e-3, 1e-6, 1e-10)
GAPS = tuple(round(0.005 * step, 3) for step in range(1, 10))
EXTREME_ROWS, EXTREME_ATTRIBUTES = 50, 5
BUDGET, PROBES = 100_000, 100
CHAIN_BROKERS, CHAIN_PUBLISHED, CHAIN_GAP, CHAIN_DELTA = 10, 0.1, 0.005, 0.1

Draw: TypeAlias = Callable[[np.random.Generator, int, int], CoverCase]


@dataclass(frozen=True, slots=True)
class Redundant:
    """Scenario 1.b for one m and k, means over runs: share of redundant rows removed, and log10 of d."""

    attributes: int
    rows: int
    removed: float
    before: float
    after: float
    sound_after: float
    wrong: int


@dataclass(frozen=True, slots=True)
class Extreme:
    """Scenario 2.c for one gap: false covers and mean points tried by delta; wrong answers and time of the search."""

    gap: float
    runs: int
    false_covers: tuple[int, ...]
    guesses: tuple[float, ...]
    exact_wrong: int
    exact_microseconds: float


@dataclass(frozen=True, slots=True)
class Chain:
    """Proposition 4: the chance of finding a publication as worked out, and as a simulation found it."""

    expected: float
    simulated: float
    runs: int


def table_of(case: CoverCase) -> ConflictTable:
    """Return the conflict table of a case."""
    return ConflictTable.closed(case.tested.lows[0], case.tested.highs[0], case.rows.lows, case.rows.highs)


def redundant_covers(settings: Settings, generator: np.random.Generator) -> list[Redundant]:
    """Measure scenario 1.b."""
    runs = 20 if settings.quick else 300
    found = []
    for attributes in ATTRIBUTES:
        for rows in ROWS:
            settings.say(f"redundant covering, m={attributes}, k={rows}")
            found.append(_redundant(generator, attributes, rows, runs))
    return found


def _redundant(generator: np.random.Generator, attributes: int, rows: int, runs: int) -> Redundant:
    sums, wrong = np.zeros(4), 0
    for _ in range(runs):
        case = redundant_cover(generator, rows, attributes)
        table = table_of(case)
        kept = minimised_cover_set(table)
        before = points_needed(open_share(table, np.arange(rows), Estimate.PRINTED), DELTA)
        after, sound = (points_needed(open_share(table, kept.kept, one), DELTA) for one in reversed(Estimate))
        removed = 1 - case.redundant[kept.kept].sum() / case.redundant.sum()
        sums += (removed, math.log10(before), math.log10(after), math.log10(sound))
        wrong += not exact_cover(table, BUDGET, PROBES, generator, kept).covered
    removed, before, after, sound = (sums / runs).tolist()
    return Redundant(attributes, rows, removed, before, after, sound, wrong)


def settled_quickly(settings: Settings, generator: np.random.Generator) -> dict[str, float]:
    """Return which share of scenarios 1.a, 2.a and 2.b needs no points: a single cover, or no rows left."""
    runs = 5 if settings.quick else 50
    scenarios: dict[str, tuple[Draw, bool]] = {
        "1.a": (pairwise_cover, True),
        "2.a": (no_intersection, False),
        "2.b": (non_cover, False),
    }
    shares = {}
    for name, (draw, covered) in scenarios.items():
        settings.say(f"scenario {name}")
        tables = [table_of(draw(generator, rows, m)) for m in ATTRIBUTES for rows in ROWS for _ in range(runs)]
        settled = [quick_decision(table) for table in tables]
        reason = Reason.ONE_COVERS if covered else Reason.ROWS_LEFT
        shares[name] = sum(one is not None and one.reason is reason for one in settled) / len(settled)
    return shares


def points_of_non_covers(settings: Settings, generator: np.random.Generator) -> float:
    """Return the largest mean number of points tried in scenario 2.b, over all m and k."""
    runs = 5 if settings.quick else 100
    means = []
    for attributes in ATTRIBUTES:
        for rows in ROWS:
            settings.say(f"non-cover, m={attributes}, k={rows}")
            tables = (table_of(non_cover(generator, rows, attributes)) for _ in range(runs))
            tried = [random_cover(table, DELTA, generator, Estimate.PRINTED).points for table in tables]
            means.append(sum(tried) / runs)
    return max(means)


def extreme_non_covers(settings: Settings, generator: np.random.Generator) -> list[Extreme]:
    """Measure scenario 2.c."""
    runs = 100 if settings.quick else 3_000
    found = []
    for gap in GAPS:
        settings.say(f"extreme non-cover, gap {gap:.1%}")
        false_covers, guesses = np.zeros(len(DELTAS), np.int64), np.zeros(len(DELTAS))
        wrong, seconds = 0, 0.0
        for _ in range(runs):
            table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, gap))
            for at, delta in enumerate(DELTAS):
                answer = random_cover(table, delta, generator, Estimate.PRINTED)
                false_covers[at] += answer.covered
                guesses[at] += answer.points / runs
            start = process_time()
            exact = exact_cover(table, BUDGET, PROBES, generator)
            seconds += process_time() - start
            wrong += exact.covered or exact.point is None
        false, tried = tuple(false_covers.tolist()), tuple(guesses.tolist())
        found.append(Extreme(gap, runs, false, tried, wrong, 1e6 * seconds / runs))
    return found


def sound_false_covers(settings: Settings, generator: np.random.Generator) -> tuple[int, int, float]:
    """Return false covers with the sound estimate at the smallest gap and largest delta, of how many, and mean d."""
    runs, false, needed = 50 if settings.quick else 1_000, 0, 0.0
    settings.say("extreme non-cover, sound estimate")
    for _ in range(runs):
        table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, GAPS[0]))
        kept = minimised_cover_set(table)
        needed += points_needed(open_share(table, kept.kept), DELTAS[0]) / runs
        false += random_cover(table, DELTAS[0], generator, Estimate.SOUND, kept).covered
    return false, runs, needed


def simulated_chain(settings: Settings, generator: np.random.Generator) -> Chain:
    """Send one subscription along chains of brokers, each of which tests it with points of its own."""
    runs = 300 if settings.quick else 5_000
    settings.say("a chain of brokers")
    table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, CHAIN_GAP))
    rows = MinimisedRows(np.arange(len(table)), len(table))
    points = math.ceil(points_needed(open_share(table, rows.kept, Estimate.PRINTED), CHAIN_DELTA))
    found = 0
    for _ in range(runs):
        for _broker in range(CHAIN_BROKERS):
            if generator.random() < CHAIN_PUBLISHED:
                found += 1
                break
            if random_cover(table, CHAIN_DELTA, generator, Estimate.PRINTED, rows).covered:
                break
    expected = chain_probability(CHAIN_BROKERS, CHAIN_PUBLISHED, held_back(CHAIN_GAP, points))
    return Chain(expected, found / runs, runs)
