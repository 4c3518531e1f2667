"""The state of a hub and what commands do to it: no clock, no lock, no file, no callbacks.

The same commands give the same state and the same notifications every time, which is what lets a log bring a hub back.
A matching index finds which subscriptions an event satisfies; `rankcast.serving` has the subscribers and their queues.
Both begin in plain Python while subscriptions are few, and go over to kernels when these are loaded: nobody waits for a
compiler.

With a `lateness` the core goes by the events' own times: it keeps events back and takes them in order, each at its own
time. Its queues have done what is due before the watermark (see `rankcast.delivery.stream.lateness`); changes act at
the watermark, before all that is due then. Without a lateness an event is taken when it comes, at the hub's time.

Each call that changes a hub becomes one command, and a hub's state is what its commands made of it. A command is
complete and checked: applying it needs no clock, cannot fail, and gives the same state and the same notifications every
time. `outcome` tells what an event would mean if it were published now: filters, rank, and the standing in each queue.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias, assert_never

from msgspec import Struct

from rankcast.compiling import readiness
from rankcast.delivery.rules.forecast import ArrivalResult, Forecast
from rankcast.delivery.rules.policies import handed_over
from rankcast.delivery.stream.lateness import PendingEvent, Remembered, Reordering, ReorderingState
from rankcast.hub.results import Late, Outcome, Standing, Verdict
from rankcast.matching.explain import Explanation, explain
from rankcast.matching.index import FEW, Entry, Index, Run
from rankcast.model.advertisements import Advertisement, AdvertisementId, Advertisements, AudienceLimit
from rankcast.model.events import Event, Identity
from rankcast.model.periods import Period, longest
from rankcast.model.policies import Digest, Notify, OnDemand, Periodic
from rankcast.model.subscriptions import Subscriber, SubscriberId
from rankcast.model.times import EARLIEST, TICK
from rankcast.serving.results import Match, Notification
from rankcast.serving.serving import Serving
from rankcast.serving.subscriber_state import ServedQueue, SubscriberRecord, SubscriberState

MOST_PLAIN = 500
"""Subscriptions that are served in plain Python until the kernels are loaded; more are not to wait for each other."""

REMEMBERED = 100_000
"""Identities remembered at least, to recognise a repeated publication: some 20 MB."""


class PublishEvent(Struct, frozen=True):
    """An event at `now`; `closed` when nothing more comes at that instant; `next_id` what it numbers events from.

    `advertisement` is the one that it belongs to, if any, and `audience` whom it is for, if not for everybody.
    """

    event: Event
    now: datetime
    closed: bool
    next_id: int
    advertisement: AdvertisementId | None = None
    audience: AudienceLimit | None = None


@dataclass(frozen=True, slots=True)
class PublishEvents:
    """Several events, one after the other."""

    publishes: tuple[PublishEvent, ...]


@dataclass(frozen=True, slots=True)
class AddSubscriber:
    """A new subscriber."""

    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class ChangeSubscriber:
    """A known subscriber as it is from now on."""

    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class RemoveSubscriber:
    """The end of a subscriber."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class AddAdvertisement:
    """A new advertisement."""

    advertisement: Advertisement


@dataclass(frozen=True, slots=True)
class RemoveAdvertisement:
    """The end of an advertisement; events that were published before keep whom they are for."""

    advertisement: AdvertisementId


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes to `now`."""

    now: datetime


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the input."""


Command: TypeAlias = (
    PublishEvent
    | PublishEvents
    | AddSubscriber
    | ChangeSubscriber
    | RemoveSubscriber
    | AddAdvertisement
    | RemoveAdvertisement
    | Advance
    | Finish
)


class PendingPublish(NamedTuple):
    """An event that is kept back, and whom it is for."""

    event: Event
    audience: AudienceLimit | None = None


@dataclass(frozen=True, slots=True)
class HubState:
    """Everything a hub remembers, subscribers in the order they came, identities from the one to be forgotten first.

    `waiting` are events kept back until nothing earlier can come, each with its time, in the order in which they are
    given back, and `late` counts those that came too late.
    """

    latest: datetime = EARLIEST
    next_id: int = 1
    seen: tuple[tuple[Identity, datetime], ...] = ()
    subscribers: tuple[SubscriberRecord, ...] = ()
    watermark: datetime = EARLIEST
    waiting: tuple[tuple[datetime, PendingPublish], ...] = ()
    late: int = 0
    advertisements: tuple[Advertisement, ...] = ()


