"""`rankcast simulate` with subscribers and events of one's own: each gets what `rankcast match` gives."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import command_line
from rankcast.covering.group.cover import DEFAULT_CHECKING
from rankcast.hub import Hub
from rankcast.model.advertisements import Advertisement, AdvertisementId
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.plan import GivenLoad, SimulationPlan, run_of
from rankcast.overlay.simulation.simulator import NO_TIME
from rankcast.overlay.simulation.topologies import balanced_tree
from rankcast.testing.conformance import cases

PEOPLE = """\
version: 1
subscribers:
  - id: ana
    deliver: {policy: sliding, k: 3, window: 100}
    subscriptions:
      - {id: fair, filter: "rent between 500 and 900", rank: 0.9}
      - {id: large, filter: "rooms >= 3", rank: 0.6}
  - {id: rui, deliver: {policy: periodic, k: 2, period: 6h}, subscriptions: [{filter: "city = 'Porto'"}]}
  - {id: eva, deliver: {policy: topkw, k: 2, window: 1h, ties: keep}, subscriptions: [{filter: "rooms >= 2"}]}
  - {id: zoe, notify: {every: 1d}, subscriptions: [{filter: "rent < 700"}]}
"""
NETWORK = """\
links: [[porto, coimbra, 5ms], [coimbra, lisbon, 5ms], [coimbra, madrid, 20ms]]
subscribers: people.yaml
events: [flats.jsonl]
places: {ana: porto, rui: lisbon}
publishers: {/feeds/flats: madrid}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.yaml").write_text(PEOPLE)
    assert command_line.run("generate", "flats", "--events", 120, "--out", tmp_path / "flats.jsonl").exit_code == 0
    return tmp_path


def simulate(folder, text, *options):
    (folder / "network.yaml").write_text(text)
    return command_line.run("simulate", folder / "network.yaml", *options)


@pytest.mark.parametrize("strategy", [Strategy.FLOODING, Strategy.REGULAR_COVER, Strategy.EXACT_FAIR])
def test_everybody_gets_the_notifications_of_match(folder, strategy):
    matched = command_line.printed("match", folder / "flats.jsonl", "-s", folder / "people.yaml")
    result = simulate(folder, f"{NETWORK}strategy: {strategy.value}\n", "--json")
    found = json.loads(result.stdout)
    by_match = Counter(line["subscriber"] for line in matched)
    assert {name: own["deliveries"] for name, own in found["subscribers"].items()} == by_match
    assert len(by_match) == 4
    assert (found["missing"], found["others"], found["rejected"]) == (0, 0, {})
    assert found["deliveries"] == found["expected_deliveries"] == len(matched)
    homes = {name: own["broker"] for name, own in found["subscribers"].items()}
    assert homes == {"ana": "porto", "rui": "lisbon", "eva": "madrid", "zoe": "porto"}  # the last two: edges in turn
    assert found["told"] <= found["told_without_cover"] == 2 * 4  # two links for each but that of eva


@given(cases(everything=True), st.data())
def test_without_delay_brokers_deliver_what_one_hub_does(case, data):
    topology = balanced_tree(2, 2, NO_TIME)
    brokers = st.sampled_from(topology.brokers)
    sources = sorted({event.source for event in case.events})
    load = GivenLoad(
        tuple((data.draw(brokers), Advertisement(AdvertisementId(source), source)) for source in sources),
        tuple((data.draw(brokers), subscriber) for subscriber in case.subscribers),
        tuple((AdvertisementId(event.source), event) for event in case.events),
    )
    strategy = data.draw(st.sampled_from((Strategy.FLOODING, Strategy.REGULAR_COVER, Strategy.GROUP_COVER)))
    run = run_of(SimulationPlan(topology, strategy, DEFAULT_CHECKING, NO_TIME, (), 1, load))
    run.go()
    hub = Hub(case.subscribers)
    told = [found for event in case.events for found in hub.publish(event, event.time)] + hub.finish()
    assert run.received == Counter((found.subscriber, found.subscription, found.event.identity) for found in told)


def test_the_report_says_what_went_where_and_what_was_saved(folder):
    text = simulate(folder, NETWORK, "--plot", folder / "network.svg").stdout
    assert "madrid    coimbra " in text
    assert "ana          porto    the best 3 of the last 100" in text
    assert "of 8 subscriptions that RegularK tells" in text
    assert "times of 360 with Flooding" in text
    assert "deliveries, as by one hub" in text
    assert (folder / "network.svg").exists()


