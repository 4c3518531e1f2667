"""The data pipeline on Spark: events in, ranked notifications out, for static and streaming DataFrames alike.

PySpark comes with the extra `rankcast[spark]`; nothing outside this package needs it.
"""

from __future__ import annotations

try:
    import pyspark  # noqa: F401 (is it there?)
except ImportError as error:  # pragma: no cover
    raise ImportError("rankcast.spark needs PySpark: pip install 'rankcast[spark]'") from error

from rankcast.spark.delivery.separate_stage import deliver, deliver_outputs
from rankcast.spark.estimate import estimate
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import match, rejected_rows
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.session import SparkSetupError, check_session, spark_session
from rankcast.spark.sources.events import EventColumns
from rankcast.spark.subscribers.changing import ChangingSubscribers

__all__ = [
    "ChangingSubscribers",
    "CompiledSubscribers",
    "EventColumns",
    "Pipeline",
    "SparkSetupError",
    "check_session",
    "deliver",
    "deliver_outputs",
    "estimate",
    "match",
    "rejected_rows",
    "spark_session",
]
