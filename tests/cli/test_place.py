"""`rankcast place`: a problem file in, algorithms compared by the audit, a plan out."""

import json
import re

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import PLACEMENTS, app
from rankcast.placement.algorithms import Algorithm

PROBLEM = """\
publisher: [0, 0]
brokers:
  - {name: lisbon, at: [10, 0]}
  - {name: porto, at: [10, 5]}
attributes: {rent: [0, 2000], rooms: [1, 6]}
subscribers:
  - {name: ana, at: [12, 1], wants: "rent < 500"}
  - {name: bob, at: [12, 4], wants: "rent > 1500 and rooms > 2"}
  - {name: eva, at: [12, 1], wants: "rent between 300 and 600"}
  - {name: rui, at: [12, 4], wants: "rent >= 1400", limit: 40}
delay: 0.5
beta: 1
beta_max: 1
alpha: 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["place", *map(str, arguments)], env={"COLUMNS": "100"})


def run_text(folder, text, *arguments):
    (folder / "problem.yaml").write_text(text)
    return run("problem.yaml", *arguments)


def test_a_plan_says_whom_each_broker_serves_and_what_it_lets_through(folder):
    result = run("problem.yaml", "--algorithm", "greedy-offline", "--out", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "4 subscribers on 2 leaves of 2 brokers" in result.stdout
    assert "wrote plan.json: the plan of greedy-offline" in result.stderr
    assert "plan.json" not in result.stdout
    plan = json.loads((folder / "plan.json").read_text())
    assert sorted(sorted(broker["subscribers"]) for broker in plan["brokers"]) == [["ana", "eva"], ["bob", "rui"]]
    (of_ana,) = (broker for broker in plan["brokers"] if "ana" in broker["subscribers"])
    assert of_ana["filter"] == [{"rent": [0, 600], "rooms": [1, 6]}]
    assert of_ana["traffic"] == 3000
    assert plan["traffic"] == 6000
    assert plan["violations"] == []


def test_algorithms_are_compared(folder):
    result = run("problem.yaml", "--json", "--algorithm", "all", "--moves", 50)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert len(found["algorithms"]) == 8
    assert all(one["seconds"] > 0 for one in found["algorithms"])
    traffic = {one["algorithm"]: one["traffic"] for one in found["algorithms"] if not one["violations"]}
    assert traffic[found["best"]] == min(traffic.values()) == 6000


def test_a_seed_gives_one_plan_and_a_workload_can_be_drawn(folder):
    (folder / "drawn.yaml").write_text("{workload: '2', subscribers: 300, brokers: 100, seed: 3}")
    for name in ("one.json", "two.json"):
        assert (
            run("drawn.yaml", "--algorithm", "local-search", "--moves", 200, "--seed", 7, "--out", name).exit_code == 0
        )
    assert (folder / "one.json").read_text() == (folder / "two.json").read_text()


def test_a_search_takes_so_many_seconds_or_moves_but_not_both(folder):
    result = run("problem.yaml", "--algorithm", "local-search", "--seconds", "0.05", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["algorithms"][0]["traffic"] <= 6000
    refused = run("problem.yaml", "--seconds", "1", "--moves", "5")
    assert refused.exit_code == 2
    assert "both say how long" in refused.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "3", "--algorithm", "balance"], "--seconds says how long local search goes on"),
        (["--moves", "3", "--algorithm", "balance"], "--moves says how long local search goes on"),
        (["--seconds", "3", "--design", "2"], "--seconds does not say how long --design goes on"),
    ],
)
def test_options_without_an_effect_are_refused(folder, options, message):
    refused = run("problem.yaml", *options)
    assert refused.exit_code == 2
    assert message in " ".join(refused.stderr.replace("│", "").split())


def test_help_names_the_algorithms():
    assert tuple(one.value for one in Algorithm) == PLACEMENTS
    shown = run("--help").stdout
    assert all(name in shown for name in PLACEMENTS)


def test_traffic_is_told_per_event_too(folder):
    result = run("problem.yaml", "--algorithm", "greedy-offline", "--json")
    (row,) = json.loads(result.stdout)["algorithms"]
    assert (row["traffic"], row["brokers_per_event"]) == (6000, 0.6)
    told = run("problem.yaml", "--algorithm", "greedy-offline").stdout
    assert "every event into one broker: a traffic of 10,000" in told


def test_traffic_is_held_against_a_linear_programme(folder):
    found = json.loads(run("problem.yaml", "--json").stdout)
    assert (found["yardstick"]["sample"], found["yardstick"]["demands"]) == (4, 4)
    assert 0 < found["yardstick"]["bound"] <= found["yardstick"]["objective"] * 1.02
    rows = {row["algorithm"]: row for row in found["algorithms"]}
    for row in rows.values():
        assert row["of_yardstick"] == pytest.approx(row["traffic"] / found["yardstick"]["objective"])
    told = run("problem.yaml", "--algorithm", "greedy-offline").stdout
    assert "greedy-offline: each event goes into 0.60 brokers on average; into those at the top go 1.0" in told
    assert "times the traffic of a linear programme on 4 of 4 demands" in told


def test_a_plan_that_saves_nothing_says_so(folder):
    whatever = re.sub('wants: ".*"', 'wants: "rent >= 0"', PROBLEM)
    saved = "every event goes into every broker: placement cannot help"
    assert saved in run_text(folder, whatever).stdout
    assert any(note.startswith(saved) for note in json.loads(run("problem.yaml", "--json").stdout)["notes"])
    assert saved not in run_text(folder, PROBLEM).stdout


def test_a_subscriber_file_is_told_from_a_problem_file(folder):
    (folder / "people.yaml").write_text(PEOPLE)
    result = run("people.yaml")
    assert result.exit_code == 1
    assert result.stderr == (
        "people.yaml: a file of subscribers; expected a problem file, which names this one under `subscribers`\n"
    )


def test_of_many_problems_the_first_are_shown(folder):
    brokers = "".join(f"  - {{name: b{number}, at: here}}\n" for number in range(50))
    lines = run_text(folder, PROBLEM.replace("brokers:\n", f"brokers:\n{brokers}")).stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "30 more problems"


def test_attributes_that_the_problem_does_not_have_are_noted(folder):
    text = "\n".join(
        line for line in PROBLEM.splitlines() if not line.startswith(("  - {name: porto", "  - {name: eva"))
    )
    text = text.replace("rent < 500", "rnt < 500 and rooms < 3")
    text = text.replace("delay: 0.5", "delay: 9").replace("limit: 40", "limit: 400")
    result = run_text(folder, text, "--algorithm", "greedy-offline")
    assert "3 subscribers on 1 leaf of 1 broker" in result.stdout
    assert "rnt: no axis; conditions on it (1) are taken as if anything would do" in result.stdout


def test_a_plan_that_breaks_a_limit_has_exit_code_1_and_says_which(folder):
    result = run_text(folder, PROBLEM.replace("at: [10, 5]", "at: [90, 5]"), "--algorithm", "greedy-offline")
    assert result.exit_code == 1
    assert "broken: load" in result.stdout
    assert "lisbon: 4 subscribers, 2 times its share; at most 1 times are allowed" in result.stdout
    assert "no placement keeps the load limit: within latency limits the least load factor is 2" in result.stdout


def test_a_load_limit_that_could_be_kept_is_said(folder):
    far = PROBLEM.replace("at: [12, 4]", "at: [12, 1]").replace("limit: 40", "limit: 400")
    result = run_text(folder, far, "--algorithm", "closest-without-balance", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["notes"] == [
        "a load factor of 1 can be had: local-search and programme keep the load limit"
    ]


def test_a_load_that_is_allowed_but_not_wanted_is_said(folder):
    text = PROBLEM.replace("at: [10, 5]", "at: [90, 5]").replace("beta_max: 1", "beta_max: 2")
    result = run_text(folder, text, "--algorithm", "greedy-offline")
    assert result.exit_code == 0
    assert "kept; load above 1" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at: [10, 5]", "att: [10, 5]", "problem.yaml:4: missing: 'at'"),
        ("at: [10, 5]", "at: [10, 5], cost: 1", "problem.yaml:4: unknown key 'cost'; expected name, at, below"),
        ("at: [10, 5]", "at: [10, 5], below: faro", "problem.yaml:4: there is no broker 'faro'"),
        ("at: [10, 5]", "at: [10]", "porto: at [10]; expected 2 numbers"),
        ("name: porto", "name: lisbon", "problem.yaml:4: there is another 'lisbon'"),
        ("rent < 500", "rent <", "problem.yaml:7: column 7"),
        ("rent < 500", "rent > 5000", "problem.yaml:7: ana: 'rent > 5000' matches nothing; expected something within"),
        ("[0, 2000]", "[2000, 0]", "problem.yaml:5: rent: 2000 to 0; expected a lowest value below the highest"),
        ("[0, 2000]", "[5, 5]", "problem.yaml:5: rent: 5 to 5; expected a lowest value below the highest"),
        ("[0, 2000]", "[0, 1.0e+300]", "problem.yaml:5: rent: 0 to 1e+300; expected values from -1e+30 to 1e+30"),
        ("[0, 2000]", "[-1.0e+308, 1.0e+308]", "problem.yaml:5: rent: -1e+308 to 1e+308; expected values from"),
        ("[1, 6]", "[1, 6], y: [0, 1.0e-200]", "attributes: all events together measure 1e-196; expected 1e-100 to"),
        ("at: [10, 5]", "at: [1.0e+200, 5]", "problem.yaml:4: porto: at [1e+200, 5]; expected coordinates from"),
        ("at: [12, 4]", "at: [12, 1.0e+18]", "problem.yaml:8: bob: at [12, 1e+18]; expected coordinates from"),
        ("beta_max: 1\n", "beta_max: 1.0e+308\n", "beta_max: 1e+308; expected 1 <= beta <= beta_max <= 1e+12"),
        (
            "at: [10, 5]",
            "at: [10, 5], below: porto",
            "problem.yaml:4: the way up from porto is a cycle; expected one to",
        ),
        ("limit: 40", "limit: 4", "no broker is near enough to rui"),
        ("limit: 40", f"limit: 1{'0' * 320}", "is not a number up to 1.79769e+308"),
        ("alpha: 1", "alpha: 1.0", "problem.yaml:14: 1.0 is not a whole number of at least 1"),
        ("alpha: 1", "alpha: none", "problem.yaml:14: 'none' is not a whole number of at least 1"),
        ("at: [10, 5]", "at: [10, 5], share: 1", "share: some leaves have one and some do not"),
        ("publisher: [0, 0]", "publisher: here", "problem.yaml:1: 'here' is not a list of numbers"),
    ],
)
def test_what_is_wrong_with_a_problem_is_said_with_its_place(folder, old, new, message):
    result = run_text(folder, PROBLEM.replace(old, new, 1), "--out", "plan.json")
    assert result.exit_code == 1
    assert message in result.stderr
    assert not (folder / "plan.json").exists()


@pytest.mark.parametrize(
    "ranges", ["rent: [0, 1.0e+30], rooms: [0, 1.0e+30]", "rent: [0, 1.0e-40], rooms: [0, 1.0e-40]"]
)
def test_what_is_placed_at_the_bounds_can_be_simulated(folder, ranges):
    text = PROBLEM.replace("rent: [0, 2000], rooms: [1, 6]", ranges).replace("[10, 5]", "[1.0e+12, 0]")
    for wanted in ("rent < 500", "rent > 1500 and rooms > 2", "rent between 300 and 600", "rent >= 1400"):
        text = text.replace(wanted, "rent > 0" if "500" in wanted else "rooms > 0")
    (folder / "problem.yaml").write_text(text.replace("delay: 0.5", "delay: 1.0e+12"))
    result = run("problem.yaml", "--algorithm", "all", "--moves", 20, "--out", "plan.json", "--json")
    assert result.exit_code == 0, result.output
    simulated = CliRunner().invoke(app, ["simulate", "--plan", "plan.json", "--publications", "50"])
    assert simulated.exit_code == 0, simulated.output


def test_results_and_the_best_plan_are_drawn(folder):
    result = run("problem.yaml", "--algorithm", "closest", "--algorithm", "greedy-offline", "--plots", "pictures")
    assert result.exit_code == 0, result.stderr
    for name in ("triangles", "loads", "filters"):
        assert (folder / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"wrote pictures/{name}.png" in result.stderr


def test_a_designed_tree_is_compared_with_the_given_one(folder):
    text = PROBLEM.replace("{name: porto, at: [10, 5]}", "{name: porto, at: [10, 5]}\n  - {name: faro, at: [11, 0]}")
    (folder / "problem.yaml").write_text(text.replace("beta_max: 1\n", "beta_max: 2\n"))
    result = run("problem.yaml", "--algorithm", "closest", "--design", 3, "--moves", 60, "--json", "--out", "plan.json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [one["algorithm"] for one in found["algorithms"]] == ["closest", "given tree", "designed tree"]
    assert found["algorithms"][2]["violations"] == []
    assert json.loads((folder / "plan.json").read_text())["algorithm"] == found["best"]


def test_a_tree_that_is_too_wide_is_designed_anew_or_refused_at_once(folder, monkeypatch):
    brokers = "".join(f"  - {{name: b{number}, at: [10, {number}]}}\n" for number in range(4))
    wide = PROBLEM.replace("brokers:\n", f"brokers:\n{brokers}").replace("beta_max: 1\n", "beta_max: 9\n")
    wide = wide.replace("delay: 0.5", "delay: 3").replace("limit: 40", "limit: 60")
    options = ["--algorithm", "closest", "--design", 3, "--moves", 60, "--out", "plan.json"]
    result = run_text(folder, wide, *options)
    assert result.exit_code == 0, result.output
    assert "kept; load above 1; more than 3 children" in " ".join(result.stdout.split())
    assert json.loads((folder / "plan.json").read_text())["algorithm"] == "designed tree"
    monkeypatch.setattr(
        "rankcast.cli.place.command._place", lambda *_, **__: pytest.fail("placed before it was checked")
    )
    refused = run_text(folder, wide.replace("delay: 3", "delay: 0"), *options, "--overwrite")
    assert refused.exit_code == 1
    assert "degree: the publisher has 6 children in the given tree; expected at most 3" in refused.stderr


def test_more_subscribers_than_memory_holds_are_refused(folder):
    result = run_text(folder, "workload: uniform\nsubscribers: 1000000000\nbrokers: 10\n")
    assert result.exit_code == 1
    assert "problem.yaml:2: 1000000000 is not a whole number from 1 to 5,000,000" in result.stderr


def test_an_unknown_algorithm_is_named(folder):
    result = run("problem.yaml", "--algorithm", "magic")
    assert result.exit_code == 1
    assert "--algorithm: there is no 'magic'; expected greedy-online" in result.stderr


PEOPLE = """\
version: 1
subscribers:
  - {id: ana, subscriptions: [{filter: "rent < 500 and city = 'Faro'"}, {filter: "rooms > 4"}]}
  - {id: bob, subscriptions: [{filter: "rent > 1500 and rooms > 2"}]}
  - {id: eva, subscriptions: [{filter: "rent between 300 and 600 and floor > 2"}]}
  - {id: rui, subscriptions: [{filter: "rent >= 1400 and city in ('Faro', 'Porto')"}]}
