"""Table 4.1 of the thesis: how diverse are k random numbers, the greedy k, and the best k?

Events are numbers from 0 to 100, their distance is the difference. The table prints sums over pairs under the name of
a mean; both are here. It does not say over how many sets its numbers are means: they are judged as means of 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from rankcast.ranking.diversity import diverse_best
from rankcast_lab.studies.diversity_search import Array, largest_sum
from rankcast_lab.studies.findings import Finding, Settings

PUBLISHED = {
    (20, 2): (35.76, 71.88, 90.45),
    (20, 4): (193.23, 330.69, 349.27),
    (20, 8): (938.72, 1302.50, 1314.64),
    (40, 2): (34.14, 74.86, 95.86),
    (40, 4): (200.35, 353.78, 375.84),
    (40, 8): (944.63, 1427.09, 1447.93),
}
"""Sums over pairs by (q, k): random, heuristic, brute force."""

METHODS = ("random", "heuristic", "best")
ASSUMED_SETS = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table: means and standard deviations of the sums over pairs, by method.

    `reached` is the share of the best that the heuristic reaches, on the sets for which the best is known.
    """

    q: int
    k: int
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    reached: float

    @property
    def pairs(self) -> int:
        """How many pairs k events have."""
        return comb(self.k, 2)


def measured(settings: Settings, generator: np.random.Generator) -> list[Cell]:
    """Measure every line of the table."""
    drawn, searched = (200, 10) if settings.quick else (2_000, 60)
    cells = []
    for q, k in PUBLISHED:
        settings.say(f"Table 4.1, q={q}, k={k}")
        sums: tuple[list[float], ...] = ([], [], [])
        for number in range(drawn):
            values = generator.uniform(0, 100, q)
            distances = np.abs(values[:, None] - values)
            sums[0].append(_sum(distances, generator.choice(q, k, replace=False)))
            sums[1].append(_sum(distances, np.array(greedy(distances, k))))
            if number < searched:
                sums[2].append(largest_sum(distances, k))
        means, deviations = (tuple(float(of(one)) for one in sums) for of in (np.mean, np.std))
        cells.append(Cell(q, k, means, deviations, sum(sums[1][:searched]) / sum(sums[2])))
    return cells


def greedy(distances: Array, k: int) -> list[int]:
    """Return the positions that the heuristic selects when only distances count; the first one is any."""
    count = len(distances)
    return diverse_best(range(count), [0.0] * count, k, 0.0, lambda one, other: float(distances[one, other]))


def findings(cells: list[Cell]) -> list[Finding]:
    """Compare with the published table."""
    rows = []
    for cell in cells:
        name, pairs = f"q={cell.q}, k={cell.k}", cell.pairs
        for method, published, mean, deviation in zip(
            METHODS, PUBLISHED[cell.q, cell.k], cell.means, cell.deviations, strict=True
        ):
            margin = 3 * deviation / ASSUMED_SETS**0.5
            rows.append(Finding.near(f"{name}: {method}, sum over pairs", published, mean, margin))
        means = " / ".join(f"{mean / pairs:.1f}" for mean in cell.means)
        rows.append(Finding(f"{name}: means over pairs", None, means, None))
    above = [cell.means[1] / cell.means[0] for cell in cells]
    below = [cell.reached for cell in cells]
    rows.append(
        Finding("heuristic / random", "much better", f"{min(above):.2f} to {max(above):.2f}", min(above) > 1.25)
    )
    shares = f"{min(below):.2f} to {max(below):.2f}"
    rows.append(Finding("heuristic / best", "slightly smaller", shares, min(below) > 0.75 and max(below) <= 1))
    return rows


def _sum(distances: Array, chosen: Array) -> float:
    return float(distances[np.ix_(chosen, chosen)].sum() / 2)