def test_an_event_that_arrives_behind_the_end_of_a_period_is_said_to_be_missing(folder):
    event = (
        '{{"specversion": "1.0", "id": "{}", "source": "/s", "type": "t", "time": "{}", "data": {{"city": "Porto"}}}}\n'
    )
    times = ("2026-01-01T05:59:59.999Z", "2026-01-01T06:30:00Z", "2026-01-01T06:40:00Z")
    lines = (event.format(number, time) for number, time in enumerate(times))
    (folder / "flats.jsonl").write_text("".join(lines))
    near = "links: [[a, b, 1ms]]\nsubscribers: people.yaml\nevents: flats.jsonl\npublishers: [a]\n"
    assert ", as by one hub" in simulate(folder, near.replace("1ms", "0s")).stdout
    found = simulate(folder, near + "places: {rui: b}\n").stdout
    assert "2 deliveries; one hub makes 3: 1 missing, 0 others" in found


def test_failures_cost_what_falls_into_them(folder):
    found = json.loads(
        simulate(folder, f"{NETWORK}failures: [{{crash: lisbon, after: 10, until: 80}}]\n", "--json").stdout
    )
    people = found["subscribers"]
    assert people["rui"]["deliveries"] < people["rui"]["by_one_hub"]
    assert all(people[name]["deliveries"] == people[name]["by_one_hub"] for name in ("ana", "eva", "zoe"))


def test_a_plan_says_where_everybody_is(folder):
    problem = """\
publisher: [0, 0]
brokers: [{name: lisbon, at: [10, 0]}, {name: porto, at: [10, 5]}]
subscribers: people.yaml
sites: [{at: [12, 4], subscribers: [ana, eva]}, {at: [12, 1]}]
"""
    (folder / "problem.yaml").write_text(problem)
    placed = command_line.run(
        "place", folder / "problem.yaml", "--algorithm", "greedy-offline", "--out", folder / "plan.json"
    )
    assert placed.exit_code == 0, placed.stderr
    plan = json.loads((folder / "plan.json").read_text())
    served = {name: broker["name"] for broker in plan["brokers"] for name in broker["subscribers"]}
    text = "plan: plan.json\nsubscribers: people.yaml\nevents: flats.jsonl\n"
    found = json.loads(simulate(folder, text, "--json", "--plot", folder / "plan.svg").stdout)
    assert {name: own["broker"] for name, own in found["subscribers"].items()} == served
    assert list(found["publishers"]) == ["publisher"]
    assert (found["missing"], found["others"]) == (0, 0)


def test_what_is_wrong_in_a_file_that_is_named_is_set_aside(folder):
    (folder / "people.yaml").write_text(PEOPLE + '  - {id: bob, subscriptions: [{filter: "rent <"}]}\n')
    with (folder / "flats.jsonl").open("a") as lines:
        lines.write("nothing\n")
    (folder / "more.yaml").write_text("version: 1\nadvertisements: [{id: flats, source: /feeds/flats}]\n")
    result = simulate(folder, NETWORK.replace("rui:", "rue:") + "advertisements: more.yaml\n")
    assert result.exit_code == 1
    assert "people.yaml:11: subscriber 'bob'" in result.stderr
    assert "flats.jsonl:121: " in result.stderr
    assert "network.yaml:4: there is no subscriber 'rue'; did you mean 'rui'?" in result.stderr
    assert "120 events published" in result.stdout


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("places: {ana: porto", "places: {ana: faro"), "4: there is no broker 'faro'"),
        (("madrid}", "faro}"), "5: there is no broker 'faro'"),
        (("events: [flats.jsonl]\n", ""), "1: missing: 'events'"),
        (("subscribers: people.yaml", "subscribers: 3"), "2: 3 is not the name of a subscriber file"),
        (("events: [flats.jsonl]", "events: 3"), "3: 3 is not the name of an event file, or a list of names"),
        (("publishers: {/feeds/flats: madrid}", "k: 3"), "5: unknown key 'k'; expected "),
        (("publishers: {/feeds/flats: madrid}", "plan: plan.json"), "a mapping with one of topology, links and plan"),
        (("publishers: {/feeds/flats: madrid}", "failures: [{crash: porto, after: 500}]"), "there are only 120 events"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(folder, change, problem):
    result = simulate(folder, NETWORK.replace(*change))
    assert result.exit_code == 1
    assert f"network.yaml:{problem}" in result.stderr or problem in result.stderr
    assert result.stdout == ""


def test_an_advertisement_that_the_strategy_cannot_do_is_refused(folder):
    advertised = "advertisements: [{id: flats, source: /feeds/flats, k: 1, ranking: preference}]\n"
    (folder / "people.yaml").write_text(PEOPLE.replace("version: 1\n", f"version: 1\n{advertised}"))
    assert "advertisement 'flats': k: 1 has no meaning for RegularCover" in simulate(folder, NETWORK).stderr
    found = json.loads(simulate(folder, f"{NETWORK}strategy: AncestorCoverK\n", "--json").stdout)
    assert (found["missing"], found["others"]) == (0, 0)