"""
DEPLOYMENT = """\
publisher: [0, 0]
brokers:
  - {name: lisbon, at: [10, 0]}
  - {name: porto, at: [10, 5]}
attributes: {rent: [0, 2000], rooms: numbers, city: words}
subscribers: people.yaml
sites:
  - {at: [12, 1], subscribers: [ana, eva]}
  - {at: [12, 4], limit: 40}
delay: 0.5
beta: 1
beta_max: 1.5
"""


@pytest.fixture
def deployment(folder):
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "deployment.yaml").write_text(DEPLOYMENT)
    return folder / "deployment.yaml"


def test_a_subscriber_file_at_some_sites_is_placed(deployment):
    result = run("deployment.yaml", "--algorithm", "local-search", "--out", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "floor: no axis; conditions on it (1) are taken as if anything would do" in result.stdout
    plan = json.loads((deployment.parent / "plan.json").read_text())
    assert plan["words"] == {"city": ["Faro", "Porto"]}
    assert plan["attributes"] == {"rent": [0, 2000], "rooms": [2, 4], "city": [0, 3]}
    assert sorted(name for broker in plan["brokers"] for name in broker["subscribers"]) == ["ana", "bob", "eva", "rui"]
    assert CliRunner().invoke(app, ["simulate", "--plan", "plan.json", "--publications", "500"]).exit_code == 0


def test_sampled_events_are_the_density(deployment):
    events = [{"id": str(at), "rent": at * 20, "rooms": 3, "city": "Faro"} for at in range(99)]
    (deployment.parent / "flats.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    deployment.write_text(DEPLOYMENT + "events: flats.jsonl\n")
    result = run("deployment.yaml", "--algorithm", "greedy-offline", "--out", "plan.json", "--json")
    assert result.exit_code == 0, result.stderr
    plan = json.loads((deployment.parent / "plan.json").read_text())
    assert len(plan["events"]) == 99
    assert 0 < plan["traffic"] <= 2
    assert CliRunner().invoke(app, ["simulate", "--plan", "plan.json", "--publications", "500"]).exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[ana, eva]", "[ana, zoe]", "deployment.yaml:8: there is no subscriber 'zoe'"),
        ("limit: 40", "subscribers: [ana, bob]", "deployment.yaml:9: 'ana' is at another site, too"),
        ("limit: 40", "subscribers: [bob]", "sites: rui are at none; expected a site that lists them"),
        ("city: words", "city: letters", "'letters' is not a range such as [0, 100], or numbers, times or words"),
        ("people.yaml", "nobody.yaml", "nobody.yaml"),
        ("[0, 2000]", "[5, 5]", "deployment.yaml:5: rent: 5 to 5; expected a lowest value below the highest"),
        ("at: [12, 4]", "at: [12, 1.0e+18]", "deployment.yaml:9: a site: at [12, 1e+18]; expected coordinates from"),
        ("subscribers: [ana, eva]", "limit: 9", "deployment.yaml:9: another site without subscribers"),
    ],
)
def test_what_is_wrong_with_a_deployment_is_said_with_its_place(deployment, old, new, message):
    deployment.write_text(DEPLOYMENT.replace(old, new, 1))
    result = run("deployment.yaml")
    assert result.exit_code == 1
    assert message in result.stderr


def test_attributes_that_are_not_named_are_found_and_said(deployment):
    people = PEOPLE.replace("rent < 500", "note like '%sunny%' and rent < 500").replace(
        "rent >", "note like 'a%' and rent >"
    )
    (deployment.parent / "people.yaml").write_text(people)
    deployment.write_text("".join(line for line in DEPLOYMENT.splitlines(True) if "attributes" not in line))
    result = run("deployment.yaml", "--algorithm", "greedy-offline")
    assert "attributes, of those that filters speak of: city, rent, rooms" in result.stdout
    document = json.loads(run("deployment.yaml", "--algorithm", "greedy-offline", "--json").stdout)
    assert document["attributes"] == ["city", "rent", "rooms"]
