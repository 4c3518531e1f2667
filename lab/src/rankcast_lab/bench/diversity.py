"""`rankcast bench diversity`: diverse selection by kernels against the plain algorithm, and in batched queues.

- **selection**: the best 20 of a buffer of 1,000 events, with weights of five attributes and by all attributes.
  `kernel` starts from arrays, `selection` from values as a hub holds them, `plain` is the algorithm as it is written.
  All select the same events, which is compared.
- **queues**: batched queues with k=10 and windows of 100 events that diversify, against the step functions on the same
  rows, as `rankcast bench delivery` does without diversity.

One thread, CPU time, the best of several repeats. A selection's cost "per event" is the share of one in the buffer.
`subscriptions` is the number of queues, `events` the size of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import Content, Contents, attribute_code, value_code
from rankcast.delivery.engine.queue_table import ArrivalRows, QueueTable
from rankcast.delivery.rules.queues import Candidate, diverse_selection, selected_by_kernel, selection_arguments
from rankcast.model.events import Identity
from rankcast.model.policies import Diversity, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.times import EPOCH, NEVER, TICK, microseconds
from rankcast.ranking.diversity import diverse_best
from rankcast_lab.bench.delivery import SPACING, STAGGER, Steps
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each, timed

NAMES = ("country", "director", "genre", "length", "year")
VALUES = 8
"""Different values of an attribute: enough near-copies and enough differences."""

DIVERSITIES: Mapping[str, Diversity] = {
    "weights": Diversity(0.5, {name: 0.1 + at for at, name in enumerate(NAMES)}),
    "all attributes": Diversity(0.5),
}

BUFFER, SELECTED = 1_000, 20
MOST_MILLISECONDS = 2.0
REPEATS = 7
PLAIN_REPEATS = 2

K, WINDOW = 10, 100
SPAN = timedelta(microseconds=WINDOW * SPACING)
POLICIES: Mapping[str, Callable[[Diversity], Policy]] = {
    "sliding": partial(Sliding, K, WINDOW),
    "topkw-count": partial(TopKWindow, K, WINDOW),
    "topkw-time": partial(TopKWindow, K, SPAN),
    "periodic": partial(Periodic, K, SPAN),
}
DEFAULT_QUEUES, BATCH_ROWS, WARM_UP_ROWS = 2_000, 20, 120
STEPPED = 4
"""Queues that the step functions get as well."""


def run(settings: Settings) -> Report:
    """Measure selections, then queues."""
    report = Report("diversity")
    buffer = settings.events or BUFFER
    for name, diversity in DIVERSITIES.items():
        _measure_selection(f"{name}, {SELECTED} of {buffer:,}", diversity, buffer, settings, report)
    queues = settings.subscriptions[0] if settings.subscriptions else DEFAULT_QUEUES
    for kind, policy in POLICIES.items():
        for name, diversity in DIVERSITIES.items():
            work = Work(queues, settings.seed)
            _measure_queues(f"{kind}, {name} {queues:,}", policy(diversity), work, settings, report)
    return report


def _measure_selection(case: str, diversity: Diversity, buffer: int, settings: Settings, report: Report) -> None:
    settings.say(f"{case}: selecting")
    generator = np.random.default_rng(settings.seed)
    contents = _contents(generator.integers(0, VALUES, (buffer, len(NAMES))))
    ranks = generator.random(buffer).tolist()
    arguments = selection_arguments(contents, diversity)
    plain = [dict(content) for content in contents]
    engines: dict[str, Callable[[], list[int]]] = {
        "kernel": partial(selected_by_kernel, arguments, ranks, SELECTED),
        "selection": partial(diverse_selection, contents, ranks, SELECTED, diversity),
        "plain": partial(diverse_best, plain, ranks, SELECTED, diversity.sigma, diversity.distance),
    }
    truth = engines["plain"]()
    for name in ("kernel", "selection"):
        found = engines[name]()
        difference = "" if found == truth else f"{found} selected, expected {truth}"
        report.comparisons.append(Comparison(case, name, "plain", buffer, not difference, difference))
    best = best_of_each(REPEATS, {name: engines[name] for name in ("kernel", "selection")})
    best |= best_of_each(PLAIN_REPEATS, {"plain": engines["plain"]})
    for name, seconds in best.items():
        report.rows.append(Row(case, name, seconds / buffer * 1e6))
        report.figures.append(Figure(case, f"one selection by {name}", seconds * 1e3, "ms"))
    if buffer == BUFFER:
        report.require(f"{case}: ms by kernel", Bound.AT_MOST, MOST_MILLISECONDS, best["kernel"] * 1e3)
        report.require(f"{case}: ms by selection", Bound.AT_MOST, MOST_MILLISECONDS, best["selection"] * 1e3)


def _contents(drawn: Array) -> list[Content]:
    return [tuple(zip(NAMES, values, strict=True)) for values in drawn.tolist()]


@dataclass(slots=True)
class Work:
    """A stream for many queues, batch by batch, with the contents of what windows may still hold."""

    queues: int
    seed: int
    known: Array = field(default_factory=lambda: np.zeros((0, len(NAMES)), np.int64))
    first: int = 0

    def batch(self, number: int) -> tuple[ArrivalRows, Contents]:
        """Return the next batch; events are numbered by their position and queue."""
        generator = np.random.default_rng((self.seed, number))
        count = self.queues * BATCH_ROWS
        start = number * BATCH_ROWS
        position = np.tile(np.arange(start, start + BATCH_ROWS), self.queues)
        queue = np.repeat(np.arange(self.queues), BATCH_ROWS)
        time = (position + queue * STAGGER % WINDOW) * SPACING
        rows = ArrivalRows(queue, position * self.queues + queue, time, np.full(count, NEVER), generator.random(count))
        self.known = np.concatenate([self.known, generator.integers(0, VALUES, (count, len(NAMES)))])
        gone = max(0, len(self.known) - (2 * WINDOW + BATCH_ROWS) * self.queues)
        self.known, self.first = self.known[gone:], self.first + gone
        return rows, self._coded()

    def content(self, event: int) -> Content:
        """Return the content of an event."""
        return _contents(self.known[event - self.first : event - self.first + 1])[0]

    def _coded(self) -> Contents:
        codes = np.array([attribute_code(name) for name in NAMES])
        order = np.argsort(codes)
        values = np.array([value_code(value) for value in range(VALUES)])
        return Contents(
            np.arange(self.first, self.first + len(self.known)),
            np.arange(len(self.known) + 1) * len(NAMES),
            np.tile(codes[order], len(self.known)),
            values[self.known[:, order]].ravel(),
        )


def _measure_queues(case: str, policy: Policy, work: Work, settings: Settings, report: Report) -> None:
    settings.say(f"{case}: filling the windows")
    stepped = min(STEPPED, work.queues)
    batched, steps = QueueTable.of([policy] * work.queues), Steps(policy, stepped)
    warm_up = math.ceil(WARM_UP_ROWS / BATCH_ROWS)
    best = {"batched": math.inf, "steps": math.inf}
    compared, difference = 0, ""
    for number in range(warm_up + REPEATS):
        rows, contents = work.batch(number)
        arrivals = list(_arrivals(rows, work, stepped))
        seconds, found = timed(partial(batched.take, rows, contents))
        step_seconds, truth = timed(partial(steps.take, arrivals))
        if number >= warm_up:
            settings.say(f"{case}: measuring")
            best["batched"] = min(best["batched"], seconds / len(rows.queue) * 1e6)
            best["steps"] = min(best["steps"], step_seconds / len(arrivals) * 1e6)
        compared += len(arrivals)
        expected = [(queue, _number(one.candidate), microseconds(one.time)) for queue, one in truth]
        own = found.queue < stepped
        columns = (found.queue, found.event, found.time)
        answered = list(zip(*(column[own].tolist() for column in columns), strict=True))
        if answered != expected and not difference:
            difference = f"batch {number}: {len(answered):,} deliveries, expected {len(expected):,} or others"
    report.rows += (Row(case, name, cost) for name, cost in best.items())
    report.comparisons.append(Comparison(case, "batched", "steps", compared, not difference, difference))
    report.figures += (
        Figure(case, "rows per second", 1e6 / best["batched"], "rows/s"),
        Figure(case, "steps / batched", best["steps"] / best["batched"], "times"),
    )


def _arrivals(rows: ArrivalRows, work: Work, queues: int) -> Iterator[tuple[int, Candidate]]:
    """Give the rows of the first queues as the step functions take them."""
    own = rows.queue < queues
    for queue, event, time, _, score in zip(*(column[own].tolist() for column in rows), strict=True):
        identity = Identity("", f"{event:018}")
        yield queue, Candidate(identity, EPOCH + time * TICK, score, None, work.content(event))


def _number(candidate: Candidate) -> int:
    assert isinstance(candidate.identity, Identity)
    return int(candidate.identity.id)
