"""The DataFrame API of rankcast on Spark: a table of events, its stages one by one, and the same as a stream.

Run it with the Python of the environment: `.venv/bin/python examples/spark_pipeline.py`.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rankcast import (
    Advertisement,
    AudienceRanking,
    Continuous,
    Scoring,
    Sliding,
    Subscriber,
    Subscription,
    parse_filter,
)
from rankcast.spark import CompiledSubscribers, Pipeline, match, spark_session
from rankcast.spark.sources.events import DEFAULT_SOURCE, END

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLATS = [
    ("f1", 0, "Porto", 700, 2),
    ("f2", 1, "Porto", 650, 1),
    ("f3", 2, "Lisbon", 900, 3),
    ("f4", 3, "Porto", 880, 4),
    ("f5", 4, "Porto", 500, 3),
    ("f6", 5, "Faro", 450, 1),
]
COLUMNS = "id string, time timestamp, city string, rent int, rooms int"


def subscribers() -> list[Subscriber]:
    """Ana wants the best one of the last three flats in Porto, Ben whatever is cheap and better than before."""
    ana = Subscriber(
        "ana",
        (
            Subscription("large", parse_filter("city = 'Porto' and rooms >= 3"), rank=0.9),
            Subscription("affordable", parse_filter("city = 'Porto' and rent <= 800"), rank=0.6),
        ),
        deliver=Sliding(k=1, window=3),
    )
    ben = Subscriber(
        "ben",
        (
            Subscription("cheap", parse_filter("rent < 600"), rank=0.8),
            Subscription("any", parse_filter("rent < 1000"), rank=0.3),
        ),
        deliver=Continuous(k=2),
    )
    return [ana, ben]


def flats(spark: SparkSession) -> DataFrame:
    """Some events; the columns with the envelope's names (id, time) are the envelope."""
    rows = [(name, NOON + timedelta(minutes=minute), *rest) for name, minute, *rest in FLATS]
    return spark.createDataFrame(rows, COLUMNS)


def show(title: str, rows: DataFrame, *names: str) -> None:
    """Print some columns of a DataFrame, in order."""
    print(title)
    for row in sorted(rows.select(*names).collect()):
        print("   ", *row)


def on_a_table(spark: SparkSession) -> None:
    """A static DataFrame in, a static DataFrame out; and the stages before delivery, one by one."""
    events = flats(spark)
    for_one = Advertisement("flats", DEFAULT_SOURCE, k=1, ranking=AudienceRanking(Scoring.PREFERENCE))
    notifications = Pipeline(subscribers(), carry=["rent"]).transform(events)
    show("Notifications:", notifications, "subscriber", "id", "rank", "matched", "rent")

    compiled = CompiledSubscribers.of(subscribers())
    show("Who wants what:", match(events, compiled), "id", "subscriber", "rank")
    best = match(events, compiled, advertisements=[for_one])
    show("The best subscriber of each flat:", best, "id", "subscriber")


def on_a_stream(spark: SparkSession, folder: Path) -> None:
    """The same from a folder of files, two of them for each micro-batch; a last row says that nothing more comes."""
    flats(spark).repartition(3).write.json(str(folder / "in"))
    (folder / "in" / "zz-end.json").write_text(f'{{"{END}": true}}\n')
    stream = spark.readStream.schema(f"{COLUMNS}, {END} boolean").option("maxFilesPerTrigger", 2)
    pipeline = Pipeline(subscribers(), lateness=timedelta(minutes=10))
    query = (
        pipeline.transform(stream.json(str(folder / "in")))
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    show("Notifications of the stream:", spark.read.parquet(str(folder / "out")), "subscriber", "id", "rank")


def main() -> None:
    """Show both."""
    spark = spark_session(settings={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    on_a_table(spark)
    with tempfile.TemporaryDirectory() as folder:
        on_a_stream(spark, Path(folder))


if __name__ == "__main__":
    main()
