"""Notifications on standard output: a table per batch, or JSON lines."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pyspark.sql import Row

from rankcast.cli.streams import complain, write_json
from rankcast.cli.terminal import console, shown_time, table
from rankcast.model.errors import counted
from rankcast.model.times import format_time
from rankcast.spark.sinks.outputs import Batch, Output

SHOWN = 20
"""Notifications of a batch that a table shows."""

_COLUMNS = {"Time (UTC)": "left", "Subscriber": "left", "Rank": "right", "Matched": "left", "Event": "rest"}
_EVENT = ("source", "id", "time")


class ConsoleSink:
    """Shows notifications and keeps nothing; what is rejected or late is counted on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def open(self, run: str) -> None:
        """Need nothing."""

    def write(self, batch: Batch) -> None:
        """Show one batch."""
        rows = batch.tables[Output.NOTIFICATIONS].toLocalIterator()
        if self._as_json:
            for row in rows:
                write_json(_document(row))
        elif batch.counts.delivered:
            shown = console()
            shown.print(table(f"Batch {batch.number}", _COLUMNS, map(_cells, islice(rows, SHOWN))))
            if batch.counts.delivered > SHOWN:
                shown.print(f"... and {counted(batch.counts.delivered - SHOWN, 'more notification')}")
        for row in batch.tables[Output.REJECTED].limit(SHOWN).toLocalIterator() if batch.counts.rejected else ():
            complain(f"rejected: {row['reason']}")

    def finish(self) -> None:
        """Need nothing."""


def _document(row: Row) -> dict[str, Any]:
    return {name: format_time(value) if hasattr(value, "tzinfo") else value for name, value in row.asDict(True).items()}


def _cells(row: Row) -> tuple[str, ...]:
    values = row.asDict(recursive=True)
    return (
        shown_time(values["delivered"].astimezone()),
        values["subscriber"],
        f"{values['rank']:.2f}",
        ", ".join(values["matched"] or ()),
        f"{values['id']} of {values['source']}",
    )
