"""Segments from columns: very many plain conjunctions of ranges, without one Python object per subscription.

Row i has the predicates row_start[i]..row_start[i+1]; predicate k says low[k] <= attributes[attribute[k]] <= high[k],
both ends included; from -inf or up to inf is without bound. The low and high of an attribute with a vocabulary are
equal and number one of its texts: the attribute equals that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import split_integers
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows
from rankcast.matching.segments.segment import Residues, Segment, make_segment
from rankcast.model.errors import FilterTypeError


def segment_of_ranges(
    attributes: Sequence[str],
    row_start: Array,
    attribute: Array,
    low: Array,
    high: Array,
    *,
    vocabularies: Mapping[int, Sequence[str]] | None = None,
    numbers: Array | None = None,
) -> Segment:
    """Return the segment of rows given as columns; `numbers` are the rows' subscriptions, ascending, by default 0.."""
    order = np.argsort(np.array(attributes, object), kind="stable")  # attributes are kept sorted by name
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    vocabularies = {int(place[at]): texts for at, texts in (vocabularies or {}).items()}
    predicates = np.empty((len(attribute), 3), np.int32)
    predicates[:, DIMENSION] = place[attribute]
    by_attribute = np.argsort(predicates[:, DIMENSION], kind="stable")
    bounds = np.searchsorted(predicates[by_attribute, DIMENSION], np.arange(len(attributes) + 1))
    # Cuts are written where they stay: many pieces, joined in the end, would leave as much unused memory behind.
    keys, rests = np.empty(2 * len(attribute)), np.empty(2 * len(attribute), np.int16)
    sizes = np.zeros(len(attributes), np.int64)
    count = 0
    strings: list[list[bytes]] = []
    for at in range(len(attributes)):
        own = by_attribute[bounds[at] : bounds[at + 1]]
        if at in vocabularies:
            strings.append(_equalities(predicates, own, low[own], high[own], vocabularies[at]))
        else:
            strings.append([])
            own_keys, own_rests = _ranges(predicates, own, low[own], high[own])
            sizes[at] = len(own_keys)
            keys[count : count + len(own_keys)] = own_keys
            rests[count : count + len(own_keys)] = own_rests
            count += len(own_keys)
    del by_attribute
    names = [attributes[at] for at in order.tolist()]
    dimensions = _dimensions(names, starts_of(sizes), keys[:count], rests[:count], strings)
    owners = np.arange(len(row_start) - 1, dtype=np.int32)
    numbers = owners.astype(np.int64) if numbers is None else numbers
    no_gaps = np.zeros(0, np.int64), np.zeros((0, 2), np.int32)
    rows = SegmentRows(row_start.astype(np.int64), predicates, *no_gaps, owners)
    nothing = np.zeros(0, np.int32)
    return make_segment(dimensions, rows, Residues(nothing, nothing, np.zeros(0, np.uint8), ByteTable.of(())), numbers)


def _split(values: Array) -> tuple[Array, Array]:
    if values.dtype.kind in "iu":
        found: tuple[Array, Array] = split_integers(values.astype(np.int64))
        return found
    if np.isnan(values).any():
        raise FilterTypeError("a range ends at NaN; expected a number")
    return values.astype(np.float64) + 0.0, np.zeros(len(values), np.int16)


def _ranges(predicates: Array, own: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Write the ranks of one attribute's ranges; return its cuts: just below every low, just above every high."""
    low_keys, low_rests = _split(low)
    high_keys, high_rests = _split(high)
    if np.any((low_keys > high_keys) | ((low_keys == high_keys) & (low_rests > high_rests))):
        raise FilterTypeError("a range ends below its start; leave out rows that can never match")
    keys = np.concatenate((low_keys, high_keys))
    rests = np.concatenate((low_rests, high_rests + np.int16(1)))
    bounded = np.concatenate((low_keys != -np.inf, high_keys != np.inf))
    order = np.lexsort((rests, keys))
    sorted_keys, sorted_rests = keys[order], rests[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (sorted_keys[1:] != sorted_keys[:-1]) | (sorted_rests[1:] != sorted_rests[:-1])
    fresh &= bounded[order]
    position = np.empty(len(order), np.int32)
    position[order] = np.cumsum(fresh, dtype=np.int32)
    # Ranks of numbers start at 1: position p of a low cut is rank 1 + p, and what ends at a high cut is one less.
    predicates[own, LOW] = np.where(bounded[: len(low)], 1 + position[: len(low)], 1)
    last = int(fresh.sum()) + 1
    predicates[own, HIGH] = np.where(bounded[len(low) :], position[len(low) :], last)
    return sorted_keys[fresh], sorted_rests[fresh]


def _equalities(predicates: Array, own: Array, low: Array, high: Array, texts: Sequence[str]) -> list[bytes]:
    """Write the ranks of one attribute's equalities; return its cuts: every text in use, and the next string."""
    if np.any(low != high):
        raise FilterTypeError("attributes with a vocabulary are compared for equality: low and high must be equal")
    codes = low.astype(np.int64)
    used = np.unique(codes)
    data = [texts[code].encode() for code in used.tolist()]
    cuts = sorted({*data, *(item + b"\0" for item in data)})
    place = {cut: at for at, cut in enumerate(cuts)}
    rank = np.zeros(int(used.max(initial=0)) + 1, np.int32)
    # Without cuts among numbers these have the one rank 1, so strings start at 2.
    rank[used] = [2 + place[item] + 1 for item in data]
    predicates[own, LOW] = predicates[own, HIGH] = rank[codes]
    return cuts


def _dimensions(names: list[str], start: Array, keys: Array, rests: Array, strings: list[list[bytes]]) -> Dimensions:
    nothing, no_texts = np.zeros(0, np.int32), ByteTable.of(())
    return Dimensions(
        attributes=ByteTable.of_texts(names),
        number_start=start,
        number_keys=keys,
        number_rests=rests,
        string_start=starts_of(np.array([len(own) for own in strings], np.int64)),
        strings=ByteTable.of(cut for own in strings for cut in own),
        time_start=np.zeros(len(names) + 1, np.int64),
        times=np.zeros(0, np.int64),
        reversed_attribute=nothing,
        reversed_start=np.zeros(1, np.int64),
        reversed_cuts=no_texts,
        substring_attribute=nothing,
        substrings=no_texts,
    )
