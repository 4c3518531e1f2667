"""Diverse selection: Table 4.1, the examples of Figure 4.1 and section 4.2, and what selection costs.

Thesis: PrefSIENA, chapter 4 and Figure 6.9b.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, mark_numbers, tidy
from rankcast_lab.studies import diversity_cost, diversity_examples, diversity_table
from rankcast_lab.studies.diversity_cost import BUFFERS, KS, Costs
from rankcast_lab.studies.diversity_table import METHODS, PUBLISHED, Cell
from rankcast_lab.studies.findings import Outcome, Settings


def run(settings: Settings) -> Outcome:
    """Measure the table and the costs, and follow the examples."""
    generator = np.random.default_rng(settings.seed)
    cells = diversity_table.measured(settings, generator)
    costs = diversity_cost.measured(settings, generator)
    return Outcome(
        "diversity",
        "Diverse selection",
        (
            *diversity_table.findings(cells),
            *diversity_examples.findings(),
            *diversity_cost.findings(costs, compared=not settings.quick),
        ),
        (
            "Table 4.1 is headed by the mean distance of pairs and prints sums: its numbers for k = 4 and 8 are above "
            "100, the largest distance there is. Read as sums they hold; the means are beside them. The number of sets "
            "behind the table is not published; it is judged as a mean of 100 sets.",
            "The printed Property 4.1 divides by |L| where the mean over one event more needs |L| + 1; Figure 4.1 "
            "follows from the corrected one. Ties go to the older event there, unlike everywhere else.",
            "Section 4.2 looks at full windows. Sliding delivery looks at partial windows too, as everywhere in "
            "rankcast, so e2 has been delivered before the first window is full.",
            "Brute force needs one addition for each choice of k events here, and the published hours are those of "
            "another machine and program; what compares is that its time explodes with k.",
        ),
        partial(_draw, cells=cells, costs=costs),
        size=(13.0, 9.0),
    )


def _draw(figure: Any, cells: list[Cell], costs: Costs) -> None:
    (table, rounds), (buffers, ks) = figure.subplots(2, 2)
    _draw_table(table, cells)
    _draw_rounds(rounds)
    _draw_buffers(buffers, costs)
    _draw_ks(ks, costs)


def _draw_table(panel: Any, cells: list[Cell]) -> None:
    for at, (method, colour, marker) in enumerate(zip(METHODS, (BLUE, GREEN, RED), "os^", strict=True)):
        across = [place + 0.22 * (at - 1) for place in range(len(cells))]
        panel.plot(across, [cell.means[at] / cell.pairs for cell in cells], marker, color=colour, label=method)
        published = [PUBLISHED[cell.q, cell.k][at] / cell.pairs for cell in cells]
        named = "published sum / pairs" if at == 2 else None
        panel.plot(across, published, "_", color=BLACK, markersize=16, label=named)
    panel.set_xticks(range(len(cells)), [f"q={cell.q}\nk={cell.k}" for cell in cells])
    panel.set_ylim(0, 112)
    tidy(panel, "Table 4.1: distance of the selected, mean over pairs", "", "mean distance")
    panel.legend(frameon=False, ncols=4, loc="upper center", columnspacing=1.0, handletextpad=0.3)


def _draw_rounds(panel: Any) -> None:
    """Show Figure 4.1 as curves: the divrank of every event until it is selected."""
    rounds, selected = diversity_examples.trace(), diversity_examples.selection()
    styles = dict(enumerate(zip((BLACK, BLUE, GREEN, PURPLE, ORANGE, RED), "osv^Dx", strict=True), start=1))
    for event, (colour, marker) in styles.items():
        shift = 0.03 * (event - 3.5)
        found = [(number + 2 + shift, divranks[event]) for number, divranks in enumerate(rounds) if event in divranks]
        if event == 1:
            found = [(1 + shift, diversity_examples.RANKS[0])]
        across, up = zip(*found, strict=True)
        name = f"e{event} {diversity_examples.GENRES[event - 1]}"
        panel.plot(across, up, "-", color=colour, marker=marker, label=name, alpha=0.9)
        if event in selected:
            panel.plot(across[-1], up[-1], "o", color=colour, markersize=15, fillstyle="none", markeredgewidth=1.6)
    panel.set_xticks([1, 2, 3, 4])
    panel.set_xlim(0.6, 5.6)
    panel.set_ylim(0.55, 0.95)
    tidy(panel, "Figure 4.1: divranks round by round (ringed: selected)", "round", "divrank")
    panel.legend(frameon=False, loc="center right")


def _draw_buffers(panel: Any, costs: Costs) -> None:
    for k, colour, marker in zip(KS, (BLUE, GREEN, ORANGE, RED), "osD^", strict=True):
        found = [1e3 * costs.heuristic[buffer, k] for buffer in BUFFERS]
        panel.plot(BUFFERS, found, "-", color=colour, marker=marker, label=f"k = {k}")
    panel.set_xlim(0)
    panel.set_ylim(0)
    tidy(panel, "Heuristic: time against the size of the buffer", "events in the buffer", "milliseconds")
    panel.legend(frameon=False)


def _draw_ks(panel: Any, costs: Costs) -> None:
    for buffer, colour, marker in ((500, BLUE, "o"), (1000, GREEN, "s"), (2000, ORANGE, "D")):
        found = [costs.heuristic[buffer, k] for k in KS]
        panel.plot(KS, found, "-", color=colour, marker=marker, label=f"heuristic, buffer {buffer}")
    searched = list(costs.search.items())
    panel.plot(*zip(*searched, strict=True), "--", color=RED, marker="^", label="brute force, buffer 40")
    panel.set_xscale("log")
    panel.set_yscale("log")
    mark_numbers(panel.xaxis, [2, 4, 6, 8, 12, 20, 40])
    tidy(panel, "Time against k", "k", "seconds")
    panel.legend(frameon=False)
