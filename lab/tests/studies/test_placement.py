"""The studies of placement: rows, pictures, and verdicts that can be no."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.placement.algorithms import Algorithm
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.problem.audit import verify
from rankcast.samples.placement import Workload
from rankcast_lab.bench.placement_runs import NAMES, SearchBudget, measured
from rankcast_lab.studies import placement_multi_level, placement_one_level, placement_scale
from rankcast_lab.studies.placement_multi_level import Draw, Latency, draw_findings
from rankcast_lab.studies.placement_one_level import misleading_problem, tiny_findings


def study(name, folder):
    result = CliRunner().invoke(app, ["study", name, "--quick", "--json", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return {row["quantity"]: row for row in json.loads(result.stdout)["rows"]}


@pytest.mark.parametrize("side", [1e-1, 1e-3, 1e-5])
def test_a_constructed_problem_misleads_greedy_placement(side):
    problem = misleading_problem(side)
    rows = [[0, 0, 1 + side, side], [0, -1, 1 + side, 1 + side]]
    assert verify(problem, greedy_offline(problem)).bandwidth > 0.4
    assert sum(np.prod(np.array(row[2:]) + row[:2]) for row in rows) < 2.5 * side  # a flat box around each row


def test_nothing_is_better_than_the_least_possible_and_local_search_finds_it_often():
    rows = {row.quantity: row.measured for row in tiny_findings(12, 3)}
    means = {name: rows[f"12 tiny problems: {name} / least possible, mean"] for name in ("Gr*", "SLP", "local search")}
    assert all(mean >= 1 - 1e-9 for mean in means.values())
    assert means["local search"] <= means["Gr*"]
    assert means["local search"] < 1.05


def test_one_level(tmp_path, monkeypatch):
    monkeypatch.setattr(placement_one_level, "QUICK_SUBSCRIBERS", 300)
    monkeypatch.setattr(placement_one_level, "QUICK_WORKLOADS", (Workload.FEEDS,))
    monkeypatch.setattr(placement_one_level, "TRAP_SIDES", (1e-4,))
    rows = study("placement-one-level", tmp_path)
    assert rows["2: SLP keeps every limit"]["measured"] == "yes"
    assert rows["2: local search / Gr*"]["measured"] < 1
    assert rows["2: Gr* / LP"]["published"] == "below 1"
    assert rows["2: Gr* / LP"]["holds"] is None  # a quick run is not compared
    assert rows["constructed, squares of 0.0001: Gr* / SLP"]["holds"]
    assert rows["10 tiny problems: Gr* / least possible, worst"]["measured"] >= 1
    assert {f"2: {name}, bandwidth" for name in NAMES.values()} <= set(rows)


def test_statements_about_one_level_can_fail():
    problem = placement_one_level.placement_problem(Workload.TOPICS_HL, 200, 100, np.random.default_rng(1))
    runs = {one: measured(problem, one, 1, SearchBudget(10)) for one in Algorithm}
    slp = runs[Algorithm.PROGRAMME]
    worse = {**runs, Algorithm.PROGRAMME: replace(slp, audit=replace(slp.audit, bandwidths=3 * slp.audit.bandwidths))}
    for found, holds in ((runs, True), (worse, False)):
        rows = placement_one_level.findings({Workload.TOPICS_HL: problem}, {Workload.TOPICS_HL: found}, compared=True)
        assert {row.quantity: row.holds for row in rows}["1-HL: SLP1 / Gr*"] is holds


def test_several_levels(tmp_path, monkeypatch):
    monkeypatch.setattr(placement_multi_level, "QUICK_SUBSCRIBERS", 300)
    monkeypatch.setattr(placement_multi_level, "QUICK_DRAWS", 2)
    rows = study("placement-multi-level", tmp_path)
    for latency in Latency:
        assert rows[f"{latency.value}, 1-HL: SLP keeps every limit"]["measured"] == "yes"
        assert rows[f"{latency.value}, 1-HL: local search / Gr*"]["measured"] < 1
    assert rows["tight draws: a flow to the leaves finds room"]["measured"] == "2 of 2"
    assert rows["tight draws: SLP keeps every limit"]["holds"]
    assert rows["tight draws: local search keeps every limit"]["holds"]


def test_a_draw_that_could_be_placed_and_was_not_counts_against_whoever_promised():
    everybody = dict.fromkeys(placement_multi_level.ALGORITHMS, True)
    draws = [Draw(True, everybody), Draw(True, {**everybody, Algorithm.PROGRAMME: False}), Draw(False, everybody)]
    rows = {row.quantity: row for row in draw_findings(draws)}
    assert rows["tight draws: SLP keeps every limit"].measured == "1 of 2"
    assert rows["tight draws: SLP keeps every limit"].holds is False
    assert rows["tight draws: local search keeps every limit"].holds is True
    assert rows["tight draws: Gr* keeps every limit"].holds is None


def test_scale(tmp_path, monkeypatch):
    monkeypatch.setattr(placement_scale, "QUICK_SIZES", (200, 400))
    rows = study("placement-scale", tmp_path)
    assert rows["tree, 200 brokers, 400: SLP keeps every limit"]["measured"] == "yes"
    assert rows["one level, 100 brokers, 200: Gr*, seconds"]["measured"] > 0
    assert rows["largest memory of the process, GB"]["measured"] > 0
    assert all(row["published"] is None for row in rows.values())  # published of a million
