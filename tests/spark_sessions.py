"""One Spark session for all tests that take the fixture: starting one takes longer than most tests."""

import warnings

import pytest

from rankcast.spark.session import spark_session
from spark_stream_program import SETTINGS


@pytest.fixture(scope="session")
def spark():
    settings = {**SETTINGS, "spark.default.parallelism": "2"}
    made = spark_session("local[2]", name="rankcast-tests", settings=settings)
    made.sparkContext.setLogLevel("ERROR")
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the garbage collector
        made.stop()
