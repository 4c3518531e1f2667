"""What diverse selection costs: Figure 6.9b of the thesis, time against the size of the buffer and against k.

The heuristic is timed on films as the thesis publishes them, by the kernel that delivery uses. Brute force is timed on
a buffer of 40, by a search that needs one addition per choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.bench.timing import best_of
from rankcast.delivery.kernels_diversity import select_diverse
from rankcast.studies.diversity_search import Array, largest_sum
from rankcast.studies.findings import Finding, Settings

BUFFERS = (100, 200, 500, 1000, 2000)
KS = (5, 10, 20, 40)
ATTRIBUTES = ("year", "length", "rating", "votes", "mpaa", "genre", "title")
DIFFERENT = (80, 90, 70, 1000, 4, 10, 100_000)
"""How many values each attribute takes."""

SEARCHED = 40
"""The buffer of the published brute force, which took over two hours for k = 12."""

SEARCHED_KS, QUICK_SEARCHED_KS = (2, 4, 6, 8, 10, 12), (2, 4, 6)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds: of the heuristic by (buffer, k), of brute force by k."""

    heuristic: dict[tuple[int, int], float]
    search: dict[int, float]


def measured(settings: Settings, generator: np.random.Generator) -> Costs:
    """Time the heuristic for every buffer and k, and brute force for every k."""
    heuristic = {}
    for buffer in BUFFERS:
        settings.say(f"buffer of {buffer}")
        for k in KS:
            heuristic[buffer, k] = _heuristic(generator, buffer, k, repeats=5 if settings.quick else 25)
    search = {}
    values = generator.uniform(0, 100, SEARCHED)
    distances = np.abs(values[:, None] - values)
    largest_sum(distances[:4, :4], 2)  # compiled before it is timed
    for k in QUICK_SEARCHED_KS if settings.quick else SEARCHED_KS:
        settings.say(f"brute force, k={k}")
        search[k] = best_of(1 if k > 8 else 3, lambda k=k: largest_sum(distances, k))  # type: ignore[misc]
    return Costs(heuristic, search)


def _heuristic(generator: np.random.Generator, buffer: int, k: int, repeats: int) -> float:
    weights = np.ones(len(ATTRIBUTES))
    codes = np.array([generator.integers(1, values, buffer, endpoint=True) for values in DIFFERENT])
    ranks = generator.random(buffer)
    none: Array = np.zeros(0, np.int64)
    selected, divranks = np.empty(k, np.int64), np.empty(k)

    def select() -> None:
        select_diverse(ranks, 0.5, weights, float(len(weights)), codes, none, none, none, none, selected, divranks)

    select()
    return best_of(repeats, select)


def findings(costs: Costs, *, compared: bool) -> list[Finding]:
    """Compare the shapes with the published ones."""
    by_buffer = costs.heuristic[2000, 20] / costs.heuristic[500, 20] / 4
    by_k = costs.heuristic[1000, 40] / costs.heuristic[1000, 10] / 4
    last = max(costs.search)
    growth = costs.search[last] / costs.search[last - 2]
    linear = costs.heuristic[1000, 20] / costs.heuristic[1000, 10]
    rows = [
        Finding("milliseconds, buffer 1000, k=20", None, 1e3 * costs.heuristic[1000, 20], None),
        Finding("time of buffer 2000 / 500, over 4", "1 (linear)", by_buffer, 0.6 <= by_buffer <= 1.5),
        Finding("time of k=40 / k=10, over 4", "1 (linear)", by_k, 0.6 <= by_k <= 1.5),
        Finding(f"brute force, time of k={last} / k={last - 2}", "much faster growth", growth, growth > 3 * linear),
    ]
    published = "over 7200" if compared else None
    return [*rows, Finding(f"brute force, seconds, buffer {SEARCHED}, k={last}", published, costs.search[last], None)]
