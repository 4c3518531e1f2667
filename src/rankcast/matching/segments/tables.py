"""What a segment consists of: every array by its name, with its type and what is expected of it, declared once.

A saved segment has the arrays of `SEGMENT`; they are checked by it when they come from elsewhere (`segment`). A kernel
is given these and what is derived from them, in one table of addresses, and reads them by `AT`.
"""

from __future__ import annotations

import numpy as np

from rankcast.compiling.arguments import Kinds, readers
from rankcast.containers.expectations import Column, Columns, Range, below, kinds_of
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW


def _bytes(name: str, length: str) -> dict[str, Column]:
    """Return what is expected of a table of byte strings."""
    return {
        f"{name}.start": Column(np.int64, length, starts=f"bytes of {name}"),
        f"{name}.data": Column(np.uint8, f"bytes of {name}"),
    }


SEGMENT: Columns = {
    "numbers": Column(np.int64, "subscriptions", ascends=True),
    "bounds": Column(np.int64, 2, below("rows and one")),
    **_bytes("dimensions.attributes", "attributes"),
    "dimensions.number_start": Column(np.int64, "attributes", starts="number cuts"),
    "dimensions.number_keys": Column(np.float64, "number cuts", is_number=True),
    "dimensions.number_rests": Column(np.int16, "number cuts"),
    "dimensions.string_start": Column(np.int64, "attributes", starts="string cuts"),
    **_bytes("dimensions.strings", "string cuts"),
    "dimensions.time_start": Column(np.int64, "attributes", starts="time cuts"),
    "dimensions.times": Column(np.int64, "time cuts"),
    "dimensions.reversed_attribute": Column(np.int32, "reversed", below("attributes"), ascends=True),
    "dimensions.reversed_start": Column(np.int64, "reversed", starts="reversed cuts"),
    **_bytes("dimensions.reversed_cuts", "reversed cuts"),
    "dimensions.substring_attribute": Column(np.int32, "substrings", below("attributes")),
    **_bytes("dimensions.substrings", "substrings"),
    "rows.start": Column(np.int64, "rows", starts="predicates"),
    "rows.predicates": Column(
        np.int32, "predicates", width=3, columns={DIMENSION: below("dimensions"), LOW: Range(), HIGH: Range()}
    ),
    "rows.gap_start": Column(np.int64, "starts of gaps"),
    "rows.gaps": Column(np.int32, "gaps", width=2),
    "rows.subscription": Column(np.int32, "rows", below("subscriptions")),
    "residues.row": Column(np.int32, "residues", below("rows")),
    "residues.attribute": Column(np.int32, "residues", below("attributes")),
    "residues.negated": Column(np.uint8, "residues", below(2)),
    **_bytes("residues.patterns", "residues"),
    "wide.layout": Column(np.int64, "dimensions", width=4, columns=dict.fromkeys(range(4), Range())),
    "wide.bucket_of": Column(np.uint16, "ranks in bitmaps"),
    "wide.bits": Column(np.uint64, "words"),
    "wide.chunks": Column(np.int64, "chunks and one", width=2, columns={1: Range(-1)}),
    "wide.parts": Column(np.int64, "parts", width=2, columns={0: below("dimensions"), 1: Range()}),
    "wide.ends_start": Column(np.int64, "buckets and one", width=3),
    "wide.low_ends": Column(np.int32, "low ends", width=2, columns={1: below("wide rows")}),
    "wide.high_ends": Column(np.int32, "high ends", width=2, columns={1: below("wide rows")}),
    "wide.gaps": Column(np.int32, "gaps in buckets", width=3, columns={2: below("wide rows")}),
    "selective.access": Column(np.int64, "dimensions", width=2, columns=dict.fromkeys(range(2), Range(-1))),
    "selective.cell_of": Column(np.int32, "ranks in cells", Range()),
    "selective.cell_start": Column(np.int64, "cells", starts="entries"),
    "selective.entries": Column(np.int32, "entries", width=4, columns={0: below("rows"), 1: below("dimensions")}),
}
"""What is expected of each array; what several say together is checked by `segment.RELATIONS`."""

DERIVED: Kinds = {
    "number_of": (np.int64, 0),
    "has_residue": (np.uint8, 0),
    "facts": (np.int64, 0),
    "died": (np.int64, 0),
    "dimension_of": (np.int32, 0),
    "string_keys": (np.uint64, 0),
    "reversed_of": (np.int32, 0),
    "reversed_keys": (np.uint64, 0),
    "group_of": (np.int32, 0),
    "automaton_roots": (np.int32, 0),
    "automaton_child_start": (np.int64, 0),
    "automaton_child_byte": (np.uint8, 0),
    "automaton_child_node": (np.int32, 0),
    "automaton_fail": (np.int32, 0),
    "automaton_ends": (np.int32, 0),
    "automaton_next_end": (np.int32, 0),
    "element_start": (np.int64, 0),
    "element_dimensions": (np.int32, 0),
}
"""What is derived from a segment to search it. By row, the number of its subscription, and whether it has residues (or
nothing, when no row has); what changes or is told of the whole (`FACTS`); by attribute of the index, the segment's
dimension; what ranks texts (`Texts`); and by element of the index, the dimensions of the conditions that it satisfies.
"""

# Positions in `facts`: the first row that is checked one by one, whether some subscription has several rows, how many
# subscriptions have died (changed in place; `died` says when each did), and how many end points could be visited in the
# time that it takes to check a wide row: 0 where the rows are too many to be in the cache.
FIRST_SCANNED, HAS_SEVERAL, DEAD, ENDS_PER_CHECK = 0, 1, 2, 3

SEGMENT_KINDS: Kinds = {**{name.replace(".", "_"): kind for name, kind in kinds_of(SEGMENT).items()}, **DERIVED}
"""What a kernel is given of a segment, in the order of its table."""

AT = readers(SEGMENT_KINDS)
