"""`rankcast run`: what it writes, what it says, how it ends."""

import csv
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from msgspec import structs
from typer.testing import CliRunner

from crashing_programs import Program
from rankcast.cli.main import app
from rankcast.cli.replay import Replay
from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring
from rankcast.model.events import Event
from rankcast.model.periods import Every
from rankcast.model.policies import AllMatches, Cap, Digest, OnDemand, Sliding
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import format_time, parse_time
from rankcast.samples.feeds import DEFAULT_START, feed_named
from rankcast.spark.subscribers.tables import append_subscribers
from rankcast.storage.events.files import read_events, write_events
from rankcast.storage.subscribers.files import load_advertisements, load_subscribers, save_subscribers

FLATS, SOURCE = feed_named("flats"), "/feeds/flats"
PATIENCE = 600


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    save_subscribers(folder / "people.yaml", FLATS.subscribers(30, 1, DEFAULT_START), FLATS.schema)
    write_events(folder / "flats.jsonl", FLATS.events(300, 1, DEFAULT_START))
    advertise(folder / "advertised.yaml", Scoring.DIVERSITY)
    with (folder / "flats.jsonl").open("a") as stream:
        stream.write('{"rent": "much"}\nnonsense\n')
    return folder


def advertise(path: Path, scoring: Scoring) -> None:
    ranking = AudienceRanking(scoring, seed=3)
    made = Advertisement("flats", SOURCE, parse_filter("rent > 0"), FLATS.schema, 2, ranking)
    save_subscribers(path, (), advertisements=[made])


@pytest.fixture(scope="module")
def expected(inputs) -> list[tuple[str, str, float]]:
    """What the hub delivers."""
    return delivered_by_hub(inputs, inputs / "people.yaml")


def delivered_by_hub(inputs: Path, people: Path, advertised: Path | None = None) -> list[tuple[str, str, float]]:
    loaded = load_subscribers(people)
    replay = Replay(loaded.subscribers, loaded.schema, advertisements=load_advertisements(advertised, loaded).all)
    notes = [
        note
        for event in read_events(inputs / "flats.jsonl", loaded.schema)
        if isinstance(event, Event) and event.time is not None
        for note in replay.publish(event).delivered
    ]
    notes += replay.finish()
    return sorted((note.subscriber, note.event.id, note.rank) for note in notes)


def nameless_rows() -> list[dict[str, object]]:
    """Events without ids, every third without a time, in no order."""
    rows = [
        {name: value for name, value in event.attributes.items() if name not in ("id", "source", "type", "specversion")}
        for event in FLATS.events(200, 1, DEFAULT_START)
    ]
    for row in rows[::3]:
        del row["time"]
    return Random(1).sample(rows, len(rows))


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    texts = [{name: format_time(row[name]) if name == "time" else row[name] for name in row} for row in rows]
    if path.suffix == ".parquet":
        names = sorted({name for row in rows for name in row})
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    elif path.suffix == ".csv":
        with path.open("w") as stream:
            writer = csv.DictWriter(stream, sorted({name for row in rows for name in row}))
            writer.writeheader()
            writer.writerows(texts)
    else:
        path.write_text("".join(json.dumps(row, default=format_time) + "\n" for row in texts))


def run(*arguments: object) -> object:
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def given(inputs: Path) -> list[object]:
    return ["--events", inputs / "flats.jsonl", "--subscribers", inputs / "people.yaml"]


def notifications(spark, out: Path) -> list[tuple[str, str, float]]:
    rows = spark.read.parquet(str(out / "notifications")).collect()
    return sorted((row.subscriber, row.id, row["rank"]) for row in rows)


