"""`rankcast bench hub`: the hub of this version and, with `--against COMMIT`, of another, measured in turn.

The other version has a work tree and an environment of its own (`commits`). A case runs in one process per version;
both are made ready, and then measure one after the other, so that what else the machine does concerns both. Values are
medians, a ratio that of the ratios of single runs; times are CPU time. `hub_measuring` does the work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from rankcast.model.errors import RankcastError, UnknownIdError, shown
from rankcast.model.policies import AllMatches, TieRule
from rankcast.model.subscriptions import Subscriber
from rankcast.samples.feeds import DEFAULT_START, feed_named
from rankcast.storage.events.files import write_events
from rankcast.storage.subscribers.files import save_subscribers
from rankcast_lab.bench.commits import clean_environment, python_of
from rankcast_lab.bench.registry import Say
from rankcast_lab.bench.report import machine

MEASURING = Path(__file__).with_name("hub_measuring.py")
FEWEST_RUNS = 5
QUICK_SCALE = 0.02
NOW, BEFORE = "now", "before"
MOST_QUEUE_BYTES = 10_000.0
"""So that 100,000 full queues take less than a gigabyte."""

MOST_FOR_CAPS = 1.6
"""So that `publish-10k` with a cap still takes a tenth of what it once took, as it has to without: it takes 0.062."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is measured; what is required of it is the value itself, or its ratio now / before, or nothing.

    A case that is not `repeated` is measured once and for this version only: it takes too long. One that is `new` asks
    for what older versions lack, so it is measured for this version only as well.
    """

    what: str
    unit: str = "µs"
    most_ratio: float | None = None
    most: float | None = None
    repeated: bool = True
    new: bool = False


CASES: Mapping[str, Case] = {
    "publish-10k": Case("publish to 10,000 subscribers, some 150 matches", most_ratio=0.1),
    "publish-100k": Case("publish to 100,000 subscribers, some 150 matches", most_ratio=0.1),
    "publish-cap": Case(
        "publish to 10,000 subscribers with a cap of 5 a day", "x without", most=MOST_FOR_CAPS, new=True
    ),
    "publish-caps": Case("... with two caps, one by value", "x without", most=MOST_FOR_CAPS, new=True),
    "publish-calendar": Case("... with hours of a calendar", "x a duration", most=MOST_FOR_CAPS, new=True),
    "best-ten": Case("publish to the 10 best of 10,000 matches", "x 100 matches", most=20.0, new=True),
    "fixed": Case("publish a dict of ten attributes, one match", most_ratio=0.6),
    "one-match": Case("publish an event that is made already, one match", most_ratio=1.0),
    "match-one": Case("match a dict of 30 strings with the index", most_ratio=0.4),
    "ideal-points": Case("publish to four ideal points without a filter, top 10 of 20,000", most_ratio=0.1),
    "subscribe-many": Case("subscribe 100,000 text filters together, each", most_ratio=0.4),
    "subscribe": Case("subscribe text filters one by one, each", most_ratio=1.0),
    "match": Case("`rankcast match`, 2,000 events and subscribers", "s", most_ratio=0.1),
    "start-cold": Case("first event of a new process, nothing compiled", "x numpy", most=4.0),
    "start-warm": Case("first event of a new process", "x numpy", most=4.0),
    "memory-topkw": Case("a full queue, top 10 of 20,000", "bytes", most=MOST_QUEUE_BYTES, repeated=False),
    "memory-sliding": Case("a full queue, sliding 10 of 20,000", "bytes", most=MOST_QUEUE_BYTES, repeated=False),
    "memory-shard-topkw": Case("... in Spark's state, top 10", "bytes", most=MOST_QUEUE_BYTES, repeated=False),
    "memory-shard-sliding": Case("... in Spark's state, sliding 10", "bytes", most=MOST_QUEUE_BYTES, repeated=False),
}

FACTORS = {"µs": 1e6}
"""By which the values of a unit are multiplied: all are measured in seconds, bytes or times."""


@dataclass(frozen=True, slots=True)
class HubRow:
    """What was found for a case. `holds` is None where nothing is required or can be said."""

    case: str
    what: str
    unit: str
    before: float | None
    now: float
    ratio: float | None
    required: str
    holds: bool | None
    runs: int


@dataclass(frozen=True, slots=True)
class HubSettings:
    """What to measure: names of cases (none: all that are repeated), against which commit, how large, how often."""

    cases: tuple[str, ...] = ()
    against: str | None = None
    scale: float = 1.0
    runs: int = FEWEST_RUNS
    say: Say = lambda _: None

    def chosen(self) -> list[str]:
        """Return the cases that are meant."""
        for name in self.cases:
            if name not in CASES:
                raise UnknownIdError(f"there is no case {shown(name)} of the hub; expected one of {', '.join(CASES)}")
        return list(dict.fromkeys(self.cases)) or [name for name, case in CASES.items() if case.repeated]


def run(settings: HubSettings) -> list[HubRow]:
    """Measure the cases one after the other."""
    names = settings.chosen()
    pythons = {NOW: Path(sys.executable)}
    if settings.against is not None:
        settings.say(f"setting up {settings.against}")
        pythons[BEFORE] = python_of(settings.against)
    with TemporaryDirectory(prefix="rankcast-bench-") as made:
        folder = Path(made)
        if "match" in names:
            _write_files(folder, round(2_000 * settings.scale) or 1)
        return [_measured(name, pythons, folder, settings) for name in names]


def row_of(name: str, values: Mapping[str, Sequence[float]]) -> HubRow:
    """Return the row of a case from what was measured under each version.

    >>> found = row_of("fixed", {"now": [3e-4, 1e-4, 2e-4], "before": [4e-4, 4e-4, 4e-4]})
    >>> found.before, found.now, found.ratio, found.required, found.holds
    (400.0, 200.0, 0.5, 'ratio at most 0.6', True)
    """
    case = CASES[name]
    medians = {version: FACTORS.get(case.unit, 1.0) * median(found) for version, found in values.items()}
    now, before = medians[NOW], medians.get(BEFORE)
    pairs = zip(values[NOW], values.get(BEFORE, ()), strict=False)  # nothing before: no pairs
    ratio = None if before is None else median(one / other for one, other in pairs)
    required, holds = "", None
    if case.most is not None:
        required, holds = f"at most {case.most:g}", now <= case.most
    elif case.most_ratio is not None:
        required = f"ratio at most {case.most_ratio:g}"
        holds = None if ratio is None else ratio <= case.most_ratio
    return HubRow(name, case.what, case.unit, before, now, ratio, required, holds, len(values[NOW]))


def to_json(rows: Iterable[HubRow], settings: HubSettings) -> dict[str, Any]:
    """Return the rows as plain data, with what a reader should know of the run."""
    about = {"bench": "hub", "against": settings.against, "scale": settings.scale, "load": os.getloadavg()[0]}
    return {**about, "rows": [asdict(row) for row in rows], "machine": machine()}


def _measured(name: str, pythons: Mapping[str, Path], folder: Path, settings: HubSettings) -> HubRow:
    case = CASES[name]
    versions = list(pythons) if case.repeated and not case.new else [NOW]
    with ExitStack() as stack:
        settings.say(f"{name}: making ready")
        workers = {
            version: stack.enter_context(_Worker(version, pythons[version], name, settings.scale, folder))
            for version in versions
        }
        for worker in workers.values():
            worker.read()
        values: dict[str, list[float]] = {version: [] for version in versions}
        runs = settings.runs if case.repeated else 1
        for number in range(runs):
            settings.say(f"{name}: run {number + 1} of {runs}")
            for version in versions if number % 2 else reversed(versions):  # neither is always the first
                values[version].append(workers[version].measured())
    return row_of(name, values)


class _Worker:
    """A process that has made one case ready under one version, and measures when it is told to."""

    def __init__(self, version: str, python: Path, case: str, scale: float, folder: Path) -> None:
        self._name = f"{case} ({version})"
        self._process = subprocess.Popen(
            [python, "-P", MEASURING, case, str(scale), folder],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measured(self) -> float:
        """Let it measure once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self.read())

    def read(self) -> str:
        """Return its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._process.communicate()[1].strip().splitlines()
            raise RankcastError(f"{self._name}: the process that measures failed: {said[-1] if said else 'no word'}")
        return line.strip()


def _write_files(folder: Path, count: int) -> None:
    feed = feed_named("flats")
    people = map(_plain, feed.subscribers(count, 1, DEFAULT_START))
    write_events(folder / "events.jsonl", feed.events(count, 1, DEFAULT_START))
    save_subscribers(folder / "people.yaml", tuple(people), feed.schema)


def _plain(subscriber: Subscriber) -> Subscriber:
    """Return a subscriber whom earlier versions can read, too: they know of no rule for ties."""
    policy = subscriber.deliver
    if isinstance(policy, AllMatches):
        return subscriber
    return structs.replace(subscriber, deliver=replace(policy, ties=TieRule.NEWER))
