"""One broker, message by message: whom it tells what, what it delivers and counts, and what time does to it.

And one direction of a link: in order, once, and asked for again when something is missing.
"""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_bench import (
    MINE,
    NOW,
    SECOND,
    TERMS,
    Bench,
    delivered,
    event,
    flats,
    interest,
    prepared,
    rejected,
    sent,
    subscriber,
)
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring
from rankcast.model.errors import InvalidMessageError
from rankcast.model.policies import AT_ONCE, Continuous, Digest, OnDemand, Periodic, Sliding
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.model.values import ValueType
from rankcast.overlay import publishing
from rankcast.overlay.effects import Deliver, Listed, Reason, RefusedError, Send
from rankcast.overlay.links import MAX_WAITING, Inbox, Outbox
from rankcast.overlay.messages import (
    MAX_NUMBER,
    Advertise,
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Interest,
    Publish,
    Read,
    Renew,
    Reset,
    ScoreCount,
    Session,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
    Withdraw,
)
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.snapshots import restored, snapshot


def counted(name, number):
    """Return how many want a flat, of one score."""
    return CountReply("/flats", name, (ScoreCount(0.0, number),))


def test_weights_of_neighbours_that_add_up_to_more_than_a_message_may_say_are_told_as_that_much():
    bench = Bench(Strategy.ANCESTOR_FAIR_K)
    bench.peer("left", Advertise(Advertisement("a", "/a", parse_filter("true"), k=1)))
    most = float(MAX_NUMBER - 1)

    def heavy(name, low, high):
        interest = Interest(SubscriptionKey(name, "1"), parse_filter(f"x between {low} and {high}"), 1.0)
        return Forward(interest, (("a", most),))

    bench.peer("right", heavy("one", 1, 2))
    bench.peer("right", heavy("two", 3, 4))
    told = [message for _, message in sent(bench.peer("right", heavy("all", 0, 9))) if isinstance(message, Forward)]
    assert [message.weights for message in told] == [(("a", most),)]
    bench.wait(5)
    assert restored(snapshot(bench.broker)).routing.routes("left").announced.weights == {
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


def test_a_named_audience_is_chosen_once_where_diversity_ranks():
    bench = Bench(Strategy.REGULAR_K)
    ranking = AudienceRanking(Scoring.DIVERSITY)
    bench.peer("left", flats(k=1, ranking=ranking))
    for number in range(4):
        bench.peer("right", Forward(interest(f"same{number}", "rent < 900")))
    bench.peer("right", Forward(interest("other", "rent between 600 and 2000")))
    bench.say(flats("mine", k=1, ranking=ranking), "agency")
    found = sent(bench.say(Publish("mine", event()), "agency"))
    assert found == [("right", Publish("mine", found[0][1].event, 1, ("other",)))]
    bench.say(Subscribe(subscriber("zoe")), "zoe")
    named = Publish("flats", event("2"), 1, ("zoe",))
    assert delivered(bench.peer("left", named)) == [("zoe", "2")]


def test_a_named_audience_gets_only_what_it_still_wants_and_is_no_larger_than_k():
    bench = Bench(Strategy.REGULAR_K)
    bench.peer("left", flats(k=1, ranking=AudienceRanking(Scoring.DIVERSITY)))
    for name in ("ana", "bo"):
        bench.say(Subscribe(subscriber(name)), name)
    bench.say(Subscribe(subscriber("ana", "rent > 5000")), "ana")
    assert delivered(bench.peer("left", Publish("flats", event("1"), 1, ("ana",)))) == []
    both = ("ana", "bo")
    assert rejected(bench.peer("left", Publish("flats", event("2"), 1, both))) == [Reason.OUTSIDE]


@pytest.mark.parametrize("strategy", [Strategy.REGULAR_K, Strategy.ANCESTOR_COVER_K])
def test_a_chosen_subscriber_behind_two_links_is_named_to_both_and_takes_one_place(strategy):
    bench = Bench(strategy, links=("left", "right", "third"))
    ranking = AudienceRanking(Scoring.PREFERENCE)
    bench.say(flats("mine", k=2, ranking=ranking), "agency")
    bench.peer("right", Forward(interest("mo", score=0.9)))
    bench.peer("third", Forward(interest("mo", score=0.8)))
    bench.peer("third", Forward(interest("zoe", score=0.5)))
    found = sent(bench.say(Publish("mine", event()), "agency"))
    assert {(link, one.k, one.targets) for link, one in found} == {("right", 1, ("mo",)), ("third", 2, ("mo", "zoe"))}
    found = sent(bench.say(Publish("mine", event("2"), 1), "agency"))
    assert {(link, one.k, one.targets) for link, one in found} == {("right", 1, ("mo",)), ("third", 1, ("mo",))}


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
    assert bench.broker.subscribers.serving.subscribers.keys() == {"bo"}


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


def test_heartbeats_go_on_when_the_clock_is_set_back():
    bench = Bench()
    bench.now -= 3600 * SECOND
    bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
    assert bench.broker.next_instant == bench.now + 5 * SECOND
    beats = [one.link for one in bench.wait(5) if isinstance(one, Send) and isinstance(one.message, Alive)]
    assert beats == ["left"]


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


@pytest.mark.parametrize("notify", [OnDemand(), Digest(60 * SECOND), AT_ONCE])
def test_what_a_schema_has_converted_is_so_after_a_restart(notify):
    typed = Advertisement("flats", "/flats", parse_filter("true"), Schema({"free": ValueType.TIME}))
    wanted = subscriber("ana", "free > time '2026-02-01'", deliver=Periodic(5, 60 * SECOND), notify=notify)
    found = []
    for restarts in (False, True):
        bench = Bench()
        bench.say(Advertise(typed), "agency")
        bench.say(Subscribe(subscriber("ana", "free > time '2026-01-01'", deliver=wanted.deliver)), "ana")
        bench.say(Publish("flats", event(free="2026-06-01T00:00:00Z")), "agency")
        if restarts:
            bench.broker = restored(snapshot(bench.broker))
            assert snapshot(bench.broker) == snapshot(restored(snapshot(bench.broker)))
        bench.say(Subscribe(wanted), "ana")
        effects = bench.say(Read("ana"), "ana") if notify == OnDemand() else [*bench.wait(60), *bench.wait(60)]
        entries = [entry for one in effects if isinstance(one, Listed) for entry in one.entries]
        deliveries = [one for one in (*effects, *entries) if isinstance(one, Deliver)]
        found.append([one.event.attributes["free"] for one in deliveries])
    assert found == [[datetime(2026, 6, 1, tzinfo=UTC)]] * 2


def test_what_is_gathered_comes_at_the_end_of_its_period_also_after_a_restart():
    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(subscriber("ana", notify=Digest(10 * SECOND))), "ana")
    bench.wait(1)
    assert bench.say(Publish("flats", event()), "agency") == []
    bench.broker = restored(snapshot(bench.broker))
    assert delivered(bench.wait(8)) == []
    assert bench.broker.next_instant == NOW + 10 * SECOND
    (handed,) = [one for one in bench.wait(1) if isinstance(one, Deliver)]
    assert (handed.time, handed.digest) == (NOW + SECOND, NOW + 10 * SECOND)
    assert delivered(bench.wait(10)) == []


