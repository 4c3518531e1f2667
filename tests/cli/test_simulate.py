"""`rankcast simulate`: a network of brokers from a file, in tables, JSON and a picture."""

import json

import pytest

import command_line
from rankcast.cli.simulate.picture import layout
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.topologies import balanced_tree, chain

NETWORK = """\
topology: {shape: chain, cores: 3, edges: 2, delay: 5ms}
strategy: AncestorCoverK
k: 3
subscribers: 40
widths: [1, 1]
publications: 10
publishers: [edge0.0]
"""


def run(*arguments):
    return command_line.run("simulate", *arguments)


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "network.yaml"
    path.write_text(NETWORK)
    return path


def test_json_has_everything_and_the_same_file_gives_the_same(network):
    first, second = (run(network, "--json") for _ in range(2))
    assert first.stdout == second.stdout
    found = json.loads(first.stdout)
    assert found["deliveries"] == sum(found["hops"].values()) == 30
    assert sum(broker["own"] for broker in found["brokers"].values()) == 40
    assert found["messages"].keys() == found["bytes"].keys()
    assert sum(link["messages"] for link in found["links"]) == sum(found["messages"].values())
    assert sum(link["events"] for link in found["links"]) == found["messages"]["Publish"]
    assert (found["seed"], found["ranking"]) == (1, {"scoring": "none", "ties": "fair"})


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_can_be_named(network, strategy):
    text = NETWORK.replace("AncestorCoverK", strategy.value)
    network.write_text(text if strategy.takes_k else text.replace("k: 3\n", ""))
    found = json.loads(run(network, "--json").stdout)
    assert found["deliveries"] == (30 if strategy.takes_k else 400)  # everybody wants everything


@pytest.mark.parametrize(
    ("topology", "brokers"),
    [
        ("topology: {shape: star, edges: 4}", 5),
        ("topology: {shape: tree, branching: 2, depth: 2}", 7),
        ("topology: {shape: random, brokers: 6}", 6),
        ("links: [[porto, lisbon, 5ms], [porto, braga]]", 3),
    ],
)
def test_every_shape_can_be_simulated_and_drawn(tmp_path, topology, brokers):
    network, picture = tmp_path / "network.yaml", tmp_path / "network.svg"
    network.write_text(f"{topology}\nsubscribers: 20\npublications: 2\n")
    result = run(network, "--plot", picture)
    assert f"{brokers} brokers" in result.stdout
    assert picture.read_text().startswith("<?xml")


CHANGING = """\
topology: {shape: chain, cores: 3, edges: 2, delay: 5ms}
subscribers: 30
churn: 0.1
publications: 40
publishers: [edge0.0, edge2.1]
jitter: 2ms
"""


def test_group_cover_is_decided_as_the_file_says(network):
    forwarded = {}
    for decided in ("{by: exact}", "{by: probabilistic, delta: 1e-9}", "{by: pairwise}"):
        network.write_text(CHANGING + f"strategy: GroupCover\ngroup_cover: {decided}\n")
        found = json.loads(run(network, "--json").stdout)
        assert found["deliveries"] == found["expected_deliveries"] > 0
        forwarded[decided] = found["messages"]["Forward"]
    exact, probabilistic, pairwise = forwarded.values()
    assert exact == probabilistic < pairwise  # ranges of one attribute: what several cover together counts


@pytest.mark.parametrize("strategy", Strategy)
def test_nothing_is_lost_while_subscribers_come_and_go_and_publishers_take_turns(network, strategy):
    network.write_text(CHANGING + f"strategy: {strategy.value}\n" + ("k: 4\n" if strategy.takes_k else ""))
    found = json.loads(run(network, "--json").stdout)
    assert found["deliveries"] == found["expected_deliveries"] > 0
    assert ("Withdraw" in found["messages"]) == (strategy is not Strategy.FLOODING)
    assert list(found["publishers"]) == ["edge0.0", "edge2.1"]
    assert found["rejected"] == {}


