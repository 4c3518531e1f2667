"""The queues of a hub that share a window: those of subscriptions that have no filter, only a relevance function.

Such a subscription sees every event. One by one, an event would be matched, ranked and queued for each of them; here
those that are alike form a group, whose events are ranked and delivered by array kernels
(`rankcast.delivery.dense_windows`). They are not in the matching index. A group begins when there are enough of a kind.

A queue can be in a group when exactly one subscription competes for it, which accepts everything, has a relevance
function, is active at all times and does not decay, and when its policy is sliding or topkw without diversity and with
a k of at most `MOST_K`, below a window of events. All others take the ordinary path. So do, for as long as they are not
changed, queues whose history is not that of their group: those that held something else when they came, those to whom
an event was too far away to have a relevance that the others' have, and those that do not hold a repeated event that
others of the group still do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from rankcast.delivery.arrival_policies import SlidingQueue
from rankcast.delivery.batch_layout import Array
from rankcast.delivery.dense_windows import DenseDelivery, DenseWindow, is_dense
from rankcast.delivery.queues import Queue
from rankcast.delivery.timed_policies import TopKWindowQueue
from rankcast.hub.members import Member, MemberQueue
from rankcast.hub.results import Match, Notification
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Policy, Sliding, TopKWindow
from rankcast.model.subscriptions import Subscription
from rankcast.ranking.dense import Shape

FEWEST = 16
"""Queues that make a group: below that, the calls of the kernels cost more than they save."""


class Kind(NamedTuple):
    """What the queues of a group have in common."""

    policy: Sliding | TopKWindow
    shape: Shape
    refresh: timedelta | None


def kind_of(member: Member, subscription: Subscription, policy: Policy) -> Kind | None:
    """Return which group the queue of a subscription belongs to; None when it goes one by one."""
    subscriber = member.subscriber
    if not isinstance(policy, Sliding | TopKWindow) or not is_dense(policy):
        return None
    if subscription.relevance is None or not subscription.filter.accepts_everything or subscriber.decay is not None:
        return None
    if subscription.active_from is not None or subscription.active_until is not None:
        return None
    if subscription.deliver is None and sum(one.deliver is None for one in subscriber.subscriptions) > 1:
        return None
    return Kind(policy, Shape.of(subscription.relevance), subscription.refresh)


@dataclass(slots=True, eq=False)
class Seat:
    """A queue that can be in a group, with its only subscription; `column` is where it is in the group, if it is."""

    number: int
    kind: Kind
    queue: MemberQueue
    subscription: Subscription
    group: Group | None = None
    column: int = -1

    def match(self, event: Event, rank: float) -> Match:
        """Return what an event of this rank means to the queue."""
        queue = self.queue
        return Match(queue.member.subscriber.id, event, rank, (self.subscription.id,), queue.subscription)

    def notification(self, one: DenseDelivery) -> Notification:
        """Return a delivery as a notification."""
        queue = self.queue
        return Notification(
            queue.member.subscriber.id, one.event, one.score, (self.subscription.id,), one.time, queue.subscription
        )


@dataclass(slots=True, eq=False)
class Group:
    """Queues that share a window. `number` names the group among queues, `timer` is when it acts by itself."""

    number: int
    window: DenseWindow
    seats: dict[int, Seat] = field(default_factory=dict)
    timer: datetime | None = None

    @property
    def next_instant(self) -> datetime | None:
        """When the group acts by itself."""
        return self.window.next_instant

    def passed(self, now: datetime, *, closed: bool) -> list[tuple[MemberQueue, list[Notification]]]:
        """Let time pass; return what is delivered, by queue."""
        return self._by_queue(self.window.passed(now, closed=closed))

    def arrived(
        self, event: Event, ranks: Array, now: datetime, *, closed: bool
    ) -> list[tuple[MemberQueue, list[Notification]]]:
        """Let an event arrive that has these ranks; return what is delivered, by queue."""
        return self._by_queue(self.window.arrived(event, ranks, now, closed=closed))

    def _by_queue(self, delivered: list[DenseDelivery]) -> list[tuple[MemberQueue, list[Notification]]]:
        found: defaultdict[Seat, list[Notification]] = defaultdict(list)
        for one in delivered:
            seat = self.seats[one.column]
            found[seat].append(seat.notification(one))
        return [(seat.queue, notes) for seat, notes in found.items()]

    def matches(self, event: Event, ranks: Array) -> list[tuple[MemberQueue, Match]]:
        """Return what an event means to all that it has a rank for."""
        worth = ranks.tolist()
        return [
            (seat.queue, seat.match(event, worth[column]))
            for column, seat in self.seats.items()
            if not math.isnan(worth[column])
        ]

    def strangers(self, event: Event, ranks: Array) -> list[Seat]:
        """Return the queues to which an event is not what it is to the others of the group.

        An event without a relevance to some is no part of their windows. One that was published before and is still
        held is new to those that came since.
        """
        found = [self.seats[column] for column in np.flatnonzero(np.isnan(ranks)).tolist() if column in self.seats]
        if self.window.holds(event.identity):
            others = (seat for seat in self.seats.values() if seat not in found)
            found += [seat for seat in others if not self.window.has_seen(seat.column, event.identity)]
        return found


class SharedQueue:
    """The part of a group that is one queue's, to be looked at; the group moves it."""

    __slots__ = ("_seat", "_window")

    def __init__(self, seat: Seat, window: DenseWindow) -> None:
        self._seat = seat
        self._window = window

    def frozen(self) -> Queue:
        """Return the queue as it is now."""
        return self._window.frozen(self._seat.column)

    def __contains__(self, identity: object) -> bool:
        return isinstance(identity, Identity) and self._window.has_seen(self._seat.column, identity)

    def matches(self) -> dict[Identity, Match]:
        """Return the match of every event that is held, in order of arrival."""
        held = self._window.held(self._seat.column)
        return {event.identity: self._seat.match(event, rank) for event, rank in held}


