"""What is handed over, and when: gathered periods, and the list that is read on demand.

- gathered every T: periods are half-open, [nT, (n+1)T), counted from 1970. What a policy delivers at an instant of a
  period is handed over at the period's end, together and in order. A delivery at the very end belongs to the next one.
- on demand: `current` is the list of the best k at an instant, of what a queue holds then and what has not expired:
  of the window (sliding, top-k in a window), of the open period as far as it is over (periodic), of the events that
  were delivered (continuous). Reading changes nothing. The policy of all matches holds nothing.

Paper: PrefSIENA, its forwarding on demand and at intervals. Cost of reading: that of evaluating the queue once.
"""

from __future__ import annotations

from datetime import datetime

from rankcast.delivery.rules.arrival import ContinuousQueue, SlidingQueue
from rankcast.delivery.rules.queues import Candidate, Queue, best, chosen, step
from rankcast.delivery.rules.timed import PeriodicQueue, TopKWindowQueue, period_end
from rankcast.model.notifying import Gathered, Notify


def handed_over(notify: Notify, delivered: datetime) -> datetime:
    """Return when a subscriber is handed what its policy delivers at an instant.

    >>> from datetime import UTC, timedelta
    >>> handed_over(Gathered(timedelta(hours=1)), datetime(2026, 1, 1, 9, 30, tzinfo=UTC)).hour
    10
    """
    return period_end(delivered, notify.every) if isinstance(notify, Gathered) else delivered


def current(queue: Queue, now: datetime) -> list[Candidate]:
    """Return the best k of what a queue holds at an instant, the best first."""
    queue, _ = step(queue, None, now)
    valid = [one for one in queue.held if one.is_valid_at(now)]
    if isinstance(queue, ContinuousQueue):
        return best(valid, queue.policy.k)
    if isinstance(queue, SlidingQueue | PeriodicQueue | TopKWindowQueue):
        return chosen(valid, queue.policy.k, queue.policy.diversity)
    return []
