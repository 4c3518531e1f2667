"""`rankcast demo`: a feed of flats for thousands of people through the pipeline on Spark, and what it does for them.

The feed is written to Parquet; Spark matches it once to know what everyone is offered, and runs the pipeline from
Parquet to Parquet, which is what events/s are about. The stories of the named people are then told by a hub, which is
given what matched them in the same order; the demo fails if the flats it tells about fare differently there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rankcast.cli.demo.command import flat_text, print_flat, print_line
from rankcast.cli.demo.figures import Figures, OutcomeRows, codes_of, figures, read_rows
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.replay import shown_policy
from rankcast.hub import Hub, Outcome
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.samples.feeds import flats
from rankcast.samples.people import ANA, BRUNO, BRUNO_CITY, NAMED, POLICIES, TELLING, named_people, others
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import match
from rankcast.spark.pipeline import Pipeline
from rankcast.storage.events.files import write_events

PARTITIONS = 8
POLL_SECONDS = 0.5

Answer = TypeVar("Answer")


class DifferentResultsError(RankcastError):
    """Spark and the hub do not agree on what somebody gets."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the demo found out."""

    events: Sequence[Event]
    people: Sequence[Subscriber]
    subscribers: Sequence[Subscriber]
    matched: OutcomeRows
    delivered: OutcomeRows
    policies: Sequence[Figures]
    total: Figures
    seconds: float
    """How long the pipeline took, from Parquet to Parquet."""


def run_on_spark(spark: SparkSession, events: int, subscribers: int, seed: int, *, quiet: bool = False) -> Told:
    """Make the feed, run it through Spark and measure what came out."""
    with progress("making adverts", total=events, quiet=quiet) as bar:
        feed = list(bar.over(flats.events(events, seed)))
    with progress("making subscribers", quiet=quiet):
        people = named_people()
        everyone = [*people, *others(subscribers, seed)]
    with tempfile.TemporaryDirectory(prefix="rankcast-demo-") as name:
        folder = Path(name)
        write_events(folder / "events.parquet", feed)
        table = spark.read.parquet(str(folder / "events.parquet")).repartition(PARTITIONS)
        audience = CompiledSubscribers.of(everyone)
        waiting = F.lit(0.0).alias("waited")
        matches = _numbered(match(table, audience, schema=flats.schema), waiting)
        _shown(spark, "matching", lambda: matches.write.parquet(str(folder / "matches")), quiet=quiet)
        waited = (F.col("delivered").cast("double") - F.col("time").cast("double")).alias("waited")
        notifications = _numbered(Pipeline(audience, schema=flats.schema).transform(table), waited)
        started = perf_counter()
        write = notifications.write
        _shown(spark, "matching and delivering", lambda: write.parquet(str(folder / "notifications")), quiet=quiet)
        seconds = perf_counter() - started
        ids = [subscriber.id for subscriber in everyone]
        matched, delivered = read_rows(folder / "matches", ids), read_rows(folder / "notifications", ids)
    codes = codes_of(feed, TELLING)
    first, every = len(people), len(POLICIES)
    found = [
        figures(name, np.arange(first + at, len(everyone), every), matched, delivered, codes)
        for at, name in enumerate(POLICIES)
    ]
    total = figures("all of them", np.arange(len(everyone)), matched, delivered, codes)
    return Told(feed, people, everyone, matched, delivered, found, total, seconds)


def _numbered(rows: DataFrame, waited: Column) -> DataFrame:
    """Return subscriber, number of the event, rank, and how long it waited; flat-1 is event 0."""
    number = (F.substring(F.col("id"), len("flat-") + 1, 20).cast("int") - 1).alias("event")
    return rows.select("subscriber", number, "rank", waited)


def _shown(spark: SparkSession, words: str, action: Callable[[], Answer], *, quiet: bool) -> Answer:
    """Run an action of Spark and show meanwhile how many of its tasks are done."""
    if quiet or not sys.stderr.isatty():
        return action()
    tracker = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(1) as pool, console(sys.stderr).status(words) as status:
        running = pool.submit(action)
        while True:
            try:
                return running.result(POLL_SECONDS)
            except TimeoutError:
                if running.done():
                    raise
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            parts = [f"{one.numCompletedTasks} of {one.numTasks} tasks" for one in stages if one is not None]
            status.update(f"{words}: {', '.join(parts)}" if parts else words)


