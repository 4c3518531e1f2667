"""`rankcast bench spark` and `placement-spark`: other ways to the same results, and what is required of the speed."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast_lab.bench import placement_spark
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.spark import Sizes, run_sizes
from rankcast_lab.bench.spark_compare import Notifications, difference_of
from rankcast_lab.bench.spark_delivery import DeliveryWork
from rankcast_lab.bench.spark_workload import SparkWork

TINY = Sizes(
    work=SparkWork(filters=400, subscribers=40, batches=2, batch=200),
    sql_events=100,
    small=SparkWork(filters=200, subscribers=5, batches=1, batch=150),
    delivery=DeliveryWork(queues=50, rows=500, batches=3),
    growth=DeliveryWork(queues=5, rows=200, batches=3),
)


@pytest.mark.soak
def test_all_ways_deliver_the_same_and_every_promise_is_judged(spark):
    report = run_sizes(TINY, Settings())
    assert report.is_correct, report.comparisons
    assert [one.engine for one in report.comparisons] == ["sql", "pipeline", "pipeline", "sql", "spark", "spark"]
    assert {row.engine for row in report.rows} == {"plain", "pipeline", "sql"}
    judged = " ".join(one.quantity for one in report.requirements)
    for promise in ("pipeline / plain", "pipeline / sql", "rows per second", "state in the last third", "peak memory"):
        assert promise in judged


def test_an_event_satisfies_about_as_many_filters_as_was_asked_for():
    work = SparkWork(filters=2_000, subscribers=10, batches=1, batch=300)
    filters, events = work.filter_table().to_pandas(), work.event_table(0).to_pandas()
    satisfied = 0
    for event in events.to_dict("records"):
        fits = True
        for name in (name for name in event if name.startswith("a")):
            fits &= (filters[f"low_{name}"] <= event[name]) & (event[name] <= filters[f"high_{name}"])
        satisfied += int(fits.sum())
    assert 0.7 * work.matches < satisfied / len(events) < 1.3 * work.matches


def saved(folder: Path, **columns: pa.Array) -> Notifications:
    file = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(columns), file)
    return Notifications([file])


def test_notifications_that_differ_are_told(tmp_path):
    times = pa.array([1, 2], pa.timestamp("us", tz="UTC"))
    right = {"subscriber": ["a", "b"], "id": ["1", "1"], "rank": [0.5, 0.25], "matched": [["x"], ["x", "y"]]}
    truth = saved(tmp_path, **right, delivered=times)
    columns = (*right, "delivered")
    turned = {name: values[::-1] for name, values in right.items()}
    assert difference_of(saved(tmp_path, **turned, delivered=times.take([1, 0])), truth, columns) == ""
    assert difference_of(replace(truth, before=2), truth, columns) == "1 notifications, expected 2"
    for name, values in {"rank": [0.5, 0.5], "matched": [["x", "x"], ["y"]], "subscriber": ["a", "c"]}.items():
        other = saved(tmp_path, **{**right, name: values}, delivered=times)
        assert difference_of(other, truth, columns) == f"other values of {name}"
    nothing = replace(truth, before=1)
    assert difference_of(nothing, nothing, columns) == "0 notifications, expected 0"


def test_the_bench_compares_both_paths_and_measures_every_stage(spark, monkeypatch):
    monkeypatch.setattr(placement_spark, "BROKERS", 6)
    monkeypatch.setattr(placement_spark, "WARM_UP", 60)
    result = CliRunner().invoke(
        app, ["bench", "placement-spark", "--quick", "--workload", "own", "--subscriptions", "300", "--json"]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [(one["engine"], one["equal"]) for one in found["comparisons"]] == [("spark", True)]
    seconds = {one["quantity"]: one["value"] for one in found["figures"] if one["unit"] == "s"}
    parts = ("read and number", "demands", "fit filters of leaves", "programme, flow and search on the driver")
    assert sum(seconds[f"spark, {part}"] for part in parts) == pytest.approx(seconds["spark, whole"])
    assert found["requirements"] == []  # promised of two million subscribers
