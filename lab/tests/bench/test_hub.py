"""`rankcast bench hub`: what its table says, and how it fails. What it measures is measured by nobody but its users."""

import json

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.model.errors import RankcastError, UnknownIdError
from rankcast_lab.bench import hub, hub_measuring
from rankcast_lab.bench.commits import python_of
from rankcast_lab.bench.hub import CASES, HubSettings, row_of


def test_every_case_is_declared_and_can_be_measured():
    assert list(CASES) == list(hub_measuring.CASES)


def test_ratios_are_those_of_medians_and_are_held_against_what_is_required():
    slow = row_of("publish-10k", {"now": [1.0, 2.0, 90.0], "before": [4.0, 4.0, 4.0]})
    assert (slow.now, slow.before, slow.ratio, slow.holds, slow.runs) == (2e6, 4e6, 0.5, False, 3)
    quick = row_of("publish-10k", {"now": [0.4], "before": [4.0]})
    assert (quick.ratio, quick.holds) == (0.1, True)


def test_without_a_version_before_there_is_no_ratio_and_no_verdict_about_one():
    alone = row_of("subscribe", {"now": [1e-6]})
    assert (alone.before, alone.now, alone.ratio, alone.holds) == (None, 1.0, None, None)


def test_a_start_is_required_to_be_quick_whatever_it_was_before():
    assert row_of("start-warm", {"now": [3.9]}).holds is True
    assert row_of("start-warm", {"now": [4.1], "before": [9.0]}).holds is False


def test_what_older_versions_lack_is_held_against_the_same_run():
    assert row_of("best-ten", {"now": [21.0, 19.0, 19.5]}).holds is True
    assert row_of("publish-cap", {"now": [1.7]}).holds is False
    assert {name for name, case in CASES.items() if case.new} == {
        "publish-cap",
        "publish-caps",
        "publish-calendar",
        "best-ten",
    }


def test_memory_is_measured_by_name_only_and_held_against_its_bound():
    row = row_of("memory-topkw", {"now": [7000.0]})
    assert (row.now, row.unit, row.required, row.holds) == (7000.0, "bytes", "at most 10000", True)
    assert not {"memory-topkw", "memory-sliding"} & set(HubSettings().chosen())
    assert HubSettings(("memory-topkw", "fixed", "fixed")).chosen() == ["memory-topkw", "fixed"]


def test_an_unknown_case_is_named():
    with pytest.raises(UnknownIdError, match="no case 'speed' of the hub; expected one of publish-10k, "):
        HubSettings(("speed",)).chosen()


def test_a_commit_that_is_not_there_is_one_line():
    with pytest.raises(RankcastError, match=r"^--against: there is no commit 'no-such-commit' in this repository"):
        python_of("no-such-commit")


def test_the_command_shows_a_table_or_json(monkeypatch):
    asked = []

    def run(settings):
        asked.append(settings)
        return [row_of("fixed", {"now": [2e-4], "before": [4e-4]})]

    monkeypatch.setattr(hub, "run", run)
    shown = CliRunner().invoke(app, ["bench", "hub", "--against", "HEAD", "--case", "fixed", "--quick"])
    assert shown.exit_code == 0
    assert [word for word in shown.stdout.split() if word in ("fixed", "400", "200", "0.500", "yes")] == [
        "fixed",
        "400",
        "200",
        "0.500",
        "yes",
    ]
    found = json.loads(CliRunner().invoke(app, ["bench", "hub", "--json"]).stdout)
    assert found["rows"][0]["ratio"] == 0.5
    assert [one.scale for one in asked] == [0.02, 1.0]
