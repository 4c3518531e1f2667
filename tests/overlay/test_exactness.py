"""An overlay delivers what one central matcher would: whatever comes and goes, breaks and is mended.

One machine for every strategy. Between any two steps messages may be on their way, doubled or reordered; some may be
lost. What is promised:

- no event is ever delivered twice to a subscriber, but one who moves may meet it at both brokers;
- once everything has arrived, an event goes to exactly those it should: all matches, or the k best;
- while other subscriptions come and go, one that stays misses nothing (without k);
- in a network in parts, the same holds within each part: without k at once, with k when links have been given up.
"""

from functools import cache
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from broker_network import Network, tree
from rankcast.language.parser import parse_filter
from rankcast.matching.naive import evaluate
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise, Publish, Subscribe, Unadvertise, Unsubscribe
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.snapshots import restored, snapshot

BEST = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID)
BEST_THEN_FAIR = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR)
FAIR = AudienceRanking()
BY_ID = AudienceRanking(Scoring.NONE, Ties.BY_ID)

PLAIN = [(strategy, None, FAIR) for strategy in Strategy]
RANKED = [
    (strategy, k, ranking)
    for strategy in (Strategy.REGULAR_K, Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K, Strategy.ANCESTOR_FAIR_K)
    for k, ranking in ((1, BEST), (2, BEST), (2, BEST_THEN_FAIR), (2, FAIR), (2, BY_ID))
]
RANKED.append((Strategy.EXACT_FAIR, 2, FAIR))


@cache
def parsed(text):
    return parse_filter(text)


PICK = st.integers(0, 99)
SPACES = ("true", "x <= 5", "x >= 3")
RANKS = (0.2, 0.5, 1.0)
RESTS = ("", "", "", " and y = 1", " or y = 2", " and name like '%a%'")
NAMES = ("anna", "otto")


def picked(choices, pick):
    return sorted(choices)[pick % len(choices)]


def filter_text(one, other, rest):
    return f"x between {min(one, other)} and {max(one, other)}{rest}"


def filter_texts():
    return st.builds(filter_text, st.integers(0, 9), st.integers(0, 9), st.sampled_from(RESTS))


