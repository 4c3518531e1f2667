"""When a hub hands over: at once, in digests, or only when the list is read."""

from datetime import timedelta

import pytest

from hub_builders import at, flat
from rankcast.hub import Hub, Verdict
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidSubscriptionError, UnknownIdError
from rankcast.model.policies import AT_ONCE, AllMatches, Cap, Continuous, Digest, OnDemand, Periodic, Sliding
from rankcast.model.subscriptions import Subscription
from rankcast.testing.clock import FakeClock

TEN = Digest(timedelta(seconds=10))
RANKS = {"x = 2": 1.0, "x = 1": 0.5, "x = 0": 0.1}


def published(hub, number, seconds, x=2, **envelope):
    return hub.publish(flat(number, seconds, x=x, **envelope), now=at(seconds))


def got(notifications):
    return [(note.subscriber, note.event.id, note.time, note.digest) for note in notifications]


class TestDigests:
    def test_what_was_delivered_in_a_period_is_handed_over_together_at_its_end(self, hub):
        hub.subscribe("ana", "true", notify=TEN, callback=(calls := []).append)
        assert [published(hub, number, number) for number in (1, 4)] == [[], []]
        notes = hub.advance(at(12))
        assert got(notes) == [("ana", "1", at(1), at(10)), ("ana", "4", at(4), at(10))]
        assert calls == notes

    def test_unsubscribing_discards_what_is_gathered(self, hub):
        for name in ("ana", "rui"):
            hub.subscribe(name, "true", notify=TEN)
        published(hub, 1, 1)
        hub.unsubscribe("ana")
        hub.subscribe("ana", "true", notify=TEN)
        assert [note.subscriber for note in hub.advance(at(30))] == ["rui"]

    def test_a_change_keeps_what_is_gathered_for_the_end_it_was_meant_for(self, hub):
        hub.subscribe("ana", "true", notify=TEN)
        published(hub, 1, 1)
        hub.update("ana", notify=Digest(timedelta(seconds=4)))
        published(hub, 2, 2)
        hub.update("ana", notify=AT_ONCE)
        assert [note.event.id for note in published(hub, 3, 3)] == ["3"]
        assert got(hub.advance(at(30))) == [("ana", "2", at(2), at(4)), ("ana", "1", at(1), at(10))]

    def test_caps_count_what_is_still_gathered_before_what_is_handed_over_at_once_after_it(self, hub):
        hub.subscribe("ana", "true", deliver=AllMatches(at_most=Cap(1, timedelta(seconds=10))), notify=TEN)
        published(hub, 1, 1)
        hub.update("ana", notify=AT_ONCE)
        assert got(published(hub, 2, 21)) == [("ana", "1", at(1), at(10)), ("ana", "2", at(21), None)]
        assert hub.withheld == {}

    def test_explain_says_that_it_is_gathered(self, hub):
        hub.subscribe("ana", "true", notify=TEN)
        outcome = hub.explain({"x": 1}, "ana")
        assert (outcome.delivered, outcome.verdict) == (False, Verdict.IN_DIGEST)
        assert outcome.handed_over == at(10)


class TestReading:
    def test_explain_says_whether_it_would_be_on_the_list(self, hub):
        hub.subscribe("ana", RANKS, deliver=Periodic(1, timedelta(seconds=60)), notify=OnDemand())
        published(hub, 1, 1, x=1)
        found = [hub.explain(flat("new", 2, x=x), "ana", now=at(2)) for x in (2, 0)]
        assert [one.verdict for one in found] == [Verdict.ON_DEMAND, Verdict.OUTRANKED]
        assert str(found[1]).endswith("a better one stays as long: it can no longer be delivered")

    def test_a_list_has_the_newest_of_equals_though_ties_are_kept(self, hub):
        hub.subscribe("ana", "true", deliver=Sliding(1, 9, ties="keep"), notify=OnDemand())
        published(hub, 1, 1)
        assert hub.explain(flat("2", 2), "ana", now=at(2)).verdict is Verdict.ON_DEMAND
        published(hub, 2, 2)
        assert [note.event.id for note in hub.read("ana", now=at(2))] == ["2"]

    def test_whoever_is_notified_can_read_too(self, hub):
        hub.subscribe("ana", RANKS, deliver=Continuous(2))
        for number, x in enumerate((1, 2, 0)):
            published(hub, number, number, x)
        assert [note.event.id for note in hub.read("ana", now=at(5))] == ["1", "0"]

    def test_a_hub_with_a_lateness_is_read_as_far_as_it_is(self):
        hub = Hub(lateness=timedelta(seconds=5), clock=FakeClock(at(60)))
        hub.subscribe("ana", "true", deliver=Sliding(3, 3), notify=OnDemand())
        published(hub, 1, 1)
        published(hub, 2, 7)
        assert [(note.event.id, note.time) for note in hub.read("ana")] == [("1", at(2))]

    def test_all_matches_cannot_be_read(self, hub):
        with pytest.raises(
            InvalidSubscriptionError, match="the policy of all matches holds nothing that could be read"
        ):
            hub.subscribe("ana", "true", notify=OnDemand())
        hub.subscribe("ana", "true")
        with pytest.raises(InvalidSubscriptionError, match="'ana' gets all matches, of which none is held"):
            hub.read("ana")
        with pytest.raises(InvalidSubscriptionError, match="on demand"):
            hub.update("ana", notify=OnDemand())

    def test_own_policies_are_checked_too(self, hub):
        wish = Subscription("w", parse_filter("true"), deliver=AllMatches())
        with pytest.raises(InvalidSubscriptionError, match="subscription 'w': notify"):
            hub.subscribe("ana", wish, deliver=Continuous(1), notify=OnDemand())

    def test_names_are_checked(self, hub):
        hub.subscribe("ana", "true", deliver=Continuous(1))
        with pytest.raises(UnknownIdError, match="'bob'"):
            hub.read("bob")
        with pytest.raises(UnknownIdError, match="no queue for a subscription '1' with a policy of its own"):
            hub.read("ana", "1")

    def test_explain_says_that_it_is_there_to_be_read(self, hub):
        hub.subscribe("ana", RANKS, deliver=Continuous(1), notify=OnDemand())
        assert hub.explain({"x": 2}, "ana").verdict is Verdict.ON_DEMAND
        published(hub, 1, 1)
        assert hub.explain({"x": 1}, "ana").verdict is Verdict.OUTRANKED


@pytest.mark.parametrize("notify", ["at_once", 10, timedelta(seconds=10)])
def test_what_is_no_way_to_notify_is_refused(hub, notify):
    with pytest.raises(InvalidSubscriptionError, match="notify"):
        hub.subscribe("ana", "true", notify=notify)
