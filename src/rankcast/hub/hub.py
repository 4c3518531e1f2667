"""The hub: subscribers, a matching index over their subscriptions, and one queue each.

Events are processed in the order of `publish`; the index finds what they match. Time is the hub's clock, unless the
caller passes `now` (a replay passes an event's own time), and it never goes back. Policies that act when time passes do
so at the next call: `publish`, or `advance` when nothing is published. Publications with the same explicit `now` are
one instant, which is over when a later one comes; by the clock, each publication is an instant of its own.

With a `lateness` the hub goes by the events' own times instead: they are put in order, and those that come too late are
handed to `on_late` and change nothing. What the hub delivers is then as far as its time less the lateness.

A second publication of the same identity is ignored for as long as it is remembered: `core.REMEMBERED` identities at
least, those of the last period and lateness, and whatever a window holds. With a lateness, and while both wait, the
second is the one that has the later time.
Calls may come from several threads; one lock makes each call a whole. Callbacks run after the call's work is done and
outside the lock, so a callback may call the hub.

Here calls are checked and become commands; `core` is what commands change. What takes long in the index, such as
merging segments, is done by one thread that all hubs of a process share. With a `path` a command is in the hub's log
before it is applied, and a hub that is opened again applies the log: `durable` and docs/hub.md tell what that gives.
"""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rankcast.compiling import readiness
from rankcast.delivery.stream.lateness import check_lateness
from rankcast.hub.conversions import (
    SETTINGS,
    UNCHANGED,
    AnyFilter,
    AnyPriority,
    AnySubscriptions,
    Unchanged,
    check_callable,
    check_instance,
    filter_of,
    ranking_of,
    settings_of,
    subscriptions_of,
)
from rankcast.hub.core import (
    AddAdvertisement,
    AddSubscriber,
    Advance,
    ChangeSubscriber,
    Command,
    CommandResult,
    Core,
    Finish,
    HubState,
    PublishEvent,
    PublishEvents,
    RemoveAdvertisement,
    RemoveSubscriber,
    outcome,
)
from rankcast.hub.estimate import estimates, variants_of
from rankcast.hub.results import (
    Callback,
    CallbackError,
    Estimated,
    Late,
    Outcome,
    Published,
    RejectedEvent,
)
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import (
    EVERYTHING,
    FAIRNESS,
    NO_SCHEMA,
    Advertisement,
    AdvertisementId,
    Advertisements,
    AudienceRanking,
    Scoring,
)
from rankcast.model.errors import (
    DuplicateIdError,
    InvalidEventError,
    InvalidSubscriptionError,
    RankcastError,
    UnknownIdError,
    hint,
    shown,
)
from rankcast.model.events import Event, Identity
from rankcast.model.policies import ALL_MATCHES, AT_ONCE, AllMatches, Cap, Notify, Policy, check_attributes, check_count
from rankcast.model.relevance import Decay
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import (
    RankBy,
    Subscriber,
    SubscriberId,
    SubscriptionId,
    check_id,
    unique_subscribers,
)
from rankcast.model.values import checked_value
from rankcast.ranking.preferences import preference_ranks
from rankcast.serving.results import NOTHING_WITHHELD, Match, Notification, Withheld
from rankcast.serving.subscriber_state import ServedQueue, SubscriberRecord, SubscriberState
from rankcast.storage.durations import format_cap

if TYPE_CHECKING:
    from rankcast.hub.durable import FileJournal
    from rankcast.storage.hub_log import Sync

log = logging.getLogger("rankcast.hub")

SNAPSHOT_EVERY = 10_000
"""Inputs between snapshots. On reopening they are applied again, at the speed of publishing: seconds, not minutes."""


def utc_now() -> datetime:
    """Return the time of the system's clock."""
    return datetime.now(UTC)  # noqa: TID251 (the hub is where the clock comes in)


@cache
def _background() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "rankcast-index")


