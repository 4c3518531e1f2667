"""Notifications, late events and rejected rows in a database: SQLite or PostgreSQL.

All outputs of a batch go to the database in one transaction, so a reader sees a batch whole or not at all, and a batch
that is written again changes nothing: notifications are upserted on (query, queue, event), where the queue is
(subscriber, subscription) and the event (source, id); late events and rejected rows, which may repeat, replace those of
the same batch. Several queries can share one database; `query` names them.

In a queue of a whole subscriber, `subscription` is the empty text: a part of a key cannot be null. The character NUL,
which PostgreSQL cannot hold, is written as its escape.

Rows pass through the driver, partition by partition: a transaction cannot be divided among workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, LongType, StringType

from rankcast.spark.sinks.database_kinds import RUNS, Database, DatabaseError, connector, without_password
from rankcast.spark.sinks.outputs import Batch, Output

QUEUE_AND_EVENT = ("query", "subscriber", "subscription", "source", "id")
"""The key of a notification."""


class DatabaseSink:
    """Tables in one database, of one query.

    `url` is `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user@host/name`.
    """

    def __init__(self, url: str, *, query: str = "rankcast") -> None:
        self._connect = connector(url)
        self.url = without_password(url)
        self.query = query
        self._made: set[Output] = set()

    def open(self, run: str) -> None:
        """Take the query's rows for a run; raise DatabaseError when another run writes them."""
        columns = {"query": StringType(), "run": StringType()}
        with self._connect() as database:
            database.create(RUNS, columns, ("query",))
            found = database.run_of(self.query)
            if found is None:
                database.insert(RUNS, tuple(columns), iter([(self.query, run)]))
        if found not in (None, run):
            raise DatabaseError(
                f"{self.url}: the rows of query {self.query!r} belong to another run; "
                "choose another name for the query, or resume with its checkpoint"
            )

    def write(self, batch: Batch) -> None:
        """Write all outputs of a batch in one transaction."""
        with self._connect() as database:
            for output in Output:
                self._write(database, output, batch)

    def _write(self, database: Database, output: Output, batch: Batch) -> None:
        table = batch.tables[output]
        types: dict[str, DataType] = {"query": StringType(), "batch": LongType()}
        types |= {field.name: field.dataType for field in table.schema.fields}
        key = QUEUE_AND_EVENT if output is Output.NOTIFICATIONS else ()
        if output not in self._made:
            database.create(output.table, types, key)
            self._made.add(output)
        if not key:
            database.remove(output.table, self.query, batch.number)
        if batch.size(output) == 0:
            return
        rows = self._rows(table, batch.number)
        if key:
            database.upsert(output.table, tuple(types), key, rows)
        else:
            database.insert(output.table, tuple(types), rows)

    def _rows(self, table: DataFrame, number: int) -> Iterator[Sequence[Any]]:
        queue = table.columns.index("subscription") if "subscription" in table.columns else None
        for row in table.toLocalIterator(prefetchPartitions=True):
            values = [_plain(value) for value in row]
            if queue is not None and values[queue] is None:
                values[queue] = ""
            yield (self.query, number, *values)

    def finish(self) -> None:
        """Need nothing: every batch was committed."""


def _plain(value: Any) -> Any:
    """Return a value as both databases take it; what they have no type for becomes JSON."""
    if isinstance(value, str):
        return value.replace("\x00", "\\u0000") if "\x00" in value else value
    if isinstance(value, datetime):
        return value.astimezone(UTC)  # Spark gives times in the zone of this process, without naming it
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if hasattr(value, "asDict"):
        return json.dumps(value.asDict(recursive=True), ensure_ascii=False, default=str)
    return value
