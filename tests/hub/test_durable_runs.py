"""Durable hubs against hubs that never ended: random runs, reopened or killed anywhere."""

import json
import random
import subprocess
import sys
from datetime import timedelta
from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import durable_publisher
import rankcast.hub.core
from durable_publisher import plain, publish, subscribe
from hub_builders import NOW, at, crash, flat, got
from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.policies import (
    AT_ONCE,
    AllMatches,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TieRule,
    TopKWindow,
)
from rankcast.model.relevance import Decay, IdealPoint, Target
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.testing.clock import FakeClock
from rankcast.testing.strategies import bounded_windows

TIES = st.sampled_from(TieRule)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 2), ties=TIES),
    st.builds(Periodic, st.integers(1, 2), st.just(timedelta(seconds=3)), ties=TIES),
    st.builds(Sliding, st.integers(1, 2), st.integers(1, 4), st.none() | st.just(Diversity(0.5, {"x": 1})), ties=TIES),
    st.builds(TopKWindow, st.integers(1, 2), st.integers(1, 4) | st.just(timedelta(seconds=3)), ties=TIES),
    bounded_windows(st.integers(1, 2), st.integers(1, 4)),
)
NAMES = st.sampled_from(["ana", "rui"])
RANKS = st.sampled_from([{"x >= 0": 0.5}, {"x > 1": 1.0, "x > 0": 0.4, "true": 0.1}, {"x = 2": 0.3}])
WAYS = st.sampled_from([AT_ONCE, OnDemand(), Digest(timedelta(seconds=2)), Digest(timedelta(seconds=5))])
PUBLICATIONS = st.tuples(
    st.just("publish"),
    st.none() | st.integers(0, 9),
    st.integers(0, 3),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(-1, 4),
)
STEPS = st.one_of(
    PUBLICATIONS,
    PUBLICATIONS,
    st.tuples(st.just("wait"), st.integers(1, 4)),
    st.tuples(st.just("subscribe"), NAMES, RANKS, POLICIES),
    st.tuples(st.just("update"), NAMES, RANKS, st.none() | POLICIES),
    st.tuples(st.just("notify"), NAMES, WAYS),
    st.tuples(st.just("own"), NAMES, POLICIES),
    st.tuples(st.just("decay"), NAMES, st.none() | st.just(Decay(timedelta(seconds=2)))),
    st.tuples(st.just("unsubscribe"), NAMES),
    st.tuples(st.just("advance")),
    st.tuples(st.just("finish")),
    st.tuples(st.just("reopen"), st.sampled_from([crash, Hub.close])),
)


def taken(hub, clock, step):
    """Take a step and return what it delivers; a step that is refused delivers the name of its error."""
    try:
        match step:
            case ("publish", name, x, lifetime, age):
                envelope = {} if lifetime is None else {"expirytime": clock() + timedelta(seconds=lifetime)}
                envelope |= {} if age is None else {"time": clock() - timedelta(seconds=age)}
                envelope |= {} if name is None else {"id": str(name)}
                return hub.publish({"x": x, **envelope}, now=None if x else clock())
            case ("subscribe", name, ranks, policy):
                hub.subscribe(name, ranks, deliver=policy)
            case ("update", name, ranks, policy):
                hub.update(name, subscriptions=ranks, deliver=policy)
            case ("notify", name, notify):
                hub.update(name, notify=notify)
            case ("own", name, policy):
                hub.update(name, subscriptions=[Subscription("own", parse_filter("x > 0"), deliver=policy)])
            case ("decay", name, decay):
                hub.update(name, decay=decay)
            case ("unsubscribe", name):
                hub.unsubscribe(name)
            case ("advance",):
                return hub.advance()
            case ("finish",):
                return hub.finish()
    except rankcast.RankcastError as error:
        return type(error).__name__
    return []


def explained(hub):
    readable = [
        (one.id, name) for one in hub.subscribers for name, policy in one.policies.items() if policy != AllMatches()
    ]
    return [hub.read(*names) for names in readable] + [
        (subscriber.id, x, str(hub.explain({"x": x}, subscriber.id))) for subscriber in hub.subscribers for x in (0, 2)
    ]


