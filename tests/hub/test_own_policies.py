"""A subscription with a policy of its own has a queue of its own; the others of its subscriber share one."""

from datetime import timedelta

import pytest

from hub_builders import at, flat
from rankcast.hub import Verdict
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidSubscriptionError, UnknownIdError
from rankcast.model.policies import Continuous, Digest, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Decay, IdealPoint, Target
from rankcast.model.subscriptions import Subscriber, Subscription

NEAR = IdealPoint([Target("x", 0)])


def wish(name, text="true", **options):
    return Subscription(name, parse_filter(text), **options)


def published(hub, number, x):
    notes = hub.publish(flat(number, number, x=x), now=at(number))
    return [(note.subscriber, note.subscription, note.event.id, note.rank, note.matched) for note in notes]


def test_each_queue_is_read_by_its_name(hub):
    hub.subscribe("ana", [wish("own", rank=0.3, deliver=Sliding(1, 2)), wish("a", rank=0.5)], deliver=Sliding(2, 2))
    for number in (1, 2):
        published(hub, number, 1)
    assert [note.event.id for note in hub.read("ana", now=at(3))] == ["2", "1"]
    assert [(note.event.id, note.subscription) for note in hub.read("ana", "own", now=at(3))] == [("2", "own")]
    with pytest.raises(UnknownIdError, match="subscriptions with their own: 'own'"):
        hub.read("ana", "a")


def test_without_others_the_subscriber_has_no_queue_of_its_own(hub):
    hub.subscribe("ana", wish("own", deliver=Sliding(1, 2)))
    assert hub.subscribers[0].policies == {"own": Sliding(1, 2)}
    with pytest.raises(UnknownIdError, match="no queue for a policy of its own; subscriptions with their own: 'own'"):
        hub.read("ana")


def test_a_policy_that_is_given_to_a_subscription_starts_empty_and_what_it_held_leaves(hub):
    wishes = [wish("a", "x = 2", rank=1.0), wish("b", "x < 2", rank=0.5)]
    hub.subscribe("ana", wishes, deliver=Sliding(1, 5))
    published(hub, 1, 2)
    hub.update("ana", subscriptions=[wish("a", "x = 2", rank=1.0, deliver=Continuous(1)), wishes[1]])
    assert hub.read("ana", "a") == hub.read("ana") == []
    assert [one[1] for one in published(hub, 2, 1)] == [None]


def test_unsubscribing_one_discards_its_queue_and_what_was_gathered_for_it(hub):
    wishes = [wish("own", deliver=Continuous(1)), wish("a")]
    hub.subscribe("ana", wishes, notify=Digest(timedelta(seconds=10)))
    published(hub, 1, 1)
    hub.unsubscribe("ana", "own")
    assert [note.subscription for note in hub.finish()] == [None]
    hub.update("ana", subscriptions=wishes)
    assert [note.subscription for note in hub.finish()] == []


def test_queues_act_by_themselves_each_at_its_time(hub):
    own = [wish(str(seconds), deliver=Periodic(1, timedelta(seconds=seconds))) for seconds in (20, 10)]
    hub.subscribe("ana", [*own, wish("a")], deliver=Periodic(1, timedelta(seconds=10)))
    published(hub, 1, 1)
    assert [(note.subscription, note.time) for note in hub.advance(at(60))] == [
        (None, at(10)),
        ("10", at(10)),
        ("20", at(20)),
    ]


def test_explain_tells_the_outcome_of_every_queue(hub):
    hub.subscribe("ana", [wish("a", "x = 2"), wish("own", deliver=Continuous(1))])
    outcome = hub.explain({"x": 1}, "ana")
    assert (outcome.verdict, outcome.subscription, outcome.delivered) == (Verdict.NO_MATCH, None, True)
    assert [(one.subscription, one.verdict, one.rank) for one in outcome.others] == [("own", Verdict.DELIVERED, 1.0)]
    assert str(outcome).splitlines()[-2:] == [
        "ana: not delivered: no subscription matches",
        "ana [own]: delivered with rank 1 (place 1, only the best is delivered)",
    ]


def test_distances_need_no_company_of_their_kind_in_a_queue_of_their_own():
    ranked = wish("a", rank=0.5)
    Subscriber("ana", (wish("own", relevance=NEAR, deliver=TopKWindow(1, 5)), ranked))
    with pytest.raises(InvalidSubscriptionError, match="another subscription's ranks"):
        Subscriber("ana", (wish("b", relevance=NEAR), ranked))
    with pytest.raises(InvalidSubscriptionError, match=r"'own': relevance: .* combined with decay"):
        Subscriber("ana", (wish("own", relevance=NEAR, deliver=TopKWindow(1, 5)),), decay=Decay(timedelta(days=1)))


def test_what_is_no_policy_is_refused():
    with pytest.raises(InvalidSubscriptionError, match="deliver: 5 is not a delivery policy"):
        wish("own", deliver=5)


def test_explain_says_of_a_queue_of_one_subscription_that_this_does_not_match(hub):
    hub.subscribe("ana", [wish("own", "x = 2", deliver=Continuous(1))])
    assert (
        str(hub.explain({"x": 1}, "ana")).splitlines()[-1]
        == "ana [own]: not delivered: the subscription does not match"
    )
