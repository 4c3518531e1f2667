"""The bench of the overlay on small work: every strategy is measured, and wrong deliveries are found out."""

import json

from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.overlay.publishing import Publishing
from rankcast.overlay.routing.strategies import Strategy
from rankcast_lab.bench import overlay
from rankcast_lab.bench.registry import Settings

SMALL = Settings(subscriptions=(60,), events=3)


def test_every_strategy_is_measured_beside_a_central_broker_and_compared():
    report = overlay.run(SMALL)
    assert {(row.case, row.engine) for row in report.rows} == {
        (f"{case.name}, 60 subscribers", engine)
        for case in overlay.CASES
        for engine in (*(one.value for one in case.strategies), "central")
    }
    assert {one.engine for one in report.rows} == {*(one.value for one in Strategy), "central"}
    assert report.is_correct
    assert len(report.comparisons) == len(report.rows)
    assert report.requirements == []  # promised of 50,000
    found = {(one.case, one.quantity): one.value for one in report.figures}
    case = "fair 10, 60 subscribers"
    assert found[case, "central: subscriptions at all brokers"] == 60
    assert found[case, "RegularK: told to the publisher's broker"] == 60
    assert found[case, "ExactFair: messages per event"] > found[case, "RegularK: messages per event"] > 0
    assert found["all, 60 subscribers", "RegularCover: subscriptions at all brokers"] < 60 * 11


def test_wrong_deliveries_are_found_out_and_the_exit_code_says_so(monkeypatch):
    honest = Publishing.publish

    def forgetful(self, source, publish, advertise):
        outcome = honest(self, source, publish, advertise)
        outcome.own = outcome.own[1:]
        return outcome

    monkeypatch.setattr(Publishing, "publish", forgetful)
    result = CliRunner().invoke(app, ["bench", "overlay", "-n", "60", "-e", "2", "--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["correct"] is False
    wrong = {one["engine"] for one in document["comparisons"] if not one["equal"]}
    assert {"central", "Flooding", "RegularCover", "AncestorCoverK"} <= wrong
