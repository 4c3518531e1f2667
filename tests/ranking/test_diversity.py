"""Diverse selection: the paper's examples, the corrected formula, and properties."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidSubscriptionError
from rankcast.ranking.diversity import Diversity, diverse_best, list_diversity, mean_distance, most_diverse

GENRES = ["comedy", "drama", "drama", "drama", "horror", "sci-fi"]
RANKS = [0.9, 0.75, 0.75, 0.75, 0.65, 0.6]


def unlike(one, other):
    return float(one != other)


def apart(one, other):
    return abs(one - other)


def test_the_trace_of_figure_4_1_selects_e1_e2_e5_e6():
    assert diverse_best(GENRES, RANKS, 4, 0.5, unlike) == [0, 1, 4, 5]


def test_the_divranks_of_figure_4_1_follow_from_mean_distances():
    def divranks(selected):
        return [
            round(0.5 * RANKS[at] + 0.5 * sum(unlike(GENRES[at], GENRES[one]) for one in selected) / len(selected), 3)
            for at in range(6)
            if at not in selected
        ]

    assert divranks([0]) == [0.875, 0.875, 0.875, 0.825, 0.8]
    assert divranks([0, 1]) == [0.625, 0.625, 0.825, 0.8]
    assert divranks([0, 1, 4]) == [0.708, 0.708, 0.8]


def test_the_second_window_of_section_4_2_delivers_two_events():
    films = [("horror", "Burton"), ("horror", "Hitchcock"), ("drama", "Spielberg"), ("drama", "Tarantino")]
    ranks = [0.9, 0.85, 0.8, 0.9]

    def distance(one, other):
        return Diversity().distance(dict(enumerate(one)), dict(enumerate(other)))

    assert diverse_best(films[:3], ranks[:3], 2, 0.5, distance) == [0, 2]
    assert [1 + at for at in diverse_best(films[1:], ranks[1:], 2, 0.5, distance)] == [3, 1]


def test_the_mean_distance_to_one_more_event_divides_by_one_more():
    """The printed Property 4.1, with |L| instead of |L| + 1, would give 1.0 here and not the mean 0.5."""
    selected, added, other = ["a"], "b", "b"
    mean = sum(unlike(other, one) for one in [*selected, added]) / 2
    assert (unlike(other, "a") * len(selected) + unlike(other, added)) / (len(selected) + 1) == mean == 0.5


@pytest.mark.parametrize(("q", "k", "published"), [(20, 4, (193, 331, 349)), (20, 2, (35.8, 71.9, 90.5))])
def test_table_4_1_prints_sums_over_pairs(q, k, published):
    """Means over 600 random sets, 40 for the optimum; 8% is three standard errors of the noisiest one."""
    generator = np.random.default_rng(1)
    pairs = k * (k - 1) / 2
    drawn, greedy, optimal = [], [], []
    for run in range(600):
        numbers = generator.uniform(0, 100, q).tolist()
        drawn.append(list_diversity(generator.choice(numbers, k, replace=False).tolist(), apart))
        greedy.append(list_diversity([numbers[at] for at in diverse_best(numbers, [0.0] * q, k, 0.0, apart)], apart))
        if run < 40:
            optimal.append(list_diversity(most_diverse(numbers, k, apart), apart))
    means = [pairs * np.mean(found) for found in (drawn, greedy, optimal)]
    assert means == pytest.approx(published, rel=0.08)


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


@given(st.lists(st.integers(0, 30), min_size=2, max_size=8, unique=True), st.integers(2, 4))
def test_no_list_is_more_diverse_than_the_optimum(items, k):
    best = list_diversity(most_diverse(items, k, apart), apart)
    assert all(list_diversity(chosen, apart) <= best for chosen in combinations(items, min(k, len(items))))


def test_a_missing_attribute_and_another_type_are_different():
    distance = Diversity().distance
    assert distance({"a": 1}, {"a": 1}) == 0
    assert distance({"a": 1}, {"a": 1.0}) == 0
    assert distance({"a": 1}, {"a": True}) == 1
    assert distance({"a": 1, "b": 2}, {"a": 1}) == 0.5
    assert distance({}, {}) == 0


@pytest.mark.parametrize(
    "wrong", [{"sigma": 1.1}, {"sigma": float("nan")}, {"weights": {"a": 0}}, {"weights": {"a": float("inf")}}]
)
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(InvalidSubscriptionError):
        Diversity(**wrong)


VALUES = st.sampled_from([1, 1.0, True, 2, "a", "b", 0.0, -0.0])
CONTENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(st.sampled_from([Diversity(), Diversity(weights={"a": 2, "b": 1})]), st.lists(CONTENTS, max_size=12))
def test_the_mean_distance_is_that_over_all_pairs(diversity, contents):
    assert mean_distance(contents, diversity) == pytest.approx(list_diversity(contents, diversity.distance))
