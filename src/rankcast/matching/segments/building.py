"""Builds segments: from subscriptions (`build_segment`), and from other segments (`merge_segments`).

Both are one thing. Ranks are divided by boundaries: boundary r lies below rank r, so a range low..high uses the
boundaries low and high + 1. Some boundaries separate regions of a dimension (missing, numbers, strings, ...), others
are cuts. A part has rows in dimensions of its own, whose cuts may be in any order. The cuts of all parts that are in
use are sorted together, which says where every boundary of a part lies in the new dimensions; everything else is array
arithmetic. A segment is such a part, of which the subscriptions that are no longer alive, and cuts that only they
used, are left out. So is what a `_Draft` notes of subscriptions, whose cuts are in the order in which they came.

Cost: a look at each constraint of a subscription, or at nothing of a segment but its arrays; a sort of the cuts; and
what it takes to make the kernels' arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, takewhile
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import split_number
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.encoding.elements import KINDS, condition
from rankcast.matching.entries import Entry
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows
from rankcast.matching.segments.segment import Residues, Segment, make_segment
from rankcast.model.times import microseconds
from rankcast.model.valuesets.intervals import IntervalSet
from rankcast.model.valuesets.lists import Values
from rankcast.model.valuesets.patterns import Pattern, PatternKind
from rankcast.model.valuesets.sets import ValueSet

Boundary: TypeAlias = tuple[int, int]
"""A boundary of a draft: a region of its dimension, and how many boundaries further on it lies."""

Ranges: TypeAlias = list[tuple[Boundary, Boundary]]
"""Ranges in order, each from a boundary to another one; none touches the next."""

MISSING, NUMBERS, STRINGS, BOOLS, TIMES, LISTS, END = range(7)
"""The regions of an attribute, and the end of them; other dimensions are all in the first one."""

EVERYTHING: Ranges = [((MISSING, 0), (END, 0))]
NO_STRING, ANY_STRING = (MISSING, 0), (MISSING, 1)
"""Where reversed strings have their first boundaries."""

OF_ATTRIBUTE, REVERSED, SUBSTRING = range(3)
"""Kinds of dimensions, in their order."""


def build_segment(entries: Iterable[Entry]) -> Segment:
    """Return the segment of some subscriptions."""
    draft = _Draft()
    entries = sorted(entries, key=lambda entry: entry.number)
    for owner, entry in enumerate(entries):
        draft.add(owner, entry)
    return _unite([draft.part(np.array([entry.number for entry in entries], np.int64))])


def merge_segments(parts: Sequence[tuple[Segment, Array]]) -> Segment:
    """Return one segment of all subscriptions that are alive; each part comes with a mask of those."""
    if not parts:
        raise ValueError("nothing to merge")
    return _unite([_living(segment, alive) for segment, alive in parts])


def _living(segment: Segment, alive: Array) -> _Part:
    kept = np.flatnonzero(alive[segment.rows.subscription])
    rows = segment.rows.take(kept)
    place = np.cumsum(alive, dtype=np.int32) - 1
    rows = SegmentRows(rows.start, rows.predicates, rows.gap_start, rows.gaps, place[rows.subscription])
    return _Part.of(segment.dimensions, rows, segment.residues.take(kept), segment.numbers[alive])


@dataclass(slots=True)
class _Known:
    """The cuts of one attribute in a draft, by kind, each with its place among them."""

    numbers: dict[tuple[Any, int], int] = field(default_factory=dict)
    strings: dict[Any, int] = field(default_factory=dict)
    times: dict[Any, int] = field(default_factory=dict)
    turned: dict[bytes, int] = field(default_factory=dict)


class _Draft:
    """Rows of subscriptions, in dimensions that are not known before all have been added."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._cuts: list[_Known] = []
        self._reversed: dict[int, int] = {}
        self._substrings: dict[tuple[int, bytes], int] = {}
        self._predicates: list[tuple[int, int, int, int, int, int]] = []
        """Kind and number of the dimension, and the boundaries of the range."""
        self._gaps: list[tuple[int, int, int, int]] = []
        self._gap_counts: list[int] = []
        self._sizes: list[int] = []
        self._owners: list[int] = []
        self._residues: list[tuple[int, int, bool, str]] = []

    def add(self, owner: int, entry: Entry) -> None:
        """Add the rows of a subscription."""
        for conjunction in entry.conjunctions:
            written: dict[tuple[int, int], Ranges] = {}
            left: list[tuple[int, bool, str]] = []
            for name, values in conjunction.items:
                at = self._numbers.setdefault(name, len(self._numbers))
                if at == len(self._cuts):
                    self._cuts.append(_Known())
                if values.lists.has_conditions:
                    self._write_elements(at, values, written)
                else:
                    written[OF_ATTRIBUTE, at] = self._plain(at, values)
                if values.strings.has_patterns:
                    self._write_patterns(at, values, written, left)
            if not all(written.values()):
                continue  # string patterns that contradict each other in a way the normal form does not see
            first = len(self._predicates)
            for dimension, ranges in written.items():
                if ranges != EVERYTHING:
                    self._predicates.append((*dimension, *ranges[0][0], *ranges[-1][1]))
                    self._gaps += ((*low[1], *high[0]) for low, high in pairwise(ranges))
                    self._gap_counts.append(len(ranges) - 1)
            self._residues += ((len(self._sizes), *residue) for residue in left)
            self._sizes.append(len(self._predicates) - first)
            self._owners.append(owner)

    def _plain(self, at: int, values: ValueSet) -> Ranges:
        cuts = self._cuts[at]
        ranges: Ranges = [((MISSING, 0), (NUMBERS, 0))] if values.missing else []
        if values.numbers.cuts:
            _extend(ranges, NUMBERS, values.numbers, cuts.numbers)
        if values.strings.ranges.cuts:
            _extend(ranges, STRINGS, values.strings.ranges, cuts.strings)
        if values.bools:
            pieces = ((False, (BOOLS, 0), (BOOLS, 1)), (True, (BOOLS, 1), (TIMES, 0)))
            _append(ranges, [(low, high) for value, low, high in pieces if value in values.bools])
        if values.times.cuts:
            _extend(ranges, TIMES, values.times, cuts.times)
        if values.lists:
            held = (values.lists.empty, *(asked is not None for asked in values.lists.families))
            ends = [(LISTS, kind) for kind in range(KINDS)] + [(END, 0)]
            _append(ranges, [(ends[kind], ends[kind + 1]) for kind, is_held in enumerate(held) if is_held])
        return ranges

    def _write_elements(self, at: int, values: ValueSet, written: dict[tuple[int, int], Ranges]) -> None:
        """Write what is asked of elements: a scalar is asked the same, and nothing else may be where one is required.

        So the conditions say it all of these families; ranges say the rest, and that there is something at all.
        """
        for asked in values.lists.families:
            for wanted in () if asked is None else asked.required:
                written[SUBSTRING, self._condition(at, wanted)] = [((MISSING, 1), (END, 0))]
            if asked is not None and asked.forbidden:
                written[SUBSTRING, self._condition(at, asked.forbidden)] = [((MISSING, 0), (MISSING, 1))]
        if not any(asked is not None and asked.required for asked in values.lists.families):
            written[OF_ATTRIBUTE, at] = self._plain(at, values.without_conditions())

    def _write_patterns(
        self, at: int, values: ValueSet, written: dict[tuple[int, int], Ranges], left: list[tuple[int, bool, str]]
    ) -> None:
        has_others = bool(values.missing or values.numbers or values.bools or values.times or values.lists)
        turned: list[_Turned] = []
        for pattern in sorted(values.strings.required, key=lambda pattern: pattern.text):
            exact = pattern.kind is PatternKind.SUFFIX
            if suffix := _suffix(pattern):
                turned.append(_with_suffix(suffix, has_others=has_others))
            if not has_others:
                # A value that is no string has the same rank there as a string without the substring.
                exact = exact or pattern.kind is PatternKind.CONTAINS
                if text := _substring(pattern):
                    written[SUBSTRING, self._substring(at, text)] = [((MISSING, 1), (END, 0))]
            if not exact:
                left.append((at, False, pattern.text))
        for pattern in sorted(values.strings.forbidden, key=lambda pattern: pattern.text):
            if pattern.kind is PatternKind.SUFFIX:
                turned.append(_without_suffix(pattern.literal, has_others=has_others))
            elif pattern.kind is PatternKind.CONTAINS:
                written[SUBSTRING, self._substring(at, pattern.literal)] = [((MISSING, 0), (MISSING, 1))]
            else:
                left.append((at, True, pattern.text))
        if turned:
            dimension = self._reversed.setdefault(at, len(self._reversed))
            known = self._cuts[at].turned
            written[REVERSED, dimension] = [
                (_reversed_boundary(low, known), _reversed_boundary(high, known)) for low, high in _intersection(turned)
            ]

    def _substring(self, at: int, text: str) -> int:
        return self._substrings.setdefault((at, text.encode()), len(self._substrings))

    def _condition(self, at: int, values: Values) -> int:
        return self._substrings.setdefault((at, condition(values)), len(self._substrings))

    def part(self, numbers: Array) -> _Part:
        """Return everything that was added, with the numbers of the subscriptions."""
        cuts = self._cuts
        split = [(*split_number(value), above) for own in cuts for value, above in own.numbers]
        turned = [cuts[at].turned for at in self._reversed]
        dimensions = Dimensions(
            attributes=ByteTable.of_texts(self._numbers),
            number_start=_starts([own.numbers for own in cuts]),
            number_keys=np.array([key for key, _, _ in split], np.float64),
            number_rests=np.array([rest + above for _, rest, above in split], np.int16),
            string_start=_starts([own.strings for own in cuts]),
            strings=ByteTable.of_texts(text for own in cuts for text, _ in own.strings),
            time_start=_starts([own.times for own in cuts]),
            times=np.array([microseconds(time) for own in cuts for time, _ in own.times], np.int64),
            reversed_attribute=np.array([*self._reversed], np.int32),
            reversed_start=_starts(turned),
            reversed_cuts=ByteTable.of(cut for own in turned for cut in own),
            substring_attribute=np.array([at for at, _ in self._substrings], np.int32),
            substrings=ByteTable.of(text for _, text in self._substrings),
        )
        first = np.array((0, dimensions.first_reversed, dimensions.first_substring))
        regions = np.zeros((len(dimensions), END + 1), np.int64)
        regions[: len(cuts), NUMBERS] = 1
        regions[: len(cuts), STRINGS] = dimensions.first_string
        regions[: len(cuts), BOOLS] = dimensions.first_bool
        regions[: len(cuts), TIMES] = dimensions.first_time
        regions[: len(cuts), LISTS] = dimensions.first_list
        regions[:, END] = dimensions.rank_counts
        kind, number, *range_ends = np.array(self._predicates, np.int64).reshape(-1, 6).T
        dimension = first[kind] + number
        predicates = np.stack((dimension, *_ranks(regions, dimension, *range_ends)), axis=1).astype(np.int32)
        subscription = np.array(self._owners, np.int32)
        gap_start, gaps = np.zeros(0, np.int64), np.zeros((0, 2), np.int32)
        if self._gaps:
            gap_start = starts_of(np.array(self._gap_counts, np.int64))
            owner = np.repeat(dimension, self._gap_counts)
            gaps = np.stack(_ranks(regions, owner, *np.array(self._gaps, np.int64).T), axis=1).astype(np.int32)
        rows = SegmentRows(starts_of(np.array(self._sizes, np.int64)), predicates, gap_start, gaps, subscription)
        row, attribute, negated, patterns = zip(*self._residues, strict=True) if self._residues else ((),) * 4
        residues = Residues(
            np.array(row, np.int32),
            np.array(attribute, np.int32),
            np.array(negated, np.uint8),
            ByteTable.of_texts(patterns),
        )
        return _Part.of(dimensions, rows, residues, numbers)


