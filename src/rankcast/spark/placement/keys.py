"""Rows of numbers as bytes whose order is that of the numbers, so that Spark can sort, compare and join them.

A float64 is written with its most significant byte first, the sign bit turned over, and all other bits, too, when it is
negative. Of two rows the one with the first smaller number comes first; one that begins like a longer one is before it.
Zero has one key, whatever its sign. Rows of truth values are packed, a bit for each.

Nothing here works row by row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rankcast.arrays import Array

BYTES = 8
"""Of a number."""

_SIGN = np.uint64(1 << 63)


def keys_of(rows: Array, counts: Array | None = None) -> pa.Array:
    """Return keys of rows of numbers: of each row, or of so many rows together as `counts` say."""
    bits = (np.ascontiguousarray(rows) + 0.0).view(np.uint64)
    data = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(">u8")
    return binaries(data, np.ones(len(rows), np.int64) if counts is None else counts)


def rows_of(keys: pa.Array | pa.ChunkedArray, width: int) -> tuple[Array, Array]:
    """Return the numbers of keys, so many in a row, and how many rows each key has."""
    data, lengths = content_of(keys)
    bits = data.view(">u8").astype(np.uint64)
    rows = np.where(bits & _SIGN, bits & ~_SIGN, ~bits).view(np.float64)
    return rows.reshape(-1, width), lengths // (width * BYTES)


def packed(rows: Array) -> pa.Array:
    """Return rows of truth values as bytes."""
    return binaries(np.packbits(rows, axis=1), np.ones(len(rows), np.int64))


def unpacked(column: pa.Array | pa.ChunkedArray, width: int) -> Array:
    """Return what `packed` has packed, so many truth values in a row."""
    bits = content_of(column)[0].reshape(-1, -(-width // 8))
    return np.unpackbits(bits, axis=1, count=width).view(bool)


def binaries(rows: Array, counts: Array) -> pa.Array:
    """Return the bytes of rows, of so many together as `counts` say."""
    # Columns of bytes have ends of 32 bits, which is enough: a batch has some ten thousand rows.
    ends = np.concatenate([[0], np.cumsum(counts)]) * (rows.itemsize * rows.shape[1])
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def content_of(column: pa.Array | pa.ChunkedArray) -> tuple[Array, Array]:
    """Return the bytes of all values one after the other, and how many each one has; no value may be null."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    parts, lengths = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
    for chunk in chunks:
        kind = np.dtype(np.int64 if pa.types.is_large_binary(chunk.type) else np.int32)
        _, ends, data = chunk.buffers()
        within = np.frombuffer(ends, kind, len(chunk) + 1, chunk.offset * kind.itemsize).astype(np.int64)
        parts.append(np.frombuffer(data, np.uint8)[within[0] : within[-1]])
        lengths.append(np.diff(within))
    return np.concatenate(parts), np.concatenate(lengths)
