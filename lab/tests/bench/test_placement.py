"""The placement bench on small work: every algorithm is measured and audited, and a wrong plan is found out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.model.errors import UnknownIdError
from rankcast.placement.algorithms import Algorithm
from rankcast.samples.placement import Workload, placement_problem
from rankcast_lab.bench import placement, placement_runs
from rankcast_lab.bench.placement_runs import SearchBudget, measured
from rankcast_lab.bench.registry import Settings

SMALL = Settings(workloads=("3",), subscriptions=(400,))


def test_every_algorithm_is_measured_and_audited():
    report = placement.run(SMALL)
    assert {(row.case, row.engine) for row in report.rows} == {("3 400", one.value) for one in Algorithm}
    assert report.is_correct, report.comparisons
    assert [one.reference for one in report.comparisons] == ["audit"] * len(Algorithm)
    found = {(one.case, one.quantity): one.value for one in report.figures}
    assert found["3 400 Gr*", "bandwidth / Gr*"] == 1
    assert 0 < found["3 400 local search", "bandwidth / Gr*"] < 1
    assert found["3 400 SLP", "LP bound from the dual"] <= found["3 400 SLP", "LP objective"] * 1.05
    assert found["3 400 SLP", "bandwidth / LP"] * found["3 400 SLP", "LP objective"] == pytest.approx(
        found["3 400 SLP", "bandwidth"]
    )
    assert report.requirements == []  # promised of 100,000 subscribers


def test_a_plan_that_breaks_a_promise_is_wrong_and_the_exit_code_says_so(monkeypatch):
    honest = placement_runs.searched

    def forgetful(*given):
        found = honest(*given)
        return replace(found, filters=tuple(boxes[:0] for boxes in found.filters))

    monkeypatch.setattr(placement_runs, "searched", forgetful)
    result = CliRunner().invoke(app, ["bench", "placement", "--quick", "-w", "2", "-n", "300", "--json"])
    assert result.exit_code == 1
    wrong = [one for one in json.loads(result.stdout)["comparisons"] if not one["equal"]]
    assert [one["engine"] for one in wrong] == ["local-search"]
    assert "does not contain interest" in wrong[0]["difference"]


def test_promises_are_judged_at_full_size_only(monkeypatch):
    monkeypatch.setattr(placement, "SUBSCRIBERS", 400)
    monkeypatch.setattr(placement, "SECONDS", 0.2)
    report = placement.run(SMALL)
    names = ["3: local search / Gr*", "3: SLP1 / Gr*", "3: Gr*, seconds", "3: SLP1, seconds"]
    assert [one.quantity for one in report.requirements] == names


def test_an_unknown_workload_is_refused():
    with pytest.raises(UnknownIdError, match="no workload '4' of placement; expected one of 1-LL"):
        placement.run(Settings(workloads=("4",)))


@pytest.fixture(scope="module")
def published():
    """A small problem of every workload."""
    return {one: placement_problem(one, 120, 40, np.random.default_rng(8)) for one in Workload}


@pytest.mark.parametrize("workload", list(Workload))
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_audit_finds_no_broken_promise_on_any_workload(algorithm, workload, published):
    problem = published[workload]
    one, two = (measured(problem, algorithm, 4, SearchBudget(200)) for _ in range(2))
    assert one.is_sound(problem), one.audit.violations
    assert one.audit.loads.sum() == len(problem)
    assert (one.placement.brokers == two.placement.brokers).all()  # a seed gives one placement
    assert all((a == b).all() for a, b in zip(one.placement.filters, two.placement.filters, strict=True))
