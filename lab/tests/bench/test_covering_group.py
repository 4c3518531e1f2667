"""The bench of group cover on small work: everything is measured and compared, and a wrong answer is found out."""

import numpy as np
import pytest

from rankcast.covering.group.cover import ActiveSet
from rankcast_lab.bench import covering_grids, covering_group
from rankcast_lab.bench.covering_grids import GridCase, random_case, wrong_answer, wrong_answer_for_filters
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Report


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(covering_group, "REPEATS", 1)
    monkeypatch.setattr(covering_group, "PARTITIONS", 2)
    monkeypatch.setattr(covering_group, "SAMPLED_EVENTS", 200)


def measured(subscriptions=60, events=40):
    report = Report("covering")
    covering_group.measure(Settings(subscriptions=(subscriptions,), events=events), report)
    return report


@pytest.mark.parametrize("reals", [False, True])
def test_the_search_is_never_wrong_on_random_grids(reals):
    generator = np.random.default_rng(7)
    cases = [random_case(generator, reals=reals) for _ in range(3_000)]
    assert [wrong for case in cases if (wrong := wrong_answer(case, generator))] == []
    assert [wrong for case in cases[:100] if (wrong := wrong_answer_for_filters(case, generator))] == []
    assert 0.1 < sum(case.is_covered() for case in cases) / len(cases) < 0.9


def test_brute_force_looks_at_what_lies_between_numbers_over_reals_only():
    lows, highs, closed = np.array([[0], [0], [3]]), np.array([[4], [2], [4]]), np.zeros((3, 1), np.bool_)
    assert GridCase(lows, highs, closed, closed, reals=False).is_covered()
    assert not GridCase(lows, highs, closed, closed, reals=True).is_covered()


def test_brute_force_knows_open_sides():
    lows, highs = np.array([[0], [0], [2]]), np.array([[4], [2], [4]])
    closed = np.zeros((3, 1), np.bool_)
    around_two = np.array([[False], [True], [False]]), np.array([[False], [False], [True]])
    assert GridCase(lows, highs, closed, closed, reals=True).is_covered()
    assert GridCase(lows, highs, closed, around_two[0], reals=True).is_covered()
    assert not GridCase(lows, highs, around_two[1], around_two[0], reals=True).is_covered()


def test_everything_is_measured_and_compared():
    report = measured()
    cases = {f"{name} ranges, m={m}, 60" for name in ("narrow", "wide") for m in (10, 15, 20)}
    assert {(row.case, row.engine) for row in report.rows} == {
        (case, engine) for case in cases for engine in ("pairwise", "group")
    }
    assert {one.case for one in report.comparisons} == {*cases, "grids of integers", "grids of reals"}
    assert report.is_correct
    assert all(one.holds for one in report.requirements if "partition" in one.quantity)


def test_what_is_promised_is_judged_at_its_own_size(monkeypatch):
    promised = ("seconds by group", "group / pairwise, time", "group / pairwise, active", "budgets used up")
    assert not any(one.quantity.endswith(promised) for one in measured().requirements)
    monkeypatch.setattr(covering_group, "SUBSCRIPTIONS", 60)
    assert sum(one.quantity.endswith(promised) for one in measured().requirements) == 4 * 6


def test_a_wrong_search_and_a_lost_event_are_found_out(monkeypatch):
    honest = covering_grids.exact_cover

    def careless(table, budget, probes, generator):
        found = honest(table, budget, probes, generator)
        return type(found)(not found.covered, found.reason, point=None)

    monkeypatch.setattr(covering_grids, "exact_cover", careless)
    monkeypatch.setattr(ActiveSet, "active", property(lambda self: tuple(range(3))))
    report = measured()
    assert not report.is_correct
    wrong = {(one.case, one.engine) for one in report.comparisons if not one.equal}
    assert ("grids of reals", "search") in wrong
    assert ("narrow ranges, m=10, 60", "group") in wrong
