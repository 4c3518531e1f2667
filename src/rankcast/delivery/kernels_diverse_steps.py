"""The steps of batched queues that diversify: those of the others, with the selection kept around them.

These are functions of their own, called and not inlined: what a kernel is given in tuples of arrays is counted as used
at every call, which other queues should not pay for.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.batch_diversity import Diverse
from rankcast.delivery.batch_layout import COUNT, HEAD, KIND, NEXT, PERIODIC, SLIDING, SPAN, TIME_WINDOW, TOP, K
from rankcast.delivery.kernels_diverse import consider, select_anew
from rankcast.delivery.kernels_listed import arrive_in_period, pass_in_period
from rankcast.delivery.kernels_room import DONE, FOUND_FULL, has_room
from rankcast.delivery.kernels_window import (
    admit_to_count_window,
    arrive_in_time_window,
    depart,
    evaluate,
    next_instant,
)


@inlined
def _evaluate(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, instant: int, diverse: Diverse
) -> None:
    if queues[queue, TOP] < min(queues[queue, K], queues[queue, COUNT]):
        select_anew(queues, arena, queue, diverse)
    evaluate(queues, arena, found, counters, queue, instant)


@compiled
def pass_diverse(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int, diverse: Diverse
) -> int:
    """Let time pass to `now` in a queue that diversifies."""
    if queues[queue, KIND] == SLIDING:
        return DONE
    if queues[queue, KIND] == PERIODIC:
        if queues[queue, NEXT] <= now:
            select_anew(queues, arena, queue, diverse)
        return pass_in_period(queues, arena, found, counters, queue, now)
    while True:
        instant = next_instant(queues, queue)
        if instant >= now:
            return DONE
        if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT])):
            return FOUND_FULL
        depart(queues, arena, queue, instant)
        _evaluate(queues, arena, found, counters, queue, instant, diverse)


@compiled
def take_diverse(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    queue: int,
    event: int,
    time: int,
    expiry: int,
    score: int,
    now: int,
    diverse: Diverse,
) -> int:
    """Let time pass and an event arrive in a queue that diversifies."""
    status = pass_diverse(queues, arena, found, counters, queue, now, diverse)
    if status != DONE or expiry <= now:
        return status
    kind = queues[queue, KIND]
    if kind == PERIODIC:
        return arrive_in_period(queues, arena, counters, queue, event, time, expiry, score, now)
    if kind == TIME_WINDOW:
        if time + queues[queue, SPAN] <= now:
            return DONE
        status = arrive_in_time_window(queues, arena, counters, queue, event, time, expiry, score, now)
    else:
        status = admit_to_count_window(queues, arena, found, counters, queue, event, time, expiry, score, now)
    if status == DONE:
        consider(queues, arena, queue, queues[queue, HEAD] + queues[queue, COUNT] - 1, diverse)
    if status == DONE and kind != TIME_WINDOW:
        _evaluate(queues, arena, found, counters, queue, now, diverse)
    return status
