"""Contents: which attributes count, codes that are equal exactly where values are, and selection by kernels."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.engine.contents import (
    MISSING,
    NO_CONTENTS,
    Contents,
    WantedContent,
    attribute_code,
    content_codes,
    content_for,
    value_code,
)
from rankcast.delivery.rules.queues import FEW, diverse_selection, selected_by_kernel, selection_arguments
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Sliding, TopKWindow
from rankcast.model.values import SCALARS, family_of
from rankcast.ranking.diversity import diverse_best
from rankcast.testing.strategies import values

ATTRIBUTES = {"id": "7", "source": "/films", "time": datetime(2026, 1, 1, tzinfo=UTC), "year": 1985, "genre": "war"}
edges = st.sampled_from((0, 0.0, -0.0, 1, 1.0, True, False, "", "1", 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 2.0**63))


def test_without_diversity_nothing_is_wanted():
    wanted = WantedContent.of([AllMatches(), Continuous(1), Sliding(1, 2), TopKWindow(1, 2)])
    assert not wanted
    assert wanted.of_event(ATTRIBUTES) == ()


def test_with_weights_the_attributes_they_name_are_wanted_envelope_or_payload():
    wanted = WantedContent.of([Sliding(1, 2, Diversity(weights={"source": 1, "genre": 1, "length": 1}))])
    assert wanted.of_event(ATTRIBUTES) == (("genre", "war"), ("source", "/films"))


def test_without_weights_all_of_the_payload_is_wanted_and_nothing_of_the_envelope():
    assert WantedContent.of([TopKWindow(1, 2, Diversity())]).of_event(ATTRIBUTES) == (("genre", "war"), ("year", 1985))


def test_several_policies_want_what_each_of_them_wants():
    policies = [Periodic(1, timedelta(1), Diversity()), Sliding(1, 2, Diversity(weights={"source": 1}))]
    assert [name for name, _ in WantedContent.of(policies).of_event(ATTRIBUTES)] == ["genre", "source", "year"]


@given(values(*SCALARS) | edges, values(*SCALARS) | edges)
def test_codes_are_equal_exactly_where_values_are(one, other):
    equal = family_of(one) is family_of(other) and one == other
    assert (value_code(one) == value_code(other)) == equal


@given(values(*SCALARS) | edges)
def test_no_value_has_the_code_of_a_missing_one(value):
    assert value_code(value) != MISSING


def test_names_of_the_envelope_have_negative_codes_and_no_others():
    assert attribute_code("source") < 0 <= attribute_code("genre")


def test_codes_are_those_of_every_process():
    program = "from rankcast.delivery.engine.contents import *; print(attribute_code('genre'), value_code('war'))"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.split() == [str(attribute_code("genre")), str(value_code("war"))]


def test_contents_are_found_by_ascending_numbers():
    contents = Contents.of({9: {"b": 1, "a": 2}, 4: {}, 5: (("c", True),)})
    assert contents.numbers.tolist() == [4, 5, 9]
    assert contents.starts.tolist() == [0, 0, 1, 3]
    attributes, codes = content_codes({"a": 2, "b": 1})
    assert contents.attributes[1:].tolist() == attributes.tolist() == sorted(map(attribute_code, "ab"))
    assert contents.values[1:].tolist() == codes.tolist()
    assert contents.values[0] == value_code(True)


def test_no_contents_are_the_contents_of_no_events():
    assert [column.tolist() for column in NO_CONTENTS] == [[], [0], [], []]


def test_a_policy_compares_nothing_unless_it_diversifies():
    assert content_for(Sliding(1, 2), ATTRIBUTES) == ()
    assert content_for(Sliding(1, 2, Diversity(weights={"genre": 1})), ATTRIBUTES) == (("genre", "war"),)


CONTENTS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from((0, -0.0, 1, 1.0, True, "1", 0.1)) | values()).map(
    lambda content: tuple(sorted(content.items()))
)
RANKS = st.sampled_from((0.0, 0.1, 1 / 3, 0.5, 1.0)) | st.floats(0, 1)
DIVERSITIES = st.builds(
    Diversity,
    st.sampled_from((0.0, 0.3, 0.5, 1.0)) | st.floats(0, 1),
    st.dictionaries(st.sampled_from("abz"), st.sampled_from((0.1, 0.2, 0.7, 3)) | st.floats(1e-3, 1e3)),
)


@given(st.lists(st.tuples(CONTENTS, RANKS), max_size=2 * FEW), st.integers(0, 9), DIVERSITIES)
def test_arrays_select_what_the_plain_algorithm_selects(events, k, diversity):
    held, scores = [content for content, _ in events], [rank for _, rank in events]
    plain = diverse_best([dict(content) for content in held], scores, k, diversity.sigma, diversity.distance)
    assert selected_by_kernel(selection_arguments(held, diversity), scores, k) == plain
    assert diverse_selection(held, scores, k, diversity) == plain