def show(page: Console, told: Told, pictures: Sequence[Path]) -> None:
    """Print all of it as a page for people: who got what and why, what each policy did, where the pictures are."""
    page.rule("rankcast on Spark: only the best k events for each subscriber", style="none")
    page.print(
        f"\n{len(told.events):,} adverts for flats and {len(told.subscribers):,} subscribers; "
        f"here are {len(NAMED)} of them.\n"
    )
    _show_people(page, told)
    _show_reasons(page, told)
    _show_policies(page, told.policies)
    total = told.total
    page.print(
        f"{len(told.events):,} events and {total.matched:,} matches (mean rank {total.matched_rank:.3f}) became "
        f"{total.delivered:,} notifications (mean rank {total.delivered_rank:.3f}) in {told.seconds:.1f} s: "
        f"{len(told.events) / told.seconds:,.0f} events/s, {total.matched / told.seconds:,.0f} matches/s."
    )
    page.print(f"Pictures: {', '.join(map(str, pictures))}", soft_wrap=True)


def _show_people(page: Console, told: Told) -> None:
    columns = {"Who": "left", "Gets": "left", "Matched": "right", "Delivered": "right", "Mean rank": "left"}
    rows = []
    for number, person in enumerate(NAMED):
        offered, got = told.matched.of(np.array([number])), told.delivered.of(np.array([number]))
        ranks = f"{offered.rank.mean():.3f} -> {got.rank.mean():.3f}" if len(got) else "-"
        last = flat_text(told.events[int(got.event.max())]) if len(got) else "-"
        rows.append((person.name, shown_policy(person.deliver), f"{len(offered):,}", f"{len(got):,}", ranks, last))
        page.print(f"{person.name:<6} {person.story}")
    page.print()
    page.print(table("What they got", {**columns, "Last flat": "rest"}, rows))
    page.print()


def _show_reasons(page: Console, told: Told) -> None:
    """Tell why ANA got a flat and did not get another that she wanted, and why BRUNO was not offered one."""
    ana, bruno = ANA.name, BRUNO.name
    number = next(at for at, person in enumerate(told.people) if person.id == ana)
    wanted = _in_order(told, told.matched.of(np.array([number])))
    got = {told.events[at].identity for at in told.delivered.of(np.array([number])).event.tolist()}
    for heading, is_wanted in ((f"Why {ana} got", True), (f"Why {ana} did not get", False)):
        last = next((at for at in reversed(range(len(wanted))) if (wanted[at].identity in got) is is_wanted), None)
        if last is not None:
            outcome = _outcome(told, number, wanted[:last], wanted[last])
            if outcome.delivered is not is_wanted:
                raise DifferentResultsError(f"{wanted[last].id}: Spark and the hub differ on whether {ana} gets it")
            _show_outcome(page, f"{heading} {wanted[last].id}", wanted[last], outcome)
    other = next(at for at, person in enumerate(told.people) if person.id == bruno)
    offered = set(told.matched.of(np.array([other])).event.tolist())
    missed = [e for at, e in enumerate(told.events) if at not in offered and e.attributes["city"] == BRUNO_CITY]
    if missed:
        nearest = min(missed, key=lambda event: (abs(int(event.attributes["rent"]) - 500), event.id))  # type: ignore[arg-type]  # whole numbers
        _show_outcome(page, f"Why {bruno} did not get {nearest.id}", nearest, _outcome(told, other, [], nearest))


def _in_order(told: Told, rows: OutcomeRows) -> list[Event]:
    """Return the events of rows in the order in which they are published everywhere."""
    found = [told.events[at] for at in rows.event.tolist()]
    return sorted(found, key=lambda event: (event.time, event.source, event.id))


def _outcome(told: Told, person: int, before: Sequence[Event], event: Event) -> Outcome:
    """Return what a hub says of an event, after those that the person was offered before it."""
    subscriber = told.people[person]
    hub = Hub([subscriber], schema=None)
    for earlier in before:
        hub.publish(earlier, earlier.time)
    return hub.explain(event, subscriber.id, event.time)


def _show_outcome(page: Console, heading: str, event: Event, outcome: Outcome) -> None:
    print_flat(page, heading, event)
    *reasons, verdict = str(outcome).splitlines()
    for line in reasons:
        print_line(page, line)
    page.print(Padding(Text(verdict), (0, 0, 0, 2)))
    page.print()


def _show_policies(page: Console, found: Sequence[Figures]) -> None:
    columns = dict.fromkeys(("Policy",), "left") | dict.fromkeys(
        ("Matched", "Delivered", "Mean rank", "Diversity", "Waits"), "right"
    )
    rows = [
        (
            one.name,
            f"{one.matched:,}",
            f"{one.delivered:,}",
            f"{one.matched_rank:.3f} -> {one.delivered_rank:.3f}",
            f"{one.matched_diversity:.3f} -> {one.delivered_diversity:.3f}",
            f"{one.waited[1]:.1f} h" if one.waited[0] else "-",
        )
        for one in found
    ]
    page.print(table("What each policy did", columns, rows))
    page.print(
        "Half of the notifications wait no longer than the table says: until the period ends, or until better or more "
        "similar flats have left the window. Who is offered little by little waits long for a window of 100 to move on."
    )
    page.print()
