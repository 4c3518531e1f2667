"""The newest subscriptions are matched exactly before they are in a segment, and when they become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costly import costly
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate
from rankcast.matching.segments import delta as deltas
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.testing.strategies import attributes, filters

EDGES = (-(2**63), -(2**53) - 1, -(2**53), -1, 0, 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1)
CONSTANTS = st.sampled_from((*EDGES, -0.0, 0.5, 2.0**53, 2.0**63, -(2.0**63), 1e300))
VALUES = CONSTANTS | st.sampled_from((float("inf"), -float("inf"), float("nan")))


@st.composite
def intervals(draw):
    """A conjunction of intervals, open, closed or without end, or two of them as alternatives."""
    made = []
    for _ in range(draw(st.integers(1, 2))):
        parts = []
        for name in draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)):
            low, high = draw(CONSTANTS), draw(CONSTANTS)
            kind = draw(st.integers(0, 4))
            one = attr(name)
            parts.append(
                (one > low, one >= low, one < high, one <= high, one.between(min(low, high), max(low, high)))[kind]
            )
        whole = parts[0]
        for part in parts[1:]:
            whole &= part
        made.append(whole)
    return Filter.of(made[0] if len(made) == 1 else made[0] | made[1])


WORDS = ("", "a", "ab", "abc", "b", "ba", "é", "aé", "\0", "a\0")


@st.composite
def sets_of_strings(draw):
    """What a filter may ask of one string: ranges, points and patterns, wanted or not, alone or together."""
    one, word = attr(draw(st.sampled_from("st"))), draw(st.sampled_from(WORDS))
    other = draw(st.sampled_from(WORDS))
    made = draw(
        st.sampled_from(
            (
                one == word,
                one != word,
                one > word,
                one <= word,
                one.is_in(word, other),
                one.prefix(word),
                one.suffix(word),
                one.contains(word),
                one.suffix(word) & ~one.contains(other),
                one.contains(word) | (one == other) | (attr("s") > 5),
                one.exists(),
                ~one.exists(),
                one.between(min(word, other), max(word, other)) & ~one.suffix(other),
            )
        )
    )
    return Filter.of(~made if draw(st.booleans()) else made)


WAYS = {
    "intervals": (intervals(), st.dictionaries(st.sampled_from("xyzw"), VALUES, max_size=4)),
    "strings": (
        sets_of_strings(),
        st.dictionaries(st.sampled_from("st"), st.sampled_from((*WORDS, 7, True, "abab")), max_size=2),
    ),
    "anything": (filters(max_leaves=4), attributes()),
}


@pytest.mark.parametrize("way", WAYS)
@costly
@given(data=st.data(), removed=st.sets(st.integers(0, 7)))
def test_what_is_in_the_delta_is_exact(way, data, removed):
    wanted, published = WAYS[way]
    index = Index(few=0, delta=100)
    model = dict(enumerate(data.draw(st.lists(wanted, min_size=1, max_size=8))))
    for number, one in model.items():
        index.add(Entry.of(number, one))
    for number in removed & model.keys():
        index.remove(number)
        del model[number]
    assert index.snapshot.parts == ()
    assert way == "anything" or index.snapshot.others == 0
    reader = index.reader()
    for found in data.draw(st.lists(published, min_size=1, max_size=4)):
        expected = sorted(number for number, one in model.items() if evaluate(one.expression, found) is True)
        assert sorted(reader.match_one(found).tolist()) == expected


def test_an_entry_that_does_not_fit_is_not_cut_short():
    """More alternatives than the delta has rows, and more predicates than it has room for."""
    alternatives = attr("x") == 0
    for value in range(1, 6):
        alternatives |= (attr("x") == value) & (attr("y") == value)
    many = attr("a0") > 0
    for at in range(1, 200):
        many &= attr(f"a{at}") > 0
    index = Index(few=0, delta=3)
    index.add(Entry.of(1, Filter.of(alternatives)))
    index.add(Entry.of(2, Filter.of(many)))
    reader = index.reader()
    assert reader.match_one({"x": 5, "y": 5}).tolist() == [1]
    event = {f"a{at}": 1 for at in range(200)}
    assert reader.match_one(event).tolist() == [2]
    assert reader.match_one(event | {"a7": 0}).tolist() == []


def test_only_general_patterns_are_evaluated_in_python_and_few_of_them(monkeypatch):
    monkeypatch.setattr(deltas, "OTHERS", 3)
    index = Index(few=0, delta=100)
    for number in range(7):
        index.add(Entry.of(number, Filter.of(attr("s") == str(number))))
    assert (index.snapshot.others, index.snapshot.rows) == (0, 7)
    for number in range(7, 14):
        index.add(Entry.of(number, Filter.of(attr("s").like(f"{number % 7}%_"))))
    assert index.snapshot.others == 1
    assert [len(part.segment) for part in index.snapshot.parts] == [10, 3]
    reader = index.reader()
    assert reader.match_one({"s": "4"}).tolist() == [4]
    assert [reader.match_one({"s": f"{number} "}).tolist() for number in range(7)] == [[n] for n in range(7, 14)]


def test_a_reader_notices_attributes_that_came_after_it():
    index = Index(few=0, delta=1000)
    reader = index.reader()
    for number in range(300):
        index.add(Entry.of(number, Filter.of(attr(f"a{number}") > 0)))
        assert reader.match_one({f"a{number}": 1}).tolist() == [number]


def test_an_older_snapshot_does_not_know_newer_attributes():
    index = Index(few=0, delta=1000)
    index.add(Entry.of(0, Filter.of(attr("a0") > 0)))
    older, reader = index.snapshot, index.reader()
    for number in range(1, 300):
        index.add(Entry.of(number, Filter.of(attr(f"a{number}") > 0)))
    event = {f"a{number}": 1 for number in range(300)}
    assert reader.match_one(event, older).tolist() == [0]
    assert len(reader.match_one(event)) == 300


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, -(2**53) - 1])
def test_large_integers_are_told_apart_everywhere(value):
    index = Index([Entry.of(0, Filter.of(attr("x") == value)), Entry.of(1, Filter.of(attr("x") == value - 1))])
    index.add(Entry.of(2, Filter.of(attr("x") == value)))
    index.add(Entry.of(3, Filter.of(attr("x") == value - 1)))
    assert sorted(index.reader().match_one({"x": value}).tolist()) == [0, 2]
