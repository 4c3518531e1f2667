"""The study of group cover on small work: what is compared, with what, and that wrong answers would show."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.covering.group.cover import Checking, GroupStrategy
from rankcast_lab.studies import covering_group
from rankcast_lab.studies.covering_group import Growth, grown
from rankcast_lab.studies.findings import Settings

QUICK = Settings(quick=True)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(covering_group, "ROWS", (10, 100))
    monkeypatch.setattr(covering_group, "GAPS", (0.005, 0.02))
    monkeypatch.setattr(covering_group, "QUICK_SUBSCRIPTIONS", 40)


def test_it_runs_and_writes_a_page_with_two_pictures(tmp_path):
    result = CliRunner().invoke(app, ["study", "covering-group", "--quick", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert all(row.keys() == {"quantity", "published", "measured", "holds"} for row in document["rows"])
    page = (tmp_path / "covering-group.md").read_text()
    for picture in ("covering-group.png", "covering-group-growth.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
        assert f"]({picture})" in page
    quantities = {row["quantity"]: row for row in document["rows"]}
    assert quantities["2.c: wrong answers of the exact search"]["measured"] == 0
    assert quantities["1.b: covers that the exact search did not find"]["measured"] == 0
    assert quantities["comparison, wide, m=10: group, active %"]["holds"] is None  # too small to compare


def test_the_same_seed_gives_the_same_data():
    first, second = (covering_group.redundant_covers(QUICK, np.random.default_rng(seed)) for seed in (3, 3))
    assert first == second


def test_d_shrinks_with_the_minimised_set_and_the_sound_estimate_asks_for_more():
    for one in covering_group.redundant_covers(QUICK, np.random.default_rng(1)):
        assert one.after < one.before
        assert one.after <= one.sound_after


def test_points_tried_grow_as_the_gap_shrinks():
    narrow, wide = covering_group.extreme_non_covers(QUICK, np.random.default_rng(1))
    assert min(narrow.guesses) > max(wide.guesses)
    assert narrow.exact_wrong == wide.exact_wrong == 0


def test_the_chain_is_judged_by_its_simulation():
    chain = covering_group.simulated_chain(QUICK, np.random.default_rng(2))
    assert covering_group._chain_finding(chain).holds
    wrong = type(chain)(chain.expected, chain.expected + 0.2, chain.runs)
    assert not covering_group._chain_finding(wrong).holds


def test_growth_is_the_number_of_active_ones_after_so_many():
    drawn = covering_group.comparison(np.random.default_rng(1), 60, 10, covering_group.RANGES["wide"])
    filters, schema = drawn.filters(), drawn.schema(closed=True)
    whole, exhausted = grown(filters, (20, 60), Checking(), schema)
    first, _ = grown(filters[:20], (20,), Checking(), schema)
    pairwise, _ = grown(filters, (20, 60), Checking(GroupStrategy.PAIRWISE), schema)
    assert whole[0] == first[0]
    assert whole[1] <= pairwise[1]
    assert exhausted == 0


def test_published_shares_are_judged_at_full_size_only():
    active = {"pairwise": (800.0,), "group": (400.0,), "group, open": (450.0,)}
    growth = Growth("narrow", 10, (5_000,), active, dict.fromkeys(active, 0.0), exhausted=0)
    full = covering_group._comparison_findings([growth], compared=True)
    quick = covering_group._comparison_findings([growth], compared=False)
    assert [one.holds for one in full[:3]] == [True, True, None]
    assert [one.holds for one in quick[:3]] == [None, None, None]


@pytest.mark.parametrize(
    ("count", "expected", "may_be"),
    [(0, 1e-7, True), (1, 0.003, True), (2, 0.003, False), (9, 3, True), (11, 3, False)],
)
def test_rare_events_may_happen_about_as_often_as_expected(count, expected, may_be):
    assert covering_group._may_be(count, expected) is may_be
