"""Events as they come in practice: out of order, some too late, some more than once; and what is due of them.

`Arrivals` are subscribers and events in the order in which they come. Of the events that are not too late, the first of
each identity counts, in the order of (time, source, id, arrival); `check_arrivals` compares what an engine delivers
with what the oracle delivers of these. Which events come too late depends on how often an engine looks at its
watermark, so an engine says it (`Arrived`), and what it reports as late is compared with that.

Repetitions are no further apart than the lateness: for that long every engine recognises them, whatever they say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from hypothesis import strategies as st
from msgspec import structs

from rankcast.hub import Hub, Notification
from rankcast.hub.results import Late
from rankcast.model.events import Event, Identity
from rankcast.model.policies import AT_ONCE
from rankcast.model.subscriptions import Subscriber, SubscriberId
from rankcast.testing.conformance import Case, Oracle, cases, delivery_of
from rankcast.testing.definitions import ExpectedDelivery

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Subscribers, all notified at once, and events with times in the order in which they come."""

    subscribers: tuple[Subscriber, ...]
    events: tuple[Event, ...]
    lateness: timedelta


@dataclass(frozen=True, slots=True)
class Arrived:
    """What an engine makes of arrivals: deliveries, which positions come too late for it, and what it reports of these.

    `reported` is None for an engine that reports only some of them.
    """

    deliveries: Sequence[ExpectedDelivery]
    late: Collection[int] = ()
    reported: Sequence[tuple[Identity, datetime]] | None = None


class ArrivalEngine(Protocol):
    """What the suite needs of an engine."""

    def arrived(self, arrivals: Arrivals) -> Arrived:
        """Take events as they come, to the end of the input."""


def check_arrivals(engine: ArrivalEngine, arrivals: Arrivals) -> None:
    """Raise AssertionError, with both differences, unless an engine delivers what is due of the events that count."""
    found = engine.arrived(arrivals)
    due = Oracle().deliveries(Case(arrivals.subscribers, counting(arrivals, found.late)))
    missing = [one for one in due if one not in found.deliveries]
    surplus = [one for one in found.deliveries if one not in due]
    if missing or surplus or len(found.deliveries) != len(due):
        raise AssertionError(
            f"{type(engine).__name__} differs from the oracle: missing {missing}, not expected {surplus}, "
            f"{len(found.deliveries)} delivered, {len(due)} expected"
        )
    late = Counter((event.identity, _time(event)) for event in map(arrivals.events.__getitem__, found.late))
    known = {event.identity for at, event in enumerate(arrivals.events) if at not in found.late}
    needed = Counter({event: count for event, count in late.items() if event[0] not in known})
    reported = Counter(found.reported if found.reported is not None else needed)
    if not needed <= reported <= late:  # a late event that repeats one is ignored for as long as that is known
        expected = f"at least {sorted(needed)}, at most {sorted(late)}"
        raise AssertionError(f"{type(engine).__name__} reports as late {sorted(reported)}, expected {expected}")


def counting(arrivals: Arrivals, late: Collection[int] = ()) -> tuple[Event, ...]:
    """Return the events that count, in the order in which engines take them."""
    in_time = [event for at, event in enumerate(arrivals.events) if at not in late]
    first: dict[Identity, Event] = {}
    for event in sorted(in_time, key=lambda event: (_time(event), event.identity)):
        first.setdefault(event.identity, event)
    return tuple(first.values())


def late_by(arrivals: Arrivals, looks: Iterable[int]) -> frozenset[int]:
    """Return which events come too late for an engine that moves its watermark before these positions."""
    looked, late = set(looks), set[int]()
    newest: datetime | None = None
    watermark: datetime | None = None
    for at, event in enumerate(arrivals.events):
        time = _time(event)
        if at in looked and newest is not None:
            watermark = newest - arrivals.lateness
        if watermark is not None and time < watermark:
            late.add(at)
        newest = time if newest is None else max(newest, time)
    return frozenset(late)


class HubOfArrivals:
    """The embedded hub, which moves its watermark before every event."""

    def arrived(self, arrivals: Arrivals) -> Arrived:
        """Publish the events as they come."""
        late: list[Late] = []
        hub = Hub(arrivals.subscribers, lateness=arrivals.lateness, on_late=late.append)
        notes: list[Notification] = []
        for event in arrivals.events:
            notes += hub.publish(event, now=event.time)
        notes += hub.finish()
        deliveries = [delivery_of(note) for note in notes]
        reported = [(one.event.identity, _time(one.event)) for one in late]
        return Arrived(deliveries, late_by(arrivals, range(len(arrivals.events))), reported)


@st.composite
def arrivals(draw: st.DrawFn, several: int = 1) -> Arrivals:
    """Random cases whose events come out of order, some too late, some again, with the same content or with another.

    With `several`, so many cases become one: everybody gets everything, and ids tell where they come from.
    """
    drawn = [draw(cases(everything=True)) for _ in range(several)]
    people = [
        structs.replace(one, id=SubscriberId(f"{at}/{one.id}"), notify=AT_ONCE)
        for at, case in enumerate(drawn)
        for one in case.subscribers
    ]
    events = [replace(one, id=f"{at}/{one.id}") for at, case in enumerate(drawn) for one in case.events]
    lateness = draw(st.sampled_from((_SECOND, 5 * _SECOND, timedelta(days=40))))
    published = events.copy()
    for event in events:
        kind = draw(st.sampled_from(("once", "once", "copy", "later", "other")))
        after = timedelta(0) if kind == "copy" else draw(st.sampled_from((_SECOND / 2, lateness)))
        if kind != "once":
            data = draw(st.sampled_from(events)).data if kind == "other" else event.data
            published.append(replace(event, time=_time(event) + after, data=data))
    delays = [draw(st.sampled_from((timedelta(0), lateness / 2, lateness, 3 * lateness))) for _ in published]
    order = sorted(range(len(published)), key=lambda at: (_time(published[at]) + delays[at], at))
    return Arrivals(tuple(people), tuple(published[at] for at in order), lateness)


def _time(event: Event) -> datetime:
    assert event.time is not None, f"event {event.id}: arrivals have times"
    return event.time
