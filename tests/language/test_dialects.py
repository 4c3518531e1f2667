"""CloudEvents subscription filters: each is the same as a text; two-valued; errors name the place in the JSON."""

import re
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.dialects import MAX_NESTING, filter_from_cloudevents
from rankcast.language.parser import parse_filter
from rankcast.model.errors import FilterError, FilterTooLargeError, UnknownAttributeError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"exact": {"type": "push"}}, "type = 'push'"),
        ({"prefix": {"type": "com."}}, "type prefix 'com.'"),
        ({"suffix": {"subject": ".jpg"}}, "subject suffix '.jpg'"),
        ({"not": {"exact": {"a": "x"}}}, "not exists a or a != 'x'"),
        ([], "true"),
        ({"exact": {"time": "2026-03-01T10:00:00+01:00"}}, "time = time '2026-03-01T09:00:00Z'"),
        ({"not": {"exact": {"expirytime": "2026-03-01"}}}, "not exists expirytime or expirytime != time '2026-03-01'"),
        ({"exact": {"a b": "50%_'\\"}}, "\"a b\" = '50%_''\\\\'"),
        ({"prefix": {"a": "50%"}}, "a prefix '50%'"),
    ],
)
def test_a_document_is_the_same_as_a_text(document, text):
    assert filter_from_cloudevents(document) == parse_filter(text)


TEXTS = st.sampled_from(("a", "ab", "b", "ba"))
NAMES = st.sampled_from(("x", "y", "z"))
LEAVES = st.builds(
    lambda dialect, content: {dialect: content},
    st.sampled_from(("exact", "prefix", "suffix")),
    st.dictionaries(NAMES, TEXTS, min_size=1, max_size=2),
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda part: {"not": part}, inner),
        st.builds(
            lambda dialect, parts: {dialect: parts},
            st.sampled_from(("all", "any")),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=6,
)


def holds(document, found):
    """The specification's own words: true or false, nothing in between."""
    ((dialect, content),) = document.items()
    match dialect:
        case "exact":
            return all(found.get(name) == text for name, text in content.items())
        case "prefix":
            return all(name in found and found[name].startswith(text) for name, text in content.items())
        case "suffix":
            return all(name in found and found[name].endswith(text) for name, text in content.items())
        case "all":
            return all(holds(part, found) for part in content)
        case "any":
            return any(holds(part, found) for part in content)
    return not holds(content, found)


@given(DOCUMENTS, st.dictionaries(NAMES, TEXTS))
def test_a_document_accepts_what_the_specification_says(document, found):
    assert filter_from_cloudevents(document).accepts(found) == holds(document, found)
    inverse = filter_from_cloudevents({"not": document})
    assert inverse.accepts(found) != holds(document, found)


@given(st.lists(DOCUMENTS, max_size=3), st.dictionaries(NAMES, TEXTS))
def test_all_filters_of_an_array_must_hold(documents, found):
    assert filter_from_cloudevents(documents).accepts(found) == all(holds(part, found) for part in documents)


DECLARED = Schema(
    {"n": ValueType.INT, "x": ValueType.FLOAT, "flag": ValueType.BOOL, "seen": ValueType.TIME, "name": ValueType.STRING}
)


