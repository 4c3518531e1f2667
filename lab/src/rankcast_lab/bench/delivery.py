"""`rankcast bench delivery`: batched queues against the step functions, on the same rows in one run.

Every queue gets its events one by one, a millisecond apart, with random scores; rows come in batches, sorted by queue.
Windows are filled first, and what is measured then is the steady state. The step functions get the rows of a few
queues; what both deliver to these is compared. One thread, CPU time, the best batch of several. Where ranks are few,
ties are many: there `ties: keep` is measured beside the default. Caps are counted after each batch of a policy, so the
time without them is that of the same batch.

`subscriptions` is the number of queues, `events` the number of rows that each has in a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from statistics import median

import numpy as np

from rankcast.delivery.engine.caps import CapTable
from rankcast.delivery.engine.queue_table import ArrivalRows, QueueTable
from rankcast.delivery.rules.caps import CapCounts, changed_counts, counted
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, Delivered, Queue, step
from rankcast.model.events import Identity
from rankcast.model.periods import Every
from rankcast.model.policies import AllMatches, Cap, Continuous, Periodic, Policy, Sliding, TieRule, TopKWindow
from rankcast.model.times import EPOCH, NEVER, TICK, instant_of, microseconds
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import timed

K, WINDOW = 10, 100
SPACING = 1_000
"""Microseconds between two events of a queue."""

SPAN = timedelta(microseconds=WINDOW * SPACING)

POLICIES: Mapping[str, Policy] = {
    "sliding": Sliding(K, WINDOW),
    "continuous": Continuous(K),
    "topkw-count": TopKWindow(K, WINDOW),
    "topkw-time": TopKWindow(K, SPAN),
    "periodic": Periodic(K, SPAN),
    "all": AllMatches(),
}
PROMISED = ("sliding", "continuous", "topkw-count", "topkw-time")

STAGGER = 37
"""Queues begin at different times, so that in every batch the periods of some of them end."""

DEFAULT_QUEUES = 100_000
DEFAULT_ROWS = 10
WARM_UP_ROWS = 120
"""Rows of each queue before anything is measured: more than a window."""

LONGEST_LIFE = 150
"""Of expiring events, in events: half of the window's events expire before they would leave."""

STEPPED = 20
"""Queues that the step functions get as well."""

REPEATS = 5
LEAST_ROWS_PER_SECOND, LEAST_TIMES_FASTER = 2e6, 50.0
FEW_RANKS, LEAST_WITH_TIES_KEPT = 4, 0.8
LEAST_WITH_CAPS, CAP_REPEATS = 0.8, 11
CAPS = Cap(2, timedelta(microseconds=20 * SPACING)), Cap(1_000, Every("hour", at="00:30"))
MOST_BYTES = 4096.0


@dataclass(frozen=True, slots=True)
class Work:
    """A stream for many queues, made batch by batch."""

    queues: int
    rows: int
    seed: int
    expiring: bool
    ranks: int | None = None  # how many; None: all differ

    def batch(self, number: int) -> ArrivalRows:
        """Return a batch, always the same for its number."""
        generator = np.random.default_rng((self.seed, number))
        count = self.queues * self.rows
        first = number * self.rows
        position = np.tile(np.arange(first, first + self.rows), self.queues)
        queue = np.repeat(np.arange(self.queues), self.rows)
        time = (position + queue * STAGGER % WINDOW) * SPACING
        life = generator.integers(1, LONGEST_LIFE * SPACING, count) if self.expiring else None
        expires = np.full(count, NEVER) if life is None else time + life
        scores = generator.random(count)
        if self.ranks is not None:
            scores = np.floor(scores * self.ranks) / self.ranks
        return ArrivalRows(queue, position * self.queues + queue, time, expires, scores)


