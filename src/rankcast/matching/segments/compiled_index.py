"""The index for kernels: immutable segments, small deltas, and the moment each subscription died.

Readers take a snapshot by reading one attribute, and never a lock. A snapshot is the segments, the deltas (the newest
subscriptions, looked at one by one) as far as they had come, and a sequence number. Removing a subscription writes, in
place, the sequence number of the removal; snapshots with a smaller number still see the subscription, later ones do
not. So every snapshot stays what it was when it was taken, and an update costs about as much as noting it down.

Writers take turns. A full delta is put aside, where it goes on to be searched until it has become a segment. Segments
of similar size are merged, so that there are few and each subscription is merged a logarithmic number of times. Both
are jobs for the `run` that the index was given; without one the writer does them at once. One job works at a time, on
what does not change; removals that happen meanwhile are carried over when its segment is put in place.

Attributes, and elements of lists, have numbers while subscriptions ask for them. When most numbers are no longer in
use, what a job puts in place is numbered again; older snapshots keep the numbers that they had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array, starts_of, take_lists
from rankcast.compiling.arguments import KernelArguments
from rankcast.containers.container import to_arrays
from rankcast.matching.encoding.elements import Key
from rankcast.matching.encoding.texts import Texts
from rankcast.matching.entries import ALIVE, Entry, check_once
from rankcast.matching.segments.building import build_segment, merge_segments
from rankcast.matching.segments.delta import DELTA_KINDS, Delta
from rankcast.matching.segments.search import ROWS_AT_ONCE
from rankcast.matching.segments.segment import Segment
from rankcast.matching.segments.tables import DEAD, SEGMENT_KINDS
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.values import AttributeValue
from rankcast.model.valuesets.patterns import Pattern

if TYPE_CHECKING:
    from rankcast.matching.index import Run

Name: TypeAlias = str | tuple[str] | tuple[str, Key]
"""What has a number in an index: an attribute; an attribute that is asked for elements; and an element of it."""

MANY = 256
"""Subscriptions that are made a segment at once when they come together."""

GROWTH = 4
"""Segments of one size that are merged into one of the next size."""

SPARE_NAMES = 64
"""Numbers of attributes that may be unused, beside as many as are in use."""


CHECKED_BYTES = 1 << 20
"""How large the predicates of wide rows may be to be checked one by one: about what stays in a cache near the core."""


class Needs(NamedTuple):
    """How much memory of its own a thread needs to search; see `search.scratch`."""

    width: int = 1
    words: int = 0
    listed: int = 1
    stamps: int = 0
    attributes: int = 0
    rows: int = 0

    def join(self, others: Iterable[Needs]) -> Needs:
        """Return what suffices for each one of several segments, and for the results of all."""
        held = (self, *others)
        return Needs(*map(max, *held))._replace(rows=sum(needs.rows for needs in held)) if len(held) > 1 else self


@dataclass(frozen=True, eq=False)
class Part:
    """A segment with everything that is derived from it for searching, made once and shared by all threads.

    `died` says, by subscription, from which sequence number on it is no longer there; it and `facts` are changed in
    place when subscriptions die.
    """

    segment: Segment
    table: KernelArguments
    facts: Array
    died: Array
    needs: Needs
    number_of: Array
    """The number of each row's subscription."""
    texts: Texts

    @staticmethod
    def of(segment: Segment) -> Part:
        """Return a segment ready to be searched, all of whose subscriptions are alive."""
        rows, wide, held = segment.rows, segment.wide, segment.dimensions
        flags = np.zeros(len(rows) if len(segment.residues.row) else 0, np.uint8)
        flags[segment.residues.row] = 1
        has_several = len(rows) > len(segment) or bool((np.bincount(rows.subscription) > 1).any())
        wide_rows, found_rows = segment.bounds.tolist()
        per_check = _ends_per_check(segment)
        texts = Texts.of(held)
        derived: dict[str, Array] = {
            "number_of": segment.numbers.take(rows.subscription),
            "has_residue": flags,
            "facts": np.array((found_rows, has_several, 0, per_check), np.int64),
            "died": np.full(len(segment), ALIVE, np.int64),
            "dimension_of": np.arange(len(held.attributes), dtype=np.int32),
            "element_start": np.zeros(1, np.int64),
            "element_dimensions": np.zeros(0, np.int32),
        }
        named = segment.to_arrays() | to_arrays(texts)
        arrays = {name.replace(".", "_"): array for name, array in named.items()} | derived
        words = (len(wide.chunks) - 1) * wide.chunk_words
        needs = Needs(
            width=len(held),
            words=words,
            listed=max(words + ROWS_AT_ONCE, found_rows - wide_rows, wide_rows if per_check else 0) + 1,
            stamps=len(segment) if has_several else 0,
            rows=len(rows),
        )
        table = KernelArguments.of(SEGMENT_KINDS, arrays)
        return Part(segment, table, derived["facts"], derived["died"], needs, derived["number_of"], texts)

    def number_attributes(self, names: dict[Name, int]) -> Part:
        """Return the part, in its place, with its names' numbers in the index; `names` may grow."""
        numbers = [names.setdefault(name, len(names)) for name in self.names]
        dimension_of = np.full(max(numbers, default=-1) + 1, -1, np.int32)
        dimension_of[numbers] = np.arange(len(numbers))
        for name in self.asked:
            names.setdefault(name, len(names))
        postings = self.segment.dimensions.postings
        of_elements = np.array([names.setdefault(name, len(names)) for name in self.elements], np.int64)
        sizes = np.zeros(int(of_elements.max(initial=-1)) + 1, np.int64)
        sizes[of_elements] = np.diff(postings.start)
        arrays = {
            **self.table.arrays,
            "dimension_of": dimension_of,
            "element_start": starts_of(sizes),
            "element_dimensions": postings.dimensions[take_lists(postings.start, np.argsort(of_elements))[1]],
        }
        return replace(self, table=KernelArguments.of(SEGMENT_KINDS, arrays))

    @cached_property
    def elements(self) -> list[tuple[str, Key]]:
        """The elements that conditions name, each with its attribute."""
        return [(self.names[attribute], key) for attribute, key in self.segment.dimensions.postings.keys]

    @cached_property
    def asked(self) -> list[tuple[str]]:
        """The attributes that are asked for elements."""
        return list(dict.fromkeys((name,) for name, _ in self.elements))

    @cached_property
    def names(self) -> list[str]:
        """The attributes by their places in the segment."""
        return self.segment.dimensions.attributes.texts()

    @cached_property
    def patterns(self) -> Mapping[int, list[tuple[int, Pattern, bool]]]:
        """By row: (attribute, pattern, negated) for every residue."""
        residues = self.segment.residues
        found: dict[int, list[tuple[int, Pattern, bool]]] = {}
        columns = (residues.row.tolist(), residues.attribute.tolist(), residues.patterns.texts())
        for row, attribute, text, negated in zip(*columns, residues.negated.tolist(), strict=True):
            found.setdefault(row, []).append((attribute, Pattern.like(text), bool(negated)))
        return found

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        numbers = self.segment.numbers
        return (int(numbers[0]), int(numbers[-1])) if len(numbers) else (0, -1)

    @property
    def dead(self) -> int:
        """How many have died."""
        return int(self.facts[DEAD])

    @property
    def is_mostly_dead(self) -> bool:
        """Whether fewer than half are alive, so that a merge pays off whatever the size."""
        return 2 * self.dead > len(self.segment)

    def delete(self, places: int | Array, sequence: int) -> None:
        """Note that subscriptions are gone from a sequence number on."""
        # First the count, which kernels look at to know whether they have to look at who died.
        self.facts[DEAD] += np.size(places)
        self.died[places] = sequence

    def place(self, number: int) -> int | None:
        """Return where a living subscription is, or None when it is not here."""
        lowest, highest = self.ends
        if not lowest <= number <= highest:
            return None
        numbers = self.segment.numbers
        at = int(numbers.searchsorted(number))
        return at if numbers[at] == number and self.died[at] == ALIVE else None


