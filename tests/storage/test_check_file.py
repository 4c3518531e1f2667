"""Checking a file of either kind."""

import os

import pytest

from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.storage.check_file import check_file, is_subscriber_file


@pytest.mark.parametrize(
    ("name", "text", "subscribers"),
    [
        ("x.yaml", "version: 1", True),
        ("x.yml", "a: 1", True),
        ("x.json", '{"version": 1, "subscribers": []}', True),
        ("x.json", '{"$schema": "x", "version": 1, "schema": {"a": "b"}, "subscribers": [{"id": 1}]}', True),
        ("x.json", '{"version": 1, "subscribers": [{"id":', True),
        ("x.json", '{"subscribers": [NaN]}', True),
        ("x.json", '{"version": 1, "name": "x"}', False),
        ("x.json", '{"id": "1"}\n{"subscribers": 2}', False),
        ("x.json", '[{"version": 1}]', False),
        ("x.json", "", False),
        ("x.json", "7", False),
        ("x.json", '7 {"version": 1}', False),
        ("x.json", "]", False),
        ("x.json", "}", False),
        ("x.json", " " * 70_000, False),
        ("x.jsonl", '{"version": 1, "subscribers": []}', False),
        ("x.csv", "version", False),
    ],
)
def test_which_kind_a_file_is(tmp_path, name, text, subscribers):
    (tmp_path / name).write_text(text)
    assert is_subscriber_file(tmp_path / name) is subscribers


def check(path, content, schema=None):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [str(problem).removeprefix(f"{path.parent}/") for problem in check_file(path, schema).problems]


def test_problems_of_subscribers(tmp_path):
    assert check(tmp_path / "x.yaml", "version: 1\nsubscribers: []") == []
    text = "version: 1\nsubscribers:\n- id: a\n  subscriptions: 7\n- id: b\n  subscriptions: [{filter: x<1 and x>1}]"
    assert check(tmp_path / "x.yaml", text) == [
        "x.yaml:4: subscriber 'a', subscriptions: 7 is not a list of subscriptions",
        "x.yaml:6: warning: subscriber 'b', subscription '1': no event can match this filter",
    ]


def test_problems_of_events(tmp_path):
    assert check(tmp_path / "x.jsonl", '{"a": 1}\n') == []
    assert check(tmp_path / "x.csv", "n:int\n1\nx\n1,2\n") == [
        "x.csv:3: n: 'x' is not a whole number",
        "x.csv:4: 2 cells; expected 1, as in the header; the line is '1,2'",
    ]


def test_events_are_checked_against_a_schema(tmp_path):
    schema = Schema({"n": ValueType.INT}, frozenset({"n"}))
    assert check(tmp_path / "x.jsonl", '{"n": 1}\n{}', schema) == ["x.jsonl:2: required attribute missing: n"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.yaml", "version: 2\nsubscribers: []", "x.yaml:1: version: 2 is not 1"),
        ("x.json", "{", "x.json:1: not JSON"),
        ("x.json", "]", "x.json:1: not JSON"),
        ("x.json", b"\xff{", "x.json:1: not UTF-8"),
        ("x.csv", "a,a", "x.csv:1: header: the column 'a' occurs twice"),
        ("x.parquet", "x", "x.parquet: not a Parquet file"),
        ("x.txt", "x", "x.txt: the suffix '.txt' is unknown; expected one of .csv, .json"),
    ],
)
def test_an_unusable_file_is_a_problem_not_an_error(tmp_path, name, content, message):
    (problem,) = check(tmp_path / name, content)
    assert problem.startswith(message)


@pytest.mark.parametrize("name", ["x.yaml", "x.json", "x.jsonl", "x.csv", "x.parquet"])
def test_a_missing_file_is_a_problem_and_a_pipe_is_refused_rather_than_waited_for(tmp_path, name):
    (problem,) = check_file(tmp_path / name).problems
    assert problem.message == "cannot be read: No such file or directory"
    os.mkfifo(tmp_path / name)
    (problem,) = check_file(tmp_path / name).problems
    assert problem.message == "cannot be read: it is not a plain file but a pipe or a device"


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".jsonl", ".parquet"])
def test_a_name_that_no_file_can_have_is_a_problem(suffix):
    (problem,) = check_file("a\0b" + suffix).problems
    assert "cannot be read: embedded null" in problem.message


def test_constraints_that_events_hold_unknown_because_they_have_lists_are_warnings(tmp_path):
    wanted = "skills = 'Go' or skills has 3 or skills has 'Go'"
    text = f'version: 1\nsubscribers: [{{id: ana, subscriptions: [{{filter: "{wanted}"}}]}}]'
    (tmp_path / "s.yaml").write_text(text)
    (tmp_path / "e.jsonl").write_text('{"id": "1", "skills": ["Go"]}\n{"id": "2", "skills": ["C"]}')
    loaded = check_file(tmp_path / "s.yaml")
    found = check_file(tmp_path / "e.jsonl", subscribers=loaded.subscribers).problems
    assert all(problem.warning for problem in found)
    told = "of subscriber 'ana' is unknown for a list, and never holds: skills is ['Go'], a list"
    assert [problem.message.partition(told)[::2] for problem in found] == [
        ("event '1': skills = 'Go' ", ", which is asked for its elements by has, has any, has all and has none"),
        ("event '1': skills has 3 ", " of strings, not comparable with a number"),
    ]
