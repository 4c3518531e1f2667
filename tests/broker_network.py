"""Brokers joined by links that may hold messages back, double, reorder and lose them, as a test decides."""

from collections import deque
from datetime import UTC, datetime, timedelta

import numpy as np

from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver, Rejected, Send
from rankcast.overlay.messages import decoded, encoded

START = datetime(2026, 1, 1, tzinfo=UTC)


class Network:
    """Brokers by name; the link of one broker to another has the other's name. Messages go as bytes if asked."""

    def __init__(self, links, settings, seed=0, as_bytes=False):
        self.settings = settings
        self.links = list(links)
        self.now = START
        self.as_bytes = as_bytes
        self.flying = {}
        self.delivered = []
        self.rejected = []
        self.seed = seed
        self.brokers = {}
        for name in sorted({end for link in links for end in link}) or ["b0"]:
            self.brokers[name] = self.born(name, 1)
        self.cut = set()
        for one, other in self.links:
            self.join(one, other)

    def born(self, name, incarnation):
        return Broker(
            name, self.settings, np.random.default_rng([self.seed, len(self.brokers)]), incarnation=incarnation
        )

    def join(self, one, other):
        """Let two brokers find that they have a link."""
        self.cut -= {(one, other), (other, one)}
        for here, there in ((one, other), (other, one)):
            self.flying.setdefault((here, there), deque())
            self.do(here, self.brokers[here].connect(there, self.now))

    def part(self, one, other):
        """Lose a link, with everything on its way."""
        self.cut |= {(one, other), (other, one)}
        for here, there in ((one, other), (other, one)):
            self.flying[here, there].clear()
            self.do(here, self.brokers[here].disconnect(there, self.now))

    def crash(self, name, born=None):
        """Let a broker start again with nothing, or as `born`; its links break and are there again."""
        ends = [link for link in self.links if name in link]
        for one, other in ends:
            self.cut |= {(one, other), (other, one)}
            self.flying[one, other].clear()
            self.flying[other, one].clear()
            there = other if one == name else one
            self.do(there, self.brokers[there].disconnect(name, self.now))
        self.brokers[name] = born or self.born(name, self.brokers[name].incarnation + 1)
        for one, other in ends:
            self.join(one, other)

    def say(self, broker, message, client="client"):
        """Let a client say something to its broker."""
        self.do(broker, self.brokers[broker].handle(message, client, self.now))

    def do(self, broker, effects):
        for effect in effects:
            if isinstance(effect, Send):
                link = (broker, effect.link)
                if link not in self.cut:
                    self.flying[link].append(encoded(effect.message) if self.as_bytes else effect.message)
            elif isinstance(effect, Deliver):
                self.delivered.append((broker, effect))
            elif isinstance(effect, Rejected):
                self.rejected.append((broker, effect))

    def arrive(self, link, at=0):
        """Let one message of a link arrive, by its place in the queue."""
        queue = self.flying[link]
        message = queue[at]
        del queue[at]
        here, there = link
        self.do(there, self.brokers[there].handle(decoded(message) if self.as_bytes else message, here, self.now))

    def settle(self, choose=lambda links: links[0]):
        """Let everything arrive, link by link as chosen, until nothing is on its way."""
        while waiting := sorted(link for link, queue in self.flying.items() if queue):
            self.arrive(choose(waiting))

    def pass_time(self, seconds, rounds=1, choose=lambda links: links[0]):
        """Let time pass, in so many rounds, at the end of each of which everything arrives."""
        for _ in range(rounds):
            self.now += timedelta(seconds=seconds)
            for name, broker in self.brokers.items():
                self.do(name, broker.tick(self.now))
            self.settle(choose)


def tree(parents):
    """Return the links of a tree: the parent of broker i + 1 is parents[i]."""
    return [(f"b{parent}", f"b{at + 1}") for at, parent in enumerate(parents)]


def plain(strategy, **changes):
    return Settings(strategy, **changes)
