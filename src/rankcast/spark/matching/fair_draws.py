"""Draws that are fair and repeatable: a hash of (seed, event, subscriber), the same as Spark's `xxhash64` of the four.

Among the matches of an event every order of subscribers is as likely as any other, over events and seeds; yet it
depends on nothing else, so it is the same in every partition, batch and repetition. The algorithm is XXH64 by Yann
Collet, chained as Spark chains columns: the hash of one value is the seed of the next.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.stream.event_tables import Ragged

SPARK_SEED = 42
"""What Spark's hash functions begin with."""

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def draws(seed: int, sources: Ragged, ids: Ragged, subscribers: Ragged, event: Array, subscriber: Array) -> Array:
    """Return `xxhash64(seed, source, id, subscriber)` for pairs of an event and a subscriber, by their positions."""
    starts = np.empty(len(ids), np.uint64)
    first = np.array([seed], np.int64).view(np.uint8)
    _event_hashes(
        first,
        np.ascontiguousarray(sources.starts),
        sources.values.copy(),
        np.ascontiguousarray(ids.starts),
        ids.values.copy(),
        starts,
    )
    found = np.empty(len(event), np.uint64)
    _pair_hashes(starts, np.asarray(subscribers.starts), subscribers.values.copy(), event, subscriber, found)
    return found.view(np.int64)


@inlined
def _rotated(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _word(data: Array, at: int, size: int) -> np.uint64:
    word = np.uint64(0)
    for byte in range(size):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@inlined
def _round(accumulated: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(accumulated + word * _P2, 31) * _P1


@inlined
def _merged(accumulated: np.uint64, value: np.uint64) -> np.uint64:
    return (accumulated ^ _round(np.uint64(0), value)) * _P1 + _P4


@inlined
def _hash(data: Array, start: int, end: int, seed: np.uint64) -> np.uint64:
    """Return the XXH64 of data[start:end]."""
    at = start
    if end - start >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, _word(data, at, 8))
            two = _round(two, _word(data, at + 8, 8))
            three = _round(three, _word(data, at + 16, 8))
            four = _round(four, _word(data, at + 24, 8))
            at += 32
        found = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        found = _merged(_merged(_merged(_merged(found, one), two), three), four)
    else:
        found = seed + _P5
    found += np.uint64(end - start)
    while at + 8 <= end:
        found = _rotated(found ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        found = _rotated(found ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        found = _rotated(found ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


@compiled
def _event_hashes(
    first: Array, source_starts: Array, sources: Array, id_starts: Array, ids: Array, found: Array
) -> None:
    seed = _hash(first, 0, 8, np.uint64(SPARK_SEED))
    for event in range(len(found)):
        by_source = _hash(sources, source_starts[event], source_starts[event + 1], seed)
        found[event] = _hash(ids, id_starts[event], id_starts[event + 1], by_source)


@compiled
def _pair_hashes(
    events: Array, starts: Array, subscribers: Array, event: Array, subscriber: Array, found: Array
) -> None:
    for at in range(len(found)):
        own = subscriber[at]
        found[at] = _hash(subscribers, starts[own], starts[own + 1], events[event[at]])