def test_a_delivery_names_the_link_of_the_client_that_subscribed_also_after_a_restart():
    bench = Bench()
    bench.peer("left", flats())
    late = Digest(10 * SECOND)
    bench.say(Subscribe(subscriber("ana")), "client 7")
    bench.say(Subscribe(subscriber("bo", notify=late)), "client 7")
    bench.say(Subscribe(subscriber("cy", notify=late)), "client 8")

    def links(effects):
        return [(one.link, one.subscriber) for one in effects if isinstance(one, Deliver)]

    assert links(bench.peer("left", Publish("flats", event("1")))) == [("client 7", "ana")]
    bench.broker = restored(snapshot(bench.broker))
    assert links(bench.peer("left", Publish("flats", event("2")))) == [("client 7", "ana")]
    assert sorted(links(bench.wait(10))) == [*2 * [("client 7", "bo")], *2 * [("client 8", "cy")]]
    bench.say(Unsubscribe("ana"), "client 7")
    bench.say(Subscribe(subscriber("ana")), "client 9")
    assert links(bench.peer("left", Publish("flats", event("3")))) == [("client 9", "ana")]


def test_a_change_discards_what_is_gathered_for_a_subscription_that_is_gone_and_leaving_discards_all():
    def own(*names):
        return Subscriber(
            "ana",
            tuple(Subscription(name, parse_filter("true"), deliver=Continuous(9)) for name in names),
            notify=Digest(10 * SECOND),
        )

    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(own("a", "b")), "ana")
    bench.say(Subscribe(subscriber("bo", notify=Digest(10 * SECOND))), "bo")
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


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"snapshot":2}\n{}', b'{"snapshot":1}\n{}'])
def test_what_is_no_snapshot_is_refused(damage):
    with pytest.raises(InvalidMessageError):
        restored(damage)


