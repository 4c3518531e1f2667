"""A queue of the step functions as the numbers of a batched queue, and back.

Identities are event numbers. Contents are not part of a batched queue's state: `queue_of` leaves them out unless it is
told how to find them. Cost: some microseconds per event held.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import Content
from rankcast.delivery.engine.layout import (
    ALL,
    ARRIVAL,
    CONTINUOUS,
    ENTERED,
    EVENT,
    EXPIRY,
    GONE,
    KIND,
    NEXT,
    PERIODIC,
    SCORE,
    SETTING,
    SLIDING,
    SLOT,
    SPAN,
    TIME,
    TIME_WINDOW,
    UNSEEN,
    WINDOW,
    K,
)
from rankcast.delivery.rules.changes import new_queue
from rankcast.delivery.rules.policies import ContinuousQueue, PeriodicQueue, SlidingQueue, TopKWindowQueue
from rankcast.delivery.rules.queues import Candidate, Queue, place
from rankcast.model.policies import ALL_MATCHES, Continuous, Diversity, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.times import NEVER, instant_of, microseconds

ContentOf = Callable[[int], Content]


def score_word(score: float) -> int:
    """Return the integer that orders as a score does: `dispatch.score_order` of its bits."""
    (bits,) = struct.unpack("<q", struct.pack("<d", score + 0.0))  # the negative zero becomes the positive one
    return int(bits if bits >= 0 else bits ^ NEVER)


def word_score(word: int) -> float:
    """Return the score of an integer that stands for one."""
    (score,) = struct.unpack("<d", struct.pack("<q", word if word >= 0 else word ^ NEVER))
    return float(score)


def policy_of(line: Array) -> Policy:
    """Return the policy of a line; of its diversity, only that it has one."""
    kind, k, window, span = (int(line[word]) for word in (KIND, K, WINDOW, SPAN))
    diversity = Diversity() if line[SETTING] else None
    if kind == ALL:
        return ALL_MATCHES
    if kind == CONTINUOUS:
        return Continuous(k)
    if kind == PERIODIC:
        return Periodic(k, timedelta(microseconds=span), diversity)
    if kind == SLIDING:
        return Sliding(k, window, diversity)
    return TopKWindow(k, timedelta(microseconds=span) if kind == TIME_WINDOW else window, diversity)


def queue_of(line: Array, slots: Array, policy: Policy | None = None, content_of: ContentOf | None = None) -> Queue:
    """Return the queue of a line and of its slots in order; `policy` is the line's own, where that is known."""
    policy = policy_of(line) if policy is None else policy
    held: list[Candidate] = []
    delivered: list[int] = []
    places: list[tuple[int, datetime]] = []
    for event, time, expiry, score, arrival in slots.tolist():
        if event == GONE:
            places.append((arrival, instant_of(expiry)))
            continue
        number = event if event >= 0 else ~event
        if event < 0:
            delivered.append(number)
        expires = None if expiry == NEVER else instant_of(expiry)
        content = () if content_of is None else content_of(number)
        held.append(Candidate(number, instant_of(time), word_score(score), expires, content, arrival))
    entered = int(line[ENTERED])
    if isinstance(policy, Continuous):
        return ContinuousQueue(policy, tuple(held))
    if isinstance(policy, Sliding):
        return SlidingQueue(policy, tuple(held), frozenset(delivered), entered, tuple(places))
    if isinstance(policy, Periodic):
        return PeriodicQueue(policy, _optional(line[NEXT]), tuple(held))
    if isinstance(policy, TopKWindow):
        return TopKWindowQueue(policy, tuple(held), frozenset(delivered), _optional(line[UNSEEN]), entered)
    return new_queue(policy)


def _optional(ticks: int) -> datetime | None:
    return None if ticks == NEVER else instant_of(int(ticks))


def fill_line(line: Array, queue: Queue) -> Array:
    """Complete the line of an empty queue with this policy by what the queue knows; return its slots in order."""
    if isinstance(queue, ContinuousQueue):
        ordered = sorted(queue.delivered, key=place)
        above = [sum(other.outlives(one) for other in ordered[:at]) for at, one in enumerate(ordered)]
        slots = _slots([(_number(one), one, count) for one, count in zip(ordered, above, strict=True)])
        line[NEXT] = slots[:, EXPIRY].min(initial=NEVER)
        return slots
    if isinstance(queue, PeriodicQueue):
        line[NEXT] = microseconds(queue.end)
        return _slots([(_number(one), one, 0) for one in queue.arrivals])
    if isinstance(queue, SlidingQueue):
        line[ENTERED] = queue.entered
        slots = _window_slots(queue.recent, queue.delivered)
        kept = np.array([(GONE, 0, microseconds(end), GONE, number) for number, end in queue.places], np.int64)
        slots = np.concatenate([slots, kept.reshape(-1, SLOT)])
        slots = slots[np.argsort(slots[:, ARRIVAL], kind="stable")]
        line[NEXT] = slots[:, EXPIRY].min(initial=NEVER)
        return slots
    if isinstance(queue, TopKWindowQueue):
        line[ENTERED], line[UNSEEN] = queue.entered, microseconds(queue.unseen)
        slots = _window_slots(queue.living, queue.delivered)
        ends = slots[:, EXPIRY]
        if line[KIND] == TIME_WINDOW:
            ends = np.minimum(ends, slots[:, TIME] + line[SPAN])
        line[NEXT] = ends.min(initial=NEVER)
        return slots
    return np.zeros((0, SLOT), np.int64)


def _number(candidate: Candidate) -> int:
    assert isinstance(candidate.identity, int), "batched queues know events by numbers"
    return candidate.identity


def _window_slots(held: tuple[Candidate, ...], delivered: frozenset[object]) -> Array:
    numbers = ((_number(one), one) for one in held)
    return _slots([(~number if number in delivered else number, one, one.arrival) for number, one in numbers])


def _slots(entries: list[tuple[int, Candidate, int]]) -> Array:
    words = [
        (event, microseconds(one.time), microseconds(one.expires), score_word(one.score), last)
        for event, one, last in entries
    ]
    found = np.array(words, np.int64).reshape(-1, SLOT)
    assert tuple(range(SLOT)) == (EVENT, TIME, EXPIRY, SCORE, ARRIVAL)
    return found
