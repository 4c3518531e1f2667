"""Diverse selection: Table 4.1, the examples of Figure 4.1 and section 4.2, and what selection costs.

Thesis: PrefSIENA, chapter 4 and Figure 6.9b.

The most diverse k of some events by trying them all: what the greedy selection is measured against. All choices of k
events are visited in depth-first order. The sums of distances from every event to what is chosen are kept per depth, so
that a complete choice costs one addition, not k (k - 1) / 2 distances as in the published count. Cost: C(q, k)
additions.

Table 4.1 of the thesis: how diverse are k random numbers, the greedy k, and the best k? Events are numbers from 0 to
100, their distance is the difference. The table prints sums over pairs under the name of a mean; both are here. It does
not say over how many sets its numbers are means: they are judged as means of 100.

What diverse selection costs: Figure 6.9b of the thesis, time against the size of the buffer and against k. The
heuristic is timed on films as the thesis publishes them, once they are coded, by the kernel that delivery uses. Brute
force is timed on a buffer of 40, by a search that needs one addition per choice.

The two worked examples of the thesis: the trace of Figure 4.1, and the windows of section 4.2. Section 4.2 shows that
two events can be new in one window. It looks at full windows only; sliding delivery looks at partial ones too, so the
same four events are delivered one at a time, e2 before the first window is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import comb
from typing import Any

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import (
    Candidate,
    Queue,
    diverse_selection,
    selected_by_kernel,
    selection_arguments,
    step,
)
from rankcast.model.events import Identity
from rankcast.model.policies import Diversity, Sliding
from rankcast.model.values import Value
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, mark_numbers, tidy
from rankcast.ranking.diversity import diverse_best
from rankcast_lab.bench.timing import best_of
from rankcast_lab.studies.findings import Finding, Outcome, Settings

# Search


def largest_sum(distances: Array, k: int) -> float:
    """Return the largest sum of distances over the pairs of k events, given the matrix of their distances.

    >>> numbers = np.array([0.0, 1.0, 5.0, 9.0])
    >>> largest_sum(np.abs(numbers[:, None] - numbers), 3)
    18.0
    """
    if k < 2 or k > len(distances):
        return 0.0 if k < 2 else largest_sum(distances, len(distances))
    return _search(np.ascontiguousarray(distances, np.float64), k)


@compiled
def _search(distances: Array, k: int) -> float:
    count = len(distances)
    to_chosen = np.zeros((k, count))  # row d: from each event to the d events that are chosen at depth d
    totals, places = np.zeros(k), np.zeros(k, np.int64)
    best, depth = 0.0, 0
    while depth >= 0:
        place = places[depth]
        if place > count - (k - depth):
            depth -= 1
            continue
        if depth == k - 1:
            row, total = to_chosen[depth], totals[depth]
            for last in range(place, count):
                best = max(best, total + row[last])
            depth -= 1
            continue
        places[depth] = place + 1
        totals[depth + 1] = totals[depth] + to_chosen[depth, place]
        for other in range(place + 1, count):
            to_chosen[depth + 1, other] = to_chosen[depth, other] + distances[place, other]
        places[depth + 1] = place + 1
        depth += 1
    return best


# Table 4.1

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


def measured_table(settings: Settings, generator: np.random.Generator) -> list[Cell]:
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


def table_findings(cells: list[Cell]) -> list[Finding]:
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


# Costs

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


def measured_costs(settings: Settings, generator: np.random.Generator) -> Costs:
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
    arguments, ranks = selection_arguments(films, Diversity()), generator.random(buffer).tolist()

    def select() -> None:
        for _ in range(CALLS):
            selected_by_kernel(arguments, ranks, k)

    select()  # compiled before it is timed
    return best_of(repeats, select) / CALLS


def cost_findings(costs: Costs, *, compared: bool) -> list[Finding]:
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


# Examples

GENRES = ("comedy", "drama", "drama", "drama", "horror", "sci-fi")
RANKS = (0.9, 0.75, 0.75, 0.75, 0.65, 0.6)
TRACE = (
    {2: 0.875, 3: 0.875, 4: 0.875, 5: 0.825, 6: 0.8},
    {3: 0.625, 4: 0.625, 5: 0.825, 6: 0.8},
    {3: 0.708, 4: 0.708, 6: 0.8},
)
"""The published divranks by event in the rounds after the first."""

FILMS = (("horror", "Burton"), ("horror", "Hitchcock"), ("drama", "Spielberg"), ("drama", "Tarantino"))
FILM_RANKS = (0.9, 0.85, 0.8, 0.9)
HALF = Diversity(sigma=0.5)

Content = tuple[tuple[str, Value], ...]


def trace() -> list[dict[int, float]]:
    """Return the divranks of Figure 4.1 by event, round after round, from the definition of a mean distance."""
    events = [{"genre": genre} for genre in GENRES]
    rounds = []
    selected = diverse_selection([tuple(event.items()) for event in events], RANKS, 4, HALF)
    for count in range(1, len(selected)):
        before = selected[:count]
        rounds.append(
            {
                at + 1: HALF.sigma * RANKS[at]
                + (1 - HALF.sigma) * sum(HALF.distance(events[at], events[one]) for one in before) / count
                for at in range(len(events))
                if at not in before
            }
        )
    return rounds


def selection() -> list[int]:
    """Return the events of Figure 4.1 that are selected, in order."""
    contents: list[Content] = [(("genre", genre),) for genre in GENRES]
    return [at + 1 for at in diverse_selection(contents, RANKS, 4, HALF)]


def window(first: int) -> list[int]:
    """Return the two events of section 4.2 that are selected from the window of three that begins with one."""
    contents = [_film(event) for event in range(first, first + 3)]
    return [first + at for at in diverse_selection(contents, FILM_RANKS[first - 1 : first + 2], 2, HALF)]


def slid() -> list[list[int]]:
    """Return what sliding delivery makes of the four events, match by match."""
    queue: Queue = new_queue(Sliding(k=2, window=3, diversity=HALF))
    found = []
    for event, rank in enumerate(FILM_RANKS, start=1):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=event)
        queue, delivered = step(queue, Candidate(Identity("films", str(event)), now, rank, content=_film(event)), now)
        found.append([_number(one.candidate) for one in delivered])
    return found


def example_findings() -> list[Finding]:
    """Compare with the published examples."""
    rows = [
        Finding(f"Figure 4.1: divranks, round {number}", _numbers(published), _numbers(ours), _close(published, ours))
        for number, (published, ours) in enumerate(zip(TRACE, trace(), strict=True), start=2)
    ]
    first, second = window(1), window(2)
    new = sorted(set(second) - set(first))
    return [
        *rows,
        Finding("Figure 4.1: selected", "e1 e2 e5 e6", _events(selection()), selection() == [1, 2, 5, 6]),
        Finding("section 4.2: first window", "e1 e3", _events(first), first == [1, 3]),
        Finding("section 4.2: second window", "e4 e2", _events(second), second == [4, 2]),
        Finding("section 4.2: new in the second window", "e2 e4", _events(new), new == [2, 4]),
        Finding("section 4.2: sliding delivery, match by match", None, " / ".join(map(_events, slid())), None),
    ]


def _film(event: int) -> Content:
    genre, director = FILMS[event - 1]
    return (("director", director), ("genre", genre))


def _numbers(divranks: dict[int, float]) -> str:
    return " ".join(f"{divrank:.3f}"[1:] for divrank in divranks.values())


def _close(published: dict[int, float], ours: dict[int, float]) -> bool:
    return published.keys() == ours.keys() and all(abs(published[at] - ours[at]) < 0.0005 for at in published)


def _events(events: Sequence[int]) -> str:
    return " ".join(f"e{event}" for event in events) or "-"


# The study


def run(settings: Settings) -> Outcome:
    """Measure the table and the costs, and follow the examples."""
    generator = np.random.default_rng(settings.seed)
    cells = measured_table(settings, generator)
    costs = measured_costs(settings, generator)
    return Outcome(
        "diversity",
        "Diverse selection",
        (
            *table_findings(cells),
            *example_findings(),
            *cost_findings(costs, compared=not settings.quick),
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
    rounds, selected = trace(), selection()
    styles = dict(enumerate(zip((BLACK, BLUE, GREEN, PURPLE, ORANGE, RED), "osv^Dx", strict=True), start=1))
    for event, (colour, marker) in styles.items():
        shift = 0.03 * (event - 3.5)
        found = [(number + 2 + shift, divranks[event]) for number, divranks in enumerate(rounds) if event in divranks]
        if event == 1:
            found = [(1 + shift, RANKS[0])]
        across, up = zip(*found, strict=True)
        name = f"e{event} {GENRES[event - 1]}"
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


def _number(candidate: Candidate) -> int:
    assert isinstance(candidate.identity, Identity)
    return int(candidate.identity.id)
