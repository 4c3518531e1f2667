"""Top-k covering while subscriptions come and go, against working it out again after every change.

- `incremental`: a cover set takes all subscriptions one by one, then gives them back in random order. Filters exist
  already; boxes, labels and what to forward or withdraw are made. Cost "per event" is per change.
- `from scratch`: the bulk kernel over all ranges, which a broker without a cover set would run after each change.
- `pairwise`: the same by a compiled loop over all pairs, which leaves a subscription when k above it are found.

What is forwarded is compared after all have come and when half of them have gone; and the changes that were returned
have to add up to it. Comparisons per addition are counted twice: with the forwarded ones, which is what deciding takes,
and in all, with what is kept up for removals.
One thread, CPU time, a single pass (the others: best of some).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.topk.cover_set import Change, Cover, CoverSet
from rankcast.covering.topk.order import Order
from rankcast.model.filters import Filter
from rankcast.overlay.simulation.ranges import Ranges, ranges
from rankcast_lab.bench.covering_kernels import pairwise_counts
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each, timed
from rankcast_lab.engines.bulk import forwarded

SUBSCRIPTIONS = 50_000
REPEATS = 2
WARM_UP = 100


@dataclass(frozen=True, slots=True)
class Churn:
    """What is added and removed, and in how many seconds all of that has to be done."""

    name: str
    attributes: int
    cover: Cover
    k: int
    most_seconds: float


CHURNS = (
    Churn("one attribute, AncestorCoverK k=10", 1, Cover.ANCESTOR, 10, 30.0),
    Churn("three attributes, RegularCover", 3, Cover.REGULAR, 1, 60.0),
)

MOST_COMPARISONS = {1: 224.0, 10: 846.0, 500: 8917.0}
"""With the forwarded ones per addition, by k, for 50,000 subscriptions of one attribute."""

SLACK = 1.05
"""Numbers of comparisons depend a little on what is drawn."""


def measure(settings: Settings, report: Report) -> None:
    """Measure everything and add it to a report."""
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIPTIONS
    for churn in CHURNS:
        _measure_churn(churn, WARM_UP, Settings(), Report("warm-up"))  # compiles the kernels
        _measure_churn(churn, count, settings, report)
    for k, most in MOST_COMPARISONS.items():
        _measure_comparisons(k, most, count, settings, report)


@dataclass(slots=True)
class Upstream:
    """What a broker upstream knows when it does as it is told."""

    known: set[int] = field(default_factory=set)
    wrong: str = ""

    def take(self, change: Change) -> None:
        """Forward and withdraw; note what makes no sense."""
        again, absent = self.known.intersection(change.forward), set(change.withdraw) - self.known
        if (again or absent) and not self.wrong:
            self.wrong = f"{sorted(again)} forwarded again, {sorted(absent)} withdrawn though never forwarded"
        self.known |= set(change.forward)
        self.known -= set(change.withdraw)


def _measure_churn(churn: Churn, count: int, settings: Settings, report: Report) -> None:
    case = f"{churn.name} {count:,}"
    settings.say(f"{case}: drawing")
    random = np.random.default_rng(settings.seed)
    made = ranges(count, random, attributes=churn.attributes)
    filters, leaving = made.filters(), random.permutation(count).tolist()
    covered, upstream = CoverSet(churn.cover, churn.k), Upstream()
    settings.say(f"{case}: adding")
    seconds_in, _ = timed(partial(_add, covered, filters, upstream))
    everything = np.arange(count)
    _compare(case, "all", made, everything, covered, upstream, churn, report)
    settings.say(f"{case}: removing")
    half = count // 2
    seconds_out, _ = timed(partial(_remove, covered, leaving[:half], upstream))
    _compare(case, "half", made, np.sort(leaving[half:]), covered, upstream, churn, report)
    seconds_out += timed(partial(_remove, covered, leaving[half:], upstream))[0]
    left = len(upstream.known) + len(covered)
    report.comparisons.append(
        Comparison(case, "incremental, emptied", "nothing", count, left == 0, "" if left == 0 else f"{left} left")
    )
    seconds_boxing, _ = timed(partial(_box, filters))
    settings.say(f"{case}: from scratch")
    once = best_of_each(
        REPEATS,
        {
            "from scratch": partial(forwarded, made.starts, made.ends, churn.cover, churn.k),
            "pairwise": partial(pairwise_counts, made.starts, made.ends, covered.k),
        },
    )
    total = seconds_in + seconds_out
    report.rows += [Row(case, "incremental", total / (2 * count) * 1e6)]
    report.rows += [Row(case, name, seconds * 1e6) for name, seconds in once.items()]
    report.figures += [
        Figure(case, "all additions", seconds_in, "s"),
        Figure(case, "of these, filters to boxes", seconds_boxing, "s"),
        Figure(case, "all removals", seconds_out, "s"),
        *(Figure(case, f"{name} / incremental", once[name] * 2 * count / total, "times") for name in once),
    ]
    if count == SUBSCRIPTIONS:
        report.require(f"{case}: seconds of all changes", Bound.BELOW, churn.most_seconds, total)


def _add(covered: CoverSet, filters: list[Filter], upstream: Upstream) -> None:
    for number, wanted in enumerate(filters):
        upstream.take(covered.add(number, wanted))


def _box(filters: list[Filter]) -> None:
    """Do the part of an addition that compares nothing: what is left is all that an index of boxes could save."""
    order = Order()
    for number, wanted in enumerate(filters):
        order.add(number, wanted)


def _remove(covered: CoverSet, numbers: list[int], upstream: Upstream) -> None:
    for number in numbers:
        upstream.take(covered.remove(number))


def _compare(
    case: str, when: str, made: Ranges, live: Array, covered: CoverSet, upstream: Upstream, churn: Churn, report: Report
) -> None:
    """Compare what is forwarded, and what upstream knows, with both ways from scratch."""
    starts, ends = made.starts[live], made.ends[live]
    truth = live[pairwise_counts(starts, ends, covered.k) < covered.k]
    answers = {
        "incremental": covered.forwarded,
        "changes": np.array(sorted(upstream.known), np.int64),
        "from scratch": live[forwarded(starts, ends, churn.cover, churn.k)],
    }
    for engine, found in answers.items():
        different = len(np.setxor1d(found, truth))
        difference = f"{different:,} of {len(truth):,} differ" if different else ""
        if engine == "changes":
            difference = difference or upstream.wrong
        report.comparisons.append(
            Comparison(case, f"{engine}, {when}", "pairwise", len(live), not difference, difference)
        )


def _measure_comparisons(k: int, most: float, count: int, settings: Settings, report: Report) -> None:
    case = f"one attribute, AncestorCoverK k={k} {count:,}"
    settings.say(f"{case}: comparisons")
    covered = CoverSet(Cover.ANCESTOR, k)
    known, with_forwarded = 0, 0
    for number, wanted in enumerate(ranges(count, np.random.default_rng(settings.seed)).filters()):
        change = covered.add(number, wanted)
        with_forwarded += 2 * known if change.forward else known
        known += len(change.forward) - len(change.withdraw)
    report.figures += [
        Figure(case, "comparisons with forwarded ones per addition", with_forwarded / count, ""),
        Figure(case, "comparisons in all per addition", covered.order.comparisons / count, ""),
        Figure(case, "forwarded in the end", known, ""),
    ]
    if count == SUBSCRIPTIONS:
        quantity = f"{case}: comparisons with forwarded ones per addition"
        report.require(quantity, Bound.AT_MOST, round(SLACK * most), with_forwarded / count)
