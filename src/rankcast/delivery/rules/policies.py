"""The five delivery policies, what is handed over when, and the list that is read on demand.

Three decide when an event arrives, and only then:

- all: every candidate that has not expired.
- continuous(k): unless k valid delivered events come before it in the queue's order.
- sliding(k, w): among the w most recent matching events; the expired ones leave first and free their places, then the
  new one enters, then whatever is in the best k and was not delivered before is. With diversity the best k are those
  of a diverse selection among the window, made at every match.

Two also decide when time passes:

- periodic(k, T): half-open periods [nT, (n+1)T), counted from 1970, or those of a calendar (`rankcast.model.periods`);
  at the end of a period the best k of those that arrived in it and expire after that.
- topkw(k, window): whatever is among the best k at any instant while it lives. With a window of time an event lives on
  [time, min(time + w, expires)), the best k are looked at again at every departure, and all arrivals of one instant
  enter before it is evaluated. With a window of so many events, the oldest leaves as the newest enters; an expired
  event leaves when it expires, but keeps its place: it is still one of the w most recent.

Which of equally good events these are, `ties` says. The order of a queue decides by default: the newer one comes first,
so where ranks are few, k limits little. With `ties: keep` an event is delivered only while fewer than k delivered ones
that are still in the window, or with continuous delivery still valid, score at least as high.

A queue holds what can still be among its best k, delivered or not, and no more (`queues.needed`). Of continuous
delivery that are delivered events which fewer than k others precede and outlive; keeping just the k best would be wrong
once events expire. Of a period it is the best k of those that are valid at its end. A window drops what k others
precede and outstay, but with `ties: keep` not what was delivered and can still hold back others. What a sliding window
drops keeps its place until it would have left: the arrival number of each event that is held says how many are newer,
and of dropped events that will expire, and free their places then, number and expiry are kept. A diverse selection
needs all of its period or window. An event that has expired when it arrives changes nothing.

The bounded queue of topkw holds the best of its window that have not been dropped, so many as `bounded` says. An event
that comes when it is full drops the worst, which may be itself, and counts as one of the most recent all the same. What
was dropped is missed when better ones have left, and a worse one that is still held is delivered instead.

What a policy delivers is handed over at once, or in a digest every T, or at each start of a calendar: at the first such
instant at or after it, together and in order, also if it has expired meanwhile. At one instant periods end first, then
the digest is handed over, then events arrive: what these lead to, and a window that is evaluated when the instant is
over, is for the next digest. On demand, `current` is the list of the best k at an instant, of what a queue holds then
and what has not expired. Reading changes nothing. The policy of all matches holds nothing.

A change acts at once on what is held: what has expired leaves, the window is cut, what is held is matched and ranked
again, and then the queue holds what it needs under the policy now in force. It is evaluated at the next instant, and
nothing is taken back. So after a change of k from 2 to 5 a queue holds just what it held with 2, and for up to one
window it may deliver events that are not among the best 5 of all that arrived. A policy of another kind starts empty.

Papers: PrefSIENA, its timing policies and forwarding, with the corrections of docs/semantics.md; top-k/w
publish/subscribe for windows. Cost per arrival or instant: a sort of the events held, k(1 + ln(w/k)) of a window of w
on average, and as many comparisons for each one that may be dropped; k * w distances with diversity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace

from rankcast.delivery.rules.bounded import bound_of
from rankcast.delivery.rules.queues import (
    FOREVER,
    Candidate,
    Delivered,
    Moment,
    Moved,
    Queue,
    best,
    chosen,
    needed,
    place,
    step,
)
from rankcast.model.events import Identity
from rankcast.model.periods import period_end, period_end_ticks
from rankcast.model.policies import (
    AllMatches,
    Continuous,
    Digest,
    Notify,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
    keeps_ties,
)
from rankcast.model.times import LATEST, instant_of, later, microseconds


class EverythingQueue(Queue, frozen=True):
    """Delivery of all matches: nothing to remember."""

    policy: AllMatches

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Deliver the candidate unless it has expired."""
        return self, [Delivered(candidate, now)] if candidate.is_valid_at(now) else []


