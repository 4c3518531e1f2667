"""The matching benches on small work: rows are well formed, answers agree, and a wrong engine is found out."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rankcast.matching import naive
from rankcast.model.errors import RankcastError, UnknownIdError
from rankcast.model.filters import Filter
from rankcast_lab.bench import (
    matching,
    matching_churn,
    matching_cold,
    matching_engines,
    matching_latency,
    matching_lists,
    matching_memory,
    matching_peers,
    matching_threads,
)
from rankcast_lab.bench.comparing import Matches
from rankcast_lab.bench.matching_churn import Change, Lives
from rankcast_lab.bench.matching_engines import brute_force, index_engines, limits, match_brute_force
from rankcast_lab.bench.matching_kernels import and_rows, and_rows_in_blocks, in_groups
from rankcast_lab.bench.matching_work import MISSING, Work, workload_named
from rankcast_lab.bench.registry import Settings

SMALL = Settings(subscriptions=(300,), events=20)


@pytest.fixture(autouse=True)
def short_turns(monkeypatch):
    monkeypatch.setattr(matching, "TURN_SECONDS", 0.001)
    monkeypatch.setattr(matching, "SLOW_TURN_SECONDS", 0.01)
    monkeypatch.setattr(matching_peers, "TRIED_SECONDS", 0.01)
    monkeypatch.setattr(matching, "REPEATS", 2)
    monkeypatch.setattr(matching, "SLOW_REPEATS", 1)


def check_rows(report, engines):
    assert {row.engine for row in report.rows} == set(engines)
    for row in report.rows:
        assert math.isfinite(row.microseconds_per_event)
        assert row.microseconds_per_event > 0
        for quantity in (row.build_seconds, row.megabytes, row.matches_per_event):
            assert quantity is None or (math.isfinite(quantity) and quantity >= 0)


@pytest.mark.parametrize("workload", ["W1", "W2", "W3"])
def test_all_engines_agree_on_every_workload(workload):
    report = matching.run(replace(SMALL, workloads=(workload,)))
    engines = ("index", "index-encoded", "limit", "bandwidth", "brute-force", "duckdb", "polars")
    check_rows(report, engines)
    assert {one.engine for one in report.comparisons} == {"index", "index-encoded", "duckdb", "polars"}
    assert all(one.equal and one.events > 0 for one in report.comparisons)
    assert [note.partition(":")[0] for note in report.notes] == [f"{workload} 300, duckdb", f"{workload} 300, polars"]
    matches = {row.engine: row.matches_per_event for row in report.rows}
    assert matches["limit"] is None
    assert matches["index"] == matches["brute-force"]


def test_lists_are_matched_as_the_oracle_says(monkeypatch):
    monkeypatch.setattr(matching_lists, "ELEMENTS", 20)
    monkeypatch.setattr(matching_lists, "WIDEST", 900_000)
    report = matching.run(replace(SMALL, workloads=(matching_lists.NAME,)))
    check_rows(report, ("index", "index-encoded", "brute-force"))
    assert all(one.equal for one in report.comparisons)
    work = matching_lists.ListWork.of(300, 20, seed=2)
    wanted, found = work.filters(), matching_lists.match_lists_brute_force(work, 20)
    assert len(found.numbers) > 20
    for at, event in enumerate(work.batch().to_pylist()):
        seen = {**event, "tags": tuple(event["tags"])}
        expected = [i for i, one in enumerate(wanted) if naive.evaluate(one.expression, seen) is True]
        assert sorted(found.of(at).tolist()) == expected


def test_peers_can_be_left_out():
    report = matching.run(replace(SMALL, peers=False))
    check_rows(report, ("index", "index-encoded", "limit", "bandwidth", "brute-force"))


def test_several_cases_in_one_run():
    report = matching.run(replace(SMALL, workloads=("W1", "W2"), subscriptions=(64, 65), peers=False))
    assert list(dict.fromkeys(row.case for row in report.rows)) == ["W1 64", "W1 65", "W2 64", "W2 65"]
    assert report.is_correct


def losing_one(engine):
    """The engine with a mistake: it overlooks the first match it finds."""

    def match(count):
        found = engine.match(count)
        first = int(np.flatnonzero(np.diff(found.offsets))[0])
        offsets = found.offsets.copy()
        offsets[first + 1 :] -= 1
        return Matches(offsets, np.delete(found.numbers, found.offsets[first]))

    return replace(engine, name="wrong", match=match)


def test_a_wrong_engine_is_detected(monkeypatch):
    monkeypatch.setattr(matching, "index_engines", lambda work: [losing_one(one) for one in index_engines(work)[:1]])
    report = matching.run(replace(SMALL, peers=False))
    (comparison,) = report.comparisons
    assert comparison.engine == "wrong"
    assert not comparison.equal
    assert "missed 1" in comparison.difference
    assert not report.is_correct


def test_brute_force_is_the_oracle():
    """The kernel that everything is compared with agrees with the evaluator of the language."""
    for workload in ("W1", "W2", "W3"):
        work = Work.of(workload, 200, 20, seed=3)
        found = match_brute_force(work, 20)
        expressions = [matching_churn._expression(work.source, number) for number in range(200)]
        for event, attributes in enumerate(work.source.event_mappings()):
            expected = [at for at, wanted in enumerate(expressions) if naive.evaluate(wanted, attributes)]
            assert found.of(event).tolist() == expected
            assert [at for at, wanted in enumerate(expressions) if Filter.of(wanted).accepts(attributes)] == expected


def test_brute_force_finds_room_for_many_matches():
    work = Work.of("W1", 10, 50, seed=1)
    everything = replace(work, low=np.zeros_like(work.low), high=np.full_like(work.high, 2**31 - 1))
    found = brute_force(everything).match(50)
    assert np.diff(found.offsets).tolist() == [10] * 50


@pytest.mark.parametrize("streams", [3, 10])
@pytest.mark.parametrize("words", [1, 511, 512, 513, 1200])
def test_the_limit_kernels_and_the_rows_of_the_last_event(streams, words):
    generator = np.random.default_rng(5)
    rows = generator.integers(0, 2**64 - 1, (40, words), np.uint64) | generator.integers(
        0, 2**63, (40, words), np.uint64
    )
    picked = generator.integers(0, 40, (3, 7))
    result = np.zeros(words, np.uint64)
    (and_rows if streams == 10 else and_rows_in_blocks)(rows, in_groups(picked, streams), result)
    np.testing.assert_array_equal(result, np.bitwise_and.reduce(rows[picked[-1]], axis=0))


def test_the_limit_reads_as_many_rows_as_an_event_has_attributes():
    generator = np.random.default_rng(1)
    for workload, attributes in (("W1", 20), ("W2", 10)):
        work = Work.of(workload, 100, 30, seed=2)
        picked = matching_engines._picked(work, generator)
        assert picked.shape == (30, attributes)
        present = work.events != MISSING
        for event in range(30):
            assert (picked[event] // matching_engines.BUCKETS).tolist() == np.flatnonzero(present[event]).tolist()
    assert [engine.name for engine in limits(work, generator)] == ["limit", "bandwidth"]


@pytest.mark.parametrize("make", [matching_peers.duckdb_engine, matching_peers.polars_engine])
@pytest.mark.parametrize("form", ["wide", "long"])
def test_both_formulations_of_a_peer_are_right(make, form, monkeypatch):
    work = Work.of("W2", 5_000, 60, seed=4)
    monkeypatch.setattr(
        matching_peers, "best_of", lambda repeats, match: 1e-9 if match.func.__name__ == f"by_{form}" else 1e9
    )
    engine = make(work)
    assert f"the {form} formulation" in engine.note
    truth, found = match_brute_force(work, 60), engine.match(60)
    assert len(truth.numbers) > 0
    assert [found.of(event).tolist() for event in range(60)] == [truth.of(event).tolist() for event in range(60)]


def test_an_unknown_workload_is_named():
    with pytest.raises(UnknownIdError, match="no workload 'W9'; expected one of W1, W2, W3"):
        workload_named("W9")


@pytest.mark.parametrize("case", [case for case, _ in matching.MOST_TIMES_THE_LIMIT.items()])
def test_requirements_are_judged_for_both_forms_of_the_index(case):
    report = matching.Report("matching")
    for engine, cost in (("index", 30.0), ("index-encoded", 20.0), ("limit", 10.0), ("brute-force", 900.0)):
        report.rows.append(matching.Row(case, engine, cost, 1.0, 100.0, 1.0))
    matching._judge(case, report)
    judged = {one.quantity: one.measured for one in report.requirements}
    assert judged[f"{case}: index / limit"] == 3.0
    assert judged[f"{case}: index-encoded / limit"] == 2.0


def test_latency_of_single_events():
    report = matching_latency.run(replace(SMALL, workloads=("W1", "W2")))
    check_rows(report, ("batch-encoded", "one-dict"))
    assert len(report.comparisons) == 4
    assert report.is_correct
    assert len(report.requirements) == 2


def test_two_threads_give_the_answers_of_one(monkeypatch):
    monkeypatch.setattr(matching_threads, "BLOCK", 7)
    report = matching_threads.run(SMALL)
    check_rows(report, ("one-thread", "2-threads"))
    assert [(one.reference, one.events) for one in report.comparisons] == [
        ("brute-force", 20),
        ("brute-force", 20),
        ("one-thread", 20),
    ]
    assert report.is_correct


def test_a_cold_start_gives_the_right_answer(monkeypatch):
    monkeypatch.setattr(matching_cold, "REPEATS", 1)
    report = matching_cold.run(SMALL)
    assert report.is_correct
    assert [one.engine for one in report.comparisons] == ["cold-verify", "cold-trust"]
    assert {one.quantity.partition(": ")[0] for one in report.figures} >= {"save", "verify", "trust"}
    assert all(one.value > 0 for one in report.figures)


def test_readers_are_right_while_subscriptions_come_and_go(monkeypatch):
    monkeypatch.setattr(matching_churn, "QUIET_READS", 20)
    monkeypatch.setattr(matching_churn, "NOTED", 1)
    monkeypatch.setattr(matching_churn, "STEADY_SECONDS", 0.1)
    report = matching_churn.run(Settings(subscriptions=(300,), events=600, workloads=("W1", "W2")))
    assert len(report.comparisons) == 4
    assert all(one.equal for one in report.comparisons), report.comparisons
    assert len(report.requirements) == 6


def test_changes_are_half_additions_and_remove_only_what_is_there():
    work = Work.of("W1", 60, 1, seed=1)
    changes = matching_churn._changes(work.source, 20, 80, np.random.default_rng(2))
    present = set(range(20))
    for change in changes:
        if change.added is None:
            present.remove(change.number)
        else:
            assert change.number not in present
            present.add(change.number)
    assert sum(change.added is not None for change in changes) == 40


def test_what_a_reader_must_and_may_see_around_a_change():
    entry = object()
    lives = Lives.of(1, 2, [Change(1, entry), Change(0, None)], [0, 2, 3])
    numbers = np.array([0, 1])
    seen = [(lives.sure(numbers, at).tolist(), lives.possible(numbers, at).tolist()) for at in range(4)]
    assert seen == [
        ([True, False], [True, False]),  # 0: before everything
        ([True, False], [True, True]),  # 1: subscription 1 came at 1 or 2
        ([True, True], [True, True]),  # 2: it is there, and subscription 0 still is
        ([False, True], [False, True]),  # 3: subscription 0 went at 3
    ]


def test_a_reader_that_is_wrong_is_found_out(monkeypatch):
    monkeypatch.setattr(matching_churn, "QUIET_READS", 5)
    monkeypatch.setattr(matching_churn, "STEADY_SECONDS", 0.01)
    monkeypatch.setattr(matching_churn.Index, "remove", lambda index, number: None)
    monkeypatch.setattr(matching_churn, "NOTED", 1)
    churn = matching_churn._Churn("W3", 200, Settings(events=200), matching_churn.Report("test"))
    index = churn._index()
    times = list(range(len(churn.changes) + 1))
    matching_churn._apply(index, churn.changes)
    reads = churn._read(index, lambda done: done < 100)
    reads.noted = [(event, len(churn.changes), found) for event, _, found in reads.noted]
    comparison = churn._checked("test", reads, churn.changes, times)
    assert not comparison.equal
    assert "added" in comparison.difference


def test_resident_memory_is_that_of_a_new_process_and_is_judged(monkeypatch):
    resident = matching_memory.resident_megabytes("W2", 2_000, seed=3)
    assert resident is not None
    assert 0 < resident < 500
    monkeypatch.setattr(matching, "resident_megabytes", lambda *_: 901.0)
    report = matching.Report("matching")
    matching._judge_memory("W1", 1_000_000, SMALL, report)
    assert [(one.quantity, one.holds) for one in report.requirements] == [("W1 1M: megabytes resident", False)]


def test_a_process_that_fails_to_build_an_index_is_reported():
    with pytest.raises(RankcastError, match=r"the new process failed.*W9"):
        matching_memory.resident_megabytes("W9", 10, seed=1)
