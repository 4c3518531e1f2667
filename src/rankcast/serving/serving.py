"""Subscribers and their queues: events come for subscriptions, and notifications go out when they are due.

    serving.subscribe(SubscriberRecord(subscriber))
    found = serving.arrive(event, numbers, now, closed=True)   # numbers of subscriptions that the event matches
    found = serving.advance(now, closed=True)                  # time passes without an event

Each subscription has a number, under which its owner keeps it in a matching index or a routing table. An event that
matches some is ranked for their subscribers (`ranking`) and offered to their queues (`queues`): one call of the engine
for all of them. What is rare (a change, a list read on demand, what would become of an event) is done by the step
functions on a queue as they know it.

Time never goes back. What is handed over comes in the order of its instants, and of one instant as subscribers came.
Cost: of an event that of its matches, some microseconds for each delivery; see the engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count, repeat
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import content_for
from rankcast.delivery.engine.queue_table import DeliveredRows
from rankcast.delivery.rules.caps import UsedCap, changed_counts, counted, used_up
from rankcast.delivery.rules.forecast import Forecast, outlook
from rankcast.delivery.rules.policies import changed_queue, current, renamed_queue
from rankcast.delivery.rules.queues import Candidate, Queue
from rankcast.delivery.stream.matched_sets import CODE_BITS, CODES, SETS
from rankcast.matching.naive import matches as is_matched
from rankcast.model.advertisements import AudienceLimit
from rankcast.model.events import Event, Identity
from rankcast.model.policies import ALL_MATCHES, AtOnce, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.model.times import LATEST, instant_of, microseconds
from rankcast.model.values import AttributeValue
from rankcast.ranking.preferences import Preferences, Ranked
from rankcast.serving.held_events import DISCARDED, HeldEvents, Sweep
from rankcast.serving.queues import NO_ROWS, ColumnarQueues, Queues, ServedRows, SteppedQueues, word_of
from rankcast.serving.ranking import MatchedCodes, SubscriptionRanking
from rankcast.serving.results import Match, Notification
from rankcast.serving.subscriber_state import (
    MOST_QUEUES,
    CapCounter,
    Gathering,
    HeldEvent,
    QueueState,
    ServedQueue,
    SubscriberRecord,
    SubscriberState,
)

NOBODY = SubscriberId("")

MOST_NAMES = 4_096
"""Sets of names that are remembered for subscribers whose subscriptions have the same ids."""


class MatchedNames(dict[int, tuple[SubscriptionId, ...]]):
    """The subscriptions that an event matched, by its code; shared by all subscribers whose ids are the same."""

    def __init__(self, ids: tuple[SubscriptionId, ...], codes: MatchedCodes) -> None:
        super().__init__()
        self._ids = ids
        self._codes = codes

    def __missing__(self, code: int) -> tuple[SubscriptionId, ...]:
        found = tuple(self._ids[at] for at in self._codes.positions(code))
        if code < SETS:  # the number of a set may mean another one later
            if len(self) == MOST_NAMES:
                self.clear()
            self[code] = found
        return found


class Recipients:
    """Columns by number of queue: the subscriber, the names of what events match, and where it stands among all.

    `special` are the queues whose notifications need more than that: they have a policy of their own, their ranks
    decay, or they are not handed over at once. `are_in_order` says whether a queue of a higher number always comes
    after one of a lower.
    """

    def __init__(self, codes: MatchedCodes) -> None:
        self.subscribers: list[SubscriberId] = []
        self.names: list[MatchedNames] = []
        self.orders: list[int] = []
        self.special: set[int] = set()
        self.are_in_order = True
        self._codes = codes
        self._nameless = MatchedNames((), codes)
        self._known: WeakValueDictionary[tuple[SubscriptionId, ...], MatchedNames] = WeakValueDictionary()

    def put(self, queue: ServedQueue) -> None:
        """Take a queue in, or what has changed of it."""
        number, owner = queue.number, queue.owner
        while number >= len(self.subscribers):
            self.subscribers.append(NOBODY)
            self.names.append(self._nameless)
            self.orders.append(-1)
        if self.orders[number] != queue.order:
            is_last = number + 1 == len(self.orders)
            self.are_in_order &= is_last and (number == 0 or self.orders[number - 1] < queue.order)
            self.orders[number] = queue.order
        self.subscribers[number] = owner.subscriber.id
        self.names[number] = self._named(tuple(subscription.id for subscription in owner.subscriber.subscriptions))
        is_plain = isinstance(owner.handover, AtOnce) and not queue.decays and queue.subscription is None
        (self.special.discard if is_plain else self.special.add)(number)

    def remove(self, number: int) -> None:
        """Forget a queue."""
        self.subscribers[number], self.names[number] = NOBODY, self._nameless
        self.special.discard(number)

    def _named(self, ids: tuple[SubscriptionId, ...]) -> MatchedNames:
        found = self._known.get(ids)
        if found is None:
            found = self._known[ids] = MatchedNames(ids, self._codes)
        return found


class Served(Struct):
    """What an event or the passing of time led to: what is handed over and, if asked for, what was matched."""

    notifications: list[Notification] = []
    matches: list[Match] = []


class Serving:
    """The subscribers of one engine."""

    def __init__(self, *, columnar: bool = True) -> None:
        """Begin without subscribers, in the columnar engine or, until `use_kernels`, by the step functions."""
        self.subscribers: dict[SubscriberId, SubscriberState] = {}
        self._queues_of: dict[SubscriberId, dict[SubscriptionId | None, ServedQueue]] = {}
        self._events = HeldEvents()
        self._codes = MatchedCodes()
        self._ranking = SubscriptionRanking(self._codes)
        self._served: list[ServedQueue | None] = []
        self._recipients = Recipients(self._codes)
        self._free: list[int] = []
        self._places = count()
        self._handovers: list[tuple[datetime, int, SubscriberId]] = []
        self._limited: dict[int, ServedQueue] = {}
        self._capped: dict[int, CapCounter] = {}
        self._sweep: Sweep | None = None
        self._gathered = Gathering()
        self._left = 0
        self._is_columnar = columnar
        self._queues: Queues = (ColumnarQueues if columnar else SteppedQueues)(self._attributes_of)

    @property
    def is_columnar(self) -> bool:
        """Whether the queues are in the columnar engine."""
        return self._is_columnar

    def use_kernels(self) -> None:
        """Go on in the columnar engine."""
        if self._is_columnar:
            return
        before, after = self._queues, ColumnarQueues(self._attributes_of)
        for number, served in enumerate(self._served):
            after.add(number, ALL_MATCHES if served is None else served.policy)
            if served is not None:
                after.put(number, before.get(number, served.policy), served.policy)
        self._queues, self._is_columnar = after, True

    def _attributes_of(self, word: int) -> Mapping[str, AttributeValue]:
        return self._events[word].attributes

    # -------------------------------------------------------------------------------------------------- subscribers

    def subscribe(self, record: SubscriberRecord) -> SubscriberState:
        """Take a subscriber in, new or with all that was kept of it."""
        subscriber = record.subscriber
        state = SubscriberState(
            next(self._places),
            subscriber,
            Preferences.of(subscriber),
            subscriber.handover,
            capped=record.withheld.capped,
            muted=record.withheld.muted,
        )
        self._gathered.put(subscriber.id, record.gathered)
        self.subscribers[subscriber.id], self._queues_of[subscriber.id] = state, {}
        kept = {queue.subscription: queue for queue in record.queues}
        policies = subscriber.policies
        for name, policy in policies.items():
            self._open(state, name, policy, kept.get(name))
        self._set_handover(state)
        self._put_in_order(state, policies)
        self._ranking.add(state, self._queues_of[subscriber.id])
        return state

    def unsubscribe(self, subscriber: SubscriberId) -> SubscriberState:
        """Forget a subscriber, with everything held for it; return what it was."""
        state = self.subscribers.pop(subscriber)
        self._ranking.remove(state)
        for queue in self._queues_of.pop(subscriber).values():
            self._close(queue)
        self._gathered.put(subscriber, ())
        self._set_handover(state)
        self._note_departure()
        return state

    def update(self, after: Subscriber, now: datetime) -> SubscriberState:
        """Let a subscriber be as it is from now on: what its queues hold is matched and ranked again, or leaves.

        Its subscriptions have other numbers then.
        """
        state = self.subscribers[after.id]
        self._ranking.remove(state)
        state.subscriber, state.preferences, state.handover = after, Preferences.of(after), after.handover
        policies, queues = after.policies, self._queues_of[after.id]
        for name in [name for name in queues if name not in policies]:
            self._close(queues.pop(name))
        waiting = self._gathered.of(after.id)
        self._gathered.put(after.id, [note for note in waiting if note.subscription in policies])
        self._set_handover(state)
        for name, policy in policies.items():
            queue = queues.get(name)
            if queue is None:
                self._open(state, name, policy, None)
            else:
                self._change(queue, policy, now)
        self._put_in_order(state, policies)
        self._ranking.add(state, self._queues_of[after.id])
        self._note_departure()
        return state

    def queues_of(self, subscriber: SubscriberId) -> Mapping[SubscriptionId | None, ServedQueue]:
        """Return the queues of a subscriber, in the order of its policies; the one that is shared is under None."""
        return self._queues_of[subscriber]

    def _open(
        self, state: SubscriberState, name: SubscriptionId | None, policy: Policy, kept: QueueState | None
    ) -> None:
        """Give a subscriber a queue."""
        number = self._free.pop() if self._free else len(self._served)
        caps = changed_counts(() if kept is None else kept.caps, policy.at_most)
        queue = self._queues_of[state.subscriber.id][name] = ServedQueue(
            number, state, name, policy, list(map(CapCounter.of, caps))
        )
        self._served[number : number + 1] = [queue]
        self._queues.add(number, policy)
        if kept is not None:
            self._restore(queue, kept)

    def _close(self, queue: ServedQueue) -> None:
        self._left += len(self._queues.held(queue.number, queue.number + 1))
        self._queues.remove(queue.number)
        self._served[queue.number] = None
        self._recipients.remove(queue.number)
        self._limited.pop(queue.number, None)
        self._capped.pop(queue.number, None)
        self._free.append(queue.number)

    def _put_in_order(self, state: SubscriberState, policies: Iterable[SubscriptionId | None]) -> None:
        """Put a subscriber's queues in the order of its policies."""
        before = self._queues_of[state.subscriber.id]
        queues = self._queues_of[state.subscriber.id] = {name: before[name] for name in policies}
        for position, queue in enumerate(queues.values()):
            queue.order = state.place * MOST_QUEUES + position
            self._recipients.put(queue)
            self._limit(queue)

    def _limit(self, queue: ServedQueue) -> None:
        """Note what may withhold what a queue delivers: nothing, one cap as most have it, or whatever else."""
        self._limited.pop(queue.number, None)
        self._capped.pop(queue.number, None)
        counter = queue.only_cap
        if counter is not None:
            self._capped[queue.number] = counter
        elif queue.is_limited:
            self._limited[queue.number] = queue

    def _change(self, queue: ServedQueue, policy: Policy, now: datetime) -> None:
        """Let a queue have another policy, and match and rank what it holds again."""
        held = self._queue(queue)
        self._left += len(held.held)
        queue.follow(policy)
        competing = list(queue.owner.competing(queue.subscription))

        def rerank(candidate: Candidate) -> Candidate | None:
            word = word_of(candidate)
            event = self._events[word]
            positions = tuple(at for at, one in competing if is_matched(one, event))
            ranked = queue.ranked(event, positions) if positions else None
            if ranked is None:
                return None
            code = self._ranking.code(queue, ranked.matched, positions)
            score = queue.owner.preferences.score(ranked.rank, candidate.time)
            content = content_for(policy, event.attributes)
            return replace(candidate, identity=word >> CODE_BITS << CODE_BITS | code, score=score, content=content)

        self._queues.put(queue.number, changed_queue(held, policy, now, rerank), policy)

    # -------------------------------------------------------------------------------------------------------- events

    def arrive(self, event: Event, numbers: Array, now: datetime, *, closed: bool, tell: bool = False) -> Served:
        """Let time pass to `now` and an event arrive that matches some subscriptions, each named once.

        With `closed`, nothing more arrives at `now`. With `tell`, what the event matches is told too.
        """
        served, moment = Served(), microseconds(now)
        if not len(numbers):
            self._finish(served, self._queues.arrive(NO_ROWS, moment, moment, closed=closed), now, moment)
            if self._sweep is not None:
                self._sweep_on()
            return served
        time = moment if event.time is None or event.time is now else microseconds(event.time)
        number = self._take_in(event, time)
        rows = self._ranking.rows(event, numbers, number << CODE_BITS, time, by_kernel=self._is_columnar)
        if self._events.have_repetitions:
            earlier = set(self._events.numbers(event.identity)) - {number}
            rows = self._without_held(rows, earlier, now) if earlier else rows
        if tell:
            served.matches = self._told(event, rows)
        delivered = self._queues.arrive(rows, time, moment, closed=closed)
        if delivered.queue or self._handovers:
            self._finish(served, delivered, now, moment)
        if self._sweep is not None or self._events.are_many or self._codes.are_many:
            self._sweep_on()
        return served

    def chosen(self, event: Event, numbers: Array, audience: AudienceLimit) -> Array:
        """Return those of the subscriptions that an event matches whose subscribers are among the k that it is for.

        All of them: what a chosen subscriber makes of the event does not depend on who chose.
        """
        if not len(numbers):
            return numbers
        best = self._ranking.best(event, numbers, audience.ranking, audience.k, by_kernel=self._is_columnar)
        return self._ranking.of_same(numbers, best)

    def place(self, event: Event, numbers: Array, audience: AudienceLimit, state: SubscriberState) -> int | None:
        """Return a subscriber's place among all whom an event interests; None when it interests it not."""
        order = self._ranking.best(event, numbers, audience.ranking, len(numbers), by_kernel=self._is_columnar)
        return next((place for place, number in enumerate(order.tolist(), 1) if number in state.numbers), None)

    def advance(self, now: datetime, *, closed: bool) -> list[Notification]:
        """Let time pass to `now`; return what is handed over by itself."""
        served, moment = Served(), microseconds(now)
        if self._handovers or self._queues.next_due is not None:
            self._finish(served, self._queues.arrive(NO_ROWS, moment, moment, closed=closed), now, moment)
        if self._sweep is not None:
            self._sweep_on()
        return served.notifications

    def finish(self) -> list[Notification]:
        """End the input: complete open periods and windows as if time went on for ever."""
        served, moment = Served(), microseconds(LATEST)
        self._finish(served, self._queues.arrive(NO_ROWS, 0, moment, closed=True), LATEST, moment)
        return served.notifications

    @property
    def next_instant(self) -> datetime | None:
        """When a queue may have something to do by itself, or a digest is to be handed over."""
        due = self._queues.next_due
        instants = [] if due is None else [instant_of(due)]
        if self._handovers:
            instants.append(self._handovers[0][0])
        return min(instants, default=None)

    def matches(self, event: Event, numbers: Iterable[int]) -> list[Match]:
        """Return whom an event interests and how much, in the order subscribers came; nothing is delivered."""
        found = []
        for queue, positions in sorted(self._ranking.grouped(numbers).items(), key=_queue_order):
            ranked = queue.ranked(event, positions)
            if ranked is not None:
                found.append(queue.match(event, ranked))
        return found

    def _without_held(self, rows: ServedRows, earlier: set[int], now: datetime) -> ServedRows:
        """Leave out the queues that hold an event of the same identity."""
        return rows.chosen(np.array([not self._holds(queue, earlier, now) for queue in rows.queue.tolist()], bool))

    def _holds(self, number: int, events: set[int], now: datetime) -> bool:
        queue = self._served[number]
        assert queue is not None
        held = self._queue(queue).held_at(now)
        return any(word_of(candidate) >> CODE_BITS in events for candidate in held)

    def _told(self, event: Event, rows: ServedRows) -> list[Match]:
        """Return the matches of rows."""
        found = []
        for number, word, _, score in rows.columns:
            queue = self._served[number]
            assert queue is not None
            ranked = Ranked(self._rank(queue, event, word, score), self._matched(queue, word))
            found.append((queue.order, queue.match(event, ranked)))
        return [match for _, match in sorted(found, key=lambda one: one[0])]

    def _matched(self, queue: ServedQueue, word: int) -> tuple[SubscriptionId, ...]:
        """Return the subscriptions that rank an event in a queue that knows it."""
        return self._recipients.names[queue.number][word & CODES]

    def _rank(self, queue: ServedQueue, event: Event, word: int, score: float) -> float:
        """Return the rank of an event that a queue knows."""
        if not queue.decays:
            return score
        found = queue.ranked(event, self._codes.positions(word & CODES))
        assert found is not None
        return found.rank

    def _finish(self, served: Served, delivered: DeliveredRows, now: datetime, moment: int) -> None:
        """Hand over what was delivered, and what was gathered until now, which is `moment` as queues count."""
        handed: list[Notification] = []
        is_now = True
        if delivered.queue:
            is_now = delivered.time.count(moment) == len(delivered.time)
            delivered = self._in_order(delivered)
            earlier: list[Notification] = []
            if self._limited or self._capped:
                delivered = self._within_limits(delivered, earlier)
            handed = self._notifications(delivered, now if is_now else None)
            handed += earlier
            is_now &= not earlier
        while self._handovers and self._handovers[0][0] <= now:
            instant, place, name = heapq.heappop(self._handovers)
            state = self.subscribers.get(name)
            if state is not None and state.place == place and state.timer == instant:
                handed += filter(self._is_within_limits, self._gathered.due(name, now))
                self._set_handover(state)
                is_now = False
        if not is_now and len(handed) > 1:
            handed.sort(key=_handed_over)
        served.notifications = handed

    def _within_limits(self, delivered: DeliveredRows, earlier: list[Notification]) -> DeliveredRows:
        """Leave out what caps and subscribers withhold of deliveries, in their order; it counts as withheld.

        What is gathered is judged when it is handed over. Who had digests may have some to come, and be handed the rest
        at once: what comes before that is judged first, and added to `earlier`.
        """
        kept: list[int] = []
        limited, capped = self._limited.get, self._capped.get
        for row, (number, time) in enumerate(zip(delivered.queue, delivered.time, strict=True)):
            counter = capped(number)
            if counter is not None:
                if time >= counter.end:
                    counter.renew(time)
                if counter.used < counter.most:
                    counter.used += 1
                    kept.append(row)
                else:
                    queue = self._served[number]
                    assert queue is not None
                    queue.owner.capped += 1
                continue
            queue = limited(number)
            if queue is not None and queue.owner.timer is not None and isinstance(queue.owner.handover, AtOnce):
                earlier += filter(self._is_within_limits, self._gathered_before(queue, instant_of(time)))
            if (
                queue is None
                or not isinstance(queue.owner.handover, AtOnce)
                or queue.hand_over(self._events[delivered.event[row]], time)
            ):
                kept.append(row)
        if len(kept) == len(delivered.queue):
            return delivered
        queues, words, times, scores = delivered
        return DeliveredRows(
            [queues[row] for row in kept],
            [words[row] for row in kept],
            [times[row] for row in kept],
            [scores[row] for row in kept],
        )

    def _gathered_before(self, queue: ServedQueue, now: datetime) -> list[Notification]:
        """Give up what was gathered of a queue and is due by now."""
        name = queue.owner.subscriber.id
        waiting = self._gathered.of(name)
        due = [note for note in waiting if note.subscription == queue.subscription and note.handed_over <= now]
        if due:
            others = (note for note in waiting if note.subscription != queue.subscription or note.handed_over > now)
            self._gathered.put(name, others)
            self._set_handover(queue.owner)
        return due

    def _is_within_limits(self, note: Notification) -> bool:
        """Whether what was gathered is handed over; else it counts as withheld."""
        queue = self._queues_of[note.subscriber][note.subscription]
        return not queue.is_limited or queue.hand_over(note.event, microseconds(note.handed_over))

    def _notifications(self, delivered: DeliveredRows, now: datetime | None) -> list[Notification]:
        """Return deliveries as notifications to be handed over; all are of this instant, if one is given."""
        queues, words, times, scores = delivered
        subscribers, names, events = self._recipients.subscribers, self._recipients.names, self._events.events
        instants = map(instant_of, times) if now is None else repeat(now)
        made = [
            Notification(subscribers[queue], events[word >> CODE_BITS], score, names[queue][word & CODES], instant)
            for queue, word, score, instant in zip(queues, words, scores, instants)  # noqa: B905 (one may be endless)
        ]
        special = self._recipients.special
        if not special or special.isdisjoint(queues):
            return made
        handed: list[Notification] = []
        for queue, word, note in zip(queues, words, made, strict=True):
            handed += self._hand_over(queue, word, note) if queue in special else (note,)
        return handed

    def _hand_over(self, number: int, word: int, note: Notification) -> list[Notification]:
        """Return what is handed over now of the notification of a queue that is special."""
        queue = self._served[number]
        assert queue is not None
        rank = self._rank(queue, note.event, word, note.rank)
        found = self._gathered.hand_over(
            queue.owner.handover, queue.policy, replace(note, rank=rank, subscription=queue.subscription)
        )
        self._set_handover(queue.owner)
        return found

    def _in_order(self, delivered: DeliveredRows) -> DeliveredRows:
        """Return deliveries as subscribers came."""
        queues = delivered.queue
        orders = queues if self._recipients.are_in_order else [self._recipients.orders[queue] for queue in queues]
        if orders == sorted(orders):
            return delivered
        places = sorted(range(len(orders)), key=orders.__getitem__)
        rows = list(zip(*delivered, strict=True))
        return DeliveredRows(*map(list, zip(*(rows[at] for at in places), strict=True)))

    def _set_handover(self, state: SubscriberState) -> None:
        """Note when a subscriber is handed what is gathered; an older note in the heap no longer counts."""
        waiting = self._gathered.of(state.subscriber.id)
        instant = waiting[0].handed_over if waiting else None
        if instant is not None and instant != state.timer:
            heapq.heappush(self._handovers, (instant, state.place, state.subscriber.id))
        state.timer = instant
        if len(self._handovers) > 2 * len(self.subscribers) + 16:
            states = self.subscribers.values()
            self._handovers = [(own.timer, own.place, own.subscriber.id) for own in states if own.timer is not None]
            heapq.heapify(self._handovers)

    def _note_departure(self) -> None:
        """Take note that queues may have let go of many events: with nobody left, of all."""
        if not self.subscribers:
            self._events, self._sweep = HeldEvents(), None
            self._queues.forget_all()
        elif self._left > len(self._events.events) // 2 + len(self._served) // 16:
            self._left = 0
            self._sweep_on()

    def _sweep_on(self) -> None:
        """Go on to forget the events that no queue holds; see `Sweep`."""
        if self._sweep is None:
            self._sweep = Sweep(self._events.events, len(self._served))
            self._codes.begin_sweep()
        if not self._sweep.has_looked:
            self._sweep.look(self._queues)
        if not self._sweep.has_looked:
            return
        unneeded = self._sweep.unneeded()
        self._events.discard(unneeded)
        self._queues.forget(unneeded)
        if len(unneeded) < DISCARDED:
            self._codes.end_sweep(self._sweep.codes)
            self._events.settle(len(self._served))
            self._sweep = None

    # --------------------------------------------------------------------------------------------- queue by queue

    def holds(self, queue: ServedQueue, identity: Identity, now: datetime) -> bool:
        """Whether a queue holds an event of an identity at an instant, to which time has not passed yet."""
        numbers = self._events.numbers(identity)
        return bool(numbers) and self._holds(queue.number, set(numbers), now)

    def read(self, queue: ServedQueue, now: datetime) -> list[Notification]:
        """Return the current list of a queue, the best first; nothing is changed."""
        found = current(self._queue(queue), now)
        matches = [self.match_of(queue, candidate) for candidate in found]
        return [
            Notification(match.subscriber, match.event, match.rank, match.matched, now, match.subscription)
            for match in matches
        ]

    def match_of(self, queue: ServedQueue, candidate: Candidate) -> Match:
        """Return what an event that a queue holds means there."""
        word = word_of(candidate)
        event = self._events[word]
        return queue.match(event, Ranked(self._rank(queue, event, word, candidate.score), self._matched(queue, word)))

    def outlook(self, queue: ServedQueue, event: Event, ranked: Ranked, now: datetime) -> Forecast:
        """Return what would become of an event that arrived now; nothing is changed."""
        time = event.time or now
        score = queue.owner.preferences.score(ranked.rank, time)
        content = content_for(queue.policy, event.attributes)
        number = self._take_in(event, microseconds(time))
        candidate = Candidate(number << CODE_BITS, time, score, queue.expires(event, ranked, time), content)
        found = outlook(self._queue(queue), candidate, now)
        self._events.discard((number,))
        return found

    def used_up(self, queue: ServedQueue, event: Event, ahead: Forecast, now: datetime) -> UsedCap | None:
        """Return the cap by which an event that a queue would deliver now would be withheld, if there is one."""
        caps = queue.caps
        for earlier in ahead.before:
            attributes = self._events[word_of(earlier.candidate)].attributes
            if not queue.owner.is_muted_at(earlier.time):
                caps = counted(caps, attributes, earlier.time) or caps
        return used_up(caps, event.attributes, now)

    def _queue(self, queue: ServedQueue) -> Queue:
        """Return a queue as the step functions know it."""
        return self._queues.get(queue.number, queue.policy)

    # ------------------------------------------------------------------------------------------------- written down

    def records(self) -> list[SubscriberRecord]:
        """Return all that is known of the subscribers, in the order they came."""
        return [
            SubscriberRecord(
                state.subscriber,
                tuple(map(self._queue_state, self._queues_of[name].values())),
                tuple(self._gathered.of(name)),
                state.withheld,
            )
            for name, state in self.subscribers.items()
        ]

    def _queue_state(self, queue: ServedQueue) -> QueueState:
        found = self._queue(queue)
        matches = [self.match_of(queue, candidate) for candidate in found.held]
        held = tuple(HeldEvent(match.event, match.rank, match.matched) for match in matches)
        places = {candidate.identity: place for place, candidate in enumerate(found.held)}
        return QueueState(queue.subscription, renamed_queue(found, places.__getitem__), held, queue.caps)

    def _restore(self, queue: ServedQueue, kept: QueueState) -> None:
        """Let a queue go on from what was kept of it."""
        self._sweep = None  # these events come into the queue without arriving
        positions = {one.id: at for at, one in enumerate(queue.owner.subscriber.subscriptions)}
        held = list(zip(kept.queue.held, kept.held, strict=True))
        for candidate, own in held:  # all of them first: one that comes in may give others new numbers
            self._take_in_once(own.event, microseconds(candidate.time))
        words: dict[Identity | int, int] = {}
        for candidate, own in held:
            number = self._take_in_once(own.event, microseconds(candidate.time))
            code = self._codes.number(tuple(sorted(positions[name] for name in own.matched)))
            words[candidate.identity] = number << CODE_BITS | code
        self._queues.put(queue.number, renamed_queue(kept.queue, words.__getitem__), queue.policy)

    def _take_in_once(self, event: Event, time: int) -> int:
        """Return the number of an event that was kept: the same for all queues that hold it."""
        for number in self._events.numbers(event.identity):
            if self._events.events[number] == event:
                return number
        return self._take_in(event, time)

    def _take_in(self, event: Event, time: int) -> int:
        """Take an event in; return its number."""
        number, renumbered = self._events.add(event, time)
        if renumbered:
            self._queues.renumber(renumbered)
            if self._sweep is not None:
                self._sweep.renumber(renumbered)
        return number


def _handed_over(note: Notification) -> datetime:
    return note.handed_over


def _queue_order(found: tuple[ServedQueue, object]) -> int:
    return found[0].order
