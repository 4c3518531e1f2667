"""From a policy as it is stated to the queue that behaves so, and what a change of policy does to a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankcast.delivery.arrival_policies import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.candidates import Candidate, best
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
    of another kind starts empty. A period holds what it may deliver, its best k that are valid at its end (all of these
    where a selection is diverse), so a larger k is for what comes from now on. What was delivered is not taken back.
    Candidates stay what they are: a policy that compares other attributes for diversity needs `with_candidates` too.
    """
    if isinstance(queue, ContinuousQueue) and isinstance(policy, Continuous):
        return replace(queue, policy=policy)
    if isinstance(queue, SlidingQueue) and isinstance(policy, Sliding):
        recent = queue.recent[-policy.window :]
        return SlidingQueue(policy, recent, queue.delivered & frozenset(recent))
    if isinstance(queue, PeriodicQueue) and isinstance(policy, Periodic):
        return replace(queue, policy=policy, arrivals=_deliverable(queue))
    if isinstance(queue, TopKWindowQueue) and not isinstance(policy, AllMatches | Continuous | Periodic | Sliding):
        living = queue.living[-policy.window :] if isinstance(policy.window, int) else queue.living
        return replace(queue, policy=policy, living=living, delivered=queue.delivered & frozenset(living))
    return new_queue(policy)


def _deliverable(queue: PeriodicQueue) -> tuple[Candidate, ...]:
    """Return what a period still has to keep, as it stands: no engine needs to hold more."""
    if queue.end is None:
        return queue.arrivals
    valid = [one for one in queue.arrivals if one.is_valid_at(queue.end)]
    return tuple(valid if queue.policy.diversity is not None else best(valid, queue.policy.k))


def with_candidates(queue: Queue, changed: Callable[[Candidate], Candidate | None]) -> Queue:
    """Return a queue whose candidates are changed one by one, or leave for None; what was delivered still was."""
    if isinstance(queue, ContinuousQueue):
        return replace(queue, delivered=_changed(queue.delivered, changed)[0])
    if isinstance(queue, PeriodicQueue):
        return replace(queue, arrivals=_changed(queue.arrivals, changed)[0])
    if isinstance(queue, SlidingQueue):
        recent, delivered = _changed(queue.recent, changed, queue.delivered)
        return replace(queue, recent=recent, delivered=delivered)
    if isinstance(queue, TopKWindowQueue):
        living, delivered = _changed(queue.living, changed, queue.delivered)
        return replace(queue, living=living, delivered=delivered)
    return queue


def _changed(
    held: tuple[Candidate, ...],
    changed: Callable[[Candidate], Candidate | None],
    delivered: frozenset[Candidate] = frozenset(),
) -> tuple[tuple[Candidate, ...], frozenset[Candidate]]:
    """Return what is held after the change, and which of it was delivered."""
    pairs = [(old, new) for old in held if (new := changed(old)) is not None]
    return tuple(new for _, new in pairs), frozenset(new for old, new in pairs if old in delivered)