def test_a_broker_comes_back_with_its_clients_and_asks_its_neighbours_again():
    bench = prepared()
    with pytest.raises(InvalidMessageError, match="not above"):
        restored(snapshot(bench.broker), incarnation=1)
    back = restored(snapshot(bench.broker), incarnation=2)
    assert back.subscribers.serving.subscribers.keys() == {"ana"}
    assert back.connect("left", NOW) == [Send("left", Connect(Session(2, 1), back.terms))]
    told = back.handle(Connect(Session(1, 2), back.terms), "left", NOW)
    assert [message for _, message in sent(told)][1:-1] == [MINE]
    assert rejected(back.handle(Publish("mine", event("old")), "agency", NOW)) == [Reason.REPLAY]


# Counting the matches of an event before drawing from them


def test_exact_fairness_counts_first_then_draws_the_shares():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    for link in ("left", "right"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.say(flats(k=100), "agency")
    asked = sent(bench.say(Publish("flats", event()), "agency"))
    assert [(link, type(one)) for link, one in asked] == [("left", CountQuery), ("right", CountQuery)]
    assert bench.peer("left", counted("1", 4)) == []
    effects = bench.peer("right", counted("1", 3))
    assert [(link, one.k) for link, one in sent(effects)] == [("left", 4), ("right", 3)]
    assert delivered(effects) == [("ana", "1")]


def test_a_broker_between_asks_on_and_answers_with_the_sum():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("right", Forward(interest(), hides=True))
    bench.peer("left", flats(k=2))
    asked = sent(bench.peer("left", CountQuery("flats", event())))
    assert asked == [("right", CountQuery("flats", event()))]
    assert sent(bench.peer("right", counted("1", 9))) == [("left", counted("1", 10))]
    effects = bench.peer("left", Publish("flats", event(), 2))
    assert sum(one.k for _, one in sent(effects)) + len(delivered(effects)) == 2


def test_absurd_counts_are_passed_on_and_drawn_from_as_far_as_numbers_go():
    bench = Bench(Strategy.EXACT_FAIR, links=("left", "right", "third"))
    for link in ("right", "third"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.peer("left", flats(k=2))
    bench.peer("left", CountQuery("flats", event()))
    bench.peer("right", counted("1", 2**53 - 1))
    assert sent(bench.peer("third", counted("1", 2**53 - 1))) == [("left", counted("1", 2**53 - 1))]
    assert sum(one.k for _, one in sent(bench.peer("left", Publish("flats", event(), 2)))) == 2


def test_beyond_as_many_as_a_broker_can_count_events_go_by_what_is_known_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(publishing, "MOST_COUNTS", 3)
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("right", Forward(interest(), hides=True))
    bench.say(flats(k=2), "agency")
    bench.peer("left", flats("theirs", k=2))
    bench.peer("left", CountQuery("theirs", event("asked")))
    bench.peer("right", counted("asked", 1))
    found = [sent(bench.say(Publish("flats", event(str(at))), "agency")) for at in range(5)]
    assert [type(one) for ((_, one),) in found] == [CountQuery] * 3 + [Publish] * 2
    assert sent(bench.peer("left", CountQuery("theirs", event("late")))) == [("left", counted("late", 1))]
    for at in range(3):
        assert [one.k for _, one in sent(bench.peer("right", counted(str(at), 5)))] == [2]
    ((_, again),) = sent(bench.peer("left", Publish("theirs", event("asked"), 1)))
    assert again == CountQuery("theirs", event("asked"))  # its count had to go, and there is room again


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
    assert [(link, one.k) for link, one in sent(bench.peer("right", counted("1", 3)))] == [
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
    bench.broker.handle(Connect(Session(1, 2), bench.broker.terms), "left", bench.now)
    again = restored(snapshot(bench.broker))
    assert again.routing.routes("left").announced.hiding == {wide.key}
    assert [one for one in again.routing.announce_all("left") if isinstance(one, Forward)] == [
        Forward(wide, hides=True)
    ]


def test_a_count_that_nobody_draws_from_is_forgotten_and_an_event_that_comes_later_is_counted_again():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("left", flats(k=2))
    for name in ("1", "2"):
        assert sent(bench.peer("left", CountQuery("flats", event(name)))) == [("left", counted(name, 1))]
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


# One direction of a link


def numbered(count):
    """Return an inbox, and the first packets of the session that it asks for."""
    inbox, outbox = Inbox(1), Outbox()
    outbox.begin(inbox.ask(TERMS).session)
    return inbox, [outbox.packet(CountReply("/s", "1", (ScoreCount(0.0, number),))) for number in range(count)]


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=8))
def test_packets_are_taken_in_order_and_once_however_they_come(order, again):
    inbox, packets = numbered(8)
    taken, refused = [], []
    for number in [*order, *again]:
        try:
            taken += inbox.take(packets[number])
        except RefusedError as error:
            refused.append(error.reason)
    assert [message.counts[0].number for message in taken] == list(range(8))
    assert refused == [Reason.REPLAY] * len(again)


def test_packets_of_another_session_are_refused():
    inbox, packets = numbered(2)
    inbox.ask(TERMS)
    with pytest.raises(RefusedError, match="session"):
        inbox.take(packets[0])


def test_a_packet_far_ahead_is_refused_so_that_few_wait():
    inbox, packets = numbered(MAX_WAITING + 2)
    assert inbox.take(packets[MAX_WAITING]) == []
    with pytest.raises(RefusedError, match="too far ahead"):
        inbox.take(packets[MAX_WAITING + 1])


def test_nothing_goes_out_until_a_session_is_asked_for_and_an_old_request_begins_none():
    outbox = Outbox()
    assert outbox.packet(Synced()) is None
    assert outbox.begin(Session(1, 2))
    assert outbox.packet(Synced()).number == 0
    assert not outbox.begin(Session(1, 2))
    assert not outbox.begin(Session(1, 1))
    outbox.silence()
    assert outbox.packet(Synced()) is None
    assert not outbox.begin(Session(1, 2))
    assert outbox.begin(Session(2, 1))


def test_a_gap_that_stays_is_noticed_and_one_that_closes_is_not():
    inbox, packets = numbered(4)
    inbox.is_synced = True
    assert inbox.check_progress()
    inbox.take(packets[1])
    assert inbox.check_progress()
    inbox.take(packets[0])
    assert inbox.check_progress()
    inbox.take(packets[3])
    assert [inbox.check_progress(), inbox.check_progress()] == [True, False]


def test_the_loss_of_the_last_packet_is_noticed_by_what_the_neighbour_says_it_sent():
    inbox, packets = numbered(2)
    inbox.take(packets[0])
    inbox.is_synced = True
    inbox.note(Alive(Session(9, 9), 7))
    assert inbox.check_progress()
    inbox.note(Alive(inbox.session, 2))
    assert [inbox.check_progress(), inbox.check_progress()] == [True, False]
