"""`rankcast demo`: a generated feed of flats, people who look for one, and what they get and why.

The demo on Spark is in `spark_demo`, which is imported only when all that it needs is there; the small one is here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rankcast.cli.output.notifications import Writer, notification_writer
from rankcast.cli.output.streams import write_json
from rankcast.cli.output.terminal import console, progress, shown_attributes, table
from rankcast.cli.replay import Replay, ReplayedEvent, compile_kernels, shown_policy
from rankcast.hub import Hub, Notification, Outcome
from rankcast.language.printer import format_expression
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber
from rankcast.ranking.preferences import preference_ranks
from rankcast.samples.feeds import flats
from rankcast.samples.people import ANA, BRUNO, BRUNO_CITY, PEOPLE

EVENTS, SMALL_EVENTS = 100_000, 3_000
INSTEAD = "`rankcast demo --small` does without it"
STRANGERS = 300
"""Generated subscribers beside the named ones."""

SHOWN = ("city", "district", "rent", "rooms", "size_m2", "floor", "pets")
LUCKY, UNLUCKY = ANA.name, BRUNO.name
"""Whose story is told in full: one who got something and was spared something, and one who just missed something."""


class DemoSetupError(RankcastError):
    """Something that the demo on Spark needs is not installed."""


class DifferentResultsError(RankcastError):
    """A hub does not agree with what a demo says that somebody got."""


@dataclass(slots=True)
class Story:
    """What happened to the named people, in order: what LUCKY was offered, what all got, and what UNLUCKY missed."""

    offered: list[Event] = field(default_factory=list)
    delivered: dict[str, list[Notification]] = field(default_factory=lambda: defaultdict(list))
    missed: list[Event] = field(default_factory=list)


def run_spark_demo(events: int, subscribers: int, seed: int, out: Path, *, overwrite: bool, as_json: bool) -> None:
    """Run the demo on Spark and save its pictures."""
    for package, extra in (("pyspark", "spark"), ("matplotlib", "plot")):
        if find_spec(package) is None:
            raise DemoSetupError(f"{package} is not installed: pip install 'rankcast[{extra}]'; {INSTEAD}")
    # Only now: these import what may not be there.
    from rankcast.cli.output.files import check_outputs  # noqa: PLC0415
    from rankcast.cli.run import session_of_command  # noqa: PLC0415
    from rankcast.cli.spark_demo import picture_files, run_on_spark, save_pictures, show  # noqa: PLC0415
    from rankcast.spark.session import MINIMUM_JAVA, java_home  # noqa: PLC0415

    if java_home() is None:
        raise DemoSetupError(f"no Java {MINIMUM_JAVA} or newer found: install a JRE or set JAVA_HOME; {INSTEAD}")
    check_outputs([("--out", path) for path in picture_files(out)], overwrite=overwrite)
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
    matching = {match.subscriber for match in published.matches}
    if LUCKY in matching:
        story.offered.append(event)
    if event.attributes["city"] == BRUNO_CITY and UNLUCKY not in matching:
        story.missed.append(event)
    for notification in published.delivered:
        if notification.subscriber in {person.name for person in PEOPLE}:
            story.delivered[notification.subscriber].append(notification)
            if write is not None:
                write([notification])


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
    ana, bruno = (next(person for person in people if person.id == name) for name in (LUCKY, UNLUCKY))
    got = {note.event.identity for note in story.delivered[LUCKY]}
    show_reasons(page, (ana, story.offered, got), (bruno, story.missed))
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


def show_reasons(
    page: Console,
    lucky: tuple[Subscriber, Sequence[Event], Collection[Identity]],
    unlucky: tuple[Subscriber, Sequence[Event]],
) -> None:
    """Tell why somebody got the last flat and did not get another, of those offered, and why another was not offered
    one; a hub that is given the same events says so, and has to agree."""
    ana, offered, got = lucky
    for heading, is_wanted in ((f"Why {ana.id} got", True), (f"Why {ana.id} did not get", False)):
        last = next((at for at in reversed(range(len(offered))) if (offered[at].identity in got) is is_wanted), None)
        if last is not None:
            outcome = _outcome(ana, offered[:last], offered[last])
            if outcome.delivered is not is_wanted:
                raise DifferentResultsError(f"{offered[last].id}: the engines differ on whether {ana.id} gets it")
            _show_outcome(page, f"{heading} {offered[last].id}", offered[last], outcome)
    bruno, missed = unlucky
    if missed:
        nearest = min(missed, key=lambda event: (abs(int(event.attributes["rent"]) - 500), event.id))  # type: ignore[arg-type]  # whole numbers
        _show_outcome(page, f"Why {bruno.id} did not get {nearest.id}", nearest, _outcome(bruno, [], nearest))


def _outcome(subscriber: Subscriber, before: Sequence[Event], event: Event) -> Outcome:
    """Return what a hub says of an event, after those that the person was offered before it."""
    hub = Hub([subscriber], schema=None)
    for earlier in before:
        hub.publish(earlier, earlier.time)
    return hub.explain(event, subscriber.id, event.time)


def _show_outcome(page: Console, heading: str, event: Event, outcome: Outcome) -> None:
    page.print(heading, style="bold")
    *reasons, verdict = str(outcome).splitlines()
    for line in (flat_text(event), *reasons):
        print_line(page, line)
    page.print(Padding(Text(verdict), (0, 0, 0, 2)))
    page.print()


def print_line(page: Console, text: str) -> None:
    """Print a text on a line of its own, indented, and cut off where the page ends."""
    page.print(f"  {text}", no_wrap=True, overflow="ellipsis")


def flat_text(event: Event) -> str:
    """Return what matters of a flat."""
    return shown_attributes({name: event.attributes[name] for name in SHOWN if name in event.attributes})
