"""Advertisements in files: what is read, what is written, what makes a file unusable, and which events are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, Advertisements, AudienceRanking, Scoring, Ties
from rankcast.model.errors import DuplicateIdError, InvalidFileError
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.model.values import ValueType
from rankcast.storage.check_file import check_file, is_subscriber_file
from rankcast.storage.documents import DocumentFormat
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import (
    admitted,
    load_advertisements,
    load_subscribers,
    loads_subscribers,
    save_subscribers,
)
from rankcast.testing.strategies import advertisements

FILE = """\
version: 1
advertisements:
- id: flats
  source: /flats
  space: rent > 0
  schema: {attributes: {rent: int}, required: [rent]}
  k: 10
  ranking: preference
- {id: films, source: /films, k: 3, ranking: {scoring: relevance, ties: by id, seed: 7}}
- {id: all, source: /all}
"""
FLATS = Advertisement(
    "flats",
    "/flats",
    parse_filter("rent > 0"),
    Schema({"rent": ValueType.INT}, frozenset({"rent"})),
    10,
    AudienceRanking(Scoring.PREFERENCE),
)
FILMS = Advertisement("films", "/films", k=3, ranking=AudienceRanking(Scoring.RELEVANCE, Ties.BY_ID, 7))


def test_a_file_may_have_advertisements_alone():
    found = loads_subscribers(FILE)
    assert (found.subscribers, found.problems) == ((), ())
    assert found.advertisements == (FLATS, FILMS, Advertisement("all", "/all"))


@given(made=st.lists(advertisements(), max_size=3, unique_by=lambda one: one.id), kind=st.sampled_from(DocumentFormat))
def test_what_is_saved_loads_back_equal(tmp_path_factory, made, kind):
    path = tmp_path_factory.mktemp("saved") / "file"
    save_subscribers(path, [Subscriber("ana")], None, made, format=kind)
    assert load_subscribers(path, format=kind).advertisements == tuple(made)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{id: a}", "advertisements[0]: missing: 'source'"),
        ("{id: a, source: /a, k: 0}", "advertisements[0].k: 0 is not a whole number of at least 1"),
        ("{id: a, source: /a, k: 2.0}", "advertisements[0].k: 2.0 is not a whole number of at least 1"),
        ("{id: a, source: /a, ranking: best}", "'best' is not none, preference, relevance or diversity, or a mapping"),
        ("{id: a, source: /a, rank: none}", "unknown key 'rank'; did you mean 'ranking'?"),
        ("{id: a, source: /a, space: rent <}", "advertisement 'a': column 7: the text ends too early"),
        ("{id: a, source: /a}, {id: a, source: /b}", "advertisement 'a': there are two advertisements 'a'"),
        ("{id: a, source: /a, schema: {required: ['']}}", "advertisement 'a': "),
    ],
)
def test_what_is_wrong_in_an_advertisement_makes_the_file_unusable(entry, problem):
    with pytest.raises(InvalidFileError) as caught:
        loads_subscribers(f"version: 1\nsubscribers: []\nadvertisements: [{entry}]")
    assert problem in str(caught.value)
    assert all(found.line == 3 for found in caught.value.problems)


def test_a_file_without_both_is_none():
    with pytest.raises(InvalidFileError, match="missing: 'subscribers'"):
        loads_subscribers("version: 1")


def test_a_space_in_which_no_event_can_lie_is_a_warning():
    text = "version: 1\nadvertisements:\n- {id: a, source: /a, space: x > 1 and x < 0}"
    (problem,) = loads_subscribers(text).problems
    assert problem.warning
    assert str(problem) == "<text>:3: warning: advertisement 'a': no event can lie in this space"


def test_a_file_of_its_own_is_added_to_what_the_subscriber_file_has(tmp_path):
    path, known = tmp_path / "own.yaml", loads_subscribers("version: 1\nadvertisements: [{id: a, source: /a}]")
    path.write_text(FILE)
    assert [one.id for one in load_advertisements(path, known).all] == ["a", "flats", "films", "all"]
    assert load_advertisements(None, known).all == known.advertisements
    with pytest.raises(DuplicateIdError):
        load_advertisements(path, loads_subscribers(FILE))


def test_of_events_those_are_problems_that_their_source_does_not_advertise(tmp_path):
    path, own = tmp_path / "events.jsonl", tmp_path / "own.json"
    given = [("1", "/flats", 5), ("2", "/flats", -5), ("3", "/other", -5)]
    path.write_text("".join(json.dumps({"id": i, "source": s, "rent": rent}) + "\n" for i, s, rent in given))
    found = list(admitted(read_events(path), Advertisements([FLATS]), str(path)))
    assert [found[0].id, found[2].id] == ["1", "3"]
    assert str(found[1]) == f"{path}: event ('/flats', '2') is not what 'flats' advertises"
    save_subscribers(own, [], None, [FLATS])
    assert is_subscriber_file(own)
    assert check_file(path, None, check_file(own).advertisements).problems == [found[1]]