class Steps:
    """The step functions over a few queues."""

    def __init__(self, policy: Policy, count: int) -> None:
        self.queues: list[Queue] = [new_queue(policy) for _ in range(count)]

    def take(self, arrivals: list[tuple[int, Candidate]]) -> list[tuple[int, Delivered]]:
        """Let candidates arrive in their queues."""
        found: list[tuple[int, Delivered]] = []
        for queue, candidate in arrivals:
            self.queues[queue], delivered = step(self.queues[queue], candidate, candidate.time, closed=False)
            found += ((queue, one) for one in delivered)
        return found


def run(settings: Settings) -> Report:
    """Measure every policy, with and without expiry and with caps, then some with few ranks, and ties kept or not."""
    report = Report("delivery")
    queues = settings.subscriptions[0] if settings.subscriptions else DEFAULT_QUEUES
    for name, policy in POLICIES.items():
        for expiring in (False, True):
            work = Work(queues, settings.events or DEFAULT_ROWS, settings.seed, expiring)
            _measure(f"{name}{' expiring' if expiring else ''} {queues:,}", policy, work, settings, report)
            _judge(name, report)
        work = Work(queues, settings.events or DEFAULT_ROWS, settings.seed, expiring=False)
        _measure_caps(f"{name} capped {queues:,}", policy, work, settings, report)
    for name, policy in POLICIES.items():
        if name in PROMISED and not isinstance(policy, AllMatches):
            for expiring in (False, True):
                work = Work(queues, settings.events or DEFAULT_ROWS, settings.seed, expiring, FEW_RANKS)
                _measure_ties(f"{name} few ranks{' expiring' if expiring else ''}", policy, work, settings, report)
    return report


def _measure_ties(
    case: str, policy: Continuous | Periodic | Sliding | TopKWindow, work: Work, settings: Settings, report: Report
) -> None:
    """Measure a policy as it is by default and with ties kept, one after the other."""
    cases = {rule: f"{case} {rule.value} {work.queues:,}" for rule in TieRule}
    for rule, named in cases.items():
        _measure(named, replace(policy, ties=rule), work, settings, report)
    rates = {one.case: one.value for one in report.figures if one.quantity == "rows per second"}
    ratio = rates[cases[TieRule.KEEP]] / rates[cases[TieRule.NEWER]]
    report.require(f"{cases[TieRule.KEEP]}: rate / newer", Bound.AT_LEAST, LEAST_WITH_TIES_KEPT, ratio)


def _measure_caps(case: str, policy: Policy, work: Work, settings: Settings, report: Report) -> None:
    """Measure a policy with what counts in its caps, and without; both on the same rows."""
    settings.say(f"{case}: filling the windows")
    stepped = min(STEPPED, work.queues)
    batched = QueueTable.of([policy] * work.queues)
    table = CapTable.of([replace(policy, at_most=CAPS)] * work.queues)
    counts = [changed_counts((), CAPS)] * stepped
    warm_up = math.ceil(WARM_UP_ROWS / work.rows)
    without, counting = list[float](), list[float]()
    compared, difference, capped, delivered = 0, "", 0, 0
    for number in range(warm_up + CAP_REPEATS):
        seconds, found = timed(partial(batched.take, work.batch(number)))
        more, is_capped = timed(partial(table.hand_over, found.queue, found.time))
        if number >= warm_up:
            settings.say(f"{case}: measuring")
            without.append(seconds)
            counting.append(more)
            capped += int(is_capped.sum())
            delivered += len(is_capped)
        own = found.queue < stepped
        expected = [
            _is_capped(counts, *row) for row in zip(found.queue[own].tolist(), found.time[own].tolist(), strict=True)
        ]
        compared += len(expected)
        if is_capped[own].tolist() != expected and not difference:
            difference = f"batch {number}: other deliveries are capped"
    rows = work.queues * work.rows
    report.rows.append(Row(case, "batched", (median(without) + median(counting)) / rows * 1e6))
    report.comparisons.append(Comparison(case, "batched", "rules", compared, not difference, difference))
    report.figures.append(Figure(case, "capped of the deliveries", capped / max(delivered, 1), ""))
    ratio = median(without) / (median(without) + median(counting))
    report.require(f"{case}: rate / without caps", Bound.AT_LEAST, LEAST_WITH_CAPS, ratio)


