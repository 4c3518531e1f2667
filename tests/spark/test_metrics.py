"""Metrics: what Spark reports and what the sink counted become one record per batch, for files and for people."""

import io
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from rankcast.spark.metrics import (
    ENDS,
    BatchMetrics,
    Counts,
    QueryProgress,
    SubscriberUpdates,
    batch_metrics,
)

REPORT = {
    "id": "q",
    "batchId": 3,
    "timestamp": "2026-03-01T10:00:00.000Z",
    "numInputRows": 1000,
    "durationMs": {"triggerExecution": 500},
    "eventTime": {"max": "2026-03-01T09:59:50.000Z", "watermark": "2026-03-01T09:54:50.000Z"},
    "stateOperators": [{"memoryUsedBytes": 2_000_000}],
    "sources": [{"metrics": {"maxOffsetsBehindLatest": "17"}}],
}
COUNTS = Counts(events=990, matches=5000, delivered=800, late=2, rejected=10)


def test_a_report_of_spark_and_the_counts_of_the_sink_are_one_record():
    metrics = batch_metrics(REPORT, COUNTS)
    assert metrics.to_json() == {
        "query": "q",
        "batch": 3,
        "time": "2026-03-01T10:00:00Z",
        "rows": 1000,
        "events": 990,
        "matches": 5000,
        "delivered": 800,
        "late": 2,
        "rejected": 10,
        "duplicates": 0,
        "listed": 0,
        "capped": 0,
        "muted": 0,
        "seconds": 0.5,
        "rows_per_second": 2000.0,
        "state_bytes": 2_000_000,
        "watermark": "2026-03-01T09:54:50Z",
        "lag_seconds": 10.5,
        "backlog": 17,
    }


def test_updates_of_subscribers_are_told_where_there_can_be_any():
    updates = SubscriberUpdates(version=3, updates=2, refused_updates=1)
    told = replace(batch_metrics(REPORT, COUNTS), updates=updates).to_json()["subscribers"]
    assert told == {"version": 3, "updates": 2, "refused_updates": 1, "late_changes": 0}


def test_the_row_that_ends_a_stream_is_no_event():
    end = {"description": f"FileStreamSource[file:/checkpoint/{ENDS}]", "numInputRows": 1}
    assert batch_metrics({**REPORT, "sources": [{"numInputRows": 999}, end]}, COUNTS).rows == 999


def test_what_spark_does_not_say_is_null():
    bare = {
        "id": "q",
        "batchId": 0,
        "timestamp": "2026-03-01T10:00:00.000Z",
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
    }
    found = batch_metrics(bare, Counts()).to_json()
    for name in ("state_bytes", "watermark", "lag_seconds", "backlog"):
        assert found[name] is None
    assert found["rows_per_second"] == 0


def test_progress_sums_up_and_shows_the_newest_batches():
    progress = QueryProgress()
    for number in range(20):
        progress(batch_metrics({**REPORT, "batchId": number}, COUNTS))
    progress(BatchMetrics("q", 20, datetime(2026, 3, 1, tzinfo=UTC), 0, Counts(), 0.1))  # nothing came
    assert (progress.batches, progress.rows, progress.counts.delivered) == (20, 20_000, 16_000)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(progress.table())
    shown = console.export_text()
    assert " 11 " not in shown
    assert "19" in shown
    assert "19,800" in shown  # events: rows less those that are rejected
    assert "2.0 MB" in shown
    assert "17 left" in shown
