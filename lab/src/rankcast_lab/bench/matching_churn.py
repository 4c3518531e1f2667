"""`rankcast bench matching-churn`: subscriptions come and go while a reader goes on matching.

First the changes alone, with every merge they cause done at once: their cost, CPU time over the number of changes. Then
a reader alone, for its quiet latency; then the same reader while one thread makes all the changes as fast as it can,
with merges in the background, and once more while changes come at a steady pace. The reader's clock is the wall's:
what it waits for, be it the GIL, counts, and so does what else runs on the machine. Its own CPU time is given beside.

Answers are checked while changes go on: every so often the reader notes the sequence number of the snapshot it used,
and afterwards its answer is compared with brute force over the subscriptions that were there at that number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter, sleep, thread_time

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index, Run
from rankcast.model.expressions import Constraint, Expression, Operator, all_of
from rankcast.model.filters import Filter
from rankcast.model.values import Value
from rankcast_lab.bench.matching_engines import match_brute_force
from rankcast_lab.bench.matching_work import Work
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report
from rankcast_lab.bench.timing import quantile, timed
from rankcast_lab.engines.columnar import segment_of_ranges
from rankcast_lab.workloads.matching import MatchingCase

DEFAULT_SUBSCRIPTIONS = (100_000,)
DEFAULT_CHANGES = 100_000
EVENTS = 500
QUIET_READS = 20_000
STEADY_CHANGES_PER_SECOND = 1_000
STEADY_SECONDS = 5.0
NOTED = 10
"""One in so many answers is checked."""

NEVER = np.iinfo(np.int64).max

MOST_MICROSECONDS, MOST_TIMES_QUIET = 50.0, 3.0


@dataclass(frozen=True, slots=True)
class Change:
    """An added or a removed subscription."""

    number: int
    added: Entry | None


@dataclass(slots=True)
class Reads:
    """What a reader experienced: seconds per event, and some answers with the sequence number of their snapshot."""

    seconds: list[float] = field(default_factory=list)
    own_seconds: list[float] = field(default_factory=list)
    """The same in CPU time of the reader's thread: without what it waited for."""
    noted: list[tuple[int, int, Array]] = field(default_factory=list)


def run(settings: Settings) -> Report:
    """Measure every workload at every number of subscriptions; `events` of the settings is the number of changes."""
    report = Report("matching-churn")
    report.warn_when_busy()
    for workload in settings.workloads or ("W1",):
        for subscriptions in settings.subscriptions or DEFAULT_SUBSCRIPTIONS:
            _Churn(workload, subscriptions, settings, report).run()
    return report


