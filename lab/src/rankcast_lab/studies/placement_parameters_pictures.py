"""The picture of the placement-parameters study: a panel per parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast_lab.studies.placement_parameters_runs import GREEDY, GREEDY_ONLINE, PROGRAMME, SEARCH, WORKLOAD, Sweeps

LOOKS: Mapping[str, tuple[str, str]] = {
    GREEDY_ONLINE: (ORANGE, "s"),
    GREEDY: (GREEN, "^"),
    PROGRAMME: (RED, "D"),
    SEARCH: (BLUE, "o"),
    "Balance": (BLACK, "v"),
    "Closest-b": (PURPLE, "P"),
}


def draw_sweeps(figure: Any, found: Sweeps) -> None:
    """Draw all panels."""
    panels = figure.subplots(2, 3)
    _lines(panels[0, 0], found.traffic_by_boxes, "Boxes of a filter", "alpha", "traffic")
    _lines(panels[0, 1], found.traffic_by_delay, "Maximum delay", "delay", "traffic")
    beside = panels[0, 1].twinx()
    shares = found.candidates_by_delay
    beside.plot(list(shares), [100 * share for share in shares.values()], color="#9A9A9A", linestyle=":")
    beside.set_ylabel("candidate brokers, % (dotted)", color="#6A6A6A")
    beside.set_ylim(bottom=0)
    beside.spines[["top"]].set_visible(False)
    _bars(panels[0, 2], found)
    samples = found.factor_by_sample
    panels[1, 0].plot(list(samples), list(samples.values()), color=RED, marker="D")
    for bound, colour in zip(WORKLOAD.betas, (ORANGE, BLACK), strict=True):
        panels[1, 0].axhline(bound, color=colour, linestyle="--", linewidth=1)
    _even_ticks(panels[1, 0], list(samples))
    tidy(panels[1, 0], "Load sample; dashed: limits", "|Sb| / |B|", "load factor of SLP1")
    supers = found.traffic_by_supers
    panels[1, 1].plot(list(supers), list(supers.values()), color=RED, marker="D")
    panels[1, 1].set_ylim(0, 1.1 * max(supers.values()))
    panels[1, 1].yaxis.set_major_formatter("{x:,.0f}")
    tidy(panels[1, 1], "Superinterests", "superinterests / |B|", "traffic of SLP1")
    _evictions(panels[1, 2], found)


def _lines(panel: Any, by: Mapping[Any, Mapping[str, float]], title: str, across: str, up: str) -> None:
    for name in next(iter(by.values())):
        colour, marker = LOOKS[name]
        panel.plot(list(by), [traffic[name] for traffic in by.values()], color=colour, marker=marker, label=name)
    panel.set_ylim(bottom=0)
    panel.legend(fontsize=8, frameon=False, loc="upper center")
    panel.yaxis.set_major_formatter("{x:,.0f}")
    tidy(panel, title, across, up)


def _bars(panel: Any, found: Sweeps) -> None:
    names = list(next(iter(found.factors.values())))
    for at, name in enumerate(names):
        places = [place + 0.25 * (at - 1) for place in range(len(found.factors))]
        heights = [factors[name] for factors in found.factors.values()]
        panel.bar(places, heights, 0.22, color=LOOKS[name][0], label=name)
    panel.set_xticks(range(len(found.factors)), [":".join(map(str, key)) for key in found.factors])
    panel.legend(fontsize=8, frameon=False)
    tidy(panel, "Brokers by region; subscribers 4:1:4", "brokers", "load factor")


def _evictions(panel: Any, found: Sweeps) -> None:
    names = list(found.overloads)
    panel.barh(range(len(names)), [found.overloads[name] for name in names], 0.5, color=ORANGE)
    panel.axvline(WORKLOAD.betas[1], color=BLACK, linestyle="--", linewidth=1, label="limit")
    panel.axvline(found.least_factor, color=BLUE, linestyle=":", linewidth=1.5, label="least possible")
    panel.set_yticks(range(len(names)), names)
    panel.set_xlim(0, 1.5 * max(found.overloads.values()))
    panel.legend(fontsize=8, frameon=False, loc="upper right")
    tidy(panel, "Greedy with eviction", "load factor", "")


def _even_ticks(panel: Any, numbers: Sequence[int]) -> None:
    panel.set_xscale("log")
    panel.set_xticks(numbers, [str(number) for number in numbers])
    panel.minorticks_off()
