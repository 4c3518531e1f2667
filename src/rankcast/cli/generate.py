"""`rankcast generate`: write a feed of events and the subscribers that follow it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from rankcast.cli.output.streams import complain, write_json
from rankcast.cli.output.terminal import progress
from rankcast.model.cloudevents import event_to_json
from rankcast.model.errors import InvalidValueError, counted
from rankcast.model.events import Event
from rankcast.model.times import format_time, parse_time
from rankcast.samples.feeds import DEFAULT_START, Feed, feed_named
from rankcast.storage.events.files import write_events
from rankcast.storage.subscribers.files import save_subscribers


def generate_feed(
    name: str,
    events: int,
    seed: int,
    out: str,
    subscribers: int,
    subscribers_out: Path | None,
    start: str | None,
    *,
    as_json: bool,
) -> None:
    """Run the command."""
    feed = feed_named(name)
    begin = DEFAULT_START if start is None else parse_time(start)
    try:
        if subscribers_out is not None:
            save_subscribers(subscribers_out, feed.subscribers(subscribers, seed, begin), feed.schema)
        _write_events(feed, events, seed, begin, out)
    except OverflowError:
        raise InvalidValueError(
            f"--start {format_time(begin)} is too late: the feed would go on after the year 9999"
        ) from None
    written = [("event", events, out)]
    if subscribers_out is not None:
        written.append(("subscriber", subscribers, str(subscribers_out)))
    if out == "-":
        return  # standard output has the events, and nothing else
    if as_json:
        files = {f"{noun}s": {"file": file, "count": count} for noun, count, file in written}
        write_json({"feed": name, "seed": seed, **files})
    else:
        complain("; ".join(f"{counted(count, noun)} in {file}" for noun, count, file in written))


def _write_events(feed: Feed, count: int, seed: int, start: datetime, out: str) -> None:
    to_terminal = out == "-" and sys.stdout.isatty()
    with progress(f"generating {feed.name}", total=count, quiet=to_terminal) as bar:
        events = bar.over(feed.events(count, seed, start))
        if out == "-":
            _print(events)
        else:
            write_events(out, events)


def _print(events: Iterable[Event]) -> None:
    for event in events:
        write_json(event_to_json(event))
