"""Merges segments into one, without looking at filters again: ranks of the parts become ranks of the whole.

Ranks are divided by boundaries: boundary r lies below rank r, so a range low..high uses the boundaries low and high+1.
Some boundaries separate regions of a dimension (missing, numbers, strings, ...), the others are cuts. The cuts that are
still in use are sorted together, which says where every old boundary lies in the new dimensions; everything else
is array arithmetic. Subscriptions that are no longer alive, and cuts that only they used, are left out.

Cost: a sort of the cuts, and what it takes to build a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows, starts_of
from rankcast.matching.segments.segment import Residues, Segment, make_segment


def merge_segments(parts: Sequence[tuple[Segment, Array]]) -> Segment:
    """Return one segment of all subscriptions that are alive; each part comes with a mask of those."""
    if not parts:
        raise ValueError("nothing to merge")
    living = [_Living.of(segment, alive) for segment, alive in parts]
    names = sorted({name for part in living for name in part.names_in_use()})
    dimensions, maps = _united(living, names)
    numbers = np.concatenate([part.numbers for part in living])
    order = np.argsort(numbers, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    owner_start = starts_of(np.array([len(part.numbers) for part in living], np.int64))
    rows = [
        part.mapped(own, place[first : first + len(part.numbers)])
        for part, own, first in zip(living, maps, owner_start.tolist(), strict=False)
    ]
    residues = _residues(living, maps)
    return make_segment(dimensions, _concatenated(rows), residues, numbers[order])


@dataclass(frozen=True, slots=True)
class _Map:
    """Where the dimensions and boundaries of one part are in the whole."""

    dimension: Array
    boundary_start: Array
    boundary: Array

    def low(self, dimension: Array, rank: Array) -> Array:
        found: Array = self.boundary[self.boundary_start[dimension] + rank]
        return found

    def high(self, dimension: Array, rank: Array) -> Array:
        found: Array = self.boundary[self.boundary_start[dimension] + rank + 1] - 1
        return found


@dataclass(frozen=True, slots=True)
class _Living:
    """What is alive of one part: its rows, residues and numbers, and which boundaries these use."""

    dimensions: Dimensions
    rows: SegmentRows
    residues: Residues
    numbers: Array
    boundary_start: Array
    used: Array
    attribute_names: list[str]

    @staticmethod
    def of(segment: Segment, alive: Array) -> _Living:
        kept = np.flatnonzero(alive[segment.rows.subscription])
        rows = segment.rows.take(kept)
        place = np.cumsum(alive, dtype=np.int32) - 1
        rows = SegmentRows(rows.start, rows.predicates, rows.gap_start, rows.gaps, place[rows.subscription])
        boundary_start = starts_of(segment.dimensions.rank_counts + 1)
        used = np.zeros(int(boundary_start[-1]), bool)
        base = boundary_start[rows.predicates[:, DIMENSION]]
        used[base + rows.predicates[:, LOW]] = True
        used[base + rows.predicates[:, HIGH] + 1] = True
        gap_base = base[rows.predicate_of_gap]
        used[gap_base + rows.gaps[:, 0]] = True
        used[gap_base + rows.gaps[:, 1] + 1] = True
        return _Living(
            segment.dimensions,
            rows,
            segment.residues.take(kept),
            segment.numbers[alive],
            boundary_start,
            used,
            segment.dimensions.attributes.texts(),
        )

    def names_in_use(self) -> list[str]:
        """Return the attributes that some row or residue looks at."""
        held = self.dimensions
        in_use = np.zeros(len(held), bool)
        in_use[self.rows.predicates[:, DIMENSION]] = True
        in_use[held.reversed_attribute] |= in_use[held.first_reversed : held.first_substring]
        np.logical_or.at(in_use, held.substring_attribute, in_use[held.first_substring :])
        in_use[self.residues.attribute] = True
        return [name for name, used in zip(self.attribute_names, in_use.tolist(), strict=False) if used]

    def mapped(self, to: _Map, place: Array) -> SegmentRows:
        """Return the rows in the dimensions of the whole, owned by subscriptions at their new places."""
        dimension = self.rows.predicates[:, DIMENSION]
        predicates = np.column_stack(
            (
                to.dimension[dimension],
                to.low(dimension, self.rows.predicates[:, LOW]),
                to.high(dimension, self.rows.predicates[:, HIGH]),
            )
        ).astype(np.int32)
        owner = dimension[self.rows.predicate_of_gap]
        gaps = np.column_stack((to.low(owner, self.rows.gaps[:, 0]), to.high(owner, self.rows.gaps[:, 1])))
        return SegmentRows(
            self.rows.start, predicates, self.rows.gap_start, gaps.astype(np.int32), place[self.rows.subscription]
        )


def _concatenated(parts: list[SegmentRows]) -> SegmentRows:
    gaps = np.concatenate([part.gaps for part in parts])
    sizes = [
        np.diff(part.gap_start) if len(part.gap_start) else np.zeros(len(part.predicates), np.int64) for part in parts
    ]
    return SegmentRows(
        starts_of(np.concatenate([np.diff(part.start) for part in parts])),
        np.concatenate([part.predicates for part in parts]),
        starts_of(np.concatenate(sizes)) if len(gaps) else np.zeros(0, np.int64),
        gaps,
        np.concatenate([part.subscription for part in parts]),
    )


def _residues(living: list[_Living], maps: list[_Map]) -> Residues:
    first_row = starts_of(np.array([len(part.rows) for part in living], np.int64))
    nothing = Residues.none()
    held = [part.residues for part in living]
    return Residues(
        np.concatenate([nothing.row, *(own.row + first_row[at] for at, own in enumerate(held))]).astype(np.int32),
        np.concatenate(
            [nothing.attribute, *(to.dimension[own.attribute] for own, to in zip(held, maps, strict=True))]
        ).astype(np.int32),
        np.concatenate([nothing.negated, *(own.negated for own in held)]),
        ByteTable.of(text for own in held for text in own.patterns.items()),
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """The cuts of one kind in one part: whose they are, which are in use, and the columns that order them."""

    attribute: Array
    used: Array
    keys: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Cuts of one kind, sorted together: `start` by attribute, `keys` in order, `place` of each part's cuts."""

    start: Array
    keys: tuple[Array, ...]
    place: list[Array]


