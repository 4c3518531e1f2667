"""`rankcast study diversity`: the search for the best, the table, the examples, and what is said about costs."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast_lab.studies import diversity
from rankcast_lab.studies.diversity import largest_sum


@given(st.lists(st.integers(0, 50), max_size=9), st.integers(0, 6))
def test_the_search_finds_the_largest_sum_over_pairs(numbers, k):
    distances = np.abs(np.subtract.outer(numbers, numbers)).reshape(len(numbers), len(numbers))
    choices = combinations(range(len(numbers)), min(k, len(numbers)))
    expected = max(sum(distances[pair] for pair in combinations(chosen, 2)) for chosen in choices)
    assert largest_sum(distances, k) == expected


def test_the_examples_hold_as_published():
    found = diversity.example_findings()
    assert [finding.holds for finding in found] == [True] * 7 + [None]


def test_sliding_delivery_has_delivered_e2_before_the_first_window_is_full():
    assert diversity.slid() == [[1], [2], [3], [4]]


def test_a_line_of_the_table_is_judged_as_a_mean_of_100_sets():
    right = diversity.Cell(20, 4, (193.0, 331.0, 349.0), (60.0, 25.0, 20.0), 0.95)
    wrong = diversity.Cell(20, 4, (193.0, 331.0 + 8, 349.0), (60.0, 25.0, 20.0), 0.95)
    assert [finding.holds for finding in diversity.table_findings([right])] == [True, True, True, None, True, True]
    assert [finding.holds for finding in diversity.table_findings([wrong])][:3] == [True, False, True]


def test_means_are_not_sums():
    cell = diversity.Cell(20, 4, (193.2, 330.6, 349.2), (60.0, 25.0, 20.0), 0.95)
    assert diversity.table_findings([cell])[3].measured == "32.2 / 55.1 / 58.2"


@pytest.mark.parametrize(("growth", "holds"), [(1.0, True), (2.0, False)])
def test_time_is_called_linear_only_where_it_is(growth, holds):
    heuristic = {(buffer, k): (buffer * k) ** growth for buffer in diversity.BUFFERS for k in diversity.KS}
    found = diversity.cost_findings(diversity.Costs(heuristic, {4: 1.0, 6: 50.0}), compared=False)
    assert [finding.holds for finding in found] == [None, holds, holds, True, None]


def test_the_study_writes_rows_a_page_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["study", "diversity", "--quick", "--json", "--out", str(tmp_path)])
    rows = {row["quantity"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["q=40, k=8: heuristic, sum over pairs"]["measured"] == pytest.approx(1427, rel=0.05)
    assert rows["Figure 4.1: selected"]["measured"] == "e1 e2 e5 e6"
    assert (tmp_path / "diversity.png").read_bytes().startswith(b"\x89PNG")
    assert "](diversity.png)" in (tmp_path / "diversity.md").read_text()
