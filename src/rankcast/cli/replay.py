"""Publishing recorded events through the hub, with counts of what matched and what was delivered.

The input is complete, so events are taken in the order of (time, source, id), whatever the order of lines and files,
and nothing is late; `now` is the time of the events themselves. With an allowed lateness they are taken as they come:
put in the order of their times as far as it goes, and later ones are counted and change nothing. Events without a time
have that of their arrival: one time for all of them.

Cost: all events are in memory where they are put in order.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rankcast.cli.output.terminal import require_kernels
from rankcast.compiling import readiness
from rankcast.delivery.engine.contents import WantedContent
from rankcast.hub import Hub, Late, Match, Notification
from rankcast.hub.core import MOST_PLAIN
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import Problem, counted
from rankcast.model.events import Event
from rankcast.model.policies import (
    AllMatches,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Policy,
    Sliding,
    attributes_named,
    diversity_of,
    keeps_ties,
)
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import EARLIEST, format_time
from rankcast.ranking.diversity import mean_distance
from rankcast.storage.durations import format_cap, format_duration, format_period

COLLECTIONS = (20_000, 50, 100)
"""New objects, and collections of each kind, before the garbage collector looks at more."""


@dataclass(slots=True)
class RankCount:
    """How many notifications there were, and the sum of their ranks."""

    events: int = 0
    ranks: float = 0.0

    def add(self, rank: float) -> None:
        """Count one rank."""
        self.events += 1
        self.ranks += rank

    @property
    def mean_rank(self) -> float | None:
        """The mean rank; None when there was nothing."""
        return self.ranks / self.events if self.events else None

    @property
    def shown_mean(self) -> str:
        """The mean rank as a cell of a table."""
        return "-" if self.mean_rank is None else f"{self.mean_rank:.3f}"


@dataclass(slots=True)
class Tally:
    """What one subscriber was offered and what it got: how much, how good, how diverse and how fresh."""

    content: WantedContent
    stated: Diversity
    events: list[Event] = field(default_factory=list)
    matched: RankCount = field(default_factory=RankCount)
    delivered: RankCount = field(default_factory=RankCount)
    ranks: set[float] = field(default_factory=set)
    waited: timedelta = timedelta(0)

    @staticmethod
    def of(policy: Policy) -> Tally:
        """Return the tally of a subscriber; without a stated diversity all that events carry tells them apart."""
        stated = diversity_of(policy) or Diversity()
        return Tally(WantedContent(frozenset(stated.weights), not stated.weights), stated)

    def add(self, notification: Notification) -> None:
        """Count a notification."""
        event = notification.event
        self.delivered.add(notification.rank)
        self.ranks.add(notification.rank)
        self.events.append(event)
        self.waited += notification.time - (event.time or notification.time)

    @property
    def tied(self) -> int:
        """How many were delivered with a rank that another one had before."""
        return self.delivered.events - len(self.ranks)

    @property
    def diversity(self) -> float:
        """The mean distance of what was delivered, worked out when it is asked for."""
        return mean_distance((dict(self.content.of_event(event.attributes)) for event in self.events), self.stated)

    @property
    def freshness(self) -> timedelta | None:
        """The mean time from publication to delivery; None when nothing was delivered."""
        return self.waited / self.delivered.events if self.delivered.events else None

    @property
    def shown_means(self) -> str:
        """The mean ranks of what matched and of what was delivered, as a cell of a table."""
        return f"{self.matched.shown_mean} -> {self.delivered.shown_mean}" if self.matched.events else "-"


@dataclass(frozen=True, slots=True)
class ReplayedEvent:
    """What the publication of one event led to: the matches of what was taken in, and what was delivered."""

    matches: list[Match]
    delivered: list[Notification]


class Replay:
    """A hub that recorded events are published to, and what each subscriber was offered and got."""

    def __init__(
        self,
        subscribers: Iterable[Subscriber],
        schema: Schema | None,
        lateness: timedelta | None = None,
        *,
        advertisements: Iterable[Advertisement] = (),
        tallied: bool = True,
    ) -> None:
        """Begin with nothing published; without `tallied` there are no tallies and no matches, which saves time.

        `unseen` are the attributes that policies name and no event has had so far, with a subscriber of each.
        """
        served = tuple(subscribers)
        on_match = self._count_match if tallied else None
        allowed = timedelta(0) if lateness is None else lateness
        self.hub = Hub(
            served,
            advertisements=advertisements,
            schema=schema,
            lateness=allowed,
            on_match=on_match,
            on_late=self._count_late,
        )
        self.tallies = {subscriber.id: Tally.of(subscriber.deliver) for subscriber in served if tallied}
        self.events = 0
        self.sources: set[str] = set()
        policies = {policy: own.id for own in reversed(served) for policy in own.policies.values()}
        self.unseen = {name: subscriber for policy, subscriber in policies.items() for name in attributes_named(policy)}
        self.late = 0
        self._matches: list[Match] = []
        self._now: datetime | None = None

    def publish(self, event: Event) -> ReplayedEvent:
        """Publish one event, which has a time, at it."""
        assert event.time is not None
        self._now = now = event.time if self._now is None else max(self._now, event.time)
        self._matches = []
        self.events += 1
        self.sources.add(event.source)
        if self.unseen:
            self.unseen = {name: own for name, own in self.unseen.items() if name not in event.attributes}
        return ReplayedEvent(self._matches, self._count(self.hub.publish(event, now)))

    def finish(self) -> list[Notification]:
        """End the input: what was kept back is taken in, and open periods and windows deliver what they hold."""
        return self._count(self.hub.finish())

    @property
    def matched(self) -> int:
        """How many matches were tallied."""
        return sum(tally.matched.events for tally in self.tallies.values())

    @property
    def delivered(self) -> int:
        """How many notifications were tallied."""
        return sum(tally.delivered.events for tally in self.tallies.values())

    def _count_match(self, match: Match) -> None:
        self._matches.append(match)
        self.tallies[match.subscriber].matched.add(match.rank)

    def _count_late(self, _: Late) -> None:
        self.late += 1

    def _count(self, delivered: list[Notification]) -> list[Notification]:
        for notification in delivered if self.tallies else ():
            self.tallies[notification.subscriber].add(notification)
        return delivered

    def now_for(self, event: Event) -> datetime:
        """Return the time at which an event, which has one, would be published next."""
        return max(time for time in (self._now, event.time) if time is not None)


@dataclass(slots=True)
class Arrivals:
    """Stamps events without a time, and counts them. `now` is when they arrived, the same for all."""

    now: datetime
    count: int = 0

    def stamped(self, events: Iterable[Event]) -> Iterator[Event]:
        """Return the events, all of them with a time."""
        for event in events:
            self.count += event.time is None
            yield event.stamped(self.now)

    def warning(self, file: str) -> list[Problem]:
        """Return what there is to say of them, once."""
        if not self.count:
            return []
        message = f"{counted(self.count, 'event')} without a time; taken to be of {format_time(self.now)} (--now)"
        return [Problem(file, None, message, warning=True)]


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events that have times in the order in which engines take them: by time, source and id."""
    return sorted(events, key=lambda event: (event.time or EARLIEST, *event.identity))


