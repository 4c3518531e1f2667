"""`rankcast study overlay-covering`: through sixty brokers the same subscriptions arrive as worked out all at once."""

import pytest

from quick_studies import quick_study
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import WIDTHS
from rankcast_lab.studies.overlay_covering import SEEDS, Arrival, Case, arrived, cases_of, findings
from rankcast_lab.studies.parallel import each


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return quick_study("overlay-covering", folder), folder


def test_in_every_case_the_very_same_subscriptions_arrive(quick):
    same = [row for quantity, row in quick[0].items() if quantity.endswith("same as all at once")]
    assert len(same) == 12
    assert all(row["holds"] and row["measured"] == "1 of 1" for row in same)


def test_a_quick_run_compares_no_size_with_what_is_published_or_required(quick):
    rows = {quantity: row for quantity, row in quick[0].items() if not quantity.endswith("same as all at once")}
    assert any("set-up, s (required: below 180)" in quantity for quantity in rows)
    assert all((row["published"], row["holds"]) == (None, None) for row in rows.values())


def test_a_page_and_a_picture_are_written(quick):
    assert (quick[1] / "overlay-covering.png").read_bytes().startswith(b"\x89PNG")
    assert "](overlay-covering.png)" in (quick[1] / "overlay-covering.md").read_text()


def test_more_seeds_of_larger_overlays_give_the_same_too():
    for seed in (3, 4):
        for case in (Case(1_500, Strategy.REGULAR_COVER), Case(1_500, Strategy.ANCESTOR_COVER_K, 15)):
            arrival = arrived((case, seed))
            assert arrival.same
            assert 2 < arrival.share < 25


def test_the_full_study_has_every_percentage_that_is_asked_for():
    names = {case.name for count in SEEDS for case in cases_of(count, with_widths=count == 10_000)}
    assert names == {
        *(f"{count:,}: {one}" for count in SEEDS for one in ("RegularCover", "RankCoverK k=10")),
        *(f"10,000: AncestorCoverK k={k:,}" for k in (10, 100, 500, 1000)),
        *(f"50,000: AncestorCoverK k={k:,}" for k in (10, 50, 500, 2500, 5000)),
        "10,000 of 10% to 60%: RegularCover",
        "10,000 of 30% to 40%: RegularCover",
        *(f"10,000 of {widths}: AncestorCoverK k=500" for widths in ("10% to 60%", "30% to 40%", "50% to 60%")),
    }


def test_shares_are_judged_at_full_size_by_what_is_published():
    def verdict(case, share, quantity):
        filled = {
            Case(case.subscriptions, Strategy.REGULAR_COVER): [Arrival(1.5, True, 1.0, 1)],
            Case(case.subscriptions, Strategy.ANCESTOR_COVER_K, case.subscriptions // 100): [Arrival(20, True, 1, 1)],
            case: [Arrival(share, True, 200.0, 1), Arrival(share, False, 1.0, 1)],
        }
        return next(row.holds for row in findings(filled) if row.quantity == f"{case.name}{quantity}")

    regular = Case(10_000, Strategy.REGULAR_COVER)
    assert verdict(regular, 1.6, ", %") is True
    assert verdict(regular, 1.7, ", %") is False
    assert verdict(regular, 1.6, ": same as all at once") is False
    assert verdict(regular, 1.6, ": set-up, s (required: below 180)") is False
    assert verdict(Case(50_000, Strategy.ANCESTOR_COVER_K, 10), 2.4, ", %") is True
    assert verdict(Case(50_000, Strategy.ANCESTOR_COVER_K, 10), 2.6, ", %") is False
    assert verdict(Case(50_000, Strategy.ANCESTOR_COVER_K, 5_000), 66.0, ", %") is True
    assert verdict(Case(50_000, Strategy.ANCESTOR_COVER_K, 5_000), 60.0, ", %") is False
    assert verdict(Case(10_000, Strategy.ANCESTOR_COVER_K, 500, (0.5, 0.6)), 70.0, ", %") is True
    assert verdict(Case(400, Strategy.ANCESTOR_COVER_K, 20, WIDTHS), 70.0, ", %") is None


def test_pieces_are_found_in_their_order_in_this_process_or_apart():
    said = []
    for apart in (False, True):
        assert each(abs, [-3, 2, -1], said.append, apart=apart) == [3, 2, 1]
    assert said == ["1 of 3 parts", "2 of 3 parts", "3 of 3 parts"] * 2
