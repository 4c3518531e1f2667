"""`rankcast study fairness`: expectations by their definition, schemes in their order, costs beside them."""

import numpy as np
import pytest

from quick_studies import quick_study
from rankcast.overlay.simulation.ranges import Ranges
from rankcast_lab.studies.fairness import (
    AFTER,
    FULL,
    Fairness,
    Piece,
    Scheme,
    audience_of,
    expected,
    findings,
    measured,
    staleness,
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return quick_study("fairness", folder), folder


def test_every_scheme_is_measured_with_its_costs(quick):
    for scheme in Scheme:
        assert quick[0][f"k=1: {scheme.value}: unfairness"]["measured"] > 0
    assert quick[0]["k=2: RegularK: told to the publisher's broker"]["measured"] == 250
    assert quick[0]["k=2: RegularK: of these, counts"]["measured"] == 0
    assert quick[0]["k=2: ExactFair: of these, counts"]["measured"] > 20
    told = {
        name: quick[0][f"k=2: {name}: told to the publisher's broker"]["measured"]
        for name in ("ExactFair", "AncestorFairK", "AncestorCoverK")
    }
    assert told["ExactFair"] < told["AncestorFairK"] == told["AncestorCoverK"]


def test_the_tables_of_exact_fairness_are_those_of_plain_covering(quick):
    row = quick[0]["ExactFair's tables are RegularCover's, at every broker"]
    assert (row["measured"], row["holds"]) == ("6 of 6", True)


def test_a_quick_run_judges_no_size(quick):
    assert {row["holds"] for name, row in quick[0].items() if "tables are" not in name} == {None}


def test_one_is_one_and_nothing_is_zero(quick):
    ages = [name for name in quick[0] if "half replaced" in name]
    assert any(" 1 heartbeat ago" in name for name in ages)
    assert not any(" 1 heartbeats" in name for name in ages)
    wrong = [row["measured"] for name, row in quick[0].items() if name.endswith("weights wrong by")]
    assert not any(0 < value < 1e-9 for value in wrong)
    assert "means over 1 seed, the others over 1." in (quick[1] / "fairness.md").read_text()


def test_a_page_and_two_pictures_are_written(quick):
    page = (quick[1] / "fairness.md").read_text()
    for part in ("", "-staleness"):
        assert (quick[1] / f"fairness{part}.png").read_bytes().startswith(b"\x89PNG")
        assert f"](fairness{part}.png)" in page


def test_the_expectation_shares_each_publication_among_its_matches():
    made = Ranges(np.array([[0.0], [0.2], [0.9]]), np.array([[0.5], [0.6], [1.0]]))
    values = np.array([0.1, 0.3, 0.55, 0.7])
    assert expected(made, values, 1).tolist() == [1.5, 1.5, 0.0]
    assert expected(made, values, 2).tolist() == [2.0, 2.0, 0.0]


def test_ten_subscribers_are_at_each_edge_and_distances_are_core_brokers():
    audience, _ = audience_of(1)
    assert len(audience.homes) == 250
    assert {audience.homes.count(edge) for edge in audience.topology.edges} == {10}
    assert np.bincount(audience.distances()).tolist() == [0, 50, 50, 50, 50, 50]


def test_random_ranks_are_less_fair_than_split_weights_and_those_hardly_less_than_counts():
    """So few publications are noisy: over sixty other seeds the logarithms of the two ratios have means of 0.40 and
    0.05 and standard deviations of 0.075 and 0.071. Both limits are 4.75 of these away, which a new seed would pass
    with a probability of 1e-6, were they normal."""
    found = {one: measured(Piece(one, 3, 5, 250)).unfairness for one in (Scheme.RANDOM, Scheme.SPLIT, Scheme.EXACT)}
    assert found[Scheme.RANDOM] > 1.04 * found[Scheme.SPLIT]
    assert found[Scheme.SPLIT] < 1.48 * found[Scheme.EXACT]


def test_weights_are_right_again_some_heartbeats_after_a_change_and_only_then():
    """Fresh split weights add up to all subscriptions."""
    refreshed, not_refreshed = (staleness(Piece(one, 3, 7, 5)) for one in (Scheme.SPLIT, Scheme.UNREFRESHED))
    assert len(refreshed) == len(AFTER)
    assert refreshed[0].weight != pytest.approx(250)
    assert refreshed[-1].weight == pytest.approx(250)
    assert not_refreshed[-1].weight == not_refreshed[0].weight != pytest.approx(250)


def test_what_is_required_is_judged_by_the_means():
    def runs(exact, random):
        unfair = {Scheme.EXACT: exact, Scheme.RANDOM: random}
        messages = dict.fromkeys(("Publish", "CountQuery", "CountReply"), 1.0)
        return {
            (scheme, k): [Fairness(unfair.get(scheme, 100.0), (1.0, 1.0, 0.5, 1.0, 1.0), messages, 1, 1)]
            for scheme in Scheme
            for k in FULL.ks
        }

    def verdicts(exact, random, part):
        return [row.holds for row in findings(runs(exact, random), FULL) if part in row.quantity]

    assert verdicts(102.9, 180.0, "ExactFair / RegularK") == [True] * 5
    assert verdicts(103.1, 180.0, "ExactFair / RegularK") == [False] * 5
    assert verdicts(100.0, 180.0, "AncestorCoverK / AncestorFairK, at least") == [None, True, True, True, True]
    assert verdicts(100.0, 179.0, "AncestorCoverK / AncestorFairK, at least") == [None] + [False] * 4
    assert verdicts(100.0, 180.0, "fairest distance") == [True, True]
