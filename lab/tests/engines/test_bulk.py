"""Covering of all boxes at once: the definition, from scratch, and what a cover set keeps incrementally."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import Ranking
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError
from rankcast_lab.engines.bulk import forwarded, levels_above


@st.composite
def boxes(draw):
    """Boxes of one to three attributes on a small grid, so that there are equal ones and shared sides."""
    attributes = draw(st.integers(1, 3))
    side = st.tuples(st.integers(0, 4), st.integers(0, 3)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
    rows = draw(st.lists(st.lists(side, min_size=attributes, max_size=attributes), min_size=1, max_size=25))
    table = np.array(rows)
    return table[:, :, 0], table[:, :, 1]


def is_above(starts, ends, upper, lower, scores):
    contains = (starts[upper] <= starts[lower]).all() and (ends[upper] >= ends[lower]).all()
    if scores is not None:
        return contains and (-scores[upper], upper) < (-scores[lower], lower)
    equal = (starts[upper] == starts[lower]).all() and (ends[upper] == ends[lower]).all()
    return contains and (not equal or upper < lower)


def defined_levels(starts, ends, cover, scores):
    """How many are above each, or the longest chain of those above, by the definition."""
    numbers = range(len(starts))
    above = [[one for one in numbers if one != two and is_above(starts, ends, one, two, scores)] for two in numbers]
    if cover is not Cover.RANK:
        return [len(found) for found in above]
    chain = {}
    for number in sorted(numbers, key=lambda one: len(above[one])):
        chain[number] = max((chain[other] + 1 for other in above[number]), default=0)
    return [chain[number] for number in numbers]


@given(boxes(), st.sampled_from([Cover.ANCESTOR, Cover.RANK]), st.booleans(), st.integers(1, 6), st.data())
def test_levels_are_those_of_the_definition_and_saturate(made, cover, scored, most, data):
    starts, ends = made
    scores = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(starts), max_size=len(starts))))
    by = scores if scored else None
    expected = defined_levels(starts, ends, cover, by)
    assert levels_above(starts, ends, cover, scores=by).tolist() == expected
    assert levels_above(starts, ends, cover, most, by).tolist() == [min(level, most) for level in expected]


@given(boxes(), st.sampled_from(Cover), st.integers(1, 4), st.booleans())
def test_a_cover_set_forwards_the_same(made, cover, k, scored):
    starts, ends = made
    scores = (starts.sum(axis=1) % 3).astype(float)
    kept = CoverSet(cover, k, Ranking.FIXED if scored else Ranking.AGNOSTIC)
    for number, (low, high) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        text = " and ".join(f"a{at} between {low[at]} and {high[at]}" for at in range(len(low)))
        kept.add(number, parse_filter(text), scores[number])
    assert forwarded(starts, ends, cover, k, scores if scored else None).tolist() == kept.forwarded.tolist()


@pytest.mark.parametrize("attributes", [1, 2])
def test_more_boxes_than_a_block_are_compared_across_blocks(attributes):
    random = np.random.default_rng(1)
    starts = random.random((1_500, attributes))
    ends = starts + random.random((1_500, attributes))
    contains = (starts[:, None] <= starts).all(axis=2) & (ends[:, None] >= ends).all(axis=2)
    counts = contains.sum(axis=0) - 1
    assert levels_above(starts, ends).tolist() == counts.tolist()
    for k in (1, 7):
        assert forwarded(starts, ends, Cover.ANCESTOR, k).tolist() == np.flatnonzero(counts < k).tolist()


def test_nothing_is_above_in_an_empty_table():
    assert levels_above(np.zeros((0, 2)), np.zeros((0, 2))).tolist() == []


def test_mistakes_are_named():
    with pytest.raises(InvalidValueError, match=r"starts: an array of shape \(2,\)"):
        levels_above([0, 1], [[1], [2]])
    with pytest.raises(InvalidValueError, match=r"ends: a table of \(1, 1\)"):
        levels_above([[0], [1]], [[1]])
    with pytest.raises(InvalidValueError, match="k: 0"):
        forwarded([[0]], [[1]], Cover.ANCESTOR, 0)
