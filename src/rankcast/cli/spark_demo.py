"""`rankcast demo`: a feed of flats for thousands of people through the pipeline on Spark, and what it does for them.

The feed is written to Parquet; Spark matches it once to know what everyone is offered, and runs the pipeline from
Parquet to Parquet, which is what events/s are about. The stories of the named people are then told by a hub, which is
given what matched them in the same order; the demo fails if the flats it tells about fare differently there.

List diversity is the mean distance over all pairs of one subscriber's flats, by equal weights of a few attributes: 1
minus the mean share of pairs that are equal in an attribute. Pairs are counted by value, so it costs one pass.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from rich.console import Console

from rankcast.arrays import Array
from rankcast.cli.demo import flat_text, show_reasons
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.replay import shown_policy
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.plotting import BLUE, ORANGE, mark_numbers, save_picture, tidy
from rankcast.samples.feeds import flats
from rankcast.samples.people import ANA, BRUNO, BRUNO_CITY, NAMED, POLICIES, TELLING, named_people, others
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import match
from rankcast.spark.pipeline import Pipeline
from rankcast.storage.events.files import write_events

PARTITIONS = 8
POLL_SECONDS = 0.5

GREY = "#BBBBBB"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class OutcomeRows:
    """Matches or notifications: the number of the subscriber, that of the event, the rank, the seconds it waited."""

    subscriber: Array
    event: Array
    rank: Array
    waited: Array

    def of(self, subscribers: Array) -> OutcomeRows:
        """Return the rows of some subscribers."""
        own = np.isin(self.subscriber, subscribers)
        return OutcomeRows(self.subscriber[own], self.event[own], self.rank[own], self.waited[own])

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True)
class Quality:
    """How many events somebody was offered or got, their mean rank, and the list diversity."""

    events: int
    rank: float
    diversity: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some subscribers: what matched, what was delivered, and how long that waited."""

    name: str
    subscribers: int
    matched: Quality
    delivered: Quality
    waited: tuple[float, float, float]
    """Hours from publication to delivery: the mean, the median, and what nine of ten notifications do not exceed."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        both = {"matched": self.matched, "delivered": self.delivered}
        return {
            "policy": self.name,
            "subscribers": self.subscribers,
            **{name: quality.events for name, quality in both.items()},
            "mean_rank": {name: quality.rank for name, quality in both.items()},
            "list_diversity": {name: quality.diversity for name, quality in both.items()},
            "waited_hours": dict(zip(("mean", "median", "nine_of_ten"), self.waited, strict=True)),
        }


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
        matches = _number_rows(match(table, audience, schema=flats.schema), waiting)
        _run_action(spark, "matching", lambda: matches.write.parquet(str(folder / "matches")), quiet=quiet)
        waited = (F.col("delivered").cast("double") - F.col("time").cast("double")).alias("waited")
        notifications = _number_rows(Pipeline(audience, schema=flats.schema).transform(table), waited)
        started = perf_counter()
        write = notifications.write
        _run_action(spark, "matching and delivering", lambda: write.parquet(str(folder / "notifications")), quiet=quiet)
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


def _number_rows(rows: DataFrame, waited: Column) -> DataFrame:
    """Return subscriber, number of the event, rank, and how long it waited; flat-1 is event 0."""
    number = (F.substring(F.col("id"), len("flat-") + 1, 20).cast("int") - 1).alias("event")
    return rows.select("subscriber", number, "rank", waited)


def _run_action(spark: SparkSession, words: str, action: Callable[[], Answer], *, quiet: bool) -> Answer:
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
            parts = [f"{stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in stages if stage is not None]
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
    matched, delivered = told.total.matched, told.total.delivered
    page.print(
        f"{len(told.events):,} events and {matched.events:,} matches (mean rank {matched.rank:.3f}) became "
        f"{delivered.events:,} notifications (mean rank {delivered.rank:.3f}) in {told.seconds:.1f} s: "
        f"{len(told.events) / told.seconds:,.0f} events/s, {matched.events / told.seconds:,.0f} matches/s."
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
    (ana, first), (bruno, other) = (
        next((person, np.array([at])) for at, person in enumerate(told.people) if person.id == one.name)
        for one in (ANA, BRUNO)
    )
    events = sorted(  # as they are published everywhere
        (told.events[at] for at in told.matched.of(first).event.tolist()),
        key=lambda event: (event.time, event.source, event.id),
    )
    got = {told.events[at].identity for at in told.delivered.of(first).event.tolist()}
    offered = set(told.matched.of(other).event.tolist())
    missed = [e for at, e in enumerate(told.events) if at not in offered and e.attributes["city"] == BRUNO_CITY]
    show_reasons(page, (ana, events, got), (bruno, missed))


def _show_policies(page: Console, found: Sequence[Figures]) -> None:
    numbers = ("Matched", "Delivered", "Mean rank", "Diversity", "Waits")
    rows = [
        (
            policy.name,
            f"{policy.matched.events:,}",
            f"{policy.delivered.events:,}",
            f"{policy.matched.rank:.3f} -> {policy.delivered.rank:.3f}",
            f"{policy.matched.diversity:.3f} -> {policy.delivered.diversity:.3f}",
            f"{policy.waited[1]:.1f} h" if policy.waited[0] else "-",
        )
        for policy in found
    ]
    columns = {"Policy": "left"} | dict.fromkeys(numbers, "right")
    page.print(table("What each policy did", columns, rows))
    page.print(
        "Half of the notifications wait no longer than the table says: until the period ends, or until better or more "
        "similar flats have left the window. Who is offered little by little waits long for a window of 100 to move on."
    )
    page.print()


def read_rows(folder: Path, subscribers: Sequence[str]) -> OutcomeRows:
    """Return the rows that Spark wrote, with subscribers as their numbers."""
    table = pq.read_table(folder)
    numbers = pc.index_in(table["subscriber"], value_set=pa.array(subscribers, pa.string()))
    return OutcomeRows(
        numbers.to_numpy().astype(np.int64),
        table["event"].to_numpy().astype(np.int64),
        table["rank"].to_numpy(),
        table["waited"].to_numpy(),
    )


def codes_of(events: Sequence[Event], attributes: Sequence[str]) -> list[Array]:
    """Return for each attribute the numbers of the events' values; -1 is a missing one."""
    found = []
    for name in attributes:
        values = [event.attributes.get(name) for event in events]
        numbers = {value: number for number, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
        found.append(np.array([-1 if value is None else numbers[value] for value in values], np.int64))
    return found


def list_diversity(rows: OutcomeRows, codes: Sequence[Array]) -> float:
    """Return the mean over subscribers, of those who have two flats or more, of their list's diversity."""
    if not len(rows):
        return 0.0
    subscribers, own = np.unique(rows.subscriber, return_inverse=True)
    counts = np.bincount(own)
    pairs = counts * (counts - 1) / 2
    alike = np.zeros(len(subscribers))
    for column in codes:
        width = int(column.max(initial=0)) + 1
        values = column[rows.event]
        known = values >= 0
        equal = np.bincount(own[known] * width + values[known], minlength=len(subscribers) * width)
        alike += (equal * (equal - 1) / 2).reshape(len(subscribers), width).sum(axis=1)
    several = pairs > 0
    return float(np.mean(1 - alike[several] / pairs[several] / len(codes))) if several.any() else 0.0


def figures(
    name: str, subscribers: Array, matched: OutcomeRows, delivered: OutcomeRows, codes: Sequence[Array]
) -> Figures:
    """Return the figures of some subscribers."""
    offered, got = matched.of(subscribers), delivered.of(subscribers)
    hours = got.waited / 3600
    median, most = np.quantile(hours, (0.5, 0.9)).tolist() if len(hours) else (0.0, 0.0)
    waited = (_mean(hours), median, most)
    return Figures(name, len(subscribers), _quality_of(offered, codes), _quality_of(got, codes), waited)


def _quality_of(rows: OutcomeRows, codes: Sequence[Array]) -> Quality:
    return Quality(len(rows), _mean(rows.rank), list_diversity(rows, codes))


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


PICTURES = ("delivered", "quality", "waiting")


def picture_files(folder: Path) -> list[Path]:
    """Return the files of all pictures in a folder."""
    return [folder / f"{name}.png" for name in PICTURES]


def save_pictures(found: Sequence[Figures], folder: Path) -> list[Path]:
    """Draw the pictures into a folder and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    drawings = ((_amounts, (8.0, 3.4)), (_quality, (10.0, 3.4)), (_waiting, (8.0, 3.2)))
    paths = picture_files(folder)
    for path, (draw, size) in zip(paths, drawings, strict=True):
        save_picture(partial(draw, found=found), size, path)
    return paths


def _places(panel: Any, found: Sequence[Figures]) -> range:
    """Give each policy a line, the first one on top."""
    panel.set_yticks(range(len(found)), [policy.name for policy in found])
    panel.invert_yaxis()
    _hide_lines(panel)
    return range(len(found))


def _hide_lines(panel: Any) -> None:
    """Leave out what would divide the lines of policies."""
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)


def _add_legend(figure: Any, panel: Any) -> None:
    figure.legend(*panel.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=2)


def _amounts(figure: Any, found: Sequence[Figures]) -> None:
    panel = figure.subplots()
    tidy(panel, "What a subscriber is offered, and gets", "events per subscriber", "")
    places = _places(panel, found)
    matched = [policy.matched.events / max(policy.subscribers, 1) for policy in found]
    delivered = [policy.delivered.events / max(policy.subscribers, 1) for policy in found]
    panel.barh(places, matched, height=0.72, color=GREY, label="matched")
    panel.barh(places, delivered, height=0.4, color=BLUE, label="delivered")
    for place, offered, got in zip(places, matched, delivered, strict=True):
        share = f"{got / offered:.1%}" if offered else "-"
        panel.annotate(f"{got:,.0f} = {share}", (offered, place), (5, 0), textcoords="offset points", va="center")
    panel.set_xlim(0, max([*matched, 1]) * 1.3)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    _add_legend(figure, panel)


def _quality(figure: Any, found: Sequence[Figures]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    tidy(left, "How good it is", "mean rank", "")
    tidy(right, "How varied it is", "list diversity", "")
    places = _places(left, found)
    _hide_lines(right)
    pairs = (
        (left, [(policy.matched.rank, policy.delivered.rank) for policy in found]),
        (right, [(policy.matched.diversity, policy.delivered.diversity) for policy in found]),
    )
    for panel, values in pairs:
        before, after = zip(*values, strict=True)
        panel.hlines(places, before, after, color=GREY, linewidth=3, zorder=1)
        panel.scatter(before, places, s=55, color=ORANGE, marker="o", label="of what matched", zorder=2)
        panel.scatter(after, places, s=65, color=BLUE, marker="D", label="of what was delivered", zorder=3)
        panel.margins(x=0.12)
    _add_legend(figure, left)


def _waiting(figure: Any, found: Sequence[Figures]) -> None:
    panel = figure.subplots()
    tidy(panel, "How long it takes until a notification is due", "hours from publication to delivery", "")
    places = _places(panel, found)
    means, _, most = zip(*(policy.waited for policy in found), strict=True)
    panel.hlines(places, 0, most, color=GREY, linewidth=7, label="nine of ten within", zorder=1)
    panel.scatter(means, places, s=60, color=BLUE, marker="D", label="mean", zorder=2)
    for place, mean, end in zip(places, means, most, strict=True):
        words = f"{mean:.1f} h" if mean else "at once"
        panel.annotate(words, (max(mean, end), place), (9, 0), textcoords="offset points", va="center")
    panel.set_xscale("symlog", linthresh=1, linscale=0.5)  # days for some, at once for most
    longest = max([*means, *most, 10.0])
    panel.set_xlim(-0.15, longest * 3)
    mark_numbers(panel.xaxis, [0, *(mark for mark in (1, 10, 100, 1000) if mark <= longest)])
    _add_legend(figure, panel)
