"""Ranges that cover one another, and the brokers they are attached to."""

import numpy as np
import pytest

from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError
from rankcast.overlay.simulation.ranges import attached, ranges


def drawn(seed=1, **options):
    return ranges(500, np.random.default_rng(seed), **options)


def test_the_same_seed_gives_the_same_subscriptions_and_another_seed_others():
    assert drawn().starts.tolist() == drawn().starts.tolist() != drawn(seed=2).starts.tolist()


def test_ranges_lie_in_the_domain_and_are_as_wide_as_asked():
    made = drawn(widths=(0.1, 0.2), attributes=3)
    widths = made.ends - made.starts
    assert made.starts.shape == (500, 3)
    assert made.starts.min() >= 0
    assert made.ends.max() <= 1
    assert 0.0999 < widths.min() < 0.11
    assert 0.19 < widths.max() < 0.2001


def test_filters_are_the_ranges():
    made = drawn(attributes=2)
    (low, other_low), (high, other_high) = made.starts[7].tolist(), made.ends[7].tolist()
    assert made.filters()[7] == parse_filter(
        f"a0 between {low!r} and {high!r} and a1 between {other_low!r} and {other_high!r}"
    )


def test_every_subscription_is_attached_to_one_edge_of_one_core_broker():
    brokers = attached(1_003, np.random.default_rng(1))
    assert [len(edges) for edges in brokers] == [5] * 10
    assert {len(edge) for edges in brokers for edge in edges} == {20, 21}
    assert sorted(np.concatenate([edge for edges in brokers for edge in edges])) == list(range(1_003))


def test_widths_that_are_no_shares_are_refused():
    with pytest.raises(InvalidValueError, match=r"widths: 0\.6 to 0\.3 are no shares"):
        drawn(widths=(0.6, 0.3))
