"""What a subscriber would have got of past events, as it is and if it were otherwise.

Each variant of the subscriber is one of a core of its own, to which the events are published in the order of (time,
source, id), each at its own time; so an estimate is what the engine itself would have delivered. Open periods and
windows are completed at the end.

Of a subscriber that reads its list on demand, what its policies deliver is counted. Nobody is muted here: that is for a
while, and says nothing of other times.

An event that no variant wants changes nothing, unless it repeats another one, so only those that somebody wants are
published; which these are is found out for many at a time, by kernels.

Cost: about a microsecond for an event that nobody wants, for another one that of publishing, some 10 microseconds and
a few more for each variant. To make events of attributes takes longer than all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from rankcast.compiling import readiness
from rankcast.hub.core import CommandResult, Core, Finish, HubState, PublishEvent
from rankcast.hub.results import Estimate
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.events import Event
from rankcast.model.filters import Filter
from rankcast.model.policies import AT_ONCE, AllMatches, Cap, OnDemand, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import EARLIEST, LATEST
from rankcast.model.values import type_of
from rankcast.serving.subscriber_state import SubscriberRecord

if TYPE_CHECKING:
    import pyarrow as pa

AS_IT_IS = "as it is"

A_DAY = timedelta(days=1)

FEWEST = 5_000
"""Events of which those that nobody wants are left out: fewer are published as quickly as kernels are loaded."""

CHUNK = 4_096
"""Events that are matched at a time."""


@dataclass(slots=True)
class _Tally:
    """What is counted of one variant."""

    matched: int = 0
    delivered: int = 0
    best: float | None = None
    worst: float | None = None


def estimates(
    events: Iterable[Event],
    variants: Mapping[str, Subscriber],
    watch: Callable[[Iterable[Event]], Iterable[Event]] = iter,
) -> tuple[Estimate, ...]:
    """Return what each variant would have got of events that have times; `watch` sees those that are published.

    The events are gone through a second time if some are repetitions.

    >>> from rankcast.language.parser import parse_filter
    >>> from rankcast.model.times import EPOCH
    >>> wanted = Subscription(SubscriptionId("1"), parse_filter("rent < 900"))
    >>> past = [Event.of({"rent": rent}, id=str(rent), source="/", time=EPOCH) for rent in (500, 800, 950)]
    >>> (found,) = estimates(past, {AS_IT_IS: Subscriber(SubscriberId("ana"), (wanted,))})
    >>> found.matched, found.delivered, found.per_day
    (2, 2, 2.0)
    """
    tallies = {SubscriberId(str(at)): _Tally() for at in range(len(variants))}
    named = zip(tallies, map(handed_everything, variants.values()), strict=True)
    served = [structs.replace(own, id=name) for name, own in named]

    def count(result: CommandResult) -> None:
        for name in {match.subscriber for match in result.matches}:  # once, however many queues it is offered to
            tallies[name].matched += 1
        for note in result.delivered:
            tally = tallies[note.subscriber]
            tally.delivered += 1
            tally.best = note.rank if tally.best is None else max(tally.best, note.rank)
            tally.worst = note.rank if tally.worst is None else min(tally.worst, note.rank)

    readiness.request()
    core = Core(HubState(subscribers=tuple(map(SubscriberRecord, served))))
    relevant, first, last = _relevant(events, served)
    for event in watch(sorted(relevant, key=lambda event: (event.time or EARLIEST, *event.identity))):
        count(core.apply(PublishEvent(event, event.time or EARLIEST, closed=False, next_id=core.next_id)))
    count(core.apply(Finish()))
    days = max(last - first, A_DAY) / A_DAY if first <= last else 1.0
    return tuple(
        Estimate(
            variant,
            tally.matched,
            tally.delivered,
            tally.best,
            tally.worst,
            days,
            core.subscribers[name].withheld.capped,
        )
        for variant, (name, tally) in zip(variants, tallies.items(), strict=True)
    )


def _relevant(events: Iterable[Event], subscribers: Iterable[Subscriber]) -> tuple[list[Event], datetime, datetime]:
    """Return the events that somebody wants, or all where some are repetitions; and the times of the first and last.

    They are taken a chunk at a time, so what nobody wants is not kept; hashes of identities are, which the garbage
    collector need not look at. Two that are equal by chance make no difference but to the time.
    """
    relevant = _matching(subscribers)
    known, found, count = set[int](), list[Event](), 0
    first, last = LATEST, EARLIEST
    for part in _chunks(events):
        count += len(part)
        known.update([hash(event.identity) for event in part])
        times = [event.time for event in part if event.time is not None]
        first, last = min(first, *times), max(last, *times)
        found += part if count < FEWEST else relevant(part)
    return (found if len(known) == count else list(events)), first, last


def _chunks(events: Iterable[Event]) -> Iterator[list[Event]]:
    waiting = iter(events)
    while part := list(islice(waiting, CHUNK)):
        yield part


def _matching(subscribers: Iterable[Subscriber]) -> Callable[[list[Event]], Iterable[Event]]:
    """Return what chooses the events that some of the subscribers want."""
    wanted = {
        Entry.of(0, own.filter, own.active_from, own.active_until).conjunctions
        for subscriber in subscribers
        for own in subscriber.subscriptions
    }
    reader = Index(Entry(number, conjunctions) for number, conjunctions in enumerate(wanted)).reader()
    names = {name for conjunctions in wanted for conjunction in conjunctions for name, _ in conjunction.items}

    def chosen(events: list[Event]) -> Iterable[Event]:
        if not names:  # there is nothing to tell events apart by
            return events
        columns = _columns(events, names)
        if columns is None:
            return (event for event in events if len(reader.match_one(event.attributes)))
        offsets, _ = reader.match_batch(columns)
        return map(events.__getitem__, np.flatnonzero(np.diff(offsets)).tolist())

    return chosen


def _columns(events: Sequence[Event], names: Iterable[str]) -> pa.RecordBatch | None:
    """Return some attributes of events as columns; None where one has lists, or values of several types."""
    import pyarrow as pa  # noqa: PLC0415 (only estimates of many events need it)

    from rankcast.storage.events.arrow import arrow_type  # noqa: PLC0415

    columns = {}
    for name in names:
        values = [event.attributes.get(name) for event in events]
        kinds = {type(value): value for value in values if value is not None}
        plain = [value for value in kinds.values() if not isinstance(value, tuple)]
        if len(kinds) > 1 or len(plain) < len(kinds):
            return None
        columns[name] = pa.array(values, arrow_type(type_of(plain[0])) if plain else pa.null())
    return pa.RecordBatch.from_pydict(columns)


def variants_of(
    subscriber: Subscriber,
    ks: Iterable[int] = (),
    filters: Mapping[str, Filter] | None = None,
    caps: Mapping[str, Cap] | None = None,
) -> dict[str, Subscriber]:
    """Return a subscriber as it is, and as it would be otherwise, by name.

    With another k in all its policies (half and twice the largest, unless some are named), without its caps, with each
    of some caps in their place, without each of its subscriptions, and with each of some filters in place of all its
    subscriptions.

    >>> from rankcast.language.parser import parse_filter
    >>> from rankcast.model.policies import Continuous
    >>> cheap, large = (parse_filter(text) for text in ("rent < 500", "rooms > 3"))
    >>> wanted = Subscription(SubscriptionId("1"), cheap), Subscription(SubscriptionId("2"), large)
    >>> list(variants_of(Subscriber(SubscriberId("ana"), wanted, Continuous(4)), filters={"rooms > 2": large}))
    ['as it is', 'k = 2', 'k = 8', 'without 1', 'without 2', 'only rooms > 2']
    """
    found = {AS_IT_IS: subscriber}
    stated = [policy.k for policy in subscriber.policies.values() if not isinstance(policy, AllMatches)]
    asked = tuple(ks)
    if asked and not stated:
        raise InvalidSubscriptionError("k: every match is delivered; expected a subscriber whose policy has a k")
    for k in dict.fromkeys(asked or (max(1, max(stated) // 2), 2 * max(stated)) if stated else ()):
        try:
            found[f"k = {k}"] = _with_policies(subscriber, partial(_policy_with_k, k=k))
        except InvalidSubscriptionError:  # such as twice the largest k that a diverse selection may have
            if asked:
                raise
    if is_capped(subscriber):
        found["without caps"] = uncapped(subscriber)
    for text, cap in (caps or {}).items():
        found[f"at most {text}"] = _with_policies(subscriber, partial(replace, at_most=(cap,)))
    for left_out in subscriber.subscriptions if len(subscriber.subscriptions) > 1 else ():
        kept = tuple(own for own in subscriber.subscriptions if own is not left_out)
        order = tuple(pair for pair in subscriber.priorities if left_out.id not in pair)
        found[f"without {left_out.id}"] = structs.replace(subscriber, subscriptions=kept, priorities=order)
    for text, wanted in (filters or {}).items():
        only = (Subscription(SubscriptionId("1"), wanted),)
        found[f"only {text}"] = structs.replace(subscriber, subscriptions=only, priorities=())
    return found


def _with_policies(subscriber: Subscriber, changed: Callable[[Policy], Policy]) -> Subscriber:
    own = tuple(
        held if held.deliver is None else structs.replace(held, deliver=changed(held.deliver))
        for held in subscriber.subscriptions
    )
    return structs.replace(handed_everything(subscriber), deliver=changed(subscriber.deliver), subscriptions=own)


def is_capped(subscriber: Subscriber) -> bool:
    """Whether a policy of a subscriber has caps."""
    return any(policy.at_most for policy in subscriber.policies.values())


def uncapped(subscriber: Subscriber) -> Subscriber:
    """Return a subscriber without its caps."""
    return _with_policies(subscriber, partial(replace, at_most=()))


def handed_everything(subscriber: Subscriber) -> Subscriber:
    """Return a subscriber who is not muted, and handed what others would read."""
    notify = AT_ONCE if isinstance(subscriber.notify, OnDemand) else subscriber.notify
    return structs.replace(subscriber, notify=notify, muted_until=None)


def _policy_with_k(policy: Policy, k: int) -> Policy:
    return policy if isinstance(policy, AllMatches) else replace(policy, k=k)