class Overlay(RuleBasedStateMachine):
    strategy, k, ranking = Strategy.REGULAR_COVER, None, FAIR

    @initialize(
        parents=st.lists(st.integers(0, 5), min_size=1, max_size=4),
        seed=st.integers(0, 99),
        people=st.lists(st.tuples(filter_texts(), st.sampled_from(RANKS), st.integers(0, 9)), max_size=10),
    )
    def start(self, parents, seed, people):
        parents = [min(parent, at) for at, parent in enumerate(parents)]
        self.network = Network(tree(parents), Settings(self.strategy), seed)
        self.network.settle()
        self.people = {}
        self.publishers = {}
        self.published = 0
        self.cut = set()
        self.was_lossy = False
        self.stable = set()
        self.watched = {}
        self.advertise(0, seed, "true")
        for who, (text, rank, number) in enumerate(people):
            self.subscribe(who, text, rank, number)

    # What clients do

    def broker(self, number):
        return f"b{number % len(self.network.brokers)}"

    @rule(who=st.integers(0, 9), text=filter_texts(), rank=st.sampled_from(RANKS), number=st.integers(0, 9))
    def subscribe(self, who, text, rank, number):
        name = f"s{who}"
        where = self.people[name][0] if name in self.people else self.broker(number)
        self.touch(name)
        self.people[name] = (where, text, rank)
        self.enrol(name)

    def enrol(self, name):
        where, text, rank = self.people[name]
        self.network.say(where, Subscribe(Subscriber(name, (Subscription("1", parsed(text), rank),))), name)

    @precondition(lambda self: self.people)
    @rule(pick=PICK)
    def unsubscribe(self, pick):
        name = picked(self.people, pick)
        self.touch(name)
        where, *_ = self.people.pop(name)
        self.network.say(where, Unsubscribe(name), name)

    @precondition(lambda self: self.people)
    @rule(pick=PICK, text=filter_texts(), number=st.integers(0, 9))
    def move(self, pick, text, number):
        """Let somebody leave one broker and join another with another filter, before the first has told anybody."""
        name = picked(self.people, pick)
        self.touch(name)
        where, _, rank = self.people[name]
        self.network.say(where, Unsubscribe(name), name)
        self.people[name] = (self.broker(number), text, rank)
        self.enrol(name)

    def touch(self, name):
        self.stable.discard(name)
        for due in self.watched.values():
            due.discard(name)

    @rule(who=st.integers(0, 2), number=st.integers(0, 9), space=st.sampled_from(SPACES))
    def advertise(self, who, number, space):
        name = f"p{who}"
        self.watched = {event: due for event, due in self.watched.items() if event[0] != name}
        where = self.publishers[name][0] if name in self.publishers else self.broker(number)
        self.publishers[name] = (where, space)
        self.stable = set()
        self.announce(name)

    def announce(self, name):
        where, space = self.publishers[name]
        advertisement = Advertisement(name, f"/{name}", parsed(space), k=self.k, ranking=self.ranking)
        self.network.say(where, Advertise(advertisement), name)

    @precondition(lambda self: self.publishers)
    @rule(pick=PICK)
    def unadvertise(self, pick):
        name = picked(self.publishers, pick)
        self.settle()
        where, _ = self.publishers.pop(name)
        self.network.say(where, Unadvertise(name), name)

    # What links do

    def flying(self):
        return sorted(link for link, queue in self.network.flying.items() if queue)

    @precondition(lambda self: self.flying())
    @rule(pick=PICK, ahead=st.integers(0, 3))
    def arrive(self, pick, ahead):
        link = picked(self.flying(), pick)
        self.network.arrive(link, min(ahead, len(self.network.flying[link]) - 1))

    @precondition(lambda self: self.flying())
    @rule(pick=PICK, at=st.integers(0, 3), to=st.integers(0, 5))
    def double(self, pick, at, to):
        queue = self.network.flying[picked(self.flying(), pick)]
        queue.insert(to, queue[min(at, len(queue) - 1)])

    @precondition(lambda self: self.flying())
    @rule(pick=PICK, at=st.integers(0, 3))
    def lose(self, pick, at):
        queue = self.network.flying[picked(self.flying(), pick)]
        del queue[min(at, len(queue) - 1)]
        self.was_lossy = True
        self.watched = {}

    @precondition(lambda self: len(self.cut) < len(self.network.links))
    @rule(pick=PICK)
    def part(self, pick):
        self.settle()
        link = picked([link for link in self.network.links if link not in self.cut], pick)
        self.cut.add(link)
        self.network.part(*link)

    @precondition(lambda self: self.cut)
    @rule(pick=PICK)
    def mend(self, pick):
        link = picked(self.cut, pick)
        self.cut.remove(link)
        self.network.join(*link)
        self.stable = set()

    @precondition(lambda self: not self.cut)
    @rule(number=st.integers(0, 9), with_snapshot=st.booleans())
    def crash(self, number, with_snapshot):
        name = self.broker(number)
        born = None
        if with_snapshot:
            broker = self.network.brokers[name]
            born = restored(snapshot(broker), incarnation=broker.incarnation + 1)
        self.network.crash(name, born)
        self.stable, self.watched = set(), {}
        if not with_snapshot:
            for who, (where, *_) in self.publishers.items():
                if where == name:
                    self.announce(who)
            for who, (where, *_) in self.people.items():
                if where == name:
                    self.enrol(who)

    @rule(number=st.integers(0, 9))
    def put_aside_and_go_on(self, number):
        name = self.broker(number)
        before = snapshot(self.network.brokers[name])
        self.network.brokers[name] = restored(before)
        assert snapshot(self.network.brokers[name]) == before

    @rule()
    def settle(self):
        self.network.settle()
        if self.was_lossy:
            self.network.pass_time(5, rounds=4)
            self.was_lossy = False
        for (name, number), due in self.watched.items():
            got = {one.subscriber for _, one in self.network.delivered if one.event.identity == (f"/{name}", number)}
            assert due <= got, f"{sorted(due - got)} stayed and missed event {number} of {name}"
        self.watched = {}
        self.stable = set(self.people)

    # What must hold

    @rule(who=st.integers(0, 2), y=st.integers(0, 2), name=st.sampled_from(NAMES))
    def publish(self, who, y, name):
        """Publish when everything has arrived."""
        self.settle()
        if self.k is not None and self.cut:
            self.network.pass_time(16, rounds=4)
        publisher = f"p{who}"
        for x in range(10):
            known = len(self.network.delivered)
            event = self.say(publisher, {"x": x, "y": y, "name": name})
            self.network.settle()
            self.check(publisher, event, [one for _, one in self.network.delivered[known:]])

    @rule(who=st.integers(0, 2), x=st.integers(0, 9))
    def publish_meanwhile(self, who, x):
        """Publish while anything may be on its way."""
        publisher = f"p{who}"
        event = self.say(publisher, {"x": x, "y": 1, "name": "anna"})
        if self.k is None and not self.cut and not self.was_lossy and self.allows(publisher, event):
            self.watched[publisher, event.id] = {one for one in self.stable if self.wants(one, event)}

    def say(self, publisher, data):
        self.published += 1
        event = Event(str(self.published), f"/{publisher}", data=data)
        if publisher in self.publishers:
            self.network.say(self.publishers[publisher][0], Publish(publisher, event), publisher)
        return event

    def allows(self, publisher, event):
        return publisher in self.publishers and evaluate(
            parsed(self.publishers[publisher][1]).expression, event.attributes
        )

    def wants(self, name, event):
        return evaluate(parsed(self.people[name][1]).expression, event.attributes)

    def check(self, publisher, event, delivered):
        got = sorted(one.subscriber for one in delivered if one.event.identity == event.identity)
        assert len(got) == len(delivered) == len(set(got))
        if not self.allows(publisher, event):
            assert not got
            return
        reached = self.reached(self.publishers[publisher][0])
        wanting = [name for name in self.people if self.people[name][0] in reached and self.wants(name, event)]
        if self.k is None:
            assert got == sorted(wanting)
            return
        ranks = {name: 0.0 if self.ranking.scoring is Scoring.NONE else self.people[name][2] for name in wanting}
        best = sorted(wanting, key=lambda name: (-ranks[name], name))[: self.k]
        if self.ranking.ties is Ties.BY_ID:
            assert got == sorted(best)
        else:
            assert set(got) <= set(wanting)
            assert sorted(ranks[name] for name in got) == sorted(ranks[name] for name in best)

    def reached(self, start):
        found, waiting = {start}, [start]
        joined = [link for link in self.network.links if link not in self.cut]
        while waiting:
            here = waiting.pop()
            for one, other in joined:
                for there in {one, other} - found if here in (one, other) else ():
                    found.add(there)
                    waiting.append(there)
        return found

    def teardown(self):
        if hasattr(self, "network"):
            pairs = [(broker, one.subscriber, one.event.identity) for broker, one in self.network.delivered]
            assert len(pairs) == len(set(pairs)), "an event was delivered twice"


