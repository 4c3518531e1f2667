"""`rankcast demo`: a generated feed of flats, people who look for one, and what they get and why.

The demo on Spark is in `spark_demo`, which is imported only when all that it needs is there; the small one is here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.text import Text

from rankcast.cli.output.notifications import Writer, notification_writer
from rankcast.cli.output.streams import write_json
from rankcast.cli.output.terminal import console, progress, shown_attributes, table
from rankcast.cli.replay import Replay, ReplayedEvent, compile_kernels, shown_policy
from rankcast.hub import Match, Notification
from rankcast.language.printer import format_expression
from rankcast.matching.explain import Explanation, explain
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.ranking.preferences import preference_ranks
from rankcast.samples.feeds import flats
from rankcast.samples.people import ANA, ANA_POLICY, BRUNO, BRUNO_CITY, PEOPLE

EVENTS, SMALL_EVENTS = 100_000, 3_000
INSTEAD = "`rankcast demo --small` does without it"
STRANGERS = 300
"""Generated subscribers beside the named ones."""

SHOWN = ("city", "district", "rent", "rooms", "size_m2", "floor", "pets")
LUCKY, UNLUCKY = ANA.name, BRUNO.name
"""Whose story is told in full: one who got something and was spared something, and one who just missed something."""


class DemoSetupError(RankcastError):
    """Something that the demo on Spark needs is not installed."""


@dataclass(slots=True)
class Story:
    """What happened to the named people, in order."""

    matches: dict[str, list[Match]] = field(default_factory=lambda: defaultdict(list))
    delivered: dict[str, list[Notification]] = field(default_factory=lambda: defaultdict(list))
    missed: Explanation | None = None


def run_spark_demo(events: int, subscribers: int, seed: int, out: Path, *, as_json: bool) -> None:
    """Run the demo on Spark and save its pictures."""
    for package, extra in (("pyspark", "spark"), ("matplotlib", "plot")):
        if find_spec(package) is None:
            raise DemoSetupError(f"{package} is not installed: pip install 'rankcast[{extra}]'; {INSTEAD}")
    # Only now: these import what may not be there.
    from rankcast.cli.run import session_of_command  # noqa: PLC0415
    from rankcast.cli.spark_demo import run_on_spark, save_pictures, show  # noqa: PLC0415
    from rankcast.spark.session import MINIMUM_JAVA, java_home  # noqa: PLC0415

    if java_home() is None:
        raise DemoSetupError(f"no Java {MINIMUM_JAVA} or newer found: install a JRE or set JAVA_HOME; {INSTEAD}")
    with session_of_command("local[2]") as spark:
        told = run_on_spark(spark, events, subscribers, seed, quiet=as_json)
    pictures = save_pictures(told.policies, out)
    if as_json:
        write_json(
            {
                "events": len(told.events),
                "seconds": told.seconds,
                "total": told.total.to_json(),
                "policies": [policy.to_json() for policy in told.policies],
                "pictures": [str(path) for path in pictures],
            }
        )
    else:
        show(console(), told, pictures)


def run_small_demo(events: int, seed: int, *, as_json: bool) -> None:
    """Run the demo that needs neither Spark nor Java."""
    people = [person.subscriber(flats.schema) for person in PEOPLE]
    everybody = [*people, *flats.subscribers(STRANGERS, seed)]
    compile_kernels(everybody)
    replay = Replay(everybody, flats.schema)
    story, write = Story(), notification_writer() if as_json else None
    started = perf_counter()
    with progress("publishing adverts", total=events, quiet=as_json) as bar:
        for event in bar.over(flats.events(events, seed)):
            _remember(story, replay, event, replay.publish(event), write)
    seconds = perf_counter() - started
    if not as_json:
        _tell(console(), people, replay, story, seconds)


def _remember(story: Story, replay: Replay, event: Event, published: ReplayedEvent, write: Writer | None) -> None:
    names = {person.name for person in PEOPLE}
    for match in published.matches:
        if match.subscriber in names:
            story.matches[match.subscriber].append(match)
    for notification in published.delivered:
        if notification.subscriber in names:
            story.delivered[notification.subscriber].append(notification)
            if write is not None:
                write([notification])
    if event.attributes["city"] == BRUNO_CITY and not any(m.subscriber == UNLUCKY for m in published.matches):
        story.missed = _nearer(story.missed, event, _person(replay, UNLUCKY))


def _person(replay: Replay, name: str) -> Subscriber:
    return next(subscriber for subscriber in replay.hub.subscribers if subscriber.id == name)


def _nearer(known: Explanation | None, event: Event, subscriber: Subscriber) -> Explanation:
    """Return the miss with the fewest changes needed, of a number if possible, at the lowest rent."""
    misses = [explain(event, subscription) for subscription in subscriber.subscriptions]
    best = min(misses, key=_distance)
    return best if known is None or _distance(best) <= _distance(known) else known


def _distance(miss: Explanation) -> tuple[object, ...]:
    not_numbers = sum(not isinstance(change.seen, int | float) for change in miss.changes)
    return len(miss.changes), not_numbers, miss.event.attributes["rent"]


def _tell(page: Console, people: list[Subscriber], replay: Replay, story: Story, seconds: float) -> None:
    page.rule("rankcast: only the best k events for each subscriber", style="none")
    page.print(
        f"\n{replay.events:,} adverts for flats go through one hub. {len(replay.tallies)} people subscribed to them; "
        f"here are {len(people)}.\n"
    )
    for person, subscriber in zip(PEOPLE, people, strict=True):
        story_line = Text.assemble(
            (f"{person.name:<6}", "bold"), f"{person.story}; gets {shown_policy(person.deliver)}"
        )
        page.print(story_line)
        ranks = preference_ranks(subscriber)
        for subscription in subscriber.subscriptions:
            text = format_expression(subscription.filter.expression)
            print_line(page, f"{ranks[subscription.id]:.2f}  {subscription.id:<7}{text}")
    page.print()
    _tell_counts(page, people, replay, story)
    _tell_why(page, replay, story)
    _tell_why_not(page, story)
    _tell_miss(page, story)
    page.print(
        f"{replay.events:,} events and {replay.matched:,} matches became {replay.delivered:,} notifications "
        f"in {seconds:.1f} s ({replay.events / seconds:,.0f} events/s)."
    )


def _tell_counts(page: Console, people: list[Subscriber], replay: Replay, story: Story) -> None:
    columns = {"Who": "left", "Matched": "right", "Delivered": "right", "Mean rank": "left", "Last flat": "rest"}
    rows = []
    for person in people:
        tally = replay.tallies[person.id]
        got = story.delivered[person.id]
        last = flat_text(got[-1].event) if got else "-"
        rows.append((person.id, f"{tally.matched.events:,}", f"{tally.delivered.events:,}", tally.shown_means, last))
    page.print(table("What they got", columns, rows))
    page.print()


def _tell_why(page: Console, replay: Replay, story: Story) -> None:
    """Show the last flat that was delivered to LUCKY, with the verdict of each subscription."""
    if not story.delivered[LUCKY]:
        return
    note = story.delivered[LUCKY][-1]
    print_flat(page, f"Why {LUCKY} got {note.event.id}, with rank {note.rank:g}", note.event)
    for subscription in _person(replay, LUCKY).subscriptions:
        _show(page, explain(note.event, subscription))
    page.print()


def _tell_why_not(page: Console, story: Story) -> None:
    """Show the last match that LUCKY did not get, and the better ones that kept it away."""
    got = {note.event.identity for note in story.delivered[LUCKY]}
    window, k = ANA_POLICY.window, ANA_POLICY.k
    for at in reversed(range(len(story.matches[LUCKY]))):
        match = story.matches[LUCKY][at]
        recent = [other for other in story.matches[LUCKY][max(0, at - window + 1) : at] if _valid(other, match)]
        better = sorted((other for other in recent if other.rank > match.rank), key=lambda other: -other.rank)
        if match.event.identity not in got and len(better) >= k:
            print_flat(page, f"Why {LUCKY} did not get {match.event.id}, with rank {match.rank:g}", match.event)
            page.print(f"  It matched {', '.join(match.matched)}, but at least {k} of the last {window} are better:")
            for other in better[-k:]:
                print_line(page, f"  {other.rank:g}  {other.event.id}: {flat_text(other.event)}")
            page.print()
            return


def _valid(other: Match, match: Match) -> bool:
    return match.event.time is not None and other.event.is_valid_at(match.event.time)


def _tell_miss(page: Console, story: Story) -> None:
    """Show the nearest miss of UNLUCKY."""
    if story.missed is None:
        return
    print_flat(page, f"Why {UNLUCKY} did not get {story.missed.event.id}", story.missed.event)
    _show(page, story.missed)
    page.print()


def _show(page: Console, explanation: Explanation) -> None:
    for line in f"[{explanation.subscription.id}] {explanation}".splitlines():
        print_line(page, line, "green" if explanation.matched else "none")


def print_flat(page: Console, heading: str, event: Event) -> None:
    """Print a heading, and below it a flat."""
    page.print(heading, style="bold")
    print_line(page, flat_text(event))


def print_line(page: Console, text: str, style: str = "none") -> None:
    """Print a text on a line of its own, indented, and cut off where the page ends."""
    page.print(f"  {text}", style=style, no_wrap=True, overflow="ellipsis")


def flat_text(event: Event) -> str:
    """Return what matters of a flat."""
    return shown_attributes({name: event.attributes[name] for name in SHOWN if name in event.attributes})
