"""How the rows that a shard releases are divided where something has to happen between two of them.

A queue's rows are divided by its stops: its changes, and its rows whose identity was seen before, which are looked at
when everything before them has been taken. Queues do not depend on each other, so round r has what comes after the r-th
stop of every queue, and there are as many rounds as some queue has stops.

Cost: a sort of the rows, and a search for each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.batch import Rows
from rankcast.delivery.queue_changes import QueueChange


def rounds_of(
    rows: Rows, changes: Sequence[QueueChange], is_repeated: Array
) -> Iterator[tuple[list[QueueChange], Array]]:
    """Return, round by round, the changes that happen first and the positions of the rows that come then.

    Rows are in the order of queues and times, changes in that of times; a change comes before rows of its time.
    """
    seen = np.concatenate([[0], np.cumsum(is_repeated)])
    rounds = seen[1:] - seen[np.searchsorted(rows.queue, rows.queue)]
    stops: dict[int, list[QueueChange]] = {}
    before: dict[int, int] = {}
    for change in changes:
        low, high = np.searchsorted(rows.queue, [change.queue, change.queue + 1])
        at = low + int(np.searchsorted(rows.time[low:high], change.time))
        rounds[at:high] += 1
        before[change.queue] = before.get(change.queue, 0) + 1
        stops.setdefault(int(before[change.queue] + seen[at] - seen[low]), []).append(change)
    order = np.argsort(rounds, kind="stable")
    last = max([*stops, int(rounds.max(initial=0))])
    bounds = np.searchsorted(rounds[order], np.arange(last + 2))
    for number in range(last + 1):
        yield stops.get(number, []), order[bounds[number] : bounds[number + 1]]