def _is_capped(counts: list[CapCounts], queue: int, time: int) -> bool:
    after = counted(counts[queue], {}, instant_of(time))
    counts[queue] = counts[queue] if after is None else after
    return after is None


def _measure(case: str, policy: Policy, work: Work, settings: Settings, report: Report) -> None:
    settings.say(f"{case}: filling the windows")
    stepped = min(STEPPED, work.queues)
    batched, steps = QueueTable.of([policy] * work.queues), Steps(policy, stepped)
    warm_up = math.ceil(WARM_UP_ROWS / work.rows)
    best = {"batched": math.inf, "steps": math.inf}
    compared, difference = 0, ""
    delivered = 0
    for number in range(warm_up + REPEATS):
        rows = work.batch(number)
        arrivals = list(_arrivals(rows, stepped))
        seconds, found = timed(partial(batched.take, rows))
        step_seconds, truth = timed(partial(steps.take, arrivals))
        if number >= warm_up:
            settings.say(f"{case}: measuring")
            best["batched"] = min(best["batched"], seconds / len(rows.queue) * 1e6)
            best["steps"] = min(best["steps"], step_seconds / len(arrivals) * 1e6)
            delivered += len(found.queue)
        compared += len(arrivals)
        expected = [
            (queue, _number(one.candidate), microseconds(one.time), one.candidate.score) for queue, one in truth
        ]
        own = found.queue < stepped
        answered = list(zip(*(column[own].tolist() for column in found), strict=True))
        if answered != expected and not difference:
            difference = f"batch {number}: {len(answered):,} deliveries, expected {len(expected):,} or others"
    megabytes = batched.nbytes / 1e6
    report.rows.append(Row(case, "batched", best["batched"], megabytes=megabytes))
    report.rows.append(Row(case, "steps", best["steps"]))
    report.comparisons.append(Comparison(case, "batched", "steps", compared, not difference, difference))
    packed = sum(array.nbytes for array in batched.to_arrays().values()) / work.queues
    report.figures += (
        Figure(case, "rows per second", 1e6 / best["batched"], "rows/s"),
        Figure(case, "delivered of the rows", delivered / (REPEATS * work.queues * work.rows), ""),
        Figure(case, "packed state of a queue", packed, "bytes"),
    )


def _arrivals(rows: ArrivalRows, queues: int) -> Iterator[tuple[int, Candidate]]:
    """Give the rows of the first queues as the step functions take them."""
    own = rows.queue < queues
    for queue, event, time, expires, score in zip(*(column[own].tolist() for column in rows), strict=True):
        identity = Identity("", f"{event:018}")
        yield (
            queue,
            Candidate(identity, EPOCH + time * TICK, score, None if expires == NEVER else EPOCH + expires * TICK),
        )


def _judge(name: str, report: Report) -> None:
    """Judge the case that was measured last."""
    case = report.rows[-1].case
    figures = {one.quantity: one.value for one in report.figures if one.case == case}
    if name in PROMISED:
        ratio = report.ratio(case, "steps", "batched")
        report.require(f"{case}: rows per second", Bound.AT_LEAST, LEAST_ROWS_PER_SECOND, figures["rows per second"])
        report.require(f"{case}: steps / batched", Bound.AT_LEAST, LEAST_TIMES_FASTER, ratio)
    report.require(f"{case}: bytes of a queue", Bound.AT_MOST, MOST_BYTES, figures["packed state of a queue"])


def _number(candidate: Candidate) -> int:
    assert isinstance(candidate.identity, Identity)
    return int(candidate.identity.id)
