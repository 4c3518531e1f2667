"""`rankcast bench matching-threads`: two threads over one index, against one thread with the same events.

Each thread has a reader of its own and takes every second block of events. Kernels release the GIL, so on two free
cores the time should halve; what the machine does besides counts here, since the clock is the wall's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from rankcast.arrays import Array
from rankcast.matching.index import Index
from rankcast_lab.bench.comparing import Matches, compare, gathered
from rankcast_lab.bench.matching_engines import build_index, match_brute_force
from rankcast_lab.bench.matching_work import Work
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each

DEFAULT_SUBSCRIPTIONS = (100_000,)
DEFAULT_EVENTS = 8_000
BLOCK = 500
"""Events of one call: a batch as it might come from a file or a socket."""

THREADS = 2
REPEATS = 7
COMPARED = 100


def run(settings: Settings) -> Report:
    """Measure every workload at every number of subscriptions."""
    report = Report("matching-threads")
    report.warn_when_busy()
    for workload in settings.workloads or ("W1",):
        for subscriptions in settings.subscriptions or DEFAULT_SUBSCRIPTIONS:
            settings.say(f"{workload}: building an index of {subscriptions:,} subscriptions")
            work = Work.of(workload, subscriptions, settings.events or DEFAULT_EVENTS, settings.seed)
            _measure(work, settings, report)
    return report


def _measure(work: Work, settings: Settings, report: Report) -> None:
    index = Index(segments=[build_index(work.source)])
    batch = work.source.event_batch()
    blocks = [batch.slice(start, BLOCK) for start in range(0, batch.num_rows, BLOCK)]
    readers = [index.reader() for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        one, several = partial(_match, readers[0], blocks), partial(_match_together, pool, readers, blocks)
        settings.say(f"{work.name}: comparing the answers")
        found = {"one-thread": _joined(one()), f"{THREADS}-threads": _joined(several())}
        truth = match_brute_force(work, min(COMPARED, batch.num_rows))
        report.add(compare(work.name, "brute-force", {"brute-force": truth, **found}))
        report.add(compare(work.name, "one-thread", found))
        settings.say(f"{work.name}: measuring")
        best = best_of_each(REPEATS, {"one-thread": one, f"{THREADS}-threads": several}, perf_counter)
    for name, seconds in best.items():
        matches = len(found[name].numbers) / batch.num_rows
        report.rows.append(Row(work.name, name, seconds / batch.num_rows * 1e6, matches_per_event=matches))
    gain = best["one-thread"] / best[f"{THREADS}-threads"]
    report.figures.append(Figure(work.name, f"throughput of {THREADS} threads", gain, "x one thread"))
    report.require(f"{work.name}: throughput of {THREADS} threads / one", Bound.ABOVE, 1.0, gain)


def _match(reader: Any, blocks: list[pa.RecordBatch]) -> list[tuple[Array, Array]]:
    return [reader.match_batch(block) for block in blocks]


def _match_together(pool: ThreadPoolExecutor, readers: list[Any], blocks: list[pa.RecordBatch]) -> list[Any]:
    """Match every n-th block in each of n threads; return the results in the order of the blocks."""
    shares = [blocks[at :: len(readers)] for at in range(len(readers))]
    done = list(pool.map(_match, readers, shares))
    return [done[at % len(readers)][at // len(readers)] for at in range(len(blocks))]


def _joined(results: list[tuple[Array, Array]]) -> Matches:
    parts = [Matches(*result) for result in results]
    return gathered(part.of(event) for part in parts for event in range(len(part)))
