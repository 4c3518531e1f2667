"""One broker whose neighbours and clients a test plays, and short ways to make what it is told."""

from datetime import UTC, datetime, timedelta

import numpy as np

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import FAIRNESS, Advertisement
from rankcast.model.events import Event
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.model.values import ValueType
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver, Rejected, Send
from rankcast.overlay.messages import (
    Advertise,
    Connect,
    Interest,
    Packet,
    Publish,
    Reset,
    Session,
    Subscribe,
    Synced,
    Terms,
)
from rankcast.overlay.routing.strategies import Strategy, Weighing

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(Strategy.REGULAR_COVER, Weighing.SPLIT)
SECOND = timedelta(seconds=1)
RENT = Schema({"rent": ValueType.INT}, frozenset({"rent"}))
MINE = Advertise(Advertisement("mine", "/flats", parse_filter("rent < 900"), RENT, 3))


class Bench:
    """A broker with neighbours that a test plays: each has told its state, and listens."""

    def __init__(self, strategy=Strategy.REGULAR_COVER, links=("left", "right"), **settings):
        self.broker = Broker("b", Settings(strategy, **settings), np.random.default_rng(1))
        self.numbers = {}
        self.now = NOW
        for link in links:
            (asked,) = self.broker.connect(link, self.now)
            self.numbers[link] = [asked.message.session, 0]
            self.broker.handle(Connect(Session(1, 1), self.broker.terms), link, self.now)
            self.peer(link, Reset())
            self.peer(link, Synced())

    def peer(self, link, message):
        session, number = self.numbers[link]
        self.numbers[link][1] += 1
        return self.broker.handle(Packet(session, number, message), link, self.now)

    def say(self, message, client="client"):
        return self.broker.handle(message, client, self.now)

    def wait(self, seconds):
        self.now += seconds * SECOND
        return self.broker.tick(self.now)


def sent(effects):
    """Return (link, message) of what is sent in packets."""
    return [
        (one.link, one.message.message) for one in effects if isinstance(one, Send) and isinstance(one.message, Packet)
    ]


def delivered(effects):
    return [(one.subscriber, one.event.id) for one in effects if isinstance(one, Deliver)]


def subscriber(name="ana", *texts, **options):
    texts = texts or ("rent < 900",)
    return Subscriber(name, tuple(Subscription(str(at), parse_filter(one)) for at, one in enumerate(texts)), **options)


def interest(name="bo", text="rent < 900", score=1.0):
    return Interest(SubscriptionKey(name, "0"), parse_filter(text), score)


def flats(name="flats", text="true", k=None, ranking=FAIRNESS, **options):
    return Advertise(Advertisement(name, "/flats", parse_filter(text), k=k, ranking=ranking), **options)


def anything(name="a", k=None, ranking=FAIRNESS, **options):
    """Return the announcement of any events, of a source that is called after it."""
    return Advertise(Advertisement(name, f"/{name}", parse_filter("true"), k=k, ranking=ranking), **options)


def event(name="1", **data):
    return Event(name, "/flats", data=data or {"rent": 700})


def rejected(effects):
    return [one.reason for one in effects if isinstance(one, Rejected)]


def prepared():
    """Return a bench with something of everything."""
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("left", flats("theirs", "rent < 900", k=3))
    bench.say(MINE, "agency")
    bench.say(Publish("mine", event("old")), "agency")
    return bench
