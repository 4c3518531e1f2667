"""The demo on Spark as a page for people: who got what and why, what each policy did, and where the pictures are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rankcast.cli.demo.audience import NAMED
from rankcast.cli.demo.figures import Figures, Rows
from rankcast.cli.demo.on_spark import Told
from rankcast.cli.demo.people import ANA, BRUNO, BRUNO_CITY
from rankcast.cli.demo.small import SHOWN
from rankcast.cli.replay import shown_policy
from rankcast.cli.terminal import shown_attributes, table
from rankcast.hub import Hub, Outcome
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event


class DifferentResultsError(RankcastError):
    """Spark and the hub do not agree on what somebody gets."""


def show(page: Console, told: Told, pictures: Sequence[Path]) -> None:
    """Print all of it."""
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
        last = _flat(told.events[int(got.event.max())]) if len(got) else "-"
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


def _in_order(told: Told, rows: Rows) -> list[Event]:
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
    page.print(heading, style="bold")
    page.print(f"  {_flat(event)}", no_wrap=True, overflow="ellipsis")
    *reasons, verdict = str(outcome).splitlines()
    for line in reasons:
        page.print(f"  {line}", no_wrap=True, overflow="ellipsis")
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


def _flat(event: Event) -> str:
    return shown_attributes({name: event.attributes[name] for name in SHOWN if name in event.attributes})
