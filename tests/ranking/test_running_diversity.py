"""The diversity of a growing list equals that of the whole list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.diversity import Diversity
from rankcast.ranking.diversity import list_diversity
from rankcast.ranking.running_diversity import RunningDiversity

VALUES = st.sampled_from([1, 1.0, True, 2, "a", "b", 0.0, -0.0])
CONTENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(st.sampled_from([Diversity(), Diversity(weights={"a": 2, "b": 1})]), st.lists(CONTENTS, max_size=12))
def test_it_equals_the_mean_over_all_pairs(diversity, contents):
    seen = RunningDiversity(diversity)
    for content in contents:
        seen.add(content)
    assert seen.mean == pytest.approx(list_diversity(contents, diversity.distance))
