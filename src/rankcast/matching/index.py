"""The updatable index: immutable segments, a small delta, and the moment each subscription died.

Readers take a snapshot by reading one attribute, and never a lock. A snapshot is the segments, as much of the delta
(the newest subscriptions, looked at one by one) as there was, and a sequence number. Removing a subscription writes, in
place, the sequence number of the removal; snapshots with a smaller number still see the subscription, later ones do
not. So every snapshot stays what it was when it was taken, and an update costs about as much as noting it down.

Writers take turns. When the delta is full the writer makes it a small segment. Segments of similar size are merged, so
that there are few and each subscription is merged a logarithmic number of times; merges are jobs for the `run` that the
index was given (`in_background`, an executor); by default they are done at once, by the writer. Removals that happen
while a merge works are carried over when its segment is put in place. `turns` says how readers and writers share the
interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from rankcast.matching.builder import Entry, build_segment
from rankcast.matching.delta import ALIVE, Delta
from rankcast.matching.merging import merge_segments
from rankcast.matching.reader import Reader
from rankcast.matching.segment import Segment
from rankcast.matching.snapshots import Part, Parts, Snapshot
from rankcast.matching.turns import Turns
from rankcast.model.errors import DuplicateIdError, UnknownIdError

__all__ = ["DELTA", "Index", "Job", "Reader", "Snapshot", "in_background"]

DELTA = 1024
"""Subscriptions looked at one by one, which costs an event up to some 5 microseconds. Fewer would be merged more often,
and merges are what readers notice most."""

GROWTH = 4
"""Segments of one size that are merged into one of the next size."""

Job: TypeAlias = Callable[[], None]


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
        self._delta = Delta(delta)
        self.turns = Turns()
        """Where readers say that they are about to come back."""
        self.attributes: dict[str, int] = {}
        """Attributes by name, numbered in the order in which they came; for readers. None is ever forgotten."""
        parts = tuple(Part.of(segment, self.attributes) for segment in segments)
        entries = tuple(entries)
        if entries:
            parts += (Part.of(build_segment(entries), self.attributes),)
        numbers = np.concatenate([np.zeros(0, np.int64), *(part.segment.numbers for part in parts)])
        if len(np.unique(numbers)) < len(numbers):
            raise DuplicateIdError("a subscription number is used twice")
        self.snapshot = self._snapshot(Parts.of(parts), 0)
        """What the index holds now: replaced by every update, never changed."""

    def reader(self) -> Reader:
        """Return a reader for one thread."""
        return Reader(self)

    def frozen(self) -> Segment:
        """Return everything that the index holds now as one segment, such as to be saved."""
        snapshot = self.snapshot
        parts = [(part.segment, part.died > snapshot.sequence) for part in snapshot.parts]
        newest = snapshot.delta_segments(list(self.attributes)) or [build_segment(())]
        return merge_segments([*parts, *((segment, np.ones(len(segment), bool)) for segment in newest)])

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
            self._delta.add(entry, self.attributes)
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
            self._delta.add(entry, self.attributes)
            due = self._finish() or due
        self._maintain(due=due)

    def _find(self, number: int) -> tuple[Part | Delta, int] | None:
        at = self._delta.place(number)
        if at is not None:
            return self._delta, at
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
        where, at = found
        where.bury(at, self.snapshot.sequence + 1)
        return isinstance(where, Part) and where.is_mostly_dead

    def _snapshot(self, together: Parts, sequence: int) -> Snapshot:
        delta = self._delta
        return Snapshot(together, delta, len(delta), delta.row_count, len(self.attributes), sequence)

    def _publish(self, parts: tuple[Part, ...] | None = None) -> None:
        current = self.snapshot
        self.snapshot = self._snapshot(current.together if parts is None else Parts.of(parts), current.sequence + 1)

    def _finish(self) -> bool:
        """End an update: flush a full delta, show the result to readers; return whether the segments changed."""
        if not self._delta.is_full:
            self._publish()
            return False
        full, self._delta = self._delta, Delta(self._delta_limit)
        segments = full.segments(list(self.attributes), len(full), full.row_count, ALIVE - 1)
        self._publish((*self.snapshot.parts, *(Part.of(segment, self.attributes) for segment in segments)))
        return True

    def _maintain(self, *, due: bool) -> None:
        """End the writer's turn: have the next merge done, if one may be due and none is under way."""
        self.turns.give_way()
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
        segment = merge_segments([(part.segment, own) for part, own in zip(chosen, alive, strict=True)])
        merged = Part.of(segment, self.attributes)
        with self._lock:
            gone = self.snapshot.sequence + 1
            for part, own in zip(chosen, alive, strict=True):
                late = part.segment.numbers[own & (part.died < ALIVE)]
                merged.bury(segment.numbers.searchsorted(late), gone)
            kept = tuple(part for part in self.snapshot.parts if part not in chosen)
            self._publish((*kept, merged) if len(segment) else kept)


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
        while size < len(part.segment) - part.dead:
            size *= GROWTH
            level += 1
        by_size.setdefault(level, []).append(part)
    for level in sorted(by_size):
        if len(by_size[level]) >= GROWTH:
            return tuple(by_size[level])
    return ()
