"""What the tests of batched queues share: rows as the kernels take them, and what the step functions make of them."""

from datetime import timedelta

import numpy as np

from rankcast.delivery.engine.contents import WantedContent
from rankcast.delivery.engine.queue_table import ArrivalRows
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.model.events import Identity
from rankcast.model.times import EPOCH, NEVER, microseconds


def ticks(number):
    return timedelta(microseconds=number)


def instant(number):
    return None if number == NEVER else EPOCH + ticks(number)


def rows_of(part):
    """Rows sorted by queue, and within a queue as they came."""
    columns = list(zip(*sorted(part, key=lambda row: row[0]), strict=True)) or [()] * 5
    return ArrivalRows(*(np.array(column, np.int64) for column in columns[:4]), np.array(columns[4], np.float64))


def batches(stream, sizes):
    start = 0
    for size in sizes:
        yield stream[start : start + size]
        start += size


def stepped(policies, stream, attributes=None):
    """What the step functions deliver: lists of (event, time) by queue. `attributes` are those of each event."""
    queues, found = [new_queue(policy) for policy in policies], [[] for _ in policies]
    wanted = [WantedContent.of([policy]) for policy in policies]
    for queue, event, time, expires, score in stream:
        content = wanted[queue].of_event({} if attributes is None else attributes[event])
        arriving = Candidate(Identity("s", f"{event:06}"), instant(time), score, instant(expires), content)
        queues[queue], delivered = step(queues[queue], arriving, arriving.time, closed=False)
        found[queue] += delivered
    for at, queue in enumerate(queues):
        found[at] += finished(queue)[1]
    return [[(int(one.candidate.identity.id), microseconds(one.time)) for one in own] for own in found]


def gathered(count, parts):
    """What the kernels delivered: lists of (event, time) by queue."""
    found = [[] for _ in range(count)]
    for part in parts:
        assert (np.diff(part.queue) >= 0).all()
        for queue, event, time in zip(*(column.tolist() for column in part[:3]), strict=True):
            found[queue].append((event, time))
    return found