def _sorted(columns: list[_Column], attribute_count: int) -> _Sorted:
    attribute = np.concatenate([column.attribute[column.used] for column in columns])
    keys = [np.concatenate([column.keys[at][column.used] for column in columns]) for at in range(len(columns[0].keys))]
    order = np.lexsort((*reversed(keys), attribute))
    fresh = np.zeros(len(order), bool)
    fresh[:1] = True
    for key in (attribute, *keys):
        fresh[1:] |= key[order][1:] != key[order][:-1]
    start = np.searchsorted(attribute[order][fresh], np.arange(attribute_count + 1))
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(fresh) - 1
    place -= start[attribute]
    places = []
    first = 0
    for column in columns:
        own = np.full(len(column.used), -1, np.int64)
        count = int(column.used.sum())
        own[column.used] = place[first : first + count]
        places.append(own)
        first += count
    return _Sorted(start, tuple(key[order][fresh] for key in keys), places)


def _sorted_bytes(columns: list[tuple[Array, Array, ByteTable]], attribute_count: int) -> tuple[_Sorted, ByteTable]:
    """Sort byte strings by their places among all of them."""
    items = [table.items() for _, _, table in columns]
    known = sorted({item for own in items for item in own})
    code = {item: at for at, item in enumerate(known)}
    coded = [
        _Column(attribute, used, (np.array([code[item] for item in own], np.int64),))
        for (attribute, used, _), own in zip(columns, items, strict=True)
    ]
    found = _sorted(coded, attribute_count)
    return found, ByteTable.of(known[at] for at in found.keys[0].tolist())


def _owners(start: Array) -> Array:
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _places(start: Array) -> Array:
    places: Array = np.arange(int(start[-1])) - np.repeat(start[:-1], np.diff(start))
    return places


