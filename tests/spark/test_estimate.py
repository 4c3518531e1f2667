"""What a subscriber would have got of past events: on Spark the same as in a hub."""

from datetime import timedelta

from msgspec import structs

from rankcast.hub import Hub
from rankcast.model.policies import Cap, Continuous, Diversity, Periodic, Sliding, TopKWindow
from rankcast.samples.feeds import feed_named
from rankcast.spark import estimate
from rankcast.spark.sources.event_reader import typed_document
from rankcast.spark.sources.events import EventColumns
from spark.builders import person

DAY = timedelta(days=1)


def test_spark_estimates_what_a_hub_does(spark):
    feed = feed_named("flats")
    past = list(feed.events(200, seed=3))
    rows = [(typed_document(event),) for event in (*past, *past[:20])]
    frame = spark.createDataFrame(rows, "value string").repartition(3)
    wanted = next(one for one in feed.subscribers(40, seed=4) if len(one.subscriptions) > 1)
    first, *others = wanted.subscriptions
    mixed = (structs.replace(first, deliver=Continuous(2)), *others)
    people = [
        structs.replace(wanted, subscriptions=mixed, deliver=Sliding(1, 20)),
        structs.replace(wanted, deliver=TopKWindow(2, DAY, at_most=Cap(1, DAY))),
        structs.replace(wanted, deliver=Periodic(2, DAY, Diversity()), decay=None),
        person("nobody", "rent < 0", deliver=Continuous(1)),
    ]
    for one in people:
        given = {"k": [1, 5], "filters": ["rent < 900"], "at_most": [Cap(1, DAY, per="city")]}
        found = estimate(frame, one, columns=EventColumns(document="value"), schema=feed.schema, **given)
        assert found == Hub(schema=feed.schema).estimate(past, one, **given).estimates
