"""The hub as an application sees it."""

import gc
import re
import weakref
from datetime import timedelta
from threading import Thread

import pytest
from msgspec import structs

import rankcast.hub.core
from hub_builders import NOW, at, flat, got
from rankcast.hub import CallbackError, Hub, Verdict
from rankcast.language.parser import parse_filter
from rankcast.model.errors import (
    DuplicateIdError,
    FilterSyntaxError,
    FilterTypeError,
    InvalidEventError,
    InvalidSubscriptionError,
    PriorityCycleError,
    RankcastError,
    UnknownAttributeError,
    UnknownIdError,
)
from rankcast.model.events import Event
from rankcast.model.expressions import attr
from rankcast.model.policies import AllMatches, AtOnce, Bounded, Continuous, Digest, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscription
from rankcast.model.values import ValueType
from rankcast.testing.clock import FakeClock


def test_a_notification_says_who_what_how_much_and_why(hub):
    hub.subscribe("ana", {"rent < 900": 0.9, "rooms >= 3": 0.6, "rooms = 0": 1.0})
    (note,) = hub.publish(flat(7, rent=700, rooms=3))
    assert (note.subscriber, note.event.id, note.rank, note.matched, note.time) == ("ana", "7", 0.9, ("1", "2"), NOW)


def test_subscriptions_come_as_text_expression_filter_or_whole(hub):
    hub.subscribe("text", "x = 1")
    hub.subscribe("expression", attr("x") == 1)
    hub.subscribe("filter", parse_filter("x = 1"))
    hub.subscribe("list", ["x = 1", attr("x") > 0])
    hub.subscribe("ranks", {attr("x") == 1: 0.5})
    hub.subscribe("whole", [Subscription("mine", parse_filter("x = 1"), rank=0.25)])
    found = {note.subscriber: (note.rank, note.matched) for note in hub.publish({"x": 1})}
    assert found == {
        "text": (1.0, ("1",)),
        "expression": (1.0, ("1",)),
        "filter": (1.0, ("1",)),
        "list": (1.0, ("1", "2")),
        "ranks": (0.5, ("1",)),
        "whole": (0.25, ("mine",)),
    }


def test_plain_attributes_become_a_numbered_event_of_the_hub(hub):
    hub.subscribe("all", "true")
    first, second = hub.publish({"x": 1})[0].event, hub.publish({"x": 2})[0].event
    assert (first.source, first.id, second.id, first.time) == ("hub", "1", "2", NOW)


def test_a_numbered_event_is_never_taken_for_a_publishers_own(hub):
    hub.subscribe("all", "true")
    assert got(hub.publish({"id": "2", "x": 1})) == [("all", "2", 1.0)]
    assert [got(hub.publish({"x": x})) for x in (1, 2)] == [[("all", "1", 1.0)], [("all", "3", 1.0)]]


def test_only_what_is_published_uses_up_a_number(hub):
    hub.subscribe("all", "true")
    hub.explain({"x": 1}, "all")
    hub.matches({"x": 1})
    with pytest.raises(InvalidEventError):
        hub.publish({"x": object()})
    assert got(hub.publish({"x": 1})) == [("all", "1", 1.0)]


def test_envelope_names_in_plain_attributes_go_to_the_envelope(hub):
    hub.subscribe("all", "type = 'flat' and id = 'f1'")
    assert got(hub.publish({"id": "f1", "type": "flat", "x": 1})) == [("all", "f1", 1.0)]


def test_identities_are_forgotten_past_the_bound(hub, monkeypatch):
    monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 2)
    hub.subscribe("all", "true")
    assert [len(hub.publish(flat(number))) for number in (1, 2, 3, 3, 1)] == [1, 1, 1, 0, 1]


class TestPoliciesThatActWhenTimePasses:
    def test_finish_completes_what_is_open(self, hub):
        calls = []
        hub.subscribe("ana", "true", deliver=Periodic(k=1, period=timedelta(hours=1)), callback=calls.append)
        hub.publish(flat(1))
        assert hub.finish() == calls
        assert [note.time for note in calls] == [NOW + timedelta(hours=1)]
        assert hub.finish() == []

    def test_by_the_clock_each_publication_is_an_instant_of_its_own(self, hub):
        hub.subscribe("ana", {"x = 1": 0.1, "x = 2": 0.9}, deliver=TopKWindow(k=1, window=timedelta(seconds=10)))
        assert [got(hub.publish(flat(x, x=x))) for x in (1, 2)] == [[("ana", "1", 0.1)], [("ana", "2", 0.9)]]


