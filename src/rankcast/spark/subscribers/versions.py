"""Versions of the subscribers while a stream runs: polled, checked, built from the one before, pinned to micro-batches.

```
store/                     in Spark's checkpoint
  pins/0000000012          batch 12 was matched with version 3 (see `version_files`)
  versions/00000003/       one version, never changed once it has its name (see `version_files`)
  rejected/4f3a....txt     what was wrong with an update that was not taken
```

Before each micro-batch the driver calls `prepare`. A batch that is repeated gets the version that is pinned, whatever
the table says by now. For a new one the table is polled; when it has changed, a new version is made from the one
before: only subscribers that differ are read and compiled, and delivery queues keep their numbers.

- What has been matched stays: new timelines are spliced onto the old ones at the frontier, the first instant that no
  event has reached: the watermark plus the allowed lateness. Results are therefore those of one timeline, and do not
  depend on when its parts arrived, as long as each arrived before the events did. A change that states an earlier
  instant happens at the frontier; it is logged, counted and written down in the version.
- An update in which anything is wrong is not taken at all: the version before stays in force, and the report stays in
  `rejected`. A stream whose very first table is wrong does not start.
- Versions are removed once no batch that Spark can still repeat is pinned to them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from rankcast.delivery.stream.handovers import PLAIN, Handover
from rankcast.model.errors import InvalidFileError
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import SubscriberId
from rankcast.model.times import NEVER, format_time
from rankcast.spark.delivery.rerank import changes_ranks, ranking_text
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers, changed_audience
from rankcast.spark.metrics import SubscriberUpdates
from rankcast.spark.subscribers.tables import RowReader, SubscriberTable
from rankcast.spark.subscribers.timelines import ALWAYS, Timeline, missed, moment, spliced, within
from rankcast.spark.subscribers.version_files import About, LateChange, Pin, Pins, VersionChange, VersionFolder
from rankcast.storage.writing import replacing

RETAIN = 100
"""Batches whose versions are kept: as many as Spark keeps the offsets of (`spark.sql.streaming.minBatchesToRetain`)."""

REPORTED = 5
"""Problems of a rejected update that the log shows; the report has them all."""

MILLISECOND = 1_000
"""In microseconds."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    """The newest version in memory: what the next one is made from."""

    number: int
    mark: str
    timelines: dict[SubscriberId, Timeline]
    audience: CompiledSubscribers


class Versions:
    """The versions of one stream, on its driver. Calls must not overlap; micro-batches do not either."""

    def __init__(
        self,
        table: SubscriberTable,
        store: Path,
        *,
        lateness: timedelta = timedelta(0),
        schema: Schema | None = None,
        retain: int = RETAIN,
    ) -> None:
        self.counts = SubscriberUpdates()
        self.store = store
        self.folder = VersionFolder(store / "versions")
        self.pins = Pins(store / "pins")
        self._table = table
        self._lateness = -(-lateness // timedelta(milliseconds=1))
        self._reader = RowReader(schema)
        self._retain = retain
        self._state: _State | None = None
        self._refused: str | None = None
        self._reported: Path | None = None

    def prepare(self, batch: int, watermark: int | None) -> Pin:
        """Decide the version of a batch, before any of its tasks runs; `watermark` is Spark's, in milliseconds.

        Raises InvalidFileError when there is no version yet and the table is wrong, or when a version that is pinned
        is missing or damaged.
        """
        pinned = self.pins.of(batch)
        if pinned is None:
            pinned = self._decided(batch, watermark)
        if not self.folder.path(pinned.version).is_dir():
            raise self.folder.missing(pinned.version)
        self.counts = replace(self.counts, version=pinned.version)
        self._clean(batch)
        return pinned

    def _decided(self, batch: int, watermark: int | None) -> Pin:
        base = self.pins.newest_before(batch)
        frontier = ALWAYS if watermark is None else (watermark + self._lateness + 1) * MILLISECOND
        if base is None:
            self._state = None  # whatever was made was for a batch that was never pinned
        else:
            frontier = max(frontier, base.frontier)
            self._load(base.version)
        state = self._updated(batch, frontier)
        pin = self.pins.pin(Pin(batch, state.number, frontier))
        if pin.version != state.number:
            self._state = None  # another driver decided first
        return pin

    def _load(self, number: int) -> None:
        """Bring a version to memory, unless it is there."""
        if self._state is not None and self._state.number == number:
            return
        about = self.folder.about(number)
        audience = CompiledSubscribers.load(self.folder.audience(number), verify=True)  # the next one is made from it
        self._state = _State(number, about.mark, self.folder.timelines(number), audience)

    def _updated(self, batch: int, frontier: int) -> _State:
        """Return the newest version: a new one if the table has changed to something good."""
        state = self._state
        try:
            content = self._table.poll(None if state is None else self._refused or state.mark)
            if content is None and state is not None:
                return state
            rows, problems, mark = ([], (), "") if content is None else (content.rows, content.problems, content.mark)
            reading = self._reader.read(rows)
            bad = [problem for problem in (*problems, *reading.problems) if not problem.warning]
            if bad:
                self._refused = mark
                raise InvalidFileError(bad)
        except InvalidFileError as error:
            if state is None:
                raise
            self._reject(error, state)
            return state
        self._refused = None
        return self._made(About(0, None, batch, frontier, mark), reading.timelines)

    def _made(self, about: About, stated: Mapping[SubscriberId, Timeline]) -> _State:
        """Make a version of what the table states, if it differs from the one before."""
        state, frontier = self._state, about.frontier
        before = {} if state is None else state.timelines
        after: dict[SubscriberId, Timeline] = {}
        for name in dict.fromkeys((*before, *stated)):
            line = spliced(before.get(name, ()), stated.get(name, ()), frontier)
            after[name] = tuple(period for period in line if period.end >= frontier - self._lateness * MILLISECOND)
        changed = [name for name, line in after.items() if line != before.get(name, ())]
        if state is not None and not changed:
            state.mark = about.mark
            return state
        timelines = {name: line for name, line in after.items() if line}
        stated_ones = {name: [self._reader.subscriber(period.document) for period in after[name]] for name in changed}
        members = {name: list(map(within, own, after[name])) for name, own in stated_ones.items()}
        self._state = None  # used up: should anything fail from here on, the version before is loaded again
        audience = changed_audience(None if state is None else state.audience, members, stated_ones)
        about = structs.replace(
            about,
            number=1 + max(self.folder.numbers(), default=0),
            base=None if state is None else state.number,
            late=_late_changes(before, stated, changed, frontier),
        )
        self.folder.save(about, timelines, self._changes(timelines, frontier, audience), audience.save)
        self._reader.forget_but(period.document for line in timelines.values() for period in line)
        self._tell(about, len(changed))
        self._state = _State(about.number, about.mark, timelines, audience)
        return self._state

    def _changes(
        self, timelines: Mapping[SubscriberId, Timeline], frontier: int, audience: CompiledSubscribers
    ) -> Iterator[VersionChange]:
        """Return what happens to queues from the frontier on; one that is always the same has nothing happen to it."""
        for name, line in timelines.items():
            if len(line) == 1 and (line[0].start, line[0].end) == (ALWAYS, NEVER):
                continue
            people = [self._reader.subscriber(period.document) for period in line]
            policies = [
                {key: (policy, Handover.of(subscriber)) for key, policy in subscriber.policies.items()}
                for subscriber in people
            ]
            for key in dict.fromkeys(key for own in policies for key in own):
                steps = dict(schedule(line, [own.get(key) for own in policies]))
                queue = audience.queue_number((name, key))
                rankings: dict[int, str] = {}
                for at in range(1, len(line)):
                    time, policy = line[at].start, policies[at].get(key)
                    is_continued = line[at - 1].end == time and key in policies[at - 1]
                    if is_continued and policy is not None and changes_ranks(people[at - 1], people[at], key):
                        document = self._reader.file_document(line[at].document)
                        rankings[time] = ranking_text(queue, key, audience.queues.names_of(queue), document)
                        steps.setdefault(time, policy)
                times = sorted(time for time in steps if time >= frontier)
                for time in times:
                    new, handover = steps[time] or (None, PLAIN)
                    yield VersionChange(queue, time, new, rankings.get(time, ""), handover)

    def _tell(self, about: About, changed: int) -> None:
        updates, late = self.counts.updates + (about.base is not None), self.counts.late_changes + len(about.late)
        self.counts = replace(self.counts, updates=updates, late_changes=late)
        log.info("%s: version %d: %d subscribers changed", self._table.name, about.number, changed)
        for change in about.late:
            log.warning(
                "%s: subscriber %r: the change at %s came after events of that time; it takes effect at %s",
                self._table.name,
                change.subscriber,
                _shown(change.stated),
                _shown(change.effective),
            )

    def _reject(self, error: InvalidFileError, state: _State) -> None:
        """Say what is wrong with an update, in the log and in a file, once for each content of the table."""
        text = "".join(f"{problem}\n" for problem in error.problems)
        report = self.store / "rejected" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
        if report == self._reported:
            return
        self._reported = report
        self.counts = replace(self.counts, refused_updates=self.counts.refused_updates + 1)
        report.parent.mkdir(parents=True, exist_ok=True)
        with replacing(report) as stream:
            stream.write(text.encode("utf-8"))
        first = "; ".join(map(str, error.problems[:REPORTED]))
        log.error(
            "%s: the update is not taken and version %d stays in force: %s%s (all of it: %s)",
            self._table.name,
            state.number,
            first,
            "; ..." if len(error.problems) > REPORTED else "",
            report,
        )

    def _clean(self, batch: int) -> None:
        """Forget pins of batches that Spark does not repeat any more, and versions that no pin names."""
        self.pins.forget_before(batch - self._retain)
        needed = self.pins.versions()
        for number in self.folder.numbers():
            if number < max(needed, default=0) and number not in needed:
                self.folder.remove(number)


_Terms = TypeVar("_Terms")


def schedule(timeline: Timeline, policies: Sequence[_Terms | None]) -> list[tuple[int, _Terms | None]]:
    """Return when a queue begins, changes and ends, given its policy in each period (None: it has no such queue).

    >>> from rankcast.model.policies import Continuous
    >>> from rankcast.spark.subscribers.timelines import Period
    >>> schedule((Period(0, 10, "a"), Period(20, 30, "b")), [Continuous(1), Continuous(2)])
    [(0, Continuous(k=1)), (10, None), (20, Continuous(k=2)), (30, None)]
    """
    steps: list[tuple[int, _Terms | None]] = []
    current: _Terms | None = None
    until = ALWAYS
    for period, policy in zip(timeline, policies, strict=True):
        if current is not None and period.start > until:
            steps.append((until, None))
            current = None
        if policy != current:
            steps.append((period.start, policy))
            current = policy
        until = period.end
    if current is not None and until != NEVER:
        steps.append((until, None))
    return steps


def _late_changes(
    before: Mapping[SubscriberId, Timeline],
    stated: Mapping[SubscriberId, Timeline],
    changed: Iterable[SubscriberId],
    frontier: int,
) -> tuple[LateChange, ...]:
    found = ((name, missed(before.get(name, ()), stated.get(name, ()), frontier)) for name in changed)
    return tuple(LateChange(name, time, frontier) for name, time in found if time is not None)


def _shown(time: int) -> str:
    found = moment(time)
    return "ever" if found is None else format_time(found)
