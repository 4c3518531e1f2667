"""The updatable index: immutable segments, a small delta, and the moment each subscription died.

Readers take a snapshot by reading one attribute, and never a lock. A snapshot is the segments, the newest
subscriptions (the delta, looked at one by one) and a sequence number. Removing a subscription from a segment writes, in
place, the sequence number of the removal; snapshots with a smaller number still see the subscription, later ones do
not. So every snapshot stays what it was when it was taken, and an update costs about as much as noting it down.

Writers take turns. When the delta is full the writer makes it a small segment. Segments of similar size are merged, so
that there are few and each subscription is merged a logarithmic number of times; merges are jobs for the `run` that the
index was given (`in_background`, an executor); by default they are done at once, by the writer. Removals that happen
while a merge works are carried over when its segment is put in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from rankcast.matching.builder import Entry, build_segment
from rankcast.matching.encoder import Encoder
from rankcast.matching.merging import merge_segments
from rankcast.matching.rows import Array, starts_of
from rankcast.matching.searcher import Searcher
from rankcast.matching.segment import Segment
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.values import Value

DELTA = 64
"""Subscriptions looked at one by one: some 20 microseconds per event, and few enough that a reader hardly notices."""

GROWTH = 4
"""Segments of one size that are merged into one of the next size."""

ALIVE = np.iinfo(np.int64).max

Job: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment with the sequence numbers at which its subscriptions died."""

    segment: Segment
    encoder: Encoder
    died: Array
    lowest: int
    highest: int
    dead: list[int] = field(default_factory=lambda: [0])
    """How many have died, in place; kernels need not look at `died` while none has."""

    @staticmethod
    def of(segment: Segment) -> Part:
        """Return a part with all its subscriptions alive."""
        return Part(
            segment,
            Encoder(segment.dimensions, segment.residues.attribute.tolist()),
            np.full(len(segment), ALIVE, np.int64),
            int(segment.numbers[0]) if len(segment) else 0,
            int(segment.numbers[-1]) if len(segment) else -1,
        )

    @property
    def is_mostly_dead(self) -> bool:
        """Whether fewer than half are alive, so that a merge pays off whatever the size."""
        return 2 * self.dead[0] > len(self.segment)

    def place(self, number: int) -> int | None:
        """Return where a living subscription is, or None when it is not here."""
        if not self.lowest <= number <= self.highest:
            return None
        numbers = self.segment.numbers
        at = int(numbers.searchsorted(number))
        return at if numbers[at] == number and self.died[at] == ALIVE else None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What the index held at one moment; it never changes."""

    parts: tuple[Part, ...]
    delta: tuple[Entry, ...]
    sequence: int

    def __len__(self) -> int:
        return len(self.delta) + sum(int((part.died > self.sequence).sum()) for part in self.parts)


class Reader:
    """Matches events against the newest snapshot of an index; one per thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._searchers: dict[Part, Searcher] = {}
        self._parts: tuple[Part, ...] = ()
        self._latest = 0

    def match_one(self, attributes: Mapping[str, Value], snapshot: Snapshot | None = None) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order.

        Unless an older snapshot is given, the newest one is used.
        """
        snapshot = self._prepared(self._index.snapshot if snapshot is None else snapshot)
        # While updates go on, a reader that let go of the GIL would wait for the writer's whole turn to get it back.
        hold, self._latest = snapshot.sequence != self._latest, snapshot.sequence
        found = [
            self._searchers[part].match_one(attributes, *_deaths(part, snapshot.sequence), hold=hold)
            for part in snapshot.parts
        ]
        newest = [entry.number for entry in snapshot.delta if entry.accepts(attributes)]
        if newest:
            found.append(np.array(newest, np.int64))
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)

    def match_batch(self, batch: pa.RecordBatch, snapshot: Snapshot | None = None) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]]."""
        snapshot = self._prepared(self._index.snapshot if snapshot is None else snapshot)
        found = [self._searchers[part].match_batch(batch, *_deaths(part, snapshot.sequence)) for part in snapshot.parts]
        if snapshot.delta:
            found.append(Searcher(build_segment(snapshot.delta)).match_batch(batch))
        return _interleaved(found, batch.num_rows)

    def _prepared(self, snapshot: Snapshot) -> Snapshot:
        if snapshot.parts is not self._parts:
            known = self._searchers
            self._searchers = {part: known.get(part) or Searcher(part.segment, part.encoder) for part in snapshot.parts}
            self._parts = snapshot.parts
        return snapshot


