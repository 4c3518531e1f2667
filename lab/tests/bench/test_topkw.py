"""`rankcast bench topkw`: passes are what they say, deliveries are compared, ratios judged at full size only."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.delivery.stream.unfiltered import MatchRows, UnfilteredRows
from rankcast_lab.bench import topkw, topkw_shipping
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Report
from rankcast_lab.bench.topkw_passes import count_within, find_nearest, store_all


@pytest.fixture(autouse=True)
def small_work(monkeypatch):
    monkeypatch.setattr(topkw, "REPEATS", 1)
    monkeypatch.setattr(topkw, "WINDOW", 200)
    monkeypatch.setattr(topkw, "MOST_TIMES_THE_LIMIT", {1: 5.0, 10: 6.0})
    for name, few in {"SUBSCRIBERS": 30, "EVENTS": 50, "REPEATS": 1}.items():
        monkeypatch.setattr(topkw_shipping, name, few)


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
    assert [one["quantity"] for one in document["requirements"]] == [
        "chunk 30 subscribers, 50 events: bytes of rows / dense",
    ]


def test_what_is_promised_is_judged_in_the_published_setting(monkeypatch):
    monkeypatch.setattr(topkw, "SUBSCRIPTIONS", 3)
    monkeypatch.setattr(topkw, "EVENTS", 1000)
    report = topkw.run(Settings())
    assert [one.required for one in report.requirements if one.quantity.startswith("k=")] == ["at most 5", "at most 6"]


def test_deliveries_that_differ_are_found(monkeypatch):
    honest = topkw._publish

    def wrong(points, ideals, k, queue=topkw.QueueKind.EXACT):
        return honest(points, ideals + (queue is topkw.QueueKind.EXACT) * 0.5, k, queue)

    monkeypatch.setattr(topkw, "_publish", wrong)
    report = topkw.run(Settings(subscriptions=(3,), events=1000))
    assert not report.is_correct
    assert report.comparisons[0].difference.startswith("(subscription, event, instant) = (0, ")


def test_a_chunk_that_is_worked_out_has_the_rows_that_were_not_sent(monkeypatch):
    report = Report("topkw")
    topkw_shipping.measure(Settings(), report)
    assert report.is_correct
    sizes = {one.quantity: one.value for one in report.figures}
    assert sizes["bytes sent, rows"] > 30 * 50 * 16
    assert sizes["bytes sent, dense"] < sizes["bytes sent, rows"] / 2
    honest = UnfilteredRows.expanded
    monkeypatch.setattr(UnfilteredRows, "expanded", lambda self: MatchRows(*(column[1:] for column in honest(self))))
    topkw_shipping.measure(Settings(), report)
    assert not report.is_correct
