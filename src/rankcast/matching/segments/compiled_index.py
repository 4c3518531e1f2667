"""The index for kernels: immutable segments, small deltas, and the moment each subscription died.

Readers take a snapshot by reading one attribute, and never a lock. A snapshot is the segments, the deltas (the newest
subscriptions, looked at one by one) as far as they had come, and a sequence number. Removing a subscription writes, in
place, the sequence number of the removal; snapshots with a smaller number still see the subscription, later ones do
not. So every snapshot stays what it was when it was taken, and an update costs about as much as noting it down.

Writers take turns. A full delta is put aside, where it goes on to be searched until it has become a segment. Segments
of similar size are merged, so that there are few and each subscription is merged a logarithmic number of times. Both
are jobs for the `run` that the index was given; without one the writer does them at once. One job works at a time, on
what does not change; removals that happen meanwhile are carried over when its segment is put in place.

Attributes have numbers while subscriptions ask for them. When most numbers are no longer in use, what a job puts in
place is numbered again; older snapshots keep the numbers that they had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.entries import Entry, check_once
from rankcast.matching.few import ALIVE
from rankcast.matching.segments.builder import build_segment
from rankcast.matching.segments.delta import Delta
from rankcast.matching.segments.merging import merge_segments
from rankcast.matching.segments.segment import Segment
from rankcast.matching.segments.snapshots import Part, Parts, Snapshot
from rankcast.model.errors import DuplicateIdError, UnknownIdError

if TYPE_CHECKING:
    from rankcast.matching.index import Job, Run

MANY = 256
"""Subscriptions that are made a segment at once when they come together."""

GROWTH = 4
"""Segments of one size that are merged into one of the next size."""

SPARE_NAMES = 64
"""Numbers of attributes that may be unused, beside as many as are in use."""


class CompiledIndex:
    """Subscriptions by number, matched and updated at the same time; see `Index`, which is what others use.

    A number may be used again after its removal. Readers that still work on an older snapshot know it as what it was.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        segments: Sequence[Segment] = (),
        run: Run | None = None,
        delta: int,
        sequence: int = 0,
    ) -> None:
        self._lock = threading.Lock()
        self._run = run
        self._working = False
        self._delta_limit = delta
        self._names: dict[str, int] = {}
        entries = tuple(entries)
        parts = tuple(map(Part.of, (*segments, build_segment(entries)) if entries else segments))
        numbers = np.concatenate([np.zeros(0, np.int64), *(part.segment.numbers for part in parts)])
        if len(np.unique(numbers)) < len(numbers):
            raise DuplicateIdError("a subscription number is used twice")
        parts = tuple(part.numbered(self._names) for part in parts)
        self.snapshot = self._snapshot(Parts.of(parts, (Delta(delta),)), sequence)
        """What the index holds now: replaced by every update, never changed."""

    def frozen(self) -> Segment:
        """Return everything that the index holds now as one segment, such as to be saved."""
        snapshot = self.snapshot
        parts = [(part.segment, part.died > snapshot.sequence) for part in snapshot.parts]
        newest = build_segment(snapshot.delta)
        return merge_segments([*parts, (newest, np.ones(len(newest), bool))])

    def __contains__(self, number: int) -> bool:
        with self._lock:
            return self._find(number) is not None

    def add_many(self, entries: Sequence[Entry]) -> None:
        """Add subscriptions, all or none; raises DuplicateIdError when a number is taken.

        A few become part of the newest delta; many are a segment of their own from the start.
        """
        check_once(entries)
        made = Part.of(build_segment(entries)) if len(entries) >= min(MANY, self._delta_limit) else None
        is_due = made is not None
        with self._lock:
            for entry in entries:
                if self._find(entry.number) is not None:
                    raise DuplicateIdError(f"subscription number {entry.number} is taken")
            if made is not None:
                self._put(made, (), ())
            else:
                for entry in entries:
                    newest = self.snapshot.together.deltas[-1]
                    newest.add(entry, self._names)
                    self._publish(Delta(self._delta_limit) if newest.is_full else None)
                    is_due = is_due or newest.is_full
        if is_due:
            self._maintain()

    def remove(self, number: int) -> None:
        """Remove a subscription; raises UnknownIdError when there is none."""
        with self._lock:
            found = self._find(number)
            if found is None:
                raise UnknownIdError(f"there is no subscription number {number}")
            where, at = found
            where.bury(at, self.snapshot.sequence + 1)
            self._publish()
        if isinstance(where, Part) and where.is_mostly_dead:
            self._maintain()

    def _find(self, number: int) -> tuple[Part | Delta, int] | None:
        together = self.snapshot.together
        held: tuple[Delta | Part, ...] = (*together.deltas[::-1], *together.held)
        for where in held:
            at = where.place(number)
            if at is not None:
                return where, at
        return None

    def _snapshot(self, together: Parts, sequence: int) -> Snapshot:
        newest = together.deltas[-1]
        names = self._names
        counts = len(newest), newest.row_count, len(newest.others)
        return Snapshot(together, names, len(names), *counts, sequence)

    def _publish(self, fresh: Delta | None = None) -> None:
        """End an update: show the result to readers, with a fresh delta after the full one if there is one."""
        current = self.snapshot
        together = current.together
        if fresh is not None:
            together = Parts.of(together.held, (*together.deltas, fresh))
        self.snapshot = self._snapshot(together, current.sequence + 1)

    def _maintain(self) -> None:
        """Have the next job done, if one is due and none is under way."""
        with self._lock:
            if self._working:
                return
            *full, _ = self.snapshot.together.deltas
            chosen = () if full else _to_merge(self.snapshot.parts, self._delta_limit)
            due = self._working = bool(full or chosen)
        if not due:
            return
        try:
            (self._run or _at_once)(lambda: self._work(tuple(full), chosen))
        except BaseException:  # such as an executor that was shut down: the next update tries again
            self._working = False
            raise

    def _work(self, full: tuple[Delta, ...], chosen: tuple[Part, ...]) -> None:
        """Make segments of full deltas, or one of several parts; then see to whatever is due after that."""
        try:
            if full:
                self._flush(full)
            else:
                self._merge(chosen)
        finally:
            with self._lock:
                self._working = False
        self._maintain()

    def _flush(self, full: tuple[Delta, ...]) -> None:
        alive = [delta.died[: len(delta)] == ALIVE for delta in full]
        entries = [
            delta.entries[at] for delta, own in zip(full, alive, strict=True) for at in np.flatnonzero(own).tolist()
        ]
        made = Part.of(build_segment(entries))
        with self._lock:
            for delta, own in zip(full, alive, strict=True):
                late = np.flatnonzero(own & (delta.died[: len(delta)] < ALIVE)).tolist()
                self._bury_late(made, np.array([delta.entries[at].number for at in late], np.int64))
            self._put(made, (), full)

    def _merge(self, chosen: tuple[Part, ...]) -> None:
        alive = [part.died == ALIVE for part in chosen]
        made = Part.of(merge_segments([(part.segment, own) for part, own in zip(chosen, alive, strict=True)]))
        with self._lock:
            for part, own in zip(chosen, alive, strict=True):
                self._bury_late(made, part.segment.numbers[own & (part.died < ALIVE)])
            self._put(made, chosen, ())

    def _bury_late(self, made: Part, numbers: Array) -> None:
        """Note in a new part who was removed while it was made."""
        made.bury(made.segment.numbers.searchsorted(numbers), self.snapshot.sequence + 1)

    def _put(self, made: Part, parts: tuple[Part, ...], deltas: tuple[Delta, ...]) -> None:
        """Put a part in the place of some parts and deltas."""
        together = self.snapshot.together
        kept = tuple(part for part in together.held if part not in parts)
        kept_deltas = tuple(delta for delta in together.deltas if delta not in deltas)
        if len(made.segment):
            kept += (made.numbered(self._names),)
        in_use = {name for part in kept for name in part.prepared.names}.union(*(one.names() for one in kept_deltas))
        if len(self._names) > 2 * len(in_use) + SPARE_NAMES:
            before, self._names = self._names, {name: at for at, name in enumerate(sorted(in_use))}
            mapping = np.array([self._names.get(name, 0) for name in before], np.int32)
            kept = tuple(part.numbered(self._names) for part in kept)
            kept_deltas = tuple(delta.renumbered(mapping) for delta in kept_deltas)
        self.snapshot = self._snapshot(Parts.of(kept, kept_deltas), self.snapshot.sequence + 1)


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
