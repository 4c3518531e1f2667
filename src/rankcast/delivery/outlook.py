"""What would become of an event that arrived now: whom it competes with, and what it can still hope for.

`outlook` moves a queue as `step` does, and looks at where the event stands afterwards: nothing is worked out a second
way. An event that is not delivered at once may be later, if nothing better comes:

- in a period, when that ends;
- in a window of time, when enough of the better ones have left: `enters`;
- in a window of so many events, when enough of the better ones have been pushed out by further matches: `enters_after`;
  for top-k in a window also when enough of the better ones expire: `enters`;
- never with continuous delivery, which decides on arrival; `reopens` tells from when on an event of that rank passes.

With diversity the events chosen depend on each other, so no such forecast is made. Cost: that of one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from rankcast.delivery.arrival_policies import ContinuousQueue, SlidingQueue
from rankcast.delivery.candidates import Candidate, best, chosen
from rankcast.delivery.queues import Queue, step
from rankcast.delivery.timed_policies import PeriodicQueue, TopKWindowQueue
from rankcast.model.diversity import Diversity


class Fate(Enum):
    """What becomes of an event at the instant of its arrival."""

    DELIVERED = "delivered"
    EXPIRED = "expired"
    TOO_OLD = "too old for the window"
    WAITING = "waiting for the end of the period"
    OUTRANKED = "not among the best"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The standing of an event that arrives in a queue.

    `place` is its place in the order of those it competes with, itself included, and `k` how many of them are chosen;
    `competitor` is the last of the chosen others, the one to beat. `window` are all of them, in order of arrival.
    With `diverse`, they are chosen by rank and diversity, and only what is chosen has a place.
    """

    fate: Fate
    k: int | None = None
    place: int | None = None
    competitor: Candidate | None = None
    window: tuple[Candidate, ...] = ()
    decided: datetime | None = None
    enters: datetime | None = None
    enters_after: int | None = None
    reopens: datetime | None = None
    diverse: bool = False


def outlook(queue: Queue, candidate: Candidate, now: datetime) -> Outlook:
    """Return what would become of a candidate that arrived at `now`; the queue stays as it is."""
    before, _ = step(queue, None, now)
    after, delivered = step(queue, candidate, now)
    if any(one.candidate.identity == candidate.identity for one in delivered):
        return _standing(before, after, candidate, now, Fate.DELIVERED)
    if not candidate.is_valid_at(now):
        return Outlook(Fate.EXPIRED)
    if isinstance(after, PeriodicQueue):
        return _standing(before, after, candidate, now, Fate.WAITING)
    if isinstance(after, TopKWindowQueue) and candidate not in after.living:
        return Outlook(Fate.TOO_OLD)
    return _standing(before, after, candidate, now, Fate.OUTRANKED)


def _standing(before: Queue, after: Queue, candidate: Candidate, now: datetime, fate: Fate) -> Outlook:
    if isinstance(before, ContinuousQueue):
        return _continuous(before, candidate, now, fate)
    if isinstance(after, PeriodicQueue):
        end = after.end or now
        window = tuple(one for one in after.arrivals if one.is_valid_at(end))
        place, competitor = _compared(window, candidate, after.policy.k, after.policy.diversity)
        diverse = after.policy.diversity is not None
        return Outlook(fate, after.policy.k, place, competitor, window, decided=end, diverse=diverse)
    if isinstance(after, SlidingQueue | TopKWindowQueue):
        return _windowed(after, candidate, fate)
    return Outlook(fate)


def _continuous(queue: ContinuousQueue, candidate: Candidate, now: datetime, fate: Fate) -> Outlook:
    k = queue.policy.k
    window = tuple(one for one in queue.delivered if one.is_valid_at(now))
    higher = best((one for one in window if one.score > candidate.score), len(window))
    competitor = higher[k - 1] if 0 < k <= len(higher) else None
    surplus = len(higher) - k  # of the higher ones, one more than this has to expire
    expiries = sorted(one.expires for one in higher if one.expires is not None)
    reopens = expiries[surplus] if k and 0 <= surplus < len(expiries) else None
    return Outlook(fate, k, len(higher) + 1, competitor, window, reopens=reopens)


def _windowed(queue: SlidingQueue | TopKWindowQueue, candidate: Candidate, fate: Fate) -> Outlook:
    policy, window = queue.policy, queue.held
    place, competitor = _compared(window, candidate, policy.k, policy.diversity)
    if place is None or fate is Fate.DELIVERED or not policy.k:
        return Outlook(fate, policy.k, place, competitor, window, diverse=policy.diversity is not None)
    ahead = best(window, place - 1)
    surplus = len(ahead) - policy.k  # of those ahead, one more than this has to leave
    enters = enters_after = None
    if isinstance(queue, TopKWindowQueue):
        end = sorted(map(queue.leaves, ahead))[surplus]
        enters = end if end < queue.leaves(candidate) else None
    if not isinstance(policy.window, timedelta):
        places = sorted(window.index(one) for one in ahead)
        enters_after = policy.window - len(window) + places[surplus] + 1
    return Outlook(fate, policy.k, place, competitor, window, enters=enters, enters_after=enters_after)


def _compared(
    window: tuple[Candidate, ...], candidate: Candidate, k: int, diversity: Diversity | None
) -> tuple[int | None, Candidate | None]:
    """Return the place of a candidate among a window, and the last of the others that are chosen without it."""
    others = [one for one in window if one != candidate]
    top = chosen(others, k, diversity)
    competitor = top[-1] if k and len(top) == k else None
    if diversity is None:
        return best(window, len(window)).index(candidate) + 1 if candidate in window else None, competitor
    selection = chosen(window, k, diversity)
    return selection.index(candidate) + 1 if candidate in selection else None, competitor
