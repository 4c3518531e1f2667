"""What the thesis says about number, rank, diversity and freshness of deliveries, and what is measured here.

The figures themselves are not at hand, only what the text says of them. A number holds when it lies within the
middle half of the readers, which is shown with their median; a statement holds when the means over all readers bear it
out. The three numbers that depend on the reader are given twice: for fitted readers, which they were used to choose,
and for a control group that was chosen without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import numpy as np

from rankcast_lab.studies.findings import Finding
from rankcast_lab.studies.preferences_data import PUBLISHED_RANK, RANK_MARGIN, Scenario
from rankcast_lab.studies.preferences_runs import DIVERSE, SIGMA_K, SPANS, Case, Result, Timing
from rankcast_lab.workloads.preferences import Constants

Quantity: TypeAlias = Callable[[Result], float]

PUBLISHED_CONTINUOUS = {4: 0.09, 20: 0.29}
"""The share that is delivered one by one in random order, by k."""

PUBLISHED_PERIODIC = {4: 0.07, 20: 0.35}
"""The least and the largest share that periods deliver on average, taken for those of the smallest and largest k."""

PUBLISHED_REDUCTION = 0.75
"""Of sliding delivery in random order, k = 4."""

SELECTING = (Timing.PERIODIC, Timing.SLIDING)


@dataclass(frozen=True, slots=True)
class Measurements:
    """The results of all readers, by generator, the mean rank of what matches each, and those of the control group."""

    results: Mapping[Constants, Sequence[Mapping[Case, Result]]]
    ranks: Mapping[Constants, Sequence[float]]
    ks: tuple[int, ...]
    control: Sequence[Mapping[Case, Result]] = ()

    def values(self, case: Case, quantity: Quantity, constants: Constants | None = None) -> list[float]:
        """Return a quantity of one case, reader by reader."""
        wanted = Constants if constants is None else (constants,)
        return [quantity(one[case]) for name in wanted for one in self.results[name]]

    def mean(self, cases: Iterable[Case], quantity: Quantity) -> float:
        """Return the mean over cases and readers."""
        return fmean(value for case in cases for value in self.values(case, quantity))


def share(result: Result) -> float:
    """Return which part of the matching events is delivered."""
    return result.share


def rank(result: Result) -> float:
    """Return the mean rank of what is delivered."""
    return result.rank


def wait(result: Result) -> float:
    """Return how many matching events an event waits on average."""
    return result.wait


def diversity(result: Result) -> float:
    """Return the list diversity of what is delivered."""
    return result.diversity


def findings(measured: Measurements) -> list[Finding]:
    """Compare every statement of the text."""
    return [*_numbers(measured), *_controls(measured), *_ranks(measured), *_diversities(measured), *_waits(measured)]


def spans_of(timing: Timing) -> tuple[int, ...]:
    """Return the periods or windows of a policy."""
    return (0,) if timing is Timing.CONTINUOUS else SPANS


def _cases(
    measured: Measurements, scenario: Scenario, timing: Timing, sigma: float | None = None, span: int | None = None
) -> list[Case]:
    spans = spans_of(timing) if span is None else (span,)
    return [Case(scenario, timing, one, k, sigma) for one in spans for k in measured.ks]


def _numbers(measured: Measurements) -> list[Finding]:
    one_by_one = {
        scenario: [measured.mean([case], share) for case in _cases(measured, scenario, Timing.CONTINUOUS)]
        for scenario in Scenario
    }
    least, most = (
        {extreme(Scenario, key=lambda name: one_by_one[name][at]).value for at in range(len(measured.ks))}
        for extreme in (min, max)
    )
    growing = one_by_one[Scenario.RANDOM]
    rows = [
        Finding("continuous: fewest are delivered", "best-first", " ".join(sorted(least)), least == {"best-first"}),
        Finding("continuous: most are delivered", "best-last", " ".join(sorted(most)), most == {"best-last"}),
        Finding(
            "continuous, random: share against k",
            "grows",
            f"{growing[0]:.3f} to {growing[-1]:.3f}",
            growing == sorted(growing),
        ),
    ]
    for constants in Constants:
        for k, published in PUBLISHED_CONTINUOUS.items():
            case = Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, k)
            rows.append(_within(f"{constants.value}: continuous, random, k={k}: share", published, measured, case))
    return [*rows, *_periodic_numbers(measured), *_sliding_numbers(measured)]


def _within(name: str, published: float, measured: Measurements, case: Case) -> Finding:
    found = measured.values(case, share, next(one for one in Constants if name.startswith(one.value)))
    return _ranged(name, published, found)


def _ranged(name: str, published: float, found: Sequence[float]) -> Finding:
    """Return the median and the middle half of some readers; a number holds when it lies within that half.

    The whole range would hold anything: without fitting it goes from next to nothing to everything.
    """
    low, middle, high = (float(one) for one in np.quantile(found, (0.25, 0.5, 0.75)))
    return Finding(name, published, f"{middle:.2f} ({low:.2f} to {high:.2f})", low <= published <= high)


def _controls(measured: Measurements) -> list[Finding]:
    """Return the published numbers beside readers that were chosen by share and mean rank alone."""
    rows = []
    for k, published in PUBLISHED_CONTINUOUS.items():
        found = [one[Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, k)].share for one in measured.control]
        rows.append(_ranged(f"control: continuous, random, k={k}: share", published, found))
    left_out = [
        1 - fmean(one[Case(Scenario.RANDOM, Timing.SLIDING, span, 4)].share for span in SPANS)
        for one in measured.control
    ]
    rows.append(_ranged("control: sliding, random, k=4: not delivered", PUBLISHED_REDUCTION, left_out))
    return rows


def _periodic_numbers(measured: Measurements) -> list[Finding]:
    spread = max(
        max(found) - min(found)
        for span in SPANS
        for k in measured.ks
        if (found := [measured.mean([Case(one, Timing.PERIODIC, span, k)], share) for one in Scenario])
    )
    by_k = {
        k: measured.mean([Case(Scenario.RANDOM, Timing.PERIODIC, span, k) for span in SPANS], share)
        for k in PUBLISHED_PERIODIC
    }
    near = all(abs(by_k[k] / published - 1) <= 0.1 for k, published in PUBLISHED_PERIODIC.items())
    shown, published = (f"{one[4]:.3f} to {one[20]:.3f}" for one in (by_k, PUBLISHED_PERIODIC))
    changed = _ratio(measured, Timing.PERIODIC, Scenario)
    return [
        Finding("periodic: share, difference between scenarios", "none", spread, spread == 0),
        Finding("periodic: share, k=4 to 20", published, shown, near),
        Finding("periodic: number, diverse / plain", "the same", changed, changed == 1),
    ]


def _sliding_numbers(measured: Measurements) -> list[Finding]:
    narrower = {
        scenario: measured.mean(_cases(measured, scenario, Timing.SLIDING, span=80), share)
        / measured.mean(_cases(measured, scenario, Timing.SLIDING, span=40), share)
        for scenario in Scenario
    }
    rows = [
        Finding(f"sliding, {one.value}: number, w=80 / w=40", "below 1", ratio, ratio < 1)
        for one, ratio in narrower.items()
    ]
    by_scenario = {one: measured.mean(_cases(measured, one, Timing.SLIDING), share) for one in Scenario}
    fewest = min(by_scenario, key=by_scenario.__getitem__)
    by_span = zip(
        *(measured.values(Case(Scenario.RANDOM, Timing.SLIDING, span, 4), share) for span in SPANS), strict=True
    )
    left_out = [1 - fmean(both) for both in by_span]
    rows += [
        Finding("sliding: fewest are delivered", "random", fewest.value, fewest is Scenario.RANDOM),
        _ranged("sliding, random, k=4: not delivered", PUBLISHED_REDUCTION, left_out),
    ]
    for one in Scenario:
        ratio = _ratio(measured, Timing.SLIDING, (one,))
        rows.append(Finding(f"sliding, {one.value}: number, diverse / plain", "above 1", ratio, ratio > 1))
    return rows


def _ratio(measured: Measurements, timing: Timing, scenarios: Iterable[Scenario], quantity: Quantity = share) -> float:
    """Return a quantity with diversity, over the same without."""
    both = [[case for one in scenarios for case in _cases(measured, one, timing, sigma)] for sigma in (DIVERSE, None)]
    return measured.mean(both[0], quantity) / measured.mean(both[1], quantity)


def _ranks(measured: Measurements) -> list[Finding]:
    rows = [
        Finding.near(
            f"{constants.value}: mean rank of all matches",
            PUBLISHED_RANK,
            fmean(measured.ranks[constants]),
            RANK_MARGIN,
        )
        for constants in Constants
    ]
    everything = fmean(rank for ranks in measured.ranks.values() for rank in ranks)
    for timing in Timing:
        for one in Scenario:
            above = (
                round(measured.mean(_cases(measured, one, timing), rank) - everything, 9) + 0.0
            )  # no dust of rounding
            name = f"{timing.value}, {one.value}: rank above all"
            rows.append(Finding(name, "above 0", above, above > 0))
    for timing in SELECTING:
        plain, diverse = (
            measured.mean([case for one in Scenario for case in _cases(measured, one, timing, sigma)], rank)
            for sigma in (None, DIVERSE)
        )
        lower = diverse - plain
        rows.append(Finding(f"{timing.value}: mean rank, diverse - plain", "below 0, little", lower, -0.1 < lower < 0))
    spreads = {
        timing: max(found) - min(found)
        for timing in Timing
        if (found := [measured.mean(_cases(measured, one, timing), rank) for one in Scenario])
    }
    shown = " / ".join(f"{spread:.2f}" for spread in spreads.values())
    widest = max(spreads, key=spreads.__getitem__)
    name = "mean rank: range over scenarios, policy by policy"
    rows.append(Finding(name, "first is largest", shown, widest is Timing.CONTINUOUS))
    return rows


def _diversities(measured: Measurements) -> list[Finding]:
    rows = []
    for timing in SELECTING:
        for span in SPANS:
            low, high = (
                measured.mean([Case(Scenario.RANDOM, timing, span, SIGMA_K, sigma)], diversity)
                for sigma in (1.0, DIVERSE)
            )
            name = f"{timing.value} {span}, k={SIGMA_K}: diversity, sigma 0.2 - 1"
            rows.append(Finding(name, "above 0", high - low, high > low))
    return rows


def _waits(measured: Measurements) -> list[Finding]:
    at_once = measured.mean([case for one in Scenario for case in _cases(measured, one, Timing.CONTINUOUS)], wait)
    rows = [Finding("continuous: wait", "none", at_once, at_once == 0)]
    for timing in SELECTING:
        short, long = (
            measured.mean([case for one in Scenario for case in _cases(measured, one, timing, span=span)], wait)
            for span in SPANS
        )
        rows.append(Finding(f"{timing.value}: wait, 80 - 40", "above 0", long - short, long > short))
    first, last = (
        measured.mean(_cases(measured, one, Timing.PERIODIC), wait) for one in (Scenario.BEST_FIRST, Scenario.BEST_LAST)
    )
    rows.append(Finding("periodic: wait, best-first - best-last", "above 0", first - last, first > last))
    for timing in SELECTING:
        plain, diverse = (
            measured.mean([case for one in Scenario for case in _cases(measured, one, timing, sigma)], wait)
            for sigma in (None, DIVERSE)
        )
        more = diverse - plain
        rows.append(Finding(f"{timing.value}: wait, diverse - plain", "above 0", more, more > 0))
    return rows
