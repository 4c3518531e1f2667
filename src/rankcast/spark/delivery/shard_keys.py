"""Keys of shards that Spark spreads evenly: it puts a key into the partition that its hash says.

Keys depend on the number of shards alone, because they are part of a checkpoint. Shard i gets a key whose hash is i
modulo the number of shards: as many partitions as shards get one shard each, and if the number of partitions divides
that of shards, all get equally many.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

_WORD = 0xFFFFFFFF
_SEED = 42
"""Of Spark's hash for partitioning, Murmur3."""


@lru_cache
def shard_keys(shards: int) -> tuple[int, ...]:
    """Return a key for each shard.

    >>> [spark_hash(key) % 4 for key in shard_keys(4)]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(spark_hash(key) % shards, key)
        if len(found) == shards:
            return tuple(found[shard] for shard in range(shards))
    raise AssertionError("there is always another number")


def spark_hash(key: int) -> int:
    """Return what Spark's `hash` gives for an int column, which is not negative here.

    >>> spark_hash(1)
    -559580957
    """
    mixed = _rotated(key * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