class CommandResult(Struct):
    """What a command led to: what is delivered, what the events that were taken in match, and what came too late.

    `number` is the command's in the journal, if there is one.
    """

    delivered: list[Notification] = []
    matches: list[Match] = []
    late: list[Late] = []
    number: int | None = None


class Core:
    """What a hub remembers. `latest` is its time, which never goes back; `next_id` numbers events that have no id.

    Without `tells_matches` it is left out what the events that are taken in match, which may be very much.
    """

    def __init__(
        self,
        state: HubState,
        lateness: timedelta | None = None,
        run: Run | None = None,
        kernels: bool | None = None,
    ) -> None:
        """Begin from a state; `run` does what takes long (see `Index`), and `tells_matches` can be set to False.

        With `kernels` these are used from the start, or never; otherwise when they are loaded.
        """
        self.latest = state.latest
        self.next_id = state.next_id
        self.late = state.late
        self.tells_matches = True
        few = sum(len(record.subscriber.subscriptions) for record in state.subscribers) <= MOST_PLAIN
        self._kernels = kernels
        self.serving = Serving(columnar=not few if kernels is None else kernels)
        self.advertisements = Advertisements(state.advertisements)
        waiting = tuple(PendingEvent(time, kept.event.identity, kept) for time, kept in state.waiting)
        kept = ReorderingState(state.watermark, waiting)
        self._waiting = None if lateness is None else Reordering(lateness, kept)
        self._seen = Remembered(state.seen)
        self._periods: Counter[Period] = Counter()
        self._span = timedelta(0) if lateness is None else lateness
        entries = [entry for record in state.subscribers for entry in self._enter(record)]
        self._index = Index(entries, run=run, few={None: FEW, True: 0, False: sys.maxsize}[kernels])
        self._reader = self._index.reader()

    def subscribe(self, subscribers: Iterable[Subscriber]) -> None:
        """Take new subscribers in: together they cost less than one by one."""
        if self._kernels is None:
            readiness.request()  # also those that this hub could do without until now
        entries = [entry for subscriber in subscribers for entry in self._enter(SubscriberRecord(subscriber))]
        self._index.add_many(entries)

    def apply(self, command: Command) -> CommandResult:
        """Change the state as a command says; return what that leads to."""
        result = CommandResult()
        match command:
            case PublishEvent():
                self._publish(command, result)
            case PublishEvents():
                for publish in command.publishes:
                    self._publish(publish, result)
            case Advance():
                self._advance(command.now, result, closed=True)
            case Finish():
                self._finish(result)
            case AddSubscriber():
                self.subscribe((command.subscriber,))
            case ChangeSubscriber():
                self._update(command)
            case RemoveSubscriber():
                self._remove(command.subscriber)
            case AddAdvertisement():
                self.advertisements.add(command.advertisement)
            case RemoveAdvertisement():
                self.advertisements.withdraw(command.advertisement)
            case _:
                assert_never(command)
        return result

    @property
    def subscribers(self) -> dict[SubscriberId, SubscriberState]:
        """The subscribers, in the order they came."""
        return self.serving.subscribers

    @property
    def reached(self) -> datetime:
        """How far the queues are: the hub's time or, where events are put in order, the watermark."""
        return self.latest if self._waiting is None else self._waiting.watermark

    @property
    def goes_by_events(self) -> bool:
        """Whether events are put in the order of their own times."""
        return self._waiting is not None

    @property
    def keeps_back(self) -> bool:
        """Whether an event that comes may have to wait for earlier ones."""
        return self._waiting is not None and bool(self._waiting.lateness)

    def lateness_of(self, event: Event, now: datetime) -> Late | None:
        """Return by how much an event that came now would come too late, or None when it would not."""
        waiting = self._waiting
        if waiting is None or event.time is None:
            return None
        reached = max(now, self.latest)
        if event.time >= waiting.watermark and reached - event.time <= waiting.lateness:
            return None
        beyond = max(reached - event.time - waiting.lateness, waiting.watermark - event.time)
        return Late(event, event.time + beyond)

    def _publish(self, command: PublishEvent, result: CommandResult) -> None:
        event = command.event
        self.next_id = command.next_id
        if self._waiting is None:
            self.latest = max(self.latest, command.now)
            if self._remember(event.identity):
                self._take(event, command.audience, self.latest, result, closed=command.closed)
            else:
                result.delivered += self.serving.advance(self.latest, closed=command.closed)
            return
        late = self.lateness_of(event, command.now)
        self._move_on(command.now)
        if late is not None and not self.is_known(event.identity):
            self.next_id += event.id == str(self.next_id)
            self.late += 1
            result.late.append(late)
        elif late is None and (event.identity in self._waiting or self._remember(event.identity)):
            self._waiting.add(event.time or self.latest, event.identity, PendingPublish(event, command.audience))
        self._advance(command.now, result, closed=command.closed)

    def _move_on(self, now: datetime) -> None:
        self.latest = max(self.latest, now)
        if self._waiting is not None:
            self._waiting.move_on(self.latest)

    def _advance(self, now: datetime, result: CommandResult, *, closed: bool) -> None:
        """Let time pass to `now`: take in what was kept back, and let queues do what is due."""
        self._move_on(now)
        for pending in () if self._waiting is None else self._waiting.released():
            self._take(*pending.item, pending.time, result, closed=False)
        if not self.keeps_back:
            result.delivered += self.serving.advance(self.reached, closed=closed)
        elif self.reached > EARLIEST:  # what comes first at the watermark's own instant, a change, may be yet to come
            result.delivered += self.serving.advance(self.reached - TICK, closed=True)

    def _finish(self, result: CommandResult) -> None:
        for pending in () if self._waiting is None else self._waiting.rest():
            self._take(*pending.item, pending.time, result, closed=False)
        result.delivered += self.serving.finish()

    def _take(
        self, event: Event, audience: AudienceLimit | None, now: datetime, result: CommandResult, *, closed: bool
    ) -> None:
        """Let an event arrive at the queues of those whom it interests, or of the k of them that it is for."""
        is_plain = self._kernels is None and not self.serving.is_columnar
        if is_plain and (readiness.loaded() or len(self._index) > MOST_PLAIN):
            self.serving.use_kernels()
        numbers = self._reader.match_one(event.attributes)
        if audience is not None:
            numbers = self.serving.chosen(event, numbers, audience)
        served = self.serving.arrive(event, numbers, now, closed=closed, tell=self.tells_matches)
        if served.notifications:
            result.delivered += served.notifications
        if served.matches:
            result.matches += served.matches

    def _update(self, command: ChangeSubscriber) -> None:
        """Let a subscriber be as it is from now on: what its queues hold is matched and ranked again, or leaves."""
        state = self.subscribers[command.subscriber.id]
        self._count_periods(state, -1)
        for number in state.numbers:
            self._index.remove(number)
        self.serving.update(command.subscriber, self.reached)
        self._count_periods(state, 1)
        self._index.add_many(_entries(state))

    def _remove(self, name: SubscriberId) -> None:
        state = self.serving.unsubscribe(name)
        self._count_periods(state, -1)
        for number in state.numbers:
            self._index.remove(number)

    def _enter(self, record: SubscriberRecord) -> Iterable[Entry]:
        """Take a subscriber in; return its subscriptions for the index."""
        state = self.serving.subscribe(record)
        self._count_periods(state, 1)
        return _entries(state)

    def state(self) -> HubState:
        """Return everything that is remembered."""
        waiting: ReorderingState[PendingPublish] = ReorderingState() if self._waiting is None else self._waiting.state()
        held = tuple((pending.time, pending.item) for pending in waiting.waiting)
        return HubState(
            self.latest,
            self.next_id,
            self._seen.state(),
            tuple(self.serving.records()),
            waiting.watermark,
            held,
            self.late,
            self.advertisements.all,
        )

    def is_known(self, identity: Identity) -> bool:
        """Whether an event of this identity was published, as far as the hub remembers."""
        return identity in self._seen.known or (self._waiting is not None and identity in self._waiting)

    def matches(self, event: Event) -> list[Match]:
        """Return whom an event interests and how much, in the order subscribers came."""
        return self.serving.matches(event, self._reader.match_one(event.attributes).tolist())

    def place(self, event: Event, audience: AudienceLimit, state: SubscriberState) -> int | None:
        """Return a subscriber's place among all whom an event interests, as its publisher ranks them."""
        return self.serving.place(event, self._reader.match_one(event.attributes), audience, state)

    def _remember(self, identity: Identity) -> bool:
        """Remember an identity, for at least as long as periods and lateness last; return whether it was new."""
        if self.is_known(identity):
            return False
        self._seen.add(identity, self.latest)
        self.next_id += identity.id == str(self.next_id)
        self._seen.forget(self.latest, at_least=REMEMBERED, span=self._span)
        return True

    def _count_periods(self, state: SubscriberState, change: int) -> None:
        """Keep count of the periods after which repetitions may be forgotten; windows remember what they hold."""
        for policy in state.subscriber.policies.values():
            if isinstance(policy, Periodic):
                self._periods[policy.period] += change
                if not self._periods[policy.period]:
                    del self._periods[policy.period]
                lateness = timedelta(0) if self._waiting is None else self._waiting.lateness
                span = max(map(longest, self._periods), default=timedelta(0))
                self._span = span + min(lateness, timedelta.max - span)


