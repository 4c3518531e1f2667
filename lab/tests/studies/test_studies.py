"""`rankcast study`: rows of published against measured, a page and a picture, on small work."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast_lab.engines.topkw_dense import QueueKind
from rankcast_lab.engines.topkw_dense_lengths import chance_at_end
from rankcast_lab.studies import registry, topkw_deliveries
from rankcast_lab.studies.findings import Finding, Settings
from rankcast_lab.studies.topkw_data import deliveries, missed_and_false, sale, sessions, uniform
from rankcast_lab.studies.topkw_queue import simulated


def study(*arguments):
    return CliRunner().invoke(app, ["study", *arguments])


def test_json_is_one_document_with_rows_of_published_and_measured():
    result = study("topkw-queue", "--quick", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["study"] == "topkw-queue"
    assert all(row.keys() == {"quantity", "published", "measured", "holds"} for row in document["rows"])
    assert {row["holds"] for row in document["rows"]} == {True, False, None}


@pytest.mark.parametrize("name", ["topkw-queue", "topkw-grid", "topkw-speed", "topkw-correlated"])
def test_a_page_and_a_picture_are_written(name, tmp_path):
    result = study(name, "--quick", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0
    assert (tmp_path / "new" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "new" / f"{name}.md").read_text()
    assert f"]({name}.png)" in page
    assert "| quantity | published | measured | holds |" in page


def test_an_unknown_study_is_refused_with_the_names_of_the_others():
    result = study("nonsense")
    assert result.exit_code == 1
    assert "there is no study 'nonsense'; expected one of preferences" in result.stderr


def test_every_study_is_named_in_the_help():
    shown = " ".join(study("--help").stdout.split())
    assert all(name in shown for name in registry.STUDIES)


def test_a_published_number_holds_within_its_margin_only():
    assert Finding.near("q", 10, 11, margin=2).holds is True
    assert Finding.near("q", 10, 13, margin=2).holds is False
    assert Finding.near("q", None, 13, margin=2).holds is None


def test_deliveries_are_judged_at_full_size_only():
    cell = topkw_deliveries.Cell("uniform", 10, 747.0, 10.0, 747.0, 0.0, 0.0)
    assert [one.holds for one in topkw_deliveries._findings(cell, compared=True)] == [True, None, True]
    assert [one.holds for one in topkw_deliveries._findings(cell, compared=False)] == [None, None, None]


def test_missed_and_false_deliveries_are_counted_by_event():
    points = uniform(np.random.default_rng(1), 400)
    more, fewer = (deliveries(points, points[:2], k, 50) for k in (4, 2))
    missed, false = missed_and_false(more, fewer, 400)
    assert missed == pytest.approx(1 - len(fewer) / len(more))
    assert false == 0


def test_a_trace_repeats_its_content():
    trace = sessions(np.random.default_rng(1), 5_000)
    assert len(np.unique(trace, axis=0)) < 100


def test_the_price_of_a_sale_repeats_and_climbs_until_the_next_show():
    prices = sale(np.random.default_rng(1), 5_000, seats=200)[:, 0]
    changes = np.diff(prices)
    assert (changes == 0).mean() > 0.8
    assert (changes > 0).sum() > 5 * (changes < 0).sum() > 0
    assert prices.min() == 0
    assert prices.max() == pytest.approx(0.995)


def test_the_bounded_queue_misses_nearly_everything_of_a_sale():
    prices = sale(np.random.default_rng(1), 8_000, seats=300)
    exact, bounded = (deliveries(prices, np.zeros((1, 1)), 2, 1_000, queue) for queue in list(QueueKind)[:2])
    assert missed_and_false(exact, bounded, 8_000)[0] > 0.9


def test_the_simulation_gives_the_chance_at_the_end_and_a_larger_one_of_ever():
    end, ever = simulated(np.random.default_rng(1), 5, 3, 4_000)
    assert end == pytest.approx(chance_at_end(5, 3), abs=0.03)
    assert ever > 1.5 * end


def test_the_same_seed_gives_the_same_findings():
    run = registry.study_named("topkw-queue")
    assert run(Settings(quick=True, seed=3)) == run(Settings(quick=True, seed=3))