def test_relevance_refresh_and_decay_last(opened):
    ideal = Subscription("near", parse_filter("true"), relevance=IdealPoint([Target("x", 5)], reach=10))
    soon = Subscription("soon", parse_filter("x > 0"), rank=0.5, refresh=timedelta(seconds=2))
    ana = Subscriber("ana", (ideal,), TopKWindow(1, timedelta(seconds=9)), decay=Decay(timedelta(seconds=5)))
    hub, other = opened(subscribers=[ana, Subscriber("rui", (soon,), Continuous(1))]), Hub(clock=FakeClock(NOW))
    for subscriber in hub.subscribers:
        other.add(subscriber)
    for number, x in enumerate((5, 1, 4, 0, 6, 2)):
        assert hub.publish(flat(number, x=x), now=at(number)) == other.publish(flat(number, x=x), now=at(number))
        hub = opened()
        assert hub.subscribers == other.subscribers
    assert got(hub.finish()) == got(other.finish())


FILES = count()


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=25), every=st.integers(1, 6), lateness=st.none() | st.integers(0, 3))
def test_a_hub_that_is_reopened_does_what_one_that_never_ended_does(tmp_path_factory, steps, every, lateness):
    path = tmp_path_factory.getbasetemp() / f"random-{next(FILES)}.hub"
    clock = FakeClock(NOW)
    allowed = None if lateness is None else timedelta(seconds=lateness)

    def opened():
        return Hub(path=path, clock=clock, sync="normal", snapshot_every=every, lateness=allowed)

    durable, other = opened(), Hub(clock=clock, lateness=allowed)
    for hub in (durable, other):
        hub.subscribe("eva", {"x > 1": 1.0, "true": 0.5}, deliver=TopKWindow(1, timedelta(seconds=3)))
    for step in steps:
        if step[0] == "reopen":
            step[1](durable)
            durable = opened()
        elif step[0] == "wait":
            clock.advance(timedelta(seconds=step[1]))
        else:
            assert taken(durable, clock, step) == taken(other, clock, step)
        assert durable.subscribers == other.subscribers
        assert explained(durable) == explained(other)
        assert durable.late_count == other.late_count
    durable.close()


CHILD = Path(durable_publisher.__file__)
EVENTS = 150


def killed(path, first, lines, sync, lateness):
    """Let a child publish from a number on and kill it once it has printed so many lines; return all it printed."""
    with subprocess.Popen(
        [sys.executable, CHILD, path, sync, str(lateness), str(first), str(EVENTS)], stdout=subprocess.PIPE, text=True
    ) as child:
        printed = list(islice(child.stdout, lines))
        child.kill()
        printed += child.stdout
    return [json.loads(line) for line in printed if line.endswith("\n")]


@pytest.mark.parametrize("lateness", [None, 3])
def test_killed_at_any_moment_a_hub_loses_nothing_and_delivers_nothing_twice(path, lateness):
    """The publisher starts again with the first event that was not acknowledged to it, as any publisher would.

    With a lateness of three seconds some events wait when the process ends, and some come too late.
    """
    allowed = durable_publisher.allowed(str(lateness))
    with Hub(lateness=allowed) as other:
        subscribe(other)
        expected = [note for number in range(EVENTS) for note in plain(publish(other, number))] + plain(other.finish())
        late = other.late_count
    chance = random.Random(17)
    delivered, first = [[]], 0
    for sync in ("full", "normal", "full", "normal"):
        begun, *calls = killed(path, first, 1 + chance.randrange(30), sync, lateness)
        assert_only_the_last_call_is_in_doubt(begun["recovered"], delivered)
        delivered += [begun["recovered"]] * (begun["recovered"] != delivered[-1])
        for call in calls:
            assert call["published"] == first
            delivered.append(call["notifications"])
            first += 1
    with Hub(path=path, sync="normal", lateness=allowed) as hub:
        recovered = plain(hub.recovered)
        assert_only_the_last_call_is_in_doubt(recovered, delivered)
        delivered += [recovered] * (recovered != delivered[-1])
        delivered += [plain(publish(hub, number)) for number in range(first, EVENTS)]
        delivered.append(plain(hub.finish()))
        assert hub.late_count >= late
    assert first > 4
    assert bool(late) == (lateness is not None)
    assert [note for notifications in delivered for note in notifications] == expected


def assert_only_the_last_call_is_in_doubt(recovered, delivered):
    """What is recovered is what the last call printed, or nothing of it was ever printed."""
    printed = {json.dumps(note) for notifications in delivered for note in notifications}
    assert recovered == delivered[-1] or not printed & set(map(json.dumps, recovered))
