"""Compiles every kernel ahead of the first event: from source once per machine, from numba's cache after that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rankcast.matching.builder import Entry, build_segment
from rankcast.matching.index import Index
from rankcast.matching.merging import merge_segments
from rankcast.matching.searcher import Searcher
from rankcast.matching.turns import wait_for
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.values import Value


def warm_up() -> None:
    """Run every kernel once on a few subscriptions and events."""
    wanted = (attr("n") > 1, attr("s").suffix("a"), attr("s").contains("a"), attr("s").like("a%_a"))
    segment = build_segment(Entry.of(number, Filter.of(one)) for number, one in enumerate(wanted))
    merged = merge_segments([(segment, np.ones(len(segment), bool))])
    event: dict[str, Value] = {"n": 2, "s": "aba"}
    searcher = Searcher(merged)
    searcher.match_one(event)
    index = Index(segments=[segment])
    reader = index.reader()
    reader.match_one(event)
    index.remove(0)
    reader.match_one(event)  # with the kernel for times of change
    wait_for(np.zeros(1, np.uint8), 1)
    searcher.match_batch(pa.RecordBatch.from_pylist([event, {"n": 2**60}]))
    enough = 300  # for the wide kernel to be built
    build_segment(Entry.of(number, Filter.of(attr("n").between(-number, number))) for number in range(enough))