_NO_DEATHS = np.zeros(0, np.int64)


def _deaths(part: Part, sequence: int) -> tuple[Array, int]:
    return (part.died if part.dead[0] else _NO_DEATHS), sequence


def _interleaved(found: list[tuple[Array, Array]], events: int) -> tuple[Array, Array]:
    """Return the results of several segments as one, event by event."""
    if len(found) == 1:
        return found[0]
    sizes = [np.diff(offsets) for offsets, _ in found]
    total = starts_of(np.sum(sizes, axis=0) if sizes else np.zeros(events, np.int64))
    numbers = np.empty(int(total[-1]), np.int64)
    first = total[:-1].copy()
    for (offsets, own), size in zip(found, sizes, strict=True):
        numbers[np.arange(len(own)) + np.repeat(first - offsets[:-1], size)] = own
        first += size
    return total, numbers


class Index:
    """Subscriptions by number, matched and updated at the same time.

    A number may be used again after its removal. Readers that still work on an older snapshot know it as what it was.

    >>> from rankcast.model.expressions import attr
    >>> from rankcast.model.filters import Filter
    >>> index = Index([Entry.of(1, Filter.of(attr("rent") < 900))])
    >>> index.add(Entry.of(2, Filter.of(attr("rooms") > 2)))
    >>> index.remove(1)
    >>> index.reader().match_one({"rent": 700, "rooms": 3})
    array([2])
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        segments: Sequence[Segment] = (),
        run: Callable[[Job], object] | None = None,
        delta: int = DELTA,
    ) -> None:
        self._lock = threading.Lock()
        self._run = run
        self._merging = False
        self._delta_limit = delta
        self._delta: dict[int, Entry] = {}
        parts = tuple(Part.of(segment) for segment in segments)
        entries = tuple(entries)
        if entries:
            parts += (Part.of(build_segment(entries)),)
        numbers = np.concatenate([np.zeros(0, np.int64), *(part.segment.numbers for part in parts)])
        if len(np.unique(numbers)) < len(numbers):
            raise DuplicateIdError("a subscription number is used twice")
        self.snapshot = Snapshot(parts, (), 0)
        """What the index holds now: replaced by every update, never changed."""

    def reader(self) -> Reader:
        """Return a reader for one thread."""
        return Reader(self)

    def frozen(self) -> Segment:
        """Return everything that the index holds now as one segment, such as to be saved."""
        snapshot = self.snapshot
        parts = [(part.segment, part.died > snapshot.sequence) for part in snapshot.parts]
        newest = build_segment(snapshot.delta)
        return merge_segments([*parts, (newest, np.ones(len(newest), bool))])

    def __len__(self) -> int:
        return len(self.snapshot)

    def __contains__(self, number: int) -> bool:
        with self._lock:
            return self._find(number) is not None

    def add(self, entry: Entry) -> None:
        """Add a subscription; raises DuplicateIdError when its number is taken."""
        with self._lock:
            if self._find(entry.number) is not None:
                raise DuplicateIdError(f"subscription number {entry.number} is taken")
            self._delta[entry.number] = entry
            due = self._finish()
        self._maintain(due=due)

    def remove(self, number: int) -> None:
        """Remove a subscription; raises UnknownIdError when there is none."""
        with self._lock:
            due = self._bury(number)
            due = self._finish() or due
        self._maintain(due=due)

    def replace(self, entry: Entry) -> None:
        """Put a subscription in the place of the one with its number: every reader sees one of the two."""
        with self._lock:
            due = self._bury(entry.number)
            self._delta[entry.number] = entry
            due = self._finish() or due
        self._maintain(due=due)

    def _find(self, number: int) -> tuple[Part, int] | Entry | None:
        entry = self._delta.get(number)
        if entry is not None:
            return entry
        for part in self.snapshot.parts:
            at = part.place(number)
            if at is not None:
                return part, at
        return None

    def _bury(self, number: int) -> bool:
        """Take a subscription away; return whether its part is now mostly dead."""
        found = self._find(number)
        if found is None:
            raise UnknownIdError(f"there is no subscription number {number}")
        if isinstance(found, Entry):
            del self._delta[number]
            return False
        part, at = found
        part.dead[0] += 1
        part.died[at] = self.snapshot.sequence + 1
        return part.is_mostly_dead

    def _publish(self, parts: tuple[Part, ...] | None = None) -> None:
        current = self.snapshot
        self.snapshot = Snapshot(
            current.parts if parts is None else parts, tuple(self._delta.values()), current.sequence + 1
        )

    def _finish(self) -> bool:
        """End an update: flush a full delta, show the result to readers; return whether the segments changed."""
        if len(self._delta) < self._delta_limit:
            self._publish()
            return False
        part = Part.of(build_segment(self._delta.values()))
        self._delta = {}
        self._publish((*self.snapshot.parts, part))
        return True

    def _maintain(self, *, due: bool) -> None:
        """Have the next merge done, if one may be due and none is under way."""
        if not due:
            return
        with self._lock:
            chosen = () if self._merging else _to_merge(self.snapshot.parts, self._delta_limit)
            self._merging = self._merging or bool(chosen)
        if not chosen:
            return
        try:
            (self._run or _at_once)(lambda: self._work(chosen))
        except BaseException:  # such as an executor that was shut down: the next update tries again
            self._merging = False
            raise

    def _work(self, chosen: tuple[Part, ...]) -> None:
        """Do one merge, and see to whatever is due after it."""
        try:
            self._merge(chosen)
        finally:
            with self._lock:
                self._merging = False
        self._maintain(due=True)

    def _merge(self, chosen: tuple[Part, ...]) -> None:
        alive = [part.died == ALIVE for part in chosen]
        merged = Part.of(
            merge_segments([(part.segment, own) for part, own in zip(chosen, alive, strict=True)]),
        )
        with self._lock:
            gone = self.snapshot.sequence + 1
            for part, own in zip(chosen, alive, strict=True):
                late = part.segment.numbers[own & (part.died < ALIVE)]
                merged.died[merged.segment.numbers.searchsorted(late)] = gone
                merged.dead[0] += len(late)
            kept = tuple(part for part in self.snapshot.parts if part not in chosen)
            self._publish((*kept, merged) if len(merged.segment) else kept)


def in_background(job: Job) -> None:
    """Do a job in a thread of its own: a `run` for `Index`."""
    threading.Thread(target=job, name="rankcast-merge", daemon=True).start()


def _at_once(job: Job) -> None:
    job()


def _to_merge(parts: tuple[Part, ...], smallest: int) -> tuple[Part, ...]:
    """Return parts of similar size that are too many, or one that is mostly dead; empty when all is well."""
    by_size: dict[int, list[Part]] = {}
    for part in parts:
        if part.is_mostly_dead:
            return (part,)
        size, level = smallest, 0
        while size < len(part.segment) - part.dead[0]:
            size *= GROWTH
            level += 1
        by_size.setdefault(level, []).append(part)
    for level in sorted(by_size):
        if len(by_size[level]) >= GROWTH:
            return tuple(by_size[level])
    return ()
