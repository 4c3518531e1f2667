"""The workload W-lists of `rankcast bench matching`: subscriptions that ask a list for two elements, and a range.

Events have a list of 5 to 20 of 5,000 elements, all equally likely, and a number. A subscription asks for two elements
and a range of up to 10% of the domain. Brute force marks the elements of an event in a table, then tries every
subscription, elements first; it is given codes instead of texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rankcast.arrays import Array, starts_of
from rankcast.compiling import compiled
from rankcast.matching.entries import Entry
from rankcast.matching.segments.building import build_segment
from rankcast.matching.segments.compiled_index import Part
from rankcast.matching.segments.compiled_reader import Searcher
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast_lab.bench.comparing import Matches
from rankcast_lab.bench.matching_engines import Engine, first_events
from rankcast_lab.bench.matching_work import case_name
from rankcast_lab.bench.memory import megabytes
from rankcast_lab.bench.timing import timed

NAME = "W-lists"
ELEMENTS, FEWEST, MOST = 5_000, 5, 20
DOMAIN, WIDEST = 1_000_000, 100_000


@dataclass(frozen=True, slots=True)
class ListWork:
    """Subscriptions and events as columns; the elements of event i are elements[start[i]:start[i+1]]."""

    name: str
    wanted: Array
    low: Array
    high: Array
    start: Array
    elements: Array
    numbers: Array

    @staticmethod
    def of(subscriptions: int, events: int, seed: int) -> ListWork:
        """Generate the work of one case; the same seed gives the same."""
        random = np.random.default_rng(seed)
        low = random.integers(0, DOMAIN - WIDEST, subscriptions)
        sizes = random.integers(FEWEST, MOST + 1, events)
        lists = [random.choice(ELEMENTS, size, replace=False) for size in sizes.tolist()]
        return ListWork(
            case_name(NAME, subscriptions),
            random.integers(0, ELEMENTS, (subscriptions, 2)).astype(np.int32),
            low,
            low + random.integers(1, WIDEST, subscriptions),
            starts_of(sizes),
            np.concatenate(lists).astype(np.int32),
            random.integers(0, DOMAIN, events),
        )

    def filters(self) -> list[Filter]:
        """Return what the subscriptions ask for."""
        tags, price = attr("tags"), attr("price")
        rows = zip(self.wanted.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return [Filter.of(tags.has(_text(a)) & tags.has(_text(b)) & price.between(*ends)) for (a, b), *ends in rows]

    def batch(self) -> pa.RecordBatch:
        """Return the events as Arrow columns."""
        texts = pa.array([_text(element) for element in self.elements.tolist()])
        lists = pa.ListArray.from_arrays(pa.array(self.start, pa.int32()), texts)
        return pa.RecordBatch.from_arrays([lists, pa.array(self.numbers)], ["tags", "price"])


def _text(element: int) -> str:
    return f"tag{element:04d}"


def list_engines(work: ListWork) -> list[Engine]:
    """Return the index, from Arrow columns and from encoded events, and brute force."""
    entries = [Entry.of(number, wanted) for number, wanted in enumerate(work.filters())]
    seconds, segment = timed(lambda: build_segment(entries))
    searcher, batch = Searcher(Part.of(segment)), work.batch()
    encoded = searcher.encoder.encode_batch(batch)
    size = megabytes(segment.to_arrays().values())

    def match(count: int) -> Matches:
        return Matches(*searcher.match_batch(batch.slice(0, count)))

    def match_encoded(count: int) -> Matches:
        return Matches(*searcher.match_batch(first_events(encoded, count)))

    columns = (work.wanted, work.low, work.high)
    return [
        Engine("index", match, seconds, size),
        Engine("index-encoded", match_encoded, seconds, size),
        Engine("brute-force", lambda count: match_lists_brute_force(work, count), 0.0, megabytes(columns)),
    ]


def match_lists_brute_force(work: ListWork, count: int) -> Matches:
    """Return the matches of the first events by trying every subscription."""
    offsets, found = np.zeros(count + 1, np.int64), np.empty(2 * len(work.wanted) + 1024, np.int32)
    arguments = (work.wanted, work.low, work.high, work.start[: count + 1], work.elements, work.numbers, offsets)
    while match_all_lists(*arguments, np.zeros(ELEMENTS, np.bool_), found) < count:
        found = np.empty(4 * len(found), np.int32)
    return Matches(offsets, found[: offsets[-1]])


@compiled
def match_all_lists(
    wanted: Array,
    low: Array,
    high: Array,
    start: Array,
    elements: Array,
    numbers: Array,
    offsets: Array,
    is_there: Array,
    found: Array,
) -> int:
    """Write the subscriptions of every event; return how many events were done before `found` had no more room."""
    count = 0
    for event in range(len(start) - 1):
        if len(found) - count < len(wanted):
            return event
        for k in range(start[event], start[event + 1]):
            is_there[elements[k]] = True
        number = numbers[event]
        for subscription in range(len(wanted)):
            if (
                is_there[wanted[subscription, 0]]
                and is_there[wanted[subscription, 1]]
                and low[subscription] <= number <= high[subscription]
            ):
                found[count] = subscription
                count += 1
        for k in range(start[event], start[event + 1]):
            is_there[elements[k]] = False
        offsets[event + 1] = count
    return len(start) - 1
