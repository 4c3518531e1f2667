"""The whole pipeline: events in, ranked notifications out, for static and streaming DataFrames alike.

    events -> match, for each event's best subscribers if its publisher says so, and rank -> deliver -> notifications

```python
notifications = Pipeline("subscribers.yaml").transform(events)
```

- The same subscribers and events give the same notifications whatever the partitions, micro-batches and retries are;
  a stream gives what the table of all its events gives, as soon as its watermark allows. `lateness` says how much later
  than others an event may come; what comes later still is in the `late` output and changes nothing.
- A static DataFrame is complete: open periods and windows are completed. A stream may have rows that say so
  (`rankcast.spark.sources.events.END`); otherwise what is open stays open until later events move the watermark.
- What publishers advertise holds as in a hub: an event with a k reaches its k best subscribers only, the same ones.
- Nothing is lost: rows that are no events, or not what their source advertises, are in the `rejected` output, with the
  reason.
- The state of a stream belongs to its subscribers: restart it from its checkpoint with the same ones, in the same
  order, the same `shards` and the same `lateness`. Subscribers that change are given as `ChangingSubscribers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession

from rankcast.model.advertisements import Advertisement, Advertisements, Scoring
from rankcast.model.errors import InvalidValueError, Problem
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, unique_subscribers
from rankcast.spark.delivery.live_state import clean
from rankcast.spark.delivery.stage import INPUT_SCHEMA
from rankcast.spark.delivery.unpacked_rows import check_carried, notifications_of, outputs_of
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import PackTask
from rankcast.spark.matching.shipping import AudienceSource, give_back, shipped
from rankcast.spark.session import check_session
from rankcast.spark.sources.events import EventColumns, prepared
from rankcast.spark.subscribers.changing import ChangingSubscribers
from rankcast.spark.subscribers.tables import subscribers_of_rows
from rankcast.storage.subscribers.files import SubscriberFile, load_subscribers

SHARDS = 4
"""By default: enough for a few cores. Every shard has a copy of the identities of its events."""

Subscribers: TypeAlias = (
    str
    | os.PathLike[str]
    | Iterable[Subscriber]
    | DataFrame
    | CompiledSubscribers
    | ChangingSubscribers
    | AudienceSource
)


class Pipeline:
    """What is done with events; a pipeline may be used for several DataFrames.

    `subscribers`: the path of a subscriber file, subscribers, a DataFrame of the shape of such a file (a row for each
    subscriber), or `ChangingSubscribers`. `problems` lists what was wrong with a file or DataFrame; the rest is used.
    `advertisements` are those of the events' sources, beside the file's own. `now` is when those events of a static
    DataFrame arrived that have no time; unless told, the time of the call.
    """

    def __init__(
        self,
        subscribers: Subscribers,
        *,
        columns: EventColumns | None = None,
        schema: Schema | None = None,
        shards: int | None = None,
        lateness: timedelta = timedelta(0),
        carry: Sequence[str] = (),
        advertisements: Iterable[Advertisement] = (),
        now: datetime | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        self.columns = columns or EventColumns()
        self.shards = SHARDS if shards is None else shards
        if self.shards < 1:
            raise InvalidValueError(f"shards: {self.shards}; expected at least 1")
        self.lateness = lateness
        self.carry = tuple(carry)
        self.now = now
        self.schema = schema
        self._source: AudienceSource | None = None
        self._audience: CompiledSubscribers | None = None
        self.advertisements = tuple(advertisements)
        self._take(subscribers)
        self.advertisements = Advertisements(self.advertisements).under(self.schema).all

    def _take(self, subscribers: Subscribers) -> None:
        if isinstance(subscribers, CompiledSubscribers):
            subscribers.check_filters(self.advertisements)
            self._audience = subscribers
        elif isinstance(subscribers, ChangingSubscribers):
            self._source = subscribers.source
        elif isinstance(subscribers, str | os.PathLike):
            self._take_file(load_subscribers(subscribers))
        elif isinstance(subscribers, DataFrame):
            self._take_file(subscribers_of_rows(subscribers))
        elif isinstance(subscribers, Iterable):
            self._audience = self._compiled(unique_subscribers(subscribers).values())
        else:
            self._source = subscribers

    def _checked(self, subscriber: Subscriber) -> Subscriber:
        """Return a subscriber under the schema; raise when a filter or a relevance does not fit it."""
        if self.schema is None:
            return subscriber
        owned = tuple(subscription.under(self.schema) for subscription in subscriber.subscriptions)
        return structs.replace(subscriber, subscriptions=owned)

    def _take_file(self, found: SubscriberFile) -> None:
        self.problems = found.problems
        self.advertisements = (*found.advertisements, *self.advertisements)
        self.schema = self.schema or found.schema
        self._audience = self._compiled(found.subscribers)

    def _compiled(self, subscribers: Iterable[Subscriber]) -> CompiledSubscribers:
        compares = any(own.ranking.scoring is Scoring.DIVERSITY for own in self.advertisements)
        return CompiledSubscribers.of(map(self._checked, subscribers), apart=True, filters=compares)

    def source(self, spark: SparkSession) -> AudienceSource:
        """Return what tasks get their audience from."""
        if self._source is None:
            assert self._audience is not None
            self._source = shipped(self._audience, spark)
            self._audience = None  # workers map what was saved; the driver needs none of it
            give_back()
        return self._source

    def transform(self, events: DataFrame) -> DataFrame:
        """Return the notifications of events: NOTIFICATION_COLUMNS, and what is carried along."""
        return notifications_of(self.outputs(events), self.carry)

    def outputs(self, events: DataFrame) -> DataFrame:
        """Return everything that comes of events, in one DataFrame; its column `kind` says what a row is.

        notification   NOTIFICATION_COLUMNS, and what is carried along
        list           LIST_COLUMNS of the lists, read on demand, that have changed, and what is carried along
        late           source, id and time of an event that came too late
        rejected       reason and original of a row that is no event
        counts         how many events and matches there were, in parts to be added up
        """
        check_session(events.sparkSession)
        clean()
        check_carried(self.carry)
        source = self.source(events.sparkSession)
        ready, reader = prepared(
            events,
            self.columns,
            self.schema,
            carry=self.carry,
            now=self.now,
            advertisements=self.advertisements,
        )
        packed = ready.mapInArrow(PackTask(reader, source, self.shards), INPUT_SCHEMA)
        carried = [events.schema[name] for name in self.carry]
        return outputs_of(packed, source, shards=self.shards, lateness=self.lateness, carried=carried)