class ContinuousQueue(Queue, frozen=True):
    """Continuous delivery: the delivered events that can still hold back another one."""

    policy: Continuous
    delivered: tuple[Candidate, ...] = ()

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Deliver the candidate unless it has expired or k valid delivered events come before it."""
        if not candidate.is_valid_at(now):
            return self, []
        valid = tuple(event for event in self.delivered if event.is_valid_at(now))
        if sum(self.holds_back(event, candidate) for event in valid) >= self.policy.k:
            return replace(self, delivered=valid), []
        return continuous_queue(self.policy, (*valid, candidate)), [Delivered(candidate, now)]

    def holds_back(self, delivered: Candidate, candidate: Candidate) -> bool:
        """Whether a delivered event comes before a candidate: with `ties: keep`, if it scores at least as high."""
        if self.policy.ties is TieRule.KEEP:
            return delivered.score >= candidate.score
        return place(delivered) < place(candidate)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The delivered events that hold back others."""
        return self.delivered


def continuous_queue(policy: Continuous, delivered: Iterable[Candidate]) -> ContinuousQueue:
    """Return the queue that holds what it needs of some delivered events."""
    return ContinuousQueue(policy, needed(delivered, policy.k, lambda event: (event.expires or FOREVER, FOREVER)))


def _new_among_best(
    policy: Sliding | TopKWindow, window: Sequence[Candidate], delivered: Set[Identity | int]
) -> list[Candidate]:
    """Return what a window delivers: what is new among its best k, best first.

    With `ties: keep` an event is delivered only while fewer than k delivered ones of the window score at least as high.
    """
    new = [event for event in chosen(window, policy.k, policy.diversity) if event.identity not in delivered]
    if not new or not keeps_ties(policy):
        return new
    scores = [event.score for event in window if event.identity in delivered]
    for at, event in enumerate(new):
        if sum(score >= event.score for score in scores) >= policy.k:
            return new[:at]  # so many score at least as high as what comes after it, too
        scores.append(event.score)
    return new


def _needed_in_window(
    policy: Sliding | TopKWindow,
    inside: tuple[Candidate, ...],
    delivered: Set[Identity | int],
    stay: Callable[[Candidate], tuple[Moment, datetime]],
    newest: Candidate | None = None,
) -> tuple[Candidate, ...]:
    """Return what a window needs of its events: what can still be among its best k, all of it with diversity, and of
    a bounded queue the best ones.

    With `ties: keep` also the delivered events that can still be among the best k of those that were delivered, where
    what scores as high and stays as long counts too: they hold back others.
    """
    if policy.diversity is not None:
        return inside
    if (most := bound_of(policy)) is not None:
        held = {event.identity for event in best(inside, most)}
        return tuple([event for event in inside if event.identity in held])
    if not keeps_ties(policy):
        return needed(inside, policy.k, stay, newest)
    holding_back = (event for event in inside if event.identity in delivered)
    parts = needed(inside, policy.k, stay), needed(holding_back, policy.k, stay, equals=True)
    held = {event.identity for part in parts for event in part}
    return tuple([event for event in inside if event.identity in held])


class SlidingQueue(Queue, frozen=True):
    """Sliding delivery: what is needed of the most recent matching events, oldest first, and which were delivered.

    `entered` counts the events that entered. `places` are the arrival numbers and expiries of events that are not held,
    are newer than the oldest that is, and will free their places when they expire.
    """

    policy: Sliding
    recent: tuple[Candidate, ...] = ()
    delivered: frozenset[Identity | int] = frozenset()
    entered: int = 0
    places: tuple[tuple[int, datetime], ...] = ()

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Let expired events leave, the candidate enter, and deliver what is new among the best k."""
        if not candidate.is_valid_at(now):
            return self, []
        queue = self.without_expired(now)
        number = queue.entered + 1
        staying = [event for event in queue.recent if event.arrival > number - self.policy.window]
        delivered = self.delivered
        if len(staying) < len(self.recent):
            delivered &= {event.identity for event in staying}
        recent = (*staying, replace(candidate, arrival=number))
        new = _new_among_best(self.policy, recent, delivered)
        delivered |= {event.identity for event in new}
        queue = replace(queue, recent=recent, delivered=delivered, entered=number).with_what_is_needed(recent[-1])
        return queue, [Delivered(event, now) for event in new]

    def without_expired(self, now: datetime) -> SlidingQueue:
        """Let what has expired leave; older events are then so much nearer to the newest."""
        valid = [event for event in self.recent if event.expires is None or event.expires > now]
        gone = [number for number, expires in self.places if expires <= now]
        if len(valid) < len(self.recent):
            gone += (event.arrival for event in self.recent if not event.is_valid_at(now))
        if not gone:
            return self
        gone.sort()
        count, last = len(gone), gone[-1]
        recent = [
            event
            if event.arrival > last
            else replace(event, arrival=event.arrival + count - bisect_right(gone, event.arrival))
            for event in valid
        ]
        places = [
            (number if number > last else number + count - bisect_right(gone, number), expires)
            for number, expires in self.places
            if expires > now
        ]
        return replace(self, recent=tuple(recent), places=tuple(places))

    def with_what_is_needed(self, newest: Candidate | None = None) -> SlidingQueue:
        """Hold nothing outside the window and nothing that can no longer be among the best k, but for its place."""
        oldest = self.entered - self.policy.window + 1
        inside = self.recent
        if inside and inside[0].arrival < oldest:  # the oldest comes first
            inside = tuple([event for event in inside if event.arrival >= oldest])
        recent = _needed_in_window(
            self.policy, inside, self.delivered, lambda event: (event.arrival, event.expires or FOREVER), newest
        )
        oldest = max(oldest, recent[0].arrival if recent else self.entered + 1)
        places = self.places
        if places and places[0][0] < oldest:
            places = tuple([place for place in places if place[0] >= oldest])
        if recent is self.recent:
            return self if places is self.places else replace(self, places=places)
        held = {event.identity for event in recent}
        if len(recent) < len(inside):
            dropped = (event for event in inside if event.identity not in held and event.arrival >= oldest)
            left = ((event.arrival, event.expires) for event in dropped if event.expires is not None)
            places = tuple(sorted((*places, *left)))
        return replace(self, recent=recent, delivered=self.delivered & held, places=places)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What is needed of the window."""
        return self.recent