@pytest.mark.parametrize("keeps", ["true", "false"])
@pytest.mark.parametrize("strategy", [Strategy.REGULAR_COVER, Strategy.ANCESTOR_COVER_K, Strategy.EXACT_FAIR])
def test_failures_cost_what_falls_into_them_and_nothing_after_the_repair(network, strategy, keeps):
    crash = f"failures: [{{crash: core1, after: 10, until: 20, keeps_state: {keeps}}}]\n"
    text = CHANGING + f"strategy: {strategy.value}\n" + ("k: 4\n" if strategy.takes_k else "") + crash
    network.write_text(text)
    found = json.loads(run(network, "--json").stdout)
    assert 0 < found["deliveries"] <= found["expected_deliveries"]
    if strategy is Strategy.REGULAR_COVER:  # with a k, others beyond the cut are not needed
        assert found["deliveries"] < found["expected_deliveries"]
        assert f"of {found['expected_deliveries']:,}; failures cost the rest" in run(network).stdout
    before = json.loads(run_with(network, text.replace("publications: 40", "publications: 20")).stdout)
    after = found["deliveries"] - before["deliveries"], found["expected_deliveries"] - before["expected_deliveries"]
    assert after[0] == after[1] > 0


def test_a_link_that_is_cut_divides_the_network_until_it_is_mended(network):
    cut = "failures: [{cut: [core0, core1], after: 5, until: 30}, {crash: edge2.0, after: 0}]\n"
    found = json.loads(run_with(network, CHANGING + cut).stdout)
    assert found["deliveries"] < found["expected_deliveries"]
    assert "edge2.0" not in found["brokers"]
    assert found["down"] == ["edge2.0"]
    assert "9 brokers, seed 1\ndown at the end: edge2.0\n" in run(network).stdout


def test_slow_links_and_events_that_overtake_each_other_end_and_lose_nothing(network):
    slow = CHANGING.replace("delay: 5ms", "delay: 4s").replace("jitter: 2ms", "jitter: 900ms\ninterval: 1s")
    found = json.loads(run_with(network, slow).stdout)
    assert found["deliveries"] == found["expected_deliveries"] > 0
    hurried = json.loads(run_with(network, slow.replace("churn: 0.1", "churn: 0")).stdout)
    assert hurried["deliveries"] == hurried["expected_deliveries"] > 0
    assert found["latency_seconds"]["0.5"] > 4


def test_with_a_k_it_is_said_that_others_get_what_somebody_misses(network):
    cut = "strategy: RegularK\nk: 50\nfailures: [{cut: [core0, core1], after: 5}]\n"
    run_with(network, CHANGING + cut)
    assert "through failures nobody got the rest" in run(network).stdout


def test_what_the_file_of_a_network_says_itself_cannot_be_said_beside_it(network):
    for option in ("--seed", "--publications"):
        result = run(network, option, 4)
        assert result.exit_code == 2
        assert "go with --plan" in result.stderr


@pytest.mark.parametrize("failures", [(0, 1), (1, 0)])
def test_the_order_in_which_failures_are_listed_does_not_matter(network, failures):
    listed = ["{crash: core1, after: 10, until: 20}", "{crash: core1, after: 5, until: 10}"]
    found = json.loads(run_with(network, CHANGING + f"failures: [{', '.join(listed[at] for at in failures)}]\n").stdout)
    assert 0 < found["deliveries"] < found["expected_deliveries"]


def run_with(path, text):
    path.write_text(text)
    return run(path, "--json")