def _ranks(
    regions: Array, dimension: Array, low_region: Array, low: Array, high_region: Array, high: Array
) -> tuple[Array, Array]:
    """Return the first and the last rank of ranges between boundaries of a draft."""
    return regions[dimension, low_region] + low, regions[dimension, high_region] + high - 1


def _starts(lists: Iterable[Any]) -> Array:
    return starts_of(np.array([len(own) for own in lists], np.int64))


def _extend(ranges: Ranges, region: int, values: IntervalSet, known: dict[Any, int]) -> None:
    """Append the intervals of a set to ranges that end before its region; new cuts become known."""
    pieces: Ranges = []
    for low, high in values.pieces():
        start = (region, 0 if low[0] else 1 + known.setdefault(low[1:], len(known)))
        pieces.append((start, (region + 1, 0) if high[0] else (region, 1 + known.setdefault(high[1:], len(known)))))
    _append(ranges, pieces)


def _append(ranges: Ranges, pieces: Ranges) -> None:
    for low, high in pieces:
        if ranges and ranges[-1][1] == low:
            ranges[-1] = (ranges[-1][0], high)
        else:
            ranges.append((low, high))


# Ranges of reversed strings, before their cuts have numbers: a boundary is (0, b""), where what is no string begins,
# (1, b""), where strings begin, (1, cut) or (2, b""), their end.
_Turned: TypeAlias = list[tuple[tuple[int, bytes], tuple[int, bytes]]]


