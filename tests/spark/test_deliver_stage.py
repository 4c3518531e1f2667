"""The delivery as a stage of its own: what a pipeline gives, and what steps in between make of it."""

from datetime import timedelta

import pytest
from pyspark.errors import PythonException

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring
from rankcast.model.errors import InvalidEventError
from rankcast.model.policies import ALL_MATCHES, Continuous, Diversity, Periodic, Sliding, TopKWindow, diversity_of
from rankcast.model.relevance import Decay
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.spark import CompiledSubscribers, Pipeline, deliver, deliver_outputs, match
from rankcast.spark.sources.events import END
from spark.builders import NOON, streamed

FLATS = "id string, time timestamp, expirytime timestamp, city string, rent int, note string"
RENTS = [100 + at * 331 % 800 for at in range(60)]
POLICIES = (
    ALL_MATCHES,
    Continuous(2),
    Periodic(2, timedelta(minutes=7)),
    Sliding(2, 5, diversity=Diversity(0.5, {"city": 1.0})),
    TopKWindow(2, timedelta(minutes=9), diversity=Diversity(0.3)),
)


def _people():
    for at, policy in enumerate(POLICIES):
        for decay in (None, Decay(timedelta(minutes=4)))[: 2 if diversity_of(policy) is None else 1]:
            cheap = Subscription("cheap", parse_filter("rent < 700"), rank=0.9, deliver=Continuous(1))
            near = Subscription(
                "near", parse_filter("city = 'Porto' or rent < 400"), rank=0.7, refresh=timedelta(minutes=3)
            )
            other = Subscription("other", parse_filter("rent > 300"), rank=0.4)
            own = (cheap, near, other) if at % 2 else (near, other)
            yield Subscriber(f"s{at}{'' if decay is None else 'd'}", own, decay=decay, deliver=policy)


PEOPLE = tuple(_people())


def _flats(spark):
    rows = []
    for at in range(len(RENTS)):
        time = NOON + timedelta(seconds=37 * at)
        expires = time + timedelta(minutes=2) if at % 5 == 0 else None
        rows.append((f"f{at}", time, expires, ("Porto", "Faro", "Braga")[at % 3], RENTS[at], f"n{at}"))
    return spark.createDataFrame(rows, FLATS)


def _rows(frame):
    return sorted(map(tuple, frame.collect()), key=str)


@pytest.fixture(scope="module")
def audience():
    return CompiledSubscribers.of(PEOPLE)


@pytest.fixture(scope="module")
def expected(spark):
    """What a pipeline delivers, with a column of the events carried along."""
    return _rows(Pipeline(PEOPLE, carry=["note"]).transform(_flats(spark)))


def test_a_table_is_delivered_as_by_a_pipeline(spark, audience, expected):
    matches = match(_flats(spark).repartition(3), audience, keep=["note"], for_delivery=True)
    assert _rows(deliver(matches.repartition(4), audience, carry=["note"], shards=3)) == expected
    assert len({row[0] for row in expected}) == len(PEOPLE)


def test_a_stream_is_delivered_as_by_a_pipeline(spark, audience, expected, tmp_path):
    flats = _flats(spark)
    for part in range(3):
        low, high = (NOON + timedelta(minutes=13 * minutes) for minutes in (part, part + 1))
        chosen = flats.where((flats.time >= low) & (flats.time < high))
        chosen.coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    spark.range(1).selectExpr(f"true as {END}").write.mode("append").json(str(tmp_path / "in"))
    stream = spark.readStream.schema(f"{FLATS}, {END} boolean").option("maxFilesPerTrigger", 1)
    matches = match(stream.json(str(tmp_path / "in")), audience, for_delivery=True)
    found = deliver(matches, audience, lateness=timedelta(minutes=40))
    without_note = sorted((row[:-1] for row in expected), key=str)
    assert sorted(map(tuple, streamed(found, tmp_path / "checkpoint")), key=str) == without_note


def test_the_best_subscribers_of_each_event_get_it_as_by_a_pipeline(spark, audience):
    flats = _flats(spark)
    best = [Advertisement("flats", "/events", k=3, ranking=AudienceRanking(Scoring.PREFERENCE))]
    chosen = match(flats, audience, for_delivery=True, advertisements=best)
    expected = Pipeline(PEOPLE, advertisements=best).transform(flats)
    assert _rows(deliver(chosen, audience)) == _rows(expected)


def test_steps_in_between_leave_out_rows_and_change_ranks(spark):
    person = Subscriber(
        "ana", (Subscription("all", parse_filter("rent > 0"), rank=0.5),), deliver=Periodic(1, timedelta(days=1))
    )
    audience = CompiledSubscribers.of([person])
    matches = match(_flats(spark), audience, keep=["rent"])
    (best,) = deliver(matches.selectExpr("* except (rank)", "rent / 1000 as rank"), audience).collect()
    assert (best.rank, best.matched) == (max(RENTS) / 1000, ["all"])
    (other,) = deliver(
        matches.where("rent < 500").selectExpr("* except (rank)", "cast(rent as decimal(9, 2)) as rank"), audience
    ).collect()
    assert other.rank == max(rent for rent in RENTS if rent < 500)


def test_matches_that_are_none_are_refused(spark, audience):
    flats = _flats(spark)
    matches = match(flats, audience, for_delivery=True)
    for given, carry, message in (
        (match(flats, audience), [], "matches: no column 'content', and some subscribers want"),
        (matches.drop("score"), [], "matches: no column 'score'; expected those that"),
        (matches.selectExpr("* except (rank)", "'high' as rank"), [], "matches: the column 'rank' is string; expected"),
        (matches, ["nope"], "carry: the matches have no column 'nope'"),
        (matches, ["time"], "carry: notifications have a column 'time' of their own"),
    ):
        with pytest.raises(InvalidEventError, match=message):
            deliver(given, audience, carry=carry)
    with pytest.raises(PythonException, match=r"there is no queue \('bob', None\) among these subscribers"):
        deliver(matches.limit(1).selectExpr("* except (subscriber)", "'bob' as subscriber"), audience).collect()


def test_what_a_stage_counts_is_in_its_outputs(spark, audience):
    counted = [
        row
        for row in deliver_outputs(match(_flats(spark), audience, for_delivery=True), audience).collect()
        if row.kind == "counts"
    ]
    assert sum(row.events for row in counted) == 60