def run_in_background(job: Callable[[], object]) -> None:
    """Have a job done when those before it are.

    An error there changes no answer: the index goes on as it was, and the next change tries again. It is logged.
    """
    _background().submit(job).add_done_callback(_report)


def _report(job: Future[object]) -> None:
    error = job.exception()
    if error is not None:
        log.error("work on a hub's index failed", exc_info=error)


class Hub:
    """An engine in one process. With a `path` it is durable: opened again, it goes on where it was.

    >>> hub = Hub()
    >>> _ = hub.subscribe("ana", {"city = 'Porto' and rent < 900": 0.9, "rooms >= 3": 0.6})
    >>> [(note.subscriber, note.rank) for note in hub.publish({"city": "Porto", "rent": 700, "rooms": 2})]
    [('ana', 0.9)]
    """

    def __init__(
        self,
        subscribers: Iterable[Subscriber] = (),
        *,
        advertisements: Iterable[Advertisement] = (),
        schema: Schema | None = None,
        clock: Callable[[], datetime] = utc_now,
        source: str = "hub",
        lateness: timedelta | None = None,
        on_late: Callable[[Late], object] | None = None,
        on_match: Callable[[Match], object] | None = None,
        path: str | os.PathLike[str] | None = None,
        sync: Sync | str = "full",
        snapshot_every: int = SNAPSHOT_EVERY,
        kernels: bool | None = None,
    ) -> None:
        """Make a hub with subscribers or, with the `path` of a file, bring back the one that it holds.

        With a `lateness` events are put in the order of their own times, as far as they are no later than that;
        `on_late` is called with those that are, and `on_match` with whatever interests somebody when it is taken in.

        Subscribers and advertisements that a brought back hub does not know are added and those that differ are
        updated. `sync` says what
        the file outlasts: power failures ("full") or only the end of the process ("normal"). Raises InvalidFileError
        when the file is in use, damaged, of another program, of another format or of a hub with another schema
        or lateness.

        A hub begins in plain Python, and compiled kernels take over when they are loaded in the background. With
        `kernels` True it waits for them and uses them from the start; with False it never loads or compiles any, which
        suits short scripts and a few hundred subscriptions. Answers are the same.
        """
        if lateness is not None:
            check_lateness(lateness)
        check_callable("on_late", on_late)
        check_callable("on_match", on_match)
        check_callable("clock", clock, optional=False)
        check_instance("schema", schema, Schema)
        check_instance("kernels", kernels, bool)
        if kernels:
            readiness.require()
        self._schema = schema
        self._clock = clock
        self._source = source
        self._on_late = on_late
        self._on_match = on_match
        self._lock = RLock()
        self._callbacks: dict[SubscriberId, Callback] = {}
        self._journal: FileJournal | None = None
        self._recovered: tuple[Notification, ...] = ()
        if path is None:
            checked = map(self._under_schema, unique_subscribers(subscribers).values())
            state = HubState(
                subscribers=tuple(map(SubscriberRecord, checked)),
                advertisements=tuple(map(self._advertisement, advertisements)),
            )
            self._core = Core(state, lateness, run_in_background, kernels)
        else:
            from rankcast.hub.durable import FileJournal  # noqa: PLC0415  # a hub without a file needs no database

            journal = FileJournal.open(path, schema, sync, snapshot_every, lateness)
            self._core, self._recovered = journal.restore(run_in_background, kernels)
            self._journal = journal
            self._declare(subscribers, advertisements)
        self._core.tells_matches = on_match is not None
        if kernels is None and not self._core.serving.is_columnar:
            readiness.request()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write a durable hub's state down and free its file; its calls that change something fail from now on."""
        with self._lock:
            if self._journal is not None:
                self._journal.close(self._core.state())

    @property
    def recovered(self) -> tuple[Notification, ...]:
        """What was in doubt when a durable hub was opened: notifications of calls that may not have handed them over.

        The hub does not deliver them again. They stay in doubt until the hub's next input.
        """
        return self._recovered

    @property
    def late_count(self) -> int:
        """How many events came later than is allowed."""
        with self._lock:
            return self._core.late

    @property
    def withheld(self) -> dict[SubscriberId, Withheld]:
        """How many deliveries were never handed over, of each subscriber of whom there were any: capped, or muted."""
        with self._lock:
            counts = ((name, state.withheld) for name, state in self._core.subscribers.items())
            return {name: withheld for name, withheld in counts if withheld != NOTHING_WITHHELD}

    @property
    def subscribers(self) -> tuple[Subscriber, ...]:
        """The subscribers, in the order they came."""
        with self._lock:
            return tuple(state.subscriber for state in self._core.subscribers.values())

    def subscribe(
        self,
        subscriber: str,
        subscriptions: AnySubscriptions,
        *,
        deliver: Policy = ALL_MATCHES,
        rank_by: RankBy | str = RankBy.MAX,
        most_specific: bool = False,
        priorities: Iterable[AnyPriority] = (),
        decay: Decay | None = None,
        notify: Notify = AT_ONCE,
        zone: str | None = None,
        muted_until: datetime | None = None,
        callback: Callback | None = None,
    ) -> Subscriber:
        """Add a subscriber.

        `subscriptions` is a filter, several filters or `Subscription`s, or a mapping from filters to preference ranks;
        a filter is a text, an expression built with `attr`, or a `Filter`. Ids are "1", "2", ... by position.
        `priorities` are texts "a before b" or pairs of ids; with a `decay`, newer events count more. `notify` says when
        notifications are handed over, none before `muted_until`, and `callback` is called with each. `zone` is that of
        calendars which name none.
        """
        settings = {
            "deliver": deliver,
            "rank_by": rank_by,
            "most_specific": most_specific,
            "priorities": priorities,
            "decay": decay,
            "notify": notify,
            "zone": zone,
            "muted_until": muted_until,
        }
        return self.add(self._subscriber_of(subscriber, subscriptions, settings), callback=callback)

    def _subscriber_of(
        self, subscriber: str, subscriptions: AnySubscriptions, settings: Mapping[str, Any]
    ) -> Subscriber:
        found = subscriptions_of(subscriptions, self._schema)
        return Subscriber(SubscriberId(subscriber), found, **settings_of(settings))

    def subscribe_many(self, subscriptions: Mapping[str, AnySubscriptions], **settings: Any) -> tuple[Subscriber, ...]:
        """Add many subscribers that differ in their subscriptions alone, all or none; `settings` as for `subscribe`.

        Costs less than as many calls of `subscribe`, and is one write to the file of a durable hub.

        >>> hub = Hub()
        >>> _ = hub.subscribe_many({"ana": "rent < 900", "rui": "rent < 500"})
        >>> [note.subscriber for note in hub.publish({"rent": 700})]
        ['ana']
        """
        check_instance("subscriptions", subscriptions, Mapping, optional=False)
        unknown = sorted(settings.keys() - SETTINGS)
        if unknown:
            raise InvalidSubscriptionError(f"there is no setting {shown(unknown[0])}; {hint(unknown[0], SETTINGS)}")
        made = []
        for name, given in subscriptions.items():
            try:
                made.append(self._subscriber_of(name, given, settings))
            except RankcastError as error:
                error.add_note(f"of subscriber {shown(name)}")
                raise
        with self._lock:
            checked = [self._newcomer(subscriber) for subscriber in made]
            if checked:
                self._execute(*map(AddSubscriber, checked))
        return tuple(checked)

    def add(self, subscriber: Subscriber, *, callback: Callback | None = None) -> Subscriber:
        """Add a subscriber that is made already, such as one from a subscriber file."""
        if not isinstance(subscriber, Subscriber):
            raise InvalidSubscriptionError(
                f"subscriber: {shown(subscriber)} is no Subscriber; to make one, use subscribe"
            )
        check_callable("callback", callback)
        with self._lock:
            subscriber = self._newcomer(subscriber)
            self._execute(AddSubscriber(subscriber))
            self._set_callback(subscriber.id, callback)
            return subscriber

    def listen(self, subscriber: str, callback: Callback | None) -> None:
        """Call `callback` with each notification of a subscriber from now on; None calls nothing any more."""
        check_callable("callback", callback)
        with self._lock:
            self._set_callback(self._state(subscriber).subscriber.id, callback)

    def _set_callback(self, subscriber: SubscriberId, callback: Callback | None) -> None:
        self._callbacks.pop(subscriber, None)
        if callback is not None:
            self._callbacks[subscriber] = callback

    def update(
        self,
        subscriber: str | Subscriber,
        *,
        subscriptions: AnySubscriptions | None = None,
        deliver: Policy | None = None,
        rank_by: RankBy | str | None = None,
        most_specific: bool | None = None,
        priorities: Iterable[AnyPriority] | None = None,
        decay: Decay | Unchanged | None = UNCHANGED,
        notify: Notify | None = None,
        zone: str | Unchanged | None = UNCHANGED,
        muted_until: datetime | Unchanged | None = UNCHANGED,
    ) -> Subscriber:
        """Change what is given of a subscriber, from the next instant on; nothing delivered is taken back.

        A `Subscriber` takes the place of the one with its id. What is held is matched and ranked again; events that
        match no subscription any more are dropped.
        """
        settings = {
            "deliver": deliver,
            "rank_by": rank_by,
            "most_specific": most_specific,
            "priorities": priorities,
            "notify": notify,
        }
        given: dict[str, Any] = {}
        if subscriptions is not None:
            given["subscriptions"] = subscriptions_of(subscriptions, self._schema)
        given |= settings_of({name: new for name, new in settings.items() if new is not None})
        either = {"decay": decay, "zone": zone, "muted_until": muted_until}
        given |= {name: new for name, new in either.items() if not isinstance(new, Unchanged)}
        with self._lock:
            name = subscriber.id if isinstance(subscriber, Subscriber) else subscriber
            known = self._state(name).subscriber
            before = subscriber if isinstance(subscriber, Subscriber) else known
            after = self._under_schema(structs.replace(before, **given))
            preference_ranks(after)
            self._execute(ChangeSubscriber(after))
            return after

    def unsubscribe(self, subscriber: str, subscription: str | None = None) -> None:
        """Remove a subscriber with everything held for it, or one of its subscriptions."""
        with self._lock:
            state = self._state(subscriber)
            if subscription is None:
                self._execute(RemoveSubscriber(state.subscriber.id))
                self._set_callback(state.subscriber.id, None)
                return
            check_id("subscription", subscription)
            if state.subscriber.subscription(subscription) is None:
                raise UnknownIdError(f"subscriber {shown(subscriber)} has no subscription {shown(subscription)}")
            left = tuple(kept for kept in state.subscriber.subscriptions if kept.id != subscription)
            priorities = tuple(kept for kept in state.subscriber.priorities if subscription not in kept)
            self._execute(
                ChangeSubscriber(structs.replace(state.subscriber, subscriptions=left, priorities=priorities))
            )

    @property
    def advertisements(self) -> tuple[Advertisement, ...]:
        """What is advertised, in the order it came."""
        with self._lock:
            return self._core.advertisements.all

    def advertise(
        self,
        advertisement: str | Advertisement,
        *,
        source: str | None = None,
        space: AnyFilter = EVERYTHING,
        schema: Schema = NO_SCHEMA,
        k: int | None = None,
        ranking: AudienceRanking | Scoring | str = FAIRNESS,
    ) -> Advertisement:
        """Say what a source (the hub's own unless told) is going to publish, and that it is for the k best subscribers.

        Its events have to lie in the `space`, with the attributes that the `schema` declares. Without a k they are for
        everybody who wants them. The ranking says who is best: a `Scoring`, or an `AudienceRanking`.

        >>> hub = Hub()
        >>> _ = hub.subscribe_many({"ana": {"rent < 900": 0.9}, "rui": {"rent < 500": 0.8}, "eva": {"true": 0.1}})
        >>> _ = hub.advertise("flats", k=2, ranking="preference")
        >>> [note.subscriber for note in hub.publish({"rent": 450})]
        ['ana', 'rui']
        """
        if not isinstance(advertisement, Advertisement):
            advertisement = Advertisement(
                AdvertisementId(advertisement),
                self._source if source is None else source,
                filter_of(space, self._schema),
                schema,
                k,
                ranking_of(ranking),
            )
        with self._lock:
            checked = self._advertisement(advertisement)
            if checked.id in {known.id for known in self._core.advertisements.all}:
                raise DuplicateIdError(f"there is an advertisement {shown(checked.id)} already; withdraw it first")
            self._execute(AddAdvertisement(checked))
        return checked

    def withdraw(self, advertisement: str) -> None:
        """End an advertisement; what was published before stays for whom it was."""
        with self._lock:
            self._execute(RemoveAdvertisement(self._core.advertisements[advertisement].id))

    def _advertisement(self, advertisement: Advertisement) -> Advertisement:
        check_instance("advertisement", advertisement, Advertisement, optional=False)
        return advertisement if self._schema is None else advertisement.under(self._schema)

    def publish(
        self,
        event: Event | Mapping[str, Any],
        now: datetime | None = None,
        *,
        k: int | None = None,
        advertisement: str | None = None,
    ) -> list[Notification]:
        """Publish an event; return everything that is delivered by now: what was due before, then in the order of
        subscribers.

        A mapping of attributes becomes an event of the hub's own source, numbered when it has no id. With a `k` it asks
        for fewer subscribers than are advertised, by the `advertisement` that it names or by that of its source. Raises
        InvalidEventError, and changes nothing, when the event is malformed or does not fit schema or advertisement.
        """
        with self._lock:
            result = self._execute(self._command(event, now, self._core.next_id, k=k, advertisement=advertisement))
        return self._hand_over(result)

    def publish_many(self, events: Iterable[Event | Mapping[str, Any]], now: datetime | None = None) -> Published:
        """Publish events one after the other; those that `publish` would refuse are left out, and reported.

        Costs less than as many calls of `publish`, and is one write to the file of a durable hub. Callbacks are called
        when all events have been taken.

        >>> hub = Hub()
        >>> _ = hub.subscribe("ana", "rent < 900")
        >>> found = hub.publish_many([{"rent": 700}, {"rent": object()}, {"rent": 800}])
        >>> len(found.notifications), [event.index for event in found.rejected]
        (2, [1])
        """
        check_instance("events", events, Iterable, optional=False)
        given = list(events)  # whatever comes of that comes before them
        rejected: list[RejectedEvent] = []
        with self._lock:
            publishes: list[PublishEvent] = []
            next_id, taken = self._core.next_id, set[Identity]()
            for index, event in enumerate(given):
                try:
                    publish = self._command(event, now, next_id, taken)
                    if self._journal is not None:
                        self._journal.check(publish)
                except InvalidEventError as error:
                    rejected.append(RejectedEvent(index, error))
                    continue
                publishes.append(publish)
                taken.add(publish.event.identity)
                next_id = publish.next_id + (publish.event.id == str(publish.next_id))
            result = self._execute(PublishEvents(tuple(publishes))) if publishes else None
        try:
            return Published([] if result is None else self._hand_over(result), tuple(rejected))
        except CallbackError as error:
            error.rejected = tuple(rejected)
            raise

    def _command(
        self,
        event: Event | Mapping[str, Any],
        now: datetime | None,
        next_id: int,
        taken: Collection[Identity] = (),
        *,
        k: int | None = None,
        advertisement: str | None = None,
    ) -> PublishEvent:
        """Return the command of an event; what has no time of its own gets the hub's, which never goes back."""
        moment = self._now(now)
        if now is None and moment < self._core.latest:
            moment = self._core.latest
        made, next_id = self._event(event, moment, next_id, taken, advertisement)
        admitted = self._core.advertisements.admit(made, k, advertisement)
        return PublishEvent(admitted.event, moment, now is None, next_id, admitted.advertisement, admitted.audience)

    def advance(self, now: datetime | None = None) -> list[Notification]:
        """Let time pass without an event; return what is delivered up to now, `now` itself included."""
        with self._lock:
            result = self._execute(Advance(self._now(now)))
        return self._hand_over(result)

    def finish(self) -> list[Notification]:
        """End the input: complete open periods and windows as if time went on for ever; return what they deliver."""
        with self._lock:
            result = self._execute(Finish())
        return self._hand_over(result)

    def read(self, subscriber: str, subscription: str | None = None, now: datetime | None = None) -> list[Notification]:
        """Return the current list of a subscriber, the best first: the best k of what is held; nothing is changed.

        With a `subscription` that has a policy of its own, it is the list of that. Held is what is in the window, what
        arrived in the open period or, with continuous delivery, what was delivered; expired events do not count.
        """
        now = self._now(now)
        with self._lock:
            queue = self._queue(self._state(subscriber), subscription)
            if isinstance(queue.policy, AllMatches):
                raise InvalidSubscriptionError(
                    f"subscriber {shown(subscriber)} gets all matches, of which none is held to be read"
                )
            reached = self._core.reached if self._core.goes_by_events else max(now, self._core.latest)
            return self._core.serving.read(queue, reached)

    def matches(self, event: Event | Mapping[str, Any], now: datetime | None = None) -> list[Match]:
        """Return whom an event interests and how much, in the order subscribers came; nothing is delivered."""
        now = self._now(now)
        with self._lock:
            return self._core.matches(self._event(event, max(now, self._core.latest), self._core.next_id)[0])

    def explain(
        self,
        event: Event | Mapping[str, Any],
        subscriber: str,
        now: datetime | None = None,
        *,
        k: int | None = None,
        advertisement: str | None = None,
    ) -> Outcome:
        """Tell what an event would mean to a subscriber if it were published so now; nothing is changed."""
        now = self._now(now)
        with self._lock:
            reached = max(now, self._core.latest)
            made, _ = self._event(event, reached, self._core.next_id, advertisement=advertisement)
            admitted = self._core.advertisements.admit(made, k, advertisement)
            return outcome(self._core, self._state(subscriber), admitted.event, now, admitted.audience)

    def estimate(
        self,
        events: Iterable[Event | Mapping[str, Any]],
        subscriber: str | Subscriber,
        *,
        k: Iterable[int] = (),
        filters: Iterable[str] = (),
        at_most: Iterable[Cap] = (),
    ) -> Estimated:
        """Tell what a subscriber, or one that is made but not added, would have got of past events; nothing is changed.

        Beside the subscriber as it is there are variants: with each `k` (unless told, half and twice its own), without
        its caps, with each of those in `at_most` instead, without each of its subscriptions, and with each of some
        `filters` in place of them all. Events that `publish` would refuse are left out, and reported.
        """
        check_instance("events", events, Iterable, optional=False)
        with self._lock:
            known = subscriber if isinstance(subscriber, Subscriber) else self._state(subscriber).subscriber
            now, number = max(self._now(None), self._core.latest), self._core.next_id
        past = _PastEvents(list(events), lambda event, index: self._event(event, now, number + index)[0])
        for name, several in (("k", k), ("filters", filters), ("at_most", at_most)):
            if isinstance(several, str) or not isinstance(several, Iterable):
                raise InvalidSubscriptionError(f"{name}: {shown(several)} is one alone; expected a list, as in [...]")
        only = {text: parse_filter(text, self._schema) for text in filters}
        caps: dict[str, Cap] = {}
        for cap in at_most:
            check_instance("at_most", cap, Cap, optional=False)
            caps[format_cap(cap)] = cap
        ks = list(k)
        for count in ks:
            check_count("k", count, at_least=0)
        return Estimated(estimates(past, variants_of(self._under_schema(known), ks, only, caps)), tuple(past.rejected))

    def _execute(self, *commands: Command) -> CommandResult:
        """Write commands down, if there is a journal, and apply them."""
        journal = self._journal
        if journal is None:
            return self._apply(commands)
        if journal.wants_state:
            journal.keep_state(self._core.state())
        number: int | None = None
        try:
            number = journal.record(*commands)
            self._recovered = ()
            result = self._apply(commands)
            result.number = number
            journal.hold(number, result.delivered)
        except BaseException as error:
            if number is not None or not isinstance(error, RankcastError):
                journal.abandon()  # the log may be ahead of the state now: only opening it again brings them together
            raise
        return result

    def _apply(self, commands: tuple[Command, ...]) -> CommandResult:
        """Apply commands; only the last of several may lead to anything but a change of subscribers."""
        if len(commands) == 1:
            return self._core.apply(commands[0])
        for is_new, alike in groupby(commands[:-1], lambda command: isinstance(command, AddSubscriber)):
            if is_new:
                self._core.subscribe(command.subscriber for command in alike if isinstance(command, AddSubscriber))
            else:
                for command in alike:
                    self._core.apply(command)
        return self._core.apply(commands[-1])

    def _hand_over(self, result: CommandResult) -> list[Notification]:
        """Call the subscribers' callbacks and return the notifications; then they are settled.

        Raises CallbackError, once all have been called, when some raised.
        """
        if self._journal is None and not (self._callbacks or self._on_match or self._on_late):
            return result.delivered
        errors: list[Exception] = []
        for callback, argument in self._calls(result):
            try:
                callback(argument)
            except Exception as error:  # noqa: BLE001 (collected, and raised below)
                errors.append(error)
        if self._journal is not None and result.number is not None:
            with self._lock:
                self._journal.settle(result.number)
        if errors:
            raise CallbackError(result.delivered, errors)
        return result.delivered

    def _calls(self, result: CommandResult) -> Iterator[tuple[Callable[[Any], object], object]]:
        """Give the callbacks that are due, each with its argument."""
        if self._on_match is not None:
            for match in result.matches:
                yield self._on_match, match
        if self._on_late is not None:
            for late in result.late:
                yield self._on_late, late
        for note in result.delivered if self._callbacks else ():
            callback = self._callbacks.get(note.subscriber)
            if callback is not None:
                yield callback, note

    def _declare(self, subscribers: Iterable[Subscriber], advertisements: Iterable[Advertisement]) -> None:
        """Add what of the given is unknown and update what differs, all or none."""
        try:
            commands: list[Command] = []
            for subscriber in unique_subscribers(subscribers).values():
                known = self._core.subscribers.get(subscriber.id)
                checked = self._newcomer(subscriber) if known is None else self._under_schema(subscriber)
                if known is None:
                    commands.append(AddSubscriber(checked))
                elif known.subscriber != checked:
                    preference_ranks(checked)
                    commands.append(ChangeSubscriber(checked))
            known_ones = {advertisement.id: advertisement for advertisement in self._core.advertisements.all}
            for wanted in Advertisements(map(self._advertisement, advertisements)).all:
                if wanted != known_ones.get(wanted.id):
                    commands += [RemoveAdvertisement(wanted.id)] if wanted.id in known_ones else []
                    commands.append(AddAdvertisement(wanted))
            if commands:
                recovered = self._recovered
                self._execute(*commands)
                self._recovered = recovered  # these were not the caller's inputs
        except BaseException:
            if self._journal is not None:
                self._journal.abandon()
            raise

    def _newcomer(self, subscriber: Subscriber) -> Subscriber:
        """Return a new subscriber under the schema; raise when it cannot be taken in."""
        subscriber = self._under_schema(subscriber)
        if subscriber.id in self._core.subscribers:
            raise DuplicateIdError(f"there is a subscriber {shown(subscriber.id)} already; use update to change it")
        preference_ranks(subscriber)
        return subscriber

    def _state(self, subscriber: str) -> SubscriberState:
        check_id("subscriber", subscriber)
        state = self._core.subscribers.get(SubscriberId(subscriber))
        if state is None:
            raise UnknownIdError(f"there is no subscriber {shown(subscriber)}")
        return state

    def _queue(self, state: SubscriberState, subscription: str | None) -> ServedQueue:
        """Return the queue that a subscriber's subscriptions share, or that of a subscription with its own policy."""
        name = None if subscription is None else SubscriptionId(subscription)
        if name is not None:
            check_id("subscription", name)
        queues = self._core.serving.queues_of(state.subscriber.id)
        queue = queues.get(name)
        if queue is None:
            own = ", ".join(shown(known) for known in queues if known is not None)
            wanted = "a policy of its own" if name is None else f"a subscription {shown(name)} with a policy of its own"
            raise UnknownIdError(
                f"subscriber {shown(state.subscriber.id)} has no queue for {wanted}; "
                f"subscriptions with their own: {own or 'none'}"
            )
        return queue

    def _under_schema(self, subscriber: Subscriber) -> Subscriber:
        if self._schema is None:
            return subscriber
        for policy in subscriber.policies.values():
            check_attributes(policy, self._schema)
        checked = tuple(subscription.under(self._schema) for subscription in subscriber.subscriptions)
        is_same = all(map(operator.is_, checked, subscriber.subscriptions))
        return subscriber if is_same else structs.replace(subscriber, subscriptions=checked)

    def _now(self, given: datetime | None) -> datetime:
        now: object = self._clock() if given is None else given
        if type(now) is datetime and now.tzinfo is UTC:  # as the clock's are: there is nothing to check
            return now
        now = checked_value(now, "clock" if given is None else "now")
        if not isinstance(now, datetime):
            told = f"clock: {shown(now)}" if given is None else f"now: {shown(given)}"
            raise InvalidEventError(f"{told} is not a time; expected an aware datetime")
        return now

    def _event(
        self,
        event: Event | Mapping[str, Any],
        now: datetime,
        next_id: int,
        taken: Collection[Identity] = (),
        advertisement: str | None = None,
    ) -> tuple[Event, int]:
        """Return an event with its time and in the types of the schema, and what events are numbered from then.

        Plain attributes without an id get the next number that is no id yet, neither of a known event nor `taken`.
        """
        if isinstance(event, Event):
            made = event.stamped(now)
        elif type(event) is dict or isinstance(event, Mapping):
            source = self._source if advertisement is None else self._core.advertisements[advertisement].source
            made = Event.of(event, id=str(next_id), source=source, time=now)
            while (self._core.is_known(made.identity) or made.identity in taken) and event.get("id") is None:
                next_id += 1
                made = replace(made, id=str(next_id))
        else:
            raise InvalidEventError(f"{shown(event)} is not an event; expected an Event or a mapping of attributes")
        return made if self._schema is None else made.conformed(self._schema), next_id


class _PastEvents:
    """Events that are made each time they are gone through, so that none has to be kept; the refused are `rejected`."""

    def __init__(
        self, given: Sequence[Event | Mapping[str, Any]], make: Callable[[Event | Mapping[str, Any], int], Event]
    ) -> None:
        self.rejected: list[RejectedEvent] = []
        self._given = given
        self._make = make

    def __iter__(self) -> Iterator[Event]:
        self.rejected = []
        for index, event in enumerate(self._given):
            try:
                made = self._make(event, index)
            except InvalidEventError as error:
                self.rejected.append(RejectedEvent(index, error))
            else:
                yield made