def reversed_range(suffix: str) -> tuple[bytes, bytes]:
    """Return the cuts around all reversed strings that start with a reversed suffix.

    UTF-8 has no byte 0xFF, so the last byte can always be raised by one.
    """
    data = suffix.encode()[::-1]
    return data, data[:-1] + bytes((data[-1] + 1,))


def _with_suffix(suffix: str, *, has_others: bool) -> _Turned:
    low, high = reversed_range(suffix)
    return [*([((0, b""), (1, b""))] if has_others else ()), ((1, low), (1, high))]


def _without_suffix(suffix: str, *, has_others: bool) -> _Turned:
    low, high = reversed_range(suffix)
    return [((0 if has_others else 1, b""), (1, low)), ((1, high), (2, b""))]


def _intersection(sets: list[_Turned]) -> _Turned:
    first, *others = sets
    for other in others:
        both = ((max(low, other_low), min(high, other_high)) for low, high in first for other_low, other_high in other)
        first = sorted(pair for pair in both if pair[0] < pair[1])
    return first


def _reversed_boundary(boundary: tuple[int, bytes], known: dict[bytes, int]) -> Boundary:
    kind, cut = boundary
    if not cut:
        return (NO_STRING, ANY_STRING, (END, 0))[kind]
    return (MISSING, 2 + known.setdefault(cut, len(known)))


