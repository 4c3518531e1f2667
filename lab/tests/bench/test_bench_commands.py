"""`rankcast bench`: JSON and nothing else with --json, tables without, exit code 1 when answers differ."""

import json

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast_lab.bench import matching
from rankcast_lab.bench.plotting import NAMES, STYLES, plot_costs
from rankcast_lab.bench.registry import BENCHES
from rankcast_lab.bench.report import Row

SMALL = ("--subscriptions", "200", "--events", "10")


@pytest.fixture(autouse=True)
def short_turns(monkeypatch):
    monkeypatch.setattr(matching, "TURN_SECONDS", 0.001)
    monkeypatch.setattr(matching, "REPEATS", 1)


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_json_is_one_document_and_nothing_else():
    result = bench("matching", "--workload", "W2", *SMALL, "--no-peers", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["bench"] == "matching"
    assert {row["engine"] for row in document["rows"]} >= {"index", "brute-force", "limit"}
    assert all(row["case"] == "W2 200" for row in document["rows"])
    assert document["correct"] is True


def test_tables_show_ratios_and_what_was_compared():
    result = bench("matching", *SMALL, "--no-peers")
    assert result.exit_code == 0
    assert "x limit" in result.stdout
    assert "faster than brute" in result.stdout
    words = " ".join(result.stdout.split())  # lines are folded
    assert "Answers compared: 2 of 2 equal, on at least" in words


def test_answers_that_differ_are_an_error(monkeypatch):
    honest = matching.index_engines

    def wrong(work):
        other = matching.Work.of("W3", work.subscriptions, len(work.events), 99)
        return [honest(other)[0]]

    monkeypatch.setattr(matching, "index_engines", wrong)
    result = bench("matching", *SMALL, "--no-peers", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["correct"] is False
    assert "W1 200: index is wrong: event 0" in result.stderr


def test_every_bench_has_a_command():
    result = bench("--help")
    assert all(name in result.stdout for name in BENCHES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workload", "W7"), "there is no workload 'W7'; expected one of W1, W2, W3"),
        (("--plot", "costs.txt"), "--plot: 'costs.txt' is not a picture; expected a name with .png, .svg, .pdf"),
        (("--plot", "no/such/costs.png"), "--plot: there is no folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(arguments, message, monkeypatch):
    monkeypatch.setattr(matching, "run_cases", None)
    result = bench("matching", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_required_cases_are_not_combined_with_others():
    assert bench("matching", "--required", "--workload", "W1").exit_code == 2


def test_the_required_cases_are_those_that_something_is_promised_about():
    names = {matching.case_name(*case) for case in matching.REQUIRED_CASES}
    assert names == matching.MOST_TIMES_THE_LIMIT.keys() | matching.TIMES_FASTER_THAN_BRUTE_FORCE.keys()


def test_a_plot_is_saved(tmp_path):
    path = tmp_path / "costs.svg"
    arguments = ("--subscriptions", "100", "--subscriptions", "200", "--events", "5", "--no-peers", "--plot", str(path))
    assert bench("matching", *arguments).exit_code == 0
    text = path.read_text()
    assert text.startswith("<?xml")
    assert len(text) > 10_000


def test_a_plot_has_a_panel_for_each_workload_and_a_name_for_each_engine(tmp_path):
    rows = [Row(case, engine, cost) for case in ("W1 1k", "W2 1k") for cost, engine in enumerate(STYLES, 1)]
    plot_costs(tmp_path / "two.png", rows, {"W1": {"W1 1k": 1000}, "W2": {"W2 1k": 1000}})
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    assert NAMES.keys() == STYLES.keys()
