"""One Spark session for all tests that take the fixture: starting one takes longer than most tests."""

import warnings

import pytest

from rankcast.spark.session import spark_session
from spark_stream_program import QUICK_JVM


@pytest.fixture(scope="session")
def spark():
    made = spark_session(
        "local[2]",
        name="rankcast-tests",
        settings={
            "spark.ui.enabled": "false",  # no port to be taken
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",  # does not ask a name server
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
        },
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the garbage collector
        made.stop()
