"""`rankcast bench against COMMIT NAME`: a bench of this version and of another commit, in turn, row by row.

Each run is the whole command `rankcast bench NAME ... --json` in a process of its own, in the environment of its
version. Runs take turns, so that what else the machine does concerns both. A row's speed is the median over the pairs
of runs of (cost before / cost now): above 1 is faster now. Rows that only one version has are left out, and named.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rankcast.model.errors import RankcastError
from rankcast_lab.bench.commits import clean_environment, python_of
from rankcast_lab.bench.registry import Say
from rankcast_lab.bench.report import machine

FEWEST_RUNS = 5
COMMAND = ("-c", "from rankcast.cli.main import app; app()", "bench")
"""How a Python runs a bench; every version has the command line there."""

RowKey = tuple[str, str]
Costs = Mapping[RowKey, float]
"""What one run of a bench found: the microseconds per event of each (case, engine)."""


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One engine on one case: medians of both versions, and how much faster it is now, as the median of pairs."""

    case: str
    engine: str
    before: float
    now: float
    speed: float
    slowest: float
    fastest: float


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """What was found, which rows one version lacks, and the load of the machine before and after."""

    arguments: tuple[str, ...]
    against: str
    runs: int
    rows: tuple[SpeedRow, ...]
    alone: tuple[str, ...]
    loads: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**asdict(self), "machine": machine()}


def run(arguments: Sequence[str], against: str, runs: int = FEWEST_RUNS, say: Say = lambda _: None) -> SpeedReport:
    """Run a bench, given by its name and options, under both versions in turn."""
    say(f"setting up {against}")
    pythons = (python_of(against), Path(sys.executable))
    load = os.getloadavg()[0]
    found: tuple[list[Costs], list[Costs]] = ([], [])
    for number in range(runs):
        say(f"run {number + 1} of {runs}")
        for version in (0, 1) if number % 2 else (1, 0):  # neither is always the first
            found[version].append(costs_of(pythons[version], arguments))
    rows, alone = compare(*found)
    return SpeedReport(tuple(arguments), against, runs, tuple(rows), tuple(alone), (load, os.getloadavg()[0]))


def costs_of(python: Path, arguments: Sequence[str]) -> Costs:
    """Run a bench once and return its costs."""
    command = [str(python), *COMMAND, *arguments, "--json"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    try:
        rows = json.loads(done.stdout)["rows"]
    except (ValueError, KeyError):
        said = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        raise RankcastError(f"bench {' '.join(arguments)}: failed under {python}: {said[-1]}") from None
    return {(row["case"], row["engine"]): row["microseconds_per_event"] for row in rows}


def compare(before: Sequence[Costs], now: Sequence[Costs]) -> tuple[list[SpeedRow], list[str]]:
    """Return the rows that every run has, and the names of those that some lack.

    >>> rows, alone = compare([{("a", "x"): 4.0, ("b", "x"): 1.0}] * 2, [{("a", "x"): 2.0}, {("a", "x"): 5.0}])
    >>> rows[0].speed, rows[0].slowest, rows[0].fastest, alone
    (1.4, 0.8, 2.0, ['b: x'])
    """
    keys = list(dict.fromkeys(key for run in (*before, *now) for key in run))
    shared = [key for key in keys if all(key in run for run in (*before, *now))]
    alone = [f"{case}: {engine}" for case, engine in keys if (case, engine) not in shared]
    return [_row(key, before, now) for key in shared], alone


def _row(key: RowKey, before: Iterable[Costs], now: Iterable[Costs]) -> SpeedRow:
    pairs = [(earlier[key], later[key]) for earlier, later in zip(before, now, strict=True)]
    speeds = [earlier / later for earlier, later in pairs]
    medians = (median(earlier for earlier, _ in pairs), median(later for _, later in pairs))
    return SpeedRow(*key, *medians, median(speeds), min(speeds), max(speeds))