@pytest.mark.parametrize("topology", [chain(4, 3), balanced_tree(3, 2)], ids=["chain", "tree"])
def test_no_two_brokers_are_drawn_in_one_place(topology):
    places = layout(topology)
    assert places.keys() == set(topology.brokers)
    assert len({(round(across, 6), round(up, 6)) for across, up in places.values()}) == len(places)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "1: [] is not a mapping with a topology or links"),
        ("subscribers: 1", "1: {'subscribers': 1} is not a mapping with a topology or links"),
        ("topology: {shape: ring}", "1: 'ring' is not one of chain, star, tree, random"),
        ("topology: {edges: 2}", "1: missing: 'shape'"),
        ("topology: {shape: chain, cores: 2}", "1: missing: 'edges'"),
        ("topology: {shape: chain, cores: 0, edges: 2}", "cores: 0 is not a whole number of at least 1"),
        ("topology: {shape: chain, cores: 9999, edges: 9999}", "more than 10,000 brokers"),
        ("topology: {shape: star, edges: 2, delay: soon}", "'soon' is not a duration"),
        ("topology: {shape: star, edges: 2}\nstrateg: Flooding", "2: unknown key 'strateg'; did you mean 'strategy'?"),
        (
            "topology: {shape: star, edges: 2}\ngroup_cover: {by: luck}",
            "2: 'luck' is not one of pairwise, exact, probabilistic",
        ),
        ("topology: {shape: star, edges: 2}\ngroup_cover: {delta: 1.5}", "2: 1.5 is not a share from 0 to 1"),
        ("topology: {shape: star, edges: 2}\ngroup_cover: {delta: 1}", "2: delta: 1.0 is not a probability between"),
        ("topology: {shape: star, edges: 2}\nstrategy: Fast", "2: 'Fast' is not one of Flooding, "),
        ("topology: {shape: star, edges: 2}\nk: 2", "2: k: 2 has no meaning for RegularCover; expected one"),
        ("topology: {shape: star, edges: 2, delay: 6}", "1: from 'core' to 'edge0' a message may take 6 s"),
        ("links: [[a, b, 3s]]\njitter: 2s", "2: from 'a' to 'b' a message may take 5 s; expected less than"),
        ("links: [[a, b]]\nfailures: [{crash: a, after: 100}]", "2: fails after 100 events, but there are only 100"),
        ("topology: {shape: star, edges: 2}\nk: 0", "2: 0 is not a whole number from 1 to 10,000,000"),
        ("topology: {shape: star, edges: 2}\npublishers: [nowhere]", "2: there is no broker 'nowhere'"),
        ("topology: {shape: star, edges: 2}\npublishers: 2", "2: 2 is not a list of brokers that publishers are at"),
        ("topology: {shape: star, edges: 2}\nchurn: 2", "2: 2 is not a share from 0 to 1"),
        ("topology: {shape: star, edges: 2}\njitter: soon", "2: 'soon' is not a duration"),
        ("topology: {shape: star, edges: 2}\nfailures: 2", "2: 2 is not a list of crashes and cuts"),
        (
            "topology: {shape: star, edges: 2}\nfailures: [{after: 2}]",
            "2: {'after': 2} is not a failure such as {crash",
        ),
        ("topology: {shape: star, edges: 2}\nfailures: [{crash: x, after: 2}]", "2: there is no broker 'x'"),
        ("topology: {shape: star, edges: 2}\nfailures: [{cut: [edge0], after: 2}]", "2: ['edge0'] is not a link"),
        ("links: [[a, b], [b, c]]\nfailures: [{cut: [a, c], after: 2}]", "2: there is no link between 'a' and 'c'"),
        ("links: [[a, b]]\nfailures: [{crash: a, after: 2, until: 2}]", "until: 2; expected more than after, 2"),
        ("links: [[a, b]]\nfailures: [{crash: a, after: 2, keeps_state: 1}]", "2: 1 is not true or false"),
        (
            "links: [[a, b]]\nfailures: [{crash: a, after: 2, until: 9}, {crash: a, after: 8}]",
            "2: fails while it has already failed",
        ),
        ("topology: {shape: star, edges: 2}\nwidths: [0.6, 0.3]", "2: [0.6, 0.3] is not two shares"),
        ("topology: {shape: star, edges: 2}\nranking: {scoring: luck}", "2: 'luck' is not one of none, "),
        ("links: [[a, b], [b, c], [c, a]]", "do not join 3 brokers to a tree"),
        ("links: [[a, b], [b]]", "['b'] is not a link"),
        ("links: []", "at least one"),
        ("links: [[a, b, -5ms]]", "1: '-5ms' is not a duration"),
        ("links: [[a, b, 100000d]]", "1: '100000d' is not a duration from 0s to 1h"),
        ("links: [[a, b]]\ninterval: 9999999d", "2: '9999999d' is not a duration from 0s to 1h"),
        ("topology: {shape: [a], edges: 3}", "1: ['a'] is not one of chain"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(network, text, problem):
    network.write_text(text)
    result = run(network)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert result.stderr.startswith(f"{network}:")
    assert result.stderr.count("\n") == 1


def test_a_picture_that_cannot_be_written_is_told_before_any_work(network):
    assert "is not a picture" in run(network, "--plot", "network.doc").stderr