def _ends_per_check(segment: Segment) -> int:
    """Return how many end points could be visited in the time that it takes to check a wide row; see `facts`.

    A predicate takes about as long as an end point, of which half are visited, as long as rows are in the cache.
    """
    wide = int(segment.bounds[0])
    predicates = int(segment.rows.start[wide])
    size = predicates * segment.rows.predicates.itemsize * segment.rows.predicates.shape[1]
    return -(-2 * predicates // wide) if wide and size <= CHECKED_BYTES else 0


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Some parts and deltas, the newest delta last, and what a kernel that searches all of them is given."""

    held: tuple[Part, ...]
    deltas: tuple[Delta, ...]
    tables: Array
    delta_tables: Array
    full_rows: Array
    """The rows of all deltas but the newest."""
    needs: Needs
    have_residues: bool
    have_others: bool
    """Whether entries of deltas but the newest are no rows."""

    @staticmethod
    def of(held: tuple[Part, ...], deltas: tuple[Delta, ...]) -> Parts:
        """Return some parts and deltas together."""
        tables = np.zeros((len(held), 2 * len(SEGMENT_KINDS)), np.int64)
        for at, part in enumerate(held):
            tables[at] = part.table.addresses
        delta_tables = np.zeros((len(deltas), 2 * len(DELTA_KINDS)), np.int64)
        for at, delta in enumerate(deltas):
            delta_tables[at] = delta.table.addresses
        needs = Needs().join(part.needs for part in held)
        return Parts(
            held,
            deltas,
            tables,
            delta_tables,
            np.array([delta.row_count for delta in deltas[:-1]], np.int64),
            needs._replace(rows=needs.rows + sum(delta.capacity for delta in deltas)),
            any(len(part.segment.residues.row) for part in held),
            any(len(delta.others) for delta in deltas[:-1]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What the index held at one moment; it never changes."""

    together: Parts
    names: Mapping[Name, int]
    """Numbers of what is named, which may have come to be known later."""
    attributes: int
    """How many names had a number."""
    entries: int
    """How many entries the newest delta had, how many rows, and how many entries that are none."""
    rows: int
    others: int
    sequence: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments, with those who died."""
        return self.together.held

    @property
    def delta(self) -> tuple[Entry, ...]:
        """The subscriptions that are in no segment yet."""
        *full, newest = self.together.deltas
        found = [entry for delta in full for entry in delta.living(len(delta), self.sequence)]
        return (*found, *newest.living(self.entries, self.sequence))

    def others_matching(self, attributes: Mapping[str, AttributeValue]) -> list[int]:
        """Return the numbers of those that an event satisfies, of the entries in deltas that are no rows."""
        *full, newest = self.together.deltas
        counts = [(delta.others, len(delta.others)) for delta in full] + [(newest.others, self.others)]
        return [number for few, count in counts if count for number in few.matching(attributes, count, self.sequence)]

    @property
    def has_others(self) -> bool:
        """Whether some entries of the deltas are no rows."""
        return self.others > 0 or self.together.have_others

    def __len__(self) -> int:
        return len(self.delta) + sum(int((part.died > self.sequence).sum()) for part in self.parts)


class CompiledIndex:
    """Subscriptions by number, matched and updated at the same time; see `Index`, which is what others use.

    A number may be used again after its removal. Readers that still work on an older snapshot know it as what it was.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        segments: Sequence[Segment] = (),
        run: Run,
        delta: int,
        sequence: int,
    ) -> None:
        self._lock = threading.Lock()
        self._run = run
        self._working = False
        self._delta_limit = delta
        self._names: dict[Name, int] = {}
        entries = tuple(entries)
        parts = tuple(map(Part.of, (*segments, build_segment(entries)) if entries else segments))
        numbers = np.concatenate([np.zeros(0, np.int64), *(part.segment.numbers for part in parts)])
        if len(np.unique(numbers)) < len(numbers):
            raise DuplicateIdError("a subscription number is used twice")
        parts = tuple(part.number_attributes(self._names) for part in parts)
        self.snapshot = self._snapshot(Parts.of(parts, (Delta(delta),)), sequence)
        """What the index holds now: replaced by every update, never changed."""

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
            where.delete(at, self.snapshot.sequence + 1)
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
            self._run(lambda: self._work(tuple(full), chosen))
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
                self._delete_late(made, np.array([delta.entries[at].number for at in late], np.int64))
            self._put(made, (), full)

    def _merge(self, chosen: tuple[Part, ...]) -> None:
        alive = [part.died == ALIVE for part in chosen]
        made = Part.of(merge_segments([(part.segment, own) for part, own in zip(chosen, alive, strict=True)]))
        with self._lock:
            for part, own in zip(chosen, alive, strict=True):
                self._delete_late(made, part.segment.numbers[own & (part.died < ALIVE)])
            self._put(made, chosen, ())

    def _delete_late(self, made: Part, numbers: Array) -> None:
        """Note in a new part who was removed while it was made."""
        made.delete(made.segment.numbers.searchsorted(numbers), self.snapshot.sequence + 1)

    def _put(self, made: Part, parts: tuple[Part, ...], deltas: tuple[Delta, ...]) -> None:
        """Put a part in the place of some parts and deltas."""
        together = self.snapshot.together
        kept = tuple(part for part in together.held if part not in parts)
        kept_deltas = tuple(delta for delta in together.deltas if delta not in deltas)
        if len(made.segment):
            kept += (made.number_attributes(self._names),)
        in_use = set[Name]().union(*(delta.names() for delta in kept_deltas))
        for part in kept:
            in_use.update(part.names, part.asked, part.elements)
        if len(self._names) > 2 * len(in_use) + SPARE_NAMES:
            before, self._names = self._names, {name: at for at, name in enumerate(sorted(in_use, key=repr))}
            mapping = np.array([self._names.get(name, 0) for name in before], np.int32)
            kept = tuple(part.number_attributes(self._names) for part in kept)
            kept_deltas = tuple(delta.renumber(mapping) for delta in kept_deltas)
        self.snapshot = self._snapshot(Parts.of(kept, kept_deltas), self.snapshot.sequence + 1)


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
