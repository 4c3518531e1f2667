"""What diverse selection costs: Figure 6.9b of the thesis, time against the size of the buffer and against k.

The heuristic is timed on films as the thesis publishes them, once they are coded, by the kernel that delivery uses.
Brute force is timed on a buffer of 40, by a search that needs one addition per choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.delivery.diverse_selection import selected_by_kernel, selection_arrays
from rankcast.model.diversity import Diversity
from rankcast_lab.bench.timing import best_of
from rankcast_lab.studies.diversity_search import largest_sum
from rankcast_lab.studies.findings import Finding, Settings

BUFFERS = (100, 200, 500, 1000, 2000)
KS = (5, 10, 20, 40)
ATTRIBUTES = ("genre", "length", "mpaa", "rating", "title", "votes", "year")
DIFFERENT = (10, 90, 4, 70, 100_000, 1_000, 80)
"""How many values each attribute takes."""

CALLS = 20
"""Selections that are timed together: one is a matter of microseconds."""

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
    drawn = [generator.integers(0, values, buffer).tolist() for values in DIFFERENT]
    films = [tuple(zip(ATTRIBUTES, film, strict=True)) for film in zip(*drawn, strict=True)]
    arrays = selection_arrays(films, generator.random(buffer).tolist(), Diversity())

    def select() -> None:
        for _ in range(CALLS):
            selected_by_kernel(arrays, k)

    select()  # compiled before it is timed
    return best_of(repeats, select) / CALLS


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
