"""A stream that is going to be killed: events of a folder, subscribers that change, all policies, files as output.

    python spark_stream_program.py FOLDER [MASTER]

What happens depends on FOLDER alone: one file of events is one micro-batch, and the second part of the subscribers
appears with the same batch whenever, and however often, the program is started.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rankcast.language.parser import parse_filter
from rankcast.model.policies import ALL_MATCHES, Continuous, Diversity, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.session import spark_session
from rankcast.spark.sinks.files import FileSink
from rankcast.spark.sinks.sinks import start_outputs
from rankcast.spark.subscribers.changing import ChangingSubscribers
from rankcast.spark.subscribers.tables import append_subscribers

START = datetime(2026, 3, 1, tzinfo=UTC)
LATENESS = timedelta(seconds=5)
FILES, EVENTS = 4, 80
CHANGED_IN = 1
"""The batch from which on the table has its second part."""

SCHEMA = "id string, time timestamp, expirytime timestamp, city string, rent int, rooms int"
POLICIES: tuple[Policy, ...] = (
    ALL_MATCHES,
    Continuous(k=3),
    Periodic(k=3, period=timedelta(seconds=20)),
    Periodic(k=3, period=timedelta(seconds=15), diversity=Diversity(weights={"city": 1.0, "rooms": 1.0})),
    Sliding(k=2, window=20),
    TopKWindow(k=2, window=timedelta(seconds=10)),
    TopKWindow(k=2, window=12),
)
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For programs of a minute: what the JVM would do to run hot code faster takes more time than it saves."""

SETTINGS = {
    "spark.ui.enabled": "false",  # no port to be taken
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",  # does not ask a name server
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "2",
}


def prepare(folder: Path) -> None:
    """Write the events, and the first part of the subscribers: some are late, some come twice, some are no events."""
    draw = random.Random(7)
    (folder / "events").mkdir(parents=True)
    for file in range(FILES):
        lines = [json.dumps(_event(draw, file * EVENTS + number)) for number in range(EVENTS)]
        lines += draw.sample(lines, 5)
        middle = START + timedelta(seconds=file * EVENTS / 5)
        lines.append(json.dumps({"id": "", "time": middle.isoformat(), "city": "Porto"}))
        if file > 1:
            late = START + timedelta(seconds=(file - 2) * EVENTS / 5)
            lines.append(json.dumps({"id": f"late {file}", "time": late.isoformat(), "city": "Porto", "rent": 500}))
        path = folder / "events" / f"{file}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (START.timestamp() + file, START.timestamp() + file))  # Spark takes the oldest first
    append_subscribers(folder / "subscribers", [_person(number) for number in range(28)])


def _event(draw: random.Random, number: int) -> dict[str, object]:
    time = START + timedelta(seconds=number / 5 - draw.uniform(0, 4))
    expires = time + timedelta(seconds=30) if number % 5 == 0 else None
    return {
        "id": str(number),
        "time": time.isoformat(),
        "expirytime": expires and expires.isoformat(),
        "city": draw.choice(["Porto", "Lisboa", "Braga"]),
        "rent": draw.randrange(300, 1500, 10),
        "rooms": draw.randrange(1, 6),
    }


def _person(number: int, *, changed: bool = False) -> Subscriber:
    cheap = parse_filter(f"rent < {600 + 20 * number}")
    large = parse_filter(f"city = 'Porto' and rooms >= {1 + number % 4}")
    policy = POLICIES[(number + changed) % len(POLICIES)]
    return Subscriber(
        f"person {number}",
        (Subscription("cheap", cheap, 0.3 + number / 100), Subscription("large", large, 0.9 - number / 100)),
        policy,
    )


def change(folder: Path) -> None:
    """Add the second part of the subscribers, unless it is there: changes in event time, some of them too late."""
    table = folder / "subscribers"
    if len(list(table.iterdir())) > 1:
        return
    soon = START + timedelta(seconds=(CHANGED_IN + 1) * EVENTS / 5)
    append_subscribers(
        table,
        [_person(number, changed=True) for number in range(0, 28, 4)] + [_person(number) for number in range(28, 34)],
        gone=[f"person {number}" for number in range(1, 28, 6)],
        active_from=soon,
    )


def run(folder: Path, spark, around: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext()) -> None:
    """Run the stream to the end of its events; the driver's own work for a batch is done `around` that."""
    checkpoint = folder / "checkpoint"
    subscribers = ChangingSubscribers(folder / "subscribers", checkpoint, lateness=LATENESS)

    def before(batch: int) -> None:
        if batch >= CHANGED_IN:
            change(folder)
        with around(batch):
            subscribers.prepare(batch)

    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "events"))
    outputs = Pipeline(subscribers, lateness=LATENESS, shards=2).outputs(events)
    sink = FileSink(spark, str(folder / "out"), format="json")
    query = start_outputs(outputs, sink, checkpoint=str(checkpoint), available_now=True, before=before)
    query.awaitTermination()


def outputs_of(folder: Path) -> dict[str, list[str]]:
    """Return what the stream has put out: the lines of each table, sorted."""
    tables = {table.name: table for table in (folder / "out").iterdir() if table.is_dir()}
    return {
        name: sorted(line for file in table.glob("batch=*/part-*") for line in file.read_text().splitlines())
        for name, table in sorted(tables.items())
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]), spark_session(sys.argv[2] if len(sys.argv) > 2 else "local[2]", settings=SETTINGS))