def wander(overlay, random, steps):
    """Do what comes to mind, rather more of what is usual."""

    def pick():
        return random.randrange(100)

    def text():
        return filter_text(random.randrange(10), random.randrange(10), random.choice(RESTS))

    acts = {
        "subscribe": (9, lambda: overlay.subscribe(random.randrange(10), text(), random.choice(RANKS), pick())),
        "move": (3, lambda: overlay.people and overlay.move(pick(), text(), pick())),
        "unsubscribe": (5, lambda: overlay.people and overlay.unsubscribe(pick())),
        "advertise": (1, lambda: overlay.advertise(random.randrange(3), pick(), random.choice(SPACES))),
        "unadvertise": (0.4, lambda: overlay.publishers and overlay.unadvertise(pick())),
        "arrive": (12, lambda: overlay.flying() and overlay.arrive(pick(), random.randrange(4))),
        "double": (2, lambda: overlay.flying() and overlay.double(pick(), random.randrange(4), random.randrange(6))),
        "lose": (0.3, lambda: overlay.flying() and overlay.lose(pick(), random.randrange(4))),
        "part": (0.4, lambda: len(overlay.cut) < len(overlay.network.links) and overlay.part(pick())),
        "mend": (1, lambda: overlay.cut and overlay.mend(pick())),
        "crash": (0.4, lambda: overlay.cut or overlay.crash(pick(), random.random() < 0.5)),
        "put aside": (0.3, lambda: overlay.put_aside_and_go_on(pick())),
        "publish": (2, lambda: overlay.publish(random.randrange(2), pick() % 3, random.choice(NAMES))),
        "publish meanwhile": (6, lambda: overlay.publish_meanwhile(random.randrange(2), pick() % 10)),
    }
    people = [(text(), random.choice(RANKS), pick()) for _ in range(8)]
    overlay.start([random.randrange(6) for _ in range(random.randrange(1, 6))], pick(), people)
    overlay.advertise(1, pick(), random.choice(SPACES))
    weights = [weight for weight, _ in acts.values()]
    for _ in range(steps):
        random.choices(list(acts.values()), weights)[0][1]()
    overlay.teardown()


def str_of(one):
    if isinstance(one, AudienceRanking):
        return f"{one.scoring.value}-{one.ties.value}"
    return one.value if isinstance(one, Strategy) else str(one)


CASES = pytest.mark.parametrize(("strategy", "k", "ranking"), PLAIN + RANKED, ids=str_of)


@CASES
def test_an_overlay_delivers_what_a_central_matcher_would(strategy, k, ranking):
    machine = type("Machine", (Overlay,), {"strategy": strategy, "k": k, "ranking": ranking})
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=30, deadline=None))


@CASES
@pytest.mark.parametrize("seed", range(4))
def test_an_overlay_delivers_what_a_central_matcher_would_for_long(strategy, k, ranking, seed):
    overlay = Overlay()
    overlay.strategy, overlay.k, overlay.ranking = strategy, k, ranking
    wander(overlay, Random(seed), steps=150)
    assert overlay.network.delivered
