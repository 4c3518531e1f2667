"""The placement-parameters study on small work: all parameters have rows, and a quick run judges nothing."""

import json

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.placement.problem.problem import Latency
from rankcast_lab.studies.placement_parameters import GREEDY, GREEDY_ONLINE, PROGRAMME, SEARCH, Sweeps, findings


def test_a_quick_run_has_rows_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["study", "placement-parameters", "--quick", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert {row["holds"] for row in rows} == {None}
    shares = [row["measured"] for row in rows if row["quantity"].startswith("share of candidate brokers")]
    assert shares == sorted(shares)
    assert (tmp_path / "placement-parameters.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def sweeps():
    names = (GREEDY_ONLINE, GREEDY, PROGRAMME, SEARCH)
    factors = {"Balance": 1.0, PROGRAMME: 1.5, "Closest-b": 3.0}
    return Sweeps(
        traffic_by_boxes={alpha: dict.fromkeys(names, 60.0 / alpha) for alpha in (1, 2, 3, 4, 6)}
        | {1: {GREEDY_ONLINE: 60.0, GREEDY: 60.0, SEARCH: 60.0, PROGRAMME: 90.0}},
        candidates_by_delay={0.1: 0.05, 0.3: 0.18, 1.0: 0.7},
        traffic_by_delay={0.1: {GREEDY: 9.0, SEARCH: 8.0}, 1.0: {GREEDY: 5.0, SEARCH: 4.0}},
        factors={
            (4, 1, 4): factors,
            (1, 1, 1): {**factors, "Balance": 1.2},
            (1, 4, 1): {**factors, "Balance": 1.1},
            (8, 1, 2): {**factors, "Balance": 1.4},
        },
        factor_by_sample={1: 2.0, 10: 1.7},
        traffic_by_supers={1: 10.0, 10: 7.0},
        boxes_by_supers={1: 10, 10: 1000},
        last_hop={latency: {GREEDY: 1.0, SEARCH: 1.0, "candidates": 0.1, "least load": 1.0} for latency in Latency},
        homeless={"Gr, evicted next": 3},
        overloads={GREEDY_ONLINE: 2.1, "Gr, evicted next": 1.9},
        least_factor=1.0,
    )


def verdicts(sweeps):
    return {one.quantity: one.holds for one in findings(sweeps, compared=True) if one.published is not None}


def test_what_the_paper_says_holds_where_it_is_so(sweeps):
    assert set(verdicts(sweeps).values()) == {True}


@pytest.mark.parametrize(
    ("change", "quantity"),
    [
        (lambda found: found.traffic_by_boxes[6].update({GREEDY: 70.0}), "traffic of Gr*, alpha 6 over 1"),
        (lambda found: found.traffic_by_boxes[3].update({GREEDY: 50.0}), "Gr*: more than 3 boxes help little"),
        (lambda found: found.traffic_by_boxes[1].update({PROGRAMME: 50.0}), "SLP1 over Gr*: worse at low alpha"),
        (lambda found: found.candidates_by_delay.update({0.3: 0.4}), "share of candidate brokers, delay 0.3"),
        (
            lambda found: found.factors.update({(8, 1, 2): found.factors[4, 1, 4]}),
            "Balance, brokers unlike subscribers",
        ),
        (lambda found: found.factor_by_sample.update({10: 1.9}), "load factor, |Sb| = 10|B|"),
        (
            lambda found: found.traffic_by_supers.update({10: 11.0}),
            "traffic of SLP1, 10|B| over 1|B| superinterests",
        ),
        (lambda found: found.overloads.update({"Gr, evicted next": 1.7}), "Gr, evicted next: load factor"),
    ],
)
def test_what_is_not_so_does_not_hold(sweeps, change, quantity):
    change(sweeps)
    assert verdicts(sweeps)[quantity] is False