def test_a_whole_input_gives_what_the_hub_gives_and_is_never_overwritten(spark, inputs, expected, tmp_path):
    result = run(*given(inputs), "--out", tmp_path / "found")
    assert result.exit_code == 0, result.output
    assert notifications(spark, tmp_path / "found") == expected
    originals = [row.original for row in spark.read.parquet(str(tmp_path / "found" / "rejected")).collect()]
    assert sorted(originals) == ["nonsense", '{"rent": "much"}']
    assert result.stdout.startswith("300 events, ")
    assert f"{len(expected):,} delivered, 0 late, 2 rejected, in " in result.stdout
    assert result.stderr == ""
    # An output is never overwritten.
    before = sorted(tmp_path.rglob("*"))
    again = run(*given(inputs), "--out", tmp_path / "found")
    assert again.exit_code == 1
    assert again.stderr == (
        f"{tmp_path / 'found'}: holds the output of another run; choose another folder, or resume with its checkpoint\n"
    )
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("suffix", "scoring"), [("jsonl", Scoring.NONE), ("csv", Scoring.DIVERSITY), ("parquet", Scoring.RELEVANCE)]
)
def test_match_and_a_whole_run_give_one_result_whatever_the_order_of_lines_and_files(
    spark, inputs, tmp_path, suffix, scoring
):
    rows, found, best = nameless_rows(), [], tmp_path / "advertised.yaml"
    people, at = ["--subscribers", inputs / "people.yaml", "-a", best], ["--now", "2026-01-01T00:00:00Z"]
    advertise(best, scoring)
    for order, parts in enumerate(([rows], [rows[100:], rows[:100]])):
        folder = tmp_path / f"order{order}"
        folder.mkdir()
        for part, own in enumerate(parts):
            write_rows(folder / f"{part}.{suffix}", [{**row, "source": SOURCE} for row in own])
        told = CliRunner().invoke(app, ["match", str(folder), *map(str, people), "--json", *at])
        assert told.exit_code == 0, told.output
        assert "67 events without a time; taken to be of 2026-01-01T00:00:00Z" in told.stderr
        notes = map(json.loads, told.stdout.splitlines())
        found.append(sorted((note["subscriber"], note["event"]["id"], note["rank"]) for note in notes))
        result = run("--events", folder, *people, "--out", tmp_path / f"found{order}", *at)
        assert result.exit_code == 0, result.output
        found.append(notifications(spark, tmp_path / f"found{order}"))
    assert max(Counter(name for _, name, _ in found[0]).values()) == 2
    assert found.count(found[0]) == len(found)


def test_caps_and_muting_withhold_what_they_withhold_in_a_hub(spark, inputs, tmp_path):
    people, loaded = tmp_path / "people.yaml", load_subscribers(inputs / "people.yaml")
    five, some = Cap(5, Every("day"), per="city"), loaded.subscribers[0].subscriptions
    calm = [structs.replace(one, deliver=AllMatches(at_most=five)) for one in loaded.subscribers]
    dora = Subscriber("dora", some, muted_until=DEFAULT_START + timedelta(hours=1))
    save_subscribers(people, (*calm, dora), loaded.schema)
    result = run("--events", inputs / "flats.jsonl", "--subscribers", people, "--out", tmp_path / "found")
    assert result.exit_code == 0, result.output
    assert notifications(spark, tmp_path / "found") == delivered_by_hub(inputs, people)
    assert re.search(r" delivered, [1-9][\d,]* capped, [1-9][\d,]* muted, 0 late", result.stdout)


