"""The outputs of a pipeline, batch by batch: which there are, and how one pass over a batch becomes several tables.

`Pipeline.outputs` gives one DataFrame whose column `kind` says what a row is. A sink gets each batch of it as a Batch:
one table per Output, and counts. The batch is computed once and kept until the sink is done, so that all tables of a
batch speak of the same computation; what is kept is what the stateful stage gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.storagelevel import StorageLevel

from rankcast.spark.delivery.unpacked_rows import (
    COUNTS,
    LATE,
    LIST,
    LIST_COLUMNS,
    NOTIFICATION,
    NOTIFICATION_COLUMNS,
    REJECTED,
)
from rankcast.spark.metrics import Counts

KIND = "kind"
"""The column that says which output a row belongs to."""


class Output(Enum):
    """A table that a pipeline writes; the value is what KIND says, the folder or table has the name."""

    NOTIFICATIONS = NOTIFICATION
    LISTS = LIST
    LATE = LATE
    REJECTED = REJECTED

    @property
    def table(self) -> str:
        """The name of its folder or database table."""
        return self.name.lower()


COLUMNS: Mapping[Output, Sequence[str]] = {
    Output.NOTIFICATIONS: NOTIFICATION_COLUMNS,
    Output.LISTS: LIST_COLUMNS,
    Output.LATE: ("source", "id", "time"),
    Output.REJECTED: ("reason", "original"),
}
"""The columns of each output, as far as a batch has them; further ones are those that are carried along."""

COUNTED = ("events", "matches", "duplicates", "capped", "muted")
"""The columns of rows that only count, as far as a batch has them."""


@dataclass(frozen=True)
class Batch:
    """What one micro-batch, or the whole of a bounded input, came to."""

    number: int
    tables: Mapping[Output, DataFrame]
    counts: Counts

    def size(self, output: Output) -> int:
        """How many rows an output has in this batch."""
        return {
            Output.NOTIFICATIONS: self.counts.delivered,
            Output.LISTS: self.counts.listed,
            Output.LATE: self.counts.late,
            Output.REJECTED: self.counts.rejected,
        }[output]


class Sink(Protocol):
    """Where the outputs of a pipeline go. `write` may be called again with a batch that was written: it replaces it."""

    def open(self, run: str) -> None:
        """Take the sink for a run, before its first batch and after every restart; raise when it is another's."""

    def write(self, batch: Batch) -> None:
        """Write all outputs of a batch."""

    def finish(self) -> None:
        """Be told that a bounded input is written to its end."""


@contextmanager
def computed(outputs: DataFrame, number: int) -> Iterator[Batch]:
    """Compute a batch of `Pipeline.outputs` once, and give it divided into its tables."""
    kept = outputs.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield Batch(number, {output: _table(kept, output) for output in Output}, _counts(kept))
    finally:
        kept.unpersist()


def _table(outputs: DataFrame, output: Output) -> DataFrame:
    present = outputs.columns
    wanted = [name for name in COLUMNS[output] if name in present]
    if output in (Output.NOTIFICATIONS, Output.LISTS):
        taken = {KIND, *COUNTED, *(name for columns in COLUMNS.values() for name in columns)}
        wanted += [name for name in present if name not in taken]
    rows = outputs.where(F.col(KIND) == output.value)
    return rows.select(*(F.col(f"`{name}`") for name in wanted))


def _counts(outputs: DataFrame) -> Counts:
    sums = [F.sum(F.col(name).cast("long")).alias(name) for name in COUNTED if name in outputs.columns]
    found = {row[KIND]: row.asDict() for row in outputs.groupBy(KIND).agg(F.count("*").alias("rows"), *sums).collect()}
    counted = found.get(COUNTS, {})
    return Counts(
        **{name: counted.get(name) or 0 for name in COUNTED},
        delivered=found.get(Output.NOTIFICATIONS.value, {}).get("rows", 0),
        listed=found.get(Output.LISTS.value, {}).get("rows", 0),
        late=found.get(Output.LATE.value, {}).get("rows", 0),
        rejected=found.get(Output.REJECTED.value, {}).get("rows", 0),
    )
