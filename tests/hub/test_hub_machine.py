"""The hub under any sequence of calls, step by step against the oracle: nothing is lost, invented or out of order."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rankcast.hub import Hub, Verdict
from rankcast.matching.naive import matches
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.testing.strategies import events, filters

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["ana", "bruno", "carla", "duarte"])
IDS = st.sampled_from(["a", "b", "c"])
RANKS = st.sampled_from([0, 0.25, 0.5, 1])
MOMENTS = st.none() | st.integers(0, 20).map(lambda hours: START + timedelta(hours=hours))


@st.composite
def subscription_lists(draw):
    found = []
    for name in draw(st.lists(IDS, max_size=3, unique=True)):
        start, end = draw(MOMENTS), draw(MOMENTS)
        if start is not None and end is not None and start >= end:
            end = None
        wanted = draw(filters(max_leaves=4))
        found.append(Subscription(name, wanted, draw(RANKS), active_from=start, active_until=end))
    return tuple(found)


class HubMachine(RuleBasedStateMachine):
    """Holds the subscribers as plain data and asks the oracle what each publication must deliver."""

    def __init__(self):
        super().__init__()
        self.hub = Hub()
        self.subscribers = {}
        self.published = {}
        self.now = START
        self.called = []

    @rule(name=NAMES, subscriptions=subscription_lists())
    def subscribe(self, name, subscriptions):
        subscriber = Subscriber(name, subscriptions)
        if name in self.subscribers:
            with pytest.raises(DuplicateIdError):
                self.hub.add(subscriber, callback=self.called.append)
            return
        self.hub.add(subscriber, callback=self.called.append)
        self.subscribers[name] = subscriptions

    @rule(name=NAMES, subscriptions=subscription_lists())
    def update(self, name, subscriptions):
        if name not in self.subscribers:
            with pytest.raises(UnknownIdError):
                self.hub.update(name, subscriptions=subscriptions)
            return
        self.hub.update(name, subscriptions=subscriptions)
        self.subscribers[name] = subscriptions

    @rule(name=NAMES)
    def unsubscribe(self, name):
        if name not in self.subscribers:
            with pytest.raises(UnknownIdError):
                self.hub.unsubscribe(name)
            return
        self.hub.unsubscribe(name)
        del self.subscribers[name]

    @rule(name=NAMES, subscription=IDS)
    def unsubscribe_one(self, name, subscription):
        if subscription not in [one.id for one in self.subscribers.get(name, ())]:
            with pytest.raises(UnknownIdError):
                self.hub.unsubscribe(name, subscription)
            return
        self.hub.unsubscribe(name, subscription)
        self.subscribers[name] = tuple(one for one in self.subscribers[name] if one.id != subscription)

    @rule(event=events(), hours=st.integers(0, 5))
    def publish(self, event, hours):
        self.now += timedelta(hours=hours)
        self._publish(event)

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def publish_again(self, data):
        self._publish(self.published[data.draw(st.sampled_from(sorted(self.published)))])

    def _publish(self, event):
        is_new = event.identity not in self.published
        is_valid = event.expires is None or event.expires > self.now
        expected = []
        for name, subscriptions in self.subscribers.items():
            found = [one for one in subscriptions if matches(one, event.stamped(self.now))]
            outcome = self.hub.explain(event, name, self.now)
            assert outcome.delivered == bool(found and is_new and is_valid)
            assert (outcome.verdict is Verdict.NO_MATCH) == (not found)
            if outcome.delivered:
                expected.append((name, event.identity, max(one.rank for one in found), tuple(one.id for one in found)))
        self.called.clear()
        delivered = self.hub.publish(event, self.now)
        assert [(note.subscriber, note.event.identity, note.rank, note.matched) for note in delivered] == expected
        assert self.called == delivered
        assert all(note.time == self.now for note in delivered)
        self.published[event.identity] = event

    @invariant()
    def the_hub_knows_its_subscribers(self):
        assert [(one.id, one.subscriptions) for one in self.hub.subscribers] == list(self.subscribers.items())


TestHubMachine = HubMachine.TestCase
TestHubMachine.settings = settings(stateful_step_count=20)
