"""Subscribers, streams and checkpoints as the tests of this folder need them."""

from datetime import UTC, datetime
from pathlib import Path

from rankcast.language.parser import parse_filter
from rankcast.model.subscriptions import Subscriber, Subscription

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def person(name: str, *filters: str, **options) -> Subscriber:
    """A subscriber with subscriptions '0', '1' and so on, each of a lower rank than the one before."""
    owned = [Subscription(str(at), parse_filter(text), rank=1 / (at + 1)) for at, text in enumerate(filters)]
    return Subscriber(name, tuple(owned), **options)


def streamed(frame, checkpoint: Path) -> list:
    """The rows that a streaming DataFrame gives until nothing more is there."""
    rows: list = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return rows


def forget_last_commit(checkpoint: Path) -> None:
    """As after a crash between the output of the last batch and Spark's own log of it."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink()
