"""Proposition 4, against a chain of brokers that is played through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidValueError
from rankcast_lab.engines.chains import chain_probability, held_back

SHARES = st.floats(0, 1)


def played(generator, brokers, published, missed, runs):
    """Let a subscription go along the chain until it meets the publication or is held back."""
    found = 0
    for _ in range(runs):
        for _broker in range(brokers):
            if generator.random() < published:
                found += 1
                break
            if generator.random() < missed:
                break
    return found / runs


@pytest.mark.parametrize(
    ("brokers", "published", "missed"), [(1, 0.3, 0.5), (5, 0.2, 0.1), (20, 0.05, 0.3), (20, 0.05, 0.01), (8, 0.1, 0)]
)
def test_it_is_what_a_simulation_finds(brokers, published, missed):
    runs = 20_000
    expected = chain_probability(brokers, published, missed)
    found = played(np.random.default_rng(1), brokers, published, missed, runs)
    assert found == pytest.approx(expected, abs=4 * (expected * (1 - expected) / runs) ** 0.5)


@given(st.integers(0, 30), SHARES, SHARES)
def test_it_is_the_printed_sum(brokers, published, missed):
    terms = [published * ((1 - published) * (1 - missed)) ** place for place in range(brokers)]
    assert chain_probability(brokers, published, missed) == pytest.approx(sum(terms), abs=1e-9)


@given(st.integers(1, 30), SHARES, SHARES)
def test_it_lies_between_the_first_broker_alone_and_tests_that_are_never_wrong(brokers, published, missed):
    found = chain_probability(brokers, published, missed)
    assert chain_probability(brokers, published, 1.0) == pytest.approx(published)
    assert published - 1e-9 <= found <= 1 - (1 - published) ** brokers + 1e-9


def test_points_that_all_miss():
    assert held_back(0.5, 2) == pytest.approx(0.25)
    assert (held_back(1, 3), held_back(1, 0), held_back(0, 9)) == (0, 1, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: held_back(2, 1),
        lambda: held_back(0.5, -1),
        lambda: chain_probability(-1, 0.5, 0.5),
        lambda: chain_probability(3, 1.5, 0.5),
        lambda: chain_probability(3, 0.5, -0.1),
    ],
)
def test_what_is_no_probability_or_count_is_refused(call):
    with pytest.raises(InvalidValueError):
        call()
