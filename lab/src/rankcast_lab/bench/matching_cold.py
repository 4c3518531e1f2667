"""`rankcast bench matching-cold`: from the start of a process to the first match of a saved index.

The index is saved once. New processes then import rankcast, load the kernels that earlier ones left in numba's cache,
map the index, with its checksum verified or not, and match one event. The first process of all may have to compile;
it is reported apart. The clock is the wall's, from before the process is started until its answer has arrived.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from rankcast.matching.index import Index
from rankcast.model.errors import RankcastError
from rankcast.storage.index_files import save_index
from rankcast_lab.bench.comparing import Matches, compare
from rankcast_lab.bench.matching_engines import build_index, match_brute_force
from rankcast_lab.bench.matching_work import Work
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Figure, Report
from rankcast_lab.bench.timing import timed

DEFAULT_SUBSCRIPTIONS = (100_000,)
REPEATS = 5
MOST_SECONDS = 2.0

FIRST_MATCH = """
import json, sys
from time import perf_counter
started = perf_counter()
from pathlib import Path
from rankcast.storage.index_files import load_index
imported = perf_counter()
index = load_index(Path(sys.argv[1]), verify=sys.argv[2] == "verify")
loaded = perf_counter()
found = index.reader().match_one(json.loads(sys.argv[3]))
matched = perf_counter()
seconds = {"import": imported - started, "load": loaded - imported, "first match": matched - loaded}
print(json.dumps({"seconds": seconds, "found": found.tolist()}))
"""
"""What the new process does; its last line is the answer."""


def run(settings: Settings) -> Report:
    """Measure every workload at every number of subscriptions."""
    report = Report("matching-cold")
    report.warn_when_busy()
    for workload in settings.workloads or ("W1",):
        for subscriptions in settings.subscriptions or DEFAULT_SUBSCRIPTIONS:
            settings.say(f"{workload}: saving an index of {subscriptions:,} subscriptions")
            with TemporaryDirectory(prefix="rankcast-bench-") as folder:
                work = Work.of(workload, subscriptions, 1, settings.seed)
                _measure(work, Path(folder) / "index", settings, report)
    return report


def _measure(work: Work, path: Path, settings: Settings, report: Report) -> None:
    index = Index(segments=[build_index(work.source)])
    seconds, _ = timed(lambda: save_index(path, index.snapshot), perf_counter)
    report.figures.append(Figure(work.name, "save", seconds, "s"))
    event = work.source.event_mappings()[0]
    truth = match_brute_force(work, 1)
    for way in ("verify", "trust"):
        settings.say(f"{work.name}: starting processes that {way} the file")
        took, answer = timed(lambda way=way: _first_match(path, way, event), perf_counter)  # type: ignore[misc]
        if way == "verify":
            report.figures.append(Figure(work.name, "very first process, which may compile", took, "s"))
        found = np.array(answer["found"], np.int64)
        matches = Matches(np.array((0, len(found))), found)
        report.add(compare(work.name, "brute-force", {"brute-force": truth, f"cold-{way}": matches}))
        _report(work.name, way, [_timed_match(path, way, event) for _ in range(REPEATS)], report)


def _timed_match(path: Path, way: str, event: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    return timed(lambda: _first_match(path, way, event), perf_counter)


def _report(case: str, way: str, runs: list[tuple[float, dict[str, Any]]], report: Report) -> None:
    total, answer = min(runs, key=lambda one: one[0])
    for name, seconds in answer["seconds"].items():
        report.figures.append(Figure(case, f"{way}: {name}", seconds, "s"))
    report.figures.append(Figure(case, f"{way}: whole process", total, "s"))
    report.require(f"{case}: seconds of a cold start ({way})", Bound.BELOW, MOST_SECONDS, total)


def _first_match(path: Path, way: str, event: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-c", FIRST_MATCH, str(path), way, json.dumps(event)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RankcastError(f"the new process failed: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
