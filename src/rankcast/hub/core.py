"""The state of a hub and what commands do to it: no clock, no lock, no file, no callbacks.

The same commands give the same state and the same notifications every time, which is what lets a log bring a hub back.
A matching index finds what an event satisfies and which queues want it; a heap tells which queues act by themselves
when time passes, another one when gathered notifications are handed over. Subscriptions without a filter that only rank
are not in the index: many of them share a window, and are ranked and served together (`rankcast.hub.dense`).

With a `lateness` the core goes by the events' own times: it keeps events back and takes them in order, each at its own
time, and its queues are as far as the watermark (see `rankcast.delivery.lateness`). Without one an event is taken when
it comes, at the hub's time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import TypeAlias, assert_never

from rankcast.delivery.lateness import Remembered, Reordering, ReorderingState
from rankcast.delivery.policies import new_queue
from rankcast.delivery.running import running
from rankcast.hub.commands import (
    Advance,
    Command,
    Finish,
    HubState,
    MemberState,
    Publish,
    QueueState,
    Subscribe,
    Unsubscribe,
    Update,
)
from rankcast.hub.dense import FEWEST, DenseGroups, Group, Seat, kind_of
from rankcast.hub.members import Member, MemberQueue
from rankcast.hub.results import Late, Match, Notification
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Periodic, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import LATEST
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
    """What a hub remembers. `latest` is its time, which never goes back; `next_id` numbers events that have no id.

    Without `tells_matches` it is left out what the events that are taken in match, which may be very much.
    """

    def __init__(self, state: HubState, lateness: timedelta | None = None, *, fewest: int = FEWEST) -> None:
        """Begin from a state; so many queues of a kind share a window. `tells_matches` can be set to False."""
        self.latest = state.latest
        self.next_id = state.next_id
        self.late = state.late
        self.tells_matches = True
        self.members: dict[SubscriberId, Member] = {}
        self._waiting = None if lateness is None else Reordering(lateness, state.waiting)
        self._seen = Remembered(state.seen)
        self._periods: Counter[timedelta] = Counter()
        self._numbers = count()
        self._queues: dict[int, MemberQueue] = {}
        self._owners: dict[int, tuple[MemberQueue, SubscriptionId]] = {}
        self._timers: list[tuple[datetime, int]] = []
        self._handovers: list[tuple[datetime, int, SubscriberId]] = []
        self._dense = DenseGroups(self._numbers, fewest)
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
                for entry in self._welcomed(MemberState.new(command.subscriber)):
                    self._index.add(entry)
            case Update():
                self._update(self.members[command.subscriber.id], command.subscriber)
            case Unsubscribe():
                self._remove(self.members.pop(command.subscriber))
            case _:
                assert_never(command)
        return done

    @property
    def reached(self) -> datetime:
        """How far the queues are: the hub's time or, where events are put in order, the watermark."""
        return self.latest if self._waiting is None else self._waiting.watermark

    @property
    def goes_by_events(self) -> bool:
        """Whether events are put in the order of their own times."""
        return self._waiting is not None

    @property
    def keeps_back(self) -> bool:
        """Whether an event that comes may have to wait for earlier ones."""
        return self._waiting is not None and bool(self._waiting.lateness)

    def lateness_of(self, event: Event, now: datetime) -> Late | None:
        """Return by how much an event that came now would come too late, or None when it would not."""
        waiting = self._waiting
        if waiting is None or event.time is None:
            return None
        reached = max(now, self.latest)
        if event.time >= waiting.watermark and reached - event.time <= waiting.lateness:
            return None
        beyond = max(reached - event.time - waiting.lateness, waiting.watermark - event.time)
        return Late(event, event.time + beyond)

    def _publish(self, command: Publish, done: Applied) -> None:
        event = command.event
        self.next_id = command.next_id
        if self._waiting is None:
            self._advance(command.now, done, closed=command.closed)
            if self._is_new(event.identity):
                self._take(event, self.latest, done, closed=command.closed)
            return
        late = self.lateness_of(event, command.now)
        self._move_on(command.now)
        if late is not None and not self.is_known(event.identity):
            self.next_id += event.id == str(self.next_id)
            self.late += 1
            done.late.append(late)
        elif late is None and (event.identity in self._waiting or self._is_new(event.identity)):
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
        delivered: Delivered = []
        shared = dict(pair for group in self._dense.groups() for pair in group.passed(LATEST, closed=True))
        for member in self.members.values():
            for queue in member.queues.values():
                notes = queue.finished() if queue.shared is None else shared.get(queue, [])
                delivered += ((member, note) for note in self._notified(queue, notes))
            delivered += ((member, note) for note in member.gathered_until(LATEST))
            self._set_handover(member)
        done.delivered += sorted(delivered, key=_instant)

    def _take(self, event: Event, now: datetime, done: Applied, *, closed: bool) -> None:
        """Let an event arrive at the queues of those whom it interests, in the order they came."""
        self._settle()
        matches: list[tuple[MemberQueue, Match]] = []
        found = self._taken_together(event, now, matches, closed=closed)
        for queue, match in self._matches_alone(event):
            if not queue.holds(event.identity):
                matches.append((queue, match))
                found.append((queue, queue.moved(match, now, closed=closed)))
                self._set_timer(queue)
        for queue, notes in sorted(found, key=_order):
            done.delivered += ((queue.member, note) for note in self._notified(queue, notes))
        if self.tells_matches:
            done.matches += (match for _, match in sorted(matches, key=_order))

    def _taken_together(
        self, event: Event, now: datetime, matches: list[tuple[MemberQueue, Match]], *, closed: bool
    ) -> list[tuple[MemberQueue, list[Notification]]]:
        """Let an event arrive at the groups, but for those to whom it is something else; they go one by one then."""
        found: list[tuple[MemberQueue, list[Notification]]] = []
        for group in self._dense.groups():
            ranks = group.window.ranks(event)
            for seat in () if ranks is None else self._dense.dismissed(group, event, ranks):
                self._index.add(_entry(seat.number, seat.subscription))
                self._set_timer(seat.queue)
            if ranks is not None and group.seats and not group.window.holds(event.identity):
                if self.tells_matches:
                    matches += group.matches(event, ranks)
                found += group.arrived(event, ranks, now, closed=closed)
                self._set_timer(group)
        return found

    def _settle(self) -> None:
        """Let new queues find their place: in a group, or on their own and in the index."""
        if not self._dense.waiting:
            return
        alone, joined = self._dense.settled()
        for seat in alone:
            self._index.add(_entry(seat.number, seat.subscription))
        for seat in joined:
            self._index.remove(seat.number)
        for group in self._dense.groups():
            self._set_timer(group)

    def _notified(self, queue: MemberQueue, delivered: list[Notification]) -> list[Notification]:
        """Return what of a queue's deliveries is handed over at once; note when the rest is."""
        if not delivered:
            return delivered
        member = queue.member
        handed = member.notified(delivered)
        self._set_handover(member)
        return handed

    def _set_handover(self, member: Member) -> None:
        """Note when a member is handed what is gathered; an older note in the heap no longer counts."""
        instant = member.gathered[0].gathered if member.gathered else None
        if instant is not None and instant != member.timer:
            heapq.heappush(self._handovers, (instant, member.place, member.subscriber.id))
        member.timer = instant

    def _update(self, member: Member, after: Subscriber) -> None:
        """Let a member be as it is from now on: what its queues hold is ranked anew, or leaves."""
        before, member.subscriber = member.subscriber, after
        member.preferences = Preferences.of(after)
        policies = after.policies
        for name in [name for name in member.queues if name not in policies]:
            self._drop(member.queues.pop(name))
            member.gathered = [note for note in member.gathered if note.subscription != name]
            self._set_handover(member)
        for name, policy in policies.items():
            queue = member.queues.get(name)
            if queue is None:
                self._open(member, policy, QueueState(name, new_queue(policy)))
            else:
                self._count_period(queue, -1)
                queue.changed(policy, self.reached)
                self._count_period(queue, 1)
                self._set_timer(queue)
        _put_in_order(member)
        if before.subscriptions != after.subscriptions or member.preferences.relevances:
            self._forget_entries(member)
            for entry in self._entries(member):
                self._index.add(entry)

    def _remove(self, member: Member) -> None:
        self._forget_entries(member)
        for queue in member.queues.values():
            self._drop(queue)

    def _open(self, member: Member, policy: Policy, state: QueueState) -> None:
        """Give a member a queue."""
        held = {match.event.identity: match for match in state.held}
        queue = MemberQueue(next(self._numbers), member, state.subscription, policy, running(state.queue), held=held)
        member.queues[state.subscription] = self._queues[queue.number] = queue
        self._count_period(queue, 1)
        self._set_timer(queue)

    def _drop(self, queue: MemberQueue) -> None:
        self._count_period(queue, -1)
        del self._queues[queue.number]

    def state(self) -> HubState:
        """Return everything that is remembered."""
        members = (
            MemberState(
                member.subscriber,
                tuple(QueueState(name, queue.queue, queue.held_matches()) for name, queue in member.queues.items()),
                tuple(member.gathered),
            )
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
        member = Member(next(self._numbers), subscriber, Preferences.of(subscriber), gathered=list(state.gathered))
        self.members[subscriber.id] = member
        policies = subscriber.policies
        for queue in state.queues:
            self._open(member, policies[queue.subscription], queue)
        _put_in_order(member)
        self._set_handover(member)
        return self._entries(member)

    def _entries(self, member: Member) -> list[Entry]:
        """Number a member's subscriptions anew; return those for the index that cannot share a window."""
        subscriptions = member.subscriber.subscriptions
        member.numbers = tuple(next(self._numbers) for _ in subscriptions)
        entries: list[Entry] = []
        for number, one in zip(member.numbers, subscriptions, strict=True):
            queue = member.queues[None if one.deliver is None else one.id]
            self._owners[number] = (queue, one.id)
            kind = kind_of(member, one, queue.policy)
            if kind is None:
                entries.append(_entry(number, one))
            else:
                self._dense.offer(Seat(number, kind, queue, one))
        return entries

    def _forget_entries(self, member: Member) -> None:
        """Take a member's subscriptions out of the index and the groups."""
        for number in member.numbers:
            if self._dense.forget(number):
                self._index.remove(number)
            del self._owners[number]

    def _due(self, now: datetime, *, closed: bool) -> Delivered:
        """Let time pass to `now`; return what is handed over by itself, by instant and then as subscribers came."""
        delivered: Delivered = []
        found: list[tuple[MemberQueue, list[Notification]]] = []
        for one in self._timed(now, closed=closed):
            if isinstance(one, Group):
                found += one.passed(now, closed=closed)
            else:
                found.append((one, one.moved(None, now, closed=closed)))
            self._set_timer(one)
        for queue, notes in sorted(found, key=_order):
            delivered += ((queue.member, note) for note in self._notified(queue, notes))
        while self._handovers and self._handovers[0][0] <= now:
            instant, place, name = heapq.heappop(self._handovers)
            member = self.members.get(name)
            if member is not None and member.place == place and member.timer == instant:
                delivered += ((member, note) for note in member.gathered_until(now))
                self._set_handover(member)
        return sorted(delivered, key=_instant)

    def _timed(self, now: datetime, *, closed: bool) -> list[MemberQueue | Group]:
        """Return the queues and groups that have something to do by themselves."""
        found: list[MemberQueue | Group] = []
        while self._timers and (self._timers[0][0] < now or (closed and self._timers[0][0] == now)):
            instant, number = heapq.heappop(self._timers)
            one = self._queues.get(number) or self._dense.group(number)
            if one is not None and one.timer == instant:
                one.timer = None
                found.append(one)
        return found

    def _set_timer(self, one: MemberQueue | Group) -> None:
        """Note when a queue or group acts next; an older note in the heap no longer counts."""
        instant = one.next_instant
        if instant is not None and instant != one.timer:
            heapq.heappush(self._timers, (instant, one.number))
        one.timer = instant

    def matches(self, event: Event) -> list[tuple[MemberQueue, Match]]:
        """Return which queues want an event and how much, in the order subscribers came."""
        return sorted([*self._matches_alone(event), *self._dense.matches(event)], key=_order)

    def _matches_alone(self, event: Event) -> list[tuple[MemberQueue, Match]]:
        """Return which of the queues that share no window want an event, in the order subscribers came."""
        found: dict[MemberQueue, list[SubscriptionId]] = {}
        for number in sorted(self._reader.match_one(event.attributes).tolist()):
            queue, subscription = self._owners[number]
            found.setdefault(queue, []).append(subscription)
        by_place = sorted(found.items(), key=_order)
        ranked = ((queue, queue.match(event, matched)) for queue, matched in by_place)
        return [(queue, match) for queue, match in ranked if match is not None]

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

    def _count_period(self, queue: MemberQueue, change: int) -> None:
        """Keep count of the periods after which repetitions may be forgotten; windows remember what they hold."""
        if isinstance(queue.policy, Periodic):
            self._periods[queue.policy.period] += change
            if not self._periods[queue.policy.period]:
                del self._periods[queue.policy.period]


def _put_in_order(member: Member) -> None:
    """Put a member's queues in the order of its policies."""
    member.queues = {name: member.queues[name] for name in member.subscriber.policies}
    for position, queue in enumerate(member.queues.values()):
        queue.position = position


def _order(entry: tuple[MemberQueue, object]) -> tuple[int, int]:
    return entry[0].order


def _entry(number: int, one: Subscription) -> Entry:
    return Entry.of(number, one.filter, one.active_from, one.active_until)


def _instant(delivered: tuple[Member, Notification]) -> datetime:
    return delivered[1].gathered or delivered[1].time
