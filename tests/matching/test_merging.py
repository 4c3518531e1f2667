"""Merging segments gives what building one segment of the survivors gives."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from costly import costly
from rankcast.language.parser import parse_filter
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate
from rankcast.matching.segments.building import build_segment, merge_segments
from rankcast.matching.segments.segment import Segment
from rankcast.testing.strategies import attributes, filters

parts = st.lists(st.lists(st.tuples(filters(max_leaves=5), st.booleans()), max_size=4), min_size=1, max_size=3)


@costly
@given(parts, st.lists(attributes(), min_size=1, max_size=3))
def test_a_merged_segment_equals_the_oracle_on_what_is_alive(held, found):
    numbers = iter(range(100))
    numbered = [[(next(numbers), wanted, alive) for wanted, alive in part] for part in held]
    merged = merge_segments(
        [
            (
                build_segment(Entry.of(number, wanted) for number, wanted, _ in part),
                np.array([alive for *_, alive in part], bool),
            )
            for part in numbered
        ]
    )
    searcher = Index(segments=[merged]).reader()
    living = [(number, wanted) for part in numbered for number, wanted, alive in part if alive]
    assert merged.numbers.tolist() == [number for number, _ in living]
    assert len(Segment.from_arrays(merged.to_arrays())) == len(living), "what was merged can be saved and loaded"
    for one in found:
        expected = [number for number, wanted in living if evaluate(wanted.expression, one) is True]
        assert sorted(searcher.match_one(one).tolist()) == expected


@costly
@given(st.lists(filters(max_leaves=5), max_size=6))
@example([parse_filter("not (s like 'a%a' and n = -1)")])
@example([parse_filter("n = -1 or s like 'a%b%a'")])
def test_a_merge_keeps_no_cut_that_only_the_dead_used(wanted):
    entries = [Entry.of(number, one) for number, one in enumerate(wanted)]
    alive = np.arange(len(entries)) % 2 == 0
    merged = merge_segments([(build_segment(entries), alive)])
    built = build_segment(entries[::2])
    assert merged.dimensions.attributes.texts() == built.dimensions.attributes.texts()
    assert merged.dimensions.rank_counts.tolist() == built.dimensions.rank_counts.tolist()
