"""`rankcast bench topkw`: passes are what they say, deliveries are compared, ratios judged at full size only."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.bench import topkw
from rankcast.bench.registry import Settings
from rankcast.bench.topkw_passes import count_within, find_nearest, store_all
from rankcast.cli.main import app


@pytest.fixture(autouse=True)
def small_work(monkeypatch):
    monkeypatch.setattr(topkw, "REPEATS", 1)
    monkeypatch.setattr(topkw, "WINDOW", 200)
    monkeypatch.setattr(topkw, "MOST_TIMES_THE_LIMIT", {1: 5.0, 10: 6.0})


def test_the_passes_look_at_every_distance():
    points, ideals = np.random.default_rng(1).random((20_000, 2)), np.array([[0.2, 0.3], [0.9, 0.1]])
    squared = ((points[None] - ideals[:, None]) ** 2).sum(axis=2)
    columns = np.ascontiguousarray(points.T)
    assert count_within(columns, ideals, 0.01).tolist() == (squared <= 0.01).sum(axis=1).tolist()
    assert find_nearest(columns, ideals).tolist() == squared.min(axis=1).tolist()
    starts = range(0, 20_000, 8192)
    assert store_all(columns, ideals) == pytest.approx(
        sum(squared[at, start + at] for start in starts for at in (0, 1))
    )


def test_the_command_prints_costs_and_compared_deliveries():
    result = CliRunner().invoke(app, ["bench", "topkw", "--quick", "-n", "5", "-e", "2000", "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["correct"] is True
    assert [row["engine"] for row in document["rows"] if row["case"] == "k=10"] == [
        "pass: count",
        "pass: store",
        "pass: nearest",
        "exact",
        "limit",
    ]
    assert document["requirements"] == []


def test_what_is_promised_is_judged_in_the_published_setting(monkeypatch):
    monkeypatch.setattr(topkw, "SUBSCRIPTIONS", 3)
    monkeypatch.setattr(topkw, "EVENTS", 1000)
    report = topkw.run(Settings())
    assert [one.required for one in report.requirements] == ["at most 5", "at most 6"]


def test_deliveries_that_differ_are_found(monkeypatch):
    honest = topkw._publish

    def wrong(points, ideals, k, queue=topkw.QueueKind.EXACT):
        return honest(points, ideals + (queue is topkw.QueueKind.EXACT) * 0.5, k, queue)

    monkeypatch.setattr(topkw, "_publish", wrong)
    report = topkw.run(Settings(subscriptions=(3,), events=1000))
    assert not report.is_correct
    assert report.comparisons[0].difference.startswith("(subscription, event, instant) = (0, ")