def _united(living: list[_Living], names: list[str]) -> tuple[Dimensions, list[_Map]]:
    """Return the dimensions of the whole, and the map of each part to them."""
    index = {name: at for at, name in enumerate(names)}
    # Names that nothing alive uses go to attribute 0, where none of their cuts is used either.
    owners = [np.array([index.get(name, 0) for name in part.attribute_names], np.int64) for part in living]
    numbers, times = [], []
    strings, turned, substrings = [], [], []
    for part, own in zip(living, owners, strict=True):
        held, used = part.dimensions, part.used
        first = part.boundary_start[: len(own)]
        at = _owners(held.number_start)
        kept = used[first[at] + 2 + _places(held.number_start)]
        numbers.append(_Column(own[at], kept, (held.number_keys, held.number_rests)))
        at = _owners(held.time_start)
        kept = used[(first + held.first_time)[at] + 1 + _places(held.time_start)]
        times.append(_Column(own[at], kept, (held.times,)))
        at = _owners(held.string_start)
        kept = used[(first + held.first_string)[at] + 1 + _places(held.string_start)]
        strings.append((own[at], kept, held.strings))
        at = _owners(held.reversed_start)
        kept = used[part.boundary_start[held.first_reversed + at] + 2 + _places(held.reversed_start)]
        turned.append((own[held.reversed_attribute[at]], kept, held.reversed_cuts))
        at = held.first_substring + np.arange(len(held.substrings))
        substrings.append((own[held.substring_attribute], used[part.boundary_start[at] + 1], held.substrings))
    united = _United(
        _sorted(numbers, len(names)),
        _sorted(times, len(names)),
        *_sorted_bytes(strings, len(names)),
        *_sorted_bytes(turned, len(names)),
        *_sorted_bytes(substrings, len(names)),
    )
    whole = united.dimensions(names)
    return whole, [
        united.map(number, part, own, whole) for number, (part, own) in enumerate(zip(living, owners, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class _United:
    """The cuts of the whole, by kind."""

    numbers: _Sorted
    times: _Sorted
    strings: _Sorted
    string_table: ByteTable
    turned: _Sorted
    turned_table: ByteTable
    substrings: _Sorted
    substring_table: ByteTable

    def dimensions(self, names: list[str]) -> Dimensions:
        """Return the dimensions that these cuts make."""
        sizes = np.diff(self.turned.start)
        turned = np.flatnonzero(sizes)
        return Dimensions(
            attributes=ByteTable.of_texts(names),
            number_start=self.numbers.start,
            number_keys=self.numbers.keys[0],
            number_rests=self.numbers.keys[1],
            string_start=self.strings.start,
            strings=self.string_table,
            time_start=self.times.start,
            times=self.times.keys[0],
            reversed_attribute=turned.astype(np.int32),
            reversed_start=starts_of(sizes[turned]),
            reversed_cuts=self.turned_table,
            substring_attribute=_owners(self.substrings.start).astype(np.int32),
            substrings=self.substring_table,
        )

    def map(self, number: int, part: _Living, own: Array, whole: Dimensions) -> _Map:
        """Return where the dimensions and boundaries of one part are; those not in use are anywhere."""
        held, first = part.dimensions, part.boundary_start
        plain, counts = first[: len(own)], held.rank_counts
        boundary = np.zeros(int(first[-1]), np.int64)
        if not len(whole.attributes):
            return _Map(np.zeros(len(held), np.int64), first, boundary)
        boundary[plain + 1] = 1
        regions = ((held.first_string, whole.first_string), (held.first_bool, whole.first_bool))
        for old, new in (*regions, (held.first_bool + 1, whole.first_bool + 1), (held.first_time, whole.first_time)):
            boundary[plain + old] = new[own]
        cuts = (
            (held.number_start, np.ones_like(own), np.ones_like(whole.first_time), self.numbers),
            (held.string_start, held.first_string, whole.first_string, self.strings),
            (held.time_start, held.first_time, whole.first_time, self.times),
        )
        for start, old, new, found in cuts:
            at = _owners(start)
            boundary[(plain + old)[at] + 1 + _places(start)] = new[own[at]] + 1 + found.place[number]
        boundary[plain + counts[: len(own)]] = whole.rank_counts[own]
        place = np.zeros(len(whole.attributes) + 1, np.int64)
        place[whole.reversed_attribute] = whole.first_reversed + np.arange(len(whole.reversed_attribute))
        turned_dimension = place[own[held.reversed_attribute]]
        base = first[held.first_reversed : held.first_substring]
        at = _owners(held.reversed_start)
        boundary[base + 1] = 1
        boundary[base[at] + 2 + _places(held.reversed_start)] = 2 + self.turned.place[number]
        boundary[base + counts[held.first_reversed : held.first_substring]] = whole.rank_counts[turned_dimension]
        base = first[held.first_substring : -1]
        boundary[base + 1], boundary[base + 2] = 1, 2
        substring = whole.first_substring + self.substrings.start[own[held.substring_attribute]]
        return _Map(np.concatenate((own, turned_dimension, substring + self.substrings.place[number])), first, boundary)