def _suffix(pattern: Pattern) -> str:
    """Return the literal that every match of a pattern ends with, when reversed strings can tell; else nothing."""
    if len(pattern.segments) < 2:
        return ""
    return "".join(filter(None, takewhile(bool, reversed(pattern.segments[-1]))))[::-1]


def _substring(pattern: Pattern) -> str:
    """Return the longest literal between the ends of a pattern, which every match contains; else nothing."""
    runs = (run for segment in pattern.segments[1:-1] for _, run in groupby(segment, key=bool))
    return max(("".join(filter(None, run)) for run in runs), key=len, default="")


class _Cuts(NamedTuple):
    """Cuts of one kind that one part uses: their attributes in the whole, their boundaries, and what orders them."""

    attribute: Array
    boundary: Array
    keys: tuple[Array, ...]
    texts: list[bytes]
    """Instead of keys."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows, residues and numbers that become part of a segment, and which boundaries they use."""

    dimensions: Dimensions
    rows: SegmentRows
    residues: Residues
    numbers: Array
    boundary_start: Array
    used: Array
    names: list[str]

    @staticmethod
    def of(dimensions: Dimensions, rows: SegmentRows, residues: Residues, numbers: Array) -> _Part:
        boundary_start = starts_of(dimensions.rank_counts + 1)
        used = np.zeros(int(boundary_start[-1]), bool)
        base = boundary_start[rows.predicates[:, DIMENSION]]
        used[base + rows.predicates[:, LOW]] = True
        used[base + rows.predicates[:, HIGH] + 1] = True
        gap_base = base[rows.predicate_of_gap]
        used[gap_base + rows.gaps[:, 0]] = True
        used[gap_base + rows.gaps[:, 1] + 1] = True
        return _Part(dimensions, rows, residues, numbers, boundary_start, used, dimensions.attributes.texts())

    def names_in_use(self) -> list[str]:
        """Return the attributes that some row or residue looks at."""
        held = self.dimensions
        in_use = np.zeros(len(held), bool)
        in_use[self.rows.predicates[:, DIMENSION]] = True
        in_use[held.reversed_attribute] |= in_use[held.first_reversed : held.first_substring]
        np.logical_or.at(in_use, held.substring_attribute, in_use[held.first_substring :])
        in_use[self.residues.attribute] = True
        return [name for name, used in zip(self.names, in_use.tolist(), strict=False) if used]

    def cuts(self, attributes: Array) -> list[_Cuts]:
        """Return the cuts of numbers, times, strings, reversed strings, and the substrings; given the attributes."""
        held, first = self.dimensions, self.boundary_start
        plain, turned = first[: len(attributes)], first[held.first_reversed : held.first_substring]
        return [
            self._used(attributes, held.number_start, plain + 2, (held.number_keys, held.number_rests)),
            self._used(attributes, held.time_start, plain + held.first_time + 1, (held.times,)),
            self._used(attributes, held.string_start, plain + held.first_string + 1, held.strings),
            self._used(attributes[held.reversed_attribute], held.reversed_start, turned + 2, held.reversed_cuts),
            self._used(
                attributes[held.substring_attribute],
                np.arange(len(held.substrings) + 1),
                first[held.first_substring : -1] + 1,
                held.substrings,
            ),
        ]

    def _used(self, attributes: Array, start: Array, base: Array, held: tuple[Array, ...] | ByteTable) -> _Cuts:
        """Return the cuts in use; those of list i are of an attribute, and one behind the other from a base on."""
        sizes = np.diff(start)
        boundary = np.arange(int(start[-1])) + np.repeat(base - start[:-1], sizes)
        used = self.used[boundary]
        attribute = np.repeat(attributes, sizes)[used]
        if isinstance(held, ByteTable):
            items = held.items()
            return _Cuts(attribute, boundary[used], (), [items[at] for at in np.flatnonzero(used).tolist()])
        return _Cuts(attribute, boundary[used], tuple(column[used] for column in held), [])