DIALECTS = "exact, prefix, suffix, all, any or not"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, f"$: None is not a filter; expected an object with one key: {DIALECTS}"),
        ("type = 'x'", "$: \"type = 'x'\" is not a filter"),
        ({}, "$: {} is not a filter"),
        ({"exact": {"a": "x"}, "prefix": {"a": "x"}}, "is not a filter; expected an object with one key"),
        ([{"exact": {"a": "x"}}, 5], "$[1]: 5 is not a filter"),
        ({"like": {"a": "x"}}, f"$: unknown filter dialect 'like'; expected {DIALECTS}"),
        ({5: {"a": "x"}}, "$: unknown filter dialect 5"),
        ({"sql": "a = 'x'"}, "$.sql: CloudEvents SQL is not supported"),
        ({"exact": {}}, "$.exact: {} is not an object of attribute names and strings"),
        ({"exact": "a"}, "$.exact: 'a' is not an object of attribute names and strings"),
        ({"exact": {"": "x"}}, "$.exact: '' is not an attribute name; expected a non-empty string"),
        ({"prefix": {"a": ""}}, "$.prefix.a: '' is not a non-empty string"),
        ({"suffix": {"a": None}}, "$.suffix.a: None is not a non-empty string"),
        ({"exact": {"a b": 5}}, "$.exact['a b']: 5 is not a non-empty string"),
        ({"exact": {"a": "\ud800"}}, "$.exact.a: a =: '\\ud800' holds half a surrogate pair"),
        ({"all": []}, "$.all: [] is not a list of filters; expected at least one"),
        ({"any": {"exact": {"a": "x"}}}, "$.any: {'exact': {'a': 'x'}} is not a list of filters"),
        ({"all": [{"exact": {"a": "x"}}, {"exact": ["a"]}]}, "$.all[1].exact: ['a'] is not an object"),
        ({"not": [{"exact": {"a": "x"}}]}, "$.not: [{'exact': {'a': 'x'}}] is not a filter"),
        ([{"any": [{"not": {"exact": {"a": 1}}}]}], "$[0].any[0].not.exact.a: 1 is not a non-empty string"),
        ({"exact": {"time": "soon"}}, "$.exact.time: 'soon' is not a time; expected an RFC 3339 time"),
        ({"prefix": {"time": "2026"}}, "$.prefix.time: time is of type time; prefix and suffix are for strings"),
        ({"suffix": {"expirytime": "Z"}}, "$.suffix.expirytime: expirytime is of type time"),
        ({"exact": {"a" * 1_001: "1"}}, "an attribute name is 1 to 1,000 characters"),
    ],
)
def test_an_error_names_the_place_the_value_and_what_was_expected(document, message):
    with pytest.raises(FilterError, match=re.escape(message)):
        filter_from_cloudevents(document)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"exact": {"nam": "a"}}, "$.exact.nam: unknown attribute 'nam'; did you mean 'name'?"),
        ({"exact": {"n": "1.5"}}, "$.exact.n: '1.5' is not the text of a value of type int"),
        ({"exact": {"n": "9" * 19}}, "$.exact.n: n =: 9999999999999999999 does not fit a 64-bit integer"),
        ({"exact": {"flag": "yes"}}, "$.exact.flag: 'yes' is not the text of a value of type bool"),
        ({"exact": {"x": "1.5"}}, "$.exact.x: '1.5' is not the text of a value of type float"),
        ({"prefix": {"n": "1"}}, "$.prefix.n: n is of type int; prefix and suffix are for strings"),
        ({"exact": {"a" * 1_001: "1"}}, "unknown attribute"),
    ],
)
def test_what_a_schema_refuses_names_the_place(document, message):
    with pytest.raises(UnknownAttributeError if "unknown" in message else FilterError, match=re.escape(message)):
        filter_from_cloudevents(document, DECLARED)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"exact": {"n": "-5"}}, "n = -5"),
        ({"not": {"exact": {"flag": "true"}}}, "not exists flag or flag != true"),
        ({"exact": {"seen": "2026-01-01"}}, "seen = time '2026-01-01'"),
        ({"prefix": {"name": "a"}}, "name prefix 'a'"),
        ({"exact": {"type": "5"}}, "type = '5'"),
    ],
)
def test_with_a_schema_a_text_stands_for_a_value_of_the_declared_type(document, text):
    assert filter_from_cloudevents(document, DECLARED) == parse_filter(text, DECLARED)


def nested(depth):
    return reduce(lambda document, _: {"not": document}, range(depth), {"exact": {"a": "x"}})


def test_nesting_is_bounded():
    assert filter_from_cloudevents(nested(MAX_NESTING - 1)).is_satisfiable
    for depth in (MAX_NESTING, 100_000):
        with pytest.raises(FilterTooLargeError, match="more than 100 deep"):
            filter_from_cloudevents(nested(depth))
