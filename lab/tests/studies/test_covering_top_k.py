"""`rankcast study covering-top-k`: shares as reproduced before, depths by their definitions, hop by hop as at once."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.overlay.simulation.ranges import Ranges
from rankcast_lab.studies.covering_top_k import Depth, Sample, depths, hop_by_hop, over_seeds, sampled

REPRODUCED = {
    "10,000: RegularCover, %": 1.50,
    "10,000 of 10% to 60%: RegularCover, %": 1.22,
    "10,000 of 30% to 40%: RegularCover, %": 3.18,
    "10,000: AncestorCoverK k=10, %": 5.74,
    "10,000: AncestorCoverK k=0.1%, %": 5.74,
    "10,000: AncestorCoverK k=10.0%, %": 67.0,
    "10,000: covering retained at k=1%, %": 81.1,
    "10,000 of 10% to 60%: AncestorCoverK k=5.0%, %": 40.8,
    "10,000 of 30% to 40%: AncestorCoverK k=5.0%, %": 82.0,
    "10,000 of 50% to 60%: AncestorCoverK k=5.0%, %": 70.0,
    "10,000: RankCoverK k=10 by longest chain, %": 14.4,
}
"""By independent code, of other seeds."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    result = CliRunner().invoke(app, ["study", "covering-top-k", "--quick", "--json", "--out", str(folder)])
    assert result.exit_code == 0
    return {row["quantity"]: row for row in json.loads(result.stdout)["rows"]}, folder


@pytest.mark.parametrize(("quantity", "expected"), REPRODUCED.items())
def test_shares_are_those_reproduced_by_independent_code(quick, quantity, expected):
    assert quick[0][quantity]["measured"] == pytest.approx(expected, abs=max(0.15, 0.02 * expected))


def test_figure_5_every_published_number_holds_but_those_of_rank_cover(quick):
    failed = {name for name, row in quick[0].items() if row["holds"] is False}
    assert failed == {
        *(f"10,000: RankCoverK k=10 by {by.value}, %" for by in Depth),
        *(f"10,000: RankCoverK by {by.value}: all from k" for by in Depth),
        "10,000: RankCoverK k=10 by one arbitrary parent: hop by hop as at once",
    }


def test_a_page_and_three_pictures_are_written(quick):
    page = (quick[1] / "covering-top-k.md").read_text()
    for part in ("", "-hops", "-example"):
        assert (quick[1] / f"covering-top-k{part}.png").read_bytes().startswith(b"\x89PNG")
        assert f"](covering-top-k{part}.png)" in page


RANGES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 5)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1])),
    min_size=1,
    max_size=20,
)


def parents_of(pairs):
    """Who is directly above whom, by the definition."""
    numbers = range(len(pairs))

    def is_above(one, two):
        (low, high), (inner_low, inner_high) = pairs[one], pairs[two]
        return low <= inner_low and high >= inner_high and (pairs[one] != pairs[two] or one < two)

    above = {two: [one for one in numbers if one != two and is_above(one, two)] for two in numbers}
    return {
        two: [one for one in above[two] if not any(is_above(one, third) for third in above[two] if third != one)]
        for two in numbers
    }


@given(RANGES, st.sampled_from(Depth), st.integers(0, 5))
def test_depths_follow_their_parents(pairs, by, seed):
    table = np.array(pairs, float)
    found = depths(Ranges(table[:, :1], table[:, 1:]), by, np.random.default_rng(seed)).tolist()
    for number, parents in parents_of(pairs).items():
        above = [found[parent] for parent in parents]
        if by is Depth.LONGEST:
            assert found[number] == max(above, default=0) + 1
        elif by is Depth.SHORTEST:
            assert found[number] == min(above, default=0) + 1
        else:
            assert found[number] - 1 in (above or [0])


def test_an_arbitrary_parent_may_be_any_of_them():
    """Below a chain of two and below one that nothing covers: 3 or 2 by chance, 3 by the longest chain."""
    made = Ranges(np.array([[0.0], [1.0], [-5.0], [2.0]]), np.array([[10.0], [9.0], [8.0], [7.0]]))
    drawn = {by: {int(depths(made, by, np.random.default_rng(seed))[3]) for seed in range(20)} for by in Depth}
    assert drawn == {Depth.LONGEST: {3}, Depth.ANY: {2, 3}, Depth.SHORTEST: {2}}


def test_hop_by_hop_is_at_once_except_by_one_arbitrary_parent():
    journeys = hop_by_hop(3_000, 1, lambda _: None)
    assert [journey.same for journey in journeys] == [True, True, True, False]
    assert all(list(journey.sent[:1]) < list(journey.sent[-1:]) for journey in journeys)
    assert all(journey.sent[-1] == journey.at_once for journey in journeys[:3])


def test_other_widths_are_measured_with_the_first_number_only():
    samples = sampled((200, 400), (1, 2), lambda _: None)
    assert [case.subscriptions for case in samples] == [200] * 4 + [400]
    assert {len(own) for own in samples.values()} == {2}


def test_a_share_over_seeds_has_a_mean_and_a_deviation():
    samples = [Sample(np.array([0, 0, 1, 5]), {}), Sample(np.array([0, 1, 1, 5]), {})]
    share = over_seeds(samples, lambda one: one.ancestor_share(1))
    assert share.mean == 37.5
    assert share.deviation == pytest.approx(np.std([50, 25], ddof=1))