class _Sorted(NamedTuple):
    """Cuts of one kind, sorted together: their start by attribute, keys or texts, and the places of each part's."""

    start: Array
    keys: tuple[Array, ...]
    texts: ByteTable
    places: list[Array]


def _sort(parts: Sequence[_Cuts], attribute_count: int) -> _Sorted:
    known = sorted({text for part in parts for text in part.texts})
    code = {text: at for at, text in enumerate(known)}
    columns = [part.keys or (np.array([code[text] for text in part.texts], np.int64),) for part in parts]
    attribute = np.concatenate([part.attribute for part in parts])
    keys = [np.concatenate(column) for column in zip(*columns, strict=True)]
    order = np.lexsort((*reversed(keys), attribute))
    fresh = np.zeros(len(order), bool)
    fresh[:1] = True
    for key in (attribute, *keys):
        fresh[1:] |= key[order][1:] != key[order][:-1]
    start = np.searchsorted(attribute[order][fresh], np.arange(attribute_count + 1))
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(fresh) - 1
    place -= start[attribute]
    places = np.split(place, np.cumsum([len(part.attribute) for part in parts])[:-1])
    distinct = tuple(key[order][fresh] for key in keys)
    texts = ByteTable.of(known[at] for at in distinct[0].tolist()) if known else ByteTable.of(())
    return _Sorted(start, distinct, texts, places)


