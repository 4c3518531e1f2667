"""`rankcast explain`: why a subscriber gets an event or does not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from rankcast.cli.output.notifications import payload
from rankcast.cli.output.streams import Problems, one_line, printable, write_json
from rankcast.cli.output.terminal import console, shown_attributes
from rankcast.cli.replay import Arrivals, Replay, in_order
from rankcast.delivery.rules.forecast import Forecast
from rankcast.hub import Match, Outcome, Verdict
from rankcast.language.printer import format_expression, format_value_set
from rankcast.matching.explain import TRUTH_WORDS, Explanation, reason
from rankcast.model.advertisements import Advertisements
from rankcast.model.cloudevents import event_from_json, event_to_json, parse_json
from rankcast.model.errors import InvalidEventError, InvalidValueError, UnknownIdError, shown
from rankcast.model.events import Event
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import format_time
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import admitted, load_advertisements, load_subscribers

_OPEN = (Verdict.WAITING, Verdict.IN_DIGEST, Verdict.OUTRANKED, Verdict.TIED)


def explain_event(
    event: str,
    subscribers: Path,
    subscriber_id: str,
    subscription_id: str | None,
    advertisements: Path | None,
    *,
    as_json: bool,
    now: datetime,
) -> int:
    """Run the command and return its exit code."""
    loaded = load_subscribers(subscribers)
    problems = Problems(loaded.problems)
    subscriber = chosen_subscriber(loaded.subscribers, subscriber_id)
    if subscription_id is not None and subscriber.subscription(subscription_id) is None:
        known = ", ".join(repr(subscription.id) for subscription in subscriber.subscriptions)
        raise UnknownIdError(
            f"subscriber {shown(subscriber_id)} has no subscription {shown(subscription_id)}; it has {known or 'none'}"
        )
    advertised = load_advertisements(advertisements, loaded)
    competing = loaded.subscribers if advertised.choose else (subscriber,)
    replay = Replay(competing, loaded.schema, advertisements=advertised.all)
    arrivals = Arrivals(now)
    found, later = _published_up_to(event, loaded.schema, replay, problems, arrivals)
    problems.close()
    outcome = replay.hub.explain(found, subscriber_id, replay.now_for(found))
    if subscription_id is not None:
        only = tuple(part for part in outcome.explanations if part.subscription.id == subscription_id)
        outcome = replace(outcome, explanations=only)
    became = _at_the_end(replay, found, later, subscriber_id) if later is not None and _is_open(outcome) else None
    if as_json:
        end = {} if became is None else {"by_the_end_of_the_file": list(map(format_time, became))}
        write_json(outcome_to_json(outcome, found) | end)
    else:
        show_outcome(outcome, found)
        if became is not None:
            at = f"handed over at {' and '.join(map(format_time, became))}" if became else "not handed over"
            console().print(f"by the end of the file: {at}", style="bold")
    return 1 if problems.errors else 0


def _is_open(outcome: Outcome) -> bool:
    """Whether it depends on later events, or on the end of a period, if the event is handed over."""
    return any(one.verdict in _OPEN for one in (outcome, *outcome.others))


def _at_the_end(replay: Replay, event: Event, later: Sequence[Event], subscriber: str) -> list[datetime]:
    """Return when an event is handed over to a subscriber as it is published, and then the rest of its file."""
    notes = [note for published in (event, *later) for note in replay.publish(published).delivered] + replay.finish()
    own = [note for note in notes if note.event.identity == event.identity and note.subscriber == subscriber]
    return [note.handed_over for note in own]


def chosen_subscriber(subscribers: tuple[Subscriber, ...], name: str) -> Subscriber:
    """Return the subscriber of a name; raise UnknownIdError where there is none."""
    for subscriber in subscribers:
        if subscriber.id == name:
            return subscriber
    some = ", ".join(subscriber.id for subscriber in subscribers[:10])
    more = f" and {len(subscribers) - 10:,} more" if len(subscribers) > 10 else ""
    raise UnknownIdError(f"there is no subscriber {shown(name)}; the file has {some or 'none'}{more}")


def _published_up_to(
    place: str, schema: Schema | None, replay: Replay, problems: Problems, arrivals: Arrivals
) -> tuple[Event, Sequence[Event] | None]:
    """Publish the events before the one that `place` names, if it names one of a file; return it and those after it."""
    if not place.strip():
        raise InvalidValueError("EVENT is empty; expected a file with one event, FILE#ID, FILE#NUMBER or inline JSON")
    if place.lstrip().startswith("{"):
        event = event_from_json(parse_json(place), id="inline", source="/command-line").stamped(arrivals.now)
        return event if schema is None else event.conformed(schema), None
    file, wanted = _split(place)
    read = arrivals.stamped(problems.set_aside(read_events(file, schema)))
    events = list(problems.set_aside(admitted(read, Advertisements(replay.hub.advertisements), file)))
    for warning in arrivals.warning(file):
        problems.add(warning)
    found = _named(file, wanted, events) if wanted else _only(file, events)
    ordered = in_order(events)
    place_of_it = next(at for at, event in enumerate(ordered) if event is found)
    for earlier in ordered[:place_of_it]:
        replay.publish(earlier)
    return found, ordered[place_of_it + 1 :]


def _split(place: str) -> tuple[str, str]:
    """Return the file or folder that is named, and the event in it; names of both may contain the sign between."""
    ends = [at for at, sign in enumerate(place) if sign == "#"]
    at = next((end for end in (len(place), *ends) if os.path.exists(place[:end])), None)  # noqa: PTH110 (never raises)
    file, _, wanted = place.partition("#") if at is None else (place[:at], "#", place[at + 1 :])
    return file, wanted


def _named(file: str, wanted: str, events: Sequence[Event]) -> Event:
    """Return the event that is named by its id or else by its number in the file."""
    found = next((event for event in events if event.id == wanted), None)
    if found is not None:
        return found
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(events):
        return events[int(wanted) - 1]
    raise UnknownIdError(f"{file}: there is no event {shown(wanted)} among its {len(events):,} events")


def _only(file: str, events: Sequence[Event]) -> Event:
    if not events:
        raise InvalidEventError(f"{file}: the file has no usable event")
    if len(events) > 1:
        raise InvalidEventError(f"{file}: there are several events; name one, such as '{file}#{events[0].id}'")
    return events[0]


def show_outcome(outcome: Outcome, event: Event) -> None:
    """Print an outcome as a page for people."""
    page = console()
    page.print(f"event {one_line(event.id)}", style="bold")
    page.print(Padding(Text(one_line(shown_attributes(payload(event)))), (0, 0, 1, 2)))
    for explanation in outcome.explanations:
        page.print(f"[{one_line(explanation.subscription.id)}]", style="bold", end=" ")
        page.print(printable(str(explanation)), style="green" if explanation.matched else "", soft_wrap=True)
        page.print()
    page.print(printable(verdict(outcome)), style="bold")


def verdict(outcome: Outcome) -> str:
    """Return the last line of an outcome: delivered or not, and why."""
    return str(replace(outcome, explanations=()))


def outcome_to_json(outcome: Outcome, event: Event) -> dict[str, Any]:
    """Return an outcome as a JSON object."""
    others = [{"subscription": other.subscription, **_decision_to_json(other)} for other in outcome.others]
    return {
        "subscriber": outcome.subscriber,
        **_decision_to_json(outcome),
        **({"others": others} if others else {}),
        "event": event_to_json(event),
        "subscriptions": [_explanation_to_json(explanation) for explanation in outcome.explanations],
    }


def _decision_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "delivered": outcome.delivered,
        "verdict": outcome.verdict.value,
        "rank": outcome.rank,
        **({} if outcome.standing is None else {"standing": outcome.standing._asdict()}),
        **({} if outcome.handed_over is None else {"handed_over": format_time(outcome.handed_over)}),
        "outlook": None if outcome.outlook is None else _outlook_to_json(outcome.outlook, outcome.competitor),
    }


def _outlook_to_json(outlook: Forecast, last: Match | None) -> dict[str, Any]:
    times = {"decided": outlook.decided, "enters": outlook.enters, "reopens": outlook.reopens}
    return {
        "place": outlook.place,
        "k": outlook.k,
        "competitor": None if last is None else {**last.event.identity._asdict(), "rank": last.rank},
        **{name: None if time is None else format_time(time) for name, time in times.items()},
        "enters_after": outlook.enters_after,
        "hopeless": outlook.hopeless,
    }


def _explanation_to_json(explanation: Explanation) -> dict[str, Any]:
    return {
        "id": explanation.subscription.id,
        "filter": format_expression(explanation.subscription.filter.expression),
        "matched": explanation.matched,
        "active": explanation.active,
        "constraints": [
            {"constraint": format_expression(part.expression), "holds": TRUTH_WORDS[part.truth], "reason": reason(part)}
            for part in explanation.constraints
        ],
        "to_match": [
            {"attribute": change.attribute, "needed": format_value_set(change.attribute, change.needed)}
            for change in explanation.changes
        ],
    }
