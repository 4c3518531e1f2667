"""Group cover: covered by a union is proven or refuted by an event, and active ones accept what all accept."""

from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_filters import GRID_BOXES
from rankcast.covering.group.conflicts import CoverReason
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy, Union
from rankcast.language.parser import parse_filter
from rankcast.matching.naive import evaluate
from rankcast.model.errors import InvalidValueError, UnknownIdError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import attributes, filters

TYPES = {"x": ValueType.INT, "y": ValueType.FLOAT, "s": ValueType.STRING, "b": ValueType.BOOL}
OPEN, CLOSED = Schema(TYPES), Schema(TYPES, required=frozenset(TYPES))
SCHEMAS = st.sampled_from([None, OPEN, CLOSED])
START = datetime(2026, 1, 1, tzinfo=UTC)

CHECKINGS = st.sampled_from(
    [
        Checking(),
        Checking(probes=0),
        Checking(budget=2, probes=3),
        Checking(GroupStrategy.PAIRWISE),
        Checking(GroupStrategy.PROBABILISTIC, delta=1e-9),
    ]
)
"""Every strategy; the probabilistic one so careful that it is right on boxes as small as these."""

NUMBERS = st.integers(0, 4)
CONSTRAINTS = st.one_of(
    st.builds("x between {} and {}".format, NUMBERS, st.integers(2, 5)),
    st.builds("x {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), NUMBERS),
    st.builds("y {} {}.5".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), NUMBERS),
    st.builds("x in ({}, {})".format, NUMBERS, NUMBERS),
    st.sampled_from(
        ["s < 'm'", "s >= 'm'", "s prefix 'm'", "s != 'ma'", "s in ('a', 'mz')", "s suffix 'a'", "s contains 'm'"]
    ),
    st.sampled_from(["b = true", "b != true", "exists b", "not exists b", "not (x > 2)", "exists s", "true", "false"]),
)
CONJUNCTIONS = st.lists(CONSTRAINTS, min_size=1, max_size=3).map(" and ".join)
TEXTS = st.lists(CONJUNCTIONS, min_size=1, max_size=2).map(" or ".join)

VALUES = {"x": (-1, 0, 1, 2, 3, 4, 5), "y": (0.5, 1.0, 2.5, 9.0), "s": ("", "a", "m", "ma", "mz"), "b": (False, True)}
WHOLE = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
GAPPED = [
    {name: value for at, (name, value) in enumerate(event.items()) if missing >> at & 1}
    for event in WHOLE[::17]
    for missing in range(15)
]


def events_of(schema):
    return WHOLE if schema is CLOSED else WHOLE[::3] + GAPPED


def accepted(filters, events):
    filters = list(filters)
    return [any(one.accepts(event) for one in filters) for event in events]


class Mirror:
    """An active set beside a plain list of everything, and what a neighbour was told."""

    def __init__(self, checking, schema):
        self.kept = ActiveSet(checking, schema)
        self.known, self.ends, self.upstream = {}, {}, set()
        self.events = events_of(schema)

    def apply(self, change):
        assert self.upstream.isdisjoint(change.forward)
        assert self.upstream.issuperset(change.withdraw)
        self.upstream = self.upstream - set(change.withdraw) | set(change.forward)

    def add(self, number, wanted, end):
        self.known[number] = wanted
        if end is not None:
            self.ends[number] = end
        self.apply(self.kept.add(number, wanted, end))

    def remove(self, number):
        del self.known[number]
        self.ends.pop(number, None)
        dependents = {one for one in self.kept.passive if number in self.kept.support(one)}
        others = set(self.kept.passive) - dependents - {number}
        change = self.kept.remove(number)
        assert set(change.forward) <= dependents
        assert others <= set(self.kept.passive)
        self.apply(change)

    def expire(self, now):
        for number in [one for one, end in self.ends.items() if end <= now]:
            del self.known[number], self.ends[number]
        self.apply(self.kept.expire(now))

    def check(self):
        active, passive = set(self.kept.active), set(self.kept.passive)
        assert active == self.upstream
        assert active.isdisjoint(passive)
        assert active | passive == set(self.known)
        everything = accepted(self.known.values(), self.events)
        assert accepted([self.known[number] for number in active], self.events) == everything
        for number in passive:
            support = self.kept.support(number)
            assert set(support) <= active
            theirs = accepted([self.known[one] for one in support], self.events)
            own = accepted([self.known[number]], self.events)
            assert all(many or not one for one, many in zip(own, theirs, strict=True))


@given(CHECKINGS, SCHEMAS, st.lists(TEXTS, min_size=1, max_size=10), st.data())
@settings(max_examples=50)
def test_active_ones_accept_what_all_accept_whatever_happens(checking, schema, texts, data):
    mirror = Mirror(checking, schema)
    for number, text in enumerate(texts):
        end = data.draw(st.none() | st.integers(1, 10), label="ends after so many steps")
        mirror.add(number, parse_filter(text), None if end is None else START + timedelta(hours=number + end))
        mirror.check()
        if data.draw(st.booleans(), label="remove one") and mirror.known:
            mirror.remove(data.draw(st.sampled_from(sorted(mirror.known))))
            mirror.check()
        mirror.expire(START + timedelta(hours=number))
        mirror.check()
    for number in sorted(mirror.known):
        mirror.remove(number)
    assert mirror.upstream == set()
    assert len(mirror.kept) == 0


