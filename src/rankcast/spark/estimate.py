"""What a subscriber would have got of past events, as `Hub.estimate` tells it, of more events than one machine holds.

Each variant of the subscriber is one of a pipeline's, beside one that gets whatever the variant matches, one that has
no caps, and one that gets everything: so an estimate is what the pipeline itself delivers. Of events that come again
the first counts. One that has expired when it comes is no match here, which it is in a hub.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.hub import Estimate
from rankcast.hub.estimate import A_DAY, handed_everything, is_capped, uncapped, variants_of
from rankcast.language.parser import parse_filter
from rankcast.model.policies import ALL_MATCHES, AT_ONCE, Cap
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.sources.events import EventColumns
from rankcast.storage.durations import format_cap

ALL = "all"
_NOTHING = (0, None, None, None)


def estimate(
    events: DataFrame,
    subscriber: Subscriber,
    *,
    k: Iterable[int] = (),
    filters: Iterable[str] = (),
    at_most: Iterable[Cap] = (),
    columns: EventColumns | None = None,
    schema: Schema | None = None,
) -> tuple[Estimate, ...]:
    """Tell what a subscriber would have got of the events of a static DataFrame, as it is and in variants.

    The variants are those of `Hub.estimate`.
    """
    only = {text: parse_filter(text, schema) for text in filters}
    variants = variants_of(subscriber, k, only, {format_cap(cap): cap for cap in at_most})
    everything = Subscription(SubscriptionId("1"), parse_filter("true"))
    asked = [Subscriber(SubscriberId(ALL), (everything,))]
    for at, variant in enumerate(map(handed_everything, variants.values())):
        plain = tuple(structs.replace(own, deliver=None) for own in variant.subscriptions)
        matching = structs.replace(variant, subscriptions=plain, deliver=ALL_MATCHES, notify=AT_ONCE)
        asked += [_named(variant, f"{at}"), _named(matching, f"matches of {at}")]
        asked += [_named(uncapped(variant), f"all of {at}")] if is_capped(variant) else []
    told = Pipeline(asked, columns=columns, schema=schema).transform(events).groupBy("subscriber")
    summed = told.agg(F.count("*"), F.max("rank"), F.min("rank"), F.max("time") - F.min("time")).collect()
    found = {row[0]: row[1:] for row in summed}
    days = max(found[ALL][3], A_DAY) / A_DAY if ALL in found else 1.0
    made: list[Estimate] = []
    for at, name in enumerate(variants):
        matched, *_ = found.get(f"matches of {at}", _NOTHING)
        delivered, best, worst, _ = found.get(f"{at}", _NOTHING)
        uncut, *_ = found.get(f"all of {at}", (delivered,))
        made.append(Estimate(name, matched, delivered, best, worst, days, uncut - delivered))
    return tuple(made)


def _named(subscriber: Subscriber, name: str) -> Subscriber:
    return structs.replace(subscriber, id=SubscriberId(name))
