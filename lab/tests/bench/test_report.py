"""Reports: plain data of a fixed shape, requirements judged on the right side of their limits."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import UnknownIdError
from rankcast_lab.bench.memory import megabytes
from rankcast_lab.bench.plotting import spread
from rankcast_lab.bench.registry import BENCHES, bench_named
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Requirement, Row
from rankcast_lab.bench.timing import best_of, best_of_each, count_within, quantile, timed


def some_report():
    report = Report("test")
    report.rows += [Row("W1 10k", "index", 3.0, 0.5, 7.0, 26.0), Row("W1 10k", "limit", 2.0)]
    report.figures.append(Figure("W1 10k", "start", 0.7, "s"))
    report.require("W1 10k: index / limit", Bound.AT_MOST, 4, report.ratio("W1 10k", "index", "limit"))
    report.comparisons.append(Comparison("W1 10k", "index", "brute-force", 50, equal=True))
    return report


def test_a_report_is_strict_json_with_the_promised_fields():
    document = json.loads(json.dumps(some_report().to_json(), allow_nan=False))
    assert document["rows"][0] == {
        "case": "W1 10k",
        "engine": "index",
        "microseconds_per_event": 3.0,
        "build_seconds": 0.5,
        "megabytes": 7.0,
        "matches_per_event": 26.0,
    }
    assert document["rows"][1]["build_seconds"] is None
    assert document["requirements"] == [
        {"quantity": "W1 10k: index / limit", "required": "at most 4", "measured": 1.5, "holds": True}
    ]
    assert document["correct"] is True
    assert document["machine"].keys() == {"processor", "processors", "system", "python"}


def test_a_ratio_needs_both_engines():
    assert some_report().ratio("W1 10k", "index", "duckdb") is None
    assert some_report().ratio("W1 100k", "index", "limit") is None


def test_what_was_not_measured_is_not_judged():
    report = Report("test")
    report.require("W1 1M: index / limit", Bound.AT_MOST, 2.5, None)
    assert report.requirements == []


@pytest.mark.parametrize(
    ("bound", "below", "equal", "above"),
    [
        (Bound.AT_MOST, True, True, False),
        (Bound.BELOW, True, False, False),
        (Bound.AT_LEAST, False, True, True),
        (Bound.ABOVE, False, False, True),
    ],
)
def test_bounds(bound, below, equal, above):
    assert [Requirement.of("q", bound, 2, measured).holds for measured in (1, 2, 3)] == [below, equal, above]


def test_one_wrong_answer_makes_a_report_incorrect():
    report = some_report()
    report.comparisons.append(Comparison("W1 10k", "other", "brute-force", 50, equal=False, difference="event 3"))
    assert not report.is_correct
    assert report.to_json()["correct"] is False


def test_every_bench_of_the_registry_can_be_run():
    for name in BENCHES:
        assert callable(bench_named(name))


def test_an_unknown_bench_is_named():
    with pytest.raises(UnknownIdError, match="no bench 'speed'; expected one of matching, "):
        bench_named("speed")


class SteppingClock:
    """Advances by the next of some steps whenever it is read."""

    def __init__(self, steps):
        self.steps = iter(steps)
        self.now = 0.0

    def __call__(self):
        self.now += next(self.steps)
        return self.now


def test_a_time_is_the_difference_of_two_readings():
    assert timed(lambda: "result", SteppingClock([1, 2])) == (2, "result")


def test_the_least_of_several_times_counts():
    assert best_of(3, lambda: None, SteppingClock([0, 5, 0, 2, 0, 9])) == 2


def test_functions_that_are_compared_take_turns():
    calls = []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert best_of_each(2, functions, SteppingClock([0, 5, 0, 6, 0, 4, 0, 7])) == {"a": 4, "b": 6}
    assert calls == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_quantiles_are_values_that_occurred(share, expected):
    assert quantile(list(range(100, 0, -1)), share) == expected


def test_no_arrays_take_no_memory():
    assert megabytes([]) == 0


@given(st.lists(st.floats(-10, 10), max_size=8), st.floats(0.01, 5))
def test_labels_are_moved_apart_and_keep_their_order(values, gap):
    places = spread(values, gap)
    for (one, first), (other, second) in pairwise(sorted(zip(values, places, strict=True))):
        assert second - first >= gap * 0.999, (one, other)
    if all(abs(one - other) >= gap for one, other in pairwise(sorted(values))):
        assert places == pytest.approx(values)


def test_no_more_items_are_done_than_there_are():
    assert count_within(10.0, lambda count: None, 7) == 7
    assert count_within(0.0, lambda count: None, 7) == 1


@pytest.mark.parametrize(("load", "notes"), [(0.1, 0), (0.6, 1)])
def test_a_busy_machine_is_noted(load, notes, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    report = Report("test")
    report.warn_when_busy()
    assert len(report.notes) == notes
