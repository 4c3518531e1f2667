"""From a policy as it is stated to the queue that behaves so, and what a change does to a queue.

A change acts at once on what is held: what has expired leaves, the window is cut, what is held is matched and ranked
again, and then the queue holds what it needs under the policy now in force. It is evaluated at the next instant, and
nothing is taken back. So after a change of k from 2 to 5 a queue holds just what it held with 2, and for up to one
window it may deliver events that are not among the best 5 of all that arrived. A policy of another kind starts empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from rankcast.delivery.rules.policies import (
    ContinuousQueue,
    EverythingQueue,
    PeriodicQueue,
    SlidingQueue,
    TopKWindowQueue,
    continuous_queue,
)
from rankcast.delivery.rules.queues import Candidate, Queue
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.times import LATEST

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
            valid = tuple(one for one in queue.delivered if one.is_valid_at(now))
            return continuous_queue(policy, _reranked(valid, rerank).values())
        case SlidingQueue(), Sliding():
            within = queue.without_expired(now)
            again = _reranked(within.recent, rerank)
            left = ((one.arrival, one.expires) for one in within.recent if one.identity not in again and one.expires)
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
    held = {one.identity for one in needed.living}
    ends = [changed.leaves(one) for one in changed.living if one.identity not in held]
    instants = [end for end in (*ends, *([needed.unseen] if needed.unseen else [])) if end < LATEST]
    return replace(needed, unseen=min(instants)) if instants and held else needed


def renamed_queue(queue: Queue, name: Callable[[Identity | int], Identity | int]) -> AnyQueue:
    """Return a queue whose events are called otherwise; their order has to stay the same."""

    def renamed(held: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        return tuple(replace(one, identity=name(one.identity)) for one in held)

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
    found = ((one, one if rerank is None else rerank(one)) for one in held)
    return {
        old.identity: replace(old, identity=new.identity, score=new.score, content=new.content)
        for old, new in found
        if new is not None
    }


def _still(
    delivered: frozenset[Identity | int], again: Mapping[Identity | int, Candidate]
) -> frozenset[Identity | int]:
    return frozenset(one.identity for name, one in again.items() if name in delivered)