def _entries(state: SubscriberState) -> list[Entry]:
    owned = zip(state.numbers, state.subscriber.subscriptions, strict=True)
    return [Entry.of(number, held.filter, held.active_from, held.active_until) for number, held in owned]


def outcome(
    core: Core, state: SubscriberState, event: Event, now: datetime, audience: AudienceLimit | None = None
) -> Outcome:
    """Return the outcome for a subscriber's queue, with those of the queues of single subscriptions; change nothing."""
    explanations = tuple(explain(event, subscription) for subscription in state.subscriber.subscriptions)
    queues = core.serving.queues_of(state.subscriber.id).values()
    place = None if audience is None else core.place(event, audience, state)
    standing = None if audience is None or place is None else Standing(place, audience.k)
    first, *others = (_queue_outcome(core, queue, event, explanations, now, standing) for queue in queues)
    return replace(first, explanations=explanations, others=tuple(others))


def _queue_outcome(
    core: Core,
    queue: ServedQueue,
    event: Event,
    explanations: tuple[Explanation, ...],
    now: datetime,
    standing: Standing | None,
) -> Outcome:
    subscriber = queue.owner.subscriber
    wanted = tuple(at for at, _ in queue.owner.competing(queue.subscription) if explanations[at].matched)
    found = Outcome(subscriber.id, (), None, Verdict.NO_MATCH, subscription=queue.subscription, decay=subscriber.decay)
    found = replace(found, standing=standing)
    ranked = queue.ranked(event, wanted) if wanted else None
    if ranked is None:
        return replace(found, verdict=Verdict.NO_RELEVANCE) if wanted else found
    late = core.lateness_of(event, now)
    unseen = _not_seen(core, queue, event, late, max(now, core.latest))
    if unseen in (None, Verdict.HELD) and standing is not None and standing.place > standing.k:
        unseen = Verdict.NOT_CHOSEN
    if unseen is not None:
        return replace(found, rank=ranked.rank, verdict=unseen, late=late)
    ahead = core.serving.outlook(queue, event, ranked, max(now, core.latest))
    competitor = None if ahead.competitor is None else core.serving.match_of(queue, ahead.competitor)
    verdict, used, moment = _verdict(ahead, subscriber.notify), None, max(now, core.latest)
    if verdict in (Verdict.DELIVERED, Verdict.WAITING, Verdict.IN_DIGEST):
        due = handed_over(subscriber.handover, queue.policy, ahead.decided or moment)
        if queue.owner.is_muted_at(due):
            verdict = Verdict.MUTED
        elif verdict is Verdict.DELIVERED:
            used = core.serving.used_up(queue, event, ahead, moment)
            verdict = verdict if used is None else Verdict.CAPPED
        else:
            found = replace(found, handed_over=due, caps=queue.policy.at_most)
    found = replace(found, cap=used, muted_until=subscriber.muted_until)
    return replace(found, rank=ranked.rank, verdict=verdict, outlook=ahead, competitor=competitor)


def _not_seen(core: Core, queue: ServedQueue, event: Event, late: Late | None, now: datetime) -> Verdict | None:
    """Return why a match that came now would not reach its queue now, or None when it would."""
    taken = event.time if core.goes_by_events and event.time is not None else now
    if core.is_known(event.identity) or core.serving.holds(queue, event.identity, taken):
        return Verdict.REPEATED
    if late is not None:
        return Verdict.LATE
    return Verdict.HELD if core.keeps_back else None


def _verdict(ahead: Forecast, notify: Notify) -> Verdict:
    """Return what becomes of an event for one who is notified in some way; a list to be read has the best k only."""
    fate = ahead.fate
    if isinstance(notify, OnDemand) and fate in (ArrivalResult.DELIVERED, ArrivalResult.WAITING, ArrivalResult.TIED):
        is_listed = ahead.k is None or (ahead.place is not None and ahead.place <= ahead.k)
        return Verdict.ON_DEMAND if is_listed else Verdict.OUTRANKED
    return Verdict.IN_DIGEST if isinstance(notify, Digest) and fate is ArrivalResult.DELIVERED else Verdict(fate.value)
