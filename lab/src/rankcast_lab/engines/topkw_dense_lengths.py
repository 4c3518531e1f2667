"""How long the queues of top-k in a window are, and how many events they deliver: the formulas.

An event that arrives as the l-th best of a window is among the best k when it is about to leave with a probability p(l)
that hardly depends on the size of the window m. For m without bound p(l) = P(Bin(l + k - 1, 1/2) <= k - 1). The bounded
queue of the paper is as long as the last l with p(l) >= sigma. The paper sums over the position at the end of an
event's life; the chance of being among the best k at any time before is twice that, so a queue that is to miss no more
than sigma uses sigma / 2.

Paper: top-k/w publish/subscribe, section 3, with the corrections of docs/semantics.md. Cost: O(k log k) per length.
"""

from __future__ import annotations

import math
from collections.abc import Callable

SIGMA = 0.001
"""The share of deliveries that the bounded queue may miss on independent scores, as in the paper."""


def chance_at_end(position: int, k: int, window: int | None = None) -> float:
    """Return the probability that the event at a position on arrival is among the best k when it leaves.

    >>> round(chance_at_end(1, 1), 6), round(chance_at_end(3, 1), 6)
    (0.5, 0.125)
    """
    if k <= 0:
        return 0.0
    if window is not None and position > window:
        return 0.0
    log = position * math.log(0.5) + _log_shrink(position, window) - _log_shrink(position, window and 2 * window)
    # The term of j later arrivals that are better, over the term of none; a common scale keeps them within floats.
    term, total, scale = 1.0, 1.0, 0.0
    for j in range(1, k if window is None else min(k, window + 1)):
        ratio = (position - 1 + j) / j / 2
        if window is not None:
            ratio *= (1 - (j - 1) / window) / (1 - (position + j - 1) / (2 * window))
        term *= ratio
        total += term
        if total > 1e200:
            term, total, scale = term * 1e-200, total * 1e-200, scale + 200 * math.log(10)
    return min(1.0, math.exp(log + scale + math.log(total)))


def _log_shrink(count: int, size: int | None) -> float:
    """Return the logarithm of size (size-1) ... (size-count+1) / size^count."""
    if size is None:
        return 0.0
    return math.fsum(math.log1p(-i / size) for i in range(count))


def queue_length(k: int, sigma: float = SIGMA, window: int | None = None) -> int:
    """Return the length of the bounded queue that misses at most a share sigma of independent scores.

    >>> [queue_length(k) for k in (1, 10, 100, 1000)]
    [10, 30, 151, 1152]
    """
    return last_position(k, sigma / 2, window)


def last_position(k: int, least: float, window: int | None = None) -> int:
    """Return the last position from which an event is among the best k at the end with at least a probability."""
    if k <= 0:
        return 0
    most = k + 64
    while chance_at_end(most, k, window) >= least:  # positions past the window have no chance at all
        most *= 2
    return _last(lambda position: chance_at_end(position, k, window) >= least, most)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Return the last number up to `most` for which a condition holds that once false stays false; at least 1."""
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def expected_deliveries(events: int, k: int, window: int) -> float:
    """Return how many of `events` with independent scores are ever among the best k of a window of the last events.

    Three parts: those among the best k on arrival while the window is full, the surplus while it fills up, and those
    that get there later, because better ones leave.

    >>> round(expected_deliveries(1_000_000, 10, 20_000))
    747
    """
    if k <= 0 or events <= 0:
        return 0.0
    if min(events, window) <= k:
        return float(events)
    if events <= window:
        return k * (1 + _harmonic(events) - _harmonic(k))
    half = math.exp(math.lgamma(2 * k + 1) - 2 * math.lgamma(k + 1) - k * math.log(4))
    later = 2 * k * half * math.sqrt(1 - k / window)
    return k * events / window + k * (_harmonic(window) - _harmonic(k)) + (events / window - 4 / 3) * later


def skyband_length(k: int, window: int) -> float:
    """Return the mean number of events that fewer than k newer ones of a full window beat."""
    return float(window) if window <= k else k * (1 + _harmonic(window) - _harmonic(k))


def _harmonic(count: int) -> float:
    return math.fsum(1 / i for i in range(1, count + 1))
