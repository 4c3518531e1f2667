"""Segments built from columns answer like the same subscriptions built one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.segments.building import build_segment
from rankcast.model.errors import FilterTypeError
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.values import INT_MAX, INT_MIN
from rankcast_lab.engines.columnar import segment_of_ranges
from rankcast_lab.workloads.matching import MatchingWorkload, matching_case

NAMES = ("b", "a", "c")
WORDS = ("x", "", "é", "x\0", "😀")
integers = st.sampled_from((INT_MIN, -(2**53) - 1, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**62 + 1, INT_MAX - 1, INT_MAX))
floats = st.sampled_from((-math.inf, -1.5, -0.0, 0.0, 0.5, 2.0**53, 2.0**63, math.inf))


def rows_of(ends):
    ranges = st.tuples(ends, ends).map(sorted)
    predicate = st.one_of(st.none(), ranges)
    words = st.one_of(st.none(), st.integers(0, len(WORDS) - 1))
    return st.lists(st.tuples(predicate, predicate, words), max_size=6)


def segment_of(rows, kind):
    predicates = [[(at, p) for at, p in enumerate(row) if p is not None] for row in rows]
    flat = [(at, *((p, p) if at == 2 else p)) for row in predicates for at, p in row]
    return segment_of_ranges(
        NAMES,
        np.cumsum([0, *(len(row) for row in predicates)]),
        np.array([at for at, *_ in flat], np.int32),
        np.array([low for _, low, _ in flat], kind),
        np.array([high for *_, high in flat], kind),
        vocabularies={2: WORDS},
    )


def accepts(row, event):
    for at, predicate in enumerate(row):
        value = event.get(NAMES[at])
        if predicate is None:
            continue
        if value is None or (value != WORDS[predicate] if at == 2 else not predicate[0] <= value <= predicate[1]):
            return False
    return True


values = st.one_of(integers, floats)
found_events = st.fixed_dictionaries({}, optional={"a": values, "b": values, "c": st.sampled_from((*WORDS, "y"))})


@given(rows_of(integers), st.lists(found_events, min_size=1, max_size=4))
def test_integer_ranges_are_exact(rows, found):
    searcher = Index(segments=[segment_of(rows, np.int64)]).reader()
    for event in found:
        expected = [number for number, row in enumerate(rows) if accepts(row, event)]
        assert sorted(searcher.match_one(event).tolist()) == expected


@given(rows_of(floats), st.lists(found_events, min_size=1, max_size=4))
def test_float_ranges_are_exact_and_infinite_ends_are_none(rows, found):
    searcher = Index(segments=[segment_of(rows, np.float64)]).reader()
    for event in found:
        expected = [number for number, row in enumerate(rows) if accepts(row, event)]
        assert sorted(searcher.match_one(event).tolist()) == expected


@pytest.mark.parametrize("low_and_high", [(math.nan, 1.0), (2.0, 1.0)])
def test_ranges_that_are_none_are_refused(low_and_high):
    low, high = low_and_high
    with pytest.raises(FilterTypeError):
        segment_of_ranges(["a"], np.array([0, 1]), np.zeros(1, np.int32), np.array([low]), np.array([high]))


@pytest.mark.parametrize("workload", list(MatchingWorkload))
def test_workloads_match_alike_as_columns_as_filters_and_by_definition(workload):
    case = matching_case(workload, subscriptions=3_000, events=40)
    searcher = Index(
        segments=[
            segment_of_ranges(
                case.attributes, case.row_start, case.attribute, case.low, case.high, vocabularies=case.vocabularies
            )
        ]
    ).reader()
    by_filters = Index(
        segments=[build_segment(Entry.of(number, case_filter(case, number)) for number in range(3_000))]
    ).reader()
    offsets, numbers = searcher.match_batch(case.event_batch())
    for at, event in enumerate(case.event_mappings()):
        expected = by_definition(case, case.events[at])
        assert sorted(numbers[offsets[at] : offsets[at + 1]].tolist()) == expected
        assert sorted(searcher.match_one(event).tolist()) == expected
        assert sorted(by_filters.match_one(event).tolist()) == expected
    assert offsets[-1] > 0


def case_filter(case, number):
    expression = None
    for k in range(case.row_start[number], case.row_start[number + 1]):
        attribute, low, high = int(case.attribute[k]), int(case.low[k]), int(case.high[k])
        name = attr(case.attributes[attribute])
        words = case.vocabularies.get(attribute)
        part = name.between(low, high) if words is None else name == words[low]
        expression = part if expression is None else expression & part
    return Filter.of(expression)


def by_definition(case, event):
    value = event[case.attribute]
    holds = (value >= 0) & (case.low <= value) & (value <= case.high)
    return np.flatnonzero(np.logical_and.reduceat(holds, case.row_start[:-1])).tolist()
