"""`rankcast bench matching-latency`: one event per call, against the same events in one batch.

A call has to find its way through Python to the kernel and back, which a batch does once. Two ways are measured: the
batch of encoded events, and one plain dict of attributes per call through a reader of the index, as the hub does it.
CPU time: how long a caller waits depends on who else uses the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rankcast.matching.index import Index
from rankcast.matching.segments.compiled_index import Part
from rankcast.matching.segments.compiled_reader import Searcher
from rankcast_lab.bench.comparing import Matches, compare, gathered
from rankcast_lab.bench.matching_engines import build_index, first_events, match_brute_force
from rankcast_lab.bench.matching_work import Work
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Report, Row
from rankcast_lab.bench.timing import best_of_each

DEFAULT_SUBSCRIPTIONS = (100_000,)
DEFAULT_EVENTS = 2_000
REPEATS = 7
COMPARED = 50

MOST_MICROSECONDS = 20.0
"""What a call may cost above the event's share of a batch."""

BATCH, PLAIN = "batch-encoded", "one-dict"


def run(settings: Settings) -> Report:
    """Measure every workload at every number of subscriptions."""
    report = Report("matching-latency")
    for workload in settings.workloads or ("W1",):
        for subscriptions in settings.subscriptions or DEFAULT_SUBSCRIPTIONS:
            settings.say(f"{workload}: building an index of {subscriptions:,} subscriptions")
            work = Work.of(workload, subscriptions, settings.events or DEFAULT_EVENTS, settings.seed)
            _measure(work, settings, report)
    return report


def _measure(work: Work, settings: Settings, report: Report) -> None:
    segment = build_index(work.source)
    searcher, reader = Searcher(Part.of(segment)), Index(segments=[segment]).reader()
    plain = work.source.event_mappings()
    batch = searcher.encoder.encode_batch(work.source.event_batch())
    ways: dict[str, Callable[[int], Matches]] = {
        BATCH: lambda count: Matches(*searcher.match_batch(first_events(batch, count))),
        PLAIN: lambda count: gathered(map(reader.match_one, plain[:count])),
    }
    compared = min(COMPARED, len(plain))
    found = {name: match(compared) for name, match in ways.items()}
    report.add(compare(work.name, "brute-force", {"brute-force": match_brute_force(work, compared), **found}))
    settings.say(f"{work.name}: measuring")
    calls: dict[str, Callable[[], object]] = {
        BATCH: partial(searcher.match_batch, batch),
        PLAIN: lambda: [reader.match_one(event) for event in plain],
    }
    best = best_of_each(REPEATS, calls)
    for name, seconds in best.items():
        matches = len(found[name].numbers) / compared
        report.rows.append(Row(work.name, name, seconds / len(plain) * 1e6, matches_per_event=matches))
    above = (best[PLAIN] - best[BATCH]) / len(plain) * 1e6
    report.require(f"{work.name}: µs of {PLAIN} above {BATCH}", Bound.AT_MOST, MOST_MICROSECONDS, above)
