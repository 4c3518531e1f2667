"""A segment with everything that is derived from it for searching: made once, by whoever made the segment, and shared
by all threads that search it. What a thread needs of its own is memory to work in; `Needs` says how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import KernelArguments
from rankcast.matching.encoding.texts import Texts
from rankcast.matching.kernels.search import ROWS_AT_ONCE, SEGMENT_KINDS
from rankcast.matching.segments.segment import Segment
from rankcast.model.valuesets.patterns import Pattern

NEVER_DIED = np.zeros(0, np.int64)
"""For segments without removed subscriptions."""

CHECKED_BYTES = 1 << 20
"""How large the predicates of wide rows may be to be checked one by one: about what stays in a cache near the core."""


class Needs(NamedTuple):
    """How much memory a search takes; see `kernels.search.scratch`."""

    width: int = 1
    words: int = 0
    listed: int = 1
    stamps: int = 0
    attributes: int = 0
    rows: int = 0

    def joined(self, others: Iterable[Needs]) -> Needs:
        """Return what suffices for each one of several segments, and for the results of all."""
        held = (self, *others)
        return Needs(*map(max, *held))._replace(rows=sum(one.rows for one in held)) if len(held) > 1 else self


@dataclass(frozen=True, eq=False)
class SearchableSegment:
    """A segment, and its table for the kernels; `facts` and `died` are changed in place when subscriptions die."""

    segment: Segment
    table: KernelArguments
    facts: Array
    died: Array
    needs: Needs
    number_of: Array
    """The number of each row's subscription."""
    texts: Texts

    @staticmethod
    def of(segment: Segment, died: Array = NEVER_DIED, dimension_of: Array | None = None) -> SearchableSegment:
        """Return a segment ready to be searched.

        `died` says, by subscription, from which sequence number on it is no longer there; `dimension_of` has, by the
        number of an attribute in the index, the segment's dimension or -1.
        """
        rows, wide, selective, held = segment.rows, segment.wide, segment.selective, segment.dimensions
        flags = np.zeros(len(rows) if len(segment.residues.row) else 0, np.uint8)
        flags[segment.residues.row] = 1
        has_several = len(rows) > len(segment) or _has_repeats(rows.subscription)
        wide_rows, found_rows = segment.bounds.tolist()
        per_check = _ends_per_check(segment)
        facts = np.array((found_rows, has_several, 0, per_check), np.int64)
        number_of = segment.numbers.take(rows.subscription)
        if dimension_of is None:
            dimension_of = np.arange(len(held.attributes), dtype=np.int32)
        texts = Texts.of(held)
        found = texts.automaton
        arrays = (
            *(rows.start, rows.predicates, rows.gap_start, rows.gaps, rows.subscription, number_of, flags),
            *(wide.layout, wide.bucket_of, wide.bits, wide.chunks, wide.parts),
            *(wide.ends_start, wide.low_ends, wide.high_ends, wide.gaps),
            *(selective.access, selective.cell_of, selective.cell_start, selective.entries),
            *(held.number_start, held.number_keys, held.number_rests, facts, died, dimension_of),
            *(held.string_start, texts.string_keys, held.strings.start, held.strings.data, held.time_start, held.times),
            *(texts.reversed_of, held.reversed_start, texts.reversed_keys),
            *(held.reversed_cuts.start, held.reversed_cuts.data, texts.group_of),
            *(found.roots, found.child_start, found.child_byte, found.child_node),
            *(found.fail, found.ends, found.next_end),
        )
        words = (len(wide.chunks) - 1) * wide.chunk_words
        needs = Needs(
            width=len(held),
            words=words,
            listed=max(words + ROWS_AT_ONCE, found_rows - wide_rows, wide_rows if per_check else 0) + 1,
            stamps=len(segment) if has_several else 0,
            rows=len(rows),
        )
        return SearchableSegment(
            segment, KernelArguments.of(SEGMENT_KINDS, arrays), facts, died, needs, number_of, texts
        )

    def with_attributes(self, dimension_of: Array) -> SearchableSegment:
        """Return the same with other numbers for the attributes of the index."""
        arrays = dict(zip(SEGMENT_KINDS, self.table.arrays, strict=True)) | {"dimension_of": dimension_of}
        return replace(self, table=KernelArguments.of(SEGMENT_KINDS, tuple(arrays.values())))

    @cached_property
    def names(self) -> list[str]:
        """The attributes by their places in the segment."""
        return self.segment.dimensions.attributes.texts()

    @cached_property
    def patterns(self) -> Mapping[int, list[tuple[int, Pattern, bool]]]:
        """By row: (attribute, pattern, negated) for every residue."""
        residues = self.segment.residues
        found: dict[int, list[tuple[int, Pattern, bool]]] = {}
        columns = (
            residues.row.tolist(),
            residues.attribute.tolist(),
            residues.patterns.texts(),
            residues.negated.tolist(),
        )
        for row, attribute, text, negated in zip(*columns, strict=True):
            found.setdefault(row, []).append((attribute, Pattern.like(text), bool(negated)))
        return found


def _ends_per_check(segment: Segment) -> int:
    """Return how many end points could be visited in the time that it takes to check a wide row; see `facts`.

    A predicate takes about as long as an end point, of which half are visited, as long as rows are in the cache.
    """
    wide = int(segment.bounds[0])
    predicates = int(segment.rows.start[wide])
    size = predicates * segment.rows.predicates.itemsize * segment.rows.predicates.shape[1]
    return -(-2 * predicates // wide) if wide and size <= CHECKED_BYTES else 0


def _has_repeats(subscription: Array) -> bool:
    """Whether a subscription has several rows."""
    seen = np.zeros(int(subscription.max(initial=-1)) + 1, bool)
    seen[subscription] = True
    return int(np.count_nonzero(seen)) < len(subscription)