class PeriodicQueue(Queue, frozen=True):
    """Periodic delivery: what the current period may deliver, and when that ends; no end while it has nothing."""

    policy: Periodic
    end: datetime | None = None
    arrivals: tuple[Candidate, ...] = ()

    def pass_time(self, now: datetime) -> Moved:
        """Deliver the best k of a period that has ended."""
        if self.end is None or now < self.end:
            return self, []
        top = chosen(self.arrivals, self.policy.k, self.policy.diversity)
        return PeriodicQueue(self.policy), [Delivered(event, self.end) for event in top]

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Keep the candidate until its period ends, if it may be delivered then."""
        if not candidate.is_valid_at(now):
            return self, []
        end = period_end(now, self.policy.period) if self.end is None else self.end
        if not candidate.is_valid_at(end):
            return self, []
        if self.policy.diversity is not None or len(self.arrivals) < self.policy.k:
            return PeriodicQueue(self.policy, end, (*self.arrivals, candidate)), []
        if not self.arrivals or candidate.score < min([event.score for event in self.arrivals]):
            return self, []  # most of the time scores decide, and places cost more
        worst = max(self.arrivals, key=place)
        if place(worst) < place(candidate):
            return self, []
        better = [event for event in self.arrivals if event is not worst]
        return PeriodicQueue(self.policy, end, (*better, candidate)), []

    def with_what_is_needed(self) -> PeriodicQueue:
        """Hold only what the period may deliver: its best k of what is valid at its end, all of that with diversity."""
        arrivals = tuple(event for event in self.arrivals if self.end is not None and event.is_valid_at(self.end))
        if self.policy.diversity is None:
            top = {event.identity for event in best(arrivals, self.policy.k)}
            arrivals = tuple(event for event in arrivals if event.identity in top)
        return PeriodicQueue(self.policy, self.end if arrivals else None, arrivals)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What the current period may deliver."""
        return self.arrivals

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what the current period may deliver, if it has not ended by `now`."""
        return self.arrivals if self.end is not None and now < self.end else ()

    @property
    def next_instant(self) -> datetime | None:
        """The end of the current period, once it has something to deliver."""
        return self.end


class TopKWindowQueue(Queue, frozen=True):
    """Top-k in a window: what is needed of the events that live, in order of arrival, and which were delivered.

    `entered` counts the events that entered; `unseen` is an instant whose arrivals have entered but which has not been
    evaluated yet.
    """

    policy: TopKWindow
    living: tuple[Candidate, ...] = ()
    delivered: frozenset[Identity | int] = frozenset()
    unseen: datetime | None = None
    entered: int = 0

    def pass_time(self, now: datetime) -> Moved:
        """Evaluate, in order, the instants before `now` at which something entered or left."""
        queue, delivered = self, list[Delivered]()
        while (instant := queue.next_instant) is not None and instant < now:
            queue, more = queue._evaluated(instant)
            delivered += more
        return queue, delivered

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Let what lives no longer leave, then the candidate enter.

        A window of so many events is evaluated at once, one of time when `now` is over.
        """
        if not candidate.is_valid_at(now) or (
            isinstance(self.policy.window, timedelta) and self.leaves(candidate) <= now
        ):
            return self, []
        queue = replace(self, entered=self.entered + 1).without_departed(now)
        entering = replace(candidate, arrival=queue.entered)
        if isinstance(self.policy.window, timedelta):
            return replace(queue, living=(*queue.living, entering), unseen=now).with_what_is_needed(), []
        return replace(queue, living=(*queue._inside(queue.living), entering))._evaluated(now)

    def close(self, now: datetime) -> Moved:
        """Evaluate `now` if something entered or leaves at it."""
        instant = self.next_instant
        return self._evaluated(now) if instant is not None and instant <= now else (self, [])

    def _evaluated(self, instant: datetime) -> tuple[TopKWindowQueue, list[Delivered]]:
        queue = self.without_departed(instant)
        new = _new_among_best(self.policy, queue.living, queue.delivered)
        delivered = queue.delivered | {event.identity for event in new}
        queue = replace(queue, delivered=delivered, unseen=None).with_what_is_needed()
        return queue, [Delivered(event, instant) for event in new]

    def without_departed(self, instant: datetime) -> TopKWindowQueue:
        """Let what lives no longer leave."""
        living = tuple(event for event in self.living if self.leaves(event) > instant)
        return replace(self, living=living, delivered=self.delivered & {event.identity for event in living})

    def with_what_is_needed(self) -> TopKWindowQueue:
        """Hold nothing outside the window and nothing that can no longer be among the best k."""
        living = self._inside(self.living)
        if isinstance(self.policy.window, timedelta):
            living = _needed_in_window(self.policy, living, self.delivered, lambda event: (self.leaves(event), FOREVER))
        else:
            living = _needed_in_window(
                self.policy, living, self.delivered, lambda event: (event.arrival, event.expires or FOREVER)
            )
        held = {event.identity for event in living}
        return replace(self, living=living, delivered=self.delivered & held, unseen=self.unseen if living else None)

    def _inside(self, living: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Return what a window of so many events has room for: the most recent, whether those after are held or not."""
        if isinstance(self.policy.window, timedelta):
            return living
        oldest = self.entered - self.policy.window + 1
        return tuple(event for event in living if event.arrival >= oldest)

    def leaves(self, candidate: Candidate) -> datetime:
        """Return when a candidate leaves by itself. Nothing outlives the end of time, so nothing ends at it."""
        window = self.policy.window
        end = later(candidate.time, window) if isinstance(window, timedelta) else LATEST
        return end if candidate.expires is None else min(end, candidate.expires)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What is needed of the events that live."""
        return self.living

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what is needed of the events that live at `now`."""
        return tuple(event for event in self.living if self.leaves(event) > now)

    @property
    def next_instant(self) -> datetime | None:
        """The first instant that is due: one that waits to be evaluated, or the next departure."""
        ends = [end for event in self.living if (end := self.leaves(event)) < LATEST]
        instants = ends if self.unseen is None else [self.unseen, *ends]
        return min(instants, default=None)


def handed_over(notify: Notify, policy: Policy, delivered: datetime) -> datetime:
    """Return when a subscriber is handed what a policy delivers at an instant.

    >>> from datetime import UTC, timedelta
    >>> hourly, ten = Digest(timedelta(hours=1)), datetime(2026, 1, 1, 10, tzinfo=UTC)
    >>> handed_over(hourly, Periodic(3, timedelta(hours=1)), ten).hour, handed_over(hourly, Continuous(3), ten).hour
    (10, 11)
    """
    return instant_of(handed_over_ticks(notify, isinstance(policy, Periodic), microseconds(delivered)))


def handed_over_ticks(notify: Notify, of_period: bool, delivered: int) -> int:
    """Return when what a policy, perhaps of periods, delivers is handed over; in microseconds since 1970.

    A period that ends at the instant of a digest is in that; what is delivered by others at it comes after it.
    """
    return period_end_ticks(delivered - of_period, notify.every) if isinstance(notify, Digest) else delivered


def current(queue: Queue, now: datetime) -> list[Candidate]:
    """Return the best k of what a queue holds at an instant, the best first."""
    queue, _ = step(queue, None, now)
    valid = [event for event in queue.held if event.is_valid_at(now)]
    if isinstance(queue, ContinuousQueue):
        return best(valid, queue.policy.k)
    if isinstance(queue, SlidingQueue | PeriodicQueue | TopKWindowQueue):
        return chosen(valid, queue.policy.k, queue.policy.diversity)
    return []


AnyQueue: TypeAlias = EverythingQueue | ContinuousQueue | SlidingQueue | PeriodicQueue | TopKWindowQueue


def new_queue(policy: Policy) -> AnyQueue:
    """Return the queue of a policy, which has seen nothing yet."""
    if isinstance(policy, AllMatches):
        return EverythingQueue(policy)
    if isinstance(policy, Continuous):
        return ContinuousQueue(policy)
    if isinstance(policy, Sliding):
        return SlidingQueue(policy)
    return PeriodicQueue(policy) if isinstance(policy, Periodic) else TopKWindowQueue(policy)


def changed_queue(
    queue: Queue, policy: Policy, now: datetime, rerank: Callable[[Candidate], Candidate | None] | None = None
) -> Queue:
    """Return a queue under a changed policy, or under changed filters and ranks, from the next instant on.

    `rerank` gives each candidate as it is from now on, or None when it matches no more: score and content are taken
    from it, and the identity, which may be another number for the same event. Time, expiry and place stay what they
    are. Without it the candidates stay too, so a policy that compares other attributes for diversity needs it.
    """
    match queue, policy:
        case ContinuousQueue(), Continuous():
            valid = tuple(event for event in queue.delivered if event.is_valid_at(now))
            return continuous_queue(policy, _reranked(valid, rerank).values())
        case SlidingQueue(), Sliding():
            within = queue.without_expired(now)
            again = _reranked(within.recent, rerank)
            left = (
                (event.arrival, event.expires)
                for event in within.recent
                if event.identity not in again and event.expires
            )
            changed = replace(
                within,
                policy=policy,
                recent=tuple(again.values()),
                delivered=_still(within.delivered, again),
                places=tuple(sorted((*within.places, *left))),
            )
            return changed.with_what_is_needed()
        case PeriodicQueue(), Periodic():
            arrivals = tuple(_reranked(queue.arrivals, rerank).values())
            return replace(queue, policy=policy, arrivals=arrivals).with_what_is_needed()
        case TopKWindowQueue(), TopKWindow():
            alive = replace(queue, policy=policy).without_departed(now)
            again = _reranked(alive.living, rerank)
            window = replace(
                alive, living=tuple(again.values()), delivered=_still(alive.delivered, again), unseen=queue.unseen
            )
            needed = window.with_what_is_needed()
            if len(alive.living) < len(queue.living):
                return replace(needed, unseen=now)  # a departure is evaluated
            return _evaluated_when_dropped_leave(window, needed)
    return new_queue(policy)


def _evaluated_when_dropped_leave(changed: TopKWindowQueue, needed: TopKWindowQueue) -> TopKWindowQueue:
    """Let a window be evaluated when the first event leaves that a change made it drop, if it is not before.

    Other ranks can bring an event to the top that was not there; it is delivered when the window is next looked at.
    """
    held = {event.identity for event in needed.living}
    ends = [changed.leaves(event) for event in changed.living if event.identity not in held]
    instants = [end for end in (*ends, *([needed.unseen] if needed.unseen else [])) if end < LATEST]
    return replace(needed, unseen=min(instants)) if instants and held else needed


def renamed_queue(queue: Queue, name: Callable[[Identity | int], Identity | int]) -> AnyQueue:
    """Return a queue whose events are called otherwise; their order has to stay the same."""

    def renamed(held: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        return tuple(replace(event, identity=name(event.identity)) for event in held)

    match queue:
        case ContinuousQueue():
            return replace(queue, delivered=renamed(queue.delivered))
        case SlidingQueue():
            return replace(queue, recent=renamed(queue.recent), delivered=frozenset(map(name, queue.delivered)))
        case PeriodicQueue():
            return replace(queue, arrivals=renamed(queue.arrivals))
        case TopKWindowQueue():
            return replace(queue, living=renamed(queue.living), delivered=frozenset(map(name, queue.delivered)))
        case EverythingQueue():
            return queue
    raise TypeError(f"there is no {type(queue).__name__}")


def _reranked(
    held: tuple[Candidate, ...], rerank: Callable[[Candidate], Candidate | None] | None
) -> dict[Identity | int, Candidate]:
    """Return what is still held, as it is from now on, by the identity that it had."""
    found = ((event, event if rerank is None else rerank(event)) for event in held)
    return {
        old.identity: replace(old, identity=new.identity, score=new.score, content=new.content)
        for old, new in found
        if new is not None
    }


def _still(
    delivered: frozenset[Identity | int], again: Mapping[Identity | int, Candidate]
) -> frozenset[Identity | int]:
    return frozenset(event.identity for name, event in again.items() if name in delivered)
