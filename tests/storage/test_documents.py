"""YAML and JSON documents: the same data from both, what is refused, and the line of every part."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidFileError
from rankcast.storage.documents import MAX_DEPTH, DocumentFormat, dumps_document, parse_document

YAML, JSON = DocumentFormat.YAML, DocumentFormat.JSON


def value_of(text, kind=YAML):
    return parse_document(text, kind, "file").value


def problem_in(text, kind=YAML):
    with pytest.raises(InvalidFileError) as caught:
        parse_document(text, kind, "file")
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("null", None), ("~", None), ("true", True), ("False", False), ("'12'", "12"), ('"true"', "true")),
        *(("12", 12), ("-12", -12), ("+12", 12), ("0o17", 15), ("0xFF", 255), ("017", 17)),
        *(("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e5", 100_000.0)),
    ],
)
def test_a_yaml_scalar_without_quotes_is_what_the_core_schema_says(text, value):
    found = value_of(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["no", "on", "yes", "off", "2026-01-01", "2026-01-01T00:00:00Z", "1:30", "1_000", "0b1"]
)
def test_a_yaml_scalar_that_only_older_yaml_takes_for_something_else_is_text(text):
    assert value_of(f"key: {text}") == {"key": text}


def test_a_yaml_key_is_text_whatever_it_looks_like():
    assert value_of("1: a\nno: b\ntrue: c") == {"1": "a", "no": "b", "true": "c"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: &x 2", 2, "anchor &x"),
        ("a: 1\nb: *x", 2, "alias *x"),
        ("a: 1\n<<: {b: 2}", 2, "merge keys"),
        ("a: 1\nb: !!str 2", 2, "tag"),
        ("a: 1\nb: !x {}", 2, "tag"),
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' occurs twice"),
        ("a: 1\n---\nb: 2", 2, "a second document"),
        ("a: 1\nb: c: d", 2, "not YAML: mapping values are not allowed"),
        ("a: 1\nfilter: title = 'a: b'", 2, "a text with ': ' in it, such as a filter, needs quotes"),
        ("a: 1\nb:\n\t- c", 3, "indent with spaces, not tabs"),
        ("a: 1\nb: [1", 2, "not YAML"),
        ("a: 1\nb: \x01", 2, "not YAML: the character '\\x01'"),
        ("a: 1\n? [b]\n: 2", 2, "cannot be a key"),
        ("a: 1\nb: .inf", 2, "outside the range of float64"),
        ("a: 1\nb: .nan", 2, "outside the range of float64"),
        ("a: 1\nb: 1e999", 2, "outside the range of float64"),
        ("a: 1\nb: " + "9" * 500, 2, "more than 400 digits"),
        ("# nothing but a comment", None, "the file is empty"),
        ("", None, "the file is empty"),
    ],
)
def test_yaml_that_is_refused_is_named_with_its_line(text, line, message):
    problem = problem_in(text)
    assert message in problem.message
    if line is not None:
        assert problem.line == line


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a": 1,\n"b" 2}', 2, "not JSON: Expecting ':' delimiter at column 5"),
        ('{"a": 1,\n"b": 2', 2, "not JSON"),
        ('{"a": 1,\n\n"a": 2}', 3, "the key 'a' occurs twice"),
        ('{"a": {"b": 1},\n"c": {"b": 1, "b": 2}}', 2, "the key 'b' occurs twice"),
        ('{"a": 1,\n"b": NaN}', 2, "the number 'NaN' is outside the range of float64"),
        ('{"a": 1,\n"b": -Infinity}', 2, "the number '-Infinity' is outside the range of float64"),
        ('{"a": 1,\n"b": 1e999}', 2, "outside the range of float64"),
        ('{"a": 1,\n"b": 1e999x}', 2, "not JSON: '1e999x' is not a value"),
        ('{"a": 1,\n"b": Infinityx}', 2, "not JSON: 'Infinityx' is not a value"),
        ('{"a": 1,\n"b": ' + "9" * 5_000 + "}", 2, "more than 400 digits"),
        ("", 1, "not JSON"),
    ],
)
def test_json_that_is_refused_is_named_with_its_line(text, line, message):
    problem = problem_in(text, JSON)
    assert message in problem.message
    assert problem.line == line


@pytest.mark.parametrize("kind", [YAML, JSON])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_endless_nesting_is_refused(kind, depth):
    assert f"nested more than {MAX_DEPTH} deep" in problem_in("[" * depth + "]" * depth, kind).message


@pytest.mark.parametrize("kind", [YAML, JSON])
def test_nesting_up_to_the_bound_is_read(kind):
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert str(value_of(text, kind)) == text


YAML_TEXT = """\
# a comment
version: 1
subscribers:
  - id: ana
    subscriptions:
      - filter: |
          rent < 500
          and city = 'Porto'
        rank: 1

      - {filter: x,
         rank: 2}
