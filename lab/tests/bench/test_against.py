"""`rankcast bench against`: how runs of two versions are put side by side. What they take is measured by users only."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.model.errors import RankcastError
from rankcast_lab.bench import against


def test_versions_take_turns_and_rows_are_compared_pair_by_pair(monkeypatch):
    order = []

    def costs(python, arguments):
        order.append(python.name)
        assert arguments == ["delivery", "--queues", "7"]
        return {("sliding", "batched"): 6.0 if python.name == "before" else 4.0} | (
            {("sliding", "steps"): 1.0} if python.name == "before" else {}
        )

    monkeypatch.setattr(against, "python_of", lambda commit: Path(commit, "before"))
    monkeypatch.setattr(against, "costs_of", costs)
    shown = CliRunner().invoke(app, ["bench", "against", "abc", "delivery", "--queues", "7", "--runs", "2", "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    now = Path(sys.executable).name
    assert order == [now, "before", "before", now]
    (row,) = found["rows"]
    assert (row["case"], row["before"], row["now"], row["speed"]) == ("sliding", 6.0, 4.0, 1.5)
    assert found["alone"] == ["sliding: steps"]
    assert "1.5" in CliRunner().invoke(app, ["bench", "against", "abc", "delivery", "--queues", "7"]).output


def test_a_bench_that_fails_is_one_line():
    with pytest.raises(RankcastError, match=r"^bench no-such-bench: failed under .*"):
        against.costs_of(Path(sys.executable), ["no-such-bench"])
