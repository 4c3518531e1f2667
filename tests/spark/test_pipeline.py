"""The pipeline as its users see it: what goes in, what comes out, what is refused."""

import json
import os
from datetime import timedelta
from decimal import Decimal

import pytest

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring
from rankcast.model.errors import DuplicateIdError, InvalidEventError, InvalidSubscriptionError, InvalidValueError
from rankcast.model.periods import Every
from rankcast.model.policies import Continuous, Digest, OnDemand, Sliding
from rankcast.model.relevance import Decay
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.spark.delivery.live_state import PREFIX, base_folder
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import match
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.sources.events import EventColumns
from spark.builders import NOON, person

BEST = AudienceRanking(Scoring.PREFERENCE)
FLATS = "id int, time timestamp, city string, rent int, tags array<string>, price decimal(10,2)"


def _flats(spark, *rents, start=0):
    rows = [
        (start + at, NOON + timedelta(minutes=start + at), "Porto", rent, ["a"], Decimal(1))
        for at, rent in enumerate(rents)
    ]
    return spark.createDataFrame(rows, FLATS)


def test_everything_that_comes_of_events_is_in_one_table(spark):
    people = [
        person("ana", "rent < 800", "rent < 500", deliver=Sliding(1, 2)),
        person("ben", "rent > 0", decay=Decay(timedelta(hours=1)), deliver=Continuous(1)),
    ]
    events = _flats(spark, 700, 400, 900).unionByName(
        _flats(spark, 1).selectExpr("* except (time)", "timestamp'+20000-01-01' as time")
    )
    pipeline = Pipeline(people, carry=["tags", "price"])
    rows = pipeline.outputs(events).collect()
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in {row.kind for row in rows}}
    assert sorted((row.subscriber, row.id, row.rank, row.matched) for row in by_kind["notification"]) == [
        ("ana", "0", 1.0, ["0"]),
        ("ana", "1", 1.0, ["0", "1"]),
        ("ben", "0", 1.0, ["0"]),
        ("ben", "1", 1.0, ["0"]),
        ("ben", "2", 1.0, ["0"]),
    ]
    first = next(row for row in by_kind["notification"] if (row.subscriber, row.id) == ("ana", "0"))
    assert first.delivered == first.time
    assert (first.source, first.subscription, first.tags, str(first.price)) == ("/events", None, ["a"], "1.00")
    (rejected,) = by_kind["rejected"]
    assert rejected.reason == "time: a time outside the years 1 to 9999"
    assert json.loads(rejected.original)["rent"] == 1
    assert sum(row.events for row in by_kind["counts"]) == 3
    assert sum(row.matches for row in by_kind["counts"]) == 5
    assert pipeline.transform(events).columns == [
        *("subscriber", "subscription", "source", "id", "time", "rank", "matched", "delivered", "handed_over"),
        *("tags", "price"),
    ]


def test_an_event_reaches_the_best_of_those_whom_its_advertisement_or_itself_wants(spark):
    people = [person("ana", "rent < 800"), person("ben", "rent < 0", "rent < 900")]
    flats = Advertisement("flats", "/events", parse_filter("rent < 7"), k=2, ranking=BEST)
    columns = EventColumns(k="few", advertisement="city")
    events = _flats(spark, 1, 2, 0, 7, 3).selectExpr(
        "* except (city)", "if(rent = 2, 2, if(rent = 3, 3, rent)) few", "if(rent = 2, 'flats', null) city"
    )
    rows = Pipeline(people, columns=columns, advertisements=[flats]).outputs(events).collect()
    told = sorted((row.id, row.subscriber) for row in rows if row.kind == "notification")
    assert told == [("0", "ana"), ("1", "ana"), ("1", "ben")]
    reasons = {row.reason: json.loads(row.original)["few"] for row in rows if row.kind == "rejected"}
    assert reasons == {
        "event ('/events', '3') is not what 'flats' advertises": 7,
        "k: 3 is more than advertisement 'flats' has, 2": 3,
    }


FILE = """
version: 1
schema: {attributes: {rent: int}}
advertisements: [{id: flats, source: /events, k: 2}]
subscribers:
  - {id: ana, subscriptions: [{filter: rent < 500, rank: 0.5}]}
  - {id: bad, subscriptions: [{filter: rent <, rank: 0.5}]}
"""


def test_subscribers_come_from_a_file_with_its_schema(tmp_path):
    (tmp_path / "people.yaml").write_text(FILE)
    pipeline = Pipeline(tmp_path / "people.yaml")
    assert list(pipeline.schema.attributes) == ["rent"]
    assert [problem.line for problem in pipeline.problems] == [7]
    assert pipeline.advertisements == (Advertisement("flats", "/events", k=2),)
    assert pipeline._audience.queues.keys == [("ana", None)]


