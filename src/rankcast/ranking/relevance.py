"""Scores of events by relevance functions: the definition of their arithmetic.

Kernels do the same operations in the same order (`rankcast.ranking.batch`). Sums are added one by one in the order of
the attributes' names (of positions, for vectors), in double precision, with no fused operations and no reordering, so
that equal events get bit-equal scores on every path and exact ties stay ties.

An event has no relevance, and is not ranked by the function at all, when an attribute it looks at is missing or no
finite number, when its distance is beyond `MAX_DISTANCE`, or when its vector has another length, an element that is no
finite number, or no direction.

Cost: O(number of targets or elements) per event.

Exponential forward decay: newer events count more, and the order of two events never changes as time passes.

The decayed score of an event is rank * 2^((time - landmark) / half life). It grows with the event's own time instead of
shrinking with its age, so it is worked out once, when the event is published. It would soon be too large for a float;
only its order matters, so its logarithm is kept:

    log2(rank) + (time - LANDMARK) / half life

A rank of 0 stays below every other however new the event is. Near the landmark the logarithm tells ranks apart that
differ by one part in 10^15 or so; n half lives from it by n times as much, below which two events of one time tie.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rankcast.model.events import Event
from rankcast.model.relevance import Closeness, Decay, IdealPoint, Relevance, Target

MAX_DISTANCE = 1e100
"""Beyond every use, and far from where a weighted sum of distances is no longer a finite number."""


def relevance_of(event: Event, wanted: Relevance) -> float | None:
    """Return the score of an event, larger is better; None when it has no relevance.

    >>> near = Closeness([Target("rent", 700, scale=200)])
    >>> relevance_of(Event.of({"rent": 750}, id="1", source="/flats"), near)
    0.75
    """
    if isinstance(wanted, IdealPoint):
        return _nearness(event, wanted)
    if isinstance(wanted, Closeness):
        return _closeness(event, wanted)
    vector = event.vector(wanted.attribute)
    cosine = None if vector is None or len(vector) != len(wanted.vector) else _cosine(vector, wanted.vector)
    return None if cosine is None else (1 + cosine) / 2


def _nearness(event: Event, wanted: IdealPoint) -> float | None:
    total = 0.0
    for target in wanted.targets:
        difference = _difference(event, target)
        if difference is None:
            return None
        total += target.weight * (difference * difference)
    distance = math.sqrt(total)
    if distance > MAX_DISTANCE:
        return None
    return 0.0 - distance if wanted.reach is None else max(0.0, 1 - distance / wanted.reach)


def _closeness(event: Event, wanted: Closeness) -> float | None:
    total = weights = 0.0
    for target in wanted.targets:
        difference = _difference(event, target)
        if difference is None:
            return None
        total += target.weight * (1 - min(1.0, difference))
        weights += target.weight
    return total / weights


def _difference(event: Event, target: Target) -> float | None:
    """Return how far an attribute is from its target, in units of the target's scale."""
    value = event.attributes.get(target.attribute)
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isinf(value):
        return None
    return abs(float(value) - target.value) / target.scale


def _cosine(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the cosine of the angle between two vectors of one length; None for a vector of zeros.

    Both are first divided by their largest element, so that no square is too large or too small for a float.
    """
    largest, other = max(map(abs, first)), max(map(abs, second))
    if largest == 0 or other == 0:
        return None
    product = one = two = 0.0
    for left, right in zip(first, second, strict=True):
        x, y = left / largest, right / other
        product += x * y
        one += x * x
        two += y * y
    return max(-1.0, min(1.0, product / (math.sqrt(one) * math.sqrt(two))))


LANDMARK = datetime(2026, 1, 1, tzinfo=UTC)
"""The same for every engine and subscriber, so that scores can be compared; the nearer to the events the more exact."""


def decayed(rank: float, time: datetime, decay: Decay) -> float:
    """Return the logarithm of a decayed score, for a rank of at least 0.

    >>> from datetime import timedelta
    >>> daily = Decay(half_life=timedelta(days=1))
    >>> decayed(0.5, LANDMARK + timedelta(days=1), daily) == decayed(1.0, LANDMARK, daily)
    True
    """
    if rank == 0:
        return -sys.float_info.max  # a number, unlike the logarithm: scores are written to files and sorted in arrays
    return math.log2(rank) + (time - LANDMARK) / decay.half_life
