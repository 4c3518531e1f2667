"""Where the batched queues keep their state: one line of numbers per queue, and one arena of numbers for all of them.

Everything is int64. A queue's line in `queues` says what its policy is, what time it is there and where its region of
the arena lies. A region has `capacity` slots of five words, one for each event held, and behind them, for the policies
that rank what they hold, the list of the best: their scores, then their places.

- Times are microseconds since 1970. `NEVER` stands for no expiry and for nothing due.
- Scores are kept as integers in the same order (`score_order`), so that nothing compares floats.
- Event numbers are not negative; a held event that was delivered is kept as the complement of its number.
- What is held lies in the slots from HEAD on, of a window in order of arrival. A slot whose event is `GONE` only keeps
  the place of an event that is no longer held in a sliding window, until that expires.
- A place in the list of the best is twice the number of a slot, plus one when the event there was delivered.
- A queue that diversifies keeps in that list what it selected, in order, with the bits of divranks for scores. Its own
  scores are ranks from 0 to 1, whose order as integers is that of their bits.

A window may hold more than it needs (`rankcast.delivery.rules.queues.needed`), until it has many slots and none is
free: then what is not needed is dropped. So it has at most about twice as many slots as it needs, or a hundred or so:
with k=10 and a window of 20,000 events it needs some 86 of 40 bytes, instead of 20,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import numpy as np

from rankcast.arrays import Array
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Policy, Sliding, diversity_of
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER, TICK

LONGEST = LAST_INSTANT - FIRST_INSTANT
"""Longer spans and larger counts mean the same as this one, and sums with it do not overflow."""

# The kinds of queues.
ALL, CONTINUOUS, SLIDING, COUNT_WINDOW, TIME_WINDOW, PERIODIC = range(6)

# The words of a queue's line. NEXT: no event held leaves by itself before it; for periods, their end. UNSEEN: an
# instant whose arrivals have entered but which has not been evaluated. HEAD: the first slot in use. TOP: how many are
# listed among the best. SETTING: by which diversity it selects, from 1 on; 0 for none. ENTERED: how many entered.
# STRAY: all that entered a window of time after so many leave it in the order in which they came.
KIND, K, WINDOW, SPAN, CLOCK, START, CAPACITY, HEAD, COUNT, TOP, NEXT, UNSEEN, SETTING, ENTERED, STRAY = range(15)
LINE = 15

# The words of a slot. ARRIVAL is the number of an event among all that entered a window; continuous delivery keeps
# there how many events outrank and outlive this one.
EVENT, TIME, EXPIRY, SCORE, ARRIVAL = range(5)
DOMINATORS = ARRIVAL
SLOT = 5

GONE = -(2**63)
"""The event of a slot that only keeps a place."""


def lines_of(policies: Iterable[Policy], settings: Mapping[Diversity, int]) -> Array:
    """Return the lines of queues that have seen nothing yet; `settings` numbers what they diversify by, from 1 on."""
    known: dict[Policy, list[int]] = {}
    lines = [known.get(policy) or known.setdefault(policy, _line(policy, settings)) for policy in policies]
    return np.array(lines, np.int64).reshape(len(lines), LINE)


def _line(policy: Policy, settings: Mapping[Diversity, int]) -> list[int]:
    kind, k, window, span = _described(policy)
    line = [0] * LINE
    line[KIND], line[K], line[WINDOW], line[SPAN] = kind, min(k, LONGEST), min(window, LONGEST), min(span, LONGEST)
    line[CLOCK], line[NEXT], line[UNSEEN] = FIRST_INSTANT, NEVER, NEVER
    diversity = diversity_of(policy)
    if diversity is not None:
        line[SETTING] = settings[diversity]
    return line


def _described(policy: Policy) -> tuple[int, int, int, int]:
    """Return the kind of queue of a policy, its k, its window in events and its span of time."""
    if isinstance(policy, AllMatches):
        return ALL, 1, LONGEST, LONGEST
    if isinstance(policy, Continuous):
        return CONTINUOUS, policy.k, LONGEST, LONGEST
    if isinstance(policy, Periodic):
        return PERIODIC, policy.k, policy.k if policy.diversity is None else LONGEST, policy.period // TICK
    window = policy.window
    if isinstance(window, timedelta):
        return TIME_WINDOW, policy.k, LONGEST, window // TICK
    return SLIDING if isinstance(policy, Sliding) else COUNT_WINDOW, policy.k, window, LONGEST
