"""Group cover: covered by a union is proven or refuted by an event, and nothing is ever lost."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_filters import GRID_BOXES
from rankcast.covering.group.active import ActiveSet
from rankcast.covering.group.cover import Checking, Reason, Strategy, Union
from rankcast.covering.group.probes import printed_share, sound_share
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, UnknownIdError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import attributes, filters

EXACT = Checking()
CLOSED = Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset({"x", "y"}))


def union(*texts, schema=None):
    made = Union(schema)
    for number, text in enumerate(texts):
        made.add(number, parse_filter(text))
    return made


def check(made, text, checking=EXACT):
    return made.check(parse_filter(text), checking, np.random.default_rng(1))


def test_two_halves_cover_the_whole_together():
    answer = check(union("x < 5", "x >= 5", "y = 1"), "x between 0 and 9")
    assert (answer.covered, answer.support) == (True, (0, 1))
    assert not check(union("x < 5", "x >= 5"), "x between 0 and 9", Checking(Strategy.PAIRWISE)).covered


def test_a_no_comes_with_an_event_that_only_the_tested_filter_accepts():
    made = union("x < 5", "x > 5")
    answer = check(made, "x between 0 and 9 and y = 2")
    assert (answer.covered, answer.witness) == (False, {"x": 5, "y": 2})


def test_over_integers_neighbours_leave_nothing_open():
    """s=[0,9], s1=[0,4], s2=[5,9]: covered over integers, not over reals."""
    texts = ("x between 0 and 4", "x between 5 and 9")
    integers = Schema({"x": ValueType.INT})
    assert check(union(*texts, schema=integers), "x between 0 and 9").covered
    assert check(union(*texts), "x between 0 and 9").witness["x"] not in range(10)


def test_an_attribute_that_may_be_missing_is_not_covered_by_its_halves():
    texts = ("x = 1 and y <= 5", "x = 1 and y > 5")
    assert check(union(*texts), "x = 1").witness == {"x": 1}
    assert check(union(*texts, schema=CLOSED), "x = 1").covered


def test_sets_exclusions_strings_and_disjunctions_take_part():
    assert check(union("x != 3", "x in (2, 3)"), "x between 0 and 9").covered
    assert check(union("s < 'm'", "s prefix 'm'", "s >= 'n'"), "exists s").witness is not None  # numbers exist, too
    assert check(union("s < 'm'", "s prefix 'm'", "s >= 'n'"), "s suffix 'z'").covered
    assert check(union("x < 5 or y = 1", "x >= 5"), "x > 0 and y > 0").covered
    assert not check(union("s contains 'a'", "not (s contains 'a')"), "s > ''").covered  # patterns prove nothing here


def test_a_work_budget_that_is_used_up_forwards():
    cells = [f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(6) for y in range(6)]
    made = union(*cells)
    assert check(made, "x between 0 and 6 and y between 0 and 6").covered
    tired = check(made, "x between 0 and 6 and y between 0 and 6", Checking(budget=5))
    assert (tired.covered, tired.reason) == (False, Reason.EXHAUSTED)


def test_the_printed_bound_of_the_probabilistic_answer_is_none():
    """s=[0,100], s1=[0,49.5], s2=[50.5,100]: a hundredth is open, and the printed estimate says more than a half."""
    start, end, rows = np.array([0]), np.array([1000]), np.arange(2)
    starts, ends = np.array([[0], [505]]), np.array([[495], [1000]])
    assert np.exp(printed_share(start, end, starts, ends, rows)) == pytest.approx(0.505)
    assert np.exp(sound_share(start, end, starts, ends, rows)) == pytest.approx(0.01)


CHESSBOARD = [f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(4) for y in range(4)]


def test_the_probabilistic_strategy_says_yes_by_failing_to_find_a_point():
    checking = Checking(Strategy.PROBABILISTIC, delta=1e-3)
    answer = check(union(*CHESSBOARD), "x between 0 and 4 and y between 0 and 4", checking)
    assert (answer.covered, answer.reason) == (True, Reason.POINTS)
    assert answer.points > 100
    with_a_hole = check(union(*CHESSBOARD[:5], *CHESSBOARD[6:]), "x between 0 and 4 and y between 0 and 4", checking)
    assert not with_a_hole.covered
    assert 1 < with_a_hole.witness["x"] < 2


@given(st.lists(filters(), max_size=6), filters(), st.lists(attributes(), max_size=10))
@settings(deadline=None)
def test_an_answer_holds_for_every_event(others, tested, events):
    made = Union()
    for number, one in enumerate(others):
        made.add(number, one)
    answer = made.check(tested, EXACT, np.random.default_rng(0))
    if answer.covered:
        supporters = [others[number] for number in answer.support]
        for event in events:
            assert not tested.accepts(event) or any(one.accepts(event) for one in supporters)
    elif answer.witness is not None and not any(c.has_patterns for one in (tested, *others) for c in one.conjunctions):
        assert tested.accepts(answer.witness)
        assert not any(one.accepts(answer.witness) for one in others)


GRID = GRID_BOXES | st.sampled_from(["x < 2", "x >= 2", "y != 1", "x in (0, 2) or y = 3", "true", "s suffix 'a'"])


@given(
    checking=st.sampled_from([EXACT, Checking(Strategy.PAIRWISE), Checking(budget=3, probes=0)]),
    texts=st.lists(GRID, min_size=1, max_size=12),
    schema=st.sampled_from([None, Schema({"x": ValueType.INT, "y": ValueType.INT, "s": ValueType.STRING})]),
    data=st.data(),
)
@settings(deadline=None)
def test_active_ones_accept_what_all_accept_after_any_sequence(checking, texts, schema, data):
    kept, upstream, known = ActiveSet(checking, schema), set(), {}
    for number, text in enumerate(texts):
        if known and data.draw(st.booleans(), label="remove one first"):
            gone = data.draw(st.sampled_from(sorted(known)))
            del known[gone]
            _apply(kept.remove(gone), upstream)
        known[number] = parse_filter(text)
        _apply(kept.add(number, known[number]), upstream)
        assert set(kept.active) == upstream
        assert upstream.isdisjoint(kept.passive)
        assert upstream.union(kept.passive) == set(known)
        for point in ({"x": x, "y": y, "s": "a"} for x in range(-1, 8) for y in range(-1, 8)):
            for event in (point, {name: value for name, value in point.items() if name != "y"}):
                accepted = any(one.accepts(event) for one in known.values())
                assert accepted == any(known[one].accepts(event) for one in upstream)
        for passive in kept.passive:
            assert set(kept.support(passive)) <= upstream


def _apply(change, upstream):
    assert upstream.isdisjoint(change.forward)
    assert upstream.issuperset(change.withdraw)
    upstream -= set(change.withdraw)
    upstream |= set(change.forward)


def test_removing_a_supporter_promotes_exactly_its_dependents():
    kept = ActiveSet()
    for number, text in enumerate(["x < 5", "x >= 5", "x between 3 and 7", "y < 5", "y between 1 and 2"]):
        kept.add(number, parse_filter(text))
    assert (kept.active, kept.passive) == ((0, 1, 3), (2, 4))
    assert kept.support(2) == (0, 1)
    assert kept.remove(0) == ((2,), (0,))
    assert (kept.active, kept.passive) == ((1, 2, 3), (4,))
    with pytest.raises(UnknownIdError):
        kept.support(2)


def test_what_ends_is_removed_at_its_end():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    kept = ActiveSet()
    kept.add(1, parse_filter("x < 9"), expires=start + timedelta(hours=1))
    kept.add(2, parse_filter("x < 5"), expires=start + timedelta(hours=1))
    kept.add(3, parse_filter("x < 4"))
    assert kept.expire(start) == ((), ())
    assert kept.expire(start + timedelta(hours=1)) == ((3,), (1,))
    assert len(kept) == 1


def test_an_imprecise_publication_is_a_box():
    """A reading of 3 to 6: does somebody want it whatever it is?"""
    kept = ActiveSet()
    kept.add(1, parse_filter("temperature < 4"))
    kept.add(2, parse_filter("temperature > 3.5"))
    assert kept.check(parse_filter("temperature between 3 and 6")).covered


def test_limits_are_checked():
    with pytest.raises(InvalidValueError, match="delta"):
        Checking(delta=0)
    with pytest.raises(InvalidValueError, match="budget"):
        Checking(budget=-1)


def test_a_strategy_is_one_of_them_and_not_a_text():
    """A text would be none of the sound ones, and so be answered by random points."""
    with pytest.raises(InvalidValueError, match="strategy: 'exact' is not a Strategy"):
        Checking("exact")
    with pytest.raises(InvalidValueError, match="expected numbers from 0 to"):
        Checking(budget=10**30)
