"""The delivery bench on small work: every policy is measured and compared, and a wrong kernel is found out."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.delivery.engine.caps import CapTable
from rankcast.delivery.engine.queue_table import Deliveries, QueueTable
from rankcast_lab.bench import delivery
from rankcast_lab.bench.registry import Settings

SMALL = Settings(subscriptions=(12,), events=30)


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr(delivery, "REPEATS", 2)
    monkeypatch.setattr(delivery, "CAP_REPEATS", 2)
    monkeypatch.setattr(delivery, "STEPPED", 5)


def test_every_policy_is_measured_and_compared_with_and_without_expiry():
    report = delivery.run(SMALL)
    cases = {f"{name}{expiring} 12" for name in delivery.POLICIES for expiring in ("", " expiring")}
    few = {f"{name} few ranks{expiring}" for name in delivery.PROMISED for expiring in ("", " expiring")}
    cases |= {f"{case} {rule} 12" for case in few for rule in ("newer", "keep")}
    capped = {f"{name} capped 12" for name in delivery.POLICIES}
    assert {(row.case, row.engine) for row in report.rows} == {
        *((case, engine) for case in cases for engine in ("batched", "steps")),
        *((case, "batched") for case in capped),
    }
    assert all(math.isfinite(row.microseconds_per_event) for row in report.rows)
    assert {one.case for one in report.comparisons} == cases | capped
    assert all(one.equal for one in report.comparisons), report.comparisons
    assert {one.events for one in report.comparisons if one.case in cases} == {5 * 6 * 30}
    withheld = [one.value for one in report.figures if one.quantity == "capped of the deliveries"]
    assert len(withheld) == len(capped)
    assert all(0 < share < 1 for share in withheld)
    shares = {one.case: one.value for one in report.figures if one.quantity == "delivered of the rows"}
    assert shares["all 12"] == 1
    assert all(0 < share < 0.5 for case, share in shares.items() if not case.startswith(("all", "continuous few")))
    assert all(shares[f"{case} keep 12"] < shares[f"{case} newer 12"] for case in few)


def test_requirements_are_judged_for_the_policies_that_something_is_promised_about():
    report = delivery.run(SMALL)
    judged = [one.quantity for one in report.requirements]
    assert sum(quantity.endswith(": rows per second") for quantity in judged) == 8
    assert sum(quantity.endswith(": steps / batched") for quantity in judged) == 8
    assert sum(quantity.endswith(": rate / newer") for quantity in judged) == 8
    assert sum(quantity.endswith(": rate / without caps") for quantity in judged) == 6
    sizes = {one.quantity: one for one in report.requirements if one.quantity.endswith(": bytes of a queue")}
    assert len(sizes) == 12
    assert all(one.holds for one in sizes.values())
    assert sizes["sliding 12: bytes of a queue"].measured > 1_000


def test_a_wrong_kernel_is_found_out_and_the_exit_code_says_so(monkeypatch):
    honest = QueueTable.take

    def losing_one(self, rows):
        return Deliveries(*(column[1:] for column in honest(self, rows)))

    monkeypatch.setattr(QueueTable, "take", losing_one)
    monkeypatch.setattr(delivery, "POLICIES", {"sliding": delivery.POLICIES["sliding"]})
    result = CliRunner().invoke(app, ["bench", "delivery", "--queues", "6", "--rows", "40", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["correct"] is False
    assert "sliding 6: batched is wrong: batch 0" in result.stderr


def test_a_wrong_count_of_caps_is_found_out(monkeypatch):
    monkeypatch.setattr(CapTable, "hand_over", lambda self, queue, instants: np.zeros(len(queue), bool))
    report = delivery.run(SMALL)
    assert {one.case for one in report.comparisons if not one.equal} == {
        f"{name} capped 12" for name in delivery.POLICIES
    }


def test_the_same_number_gives_the_same_batch_sorted_by_queue():
    work = delivery.Work(queues=4, rows=3, seed=2, expiring=True)
    first, again = work.batch(1), work.batch(1)
    assert all((one == other).all() for one, other in zip(first, again, strict=True))
    assert first.queue.tolist() == sorted(first.queue)
    assert (first.expires > first.time).all()
