"""Selection by kernels is the plain algorithm, to the last bit."""

from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.rules.diverse_selection import FEW, diverse_selection, selection_of_arrays
from rankcast.model.policies import Diversity
from rankcast.ranking.diversity import diverse_best
from rankcast.testing.strategies import values

contents = st.dictionaries(st.sampled_from("abcd"), st.sampled_from((0, -0.0, 1, 1.0, True, "1", 0.1)) | values()).map(
    lambda content: tuple(sorted(content.items()))
)
ranks = st.sampled_from((0.0, 0.1, 1 / 3, 0.5, 1.0)) | st.floats(0, 1)
diversities = st.builds(
    Diversity,
    st.sampled_from((0.0, 0.3, 0.5, 1.0)) | st.floats(0, 1),
    st.dictionaries(st.sampled_from("abz"), st.sampled_from((0.1, 0.2, 0.7, 3)) | st.floats(1e-3, 1e3)),
)


@given(st.lists(st.tuples(contents, ranks), max_size=2 * FEW), st.integers(0, 9), diversities)
def test_arrays_select_what_the_plain_algorithm_selects(events, k, diversity):
    held, scores = [content for content, _ in events], [rank for _, rank in events]
    plain = diverse_best([dict(content) for content in held], scores, k, diversity.sigma, diversity.distance)
    assert selection_of_arrays(held, scores, k, diversity) == plain
    assert diverse_selection(held, scores, k, diversity) == plain
