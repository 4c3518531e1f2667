"""Where the batched queues keep their state: one line of numbers per queue, and one arena of numbers for all of them.

Everything is int64. A queue's line in `queues` says what its policy is, what time it is there and where its region of
the arena lies. A region has `capacity` slots of five words, one for each event held, and behind them, for the policies
that rank what they hold, the list of the best: their scores, then their places.

- Times are microseconds since 1970. `NEVER` stands for no expiry and for nothing due.
- The span of a queue whose periods are a calendar's is negative: the complement of the calendar's number.
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
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.rules.bounded import bound_of
from rankcast.model.periods import Every
from rankcast.model.policies import (
    AllMatches,
    Continuous,
    Diversity,
    Periodic,
    Policy,
    Sliding,
    diversity_of,
    keeps_ties,
)
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER, TICK

LONGEST = LAST_INSTANT - FIRST_INSTANT
"""Longer spans and larger counts mean the same as this one, and sums with it do not overflow."""

# The kinds of queues.
ALL, CONTINUOUS, SLIDING, COUNT_WINDOW, TIME_WINDOW, PERIODIC = range(6)


class LineWords(NamedTuple):
    """The words of a queue's line; `LINE` says where each of them is.

    `size` is how many slots are in use.
    `span` is of time, but in a window of so many events how many a bounded queue holds at most; LONGEST: what it needs.
    `next`: no event held leaves by itself before it; for periods, their end. `unseen`: an instant whose arrivals have
    entered but which has not been evaluated. `head`: the first slot in use. `top`: how many are listed among the best.
    `setting`: by which diversity it selects, from 1 on; 0 for none. `entered`: how many entered. `stray`: all that
    entered a window of time after so many leave it in the order in which they came. `ties`: 1 where what was delivered
    comes before what scores as high.
    """

    kind: int
    k: int
    window: int
    span: int
    clock: int = FIRST_INSTANT
    start: int = 0
    capacity: int = 0
    head: int = 0
    size: int = 0
    top: int = 0
    next: int = NEVER
    unseen: int = NEVER
    setting: int = 0
    entered: int = 0
    stray: int = 0
    ties: int = 0


LINE = LineWords(*range(16))


class SlotWords(NamedTuple):
    """The words of a slot; `HELD` says where each of them is.

    `arrival` is the number of an event among all that entered a window; continuous delivery keeps there how many events
    outrank and outlive this one (DOMINATORS).
    """

    event: int
    time: int
    expiry: int
    score: int
    arrival: int


HELD = SlotWords(*range(5))
DOMINATORS = HELD.arrival
SLOT = len(HELD)

GONE = -(2**63)
"""The event of a slot that only keeps a place."""


def lines_of(policies: Iterable[Policy], settings: Mapping[Diversity, int], calendars: Mapping[Every, int]) -> Array:
    """Return the lines of queues that have seen nothing yet.

    `settings` numbers what they diversify by, from 1 on, and `calendars` those of their periods, from 0 on.
    """
    known: dict[Policy, LineWords] = {}
    lines = [known.get(policy) or known.setdefault(policy, _line(policy, settings, calendars)) for policy in policies]
    return np.array(lines, np.int64).reshape(len(lines), len(LINE))


def _line(policy: Policy, settings: Mapping[Diversity, int], calendars: Mapping[Every, int]) -> LineWords:
    kind, k, window, span = _described(policy, calendars)
    diversity = diversity_of(policy)
    setting = 0 if diversity is None else settings[diversity]
    sizes = min(k, LONGEST), min(window, LONGEST), min(span, LONGEST)
    return LineWords(kind, *sizes, setting=setting, ties=int(keeps_ties(policy)))


def _described(policy: Policy, calendars: Mapping[Every, int]) -> tuple[int, int, int, int]:
    """Return the kind of queue of a policy, its k, its window in events and its span of time."""
    if isinstance(policy, AllMatches):
        return ALL, 1, LONGEST, LONGEST
    if isinstance(policy, Continuous):
        return CONTINUOUS, policy.k, LONGEST, LONGEST
    if isinstance(policy, Periodic):
        span = ~calendars[policy.period] if isinstance(policy.period, Every) else policy.period // TICK
        return PERIODIC, policy.k, policy.k if policy.diversity is None else LONGEST, span
    window = policy.window
    if isinstance(window, timedelta):
        return TIME_WINDOW, policy.k, LONGEST, window // TICK
    if isinstance(policy, Sliding):
        return SLIDING, policy.k, window, LONGEST
    return COUNT_WINDOW, policy.k, window, bound_of(policy) or LONGEST