def test_a_replay_passes_its_own_now(hub):
    later = NOW + timedelta(days=3)
    hub.subscribe("all", "time >= time '2026-01-04'")
    (note,) = hub.publish({"x": 1}, now=later)
    assert (note.time, note.event.time) == (later, later)


def test_a_failed_update_changes_nothing(hub):
    hub.subscribe("ana", "x = 1", deliver=Continuous(1))
    before = hub.subscribers
    for wrong in (
        {"subscriptions": "x ="},
        {"rank_by": "best"},
        {"priorities": ["1 before 2"]},
    ):
        with pytest.raises((FilterSyntaxError, InvalidSubscriptionError)):
            hub.update("ana", **wrong)
    assert hub.subscribers == before
    assert got(hub.publish(flat(1, x=1))) == [("ana", "1", 1.0)]


def test_one_subscription_can_be_dropped(hub):
    hub.subscribe("ana", {"x > 0": 1.0, "x > 1": 0.5})
    hub.unsubscribe("ana", "1")
    assert got(hub.publish(flat(1, x=2))) == [("ana", "1", 0.5)]


def ideal(name):
    return Subscription("near", parse_filter("true"), relevance=Closeness([Target(name, 10)]))


SCHEMA = Schema({"rent": ValueType.INT, "posted": ValueType.TIME}, required=frozenset({"rent"}))
REFUSED = [
    (lambda hub: hub.subscribe("ana", "true"), DuplicateIdError, "'ana'"),
    (lambda hub: hub.subscribe(" ", "true"), InvalidSubscriptionError, "subscriber id: ' ' is not a string"),
    (lambda hub: hub.unsubscribe("bob"), UnknownIdError, "'bob'"),
    (lambda hub: hub.unsubscribe("ana", "9"), UnknownIdError, "no subscription '9'"),
    (lambda hub: hub.update("bob"), UnknownIdError, "'bob'"),
    (lambda hub: hub.explain({}, "bob"), UnknownIdError, "'bob'"),
    (lambda hub: hub.unsubscribe(["ana"]), InvalidSubscriptionError, "subscriber id: ['ana'] is not a string"),
    (lambda hub: hub.unsubscribe("ana", ["1"]), InvalidSubscriptionError, "subscription id: ['1'] is not a string"),
    (lambda hub: hub.explain({}, 5), InvalidSubscriptionError, "subscriber id: 5 is not a string"),
    (lambda hub: hub.read("ana", 5), InvalidSubscriptionError, "subscription id: 5 is not a string"),
    (
        lambda hub: hub.subscribe("bob", "true", callback=5),
        InvalidSubscriptionError,
        "callback: 5 cannot be called; expected a function or None",
    ),
    (lambda hub: hub.listen("ana", "print"), InvalidSubscriptionError, "callback: 'print' cannot be called"),
    (lambda hub: Hub(on_late=5), InvalidSubscriptionError, "on_late: 5 cannot be called"),
    (lambda hub: Hub(on_match=5), InvalidSubscriptionError, "on_match: 5 cannot be called"),
    (
        lambda hub: Hub(clock=None),
        InvalidSubscriptionError,
        "clock: None cannot be called; expected a function of no arguments",
    ),
    (lambda hub: Hub(clock=lambda: 5).publish({"x": 1}), InvalidEventError, "clock: 5 is not a time; expected"),
    (lambda hub: Hub(5), InvalidSubscriptionError, "subscribers: 5 is no list of Subscribers"),
    (lambda hub: Hub(kernels="no"), InvalidSubscriptionError, "kernels: 'no' is no bool"),
    (lambda hub: Hub(kernels=2), InvalidSubscriptionError, "kernels: 2 is no bool"),
    (lambda hub: Hub(schema={"x": "int"}), InvalidSubscriptionError, "schema: {'x': 'int'} is no Schema"),
    (lambda hub: hub.subscribe_many(None), InvalidSubscriptionError, "subscriptions: None is no Mapping"),
    (lambda hub: hub.publish_many(None), InvalidSubscriptionError, "events: None is no Iterable"),
    (lambda hub: hub.subscribe("a", "true", priorities=None), InvalidSubscriptionError, "priorities: None is no list"),
    (
        lambda hub: hub.subscribe("a", "true", priorities=[5]),
        InvalidSubscriptionError,
        "5 is not a pair of subscription",
    ),
    (lambda hub: hub.subscribe("a", "true", priorities=[("1",)]), InvalidSubscriptionError, "not a pair"),
    (lambda hub: hub.subscribe("a", "true", priorities="1 over 2"), InvalidSubscriptionError, "such as 'big before"),
    (
        lambda hub: hub.subscribe("a", ["true"] * 2, priorities=["1 before 2", "2 before 1"]),
        PriorityCycleError,
        "the priorities form a cycle",
    ),
    (lambda hub: hub.subscribe("a", "true", rank_by="best"), InvalidSubscriptionError, "rank_by: 'best' is not one of"),
    (lambda hub: hub.subscribe("a", ["x = 1", "y ="]), FilterSyntaxError, "column 4: "),
    (lambda hub: hub.subscribe("a", [3]), InvalidSubscriptionError, "3 is not a filter"),
    (lambda hub: hub.subscribe("a", {"x = 1": 1.5}), InvalidSubscriptionError, "rank: 1.5"),
    (
        lambda hub: hub.subscribe("a", attr("furnished")),
        RankcastError,
        "attr('furnished') is not a filter expression; compare it with a constant",
    ),
    (lambda hub: hub.subscribe("a", True), RankcastError, "True is not a filter expression"),
    (lambda hub: hub.subscribe("a", [("x > 1", 0.5)]), RankcastError, "ranks are given as a mapping {filter: rank}"),
    (lambda hub: hub.add("ana"), InvalidSubscriptionError, "subscriber: 'ana' is no Subscriber"),
    (lambda hub: hub.add(None), InvalidSubscriptionError, "subscriber: None is no Subscriber"),
    (lambda hub: hub.publish("x"), InvalidEventError, "'x' is not an event; expected an Event or a mapping"),
    (lambda hub: hub.publish({"time": "2026-01-01"}), InvalidEventError, "is not a time; expected an aware datetime"),
    (lambda hub: hub.publish({"x": {1, 2}}), InvalidEventError, "x: {1, 2} is a set"),
    (lambda hub: hub.publish({"x": 2**63}), InvalidEventError, "does not fit a 64-bit integer"),
    (lambda hub: hub.publish({"": 1}), InvalidEventError, "'' is not an attribute name"),
    (lambda hub: hub.publish({"id": 5}), InvalidEventError, "id: 5 is not a non-empty string"),
    (lambda hub: Hub(schema=SCHEMA).subscribe("a", "rnet < 900"), UnknownAttributeError, "did you mean 'rent'"),
    (lambda hub: Hub(schema=SCHEMA).subscribe("a", ideal("rents")), UnknownAttributeError, "did you mean 'rent'"),
    (lambda hub: Hub(schema=SCHEMA).subscribe("a", "rent = 'cheap'"), FilterTypeError, "declared int"),
    (lambda hub: Hub(schema=SCHEMA).publish({"x": 1}), InvalidEventError, "required attribute missing: rent"),
    (lambda hub: Hub(schema=SCHEMA).publish({"rent": "x"}), InvalidEventError, "rent: 'x' is of type string"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_cannot_be_is_refused_at_once_and_leaves_nothing_behind(hub, call, error, message):
    hub.subscribe("ana", "true")
    with pytest.raises(error, match=re.escape(message)):
        call(hub)
    assert [subscriber.id for subscriber in hub.subscribers] == ["ana"]


def test_events_are_put_into_the_types_of_the_schema():
    hub = Hub(schema=SCHEMA, clock=FakeClock(NOW))
    hub.subscribe("ana", "posted < time '2026-01-01'")
    assert len(hub.publish({"rent": 1, "posted": "2025-01-01"})) == 1


def test_the_hub_hands_out_the_matches_of_what_it_takes_in():
    hub = Hub(clock=FakeClock(NOW), on_match=(seen := []).append)
    hub.subscribe("ana", {"x > 1": 1.0, "x > 0": 0.5}, deliver=Continuous(1))
    hub.subscribe("rui", "x < 0")
    expected = hub.matches(flat(1, x=2)) + hub.matches(flat(2, x=1))
    assert seen == []
    for number, x in ((1, 2), (2, 1), (2, 1)):
        hub.publish(flat(number, x=x))
    assert seen == expected


def test_callbacks_are_called_and_may_use_the_hub(hub):
    calls = []
    hub.subscribe("first", "x = 1", callback=lambda note: calls.append(hub.publish({"x": 2})))
    hub.subscribe("second", "x = 2", callback=calls.append)
    hub.publish({"x": 1})
    assert [type(call) for call in calls] == [rankcast.hub.Notification, list]


def test_a_callback_that_raises_harms_nobody_else(hub):
    calls = []

    def fail(note):
        raise ValueError("no")

    hub.subscribe("broken", "true", callback=fail)
    hub.subscribe("fine", "true", callback=calls.append)
    with pytest.raises(CallbackError, match="ValueError: no") as caught:
        hub.publish({"x": 1})
    assert [note.subscriber for note in caught.value.notifications] == ["broken", "fine"]
    assert len(calls) == 1


def test_matches_tells_whom_an_event_interests_and_delivers_nothing(hub):
    hub.subscribe("ana", {"x > 1": 1.0, "x > 0": 0.5}, deliver=Continuous(1))
    hub.subscribe("rui", "x < 0")
    found = [(match.subscriber, match.rank, match.matched) for match in hub.matches(flat(1, x=2))]
    assert found == [("ana", 1.0, ("1", "2"))]
    assert len(hub.publish(flat(1, x=2))) == 1


def test_thousands_of_subscribers_come_and_go(hub):
    """Past the index's delta: subscriptions in segments are found, replaced and removed like fresh ones."""
    for number in range(300):
        hub.subscribe(f"s{number}", f"x = {number % 50}")
    for number in range(0, 300, 2):
        hub.unsubscribe(f"s{number}")
    for number in range(1, 300, 100):
        hub.update(f"s{number}", subscriptions="x = 1000")
    got_by = {x: [note.subscriber for note in hub.publish(flat(x, x=x))] for x in (0, 1, 51, 1000)}
    assert got_by == {
        0: [],
        1: ["s51", "s151", "s251"],
        51: [],
        1000: ["s1", "s101", "s201"],
    }


def test_explain_tells_what_publishing_would_do_and_changes_nothing(hub):
    hub.subscribe("ana", {"x > 1": 1.0, "x > 0": 0.5}, deliver=Continuous(1))
    assert hub.explain(flat(1, x=2), "ana").delivered
    hub.publish(flat(1, x=2))
    outcome = hub.explain(flat(2, x=1), "ana")
    assert (outcome.rank, outcome.delivered) == (0.5, False)
    assert [explanation.matched for explanation in outcome.explanations] == [False, True]
    assert str(outcome).endswith(
        "ana: not delivered now: with rank 0.5 it is not among the best "
        "(only the best is delivered, so far event 1 with rank 1)"
    )
    nothing = hub.explain(flat(3, x=0), "ana")
    assert nothing.rank is None
    assert str(nothing).endswith("ana: not delivered: no subscription matches")


@pytest.mark.parametrize(
    ("policy", "event", "verdict"),
    [
        (Sliding(k=1, window=3), flat(1, x=2), Verdict.REPEATED),
        (AllMatches(), flat(1, x=2), Verdict.REPEATED),
        (AllMatches(), Event("2", "/flats", expires=NOW, data={"x": 2}), Verdict.EXPIRED),
        (Sliding(k=1, window=3), flat(2, x=1), Verdict.OUTRANKED),
        (TopKWindow(k=1, window=3), flat(2, x=1), Verdict.OUTRANKED),
        (Sliding(k=1, window=3, ties="keep"), flat(2, x=2), Verdict.TIED),
        (Sliding(k=1, window=3, ties="keep"), flat(2, x=1), Verdict.OUTRANKED),
        (Sliding(k=1, window=1, ties="keep"), flat(2, x=2), Verdict.DELIVERED),
        (Continuous(k=1, ties="keep"), flat(2, x=2), Verdict.TIED),
        (TopKWindow(k=1, window=timedelta(hours=1), ties="keep"), flat(2, x=2), Verdict.TIED),
        (TopKWindow(k=1, window=timedelta(hours=1)), flat(2, x=2, time=NOW - timedelta(hours=2)), Verdict.TOO_OLD),
        (Periodic(k=1, period=timedelta(hours=1)), flat(2, x=2), Verdict.WAITING),
        (AllMatches(), flat(2, x=0), Verdict.NO_MATCH),
        (AllMatches(), flat(2, x=1), Verdict.DELIVERED),
    ],
    ids=lambda value: value.name if isinstance(value, Verdict) else "",
)
def test_explain_tells_why_an_event_would_not_be_delivered(hub, policy, event, verdict):
    hub.subscribe("ana", {"x > 1": 1.0, "x > 0": 0.5}, deliver=policy)
    hub.publish(flat(1, x=2))
    assert hub.explain(event, "ana").verdict is verdict
    assert (event.id in [note.event.id for note in hub.publish(event)]) == (verdict is Verdict.DELIVERED)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            Sliding(k=2, window=5, ties="keep"),
            "2 that were delivered and are still in the window, the last of them event 2 with rank 0.5; "
            "if nothing better comes it enters after 3 more matches of lower rank",
        ),
        (
            TopKWindow(k=1, window=timedelta(hours=1), ties="keep"),
            "one that was delivered and is still in the window, so far event 1 with rank 0.5; as good ones stay as "
            "long: it can no longer be delivered",
        ),
        (
            Continuous(k=1, ties="keep"),
            "one that was delivered and is still valid, so far event 1 with rank 0.5",
        ),
    ],
    ids=str,
)
def test_explain_names_the_delivered_ones_that_are_as_good(hub, policy, told):
    hub.subscribe("ana", {"x > 1": 0.5}, deliver=policy)
    hub.publish(flat(1, x=2))
    hub.publish(flat(2, x=2))
    assert str(hub.explain(flat(3, x=2), "ana")).endswith(
        f"ana: not delivered now: with rank 0.5 it is no better than {told}"
    )