@pytest.mark.parametrize("out", ["found", "sqlite:///found.db"])
def test_digests_and_lists_that_are_read_on_demand_are_served(spark, inputs, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    people, loaded = tmp_path / "people.yaml", load_subscribers(inputs / "people.yaml")
    wanted = next(one.subscriptions for one in loaded.subscribers if len(one.subscriptions) > 1)
    dora = Subscriber("dora", wanted, notify=Digest(Every("day", at="08:00")), zone="Europe/Lisbon")
    emil = Subscriber("emil", wanted, deliver=Sliding(3, 50), notify=OnDemand())
    save_subscribers(people, (dora, emil), loaded.schema)
    target = tmp_path / "found" if out == "found" else out
    result = run("--events", inputs / "flats.jsonl", "--subscribers", people, "--out", target)
    assert "3 entries of lists" in result.stdout
    hub, notes = Hub([dora, emil], schema=loaded.schema), []
    events = [event for event in read_events(inputs / "flats.jsonl", loaded.schema) if isinstance(event, Event)]
    for event in events:
        notes += hub.publish(event, now=event.time)
    listed = [note.event.id for note in hub.read("emil", now=events[-1].time)]
    handed = sorted((note.event.id, note.handed_over) for note in (*notes, *hub.finish()))
    if out == "found":
        rows = spark.read.parquet(str(tmp_path / "found" / "notifications")).collect()
        found = sorted((row.id, row.handed_over.astimezone(UTC)) for row in rows)
        lists = spark.read.parquet(str(tmp_path / "found" / "lists")).orderBy("place").collect()
        assert [row.id for row in lists] == listed
    else:
        with closing(sqlite3.connect("found.db")) as database:
            rows = database.execute("select id, handed_over from notifications").fetchall()
            assert [one for (one,) in database.execute("select id from lists order by place")] == listed
        found = sorted((name, parse_time(text)) for name, text in rows)
    assert found == handed


def test_a_stream_that_is_run_again_goes_on_and_finishes(spark, inputs, expected, tmp_path):
    arriving, out = tmp_path / "arriving", tmp_path / "found"
    arriving.mkdir()
    lines = (inputs / "flats.jsonl").read_text().splitlines(keepends=True)
    asked = ["--events", arriving, "--subscribers", inputs / "people.yaml", "--out", out, "--available-now"]
    (arriving / "1.jsonl").write_text("".join(lines[:100]))
    first = run(*asked, "--metrics", tmp_path / "metrics.jsonl")
    assert first.exit_code == 0, first.output
    (arriving / "2.jsonl").write_text("".join(lines[100:]))
    second = run(*asked, "--finish", "--json", "--metrics", tmp_path / "metrics.jsonl")
    assert second.exit_code == 0, second.output
    assert notifications(spark, out) == expected
    told = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert sum(one["rows"] for one in told) == 302
    assert sum(one["events"] for one in told) == 300
    assert sum(one["rejected"] for one in told) == 2
    assert sum(one["delivered"] for one in told) == len(expected)
    printed = [json.loads(line) for line in second.stdout.splitlines()]
    assert printed == told[-len(printed) :]
    again = run(*asked, "--finish")
    assert again.exit_code == 0, again.output
    assert notifications(spark, out) == expected


def test_a_folder_of_subscribers_is_looked_at_again_with_every_run(spark, inputs, tmp_path):
    arriving, table, out = tmp_path / "arriving", tmp_path / "people", tmp_path / "found"
    people = load_subscribers(inputs / "people.yaml").subscribers
    save_subscribers(tmp_path / "without schema.yaml", people)  # a table declares none
    append_subscribers(table, people)
    arriving.mkdir()
    lines = (inputs / "flats.jsonl").read_text().splitlines(keepends=True)[:300]
    best = inputs / "advertised.yaml"
    asked = ["--events", arriving, "--subscribers", table, "--out", out, "--advertisements", best, "--available-now"]
    (arriving / "1.jsonl").write_text("".join(lines[:150]))
    first = run(*asked, "--metrics", tmp_path / "metrics.jsonl")
    assert first.exit_code == 0, first.output
    (table / "bad.jsonl").write_text('{"id": "zoe", "subscriptions": [{"filter": "rent <"}]}\n')
    (arriving / "2.jsonl").write_text("".join(lines[150:]))
    second = run(*asked, "--finish", "--metrics", tmp_path / "metrics.jsonl")
    assert second.exit_code == 0, second.output
    assert notifications(spark, out) == delivered_by_hub(inputs, tmp_path / "without schema.yaml", best)
    told = [json.loads(line)["subscribers"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {one["version"] for one in told} == {1}
    assert told[-1]["refused_updates"] == 1
    refused = run(*asked[:-1])
    assert refused.exit_code == 2
    assert "a folder of subscribers that change goes with" in refused.stderr


def test_a_database_takes_the_same(inputs, expected, tmp_path):
    result = run(*given(inputs), "--out", f"sqlite:///{tmp_path}/found.db", "--carry", "city")
    assert result.exit_code == 0, result.output
    connection = sqlite3.connect(tmp_path / "found.db")
    found = connection.execute('SELECT subscriber, id, "rank" FROM notifications ORDER BY 1, 2, 3').fetchall()
    cities = {city for (city,) in connection.execute("SELECT DISTINCT city FROM notifications")}
    connection.close()
    assert found == expected
    assert "Porto" in cities


def test_notifications_can_be_looked_at(inputs, expected):
    result = run(*given(inputs), "--out", "-", "--json")
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((one["subscriber"], one["id"], one["rank"]) for one in found) == expected
    shown = run(*given(inputs), "--out", "-")
    assert "Batch 0" in shown.stdout
    assert f"... and {len(expected) - 20:,} more notifications" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--events missing.jsonl --out found", 1, "missing.jsonl"),
        ("--events flats.jsonl --out found --write xml", 1, "'xml' is unknown; expected parquet or json"),
        ("--events flats.jsonl --out found --format xml", 2, "expected one of jsonl, json, csv, parquet"),
        ("--events flats.jsonl --out found --finish", 2, "--finish goes with"),
        ("--events flats.jsonl --out found --lateness soon", 1, "'soon' is not a duration"),
        ("--events flats.jsonl --out found -a bad.yaml", 1, "'flats': space: unknown attribute 'rentt'; did you mean"),
        ("--events flats.jsonl --out sqlite:///found.db --stream", 2, "needs --checkpoint"),
        ("--events kafka://host:9092/flats --out found --stream", 1, "--packages org.apache.spark"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_nothing_is_written(
    spark, inputs, tmp_path, monkeypatch, arguments, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flats.jsonl").write_text("")
    save_subscribers(
        tmp_path / "bad.yaml", (), advertisements=[Advertisement("flats", "/f", parse_filter("rentt > 0"))]
    )
    result = run(*arguments.split(), "--subscribers", inputs / "people.yaml")
    assert result.exit_code == code
    assert message in result.stderr
    assert code == 2 or result.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"flats.jsonl", "bad.yaml"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("asked", "how", "alone"),
    [
        ("--stream", signal.SIGINT, False),
        ("--available-now", signal.SIGTERM, True),
        ("--available-now", signal.SIGTERM, False),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM to Spark's JVM too"],
)
def test_a_stream_that_is_told_to_end_stops_cleanly_and_says_how_to_go_on(
    spark, inputs, expected, tmp_path, asked, how, alone
):
    arriving, out, metrics = tmp_path / "arriving", tmp_path / "found", tmp_path / "metrics.jsonl"
    arriving.mkdir()
    lines = (inputs / "flats.jsonl").read_text().splitlines(keepends=True)
    for number in range(0, len(lines), 101):
        (arriving / f"{number:03}.jsonl").write_text("".join(lines[number : number + 101]))
    given = ["--events", arriving, "--subscribers", inputs / "people.yaml", "--out", out, asked]
    given += ["--lateness", "400d", "--option", "maxFilesPerTrigger=1"]
    command = [sys.executable, "-m", "rankcast.cli.submit", "run", *given, "--master", "local[1]", "--metrics", metrics]
    program = Program([*map(str, command)], tmp_path / "log")
    assert program.comes_to(lambda: metrics.exists() and metrics.read_text() != ""), program.said()
    program.signalled(how, alone=alone)
    assert program.wait() == 130, program.said()
    said = program.said().splitlines()
    assert said[0] == "stopping after this batch; press Ctrl-C again to stop at once"
    resume = ["rankcast", "run", *map(str, given), "--checkpoint", f"{out}/_checkpoint", "--master", "local[1]"]
    assert said[1] == f"stopped; to go on where it stopped: {shlex.join([*resume, '--metrics', str(metrics)])}"
    assert len(said) == 3, "one line says what was done so far"
    again = run(
        *shlex.split(shlex.join(resume))[2:-2], *(["--available-now"] if asked == "--stream" else []), "--finish"
    )
    assert again.exit_code == 0, again.output
    assert notifications(spark, out) == expected
    assert spark.read.parquet(str(out / "rejected")).count() == 2


@pytest.mark.soak
def test_spark_submit_runs_it(spark, inputs, expected, tmp_path):
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    path = subprocess.run(
        [sys.executable, "-m", "rankcast.cli.submit", "--path"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", path, "run"]
    result = subprocess.run(
        [*command, *map(str, given(inputs)), "--out", str(tmp_path / "found")],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    assert notifications(spark, tmp_path / "found") == expected
    assert f"{len(expected):,} delivered" in result.stdout
