"""`rankcast match`: publish the events of a file and show who gets what."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter

from rankcast.cli.output.notifications import COLUMNS, NotificationLines, Writer, notification_row, notification_writer
from rankcast.cli.output.streams import Problems, one_line, printable
from rankcast.cli.output.terminal import console, is_within, progress, table
from rankcast.cli.replay import (
    Arrivals,
    Replay,
    compile_kernels,
    few_collections,
    in_order,
    shown_choice,
    shown_delay,
    shown_delivery,
)
from rankcast.hub import Notification, Withheld
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import Problem, counted, shown
from rankcast.model.events import Event
from rankcast.model.policies import OnDemand, passes_equals
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import format_time
from rankcast.ranking.preferences import AGAINST_TIES, queues_without_order
from rankcast.serving.results import NOTHING_WITHHELD
from rankcast.storage.durations import format_duration
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import admitted, load_advertisements, load_subscribers
from rankcast.storage.writing import replacing

_CHOICE = "Delivery"
_COLUMNS = {
    "Subscriber": "wrap",
    _CHOICE: "left",
    "Matched": "right",
    "Delivered": "right",
    "Mean rank": "left",
    "Diversity": "right",
    "Delay": "right",
}


@few_collections()
def match_file(
    events: str,
    subscribers: Path,
    advertisements: Path | None,
    *,
    as_json: bool,
    out: Path | None,
    limit: int,
    lateness: timedelta | None,
    now: datetime,
) -> int:
    """Run the command and return its exit code."""
    loaded = load_subscribers(subscribers)
    problems = Problems(loaded.problems)
    advertised = load_advertisements(advertisements, loaded)
    compile_kernels(loaded.subscribers)
    replay = Replay(loaded.subscribers, loaded.schema, lateness, advertisements=advertised.all, tallied=not as_json)
    arrivals = Arrivals(now)
    read = arrivals.stamped(problems.set_aside(read_events(events, loaded.schema)))
    read = problems.set_aside(admitted(read, advertised, events))
    first: list[Notification] = []
    started = perf_counter()
    with _sink(out, to_stdout=as_json) as sink:
        for delivered in _deliver(read, replay, put_in_order=lateness is None, quiet=as_json and sys.stdout.isatty()):
            sink(delivered)
            if len(first) < limit:
                first += delivered[: limit - len(first)]
    seconds = perf_counter() - started
    for problem in arrivals.warning(events):
        problems.add(problem)
    if lateness is not None and replay.late:
        message = (
            f"{counted(replay.late, 'event')} came later than allowed and changed nothing; --lateness allows more than "
            f"{format_duration(lateness)}"
        )
        problems.add(Problem(events, None, message, warning=True))
    for message in _without_events(advertised.all, replay.sources):
        problems.add(Problem(events, None, message, warning=True))
    for name, owner in replay.unseen.items() if replay.events else ():
        message = f"subscriber {shown(owner)}: deliver: no event has {shown(name)}, which a cap or a diversity names"
        problems.add(Problem(str(subscribers), None, message, warning=True))
    for message in _unlimited(replay):
        problems.add(Problem(str(subscribers), None, message, warning=True))
    problems.close()
    if not as_json:
        _show(replay, first, limit, seconds)
        if replay.events and replay.tallies and not replay.delivered:
            _show_way_on(events, subscribers, next(iter(replay.tallies)))
    return 1 if problems.errors else 0


def _deliver(
    events: Iterable[Event], replay: Replay, *, put_in_order: bool, quiet: bool
) -> Iterator[list[Notification]]:
    """Give what is delivered by each event, then by the end of the input."""
    if put_in_order:
        with progress("reading", quiet=quiet) as bar:
            events = in_order(bar.over(events))
    with progress("publishing", quiet=quiet) as bar:
        for event in bar.over(events):
            yield replay.publish(event).delivered
        yield replay.finish()


@contextmanager
def _sink(out: Path | None, *, to_stdout: bool) -> Iterator[Writer]:
    """Give what takes each notification: a file that appears when all is written, standard output, or nothing."""
    if out is None:
        yield notification_writer() if to_stdout else (lambda _: None)
        return
    lines = NotificationLines()
    with replacing(out) as stream:
        yield lambda notifications: stream.write(lines.lines(notifications).encode())


def _show(replay: Replay, first: list[Notification], limit: int, seconds: float) -> None:
    screen = console()
    subscribers = {subscriber.id: subscriber for subscriber in replay.hub.subscribers}
    busiest = sorted(replay.tallies, key=lambda name: (-replay.tallies[name].matched.events, name))
    withheld = replay.hub.withheld
    listed = [subscribers[name] for name in busiest[:limit]]
    rows = [_row(subscriber, replay) for subscriber in listed]
    counts = table("Subscribers", _COLUMNS, rows)
    has_choices = is_within(screen, counts)
    if not has_choices:
        narrow = {heading: place for heading, place in _COLUMNS.items() if heading != _CHOICE}
        counts = table("Subscribers", narrow, [(name, *numbers) for name, _, *numbers in rows])
    screen.print(counts)
    if len(busiest) > limit:
        screen.print(f"... and {len(busiest) - limit:,} more with fewer matches; --limit sets how many are shown")
    screen.print()
    words = [_in_full(subscriber, withheld.get(subscriber.id, NOTHING_WITHHELD)) for subscriber in listed]
    longer = [(row[0], full) for row, full in zip(rows, words, strict=True) if not has_choices or full != row[1]]
    for name, full in longer:
        screen.print(printable(f"{one_line(name)}: {full}"))
    if longer:
        screen.print()
    if first:
        screen.print(table("First notifications", COLUMNS, map(notification_row, first)))
        screen.print()
    subscriptions = sum(len(subscriber.subscriptions) for subscriber in subscribers.values())
    screen.print(
        f"{counted(replay.events, 'event')}, {counted(len(subscribers), 'subscriber')}, "
        f"{counted(subscriptions, 'subscription')}: {counted(replay.matched, 'match', 'matches')}, "
        f"{replay.delivered:,} delivered,{_shown_sum(withheld.values())} in {seconds:.1f} s"
    )


def _without_events(advertisements: Sequence[Advertisement], sources: set[str]) -> Iterator[str]:
    """Say which sources that advertise a k have no events, where there are events that go to everybody."""
    others = sorted(sources - {advertisement.source for advertisement in advertisements})
    for name, source in ((own.id, own.source) for own in advertisements if own.k is not None and others):
        if source not in sources:
            some = ", ".join(map(shown, others[:3])) + (f" and {len(others) - 3:,} more" if len(others) > 3 else "")
            yield f"advertisement {shown(name)}: no event is of its source {shown(source)}; others are of {some}"


def _unlimited(replay: Replay) -> Iterator[str]:
    """Say of whom k limited least because of ties, of those who do not state as much, and of how many more it did."""
    found: list[tuple[int, Subscriber]] = []
    for subscriber in replay.hub.subscribers if replay.tallies else ():
        tally, (policy, *others) = replay.tallies[subscriber.id], subscriber.policies.values()
        if others or not passes_equals(policy) or queues_without_order(subscriber):
            continue
        delivered, matched = tally.delivered.events, tally.matched.events
        if delivered > 3 * policy.k and 10 * delivered >= 9 * matched and 2 * tally.tied > delivered:
            found.append((tally.tied, subscriber))
    for tied, subscriber in sorted(found, key=lambda one: (-one[0], one[1].id))[:1]:
        tally, more = replay.tallies[subscriber.id], counted(len(found) - 1, "more subscriber")
        yield (
            f"subscriber {shown(subscriber.id)}: deliver: {tally.delivered.events:,} of {tally.matched.events:,} "
            f"matches were delivered, {tied:,} of them with a rank that one before had, so k limited little"
            f"{f' (and so for {more})' if len(found) > 1 else ''}; {AGAINST_TIES}"
        )


def _shown_sum(withheld: Iterable[Withheld]) -> str:
    total = sum(withheld, NOTHING_WITHHELD)
    return "" if total == NOTHING_WITHHELD else f" {_shown_withheld(total)},"


def _shown_withheld(withheld: Withheld) -> str:
    """Return what was withheld in words.

    >>> _shown_withheld(Withheld(capped=1_200)), _shown_withheld(Withheld(3, 2))
    ('1,200 capped', '3 capped, 2 muted')
    """
    counts = {"capped": withheld.capped, "muted": withheld.muted}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _in_full(subscriber: Subscriber, withheld: Withheld) -> str:
    """Return in words all that decides what a subscriber is handed, and how much was withheld from it."""
    muted = "" if subscriber.muted_until is None else f", muted until {format_time(subscriber.muted_until)}"
    counts = "" if withheld == NOTHING_WITHHELD else f" ({_shown_withheld(withheld)})"
    return f"{shown_delivery(subscriber)}{muted}{counts}"


def _show_way_on(events: str, subscribers: Path, somebody: str) -> None:
    command = shlex.join(["rankcast", "explain", f"{events}#1", "-s", str(subscribers), "-i", somebody])
    console().print(printable(f"nobody got anything; to see why: {command}"), soft_wrap=True)


def _row(subscriber: Subscriber, replay: Replay) -> tuple[str, ...]:
    tally = replay.tallies[subscriber.id]
    is_read = isinstance(subscriber.notify, OnDemand)  # nobody asks here for what is on its list
    counts = (f"{tally.matched.events:,}", "-" if is_read else f"{tally.delivered.events:,}")
    return (
        subscriber.id,
        shown_choice(subscriber),
        *counts,
        tally.shown_means,
        f"{tally.diversity:.2f}" if tally.delivered.events > 1 else "-",
        "-" if tally.freshness is None else shown_delay(tally.freshness),
    )