def _unite(parts: list[_Part]) -> Segment:
    """Return the segment of everything in some parts."""
    names = sorted({name for part in parts for name in part.names_in_use()})
    index = {name: at for at, name in enumerate(names)}
    # Names that nothing uses go to attribute 0, where none of their cuts is used either.
    attributes = [np.array([index.get(name, 0) for name in part.names], np.int64) for part in parts]
    cuts = [part.cuts(own) for part, own in zip(parts, attributes, strict=True)]
    kinds = [_sort(kind, len(names)) for kind in zip(*cuts, strict=True)]
    whole = _dimensions(names, *kinds)
    maps = [
        _Map.of(part, own, whole, held, [kind.places[number] for kind in kinds], kinds[-1].start)
        for number, (part, own, held) in enumerate(zip(parts, attributes, cuts, strict=True))
    ]
    numbers = np.concatenate([part.numbers for part in parts])
    order = np.argsort(numbers, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    owners = np.split(place, np.cumsum([len(part.numbers) for part in parts])[:-1])
    rows = [to.rows(part.rows, own) for part, to, own in zip(parts, maps, owners, strict=True)]
    return make_segment(whole, _concatenate(rows), _residues(parts, maps), numbers[order])


def _dimensions(
    names: list[str], numbers: _Sorted, times: _Sorted, strings: _Sorted, turned: _Sorted, substrings: _Sorted
) -> Dimensions:
    sizes = np.diff(turned.start)
    reversed_attribute = np.flatnonzero(sizes)
    return Dimensions(
        attributes=ByteTable.of_texts(names),
        number_start=numbers.start,
        number_keys=numbers.keys[0],
        number_rests=numbers.keys[1],
        string_start=strings.start,
        strings=strings.texts,
        time_start=times.start,
        times=times.keys[0],
        reversed_attribute=reversed_attribute.astype(np.int32),
        reversed_start=starts_of(sizes[reversed_attribute]),
        reversed_cuts=turned.texts,
        substring_attribute=np.repeat(np.arange(len(names)), np.diff(substrings.start)).astype(np.int32),
        substrings=substrings.texts,
    )


@dataclass(frozen=True, slots=True)
class _Map:
    """Where the dimensions and boundaries of one part are in the whole; those not in use are anywhere."""

    dimension: Array
    boundary_start: Array
    boundary: Array

    @staticmethod
    def of(
        part: _Part, own: Array, whole: Dimensions, cuts: list[_Cuts], places: list[Array], substring_start: Array
    ) -> _Map:
        held, first, counts = part.dimensions, part.boundary_start, part.dimensions.rank_counts
        dimension, boundary = np.zeros(len(held), np.int64), np.zeros(int(first[-1]), np.int64)
        if not len(whole.attributes):
            return _Map(dimension, first, boundary)
        dimension[: len(own)] = own
        plain = first[: len(own)]
        boundary[plain + 1] = 1
        regions = (("first_string", 1), ("first_bool", 2), ("first_time", 1), ("first_list", KINDS))
        for name, fixed in regions:
            for at in range(fixed):
                boundary[plain + getattr(held, name) + at] = getattr(whole, name)[own] + at
        boundary[plain + counts[: len(own)]] = whole.rank_counts[own]
        of_reversed = slice(held.first_reversed, held.first_substring)
        place = np.zeros(len(whole.attributes), np.int64)
        place[whole.reversed_attribute] = whole.first_reversed + np.arange(len(whole.reversed_attribute))
        dimension[of_reversed] = place[own[held.reversed_attribute]]
        boundary[first[of_reversed] + 1] = 1
        boundary[first[of_reversed] + counts[of_reversed]] = whole.rank_counts[dimension[of_reversed]]
        second = np.full(len(whole.attributes), 2)
        bases = (second, whole.first_time + 1, whole.first_string + 1, second)
        for base, kind, found in zip(bases, cuts, places, strict=False):
            boundary[kind.boundary] = base[kind.attribute] + found
        used = cuts[-1].boundary
        substring = np.searchsorted(first, used, "right") - 1
        dimension[substring] = whole.first_substring + substring_start[cuts[-1].attribute] + places[-1]
        boundary[used], boundary[used + 1] = 1, 2
        return _Map(dimension, first, boundary)

    def rows(self, rows: SegmentRows, place: Array) -> SegmentRows:
        """Return rows in the dimensions of the whole, owned by subscriptions at their new places."""
        dimension, low, high = rows.predicates.T
        owner = dimension[rows.predicate_of_gap]
        return SegmentRows(
            rows.start,
            np.stack((self.dimension[dimension], *self._ranges(dimension, low, high)), axis=1).astype(np.int32),
            rows.gap_start,
            np.stack(self._ranges(owner, rows.gaps[:, 0], rows.gaps[:, 1]), axis=1).astype(np.int32),
            place[rows.subscription],
        )

    def _ranges(self, dimension: Array, low: Array, high: Array) -> tuple[Array, Array]:
        base = self.boundary_start[dimension]
        return self.boundary[base + low], self.boundary[base + high + 1] - 1


def _concatenate(parts: list[SegmentRows]) -> SegmentRows:
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


def _residues(parts: list[_Part], maps: list[_Map]) -> Residues:
    first_row = starts_of(np.array([len(part.rows) for part in parts], np.int64))
    held = [part.residues for part in parts]
    return Residues(
        np.concatenate([own.row + first for own, first in zip(held, first_row.tolist(), strict=False)]).astype(
            np.int32
        ),
        np.concatenate([to.dimension[own.attribute] for own, to in zip(held, maps, strict=True)]).astype(np.int32),
        np.concatenate([own.negated for own in held]),
        ByteTable.of(text for own in held for text in own.patterns.items()),
    )