@given(SCHEMAS, st.lists(TEXTS, max_size=8), TEXTS)
@settings(max_examples=120)
def test_a_no_has_a_witness_and_the_oracle_agrees(schema, texts, tested):
    """Of expressions as written, not of normal forms: the event is one that only the tested filter accepts."""
    union = Union(schema)
    for number, text in enumerate(texts):
        union.add(number, parse_filter(text))
    answer = union.check(parse_filter(tested), Checking(), np.random.default_rng(1))
    if answer.covered:
        own, others = (
            accepted(map(parse_filter, some), events_of(schema))
            for some in ([tested], [texts[number] for number in answer.support])
        )
        assert all(many or not one for one, many in zip(own, others, strict=True))
    elif answer.reason is CoverReason.UNPROVEN:
        assert answer.witness is None
        assert any(word in text for text in (tested, *texts) for word in ("suffix", "contains"))
    else:
        assert evaluate(parse_filter(tested).expression, answer.witness) is True
        assert not any(evaluate(parse_filter(text).expression, answer.witness) for text in texts)
        if schema is not None:
            schema.conformed(answer.witness)


@given(st.lists(GRID_BOXES | st.sampled_from(["x < 2", "y >= 2", "x != 1 and y != 2"]), max_size=8), GRID_BOXES)
def test_an_imprecise_publication_is_wanted_by_somebody_whatever_it_turns_out_to_be(texts, publication):
    kept = ActiveSet(schema=Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset("xy")))
    for number, text in enumerate(texts):
        kept.add(number, parse_filter(text))
    may_be = [
        {"x": x, "y": y} for x in range(8) for y in range(8) if parse_filter(publication).accepts({"x": x, "y": y})
    ]
    answer = kept.check(parse_filter(publication))
    assert answer.covered == all(accepted(map(parse_filter, texts), may_be))
    if not answer.covered:
        assert answer.witness in may_be


def test_what_no_event_can_match_is_passive_and_needs_nobody():
    for checking in (Checking(), Checking(GroupStrategy.PAIRWISE)):
        kept = ActiveSet(checking)
        assert kept.add(1, parse_filter("x < 1 and x > 2")) == ((), ())
        assert (kept.active, kept.passive, kept.support(1)) == ((), (1,), ())
        assert kept.remove(1) == ((), ())


def test_what_required_attributes_are_missing_from_a_witness_gets_some_value():
    union = Union(CLOSED)
    union.add(1, parse_filter("x < 5"))
    answer = union.check(parse_filter("x > 3"), Checking(), np.random.default_rng(1))
    assert answer.witness == {"x": 5, "b": False, "s": "", "y": 0.0}


def test_a_no_for_want_of_a_proof_says_so():
    answer = check("s > 'a' and s < 'b'", "s contains 'a'", "not (s contains 'a')")
    assert (answer.covered, answer.reason, answer.witness) == (False, CoverReason.UNPROVEN, None)


@pytest.mark.parametrize("schema", [None, OPEN, CLOSED])
def test_the_same_seed_gives_the_same_sets(schema):
    texts = [f"x between {at % 7} and {at % 7 + at % 3} and y < {at % 5}.5" for at in range(40)]
    first, second = (ActiveSet(Checking(GroupStrategy.PROBABILISTIC), schema, seed=3) for _ in "12")
    for number, text in enumerate(texts):
        assert first.add(number, parse_filter(text)) == second.add(number, parse_filter(text))


def check(text, *others, checking=None):
    union = Union()
    for number, other in enumerate(others):
        union.add(number, parse_filter(other))
    return union.check(parse_filter(text), checking or Checking(), np.random.default_rng(1))


@pytest.mark.parametrize(
    ("text", "others", "is_covered"),
    [
        ("x between 0 and 9", ["x != 3", "x in (2, 3)"], True),
        ("exists s", ["s < 'm'", "s prefix 'm'", "s >= 'n'"], False),  # numbers exist, too
        ("s suffix 'z'", ["s < 'm'", "s prefix 'm'", "s >= 'n'"], True),
        ("x > 0 and y > 0", ["x < 5 or y = 1", "x >= 5"], True),
        ("s > ''", ["s contains 'a'", "not (s contains 'a')"], False),  # patterns prove nothing here
    ],
)
def test_sets_exclusions_strings_and_disjunctions_take_part(text, others, is_covered):
    assert check(text, *others).covered is is_covered


@given(st.lists(filters(), max_size=6), filters(), st.lists(attributes(), max_size=10))
@settings(deadline=None)
def test_an_answer_holds_for_every_event(others, tested, events):
    made = Union()
    for number, one in enumerate(others):
        made.add(number, one)
    answer = made.check(tested, Checking(), np.random.default_rng(0))
    if answer.covered:
        supporters = [others[number] for number in answer.support]
        for event in events:
            assert not tested.accepts(event) or any(one.accepts(event) for one in supporters)
    elif answer.witness is not None and not any(c.has_patterns for one in (tested, *others) for c in one.conjunctions):
        assert tested.accepts(answer.witness)
        assert not any(one.accepts(answer.witness) for one in others)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delta": 0}, "delta"),
        ({"budget": -1}, "budget"),
        ({"budget": 10**30}, "expected numbers from 0 to"),
        ({"strategy": "exact"}, "strategy: 'exact' is not a Strategy"),  # would be answered by random points
    ],
)
def test_a_way_of_checking_that_makes_no_sense_is_refused(options, reason):
    with pytest.raises(InvalidValueError, match=reason):
        Checking(**options)


def test_what_is_active_has_no_support():
    kept = ActiveSet()
    kept.add(1, parse_filter("x < 5"))
    with pytest.raises(UnknownIdError):
        kept.support(1)
