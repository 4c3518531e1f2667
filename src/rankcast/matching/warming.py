"""Runs every kernel of the package, so that it is compiled, or loaded, before there is any event."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import numpy as np
import pyarrow as pa

from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.segments.building import build_segment, merge_segments
from rankcast.matching.segments.compiled_index import Part
from rankcast.matching.segments.compiled_reader import Searcher
from rankcast.model.expressions import all_of, attr
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
    enough = 300  # for the wide kernel to be built
    build_segment(Entry.of(number, Filter.of(attr("n").between(-number, number))) for number in range(enough))
    _match_columns()


def _match_columns() -> None:
    """Match batches of whole columns: of numbers, one alone and several side by side, and of everything else."""
    for names, value in product((("n",), ("n", "m")), (1, 1.5)):
        wanted = Filter.of(all_of(*(attr(name) > 1 for name in names)))
        segment = build_segment([Entry.of(0, wanted)])
        Searcher(Part.of(segment)).match_batch(pa.RecordBatch.from_pylist([dict.fromkeys(names, value)]))
    row: dict[str, Value] = {"s": "aba", "b": True, "t": datetime(1970, 1, 1, tzinfo=UTC), "f": 1.5, "n": 1}
    equal = [attr(name) == value for name, value in row.items()]
    segment = build_segment([Entry.of(0, Filter.of(all_of(*equal, attr("s").contains("a"), attr("s").suffix("a"))))])
    for rows in ([row], [row, {}]):
        Searcher(Part.of(segment)).match_batch(pa.RecordBatch.from_pylist(rows))