@contextmanager
def few_collections() -> Iterator[None]:
    """Let the garbage collector look around less often: what a replay reads is kept to its end, so a tenth is saved."""
    usual = gc.get_threshold()
    gc.set_threshold(*COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def compile_kernels(subscribers: Iterable[Subscriber]) -> None:
    """Have kernels compiled before anything is timed, if so many subscribers need them: the first time on a machine."""
    are_many = sum(len(subscriber.subscriptions) for subscriber in subscribers) > MOST_PLAIN
    if are_many and not all(map(readiness.is_compiled, readiness.SERVING)):
        require_kernels(*readiness.SERVING)


def shown_policy(policy: Policy) -> str:
    """Return a delivery policy in words.

    >>> shown_policy(Sliding(k=3, window=100))
    'the best 3 of the last 100'
    >>> shown_policy(Sliding(k=3, window=100, diversity=Diversity()))
    'the diverse best 3 of the last 100'
    >>> from rankcast.model.policies import Cap, TieRule, TopKWindow
    >>> shown_policy(TopKWindow(k=3, window=100, ties=TieRule.KEEP))
    'the best 3 at any time within 100 events, ties kept'
    >>> shown_policy(AllMatches(at_most=[Cap(5, timedelta(days=1)), Cap(1, timedelta(days=7), per="company")]))
    'every match, at most 5 every 1d and 1 every 7d per company'
    """
    caps = " and ".join(map(format_cap, policy.at_most))
    return _shown_choice(policy) + (f", at most {caps}" if caps else "")


def _shown_choice(policy: Policy) -> str:
    best = "the best" if diversity_of(policy) is None else "the diverse best"
    kept = ", ties kept" if keeps_ties(policy) else ""
    if isinstance(policy, AllMatches):
        return "every match"
    if isinstance(policy, Continuous):
        return f"the best {policy.k} so far{kept}"
    if isinstance(policy, Sliding):
        return f"{best} {policy.k} of the last {policy.window}{kept}"
    if isinstance(policy, Periodic):
        return f"{best} {policy.k} every {format_period(policy.period)}"
    window = f"{policy.window} events" if isinstance(policy.window, int) else format_duration(policy.window)
    bounded = "" if policy.queue is None else ", in a bounded queue"
    return f"{best} {policy.k} at any time within {window}{kept}{bounded}"


def shown_choice(subscriber: Subscriber) -> str:
    """Return in few words what is chosen for a subscriber, without caps and without when it is handed over.

    >>> from rankcast.model.subscriptions import SubscriberId
    >>> shown_choice(Subscriber(SubscriberId("ana"), deliver=Sliding(3, 100), notify=OnDemand()))
    'the best 3 of the last 100'
    """
    choices = dict.fromkeys(map(_shown_choice, subscriber.policies.values()))
    return next(iter(choices)) if len(choices) == 1 else f"{len(choices)} policies"


def shown_delivery(subscriber: Subscriber) -> str:
    """Return in words what a subscriber is delivered, and when it is handed over.

    >>> from rankcast.model.subscriptions import SubscriberId
    >>> shown_delivery(Subscriber(SubscriberId("ana"), deliver=Continuous(3), notify=OnDemand()))
    'the best 3 so far, on demand'
    """
    policies = dict.fromkeys(shown_policy(policy) for policy in subscriber.policies.values())
    words = " or ".join(policies) if len(policies) < 3 else f"{len(policies)} policies"
    if isinstance(subscriber.handover, Digest):
        return f"{words}, in a digest every {format_period(subscriber.handover.every)}"
    return f"{words}, on demand" if isinstance(subscriber.notify, OnDemand) else words


def shown_delay(delay: timedelta) -> str:
    """Return a mean time in its largest unit.

    >>> shown_delay(timedelta(minutes=90)), shown_delay(timedelta(0))
    ('1.5 h', '0 s')
    """
    seconds = delay.total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds else "0 s"
