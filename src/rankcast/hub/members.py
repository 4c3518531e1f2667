"""What a hub keeps for each subscriber: its preferences, its queues, and the events these may still deliver.

All subscriptions of a subscriber share one queue, but those that have a policy of their own: each of these has a queue
of its own. What is delivered is handed over as the subscriber wants to be notified: at once, gathered, or not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeAlias

from rankcast.delivery.candidates import Candidate, Delivered
from rankcast.delivery.contents import content_for
from rankcast.delivery.gathering import current, handed_over
from rankcast.delivery.outlook import Outlook, outlook
from rankcast.delivery.policies import with_candidates, with_policy
from rankcast.delivery.queues import Queue
from rankcast.delivery.running import RunningQueue, running
from rankcast.hub.results import Match, Notification
from rankcast.matching.naive import matches as is_matched
from rankcast.model.events import Event, Identity
from rankcast.model.notifying import AtOnce, Gathered
from rankcast.model.policies import Policy
from rankcast.model.subscriptions import Subscriber, SubscriptionId
from rankcast.model.times import LATEST
from rankcast.ranking.preferences import Preferences, Ranked

MOST_RANKS = 64
"""Combinations of filters whose rank a queue remembers: most subscribers have few subscriptions."""


class SharedQueue(Protocol):
    """A queue that is part of a group which moves all of its queues together; see `rankcast.hub.dense`."""

    def frozen(self) -> Queue:
        """Return the queue as it is now."""

    def __contains__(self, identity: object) -> bool:
        """Whether an event of this identity is held."""

    def matches(self) -> dict[Identity, Match]:
        """Return the match of every event that is held, in order of arrival."""


Callback: TypeAlias = Callable[[Notification], object]


@dataclass(slots=True, eq=False)
class Member:
    """One subscriber in a hub.

    `place` orders subscribers, `numbers` are its subscriptions' in the matching index, `gathered` is what waits to be
    handed over, in the order of the instants at which it is, and `timer` is the first of these.
    """

    place: int
    subscriber: Subscriber
    preferences: Preferences
    callback: Callback | None = None
    numbers: tuple[int, ...] = ()
    queues: dict[SubscriptionId | None, MemberQueue] = field(default_factory=dict)
    gathered: list[Notification] = field(default_factory=list)
    timer: datetime | None = None

    def notified(self, delivered: list[Notification]) -> list[Notification]:
        """Return what of some deliveries is handed over at once; gather the rest, or leave it to be read."""
        notify = self.subscriber.notify
        if isinstance(notify, AtOnce):
            return delivered
        if isinstance(notify, Gathered):
            known = len(self.gathered)
            self.gathered += (replace(note, gathered=handed_over(notify, note.time)) for note in delivered)
            if known and _handed_over(self.gathered[known - 1]) > _handed_over(self.gathered[known]):
                self.gathered.sort(key=_handed_over)  # after a change of the period
        return []

    def gathered_until(self, now: datetime) -> list[Notification]:
        """Hand over what was gathered in periods that have ended."""
        ended = bisect_right(self.gathered, now, key=_handed_over)
        handed, self.gathered = self.gathered[:ended], self.gathered[ended:]
        return handed


def _handed_over(note: Notification) -> datetime:
    return note.gathered or note.time


@dataclass(slots=True, eq=False)
class MemberQueue:
    """One queue of a subscriber: the one that its subscriptions share, or that of a subscription with its own policy.

    `subscription` is None or the id of the latter, `position` orders a subscriber's queues, `number` names the queue
    among all, and `timer` is when it acts by itself. The queue is `moving` in place, and `held` has the match of every
    event in it; or it is `shared`, and the group that it is part of moves it and knows these. `queue` is how it stands.
    """

    number: int
    member: Member
    subscription: SubscriptionId | None
    policy: Policy
    moving: RunningQueue | None
    position: int = 0
    timer: datetime | None = None
    held: dict[Identity, Match] = field(default_factory=dict)
    ranks: dict[tuple[SubscriptionId, ...], Ranked | None] = field(default_factory=dict)
    shared: SharedQueue | None = None

    @property
    def matches(self) -> dict[Identity, Match]:
        """The matches of the events in the queue, and perhaps of some that have left it."""
        return self.held if self.shared is None else self.shared.matches()

    def held_matches(self) -> tuple[Match, ...]:
        """Return the matches of the events in the queue, in its order."""
        if self.shared is not None:
            return tuple(self.shared.matches().values())
        return tuple(self.held[identity] for identity in self._alone)

    def share(self, shared: SharedQueue) -> None:
        """Be part of a group from now on."""
        self.shared, self.moving = shared, None
        self.held, self.timer = {}, None

    def go_alone(self) -> None:
        """Be no part of a group any more, if it was of one."""
        if self.shared is not None:
            self.moving, self.held, self.shared = running(self.queue), self.matches, None

    @property
    def queue(self) -> Queue:
        """The queue as it stands, for all that looks at it from outside."""
        return self._alone.frozen() if self.shared is None else self.shared.frozen()

    @property
    def next_instant(self) -> datetime | None:
        """When the queue acts by itself; a group has a timer of its own."""
        return self._alone.next_instant if self.shared is None else None

    @property
    def _alone(self) -> RunningQueue:
        assert self.moving is not None, "a queue that shares a window is moved by its group"
        return self.moving

    @property
    def order(self) -> tuple[int, int]:
        """Where the queue stands among all queues."""
        return self.member.place, self.position

    def match(self, event: Event, satisfied: Collection[SubscriptionId]) -> Match | None:
        """Return what an event means here, given the filters it satisfies; None when it is not ranked."""
        ranked = self._ranked(event, tuple(satisfied))
        if ranked is None:
            return None
        return Match(self.member.subscriber.id, event, ranked.rank, ranked.matched, self.subscription)

    def _ranked(self, event: Event, satisfied: tuple[SubscriptionId, ...]) -> Ranked | None:
        """Rank an event. Without relevance functions that depends on the filters alone, and is worked out once."""
        preferences = self.member.preferences
        if preferences.relevances:
            return preferences.ranked(event, satisfied)
        if satisfied not in self.ranks:
            if len(self.ranks) == MOST_RANKS:
                self.ranks.clear()
            self.ranks[satisfied] = preferences.ranked(event, satisfied)
        return self.ranks[satisfied]

    def holds(self, identity: Identity) -> bool:
        """Whether the queue holds an event of this identity."""
        return identity in (self._alone if self.shared is None else self.shared)

    def candidate(self, match: Match, now: datetime) -> Candidate:
        """Return a match as it competes for delivery."""
        preferences, time = self.member.preferences, match.event.time or now
        expires = match.event.expires
        if preferences.refreshes:
            expires = preferences.expires(match.matched, time, expires)
        content = content_for(self.policy, match.event.attributes)
        return Candidate(match.event.identity, time, preferences.score(match.rank, time), expires, content)

    def moved(self, match: Match | None, now: datetime, *, closed: bool) -> list[Notification]:
        """Let time pass and a match arrive, or none; return what is delivered."""
        if match is not None:
            self.held[match.event.identity] = match
        candidate = None if match is None else self.candidate(match, now)
        return self._delivered(self._alone.move(candidate, now, closed=closed))

    def finished(self) -> list[Notification]:
        """End the input; return what is still delivered."""
        return self._delivered(self._alone.move(None, LATEST))

    def changed(self, policy: Policy, now: datetime) -> None:
        """Take over another policy, and match and rank what is held anew: what matches nothing any more leaves."""
        self.go_alone()
        queue = self.queue if policy == self.policy else with_policy(self.queue, policy)
        self.policy, self.ranks = policy, {}
        competing = [
            one
            for one in self.member.subscriber.subscriptions
            if (one.deliver is None if self.subscription is None else one.id == self.subscription)
        ]
        held: dict[Identity, Match] = {}

        def reranked(candidate: Candidate) -> Candidate | None:
            event = self.held[candidate.identity].event
            match = self.match(event, [one.id for one in competing if is_matched(one, event)])
            if match is None:
                return None
            held[candidate.identity] = match
            return self.candidate(match, now)

        self.moving, self.held = running(with_candidates(queue, reranked)), held

    def outlook(self, match: Match, now: datetime) -> Outlook:
        """Return what would become of a match that arrived now; nothing is changed."""
        return outlook(self.queue, self.candidate(match, now), now)

    def current(self, now: datetime) -> list[Notification]:
        """Return the current list, the best first; nothing is changed."""
        matches = self.matches
        return [_notification(matches[one.identity], now) for one in current(self.queue, now)]

    def _delivered(self, delivered: list[Delivered]) -> list[Notification]:
        """Return deliveries as notifications, and forget the matches of what the queue no longer holds."""
        notes = [_notification(self.held[one.candidate.identity], one.time) for one in delivered]
        if len(self.held) > 2 * len(self._alone):  # now and then, so that it costs nothing on average
            self.held = {identity: self.held[identity] for identity in self._alone}
        return notes


def _notification(match: Match, time: datetime) -> Notification:
    return Notification(match.subscriber, match.event, match.rank, match.matched, time, match.subscription)
