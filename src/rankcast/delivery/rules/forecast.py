"""What would become of an event that arrived now: whom it competes with, and what it can still hope for.

`outlook` moves a queue as `step` does, and looks at where the event stands afterwards: nothing is worked out a second
way. An event that is not delivered at once may be later, if nothing better comes:

- in a period, when that ends;
- in a window of time, when enough of the better ones have left: `enters`;
- in a window of so many events, when enough of the better ones have been pushed out by further matches: `enters_after`;
  for top-k in a window also when enough of the better ones expire: `enters`;
- never with continuous delivery, which decides on arrival; `reopens` tells from when on an event of that rank passes;
- never when at least k better ones stay as long, or a bounded queue is full of better ones: the event is `hopeless`,
  and its queue does not hold it.

With `ties: keep` an event can be kept back though fewer than k are better, by k delivered ones that are as good: it is
`TIED`, and those are ahead of it.

A queue holds only what can still be among its best k, so the place of an event is known if it is among these, and else
only that it is not. With diversity the events chosen depend on each other, so no forecast is made. Cost: a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from rankcast.delivery.rules.bounded import bound_of
from rankcast.delivery.rules.policies import ContinuousQueue, PeriodicQueue, SlidingQueue, TopKWindowQueue
from rankcast.delivery.rules.queues import Candidate, Delivered, Queue, best, chosen, ordered, place, step
from rankcast.model.policies import AllMatches, Diversity, Policy, keeps_ties


class ArrivalResult(Enum):
    """What becomes of an event at the instant of its arrival."""

    DELIVERED = "delivered"
    EXPIRED = "expired"
    TOO_OLD = "too old for the window"
    WAITING = "waiting for the end of the period"
    OUTRANKED = "not among the best"
    TIED = "no better than what was delivered"


@dataclass(frozen=True, slots=True)
class Forecast:
    """The standing of an event that arrives in a queue.

    `k` is how many are chosen, `place` where the event stands among these, if it does, and `competitor` the last of the
    others that are chosen without it, the one to beat; of a tied event, the last of those that keep it back. With
    `diverse`, they are chosen by rank and diversity. `hopeless` says that k better ones stay as long or, with a
    `bound`, that so many better ones are held, `in_window` that the event competes in a window. `before` are the
    deliveries that come before that of the event.
    """

    fate: ArrivalResult
    k: int | None = None
    place: int | None = None
    competitor: Candidate | None = None
    decided: datetime | None = None
    enters: datetime | None = None
    enters_after: int | None = None
    reopens: datetime | None = None
    diverse: bool = False
    hopeless: bool = False
    in_window: bool = False
    bound: int | None = None
    before: tuple[Delivered, ...] = ()


def outlook(queue: Queue, candidate: Candidate, now: datetime) -> Forecast:
    """Return what would become of a candidate that arrived at `now`; the queue stays as it is."""
    before, _ = step(queue, None, now)
    after, delivered = step(queue, candidate, now)
    order = [event.candidate.identity for event in delivered]
    if candidate.identity in order:
        standing = _standing(before, after, candidate, now, ArrivalResult.DELIVERED)
        return replace(standing, before=tuple(delivered[: order.index(candidate.identity)]))
    if not candidate.is_valid_at(now):
        return Forecast(ArrivalResult.EXPIRED)
    if isinstance(after, PeriodicQueue):
        return _standing(before, after, candidate, now, ArrivalResult.WAITING)
    if isinstance(after, TopKWindowQueue) and isinstance(before, TopKWindowQueue) and after.entered == before.entered:
        return Forecast(ArrivalResult.TOO_OLD)
    return _standing(before, after, candidate, now, ArrivalResult.OUTRANKED)


def _standing(before: Queue, after: Queue, candidate: Candidate, now: datetime, fate: ArrivalResult) -> Forecast:
    if isinstance(before, ContinuousQueue):
        return _continuous(before, candidate, now, fate)
    if isinstance(after, PeriodicQueue):
        return _in_period(before, after, candidate, now, fate)
    if isinstance(after, SlidingQueue | TopKWindowQueue):
        return _windowed(after, candidate, fate)
    return Forecast(fate)


def _continuous(queue: ContinuousQueue, candidate: Candidate, now: datetime, fate: ArrivalResult) -> Forecast:
    k, valid = queue.policy.k, queue.held_at(now)
    higher = ordered(event for event in valid if queue.holds_back(event, candidate))
    competitor = higher[k - 1] if 0 < k <= len(higher) else None
    surplus = len(higher) - k  # of the higher ones, one more than this has to expire
    expiries = sorted(event.expires for event in higher if event.expires is not None)
    reopens = expiries[surplus] if k and 0 <= surplus < len(expiries) else None
    standing = len(higher) + 1 if len(higher) < k else None
    return Forecast(_or_tied(fate, queue.policy, valid, candidate), k, standing, competitor, reopens=reopens)


def _or_tied(fate: ArrivalResult, policy: Policy, held: Sequence[Candidate], candidate: Candidate) -> ArrivalResult:
    """Return TIED instead of OUTRANKED, where ties are kept and fewer than k are better."""
    if fate is not ArrivalResult.OUTRANKED or isinstance(policy, AllMatches) or not keeps_ties(policy):
        return fate
    better = sum(event.score > candidate.score for event in held)
    return ArrivalResult.TIED if better < policy.k else fate


def _in_period(
    before: Queue, after: PeriodicQueue, candidate: Candidate, now: datetime, fate: ArrivalResult
) -> Forecast:
    policy = after.policy
    others = [event for event in after.arrivals if event.identity != candidate.identity]
    if isinstance(before, PeriodicQueue):
        others = list(before.arrivals)
    standing, competitor = _compared(others, candidate, policy.k, policy.diversity)
    is_held = any(event.identity == candidate.identity for event in after.arrivals)
    decided = after.end if after.end is not None else now
    diverse = policy.diversity is not None
    return Forecast(
        fate, policy.k, standing if is_held else None, competitor, decided, diverse=diverse, hopeless=not is_held
    )


def _windowed(queue: SlidingQueue | TopKWindowQueue, candidate: Candidate, fate: ArrivalResult) -> Forecast:
    policy, held = queue.policy, queue.held
    others = [event for event in held if event.identity != candidate.identity]
    standing, competitor = _compared(others, candidate, policy.k, policy.diversity)
    is_diverse = policy.diversity is not None
    if fate is ArrivalResult.DELIVERED or is_diverse or not policy.k:
        return Forecast(fate, policy.k, standing, competitor, diverse=is_diverse)
    fate, first = _or_tied(fate, policy, held, candidate), queue.delivered if keeps_ties(policy) else frozenset()
    if fate is ArrivalResult.TIED:
        competitor = best((event for event in others if event.identity in first), policy.k)[-1]
    entered = next((event for event in held if event.identity == candidate.identity), None)
    if entered is None:
        bound = bound_of(policy)
        return Forecast(fate, policy.k, None, competitor, hopeless=True, in_window=True, bound=bound)
    ahead = [
        event
        for event in others
        if place(event) < place(candidate) or (event.identity in first and event.score == candidate.score)
    ]
    surplus = len(ahead) - policy.k  # of those ahead, one more than this has to leave
    enters = enters_after = None
    if isinstance(queue, TopKWindowQueue):
        end = sorted(map(queue.leaves, ahead))[surplus]
        enters = end if end < queue.leaves(entered) else None
    if not isinstance(policy.window, timedelta):
        pushed_out = sorted(event.arrival for event in ahead)[surplus]
        enters_after = policy.window - (queue.entered - pushed_out) if pushed_out < entered.arrival else None
    return Forecast(fate, policy.k, standing, competitor, enters=enters, enters_after=enters_after, in_window=True)


def _compared(
    others: list[Candidate], candidate: Candidate, k: int, diversity: Diversity | None
) -> tuple[int | None, Candidate | None]:
    """Return the place of a candidate among the chosen, if it is chosen, and the last of the chosen without it."""
    top = chosen(others, k, diversity)
    competitor = top[-1] if k and len(top) == k else None
    selection = [event.identity for event in chosen([*others, candidate], k, diversity)]
    return selection.index(candidate.identity) + 1 if candidate.identity in selection else None, competitor