def test_subscribers_come_from_a_table_of_the_same_shape(spark):
    shape = (
        "id string, deliver struct<policy: string, k: int, window: int>, "
        "subscriptions array<struct<id: string, filter: string, rank: double>>"
    )
    rows = [
        ("ana", ("sliding", 2, 10), [("a", "rent < 500", 0.5), ("b", "rent < 900", None)]),
        ("ben", None, [(None, "rent <", None)]),
        ("cleo", None, [(None, "rent > 1", None)]),
    ]
    pipeline = Pipeline(spark.createDataFrame(rows, shape))
    assert pipeline._audience.queues.keys == [("ana", None), ("cleo", None)]
    assert pipeline._audience.queues.policy_of(0) == Sliding(2, 10)
    assert [problem.message[:16] for problem in pipeline.problems] == ["subscriber 'ben'"]


def test_a_notification_tells_when_it_is_handed_over_and_lists_are_an_output(spark):
    people = [
        person("ana", "rent < 800", notify=Digest(Every("hour"))),
        person("ben", "rent < 800", deliver=Continuous(1), notify=OnDemand()),
        person("cleo", "rent > 9000", deliver=Continuous(1), notify=OnDemand()),
    ]
    rows = Pipeline(people).outputs(_flats(spark, 700, 600)).collect()
    told = [(row.subscriber, row.handed_over.minute, row.handed_over > row.time) for row in rows if row.handed_over]
    assert told == [("ana", 0, True)] * 2
    (entry,) = (row for row in rows if row.kind == "list")
    assert (entry.subscriber, entry.place, entry.as_of) == ("ben", 1, entry.time)


def test_what_killed_streams_left_in_memory_is_removed_when_a_pipeline_is_made(spark):
    left = base_folder() / f"{PREFIX}{os.getuid()}-killed"
    (left / "shard-0").mkdir(parents=True)
    Pipeline([person("ana", "rent < 800")]).transform(_flats(spark, 700))
    assert not left.exists()


def test_events_that_come_again_are_counted(spark):
    pipeline = Pipeline([person("ana", "rent < 800")], lateness=timedelta(minutes=5))
    events = _flats(spark, 700, 400).unionByName(_flats(spark, 700)).unionByName(_later(_flats(spark, 500)))
    rows = pipeline.outputs(events.repartition(3)).collect()
    assert sorted(row.id for row in rows if row.kind == "notification") == ["0", "1"]
    assert sum(row.events or 0 for row in rows) == 4
    assert sum(row.duplicates or 0 for row in rows) == 2


def _later(events):
    return events.selectExpr("* except (time)", "time + interval 3 minutes as time")


def test_what_cannot_work_is_refused_at_once(spark):
    with pytest.raises(DuplicateIdError, match="two subscribers 'ana'"):
        Pipeline([person("ana", "true"), person("ana", "true")])
    flats = Advertisement("flats", "/events", parse_filter("rentt > 0"), k=2)
    with pytest.raises(DuplicateIdError, match="two advertisements 'flats'"):
        Pipeline([], advertisements=[flats, flats])
    declared = Schema({"rent": ValueType.INT})
    diverse = Advertisement("flats", "/events", k=2, ranking=AudienceRanking(Scoring.DIVERSITY))
    audience = CompiledSubscribers.of([person("ana", "rent < 800")])
    with pytest.raises(InvalidSubscriptionError, match="'flats': ranking by diversity compares filters"):
        Pipeline(audience, advertisements=[diverse])
    with pytest.raises(InvalidSubscriptionError, match=r"compile them with CompiledSubscribers.of\(..., filters=True"):
        match(_flats(spark, 1), audience, advertisements=[diverse])
    with pytest.raises(InvalidSubscriptionError, match="'flats': space: unknown attribute 'rentt'; did you mean"):
        Pipeline([], schema=declared, advertisements=[flats])
    for name, what in (
        ("nope", "the events have no column 'nope'"),
        ("city", "'city' is string; expected a whole numb"),
    ):
        with pytest.raises(InvalidEventError, match=f"k: .*{what}"):
            Pipeline([], columns=EventColumns(k=name)).transform(_flats(spark, 1))
    with pytest.raises(InvalidValueError, match="shards: 0; expected at least 1"):
        Pipeline([], shards=0)
    with pytest.raises(InvalidEventError, match="carry: notifications have a column 'id' of their own"):
        Pipeline([], carry=["id"]).transform(_flats(spark, 1))
    with pytest.raises(InvalidEventError, match="carry: the events have no column 'nope'"):
        Pipeline([], carry=["nope"]).transform(_flats(spark, 1))
