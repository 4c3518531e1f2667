"""The work of `rankcast bench spark`: subscribers with preferences, and files of events, all functions of a seed.

Every filter has ranges on 5 of 20 attributes, and a rank of its own; events carry all attributes, uniform, and are a
millisecond apart. Ranges are as wide as it takes for an event to satisfy `matches` filters on average.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.arrays import Array
from rankcast.model.expressions import Constraint, Operator, all_of
from rankcast.model.filters import Filter
from rankcast.model.policies import Sliding
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId

ATTRIBUTES = tuple(f"a{at:02d}" for at in range(20))
CONSTRAINED = 5
DOMAIN = 1_000_000
POLICY = Sliding(10, 100)
FIRST = 1_000_000_000 * 1_000_000
SPACING = 1_000
"""Microseconds between two events."""

_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class SparkWork:
    """So many filters of so many subscribers, and batches of so many events."""

    filters: int
    subscribers: int
    batches: int
    batch: int
    matches: float = 43.0
    files: int = 2
    """Into which the events of a batch are divided: one for each core."""
    seed: int = 1

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.batches * self.batch

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array, Array]:
        """By filter: the constrained attributes, the ends of their ranges, and the rank."""
        generator = np.random.default_rng(self.seed)
        chosen = np.argsort(generator.random((self.filters, len(ATTRIBUTES))), axis=1)[:, :CONSTRAINED]
        mean = min(0.6, (self.matches / self.filters) ** (1 / CONSTRAINED))
        width = generator.uniform(mean / 2, mean * 1.5, chosen.shape)
        low = generator.random(chosen.shape) * (1 - width)
        ends = [(share * DOMAIN).astype(np.int64) for share in (low, low + width)]
        return chosen, ends[0], ends[1], generator.random(self.filters)

    def owner(self, number: int) -> str:
        """Return whose filter it is."""
        return f"subscriber-{number % self.subscribers:06}"

    def audience_members(self) -> Iterator[Subscriber]:
        """Return the subscribers."""
        chosen, low, high, rank = (column.tolist() for column in self._columns)
        for first in range(self.subscribers):
            owned = []
            for number in range(first, self.filters, self.subscribers):
                ranges = zip(chosen[number], low[number], high[number], strict=True)
                limits = (Constraint(ATTRIBUTES[at], Operator.BETWEEN, (least, most)) for at, least, most in ranges)
                wanted = Filter.of(all_of(*limits))
                owned.append(Subscription(SubscriptionId(f"filter-{number:06}"), wanted, rank[number]))
            yield Subscriber(SubscriberId(self.owner(first)), tuple(owned), POLICY)

    def filter_table(self) -> pa.Table:
        """Return the filters as a wide table: the ends of a range on every attribute, the whole domain where free."""
        chosen, low, high, rank = self._columns
        columns: dict[str, pa.Array] = {
            "subscriber": pa.array(map(self.owner, range(self.filters)), pa.string()),
            "rank": pa.array(rank),
        }
        for name, ends, free in (("low", low, 0), ("high", high, DOMAIN)):
            wide = np.full((self.filters, len(ATTRIBUTES)), free, np.int64)
            np.put_along_axis(wide, chosen, ends, axis=1)
            columns |= {f"{name}_{attribute}": pa.array(wide[:, at]) for at, attribute in enumerate(ATTRIBUTES)}
        return pa.table(columns)

    def event_table(self, batch: int) -> pa.Table:
        """Return the events of a batch, always the same for its number."""
        values = np.random.default_rng((self.seed, batch)).integers(0, DOMAIN, (self.batch, len(ATTRIBUTES)))
        numbers = np.arange(batch * self.batch, (batch + 1) * self.batch)
        columns = {
            "id": pa.array([f"event-{number:09}" for number in numbers.tolist()]),
            "source": pa.array(["feed"] * self.batch),
            "time": pa.array(FIRST + numbers * SPACING).cast(_TIME),
        }
        return pa.table(columns | {name: pa.array(values[:, at]) for at, name in enumerate(ATTRIBUTES)})

    def end(self, batch: int) -> int:
        """Return the newest time of a batch, which is the watermark after it."""
        return FIRST + ((batch + 1) * self.batch - 1) * SPACING

    def write_events(self, folder: Path) -> None:
        """Write the files of all batches; a stream takes files in the order of the times at which they changed."""
        folder.mkdir(parents=True)
        begun = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        for batch in range(self.batches):
            table, step = self.event_table(batch), -(-self.batch // self.files)
            for part in range(self.files):
                path = folder / f"{batch:05}-{part}.parquet"
                pq.write_table(table.slice(part * step, step), path, compression="snappy")
                os.utime(path, (begun + batch, begun + batch))

    def files_of(self, folder: Path, batch: int) -> list[Path]:
        """Return the files of a batch."""
        return [folder / f"{batch:05}-{part}.parquet" for part in range(self.files)]
