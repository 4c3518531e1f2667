"""The placement-dynamic study on small work: three ways from one plan, with their traffic and moves."""

import json

import numpy as np
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.placement.dynamic.dynamic import DynamicPlacement
from rankcast.placement.problem.tree import BrokerTree
from rankcast_lab.studies import placement_dynamic


def test_a_quick_run_has_rows_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["study", "placement-dynamic", "--quick", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.stderr
    rows = {row["quantity"]: row["measured"] for row in json.loads(result.stdout)["rows"]}
    at_first = {value for name, value in rows.items() if name.endswith("at first")}
    assert len(at_first) == 1  # one plan, and the same subscribers
    assert rows["improved: traffic over yardstick at last"] <= rows["arrivals alone: traffic over yardstick at last"]
    assert rows["improved: moved in all"] > 0
    assert (tmp_path / "placement-dynamic.png").read_bytes().startswith(b"\x89PNG")


def test_a_new_plan_that_is_worse_is_not_adopted(monkeypatch):
    tree = BrokerTree.star([0.0], [[1.0], [1.0]])
    placement = DynamicPlacement(tree, rooms=[2, 2], attributes=1, alpha=1)
    for name, low in (("ana", 0.0), ("bob", 10.0), ("eva", 0.0), ("rui", 10.0)):
        placement.arrive(name, [[low]], [[low + 1]], at=[1.0], limit=9.0)
    before, homes = placement.traffic, [placement.broker_of(name) for name in placement]

    def worse(problem, start, random, moves):
        start.brokers[:] = [0, 0, 1, 1]
        return type(start)(start.brokers, (np.array([[0.0, 11.0]]),) * 2)

    monkeypatch.setattr(placement_dynamic, "anneal", worse)
    assert placement_dynamic._plan(placement, seed=1) == 0
    assert placement.traffic == before
    assert [placement.broker_of(name) for name in placement] == homes
