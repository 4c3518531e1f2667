"""Rows that are no events: set aside with the reason and the original, counted, never lost and never fatal.

A source marks a row that it could not read by two columns beside those of the event: REASON says what is wrong and
ORIGINAL is the row as it came. Both are null in a good row. The events stage moves marked rows, and rows whose values
cannot be an event's, to the rejected output, whose columns are those of REJECTED_SCHEMA.
"""

from __future__ import annotations

from pyspark.sql.types import StringType, StructField, StructType

REASON = "rankcast_reason"
"""What is wrong with a row; null in a good one."""

ORIGINAL = "rankcast_original"
"""The row as its source had it: a line of text, or JSON."""

REJECTED_SCHEMA = StructType(
    [
        StructField("reason", StringType()),
        StructField("original", StringType()),
    ]
)
"""The columns of the rejected output."""