class DenseGroups:
    """Which queues share windows.

    A queue that can be in a group is offered, and is `waiting`; `settled` puts it in its group, or says that it goes
    one by one. That is done when the next event comes, once everything before it has been done, so that many newcomers
    are seen together.
    """

    def __init__(self, numbers: Iterator[int], fewest: int = FEWEST) -> None:
        self._numbers = numbers
        self._fewest = fewest
        self.waiting: dict[int, Seat] = {}
        self._few: defaultdict[Kind, list[Seat]] = defaultdict(list)
        self._alone: dict[int, Seat] = {}
        self._seated: dict[int, Seat] = {}
        self._groups: dict[Kind, Group] = {}
        self._by_number: dict[int, Group] = {}

    def offer(self, seat: Seat) -> None:
        """Take note of a queue that can be in a group."""
        self.waiting[seat.number] = seat

    def forget(self, number: int) -> bool:
        """Let a subscription go, if it is known here; return whether it is in the index."""
        if self.waiting.pop(number, None) is not None:
            return False
        seat = self._seated.get(number)
        if seat is not None:
            self._leave(seat)
            return False
        seat = self._alone.pop(number, None)
        if seat is not None:
            self._few[seat.kind].remove(seat)
            if not self._few[seat.kind]:
                del self._few[seat.kind]
        return True

    def group(self, number: int) -> Group | None:
        """Return the group of a number."""
        return self._by_number.get(number)

    def groups(self) -> list[Group]:
        """Return all groups."""
        return [*self._groups.values()]

    def matches(self, event: Event) -> list[tuple[MemberQueue, Match]]:
        """Return what an event means to all queues that are in a group, or wait."""
        found = [(seat.queue, seat.queue.match(event, (seat.subscription.id,))) for seat in self.waiting.values()]
        matches = [(queue, match) for queue, match in found if match is not None]
        for group in self._groups.values():
            ranks = group.window.ranks(event)
            matches += [] if ranks is None else group.matches(event, ranks)
        return matches

    def settled(self) -> tuple[list[Seat], list[Seat]]:
        """Put those who wait where they belong; return who goes one by one from now on, and who no longer does."""
        alone: list[Seat] = []
        joined: list[Seat] = []
        waiting, self.waiting = self.waiting, {}
        by_kind: dict[Kind, list[Seat]] = {}
        for seat in waiting.values():
            by_kind.setdefault(seat.kind, []).append(seat)
        for kind, newcomers in by_kind.items():
            few = self._few[kind]
            if kind not in self._groups and len(few) + len(newcomers) < self._fewest:
                few += newcomers
                self._alone |= {seat.number: seat for seat in newcomers}
                alone += newcomers
                continue
            for seat in self._few.pop(kind):
                del self._alone[seat.number]
            self._fill(kind, [*few, *newcomers])
            alone += (seat for seat in newcomers if seat.group is None)
            joined += (seat for seat in few if seat.group is not None)
        return alone, joined

    def _fill(self, kind: Kind, seats: list[Seat]) -> None:
        """Put queues in their group, those that hold most first; some may not fit in."""
        group = self._groups.get(kind)
        if group is None:
            group = Group(next(self._numbers), DenseWindow(*kind))
            self._groups[kind] = self._by_number[group.number] = group
        for seat in sorted(seats, key=lambda one: len(one.queue.held_matches()), reverse=True):
            self._join(seat, group)
        self._close_empty(group)

    def _join(self, seat: Seat, group: Group) -> None:
        queue, preferences = seat.queue, seat.queue.member.preferences
        frozen = queue.queue
        assert isinstance(frozen, SlidingQueue | TopKWindowQueue)
        name = seat.subscription.id
        column = group.window.join(
            preferences.relevances[name],
            preferences.ranks[name],
            preferences.factor(name),
            frozen,
            {identity: match.event for identity, match in queue.matches.items()},
        )
        if column is None:
            return
        seat.group, seat.column = group, column
        group.seats[column] = self._seated[seat.number] = seat
        queue.share(SharedQueue(seat, group.window))

    def dismissed(self, group: Group, event: Event, ranks: Array) -> list[Seat]:
        """Let those of a group go one by one from now on to whom an event is something else; return them."""
        strangers = group.strangers(event, ranks)
        for seat in strangers:
            seat.queue.go_alone()
            self._leave(seat)
        return strangers

    def _leave(self, seat: Seat) -> None:
        group = seat.group
        assert group is not None
        group.window.leave(seat.column)
        del group.seats[seat.column], self._seated[seat.number]
        seat.group, seat.column = None, -1
        self._close_empty(group)

    def _close_empty(self, group: Group) -> None:
        """Forget a group that nobody is in."""
        if not group.seats and self._by_number.pop(group.number, None) is not None:
            self._groups = {kind: one for kind, one in self._groups.items() if one is not group}
