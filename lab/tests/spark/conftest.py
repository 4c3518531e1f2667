"""One Spark session for all tests of this folder."""

from spark_sessions import spark

__all__ = ["spark"]
