"""One broker, message by message: what it takes, what it rejects, and what time does to it."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event
from rankcast.model.notifying import Gathered, OnDemand
from rankcast.model.policies import Continuous, Periodic, Sliding
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, Subscriber, Subscription, SubscriptionKey
from rankcast.model.values import ValueType
from rankcast.overlay import routing
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver, Listed, Reason, Rejected, Send
from rankcast.overlay.messages import (
    MAX_NUMBER,
    Advertise,
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Interest,
    Packet,
    Publish,
    Read,
    Renew,
    Reset,
    Session,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
    Withdraw,
)
from rankcast.overlay.rankings import FAIRNESS, AudienceRanking, Scoring
from rankcast.overlay.snapshots import restored, snapshot
from rankcast.overlay.strategies import Strategy
from rankcast.overlay.wire import MAX_BYTES, decoded, encoded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Bench:
    """A broker with neighbours that a test plays: each has told its state, and listens."""

    def __init__(self, strategy=Strategy.REGULAR_COVER, links=("left", "right"), **settings):
        self.broker = Broker("b", Settings(strategy, **settings), np.random.default_rng(1))
        self.numbers = {}
        self.now = NOW
        for link in links:
            (asked,) = self.broker.connect(link, self.now)
            self.numbers[link] = [asked.message.session, 0]
            self.broker.handle(Connect(Session(1, 1)), link, self.now)
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


def flats(name="flats", text="true", k=None, **options):
    return Advertise(Advertisement(name, "/flats", parse_filter(text), k=k), **options)


def event(name="1", **data):
    return Event(name, "/flats", data=data or {"rent": 700})


# Routing


def test_weights_of_neighbours_that_add_up_to_more_than_a_message_may_say_are_told_as_that_much():
    bench = Bench(Strategy.ANCESTOR_FAIR_K)
    bench.peer("left", Advertise(Advertisement("a", "/a", parse_filter("true"), k=1), FAIRNESS))
    most = float(MAX_NUMBER - 1)

    def heavy(name, low, high):
        interest = Interest(SubscriptionKey(name, "1"), parse_filter(f"x between {low} and {high}"), 1.0)
        return Forward(interest, (("a", most),))

    bench.peer("right", heavy("one", 1, 2))
    bench.peer("right", heavy("two", 3, 4))
    told = [message for _, message in sent(bench.peer("right", heavy("all", 0, 9))) if isinstance(message, Forward)]
    assert [message.weights for message in told] == [(("a", most),)]
    bench.wait(5)
    assert restored(snapshot(bench.broker)).routing.outlet("left").told_weights == {
        ("a", SubscriptionKey("all", "1")): most
    }


def test_advertisements_go_to_all_neighbours_but_where_they_came_from():
    bench = Bench()
    assert sent(bench.peer("left", flats())) == [("right", flats())]
    assert sent(bench.say(flats("more", lease=SECOND), "someone")) == [
        ("left", flats("more")),
        ("right", flats("more")),
    ]
    assert sent(bench.peer("left", Unadvertise("flats"))) == [("right", Unadvertise("flats"))]


def test_an_advertisement_that_two_neighbours_tell_stays_until_both_have_taken_it_back():
    bench = Bench(links=("left", "right", "up"))
    bench.peer("left", flats())
    assert sent(bench.peer("right", flats())) == [("left", flats())]
    assert sent(bench.peer("left", Unadvertise("flats"))) == [("right", Unadvertise("flats"))]
    assert sent(bench.peer("right", Unadvertise("flats"))) == [
        ("left", Unadvertise("flats")),
        ("up", Unadvertise("flats")),
    ]


def test_interests_go_towards_the_advertisements_they_meet_and_nowhere_else():
    bench = Bench()
    bench.peer("left", flats(text="rent <= 500"))
    assert sent(bench.peer("right", Forward(interest()))) == [("left", Forward(interest()))]
    assert sent(bench.peer("right", Forward(interest("cy", "rent > 500")))) == []
    assert sent(bench.peer("left", Forward(interest("di")))) == []


def test_the_next_one_is_forwarded_before_the_one_that_hid_it_is_withdrawn():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest("wide", "rent < 900")))
    assert sent(bench.peer("right", Forward(interest("narrow", "rent < 500")))) == []
    assert sent(bench.peer("right", Withdraw(interest("wide").key))) == [
        ("left", Forward(interest("narrow", "rent < 500"))),
        ("left", Withdraw(interest("wide").key)),
    ]


def test_a_changed_interest_takes_the_place_of_the_former_one_in_one_message():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest("bo", "rent < 500")))
    assert sent(bench.peer("right", Forward(interest("bo", "rent < 900")))) == [("left", Forward(interest("bo")))]


def test_a_subscription_sees_only_events_of_its_time():
    bench = Bench()
    wanted = Subscription("0", parse_filter("true"), active_from=NOW + SECOND, active_until=NOW + 3 * SECOND)
    bench.say(Subscribe(Subscriber("ana", (wanted,))))
    bench.peer("left", flats())
    times = [Event(str(at), "/flats", time=NOW + at * SECOND) for at in range(5)]
    found = [delivered(bench.peer("left", Publish("flats", one))) for one in times]
    assert found == [[], [("ana", "1")], [("ana", "2")], [], []]


def test_a_publishers_own_broker_delivers_too():
    bench = Bench()
    bench.say(subscribed := Subscribe(subscriber()), "ana")
    bench.say(flats(), "agency")
    assert delivered(bench.say(Publish("flats", event()), "agency")) == [("ana", "1")]
    assert subscribed.subscriber.id in bench.broker.desk.seats


def test_the_edge_runs_the_delivery_policy_of_its_subscribers():
    bench = Bench()
    bench.say(Subscribe(subscriber(deliver=Continuous(0))), "ana")
    bench.say(Subscribe(subscriber("bo", deliver=Periodic(1, 10 * SECOND))), "bo")
    bench.peer("left", flats())
    for name in "123":
        assert (
            delivered(bench.peer("left", Publish("flats", Event(name, "/flats", time=bench.now, data={"rent": 1}))))
            == []
        )
    assert delivered(bench.wait(9)) == []
    assert delivered(bench.wait(1)) == [("bo", "1")]


def test_producer_and_consumer_can_both_have_a_k():
    bench = Bench(Strategy.ANCESTOR_COVER_K)
    for name in ("ana", "bo", "cy"):
        bench.say(Subscribe(subscriber(name, deliver=Continuous(1))), name)
    bench.peer("left", flats(k=2))
    assert len(delivered(bench.peer("left", Publish("flats", event("1"), 2)))) == 2
    for number in range(2, 30):
        bench.peer("left", Publish("flats", event(str(number)), 2))
    # All events rank alike, so that each newer one is delivered as well: a k of the consumer does not undo the k of the
    # producer, and the other way round.
    assert len(delivered(bench.peer("left", Publish("flats", event("99"), 2)))) == 2


def test_a_named_audience_is_chosen_once_where_diversity_ranks():
    bench = Bench(Strategy.REGULAR_K)
    ranking = AudienceRanking(Scoring.DIVERSITY)
    bench.peer("left", flats(k=1, ranking=ranking))
    for number in range(4):
        bench.peer("right", Forward(interest(f"same{number}", "rent < 900")))
    bench.peer("right", Forward(interest("other", "rent between 600 and 2000")))
    bench.say(flats("mine", k=1, ranking=ranking), "agency")
    found = sent(bench.say(Publish("mine", event()), "agency"))
    assert found == [("right", Publish("mine", found[0][1].event, 1, (SubscriptionKey("other", "0"),)))]
    bench.say(Subscribe(subscriber("zoe")), "zoe")
    named = Publish("flats", event("2"), 1, (SubscriptionKey("zoe", "0"),))
    assert delivered(bench.peer("left", named)) == [("zoe", "2")]


def test_while_a_subscriber_moves_both_of_its_interests_are_told_for_others_may_be_hidden_behind_the_older():
    bench = Bench(links=("left", "right", "third"))
    bench.peer("left", flats())
    assert sent(bench.peer("right", Forward(interest("mo", "rent < 900")))) == [
        ("left", Forward(interest("mo", "rent < 900")))
    ]
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == []
    assert sent(bench.peer("third", Forward(interest("mo", "rent > 800")))) == [
        ("left", Forward(interest("mo", "rent < 900 or rent > 800")))
    ]
    assert sent(bench.peer("right", Withdraw(SubscriptionKey("mo", "0")))) == [
        ("left", Forward(Interest(SubscriptionKey("ana", "0"), parse_filter("rent < 500")))),
        ("left", Forward(interest("mo", "rent > 800"))),
    ]


def test_who_was_hidden_is_told_before_the_one_that_hid_it_wants_less():
    bench = Bench()
    bench.peer("left", flats())
    bench.say(Subscribe(subscriber("wide", "rent < 900")), "wide")
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == []
    assert [
        one.interest.key.subscriber for _, one in sent(bench.say(Subscribe(subscriber("wide", "rent > 800")), "wide"))
    ] == [
        "ana",
        "wide",
    ]


# Counting


def test_exact_fairness_counts_first_then_draws_the_shares():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    for link in ("left", "right"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.say(flats(k=100), "agency")
    asked = sent(bench.say(Publish("flats", event()), "agency"))
    assert [(link, type(one)) for link, one in asked] == [("left", CountQuery), ("right", CountQuery)]
    assert bench.peer("left", CountReply("/flats", "1", 4)) == []
    effects = bench.peer("right", CountReply("/flats", "1", 3))
    assert [(link, one.k) for link, one in sent(effects)] == [("left", 4), ("right", 3)]
    assert delivered(effects) == [("ana", "1")]


def test_a_broker_between_asks_on_and_answers_with_the_sum():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("right", Forward(interest(), hides=True))
    bench.peer("left", flats(k=2))
    asked = sent(bench.peer("left", CountQuery("flats", event())))
    assert asked == [("right", CountQuery("flats", event()))]
    assert sent(bench.peer("right", CountReply("/flats", "1", 9))) == [("left", CountReply("/flats", "1", 10))]
    effects = bench.peer("left", Publish("flats", event(), 2))
    assert sum(one.k for _, one in sent(effects)) + len(delivered(effects)) == 2


def test_absurd_counts_are_passed_on_and_drawn_from_as_far_as_numbers_go():
    bench = Bench(Strategy.EXACT_FAIR, links=("left", "right", "third"))
    for link in ("right", "third"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.peer("left", flats(k=2))
    bench.peer("left", CountQuery("flats", event()))
    bench.peer("right", CountReply("/flats", "1", 2**53 - 1))
    assert sent(bench.peer("third", CountReply("/flats", "1", 2**53 - 1))) == [
        ("left", CountReply("/flats", "1", 2**53 - 1))
    ]
    assert sum(one.k for _, one in sent(bench.peer("left", Publish("flats", event(), 2)))) == 2


@pytest.mark.parametrize("strategy", [one for one in Strategy if one.takes_k], ids=lambda one: one.value)
def test_behind_a_link_that_is_lost_nobody_is_chosen(strategy):
    bench = Bench(strategy)
    bench.say(Subscribe(subscriber()), "ana")
    for number in range(20):
        bench.peer("right", Forward(interest(f"s{number}")))
    bench.say(flats(k=1), "agency")
    bench.broker.disconnect("right", bench.now)
    assert [delivered(bench.say(Publish("flats", event(str(at))), "agency")) for at in range(3)] == [
        [("ana", str(at))] for at in range(3)
    ]


def test_who_hides_nobody_is_not_asked():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("left", Forward(interest("bo")))
    bench.peer("left", Forward(interest("cy")))
    bench.peer("right", Forward(interest("di"), hides=True))
    bench.say(flats(k=100), "agency")
    assert [(link, type(one)) for link, one in sent(bench.say(Publish("flats", event()), "agency"))] == [
        ("right", CountQuery)
    ]
    assert [(link, one.k) for link, one in sent(bench.peer("right", CountReply("/flats", "1", 3)))] == [
        ("left", 2),
        ("right", 3),
    ]
    bench.peer("right", Forward(interest("di")))
    effects = bench.say(Publish("flats", event("2")), "agency")
    assert [(link, type(one), one.k) for link, one in sent(effects)] == [("left", Publish, 2), ("right", Publish, 1)]


def test_an_interest_is_told_again_when_it_begins_to_hide_others_and_at_a_heartbeat_when_it_no_longer_does():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("left", flats(k=2))
    wide = interest("wide", "rent < 900")
    assert sent(bench.peer("right", Forward(wide))) == [("left", Forward(wide))]
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == [("left", Forward(wide, hides=True))]
    assert sent(bench.say(Subscribe(subscriber("bo", "rent < 400")), "bo")) == []
    for who in ("ana", "bo"):
        assert sent(bench.say(Unsubscribe(who), who)) == []
    assert sent(bench.wait(5)) == [("left", Forward(wide))]
    assert sent(bench.peer("right", Forward(wide, hides=True))) == [("left", Forward(wide, hides=True))]
    bench.broker.handle(Connect(Session(1, 2)), "left", bench.now)
    again = restored(snapshot(bench.broker))
    assert again.routing.outlet("left").told_hiding == {wide.key}
    assert [one for one in again.routing.told("left") if isinstance(one, Forward)] == [Forward(wide, hides=True)]


def test_a_count_that_nobody_draws_from_is_forgotten_and_an_event_that_comes_later_is_counted_again():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("left", flats(k=2))
    for name in ("1", "2"):
        assert sent(bench.peer("left", CountQuery("flats", event(name)))) == [("left", CountReply("/flats", name, 1))]
    assert delivered(bench.peer("left", Publish("flats", event("1"), 1))) == [("ana", "1")]
    assert len(bench.broker.publishing.counts) == 1
    bench.wait(4)
    assert not bench.broker.publishing.counts
    assert delivered(bench.peer("left", Publish("flats", event("2"), 1))) == [("ana", "2")]


@pytest.mark.parametrize("lost", ["the link", "the answer", "the neighbour"])
def test_a_count_that_stays_out_does_not_keep_an_event(lost):
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("right", Forward(interest(), hides=True))
    bench.say(flats(k=2), "agency")
    if lost == "the neighbour":
        bench.broker.disconnect("right", bench.now)
    effects = bench.say(Publish("flats", event()), "agency")
    if lost == "the link":
        effects = bench.broker.disconnect("right", bench.now)
    elif lost == "the answer":
        effects = bench.wait(2)
    assert delivered(effects) == [("ana", "1")]


# Leases


def test_a_subscriber_ends_with_its_lease_unless_it_is_renewed():
    bench = Bench(lease=60 * SECOND)
    bench.peer("left", flats())
    bench.say(Subscribe(subscriber(), 10 * SECOND), "ana")
    bench.say(Subscribe(subscriber("bo")), "bo")
    bench.peer("left", Alive(Session(1, 1), 0))
    assert sent(bench.wait(9)) == []
    bench.say(Renew(), "ana")
    assert sent(bench.wait(9)) == []
    assert sent(bench.wait(1)) == [
        ("left", Forward(Interest(SubscriptionKey("bo", "0"), parse_filter("rent < 900")))),
        ("left", Withdraw(SubscriptionKey("ana", "0"))),
    ]
    assert bench.broker.desk.seats.keys() == {"bo"}


def test_an_advertisement_ends_with_its_lease():
    bench = Bench()
    bench.say(flats(lease=10 * SECOND), "agency")
    assert sent(bench.wait(10)) == [("left", Unadvertise("flats")), ("right", Unadvertise("flats"))]


def test_the_broker_says_when_time_has_something_to_do():
    bench = Bench(links=())
    assert bench.broker.next_instant is None
    bench.say(Subscribe(subscriber(), 10 * SECOND), "ana")
    assert bench.broker.next_instant == NOW + 10 * SECOND


def test_a_silent_neighbour_is_lost_with_what_it_told():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest()))
    for _ in range(6):
        bench.now += 5 * SECOND
        bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
        assert sent(bench.broker.tick(bench.now)) == []
    bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
    assert sent(bench.wait(1)) == [("left", Withdraw(interest().key))]


def test_a_short_interruption_changes_no_routes():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest()))
    bench.broker.disconnect("right", bench.now)
    assert sent(bench.wait(20)) == []
    (asked,) = bench.broker.connect("right", bench.now)
    bench.numbers["right"] = [asked.message.session, 0]
    told = [bench.peer("right", one) for one in (Reset(), Forward(interest()), Synced())]
    assert [sent(effects) for effects in told] == [[], [], []]


# What is rejected changes nothing

RENT = Schema({"rent": ValueType.INT}, frozenset({"rent"}))
MINE = Advertise(Advertisement("mine", "/flats", parse_filter("rent < 900"), RENT, 3))


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


@pytest.mark.parametrize(
    ("message", "client", "reason"),
    [
        (Subscribe(subscriber("ana", "true")), "mallory", Reason.WRONG_LINK),
        (Unsubscribe("ana"), "mallory", Reason.WRONG_LINK),
        (Unsubscribe("nobody"), "mallory", Reason.UNKNOWN),
        (Read("ana"), "mallory", Reason.WRONG_LINK),
        (Read("ana"), "ana", Reason.UNSUPPORTED),
        (Read("ana", "0"), "ana", Reason.UNKNOWN),
        (Read("nobody"), "ana", Reason.UNKNOWN),
        (
            Subscribe(subscriber("eve", "true", "true", priorities=(Priority("0", "1"), Priority("1", "0")))),
            "eve",
            Reason.MALFORMED,
        ),
        (flats("mine"), "mallory", Reason.WRONG_LINK),
        (flats("new", k=2, ranking=AudienceRanking(Scoring.PREFERENCE)), "eve", Reason.UNSUPPORTED),
        (Unadvertise("mine"), "mallory", Reason.WRONG_LINK),
        (Unadvertise("none"), "agency", Reason.UNKNOWN),
        (Publish("mine", event()), "mallory", Reason.WRONG_LINK),
        (Publish("theirs", event()), "agency", Reason.WRONG_LINK),
        (Publish("mine", event(rent=900)), "agency", Reason.OUTSIDE),
        (Publish("mine", event(rooms=2)), "agency", Reason.MALFORMED),
        (Publish("mine", event(rent="much")), "agency", Reason.MALFORMED),
        (Publish("mine", Event("1", "/elsewhere", data={"rent": 1})), "agency", Reason.OUTSIDE),
        (Publish("mine", event(), 4), "agency", Reason.OUTSIDE),
        (Publish("mine", event(), 1, ()), "agency", Reason.UNSUPPORTED),
        (Publish("mine", event("old")), "agency", Reason.REPLAY),
        (Renew(), "mallory", Reason.UNKNOWN),
        (Connect(Session(1, 1)), "mallory", Reason.WRONG_LINK),
        (Alive(Session(1, 1), 3), "mallory", Reason.WRONG_LINK),
        (Packet(Session(1, 1), 0, Synced()), "mallory", Reason.WRONG_LINK),
        (Subscribe(subscriber("eve")), "left", Reason.WRONG_LINK),
        (Publish("theirs", event()), "left", Reason.WRONG_LINK),
        (Connect(Session(1, 1)), "left", Reason.REPLAY),
        (Connect(Session(0, 9)), "left", Reason.REPLAY),
        (Packet(Session(1, 1), 0, Synced()), "left", Reason.REPLAY),
        (Packet(Session(9, 9), 3, Synced()), "left", Reason.REPLAY),
        (Packet(Session(1, 1), 10**9, Synced()), "left", Reason.TOO_MANY),
    ],
)
def test_a_message_that_is_rejected_changes_nothing(message, client, reason):
    bench = prepared()
    before = snapshot(bench.broker)
    assert rejected(bench.say(message, client)) == [reason]
    assert snapshot(bench.broker) == before


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Withdraw(SubscriptionKey("ana", "0")), Reason.UNKNOWN),
        (Unadvertise("mine"), Reason.UNKNOWN),
        (flats("new", k=2, ranking=AudienceRanking(Scoring.PREFERENCE)), Reason.UNSUPPORTED),
        (Publish("mine", event(), 1), Reason.WRONG_LINK),
        (Publish("theirs", event(rent=900), 1), Reason.OUTSIDE),
        (Publish("theirs", event(), 4), Reason.OUTSIDE),
        (Publish("theirs", event()), Reason.OUTSIDE),
        (Publish("theirs", event(), 1, (SubscriptionKey("ana", "0"),)), Reason.OUTSIDE),
        (Publish("theirs", event("old"), 1), Reason.REPLAY),
        (CountQuery("mine", event()), Reason.WRONG_LINK),
        (CountQuery("theirs", event(rent=900)), Reason.OUTSIDE),
        (CountReply("/flats", "1", 5), Reason.UNKNOWN),
    ],
)
def test_a_rejected_message_of_a_neighbour_takes_its_number_and_changes_nothing_else(message, reason):
    bench, other = prepared(), prepared()
    assert rejected(bench.peer("left", message)) == [reason]
    assert rejected(other.peer("left", Withdraw(SubscriptionKey("nobody", "0")))) == [Reason.UNKNOWN]
    assert snapshot(bench.broker) == snapshot(other.broker)
    assert sent(bench.peer("left", flats("next"))) == [("right", flats("next"))]


def test_a_neighbour_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr(routing, "MAX_INTERESTS", 2)
    monkeypatch.setattr(routing, "MAX_ADVERTISEMENTS", 1)
    bench = Bench()
    told = [flats(), flats("more"), *(Forward(interest(name)) for name in ("bo", "cy", "di"))]
    assert [rejected(bench.peer("left", one)) for one in told] == [[], [Reason.TOO_MANY], [], [], [Reason.TOO_MANY]]
    assert rejected(bench.peer("left", Forward(interest("bo", "rent < 1")))) == []
    assert rejected(bench.peer("left", flats(text="rent < 5"))) == []


def test_a_client_cannot_fill_the_memory_nor_can_all_of_them():
    bench = Bench(client_subscriptions=3, subscriptions=4, client_advertisements=1, advertisements=2)
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 1")), "one")) == []
    before = snapshot(bench.broker)
    assert rejected(bench.say(Subscribe(subscriber("bo", "true", "x = 1")), "one")) == [Reason.TOO_MANY]
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 1", "x = 2", "x = 3")), "one")) == [
        Reason.TOO_MANY
    ]
    assert snapshot(bench.broker) == before
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 2", "x = 1")), "one")) == []
    assert rejected(bench.say(Subscribe(subscriber("cy")), "two")) == []
    assert rejected(bench.say(Subscribe(subscriber("di")), "three")) == [Reason.TOO_MANY]
    bench.broker = restored(snapshot(bench.broker))
    assert rejected(bench.say(Subscribe(subscriber("di")), "three")) == [Reason.TOO_MANY]
    bench.say(Renew(), "one")
    bench.say(Unsubscribe("ana"), "one")
    assert rejected(bench.say(Subscribe(subscriber("di", "true", "x = 1", "x = 2")), "three")) == []
    told = [("a", "one"), ("b", "one"), ("c", "two"), ("d", "three"), ("a", "one")]
    assert [rejected(bench.say(flats(name), who)) for name, who in told] == [
        [],
        [Reason.TOO_MANY],
        [],
        [Reason.TOO_MANY],
        [],
    ]


# Handing over


def test_what_is_gathered_comes_at_the_end_of_its_period_also_after_a_restart():
    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(subscriber("ana", notify=Gathered(10 * SECOND))), "ana")
    bench.wait(1)
    assert bench.say(Publish("flats", event()), "agency") == []
    bench.broker = restored(snapshot(bench.broker))
    assert delivered(bench.wait(8)) == []
    assert bench.broker.next_instant == NOW + 10 * SECOND
    (handed,) = [one for one in bench.wait(1) if isinstance(one, Deliver)]
    assert (handed.time, handed.gathered) == (NOW + SECOND, NOW + 10 * SECOND)
    assert delivered(bench.wait(10)) == []


def test_a_change_discards_what_is_gathered_for_a_subscription_that_is_gone_and_leaving_discards_all():
    def own(*names):
        return Subscriber(
            "ana",
            tuple(Subscription(name, parse_filter("true"), deliver=Continuous(9)) for name in names),
            notify=Gathered(10 * SECOND),
        )

    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(own("a", "b")), "ana")
    bench.say(Subscribe(subscriber("bo", notify=Gathered(10 * SECOND))), "bo")
    bench.say(Publish("flats", event()), "agency")
    bench.say(Subscribe(own("b")), "ana")
    bench.say(Unsubscribe("bo"), "bo")
    handed = [one for one in bench.wait(10) if isinstance(one, Deliver)]
    assert [(one.subscriber, one.subscription) for one in handed] == [("ana", "b")]


def test_a_list_is_read_on_demand_and_reading_changes_nothing():
    bench = Bench()
    bench.say(flats(), "agency")
    on_demand = Subscriber(
        "ana",
        (Subscription("cheap", parse_filter("rent < 500"), 0.9), Subscription("any", parse_filter("true"), 0.3)),
        Sliding(2, 3),
        notify=OnDemand(),
    )
    bench.say(Subscribe(on_demand), "ana")
    assert bench.say(Read("ana"), "ana") == [Listed("ana", "ana", ())]
    for name, rent in (("1", 700), ("2", 400), ("3", 800)):
        bench.wait(1)
        assert bench.say(Publish("flats", event(name, rent=rent)), "agency") == []
    before = snapshot(bench.broker)
    (listed,) = bench.say(Read("ana"), "ana")
    assert [(one.event.id, one.rank) for one in listed.entries] == [("2", 0.9), ("3", 0.3)]
    assert snapshot(bench.broker) == before


def test_counting_is_not_for_every_strategy():
    bench = Bench()
    bench.peer("left", flats())
    assert rejected(bench.peer("left", CountQuery("flats", event()))) == [Reason.UNSUPPORTED]
    assert rejected(bench.say(flats("few", k=2), "agency")) == [Reason.UNSUPPORTED]


def test_what_a_client_may_say_a_broker_can_pass_on():
    bench = Bench(Strategy.FLOODING)
    bench.say(flats())
    free = MAX_BYTES - len(encoded(Publish("flats", event("1", text=""))))
    passed_on = bench.broker.receive(encoded(Publish("flats", event("1", text="x" * free))), "client", NOW)
    assert [decoded(encoded(one.message)) == one.message for one in passed_on] == [True, True]
    too_long = b" " + encoded(Publish("flats", event("2", text="x" * free)))
    assert "longer than" in bench.broker.receive(too_long, "client", NOW)[0].detail


def test_bytes_that_are_no_message_are_rejected():
    bench = prepared()
    before = snapshot(bench.broker)
    assert rejected(bench.broker.receive(b"hello", "left", NOW)) == [Reason.MALFORMED]
    assert snapshot(bench.broker) == before
    assert delivered(bench.broker.receive(encoded(Publish("mine", event())), "agency", NOW)) == [("ana", "1")]


# Snapshots


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"snapshot":2}\n{}', b'{"snapshot":1}\n{}'])
def test_what_is_no_snapshot_is_refused(damage):
    with pytest.raises(InvalidMessageError):
        restored(damage)


def test_a_broker_comes_back_with_its_clients_and_asks_its_neighbours_again():
    bench = prepared()
    with pytest.raises(InvalidMessageError, match="not above"):
        restored(snapshot(bench.broker), incarnation=1)
    back = restored(snapshot(bench.broker), incarnation=2)
    assert back.desk.seats.keys() == {"ana"}
    assert back.connect("left", NOW) == [Send("left", Connect(Session(2, 1)))]
    told = back.handle(Connect(Session(1, 2)), "left", NOW)
    assert [message for _, message in sent(told)][1:-1] == [MINE]
    assert rejected(back.handle(Publish("mine", event("old")), "agency", NOW)) == [Reason.REPLAY]
