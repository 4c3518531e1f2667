"""`rankcast study overlay-latency`: links are simulated, work is measured, statements are judged at full size."""

import pytest

from quick_studies import quick_study
from rankcast.overlay.routing.strategies import Strategy
from rankcast_lab.studies.overlay_latency import FULL, STRATEGIES, Case, Latency, findings, k_of, measured


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return quick_study("overlay-latency", folder), folder


def test_every_strategy_is_measured_and_nothing_is_judged(quick):
    for strategy in STRATEGIES:
        for case in ("60, k=1", "60, k=2", "100, k=1"):
            assert quick[0][f"{case}: {strategy.value}: mean, ms"]["measured"] > 0
    assert {row["holds"] for row in quick[0].values()} == {None}


def test_a_page_and_a_picture_are_written(quick):
    assert (quick[1] / "overlay-latency.png").read_bytes().startswith(b"\x89PNG")
    assert "](overlay-latency.png)" in (quick[1] / "overlay-latency.md").read_text()


def test_latency_is_the_links_on_the_way_and_the_work_of_brokers():
    """All subscribers are two to seven links away, and counting goes the way twice more."""
    plain, counted = (measured(Case(one, 60, 2), 1, 5) for one in (Strategy.REGULAR_K, Strategy.EXACT_FAIR))
    for found in (plain, counted):
        assert 2 <= found.links <= 7
        assert found.half <= found.most
        assert found.busy > 0
    assert plain.beyond > 0
    assert counted.beyond > 4


def test_the_papers_statements_are_judged_by_the_means():
    def row(fair, part):
        means = {Strategy.REGULAR_K: 10.0, Strategy.ANCESTOR_COVER_K: 7.5, Strategy.ANCESTOR_FAIR_K: fair}
        found = {
            Case(one, count, k): Latency(means.get(one, 30.0), 1.0, 1.0, 1.0, 1.0)
            for one in STRATEGIES
            for count, ks in FULL.ks.items()
            for k in (*ks, k_of(count))
        }
        return next(one for one in findings(found, FULL) if part in one.quantity)

    assert row(9.0, "250: AncestorCoverK faster than RegularK at k=1").holds is True
    assert row(9.0, "250: AncestorCoverK faster than RegularK, mean").measured == pytest.approx(25)
    assert row(9.0, "250: AncestorCoverK faster than RegularK at k=5").holds is False  # no less than at first
    assert row(9.0, "500: AncestorFairK faster").holds is True
    assert row(11.0, "500: AncestorFairK faster").holds is False
