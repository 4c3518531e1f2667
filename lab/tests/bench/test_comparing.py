"""Match sets are compared as sets: order is free, everything else is a difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast_lab.bench.comparing import Matches, compare, gathered


def matches(*lists):
    return gathered(np.array(own, np.int64) for own in lists)


def outcome(*lists):
    truth = matches([1, 2, 3], [], [4])
    (comparison,) = compare("case", "truth", {"truth": truth, "other": matches(*lists)})
    return comparison


def test_the_order_is_free():
    comparison = outcome([3, 1, 2], [], [4])
    assert (comparison.equal, comparison.events, comparison.difference) == (True, 3, "")


@pytest.mark.parametrize(
    ("lists", "difference"),
    [
        (([1, 3], [], [4]), "event 0: missed 1 (2, ...) of 3"),
        (([1, 2, 3], [9], [4]), "event 1: added 1 (9, ...) of 0"),
        (([1, 2, 3], [], [4, 4]), "event 2: 1 found more than once of 1"),
        (([1, 2, 5], [], [4]), "event 0: missed 1 (3, ...), added 1 (5, ...) of 3"),
    ],
)
def test_what_differs_is_described(lists, difference):
    comparison = outcome(*lists)
    assert not comparison.equal
    assert comparison.difference == difference


def test_an_engine_that_saw_fewer_events_is_compared_on_those():
    assert (outcome([1, 2, 3]).events, outcome([1, 2, 3]).equal) == (1, True)


def test_nothing_compared_is_not_equal():
    assert not outcome().equal


@given(st.lists(st.lists(st.integers(0, 20), unique=True), min_size=1, max_size=5), st.randoms())
def test_pairs_in_any_order_are_the_same_matches(lists, random):
    pairs = [(event, number) for event, own in enumerate(lists) for number in own]
    random.shuffle(pairs)
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    found = Matches.from_pairs(columns[:, 0], columns[:, 1], len(lists))
    (comparison,) = compare("case", "truth", {"truth": matches(*lists), "pairs": found})
    assert comparison.equal
    assert comparison.events == len(lists)
