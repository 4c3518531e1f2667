"""The data pipeline on Spark: events in, ranked notifications out, for static and streaming DataFrames alike.

PySpark comes with the extra `rankcast[spark]`; nothing outside this package needs it.
"""

from __future__ import annotations

try:
    import pyspark  # noqa: F401 (is it there?)
except ImportError as error:  # pragma: no cover
    raise ImportError("rankcast.spark needs PySpark: pip install 'rankcast[spark]'") from error

from rankcast.spark.session import SparkSetupError, check_session, spark_session

__all__ = ["SparkSetupError", "check_session", "spark_session"]
