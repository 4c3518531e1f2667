"""Who is chosen is a matter of chance, so fairness is tested as statisticians do.

Each test counts how often each of n subscriptions, which all match, is among the k of P events. When all are equally
likely the sum of squares ((count - P k/n)^2 / (P p (1-p))) (n-1)/n, p = k/n, follows the chi-squared distribution with
n-1 degrees of freedom. The limit is the one that a fair overlay exceeds with probability 10^-6: that is how often a new
seed would raise a false alarm. The seeds here are fixed, so nothing flickers.
"""

import math
from datetime import timedelta

import numpy as np
import pytest

from broker_bench import anything, subscriber
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.broker import Settings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import chain, random_tree

FALSE_ALARM = 1e-6
NORMAL_LIMIT = 4.753424
"""A standard normal variable is above with probability 10^-6."""


def limit(degrees):
    """The chi-squared limit for the false alarm, by the approximation of Wilson and Hilferty."""
    part = 2 / (9 * degrees)
    return degrees * (1 - part + NORMAL_LIMIT * math.sqrt(part)) ** 3


def statistic(counts, events, k):
    counts = np.asarray(counts)
    share = k / len(counts)
    return float(((counts - events * share) ** 2).sum() / (events * share * (1 - share)) * (1 - 1 / len(counts)))


def nested(number):
    """Return one of many filters that all accept 50, the earlier the wider: the first of a broker hides the rest."""
    return f"x between {number} and {100 - number}"


def audience(strategy, topology, people=24, k=3, seed=0, churn=0):
    """Let people subscribe in random places; some go, and others come; then heartbeats pass."""
    overlay = Simulation(topology, Settings(strategy), seed=seed)
    overlay.advertise(topology.brokers[0], anything(k=k))
    overlay.settle()
    random = np.random.default_rng(seed)
    for number in range(people + churn):
        where = topology.brokers[int(random.integers(1, len(topology.brokers)))]
        overlay.subscribe(where, subscriber(f"s{number}", nested(number)))
        overlay.settle()
    for number in random.permutation(people + churn)[:churn].tolist():
        overlay.unsubscribe(f"s{number}")
        overlay.settle()
    return overlay


def counted(overlay, events):
    known = len(overlay.measures.latencies)
    for number in range(events):
        overlay.publish(overlay.topology.brokers[0], "a", Event(f"{known}-{number}", "/a", data={"x": 50}))
        overlay.settle()
    people = [name for broker in overlay.brokers.values() for name in broker.subscribers.serving.subscribers]
    return [overlay.measures.deliveries[SubscriptionKey(name, "0")] for name in people]


def test_the_limit_is_that_of_the_distribution():
    """Of many sums of squares a thousandth exceeds the limit for a thousandth, and hardly any the one in use."""
    random = np.random.default_rng(1)
    sums = (random.standard_normal((200_000, 23)) ** 2).sum(axis=1)
    part = 2 / (9 * 23)
    thousandth = 23 * (1 - part + 3.0902 * math.sqrt(part)) ** 3
    assert 0.0008 < (sums > thousandth).mean() < 0.0012
    assert (sums > limit(23)).mean() <= 1e-5


@pytest.mark.parametrize("churn", [0, 16], ids=["as they came", "after churn"])
@pytest.mark.parametrize("strategy", [Strategy.REGULAR_K, Strategy.EXACT_FAIR], ids=lambda one: one.value)
def test_each_match_is_as_likely_as_any_other(strategy, churn):
    events, k = 400, 3
    overlay = audience(strategy, random_tree(7, np.random.default_rng(5)), k=k, churn=churn)
    counts = counted(overlay, events)
    assert len(counts) == 24
    assert sum(counts) == events * k
    assert statistic(counts, events, k) < limit(23)


def test_the_test_finds_unfairness():
    """What is known counts alone: those who are hidden behind others get too little."""
    overlay = audience(Strategy.ANCESTOR_COVER_K, random_tree(7, np.random.default_rng(5)))
    assert statistic(counted(overlay, 400), 400, 3) > 2 * limit(23)


def test_split_weights_are_fair_for_one_when_they_are_fresh():
    """With k=1 and one chain of subscriptions, a forwarded one stands for exactly those below it."""
    overlay = audience(Strategy.ANCESTOR_FAIR_K, chain(4, 1), k=1)
    overlay.run_for(timedelta(minutes=2))
    counts = counted(overlay, 1_000)
    assert statistic(counts, 1_000, 1) < limit(23)
