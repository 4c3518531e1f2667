"""The demo on Spark, with few events: its figures are those of the hub, its page tells why, its pictures are there."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli import demo
from rankcast.cli.demo import DemoSetupError, run_spark_demo
from rankcast.cli.main import app
from rankcast.cli.output.terminal import console
from rankcast.cli.spark_demo import OutcomeRows, codes_of, list_diversity, run_on_spark, save_pictures, show
from rankcast.hub import Hub
from rankcast.model.policies import Diversity
from rankcast.ranking.diversity import list_diversity as by_pairs
from rankcast.samples.feeds import flats
from rankcast.samples.people import POLICIES, TELLING

EVENTS, SUBSCRIBERS = 600, 24


@pytest.fixture(scope="module")
def told(spark):
    return run_on_spark(spark, EVENTS, SUBSCRIBERS, 1, quiet=True)


def test_everyone_gets_what_the_hub_delivers(told):
    offered, got = set(), set()
    hub = Hub(
        told.subscribers, schema=flats.schema, on_match=lambda match: offered.add((match.subscriber, match.event.id))
    )
    for event in told.events:
        got.update((note.subscriber, note.event.id) for note in hub.publish(event, event.time))
    got.update((note.subscriber, note.event.id) for note in hub.finish())
    assert _named(told, told.matched) == offered
    assert _named(told, told.delivered) == got
    assert len(got) == len(told.delivered)


def _named(told, rows):
    pairs = zip(rows.subscriber.tolist(), rows.event.tolist(), strict=True)
    return {(told.subscribers[subscriber].id, told.events[event].id) for subscriber, event in pairs}


def test_figures_add_up_over_policies_and_named_people(told):
    assert [policy.name for policy in told.policies] == list(POLICIES)
    people = np.arange(len(told.people))
    matched, delivered = (len(rows.of(people)) for rows in (told.matched, told.delivered))
    assert sum(policy.matched.events for policy in told.policies) + matched == told.total.matched.events
    assert sum(policy.delivered.events for policy in told.policies) + delivered == told.total.delivered.events
    every, *chosen = told.policies
    assert every.matched.events == every.delivered.events
    assert all(policy.delivered.events < policy.matched.events for policy in chosen)
    assert all(policy.delivered.rank > policy.matched.rank for policy in chosen)


def test_list_diversity_is_the_mean_distance_of_pairs(told):
    events = told.events[:40]
    rows = OutcomeRows(np.zeros(40, np.int64), np.arange(40), np.ones(40), np.zeros(40))
    distance = Diversity(weights=dict.fromkeys(TELLING, 1.0)).distance
    expected = by_pairs([event.attributes for event in events], distance)
    assert list_diversity(rows, codes_of(events, TELLING)) == pytest.approx(expected)


def test_the_page_tells_what_people_got_and_why(told, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # wide enough for the names of all policies
    pictures = save_pictures(told.policies, tmp_path / "out")
    show(console(), told, pictures)
    page = capsys.readouterr().out
    for heading in ("What they got", "Why ana got flat-", "Why ana did not get flat-", "Why bruno did not get flat-"):
        assert heading in page
    assert all(name in page for name in POLICIES)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_the_command_prints_a_summary_as_json(spark, tmp_path):
    arguments = ["demo", "--events", "50", "--subscribers", "6", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["events"] == 50
    assert [policy["policy"] for policy in found["policies"]] == list(POLICIES)


@pytest.mark.parametrize("package", ["pyspark", "matplotlib"])
def test_without_a_package_the_small_demo_is_named(package, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(DemoSetupError, match=rf"{package} is not installed.*--small"):
        run_spark_demo(1, 6, 1, tmp_path, overwrite=False, as_json=True)


def test_without_java_the_small_demo_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("rankcast.spark.session.java_home", lambda: None)
    with pytest.raises(DemoSetupError, match=r"no Java 17 or newer found.*--small"):
        run_spark_demo(1, 6, 1, tmp_path, overwrite=False, as_json=True)
