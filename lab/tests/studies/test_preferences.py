"""`rankcast study preferences`: readers like the published one, orders of arrival, results, what is said of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.matching.naive import matches
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Diversity
from rankcast.ranking.diversity import list_diversity
from rankcast_lab.studies import preferences
from rankcast_lab.studies.preferences import (
    MATCHING,
    PUBLISHED_RANK,
    Case,
    Measurements,
    Reader,
    Result,
    Scenario,
    Timing,
    cases,
    distances_of,
    has_the_published_mean,
    is_fitted,
    readers,
    results,
)
from rankcast_lab.workloads.preferences import Constants, generated_films


@pytest.fixture(scope="module")
def reader():
    return readers(generated_films(1), Constants.ZIPF, 1, np.random.default_rng(1))[0]


def smaller(reader, count=60):
    return Reader(reader.subscriber, reader.films[:count], reader.ranks[:count], reader.distances[:count, :count])


def test_a_reader_is_like_the_published_one(reader):
    assert len(reader.films) == len(reader.ranks) == MATCHING
    assert reader.ranks.mean() == pytest.approx(PUBLISHED_RANK, abs=0.06)
    assert len(np.unique(reader.ranks)) >= 3


def test_ranks_are_those_of_the_best_matching_subscription(reader):
    for film, rank in list(zip(reader.films, reader.ranks, strict=True))[:40]:
        event = Event("1", "films", "film", data=film.attributes())
        assert max(one.rank for one in reader.subscriber.subscriptions if matches(one, event)) == rank


def test_distances_are_those_of_diversity(reader):
    films = reader.films[:25]
    found = distances_of(films)
    for at, one in enumerate(films):
        for place, other in enumerate(films):
            assert found[at, place] == pytest.approx(Diversity().distance(one.attributes(), other.attributes()))


@pytest.mark.parametrize(
    ("ranks", "like"),
    [
        ([0.9] * 5 + [0.7] * 45 + [0.5] * 40 + [0.2] * 10, True),
        ([0.9] * 15 + [0.7] * 40 + [0.4] * 40 + [0.1] * 5, False),  # too many are the best
        ([0.9] * 5 + [0.6] * 80 + [0.3] * 10 + [0.1] * 5, False),  # most have one rank
        ([0.9] * 5 + [0.6] * 45 + [0.5] * 50, False),  # few ranks
        ([0.5] * 5 + [0.3] * 45 + [0.2] * 40 + [0.1] * 10, False),  # low ranks
    ],
)
def test_what_is_like_the_published_subscriber(ranks, like):
    assert (has_the_published_mean(np.array(ranks)) and is_fitted(np.array(ranks))) == like


def test_the_control_group_is_chosen_by_share_and_mean_rank_alone():
    drawn = readers(generated_films(1), Constants.ZIPF, 6, np.random.default_rng(1), fitted=False)
    assert all(abs(one.ranks.mean() - PUBLISHED_RANK) < 0.07 for one in drawn)
    assert not all(is_fitted(one.ranks) for one in drawn)


def test_scenarios_order_the_same_films(reader):
    orders = {scenario: reader.order(scenario, np.random.default_rng(1)) for scenario in Scenario}
    for order in orders.values():
        assert sorted(order.tolist()) == list(range(MATCHING))
    falling = reader.ranks[orders[Scenario.BEST_FIRST]]
    assert (np.diff(falling) <= 0).all()
    assert (np.diff(reader.ranks[orders[Scenario.BEST_LAST]]) >= 0).all()
    bursts = reader.ranks[orders[Scenario.BURST]]
    assert bursts[120:160].mean() > bursts[:120].mean() + 0.1


@pytest.mark.parametrize(
    "case",
    [
        Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, 4),
        Case(Scenario.BURST, Timing.PERIODIC, 40, 4),
        Case(Scenario.BEST_FIRST, Timing.SLIDING, 40, 2),
        Case(Scenario.RANDOM, Timing.PERIODIC, 40, 3, 0.2),
        Case(Scenario.RANDOM, Timing.SLIDING, 40, 3, 0.2),
    ],
)
def test_results_are_those_of_the_step_functions(reader, case):
    few = smaller(reader)
    found = results(few, [case], np.random.default_rng(3))[case]
    random = np.random.default_rng(3)
    order = {scenario: few.order(scenario, random) for scenario in Scenario}[case.scenario]
    queue, delivered = new_queue(case.policy), []
    for second, film in enumerate(order.tolist()):
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        content = tuple(sorted(few.films[film].attributes().items()))
        queue, more = step(queue, Candidate(Identity("f", f"{film:02}"), now, few.ranks[film], content=content), now)
        delivered += more
    delivered += finished(queue)[1]
    numbers = [int(one.candidate.identity.id) for one in delivered]
    waits = [(one.time - one.candidate.time).total_seconds() for one in delivered]
    assert len(numbers) == round(found.share * len(few.films))
    assert found.rank == pytest.approx(np.mean(few.ranks[numbers]))
    assert found.wait == pytest.approx(np.mean(waits))
    assert found.diversity == pytest.approx(list_diversity(numbers, lambda one, other: few.distances[one, other]))


def measurements(change=lambda case, result: result):
    """Return made-up results that bear out every statement, unless changed."""

    def result(case):
        large, diverse = case.span == 80, case.sigma not in (None, 1.0)
        random = {"best-first": 0.1, "best-last": 0.4, "burst": 0.2, "random": 0.05}[case.scenario.value]
        if case.timing is Timing.CONTINUOUS:
            shares = {"best-first": 0.01, "best-last": 1.0, "burst": 0.5, "random": 0.04 + 0.0125 * case.k}
            return Result(shares[case.scenario.value], 0.7 + random, 0.0, 0.8)
        if case.timing is Timing.PERIODIC:
            wait = {"best-first": 9.0, "best-last": 4.0}.get(case.scenario.value, 5.0) + large + diverse
            return Result(case.k / case.span, 0.7 - 0.01 * diverse, wait, 0.8 + 0.1 * diverse)
        share = (0.3 - 0.1 * large) * (1 + (case.scenario is not Scenario.RANDOM)) + 0.1 * diverse
        return Result(share, 0.7 - 0.01 * diverse, 1.0 + large + diverse, 0.8 + 0.1 * diverse)

    by_case = {case: change(case, result(case)) for case in cases(quick=True)}
    return Measurements(
        {one: [by_case] for one in Constants}, {one: [0.59] for one in Constants}, (4, 12, 20), [by_case]
    )


def verdicts(measured):
    return {finding.quantity: finding.holds for finding in preferences.findings(measured)}


def test_every_statement_can_hold():
    assert {name for name, holds in verdicts(measurements()).items() if not holds} == set()


@pytest.mark.parametrize(
    ("case", "changes", "fails"),
    [
        (Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, 4), {"share": 0.2}, "zipf: continuous, random, k=4: share"),
        (Case(Scenario.BURST, Timing.CONTINUOUS, 0, 4), {"share": 0.0}, "continuous: fewest are delivered"),
        (Case(Scenario.BURST, Timing.CONTINUOUS, 0, 4), {"wait": 0.1}, "continuous: wait"),
        (Case(Scenario.BURST, Timing.PERIODIC, 40, 4), {"share": 0.2}, "periodic: share, difference between scenarios"),
        (Case(Scenario.RANDOM, Timing.SLIDING, 80, 4), {"share": 0.9}, "sliding, random: number, w=80 / w=40"),
        (
            Case(Scenario.RANDOM, Timing.SLIDING, 40, 4, 0.2),
            {"share": -1.0},
            "sliding, random: number, diverse / plain",
        ),
        (Case(Scenario.RANDOM, Timing.SLIDING, 40, 4), {"rank": -1.0}, "sliding, random: rank above all"),
        (
            Case(Scenario.RANDOM, Timing.SLIDING, 40, 8, 1.0),
            {"diversity": 1.0},
            "sliding 40, k=8: diversity, sigma 0.2 - 1",
        ),
        (Case(Scenario.BEST_LAST, Timing.PERIODIC, 40, 4), {"wait": 99.0}, "periodic: wait, best-first - best-last"),
    ],
)
def test_a_statement_does_not_hold_when_results_say_otherwise(case, changes, fails):
    measured = measurements(lambda one, result: replace(result, **changes) if one == case else result)
    assert verdicts(measured)[fails] is False


def test_the_study_writes_rows_a_page_and_four_pictures(tmp_path):
    result = CliRunner().invoke(app, ["study", "preferences", "--quick", "--json", "--out", str(tmp_path)])
    document = json.loads(result.stdout)
    rows = {row["quantity"]: row for row in document["rows"]}
    assert rows["periodic: number, diverse / plain"]["measured"] == 1
    page = (tmp_path / "preferences.md").read_text()
    for name in ("preferences", "preferences-rank", "preferences-freshness", "preferences-diversity"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"]({name}.png)" in page


def test_a_table_that_cannot_be_read_is_an_error_in_one_line(tmp_path):
    result = CliRunner().invoke(app, ["study", "preferences", "--movies", str(tmp_path / "none.csv")])
    assert result.exit_code == 1
    assert "none.csv: cannot be read" in result.stderr
