"""Deliveries of the study of preferences: every policy, k and scenario as one queue of the batched kernels.

Time is counted in matching events: one comes every second, so a period of 40 seconds has 40 of them. What a queue
delivers is told by four numbers: the share of the matching events that is delivered, their mean rank, how long they
waited on average (freshness), and the mean distance of their pairs (list diversity).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import NamedTuple

import numpy as np

from rankcast.delivery.batch import BatchedQueues, Deliveries, Rows
from rankcast.delivery.batch_layout import NEVER
from rankcast.delivery.contents import Array, Contents
from rankcast.model.diversity import Diversity
from rankcast.model.policies import Continuous, Periodic, Policy, Sliding
from rankcast_lab.studies.preferences_data import Reader, Scenario

SECOND = 1_000_000
SPANS = (40, 80)
"""Matching events in a period, or in a window."""

KS, QUICK_KS = (1, 2, 4, 8, 12, 16, 20), (4, 12, 20)
DIVERSE = 0.2
"""The sigma of diverse delivery, as in Figure 6.6."""

SIGMAS, QUICK_SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 1.0)
SIGMA_K = 8


class Timing(Enum):
    """The three timing policies of the thesis."""

    CONTINUOUS = "continuous"
    PERIODIC = "periodic"
    SLIDING = "sliding"


class Case(NamedTuple):
    """One queue: a scenario, a policy with its k and period or window (0: none), and sigma where it diversifies."""

    scenario: Scenario
    timing: Timing
    span: int
    k: int
    sigma: float | None = None

    @property
    def policy(self) -> Policy:
        """The policy as it is stated."""
        diversity = None if self.sigma is None else Diversity(sigma=self.sigma)
        if self.timing is Timing.CONTINUOUS:
            return Continuous(self.k)
        if self.timing is Timing.PERIODIC:
            return Periodic(self.k, timedelta(seconds=self.span), diversity)
        return Sliding(self.k, self.span, diversity)


@dataclass(frozen=True, slots=True)
class Result:
    """What one queue delivered: a share of the matching events, their mean rank, wait and distance."""

    share: float
    rank: float
    wait: float
    diversity: float


def cases(*, quick: bool) -> list[Case]:
    """Return every queue of the study."""
    ks, sigmas = (QUICK_KS, QUICK_SIGMAS) if quick else (KS, SIGMAS)
    plain = [Case(scenario, Timing.CONTINUOUS, 0, k) for scenario in Scenario for k in ks]
    selected = [
        Case(scenario, timing, span, k, sigma)
        for scenario in Scenario
        for timing in (Timing.PERIODIC, Timing.SLIDING)
        for span in SPANS
        for k in ks
        for sigma in (None, DIVERSE)
    ]
    by_sigma = [
        Case(Scenario.RANDOM, timing, span, SIGMA_K, sigma)
        for timing in (Timing.PERIODIC, Timing.SLIDING)
        for span in SPANS
        for sigma in sigmas
    ]
    return list(dict.fromkeys([*plain, *selected, *by_sigma]))


def control_cases() -> list[Case]:
    """Return the queues whose numbers are published, for readers that are not fitted to them."""
    sliding = [Case(Scenario.RANDOM, Timing.SLIDING, span, 4) for span in SPANS]
    return [*(Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, k) for k in (4, 20)), *sliding]


def results(reader: Reader, wanted: Sequence[Case], random: np.random.Generator) -> dict[Case, Result]:
    """Let the films of a reader come in the order of each case's scenario, and look at what is delivered."""
    orders = {scenario: reader.order(scenario, random) for scenario in Scenario}
    count = len(reader.films)
    events = np.concatenate([orders[case.scenario] for case in wanted])
    times = np.tile(np.arange(count, dtype=np.int64) * SECOND, len(wanted))
    rows = Rows(
        np.repeat(np.arange(len(wanted)), count), events, times, np.full(len(events), NEVER), reader.ranks[events]
    )
    contents = Contents.of({at: film.attributes() for at, film in enumerate(reader.films)})
    queues = BatchedQueues.of([case.policy for case in wanted])
    found = [queues.take(rows, contents), queues.finish(contents)]
    return {
        case: _result(reader, orders[case.scenario], *_of_queue(found, number)) for number, case in enumerate(wanted)
    }


def _of_queue(found: Sequence[Deliveries], queue: int) -> tuple[Array, Array]:
    """Return the events of one queue's deliveries and their times."""
    mine = [part.queue == queue for part in found]
    events = np.concatenate([part.event[own] for part, own in zip(found, mine, strict=True)])
    return events, np.concatenate([part.time[own] for part, own in zip(found, mine, strict=True)])


def _result(reader: Reader, order: Array, events: Array, times: Array) -> Result:
    published = np.empty(len(order), np.int64)
    published[order] = np.arange(len(order)) * SECOND
    pairs = len(events) * (len(events) - 1)
    return Result(
        share=len(events) / len(order),
        rank=float(reader.ranks[events].mean()),
        wait=float((times - published[events]).mean()) / SECOND,
        diversity=float(reader.distances[np.ix_(events, events)].sum() / pairs) if pairs else 0.0,
    )