"""
LINES = {
    ("version",): 2,
    ("subscribers",): 3,
    ("subscribers", 0): 4,
    ("subscribers", 0, "id"): 4,
    ("subscribers", 0, "subscriptions", 0): 6,
    ("subscribers", 0, "subscriptions", 0, "filter"): 6,
    ("subscribers", 0, "subscriptions", 0, "rank"): 9,
    ("subscribers", 0, "subscriptions", 1): 11,
    ("subscribers", 0, "subscriptions", 1, "rank"): 12,
}


def test_yaml_parts_have_lines():
    assert parse_document(YAML_TEXT, YAML, "file").lines(LINES) == LINES


def test_a_part_that_is_not_there_has_the_line_of_what_would_contain_it():
    document = parse_document(YAML_TEXT, YAML, "file")
    missing = ("subscribers", 0, "subscriptions", 1, "id", "x")
    assert document.lines([missing, ("schema",)]) == {missing: 11, ("schema",): 2}


@pytest.mark.parametrize(
    "entry",
    ['"a": "\\ud83d\\ude00"', f'"{"a" * 2_000}": 1', '"a"\t: 1', '"a": "\u2028"', '"a": "\x7f"', '"a":\t1'],
    ids=["escaped pair", "long key", "tab", "line separator", "delete", "tab after colon"],
)
def test_json_that_yaml_does_not_read_has_lines_too(entry):
    document = parse_document(f'\t{{{entry},\n"b"\n: 1}}', JSON, "file")
    assert document.lines([("b",), ()]) == {("b",): 2, (): 1}


def leaves(value, path=()):
    """Return every path of a value."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from leaves(inner, (*path, key))


def expected_json_lines(value):
    """Return the line of each path of `json.dumps(value, indent=0)`, by counting what is printed before it."""
    lines, line = {}, 1

    def visit(inner, path):
        nonlocal line
        lines[path] = line
        children = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for key, child in list(children):
            line += 1
            visit(child, (*path, key))
        if isinstance(inner, dict | list) and inner:
            line += 1

    visit(value, ())
    return lines


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
plain_data = st.recursive(
    scalars | st.sampled_from(["1e5", "no", "<<", "~", "", " ", "a: b", "- a", "#", "0x1", "\n", "2026-01-01", ".inf"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@given(plain_data)
def test_every_part_of_a_json_document_has_its_line(value):
    document = parse_document(json.dumps(value, indent=0), JSON, "file")
    assert document.lines(leaves(value)) == expected_json_lines(value)


@given(plain_data)
def test_what_is_written_is_read_back(value):
    for kind in (YAML, JSON):
        found = value_of(dumps_document(value, kind), kind)
        assert found == value
        assert repr(found) == repr(value)  # types too: 1, 1.0 and True are equal


@given(st.text(max_size=60) | st.text("[]{}:,-&*!|>'\"%@` \n#ab?<", max_size=60))
def test_any_text_is_read_or_refused_with_a_clear_error(text):
    for kind in (YAML, JSON):
        try:
            document = parse_document(text, kind, "file")
        except InvalidFileError as error:
            found = error.problems
        else:
            found = document.lines([()])
        assert len(found) == 1
