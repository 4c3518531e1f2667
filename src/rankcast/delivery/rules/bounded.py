"""How many events a bounded queue holds.

An event that arrives as the l-th best of a long window is among its best k when it is about to leave with probability
p(l) = P(Bin(l + k - 1, 1/2) <= k - 1), where scores do not depend on time. It is among them at some time in between
with twice that, so a queue that is to miss no more than a share sigma of what it should deliver holds as many as the
last l with p(l) >= sigma / 2: at least k, and about k + z sqrt(2k) + z^2 / 2.

Paper: top-k/w publish/subscribe, section 3, with the corrections of docs/semantics.md. Cost: O(sqrt k), once.
"""

from __future__ import annotations

import math
from functools import lru_cache

from rankcast.model.policies import Policy, TopKWindow


@lru_cache(maxsize=1024)
def queue_length(k: int, sigma: float) -> int:
    """Return how many events a bounded queue holds.

    >>> [queue_length(k, 0.001) for k in (1, 2, 5, 10, 20, 50, 100, 1000)]
    [10, 13, 20, 30, 46, 88, 151, 1152]
    """
    if k <= 0:
        return 0
    draws = 2 * k - 1
    chance = 0.5  # p(k): of 2k - 1 draws fewer than k
    last = math.exp(math.lgamma(draws + 1) - math.lgamma(k) - math.lgamma(k + 1) - draws * math.log(2))
    length = k
    while chance - last / 2 >= sigma / 2:  # p(l + 1) is p(l) less half the chance of exactly k - 1
        chance -= last / 2
        length += 1
        draws += 1
        last *= draws / (draws + 1 - k) / 2
    return length


def bound_of(policy: Policy) -> int | None:
    """Return how many events the queue of a policy holds at most, if that has a bound by choice."""
    if not isinstance(policy, TopKWindow) or policy.queue is None:
        return None
    return queue_length(policy.k, policy.queue.sigma)
