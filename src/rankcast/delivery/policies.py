"""From a policy as it is stated to the queue that behaves so, and what a change of policy does to a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankcast.delivery.arrival_policies import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.candidates import Candidate
from rankcast.delivery.queues import Queue
from rankcast.delivery.timed_policies import PeriodicQueue, TopKWindowQueue
from rankcast.model.policies import AllMatches, Continuous, Periodic, Policy, Sliding


def new_queue(policy: Policy) -> Queue:
    """Return the queue of a policy, which has seen nothing yet."""
    if isinstance(policy, AllMatches):
        return EverythingQueue(policy)
    if isinstance(policy, Continuous):
        return ContinuousQueue(policy)
    if isinstance(policy, Sliding):
        return SlidingQueue(policy)
    return PeriodicQueue(policy) if isinstance(policy, Periodic) else TopKWindowQueue(policy)


def with_policy(queue: Queue, policy: Policy) -> Queue:
    """Return a queue under a changed policy, from the next instant on.

    What is still held is kept where the kind of policy stays, within a smaller window the most recent events; a policy
    of another kind starts empty. Nothing that was delivered is taken back. Candidates stay what they are: a policy that
    compares other attributes for diversity needs `with_candidates` as well.
    """
    if isinstance(queue, ContinuousQueue) and isinstance(policy, Continuous):
        return replace(queue, policy=policy)
    if isinstance(queue, SlidingQueue) and isinstance(policy, Sliding):
        recent = queue.recent[-policy.window :]
        return SlidingQueue(policy, recent, queue.delivered & frozenset(recent))
    if isinstance(queue, PeriodicQueue) and isinstance(policy, Periodic):
        return replace(queue, policy=policy)
    if isinstance(queue, TopKWindowQueue) and not isinstance(policy, AllMatches | Continuous | Periodic | Sliding):
        living = queue.living[-policy.window :] if isinstance(policy.window, int) else queue.living
        return replace(queue, policy=policy, living=living, delivered=queue.delivered & frozenset(living))
    return new_queue(policy)


def with_candidates(queue: Queue, changed: Callable[[Candidate], Candidate]) -> Queue:
    """Return a queue whose candidates are changed one by one; what was delivered still was."""
    if isinstance(queue, ContinuousQueue):
        return replace(queue, delivered=tuple(map(changed, queue.delivered)))
    if isinstance(queue, PeriodicQueue):
        return replace(queue, arrivals=tuple(map(changed, queue.arrivals)))
    if isinstance(queue, SlidingQueue):
        recent = tuple(map(changed, queue.recent))
        return replace(queue, recent=recent, delivered=_still(queue.recent, recent, queue.delivered))
    if isinstance(queue, TopKWindowQueue):
        living = tuple(map(changed, queue.living))
        return replace(queue, living=living, delivered=_still(queue.living, living, queue.delivered))
    return queue


def _still(
    before: tuple[Candidate, ...], after: tuple[Candidate, ...], delivered: frozenset[Candidate]
) -> frozenset[Candidate]:
    return frozenset(new for old, new in zip(before, after, strict=True) if old in delivered)