class _Churn:
    """One case: the subscriptions at first, those to come, and the order in which they come and others go."""

    def __init__(self, workload: str, subscriptions: int, settings: Settings, report: Report) -> None:
        self.settings, self.report = settings, report
        count = settings.events or DEFAULT_CHANGES
        settings.say(f"{workload}: generating {count:,} changes")
        self.first = subscriptions
        self.all = Work.of(workload, subscriptions + count // 2, EVENTS, settings.seed)
        self.name = Work.of(workload, subscriptions, 1, settings.seed).name
        self.changes = _changes(self.all.source, subscriptions, count, np.random.default_rng(settings.seed))
        self.events = self.all.source.event_mappings()

    def run(self) -> None:
        """Measure the changes, then the reader without and with them."""
        self.settings.say(f"{self.name}: changes alone")
        index = self._index()
        seconds, _ = timed(lambda: _apply(index, self.changes))
        each = seconds / len(self.changes) * 1e6
        self.report.figures.append(Figure(self.name, "one change, merges included", each, "µs"))
        self.report.require(f"{self.name}: µs of one change", Bound.BELOW, MOST_MICROSECONDS, each)
        self._read_under_changes()

    def _read_under_changes(self) -> None:
        self.settings.say(f"{self.name}: a reader alone")
        quiet = self._index()
        self._read(quiet, lambda done: done < len(self.events))
        calm = self._p99(self._read(quiet, lambda done: done < QUIET_READS), "quiet")
        steady = self.changes[: int(STEADY_CHANGES_PER_SECOND * STEADY_SECONDS)]
        plans: tuple[tuple[str, list[Change], float], ...] = (
            ("changes as fast as they can be made", self.changes, 0.0),
            (f"{STEADY_CHANGES_PER_SECOND:,} changes a second", steady, 1 / STEADY_CHANGES_PER_SECOND),
        )
        for name, changes, pause in plans:
            self.settings.say(f"{self.name}: a reader under {name}")
            reads, times = self._read_while(changes, pause)
            late = self._p99(reads, name)
            quantity = f"{self.name}: p99 of a reader, {name} / quiet"
            self.report.require(quantity, Bound.AT_MOST, MOST_TIMES_QUIET, late / calm)
            self.report.comparisons.append(self._checked(name, reads, changes, times))

    def _p99(self, reads: Reads, name: str) -> float:
        """Report the 99th percentile of a reader's latency, and return it."""
        for seconds, kind in ((reads.seconds, ""), (reads.own_seconds, ", own CPU time")):
            late = quantile(seconds, 0.99) * 1e6
            self.report.figures.append(Figure(self.name, f"p99 of a reader, {name}{kind}", late, "µs"))
        return quantile(reads.seconds, 0.99)

    def _index(self, run: Run | None = None) -> Index:
        case = self.all.source
        last = case.row_start[self.first]
        columns = (case.row_start[: self.first + 1], case.attribute[:last], case.low[:last], case.high[:last])
        return Index(segments=[segment_of_ranges(case.attributes, *columns, vocabularies=case.vocabularies)], run=run)

    def _read(self, index: Index, go_on: Callable[[int], bool]) -> Reads:
        reads = Reads()
        reader = index.reader()
        done = 0
        while go_on(done):
            event = done % len(self.events)
            started, own = perf_counter(), thread_time()
            snapshot = index.snapshot
            found = reader.match_one(self.events[event], snapshot)
            reads.own_seconds.append(thread_time() - own)
            reads.seconds.append(perf_counter() - started)
            if done % NOTED == 0:
                reads.noted.append((event, snapshot.sequence, found))
            done += 1
        return reads

    def _read_while(self, changes: list[Change], pause: float) -> tuple[Reads, list[int]]:
        """Read in this thread while another makes the changes; return the sequence numbers between the changes too."""
        with ThreadPoolExecutor(1) as executor:
            index = self._index(executor.submit)
            times: list[int] = []
            writer = threading.Thread(target=lambda: times.extend(_apply(index, changes, pause)))
            writer.start()
            reads = self._read(index, lambda done: done == 0 or writer.is_alive())
            writer.join()
        return reads, times

    def _checked(self, name: str, reads: Reads, changes: list[Change], times: list[int]) -> Comparison:
        truth = match_brute_force(self.all, len(self.events))
        lives = Lives.of(self.first, self.all.subscriptions, changes, times)
        for event, sequence, found in reads.noted:
            matching, answer = truth.of(event), np.sort(found)
            wrong = np.setdiff1d(answer, matching[lives.possible(matching, sequence)])
            missed = np.setdiff1d(matching[lives.sure(matching, sequence)], answer)
            if len(wrong) or len(missed) or len(np.unique(answer)) < len(answer):
                text = f"event {event} at {sequence}: added {wrong[:3].tolist()}, missed {missed[:3].tolist()}"
                return Comparison(self.name, name, "brute-force", len(reads.noted), equal=False, difference=text)
        return Comparison(self.name, name, "brute-force", len(reads.noted), equal=bool(reads.noted))


@dataclass(frozen=True, slots=True)
class Lives:
    """When subscriptions came and went, by number, as (after, until) sequence numbers.

    A merge may publish a sequence number of its own between two changes, so a change is only known to have happened
    after the number seen before it, and by the number seen once it was done.
    """

    came: Array
    went: Array

    @staticmethod
    def of(first: int, count: int, changes: Sequence[Change], times: Sequence[int]) -> Lives:
        """Return the lives of subscriptions of which some were there at first; `times` are those of `_apply`."""
        came = np.full((count, 2), NEVER, np.int64)
        went = came.copy()
        came[:first] = -1
        for change, span in zip(changes, pairwise(times), strict=True):
            (went if change.added is None else came)[change.number] = span
        return Lives(came, went)

    def sure(self, numbers: Array, sequence: int) -> Array:
        """Whether each subscription was surely there at a sequence number."""
        there: Array = (self.came[numbers, 1] <= sequence) & (self.went[numbers, 0] >= sequence)
        return there

    def possible(self, numbers: Array, sequence: int) -> Array:
        """Whether each subscription was possibly there at a sequence number."""
        there: Array = (self.came[numbers, 0] < sequence) & (self.went[numbers, 1] > sequence)
        return there | self.sure(numbers, sequence)


def _apply(index: Index, changes: list[Change], pause: float = 0.0) -> list[int]:
    """Make the changes; return the sequence number before the first one, and after each."""
    times = [index.snapshot.sequence]
    started = perf_counter()
    for place, change in enumerate(changes):
        if pause and (ahead := started + place * pause - perf_counter()) > 0:
            sleep(ahead)
        if change.added is not None:
            index.add(change.added)
        else:
            index.remove(change.number)
        times.append(index.snapshot.sequence)
    return times


def _changes(case: MatchingCase, first: int, count: int, generator: np.random.Generator) -> list[Change]:
    """Return half additions, half removals, mixed; what is removed was there at first or was added before."""
    present = list(range(first))
    changes: list[Change] = []
    coming = iter(range(first, case.subscriptions))
    for adds in (generator.permutation(count) < case.subscriptions - first).tolist():
        if adds or not present:
            number = next(coming, None)
            if number is None:
                break
            present.append(number)
            changes.append(Change(number, Entry.of(number, Filter.of(_expression(case, number)))))
        else:
            chosen = int(generator.integers(len(present)))
            present[chosen], present[-1] = present[-1], present[chosen]
            changes.append(Change(present.pop(), None))
    return changes


def _expression(case: MatchingCase, number: int) -> Expression:
    constraints = []
    for at in range(int(case.row_start[number]), int(case.row_start[number + 1])):
        attribute, low, high = int(case.attribute[at]), int(case.low[at]), int(case.high[at])
        words = case.vocabularies.get(attribute)
        constants: tuple[Value, ...] = (low, high) if words is None else (words[low],)
        operator = Operator.BETWEEN if words is None else Operator.EQ
        constraints.append(Constraint(case.attributes[attribute], operator, constants))
    return all_of(*constraints)
