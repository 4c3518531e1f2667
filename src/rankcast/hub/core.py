"""The state of a hub and what commands do to it: no clock, no lock, no file, no callbacks.

The same commands give the same state and the same notifications every time, which is what lets a log bring a hub back.
A matching index finds what an event satisfies; each subscriber has one queue; a heap tells which queues act by
themselves when time passes.

With a `lateness` the core goes by the events' own times: it keeps events back and takes them in order, each at its own
time, and its queues are as far as the watermark (see `rankcast.delivery.lateness`). Without one an event is taken when
it comes, at the hub's time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import TypeAlias, assert_never

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.contents import content_for
from rankcast.delivery.lateness import Remembered, Reordering, ReorderingState
from rankcast.delivery.policies import new_queue, with_candidates, with_policy
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
from rankcast.hub.results import Late, Match, Notification
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Periodic, Policy, diversity_of
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.ranking.preferences import Preferences

REMEMBERED = 100_000
"""Identities remembered at least, to recognise a repeated publication: some 20 MB."""

Delivered: TypeAlias = list[tuple[Member, Notification]]


@dataclass(slots=True)
class Applied:
    """What a command led to: what is delivered, what the events that were taken in match, and what came too late."""

    delivered: Delivered = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)


class Core:
    """What a hub remembers. `latest` is its time, which never goes back; `next_id` numbers events that have no id."""

    def __init__(self, state: HubState, lateness: timedelta | None = None) -> None:
        self.latest = state.latest
        self.next_id = state.next_id
        self.late = state.late
        self.members: dict[SubscriberId, Member] = {}
        self._waiting = None if lateness is None else Reordering(lateness, state.waiting)
        self._seen = Remembered(state.seen)
        self._periods: Counter[timedelta] = Counter()
        self._numbers = count()
        self._owners: dict[int, tuple[Member, SubscriptionId]] = {}
        self._timers: list[tuple[datetime, int, SubscriberId]] = []
        self._index = Index([entry for kept in state.members for entry in self._welcomed(kept)])
        self._reader = self._index.reader()

    def apply(self, command: Command) -> Applied:
        """Change the state as a command says; return what that leads to."""
        done = Applied()
        match command:
            case Publish():
                self._publish(command, done)
            case Advance():
                self._advance(command.now, done, closed=True)
            case Finish():
                self._finish(done)
            case Subscribe():
                for entry in self._welcomed(MemberState(command.subscriber, new_queue(command.subscriber.deliver))):
                    self._index.add(entry)
            case Update():
                self._update(self.members[command.subscriber.id], command.subscriber)
            case Unsubscribe():
                member = self.members[command.subscriber]
                self._replace(member, replace(member.subscriber, subscriptions=(), priorities=()))
                self._count_period(member, -1)
                del self.members[command.subscriber]
            case _:
                assert_never(command)
        return done

    @property
    def reached(self) -> datetime:
        """How far the queues are: the hub's time or, where events are put in order, the watermark."""
        return self.latest if self._waiting is None else self._waiting.watermark

    @property
    def keeps_back(self) -> bool:
        """Whether an event that comes may have to wait for earlier ones."""
        return self._waiting is not None and bool(self._waiting.lateness)

    def is_late(self, event: Event, now: datetime) -> bool:
        """Whether an event that came now would come too late."""
        waiting = self._waiting
        if waiting is None or event.time is None:
            return False
        return event.time < waiting.watermark or max(now, self.latest) - event.time > waiting.lateness

    def _publish(self, command: Publish, done: Applied) -> None:
        event = command.event
        self.next_id = command.next_id
        if self._waiting is None:
            self._advance(command.now, done, closed=command.closed)
            if self._is_new(event.identity):
                self._take(event, self.latest, done, closed=command.closed)
            return
        late = self.is_late(event, command.now)
        self._move_on(command.now)
        if late and not self.is_known(event.identity):
            self.next_id += event.id == str(self.next_id)
            self.late += 1
            done.late.append(Late(event, self._waiting.watermark))
        elif not late and self._is_new(event.identity):
            self._waiting.add(event.time or self.latest, event.identity, event)
        self._advance(command.now, done, closed=command.closed)

    def _move_on(self, now: datetime) -> None:
        self.latest = max(now, self.latest)
        if self._waiting is not None:
            self._waiting.move_on(self.latest)

    def _advance(self, now: datetime, done: Applied, *, closed: bool) -> None:
        """Let time pass to `now`: take in what was kept back, and let queues do what is due."""
        self._move_on(now)
        for one in () if self._waiting is None else self._waiting.released():
            done.delivered += self._due(one.time, closed=False)
            self._take(one.item, one.time, done, closed=False)
        done.delivered += self._due(self.reached, closed=closed and not self.keeps_back)

    def _finish(self, done: Applied) -> None:
        for one in () if self._waiting is None else self._waiting.rest():
            done.delivered += self._due(one.time, closed=False)
            self._take(one.item, one.time, done, closed=False)
        every = self.members.values()
        delivered = [(member, note) for member in every for note in member.notified(finished(member.queue))]
        done.delivered += sorted(delivered, key=_instant)

    def _take(self, event: Event, now: datetime, done: Applied, *, closed: bool) -> None:
        """Let an event arrive at the queues of those whom it interests."""
        for member, match in self.matches(event):
            if not member.holds(event.identity):
                done.matches.append(match)
                done.delivered += ((member, note) for note in member.moved(match, now, closed=closed))
                self._set_timer(member)

    def _update(self, member: Member, after: Subscriber) -> None:
        member.preferences = Preferences.of(after)
        self._count_period(member, -1)
        if after.deliver != member.subscriber.deliver:
            member.queue = with_policy(member.queue, after.deliver)
            if diversity_of(after.deliver) not in (None, diversity_of(member.subscriber.deliver)):
                member.queue = with_candidates(member.queue, partial(_with_content, member, after.deliver))
            self._set_timer(member)
        self._replace(member, after)
        self._count_period(member, 1)

    def state(self) -> HubState:
        """Return everything that is remembered."""
        members = (
            MemberState(member.subscriber, member.queue, tuple(member.held[one.identity] for one in member.queue.held))
            for member in self.members.values()
        )
        waiting: ReorderingState[Event] = ReorderingState() if self._waiting is None else self._waiting.state()
        return HubState(self.latest, self.next_id, self._seen.state(), tuple(members), waiting, self.late)

    def is_known(self, identity: Identity) -> bool:
        """Whether an event of this identity was published, as far as the hub remembers."""
        return identity in self._seen or (self._waiting is not None and identity in self._waiting)

    def _welcomed(self, state: MemberState) -> list[Entry]:
        """Take a subscriber in; return its subscriptions for the index."""
        subscriber = state.subscriber
        held = {match.event.identity: match for match in state.held}
        preferences = Preferences.of(subscriber)
        member = Member(next(self._numbers), subscriber, preferences, state.queue, None, held=held)
        self.members[subscriber.id] = member
        self._count_period(member, 1)
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
        """Whether an identity was not known; it is from now on, for at least as long as periods and lateness last."""
        if self.is_known(identity):
            return False
        self._seen.add(identity, self.latest)
        self.next_id += identity.id == str(self.next_id)
        lateness = timedelta(0) if self._waiting is None else self._waiting.lateness
        longest = max(self._periods, default=timedelta(0))
        span = longest + min(lateness, timedelta.max - longest)
        self._seen.forget(self.latest, at_least=REMEMBERED, span=span)
        return True

    def _count_period(self, member: Member, change: int) -> None:
        """Keep count of the periods after which repetitions may be forgotten; windows remember what they hold."""
        policy = member.subscriber.deliver
        if isinstance(policy, Periodic):
            self._periods[policy.period] += change
            if not self._periods[policy.period]:
                del self._periods[policy.period]


def _with_content(member: Member, policy: Policy, candidate: Candidate) -> Candidate:
    """Return a held candidate with the content that another policy compares."""
    return replace(candidate, content=content_for(policy, member.held[candidate.identity].event.attributes))


def _instant(delivered: tuple[Member, Notification]) -> datetime:
    return delivered[1].time
