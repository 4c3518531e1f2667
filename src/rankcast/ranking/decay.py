"""Exponential forward decay: newer events count more, and the order of two events never changes as time passes.

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
from datetime import UTC, datetime

from rankcast.model.relevance import Decay

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
