"""The delivery as a stage of its own: matches in, notifications out, with whatever a user does in between.

```python
audience = CompiledSubscribers.of(subscribers)
matches = match(events, audience, for_delivery=True)
notifications = deliver(matches.where("rank > 0.1"), audience)
```

Without a step in between the result is that of `Pipeline(subscribers).transform(events)`, for tables and for streams; a
pipeline costs less, because it packs matches as they are found. What is different: a stage that sees matches alone does
not know of events that nobody wants. They neither move the watermark of a stream, nor are they reported when they are
late, nor do they make a later event of the same identity a repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql import types as T  # noqa: N812

from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError, shown
from rankcast.spark.delivery import stage as delivery
from rankcast.spark.delivery.live_state import clean
from rankcast.spark.delivery.stage import INPUT_SCHEMA
from rankcast.spark.delivery.unpacked_rows import NOTIFICATION, UNPACKED_SCHEMA, UnpackTask
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing_matches import NO_CONTENT, PackMatchesTask
from rankcast.spark.matching.shipping import AudienceSource, shipped
from rankcast.spark.matching.stage import CONTENT, CONTENT_FIELD, MATCH_SCHEMA
from rankcast.spark.pipeline import NOTIFICATION_COLUMNS, SHARDS
from rankcast.spark.sources.events import CARRIED, END, carried_columns, carried_json
from rankcast.spark.subscribers.changing import ChangingSubscribers

_RANKS = ("rank", "score")


def deliver(
    matches: DataFrame,
    audience: CompiledSubscribers | ChangingSubscribers | AudienceSource,
    *,
    lateness: timedelta = timedelta(0),
    shards: int = SHARDS,
    carry: Sequence[str] = (),
) -> DataFrame:
    """Return the notifications that policies make of matches: NOTIFICATION_COLUMNS, and what is carried along.

    `matches` is what `match(..., for_delivery=True)` returns, or `top_subscribers` of it, or what is left of it after
    steps that leave out rows or change ranks. Events are ordered by their rank; where ranks decay, by the score, which
    is to be changed with it: log2(f) more for a rank times f. The audience is the one that was matched. `carry` names
    further columns of the matches, the same in all rows of an event. Rows whose column `rankcast_end` is true say that
    a stream ends: steps must let them pass. `lateness` and `shards` stay the same for the life of a checkpoint.
    """
    outputs = deliver_outputs(matches, audience, lateness=lateness, shards=shards, carry=carry)
    wanted = [F.col(f"`{name}`") for name in (*NOTIFICATION_COLUMNS, *carry)]
    return outputs.where(F.col("kind") == NOTIFICATION).select(*wanted)


def deliver_outputs(
    matches: DataFrame,
    audience: CompiledSubscribers | ChangingSubscribers | AudienceSource,
    *,
    lateness: timedelta = timedelta(0),
    shards: int = SHARDS,
    carry: Sequence[str] = (),
) -> DataFrame:
    """Return everything that comes of matches as `Pipeline.outputs` does: notifications, late events and counts.

    The rows of an event are brought together first, wherever steps have left them.
    """
    if isinstance(audience, CompiledSubscribers) and audience.queues.wanted_content and CONTENT not in matches.columns:
        raise InvalidEventError(NO_CONTENT)
    if isinstance(audience, CompiledSubscribers) and audience.needs_hub is not None:
        raise InvalidSubscriptionError(audience.needs_hub)
    clean()
    chosen = _columns(matches, carry)
    source = _source(audience, matches)
    # A step may have scattered the rows of an event; where ranks decay, they travel with the event, all together.
    selected = matches.select(*[column.alias(name) for name, column in chosen.items()]).repartition("source", "id")
    packed = selected.mapInArrow(PackMatchesTask(source, shards, tuple(chosen)), INPUT_SCHEMA)
    delivered = delivery.deliver(packed, source, shards=shards, lateness=lateness)
    unpacked = delivered.mapInArrow(UnpackTask(source, shards), UNPACKED_SCHEMA)
    if not carry:
        return unpacked.drop(CARRIED)
    return unpacked.select(
        *[name for name in UNPACKED_SCHEMA.fieldNames() if name != CARRIED],
        *carried_columns(F.col(CARRIED), T.StructType([matches.schema[name] for name in carry])),
    )


def _columns(matches: DataFrame, carry: Sequence[str]) -> dict[str, Column]:
    """Return the columns that delivery needs; raise InvalidEventError for matches that are none."""
    found = {field.name: field.dataType for field in matches.schema.fields}
    wanted = {field.name: field.dataType for field in MATCH_SCHEMA.fields}
    if CONTENT in found:
        wanted[CONTENT] = CONTENT_FIELD.dataType
    if END in found:
        wanted[END] = T.BooleanType()
    for name, kind in wanted.items():
        if name not in found:
            raise InvalidEventError(f"matches: no column {shown(name)}; expected those that rankcast.spark.match gives")
        is_rank = name in _RANKS and isinstance(found[name], T.NumericType)
        if found[name].simpleString() != kind.simpleString() and not is_rank:
            raise InvalidEventError(
                f"matches: the column {shown(name)} is {found[name].simpleString()}; expected {kind.simpleString()}"
            )
    for name in carry:
        if name not in found:
            raise InvalidEventError(f"carry: the matches have no column {shown(name)}; they have {', '.join(found)}")
        if name in UNPACKED_SCHEMA.fieldNames():
            raise InvalidEventError(f"carry: notifications have a column {shown(name)} of their own; rename it")
    chosen = {name: F.col(name).cast("double") if name in _RANKS else F.col(name) for name in wanted}
    return {**chosen, CARRIED: carried_json(carry)} if carry else chosen


def _source(audience: CompiledSubscribers | ChangingSubscribers | AudienceSource, matches: DataFrame) -> AudienceSource:
    if isinstance(audience, ChangingSubscribers):
        return audience.source
    return shipped(audience, matches.sparkSession) if isinstance(audience, CompiledSubscribers) else audience
