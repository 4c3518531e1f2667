"""Matches events against the newest snapshot of an index, and never takes a lock: one reader per thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankcast.arrays import Array
from rankcast.matching.few import FewSnapshot
from rankcast.model.values import Value

if TYPE_CHECKING:
    import pyarrow as pa

    from rankcast.matching.index import Index
    from rankcast.matching.segments.compiled_reader import CompiledReader
    from rankcast.matching.segments.snapshots import Snapshot


class Reader:
    """Matches events, in plain Python or by kernels, whichever the index has come to."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._compiled: CompiledReader | None = None

    def match_one(self, attributes: Mapping[str, Value], snapshot: FewSnapshot | Snapshot | None = None) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order.

        Unless an older snapshot is given, the newest one is used.
        """
        if snapshot is None:
            snapshot = self._index.snapshot
        if isinstance(snapshot, FewSnapshot):
            return snapshot.matching(attributes)
        return (self._compiled or self._by_kernels()).match_one(attributes, snapshot)

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]].

        Columns are always matched by kernels.
        """
        return (self._compiled or self._by_kernels()).match_batch(batch, self._index.use_kernels().snapshot)

    def _by_kernels(self) -> CompiledReader:
        from rankcast.matching.segments.compiled_reader import CompiledReader  # noqa: PLC0415  # it loads a compiler

        self._compiled = CompiledReader()
        return self._compiled