def test_explain_says_that_a_bounded_queue_is_full_of_better_ones(hub):
    hub.subscribe("ana", {"x > 1": 0.9, "x > 0": 0.5}, deliver=TopKWindow(1, 9, queue=Bounded(0.3)))
    for number in (1, 2):
        hub.publish(flat(number, x=2))
    told = "; its bounded queue holds 2 better ones: it can no longer be delivered"
    assert str(hub.explain(flat(3, x=1), "ana")).endswith(told)


def test_one_subscription_and_one_priority_need_no_list(hub):
    hub.subscribe("one", Subscription("only", parse_filter("x > 0"), rank=0.25))
    hub.subscribe("two", ["x > 1", "x > 0"], priorities="1 before 2")
    assert got(hub.publish(flat(1, x=1))) == [("one", "1", 0.25), ("two", "1", 0.5)]


def test_threads_may_publish_at_once(hub):
    hub.subscribe("ana", "true", callback=(seen := []).append)
    threads = [
        Thread(target=lambda start=start: [hub.publish(flat(number)) for number in range(start, start + 200)])
        for start in (0, 100, 300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(note.event.id) for note in seen) == list(range(500))


def test_an_event_without_relevance_does_not_compete(hub):
    hub.subscribe("ana", ideal("x"), deliver=Sliding(k=1, window=1))
    assert hub.publish(flat(1, y=1)) == []
    assert hub.matches(flat(2, y=1)) == []
    outcome = hub.explain(flat(3, x="ten"), "ana")
    assert (outcome.rank, outcome.verdict) == (None, Verdict.NO_RELEVANCE)
    assert str(outcome).endswith(
        "ana: not delivered: the event lacks the numbers that its relevance is worked out from"
    )


def test_explain_knows_the_refresh_time_of_a_subscription(hub):
    hub.subscribe("ana", Subscription("short", parse_filter("true"), refresh=timedelta(hours=1)), deliver=Continuous(1))
    old = flat(4, time=NOW - timedelta(hours=1))
    assert hub.explain(old, "ana", now=NOW + timedelta(hours=2)).verdict is Verdict.EXPIRED


def test_explain_names_the_competitor_the_window_and_when_an_event_could_still_enter(hub):
    ranks = {"x > 2": 0.9, "x > 1": 0.5, "x > 0": 0.1}
    hub.subscribe("ana", ranks, deliver=Sliding(k=2, window=4))
    hub.subscribe("rui", ranks, deliver=TopKWindow(k=1, window=timedelta(hours=1)))
    hub.subscribe("eva", ranks, deliver=Periodic(k=2, period=timedelta(hours=1)))
    for number, x in enumerate((3, 2, 2), start=1):
        hub.publish(flat(number, x=x, time=NOW))
    weak = flat(4, x=1, time=NOW + timedelta(minutes=1))
    ana, rui, eva = (hub.explain(weak, name, now=weak.time) for name in ("ana", "rui", "eva"))
    assert (ana.outlook.place, ana.outlook.enters_after, ana.competitor.event.id) == (None, 2, "2")
    assert str(ana).endswith(
        "(the best 2 are delivered, the last of them event 2 with rank 0.5); "
        "if nothing better comes it enters after 2 more matches of lower rank"
    )
    assert rui.outlook.enters == NOW + timedelta(hours=1)
    assert eva.outlook.decided == NOW + timedelta(hours=1)
    assert [note.event.id for note in hub.matches(weak) if note.subscriber == "ana"] == ["4"]  # nothing has changed


class TestManyAtOnce:
    def test_events_are_taken_one_after_the_other_and_bad_ones_reported_by_index(self, hub):
        hub.subscribe("ana", {"x > 0": 0.5})
        found = hub.publish_many([{"x": 1}, {"x": 2**70}, 5, {"x": 2}, {"id": "2", "x": 3}])
        assert [one.index for one in found.rejected] == [1, 2]
        assert "does not fit a 64-bit integer" in str(found.rejected[0].error)
        assert [note.event.id for note in found.notifications] == ["1", "2"]  # the last one repeats an identity
        assert [note.event.id for note in hub.publish({"x": 4})] == ["3"]
        assert hub.publish_many([]).notifications == []

    def test_one_by_one_and_together_give_the_same(self):
        events = [{"x": x % 5, "time": at(x)} for x in range(40)]
        one, other = (Hub(clock=FakeClock(NOW)) for _ in range(2))
        for made in (one, other):
            made.subscribe("ana", {"x > 2": 0.9, "x > 0": 0.4}, deliver=Sliding(2, 9))
            made.subscribe("rui", "x < 2", deliver=Periodic(2, timedelta(seconds=7)))
        alone = [note for event in events for note in one.publish(event, now=event["time"])]
        together = [note for event in events for note in other.publish_many([event], now=event["time"]).notifications]
        assert alone == together

    def test_callbacks_are_called_when_all_are_taken(self, hub):
        seen = []
        hub.subscribe("ana", "x > 0", callback=lambda note: seen.append((note.event.id, len(seen))))
        hub.publish_many([{"x": 1}, {"x": 2}])
        assert seen == [("1", 0), ("2", 1)]

    def test_subscribers_are_added_all_or_none(self, hub):
        made = hub.subscribe_many({"ana": "x > 0", "rui": {"x > 1": 0.5}}, deliver=Sliding(1, 3))
        assert [(one.id, one.deliver) for one in made] == [("ana", Sliding(1, 3)), ("rui", Sliding(1, 3))]
        with pytest.raises(DuplicateIdError, match="'rui'"):
            hub.subscribe_many({"eva": "x > 0", "rui": "x > 0"})
        with pytest.raises(FilterSyntaxError):
            hub.subscribe_many({"eva": "x > 0", "leo": "x >"})
        assert [one.id for one in hub.subscribers] == ["ana", "rui"]
        assert hub.subscribe_many({}) == ()

    def test_numbers_are_no_ids_of_events_that_come_with_them(self, hub):
        hub.subscribe("ana", "true")
        assert [note.event.id for note in hub.publish_many([{"id": "2"}, {}, {}, {}]).notifications] == list("2134")

        def publishing():
            yield {}
            hub.publish({})
            yield {}

        assert [note.event.id for note in hub.publish_many(publishing()).notifications] == ["6", "7"]

    def test_an_error_names_the_subscriber_and_the_setting(self, hub):
        with pytest.raises(FilterSyntaxError) as caught:
            hub.subscribe_many({"eva": "x > 0", "leo": "x >"})
        assert caught.value.__notes__ == ["of subscriber 'leo'"]
        with pytest.raises(InvalidSubscriptionError, match="no setting 'delver'; did you mean 'deliver'"):
            hub.subscribe_many({"eva": "x > 0"}, delver=Sliding(1, 3))
        with pytest.raises(InvalidSubscriptionError, match=r"subscriptions: \['eva'\] is no Mapping"):
            hub.subscribe_many(["eva"])

    def test_what_was_refused_is_told_also_when_a_callback_raises(self, hub):
        hub.subscribe("ana", "x > 0", callback=lambda note: 1 / 0)
        with pytest.raises(CallbackError) as caught:
            hub.publish_many([{"x": 1}, {"x": {1}}, {"x": 2}])
        assert [one.index for one in caught.value.rejected] == [1]
        assert len(caught.value.notifications) == 2


def test_sets_of_matches_that_no_queue_needs_are_forgotten(monkeypatch):
    monkeypatch.setattr("rankcast.serving.ranking.FEWEST", 5)
    hub = Hub(clock=FakeClock(NOW))
    hub.subscribe("ana", [f"x{at} > 0" for at in range(25)])
    hub.subscribe("rui", [f"x{at} > 0" for at in range(25)], deliver=Sliding(2, 2))
    for number in range(1, 60):
        notes = hub.publish({f"x{at}": number >> at & 1 for at in range(6)} | {"x24": 1})
        assert {note.matched for note in notes} == {
            (*(str(at + 1) for at in range(6) if number >> at & 1), "25"),
        }
    codes = hub._core.serving._codes
    assert len(codes) <= 6
    assert len(codes._sets) <= 8


def test_nothing_is_left_of_subscribers_who_have_gone():
    """Neither timers nor what is to be handed over, nor relevance functions, nor the events that queues held."""
    hub = Hub(clock=FakeClock(NOW))
    for round_ in range(300):
        name, near = f"s{round_}", Closeness([Target("x", round_)])
        wanted = Subscription("near", parse_filter("true"), relevance=near)
        notify = Digest(timedelta(days=3650)) if round_ % 2 else AtOnce()
        hub.subscribe(name, wanted, deliver=TopKWindow(3, timedelta(days=3650)), notify=notify)
        for x in range(10):
            hub.publish({"x": x})
        hub.unsubscribe(name)
    serving = hub._core.serving
    serving.use_kernels()
    while serving._events.events:  # to forget them takes a few events more
        serving._sweep_on()
    assert serving._queues.next_due is None
    assert len(serving._handovers) <= 16
    assert len(serving._ranking._functions) <= 65
    assert len(serving._events.events) == 0
    assert len(serving._served) <= 2


class TestMemory:
    """What a hub lets go of."""

    @pytest.mark.parametrize("kernels", [False, True])
    def test_a_dropped_hub_is_freed(self, kernels):
        class Freed(Hub):
            """A hub that can be watched."""

        Hub(kernels=kernels)  # so that kernels are loaded: what is there when they are is kept from the collector
        hub = Freed(kernels=kernels)
        hub.subscribe("ana", "true", deliver=Sliding(3, 9), notify=Digest(timedelta(days=99)))
        hub.subscribe("rui", "true", deliver=Sliding(3, 9), callback=lambda note, hub=hub: None)
        hub.publish({"x": 1})
        watched = weakref.ref(hub)
        del hub
        gc.collect()
        assert watched() is None

    @pytest.mark.parametrize("kernels", [False, True])
    def test_what_only_one_who_leaves_has_held_is_forgotten(self, kernels):
        clock = FakeClock(NOW)
        hub = Hub(clock=clock, kernels=kernels)
        hub.subscribe("ana", "x >= 0", deliver=TopKWindow(100, timedelta(days=365)))
        hub.subscribe("rui", "x < 0")
        for x in range(50):
            clock.advance(timedelta(seconds=1))
            hub.publish({"x": x})
        hub.unsubscribe("ana")
        for _ in range(100):
            hub.publish({"y": 1})  # which interests nobody
        assert len(hub._core.serving._events.events) == 0

    def test_with_nobody_left_nothing_is_held(self):
        hub = Hub(clock=FakeClock(NOW))
        hub.subscribe("ana", "x > 0", deliver=Sliding(5, 50))
        for _ in range(20):
            hub.publish({"x": 1})
        hub.unsubscribe("ana")
        assert len(hub._core.serving._events.events) == 0


def test_a_subscriber_takes_the_place_of_the_one_with_its_id(hub):
    ana = hub.subscribe("ana", "x > 0")
    changed = structs.replace(ana, subscriptions=(Subscription("big", parse_filter("x > 10")),))
    assert hub.update(changed) == changed
    assert hub.publish({"x": 5}) == []
    assert [note.matched for note in hub.publish({"x": 50})] == [("big",)]
    with pytest.raises(UnknownIdError):
        hub.update(structs.replace(changed, id="rui"))
