"""The diversity bench on small work: everything is measured and compared, and a wrong kernel is found out."""

import json
import math

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.delivery.engine.queue_table import Deliveries, QueueTable
from rankcast_lab.bench import diversity
from rankcast_lab.bench.registry import Settings

SMALL = Settings(subscriptions=(5,), events=60)


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr(diversity, "REPEATS", 2)
    monkeypatch.setattr(diversity, "STEPPED", 2)


def test_selections_and_queues_are_measured_and_compared():
    report = diversity.run(SMALL)
    selections = {f"{name}, 20 of 60" for name in diversity.DIVERSITIES}
    queues = {f"{kind}, {name} 5" for kind in diversity.POLICIES for name in diversity.DIVERSITIES}
    assert {(row.case, row.engine) for row in report.rows} == {
        *((case, engine) for case in selections for engine in ("kernel", "selection", "plain")),
        *((case, engine) for case in queues for engine in ("batched", "steps")),
    }
    assert all(math.isfinite(row.microseconds_per_event) for row in report.rows)
    assert {one.case for one in report.comparisons} == selections | queues
    assert report.is_correct, report.comparisons
    assert {one.events for one in report.comparisons if one.case in queues} == {2 * 20 * 8}


def test_only_the_buffer_that_something_is_promised_about_is_judged(monkeypatch):
    monkeypatch.setattr(diversity, "POLICIES", {})
    assert diversity.run(SMALL).requirements == []
    judged = diversity.run(Settings()).requirements
    assert [one.required for one in judged] == ["at most 2"] * 4
    assert judged[0].quantity == "weights, 20 of 1,000: ms by kernel"


def test_a_wrong_selection_and_a_wrong_queue_are_found_out_and_the_exit_code_says_so(monkeypatch):
    honest_take, honest_selection = QueueTable.take, diversity.selected_by_kernel

    def losing_one(self, rows, contents):
        return Deliveries(*(column[1:] for column in honest_take(self, rows, contents)))

    monkeypatch.setattr(QueueTable, "take", losing_one)
    monkeypatch.setattr(diversity, "selected_by_kernel", lambda *given: honest_selection(*given)[::-1])
    monkeypatch.setattr(diversity, "POLICIES", {"sliding": diversity.POLICIES["sliding"]})
    result = CliRunner().invoke(app, ["bench", "diversity", "--queues", "3", "--events", "40", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["correct"] is False
    assert "sliding, weights 3: batched is wrong: batch 0" in result.stderr
    assert "weights, 20 of 40: kernel is wrong" in result.stderr
