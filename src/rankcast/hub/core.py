"""The state of a hub and what commands do to it: no clock, no lock, no file, no callbacks.

The same commands give the same state and the same notifications every time, which is what lets a log bring a hub back.
A matching index finds what an event satisfies; each subscriber has one queue; a heap tells which queues act by
themselves when time passes.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import TypeAlias, assert_never

from rankcast.delivery.policies import new_queue, with_policy
from rankcast.delivery.queues import finished
from rankcast.hub.commands import (
    Advance,
    Command,
    Finish,
    HubState,
    MemberState,
    Publish,
    Subscribe,
    Unsubscribe,
    Update,
)
from rankcast.hub.members import Member
from rankcast.hub.results import Match, Notification
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.ranking.preferences import Preferences

REMEMBERED = 100_000
"""Identities remembered to recognise a repeated publication: some 20 MB at most."""

Delivered: TypeAlias = list[tuple[Member, Notification]]


class Core:
    """What a hub remembers. `latest` is its time, which never goes back; `next_id` numbers events that have no id."""

    def __init__(self, state: HubState) -> None:
        self.latest = state.latest
        self.next_id = state.next_id
        self.members: dict[SubscriberId, Member] = {}
        self._seen = OrderedDict.fromkeys(state.seen)
        self._numbers = count()
        self._owners: dict[int, tuple[Member, SubscriptionId]] = {}
        self._timers: list[tuple[datetime, int, SubscriberId]] = []
        self._index = Index([entry for kept in state.members for entry in self._welcomed(kept)])
        self._reader = self._index.reader()

    def apply(self, command: Command) -> Delivered:
        """Change the state as a command says; return what is delivered."""
        match command:
            case Publish():
                return self._published(command)
            case Advance():
                return self._due(command.now, closed=True)
            case Finish():
                every = self.members.values()
                delivered = [(member, note) for member in every for note in member.notified(finished(member.queue))]
                return sorted(delivered, key=_instant)
            case Subscribe():
                for entry in self._welcomed(MemberState(command.subscriber, new_queue(command.subscriber.deliver))):
                    self._index.add(entry)
            case Update():
                self._update(self.members[command.subscriber.id], command.subscriber)
            case Unsubscribe():
                member = self.members[command.subscriber]
                self._replace(member, replace(member.subscriber, subscriptions=(), priorities=()))
                del self.members[command.subscriber]
            case _:
                assert_never(command)
        return []

    def _published(self, command: Publish) -> Delivered:
        self.next_id = command.next_id
        delivered = self._due(command.now, closed=command.closed)
        if self._is_new(command.event.identity):
            for member, match in self.matches(command.event):
                delivered += ((member, note) for note in member.moved(match, self.latest, closed=command.closed))
                self._set_timer(member)
        return delivered

    def _update(self, member: Member, after: Subscriber) -> None:
        member.preferences = Preferences.of(after)
        if after.deliver != member.subscriber.deliver:
            member.queue = with_policy(member.queue, after.deliver)
            self._set_timer(member)
        self._replace(member, after)

    def state(self) -> HubState:
        """Return everything that is remembered."""
        members = (
            MemberState(member.subscriber, member.queue, tuple(member.held[one.identity] for one in member.queue.held))
            for member in self.members.values()
        )
        return HubState(self.latest, self.next_id, tuple(self._seen), tuple(members))

    def is_known(self, identity: Identity) -> bool:
        """Whether an event of this identity was published, as far as the hub remembers."""
        return identity in self._seen

    def _welcomed(self, state: MemberState) -> list[Entry]:
        """Take a subscriber in; return its subscriptions for the index."""
        subscriber = state.subscriber
        held = {match.event.identity: match for match in state.held}
        preferences = Preferences.of(subscriber)
        member = Member(next(self._numbers), subscriber, preferences, state.queue, None, held=held)
        self.members[subscriber.id] = member
        self._set_timer(member)
        return self._entries(member)

    def _entries(self, member: Member) -> list[Entry]:
        """Number a member's subscriptions anew; return them for the index."""
        subscriptions = member.subscriber.subscriptions
        member.numbers = tuple(next(self._numbers) for _ in subscriptions)
        for number, subscription in zip(member.numbers, subscriptions, strict=True):
            self._owners[number] = (member, subscription.id)
        return [
            Entry.of(number, subscription.filter, subscription.active_from, subscription.active_until)
            for number, subscription in zip(member.numbers, subscriptions, strict=True)
        ]

    def _replace(self, member: Member, after: Subscriber) -> None:
        """Put other subscriptions in the place of a member's."""
        before, member.subscriber = member.subscriber, after
        if before.subscriptions == after.subscriptions:
            return
        for number in member.numbers:
            self._index.remove(number)
            del self._owners[number]
        for entry in self._entries(member):
            self._index.add(entry)

    def _due(self, now: datetime, *, closed: bool) -> Delivered:
        """Let time pass to `now`; return what queues deliver by themselves, in the order of their instants."""
        self.latest = now = max(now, self.latest)
        delivered: Delivered = []
        waiting: list[Member] = []
        while self._timers and (self._timers[0][0] < now or (closed and self._timers[0][0] == now)):
            instant, place, name = heapq.heappop(self._timers)
            member = self.members.get(name)
            if member is not None and member.place == place and member.timer == instant:
                member.timer = None
                waiting.append(member)
        for member in waiting:
            delivered += ((member, note) for note in member.moved(None, now, closed=closed))
            self._set_timer(member)
        return sorted(delivered, key=_instant)

    def _set_timer(self, member: Member) -> None:
        """Note when a member's queue acts next; an older note in the heap no longer counts."""
        instant = member.queue.next_instant
        if instant is not None and instant != member.timer:
            heapq.heappush(self._timers, (instant, member.place, member.subscriber.id))
        member.timer = instant

    def matches(self, event: Event) -> list[tuple[Member, Match]]:
        """Return whom an event interests and how much, in the order subscribers came."""
        found: dict[Member, list[SubscriptionId]] = {}
        for number in sorted(self._reader.match_one(event.attributes).tolist()):
            member, subscription = self._owners[number]
            found.setdefault(member, []).append(subscription)
        by_place = sorted(found.items(), key=lambda item: item[0].place)
        ranked = ((member, member.match(event, matched)) for member, matched in by_place)
        return [(member, match) for member, match in ranked if match is not None]

    def _is_new(self, identity: Identity) -> bool:
        if identity in self._seen:
            return False
        self._seen[identity] = None
        self.next_id += identity.id == str(self.next_id)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True


def _instant(delivered: tuple[Member, Notification]) -> datetime:
    return delivered[1].time
