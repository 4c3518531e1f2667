"""Diverse selection equals its definition; the mean distance is that over all pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.ranking.diversity import Diversity, diverse_best, list_diversity, mean_distance


def apart(one, other):
    return abs(one - other)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=9),
    st.integers(0, 6),
    st.sampled_from((0.0, 0.3, 0.5, 1.0)),
)
def test_selection_equals_its_definition(events, k, sigma):
    """Mean distances from scratch instead of the incremental update; numbers are exact in binary where it matters."""
    items, ranks = [item for item, _ in events], [rank / 4 for _, rank in events]
    selected = diverse_best(items, ranks, k, sigma, apart)
    assert len(selected) == len(set(selected)) == min(k, len(items))
    for count, chosen in enumerate(selected):
        left = [at for at in range(len(items)) if at not in selected[:count]]

        def divrank(at, before=tuple(selected[:count])):
            mean = sum(apart(items[at], items[one]) for one in before) / len(before) if before else 0
            return sigma * ranks[at] + (1 - sigma) * mean if before else ranks[at]

        assert divrank(chosen) == pytest.approx(max(map(divrank, left)))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(1, 5))
def test_with_sigma_1_selection_is_plain_ranking_with_ties_to_the_older(ranks, k):
    expected = sorted(range(len(ranks)), key=lambda at: (-ranks[at], at))[:k]
    assert diverse_best(ranks, ranks, k, 1.0, apart) == expected


VALUES = st.sampled_from([1, 1.0, True, 2, "a", "b", 0.0, -0.0])
CONTENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(st.sampled_from([Diversity(), Diversity(weights={"a": 2, "b": 1})]), st.lists(CONTENTS, max_size=12))
def test_the_mean_distance_is_that_over_all_pairs(diversity, contents):
    assert mean_distance(contents, diversity) == pytest.approx(list_diversity(contents, diversity.distance))
