"""What a run has done so far, as a table that can be shown while it goes on.

`Progress` is a receiver of metrics (see `metrics`): it keeps the sums and the last few batches, and `table` draws them
with rich. It may be told from one thread and drawn from another.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from rich import box
from rich.table import Table

from rankcast.spark.metrics import BatchMetrics, Counts

SHOWN_BATCHES = 8
"""Batches that the table shows: the newest."""

_COLUMNS = ("Batch", "Events", "Matches", "Delivered", "Late", "Rejected", "Events/s", "State", "Lag", "Seconds")


class Progress:
    """The sums of all batches, and the newest of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: deque[BatchMetrics] = deque(maxlen=SHOWN_BATCHES)
        self.batches = 0
        self.rows = 0
        self.seconds = 0.0
        self.counts = Counts()

    def __call__(self, metrics: BatchMetrics) -> None:
        """Take one batch; one that came to nothing is not shown."""
        with self._lock:
            if metrics.rows == 0 and metrics.counts == Counts():
                return
            self.batches += 1
            self.rows += metrics.rows
            self.seconds += metrics.seconds
            self.counts += metrics.counts
            self._newest.append(metrics)

    @property
    def rows_per_second(self) -> float:
        """Rows in, per second that batches took."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def table(self) -> Table:
        """Return the newest batches and the sums, to be drawn."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_footer=self.batches > 0)
        with self._lock:
            footer = self._sums()
            for heading, cell in zip(_COLUMNS, footer, strict=True):
                made.add_column(heading, footer=cell, justify="right", no_wrap=True)
            for metrics in self._newest:
                made.add_row(*_cells(metrics))
        return made

    def _sums(self) -> Sequence[str]:
        newest = self._newest[-1] if self._newest else None
        state = "-" if newest is None else shown_state(newest)
        lag = "-" if newest is None else shown_lag(newest)
        return (
            "all",
            *_counted(self.counts),
            f"{self.rows_per_second:,.0f}",
            state,
            lag,
            f"{self.seconds:,.1f}",
        )


def _cells(metrics: BatchMetrics) -> Sequence[str]:
    return (
        str(metrics.batch),
        *_counted(metrics.counts),
        f"{metrics.rows_per_second:,.0f}",
        shown_state(metrics),
        shown_lag(metrics),
        f"{metrics.seconds:,.1f}",
    )


def _counted(counts: Counts) -> Sequence[str]:
    numbers = counts.events, counts.matches, counts.delivered, counts.late, counts.rejected
    return tuple(f"{number:,}" for number in numbers)


def shown_state(metrics: BatchMetrics) -> str:
    """Return how large the state is."""
    return "-" if metrics.state_bytes is None else shown_bytes(metrics.state_bytes)


def shown_lag(metrics: BatchMetrics) -> str:
    """Return how far the batch was behind: records left in the source, else the age of the newest event."""
    if metrics.backlog is not None:
        return f"{metrics.backlog:,} left"
    return "-" if metrics.lag_seconds is None else shown_age(metrics.lag_seconds)


def shown_bytes(number: int) -> str:
    """Return a number of bytes as people read it.

    >>> [shown_bytes(number) for number in (0, 1_500, 2_345_678, 12_000_000_000)]
    ['0 B', '1.5 kB', '2.3 MB', '12 GB']
    """
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.1f} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB" if size < 10 else f"{size:.0f} GB"


def shown_age(seconds: float) -> str:
    """Return a span of time as people read it.

    >>> [shown_age(seconds) for seconds in (0.21, 95, 7_300, 200_000)]
    ['0.2 s', '95 s', '2 h 1 min', '2 d']
    """
    span = timedelta(seconds=max(seconds, 0.0))
    if span < timedelta(minutes=2):
        return f"{span.total_seconds():.1f} s" if span < timedelta(seconds=10) else f"{span.total_seconds():.0f} s"
    minutes = span // timedelta(minutes=1)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 2_880 else f"{minutes // 1_440} d"
