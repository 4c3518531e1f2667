"""`rankcast estimate`: what a subscriber would have got of past events, and with another k or other filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rankcast.cli.explain import chosen_subscriber
from rankcast.cli.output.streams import Problems, write_json
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.replay import Arrivals, few_collections, shown_delivery
from rankcast.hub import Estimate
from rankcast.hub.estimate import estimates, variants_of
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidSubscriptionError, counted, shown
from rankcast.model.policies import Cap, check_attributes
from rankcast.model.subscriptions import Subscriber
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import load_subscribers
from rankcast.storage.subscribers.settings import period_from_document


@few_collections()
def estimate_subscriber(
    events: str,
    subscribers: Path,
    name: str | None,
    ks: Sequence[int],
    filters: Sequence[str],
    caps: Sequence[str],
    *,
    as_json: bool,
    now: datetime,
) -> int:
    """Run the command and return its exit code."""
    loaded = load_subscribers(subscribers)
    problems = Problems(loaded.problems)
    if name is None and len(loaded.subscribers) != 1:
        raise InvalidSubscriptionError(
            f"--subscriber: the file has {counted(len(loaded.subscribers), 'subscriber')}; name the one that is meant"
        )
    subscriber = loaded.subscribers[0] if name is None else chosen_subscriber(loaded.subscribers, name)
    only = {text: parse_filter(text, loaded.schema) for text in filters}
    variants = variants_of(subscriber, ks, only, {text: _cap(text) for text in caps})
    if loaded.schema is not None:
        for variant in variants.values():
            check_attributes(variant.deliver, loaded.schema)
    arrivals = Arrivals(now)
    with progress("reading", quiet=as_json) as bar:
        past = list(arrivals.stamped(problems.set_aside(bar.over(read_events(events, loaded.schema)))))
    for warning in arrivals.warning(events):
        problems.add(warning)
    with progress("publishing", quiet=as_json) as bar:
        found = estimates(past, variants, bar.over)
    problems.close()
    if as_json:
        rows = [{**asdict(estimate), "per_day": estimate.per_day} for estimate in found]
        write_json({"subscriber": subscriber.id, "events": len(past), "days": found[0].days, "estimates": rows})
    else:
        _show(subscriber, len(past), found)
    return 1 if problems.errors else 0


def _cap(text: str) -> Cap:
    """Return the cap of a text.

    >>> _cap("1/7d/company")
    Cap(count=1, every=datetime.timedelta(days=7), per='company')
    """
    count, _, rest = text.partition("/")
    every, _, per = rest.partition("/")
    try:
        return Cap(int(count), period_from_document({"every": every}), per or None)
    except (ValueError, InvalidSubscriptionError):  # an error of its own would not say what else can be written here
        raise InvalidSubscriptionError(
            f"--at-most: {shown(text)} is not a count and a period such as 5/day or 1/7d/company"
        ) from None


def _show(subscriber: Subscriber, events: int, found: Sequence[Estimate]) -> None:
    columns = {
        "Variant": "wrap",
        "Matched": "right",
        "Delivered": "right",
        "Per day": "right",
        "Best rank": "right",
        "Worst rank": "right",
    }
    has_caps = any(estimate.capped for estimate in found)
    columns = columns | {"Capped": "right"} if has_caps else columns
    rows = [
        (
            estimate.variant,
            f"{estimate.matched:,}",
            f"{estimate.delivered:,}",
            f"{estimate.per_day:,.1f}",
            *("-" if rank is None else f"{rank:.3f}" for rank in (estimate.best, estimate.worst)),
            *([f"{estimate.capped:,}"] if has_caps else []),
        )
        for estimate in found
    ]
    screen = console()
    screen.print(table(f"{subscriber.id}: {shown_delivery(subscriber)}", columns, rows))
    screen.print(f"{counted(events, 'event')} of {found[0].days:.1f} days")
