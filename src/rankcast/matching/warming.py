"""Compiles every kernel ahead of the first event: from source once per machine, from numba's cache after that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rankcast.matching.builder import Entry, build_segment
from rankcast.matching.columnar import segment_of_ranges
from rankcast.matching.index import Index
from rankcast.matching.merging import merge_segments
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.values import Value


def warm_up() -> None:
    """Run every kernel once on a few subscriptions and events."""
    wanted = (attr("n") > 1, attr("s").suffix("a"), attr("s").contains("a"), attr("s").like("a%_a"))
    segment = build_segment(Entry.of(number, Filter.of(one)) for number, one in enumerate(wanted))
    merged = merge_segments([(segment, np.ones(len(segment), bool))])
    event: dict[str, Value] = {"n": 2, "s": "aba"}
    reader = Index(segments=[merged]).reader()
    reader.match_one(event)
    reader.match_batch(pa.RecordBatch.from_pylist([event, {"n": 2**60}]))
    rows = 300  # enough for the wide kernel to be built
    ends = np.arange(rows)
    segment_of_ranges(["n"], np.arange(rows + 1), np.zeros(rows, np.int32), ends - rows, ends)
