"""A shard: many queues, and everything that makes their deliveries independent of how rows reach them.

    shard = Shard.of(policies, lateness=...)
    late = shard.take(chunk)             # rows wait; the events that are too late are returned and change nothing
    notices = shard.advance(watermark)   # what is delivered now that nothing before the watermark is to come
    lists = shard.lists(now)             # what can be read on demand at an instant that is over, as far as it changed
    notices = shard.finish()             # the end of the input

Rows wait until the watermark is past their time (time < watermark). Then they are released in the order of (time,
source, id), so that the result does not depend on how rows were divided into chunks, on the order of chunks or on how
often the watermark moved: an engine that waits gives the result of one that sees everything in order.

- An event with a time before the watermark is late, unless it repeats one (`unknown`). All rows of one time are
  released together.
- Of events with one identity the first in that order counts, for all queues: what has the same identity and is newer by
  no more than the allowed lateness is ignored. So all shards decide alike, if all are given all events, with rows for
  their queues or without. Of one identity and time the first variant counts.
- An event is delivered at most once by a queue, which after that time ignores the identities that it holds and, if it
  has periods, those that it has taken in the last period and lateness.
- Changes of queues act in event time (`queue_changes`), and come first at their instant; a change before the watermark
  acts at the watermark. So nothing is done that is due at the watermark itself, such as the end of a period.
- What is for a digest (`handovers`) waits until the watermark is past that; who has gone by then gets none of it.
- Caps and subscribers who are muted withhold what falls due (`withheld`); a change of either acts at its time.
- `to_bytes` packs all state, waiting rows included; what `from_bytes` returns goes on as if nothing had happened. It
  refuses bytes of another kind, damaged or contradicting themselves. They have, as arrays:

      queues.*      the queue table, if it is packed: it may be left in memory (`to_live`)
      known.*       the events that were released and may still be needed
      waiting.*     rows that wait, all that are written down together
      dense0.* ...  rows that wait and are not written down, each part as a match batch
      changes.*     changes of queues that are still to come
      caps.*        what has counted in the caps of queues, if there are any
      gathered.*    deliveries that wait for their digest

Cost: a counting sort of what is released, one kernel call for the queues; no Python per row. Rows that repeat an
identity with another time, and changes, split a release into rounds: a call each, however many queues take part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import structs

from rankcast.arrays import Array
from rankcast.containers.container import pack, prefixed, under, unpack
from rankcast.containers.expectations import Column, Columns, Range, below, check, fail_where
from rankcast.delivery.engine.caps import CapTable
from rankcast.delivery.engine.contents import Contents
from rankcast.delivery.engine.layout import GONE, HELD, LINE, PERIODIC
from rankcast.delivery.engine.queue_table import ArrivalRows, Deliveries, Live, QueueTable
from rankcast.delivery.rules.policies import changed_queue
from rankcast.delivery.rules.queues import Candidate
from rankcast.delivery.stream.batches import SET_COLUMNS, DeliveryBatch, ListBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import PLAIN, Handover, Handovers
from rankcast.delivery.stream.kernels import first_due, mark_held, recognised, rows_in_order, without_repeats
from rankcast.delivery.stream.known_events import NONE, KnownEvents, RecentArrivals, recalled, repeats_known
from rankcast.delivery.stream.matched_sets import CODE_BITS, CODES, SETS, MatchedSets
from rankcast.delivery.stream.queue_changes import (
    QueueChange,
    Reranking,
    changes_from_arrays,
    changes_to_arrays,
    check_change,
)
from rankcast.delivery.stream.unfiltered import NO_ROWS, MatchRows
from rankcast.delivery.stream.waiting_rows import PendingRows, release_steps, rounds_of
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import ALL_MATCHES, OnDemand, Policy, attributes_counted, diversity_of
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER, instant_of

KIND, VERSION = "shard", 5

_NO_NUMBERS = np.zeros(0, np.int64)
NO_ARRIVALS = ArrivalRows(_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, np.zeros(0))
_NONE = NO_ROWS
NO_NOTICES = DeliveryBatch(EventTable.empty(), _NONE.queue, _NONE.event, _NONE.expires, _NONE.score, _NONE.matched)

OWN: Columns = {
    "recall": Column(np.int64, "queues", Range()),
    "gone": Column(np.bool_, "queues"),
    "taken.numbers": Column(np.int64, "taken", Range()),
    "taken.queues": Column(np.int32, "taken", below("queues")),
    "handover": Column(np.int32, "queues", below("ways"), is_optional=True),
    "listed": Column(np.int64, "queues", is_optional=True),
    **SET_COLUMNS,
}
"""What is expected of the arrays that no part of the state brings along."""

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 63 - CODE_BITS)]


class _About(msgspec.Struct, forbid_unknown_fields=True):
    watermark: Annotated[int, msgspec.Meta(ge=FIRST_INSTANT, le=LAST_INSTANT + 1)]
    lateness: Annotated[int, msgspec.Meta(ge=0)]
    version: int
    needed: _Count
    next_number: _Count
    dense: _Count
    handovers: list[Any]


FEWEST_KNOWN = 10_000
"""Events are forgotten when there are twice as many as were needed the last time, and this many more."""


@dataclasses.dataclass(slots=True)
class _Delivered:
    """What is delivered while time passes.

    A notice says what an event was when it was delivered, and when it is handed over. So where a queue changes that,
    notices are made first of what it has delivered by then; `handed_over` are those that have left caps behind.
    """

    found: list[Deliveries] = dataclasses.field(default_factory=list)
    handed_over: list[DeliveryBatch] = dataclasses.field(default_factory=list)

    def add(self, part: Deliveries) -> None:
        """Take deliveries in; most of what happens while time passes leads to none."""
        if len(part.queue):
            self.found.append(part)

    def taken(self, queues: Array) -> Deliveries | None:
        """Give up the deliveries of some queues that no notices were made of; None when there are none."""
        if not any(np.isin(part.queue, queues).any() for part in self.found):
            return None
        together = Deliveries(*(np.concatenate(columns) for columns in zip(*self.found, strict=True)))
        is_taken = np.isin(together.queue, queues)
        self.found = []
        self.add(Deliveries(*(column[~is_taken] for column in together)))
        return Deliveries(*(column[is_taken] for column in together))


class Shard:
    """Queues numbered from 0, with the rows that wait for them. Belongs to one thread at a time.

    >>> from rankcast.delivery.stream.event_tables import Ragged
    >>> from rankcast.model.policies import Sliding
    >>> shard = Shard.of([Sliding(k=1, window=2)])
    >>> events = EventTable.of(np.array([7, 5]), Ragged.of_texts(["s", "s"]), Ragged.of_texts(["b", "a"]))
    >>> zeros, never = np.zeros(2, np.int32), np.full(2, NEVER)
    >>> late = shard.take(MatchBatch(events, zeros, np.array([0, 1]), np.array([0.3, 0.9]), never, zeros))
    >>> len(shard.advance(5)), shard.advance(8).events.id.texts()
    (0, ['a'])
    """

    def __init__(self, queues: QueueTable, recall: Array, lateness: int, handovers: Handovers, caps: CapTable) -> None:
        self._queues = queues
        self._handovers = handovers
        self._caps = caps
        self._gathered = NO_NOTICES
        self._listed = np.zeros(len(recall), np.int64)
        self._recall = recall
        self._gone = np.zeros(len(recall), bool)
        self._lateness = lateness
        self._watermark = FIRST_INSTANT
        self._waiting: list[PendingRows] = []
        self._known = KnownEvents.none()
        self._needed = 0
        self._taken = RecentArrivals.none()
        self._sets = MatchedSets()
        self._changes: list[QueueChange] = []
        self.version = 0
        self.reranking: Reranking | None = None
        """What ranks again what queues hold, where a change asks for that; without it ranks stay what they are."""
        self.repeated = 0
        """How many repetitions were ignored since the shard was made or brought back."""
        self.capped, self.muted = 0, 0
        """How many deliveries were withheld since then."""

    @classmethod
    def of(
        cls, policies: Iterable[Policy], *, handovers: Iterable[Handover] = (), lateness: int = 0, version: int = 0
    ) -> Self:
        """Return a shard whose queues have seen nothing; the lateness is in microseconds.

        `handovers` says how each queue is handed over; without it, all at once and always. `version` is the caller's:
        which version of the subscribers the queues are of.
        """
        listed = list(policies)
        if lateness < 0:
            raise InvalidValueError(f"lateness: {lateness} microseconds; expected at least 0")
        recall = np.array([recalled(policy, lateness) for policy in listed], np.int64)
        ways = Handovers.of(list(handovers) or [PLAIN] * len(listed))
        made = cls(QueueTable.of(listed), recall, lateness, ways, CapTable.of(listed))
        made.version = version
        return made

    def __len__(self) -> int:
        """How many queues there are."""
        return len(self._queues)

    @property
    def lateness(self) -> int:
        """How much later than others an event may come, in microseconds."""
        return self._lateness

    @property
    def watermark(self) -> int:
        """Nothing before this time is taken any more."""
        return self._watermark

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return sum(map(len, self._waiting))

    @property
    def known(self) -> int:
        """How many released events are kept."""
        return len(self._known)

    @property
    def nbytes(self) -> int:
        """About what the queues, which are most of the state, take in memory."""
        return self._queues.nbytes

    @property
    def next_watermark(self) -> int | None:
        """The lowest watermark at which the shard has something to do; None when only more input changes that."""
        first = first_due(self._queues.arrays[0])
        for part in self._waiting:
            if len(part):
                first = min(first, part.first_time + 1)
        if len(self._gathered):
            first = min(first, self._gathered.instants.min() + 1)
        return None if first == NEVER else int(first)

    def take(self, chunk: MatchBatch) -> EventTable:
        """Let rows wait for their time. Return the late events, if the chunk is the one to report them."""
        if chunk.last_queue >= len(self):
            raise InvalidEventError(f"there is no queue {chunk.last_queue}; expected 0 to {len(self) - 1}")
        if chunk.version < 0 and chunk.version != self.version:  # a fingerprint of subscribers that do not change
            raise InvalidEventError(
                "the state of the delivery belongs to other subscribers; go on with those that it began with, in the "
                "same order, begin again, or keep them in a table whose changes are followed"
            )
        is_late = chunk.events.time < self._watermark
        if not is_late.all():
            matched = self._sets.import_numbers(chunk.matched, chunk.sets)
            self._waiting.append(PendingRows.of(chunk, matched).of_events(~is_late))
        return chunk.events.taken(np.flatnonzero(is_late)) if chunk.reports_late else EventTable.empty()

    def unknown(self, late: EventTable) -> EventTable:
        """Return those of some late events that do not repeat what was released lately, or waits.

        Lately means within the allowed lateness before the watermark: so all shards say the same.
        """
        if not len(late):
            return late
        recent = np.flatnonzero(self._known.events.time >= self._watermark - self._lateness)
        parts = [self._known.events.taken(recent), *(part.events for part in self._waiting)]
        known = EventTable.joined(parts)
        return late.taken(np.flatnonzero(~repeats_known(known, late)))

    def change(self, changes: Iterable[QueueChange], *, since: int | None = None) -> int:
        """Let queues change at their times; return how many of the changes come too late and act at the watermark.

        A queue that is not there yet is added, with all before it; it has its policy from its first change. With
        `since`, what was planned for that time or later and has not happened is dropped: the changes replace it.
        """
        listed, late = list(changes), 0
        for change in listed:
            check_change(change)
        if since is not None:
            self._changes = [change for change in self._changes if change.time < since]
        for change in listed:
            if change.queue >= len(self):
                self._grow(change)
            late += change.time < self._watermark and change.time > FIRST_INSTANT
            self._changes.append(change._replace(time=max(change.time, self._watermark)))
        self._changes.sort(key=lambda change: change.time)
        return late

    def advance(self, watermark: int) -> DeliveryBatch:
        """Release the rows before a watermark; return what is delivered before it."""
        if watermark <= self._watermark:
            return self._notices([])
        delivered = _Delivered()
        for step in release_steps(self._dense(), self._watermark, watermark):
            self._release(step, delivered)
            self._watermark = step
        return self._settled(delivered)

    @property
    def newest(self) -> int:
        """The newest time of an event that is known or waits; the start of time without any."""
        times = (self._known.events.time, *(part.events.time for part in self._waiting))
        return max(int(part.max(initial=FIRST_INSTANT)) for part in times)

    def lists(self) -> ListBatch | None:
        """Return the lists that can be read on demand, as of the last instant that is over, if they have changed.

        A list has changed when it is not what was returned last. None: nothing is over, or none has changed.
        """
        chosen, now = np.flatnonzero(self._handovers.are(OnDemand)), min(self._watermark - 1, LAST_INSTANT)
        if now < FIRST_INSTANT or not (len(chosen) or self._listed.any()):
            return None
        found = self._queues.lists(chosen, now, self._contents(NO_ARRIVALS, []))
        marks = _marks(found, len(self))
        changed = np.flatnonzero(marks != self._listed)
        self._listed = marks
        kept = np.isin(found.queue, changed)
        entries = self._noticed(Deliveries(*(column[kept] for column in found)))
        return ListBatch(changed, entries, now) if len(changed) else None

    def finish(self) -> DeliveryBatch:
        """End the input: nothing waits any more, open periods and windows are completed."""
        return self.advance(LAST_INSTANT + 1)

    def to_bytes(self) -> bytes:
        """Return the state, packed."""
        self._forget()
        return self._packed(prefixed("queues.", self._queues.to_arrays()))

    @classmethod
    def from_bytes(cls, packed: bytes | memoryview) -> Self:
        """Return a shard that goes on as the one whose state was packed; other bytes are refused."""
        return cls._unpacked(packed, None)

    def to_live(self) -> tuple[Live, bytes]:
        """Return the queues as they are in memory, which is most of the state, and the rest, packed."""
        return self._queues.to_live(), self._packed({})

    @classmethod
    def from_live(cls, live: Live, rest: bytes | memoryview) -> Self:
        """Return a shard that goes on in the same memory as the one that `to_live` was asked of."""
        return cls._unpacked(rest, QueueTable.from_live(live))

    def _packed(self, queues: Mapping[str, Array]) -> bytes:
        """Return all that is not in the queues, and the arrays of these, packed."""
        self._handovers.forget_unused()
        sets, dense = self._sets.to_table(), self._dense()
        numbers = self._needed, self._known.next_number, len(dense)
        about = _About(self._watermark, self._lateness, self.version, *numbers, self._handovers.to_plain())
        arrays: dict[str, Array] = {
            "recall": self._recall,
            "gone": self._gone,
            "taken.numbers": self._taken.numbers,
            "taken.queues": self._taken.queues,
            **sets.to_arrays("sets"),
            **prefixed("changes.", changes_to_arrays(self._changes)),
            **prefixed("known.", self._known.to_arrays()),
            **prefixed("waiting.", _waiting_to_arrays(PendingRows.joined(self._plain()), sets)),
            **(prefixed("gathered.", self._gathered.to_arrays()) if len(self._gathered) else {}),
            **({"handover": self._handovers.number} if self._handovers.number.any() else {}),
            **({"listed": self._listed} if self._listed.any() else {}),
            **(prefixed("caps.", self._caps.to_arrays(self._watermark)) if self._caps else {}),
            **queues,
        }
        for at, part in enumerate(dense):
            arrays |= prefixed(f"dense{at}.", _waiting_to_arrays(part, sets))
        return pack(KIND, VERSION, arrays, msgspec.to_builtins(about))

    @classmethod
    def _unpacked(cls, packed: bytes | memoryview, queues: QueueTable | None) -> Self:
        """Return the shard of packed state, with queues from elsewhere or its own."""
        found = unpack(packed, KIND, VERSION)
        about, arrays = found.about(_About), found.arrays
        own = under("queues.", arrays)
        table = QueueTable.from_arrays(own) if queues is None else queues
        sizes = check(KIND, arrays, OWN, {"queues": len(table), "ways": len(about.handovers)})
        sets = {name: arrays[name] for name in SET_COLUMNS}
        batches = [MatchBatch.from_arrays(under(f"{name}.", arrays) | sets) for name in _parts(about.dense, arrays)]
        none = np.zeros(len(table), np.int64)
        handovers = Handovers.from_plain(arrays.get("handover", none.astype(np.int32)), about.handovers)
        counted = under("caps.", arrays)
        caps = CapTable.from_arrays(counted, len(table)) if counted else CapTable(len(table))
        made = cls(table, arrays["recall"], about.lateness, handovers, caps)
        made._listed = arrays.get("listed", none)
        if gathered := under("gathered.", arrays):
            made._gathered = DeliveryBatch.from_arrays(gathered)
        made._watermark, made.version, made._needed = about.watermark, about.version, about.needed
        made._gone, made._sets = arrays["gone"], MatchedSets.from_table(Ragged.from_arrays("sets", arrays))
        made._taken = RecentArrivals(arrays["taken.numbers"], arrays["taken.queues"])
        made._changes = changes_from_arrays(under("changes.", arrays))
        made._known = KnownEvents.from_arrays(under("known.", arrays), about.next_number)
        made._waiting = [PendingRows.of(batch) for batch in batches if len(batch.events)]
        last = max([*(batch.last_queue for batch in batches), *(change.queue for change in made._changes)], default=-1)
        last = max(last, int(made._gathered.queue.max(initial=-1)))
        if sizes["sets"] > SETS:
            raise InvalidValueError(f"{KIND}: array sets.starts: {sizes['sets']:,} sets; expected at most {SETS:,}")
        if last >= len(table):
            raise InvalidValueError(f"{KIND}: something waits for queue {last:,}; there are {len(table):,}")
        numbers = made._taken.numbers
        fail_where(numbers[1:] < numbers[:-1], f"{KIND}: array taken.numbers: descends")
        _check_known("taken.numbers", numbers, made._known)
        if queues is None:
            _check_held(np.ascontiguousarray(own["held"][:, HELD.event]), made._known, sizes["sets"])
        return made

    def move_to(self, arena: Array) -> None:
        """Go on with the queues' arena in other memory of the same size."""
        self._queues.move_to(arena)

    # ------------------------------------------------------------------------------------------------------- releasing

    def _release(self, watermark: int, delivered: _Delivered) -> None:
        """Let the rows before the watermark arrive, the changes before it happen, and time pass to it."""
        due = self._due(watermark)
        order, repeats = due.events.in_order(due.variant)
        number = np.cumsum(~repeats) - 1
        places = np.empty(len(order), np.int64)
        places[order] = number
        counting = order[~repeats]
        events = due.events.taken(counting)
        first, is_repeated = self._known.release(events)
        if repeats.any():
            due = due.rows_of(due.variant == due.variant[counting][places])
        if is_repeated.any():
            is_ignored = self._ignored(first)
            due, is_repeated = due.rows_of(~is_ignored[places]), is_repeated & ~is_ignored
        self.repeated += int(repeats.sum())
        rows = self._in_order(due.rows, places, len(events))
        words = first + rows.event << CODE_BITS | rows.matched
        batch = ArrivalRows(rows.queue.astype(np.int64), words, events.time[rows.event], rows.expires, rows.score)
        changes = [change for change in self._changes if change.time < watermark]
        self._changes = [change for change in self._changes if change.time >= watermark]
        contents = self._contents(batch, changes)
        if changes or is_repeated.any() or self._gone.any():
            contents = self._in_rounds(batch, changes, is_repeated[rows.event], contents, delivered)
        else:
            self._taken = self._taken.with_rows(batch, self._recall)
            delivered.add(self._queues.take(batch, contents))
        if watermark > LAST_INSTANT:
            delivered.add(self._queues.finish(contents))
        else:
            delivered.add(self._queues.advance_before(watermark, contents))

    def _due(self, watermark: int) -> PendingRows:
        """Take the rows before the watermark from those that wait."""
        due, later = list[PendingRows](), list[PendingRows]()
        for part in [PendingRows.joined(self._plain()), *self._dense()]:
            is_due = part.events.time < watermark
            if not is_due.all():
                later.append(part.of_events(~is_due))
            if is_due.any():
                due.append(part.of_events(is_due))
        self._waiting = later
        return PendingRows.joined(due)

    def _plain(self) -> list[PendingRows]:
        return [part for part in self._waiting if part.dense is None]

    def _dense(self) -> list[PendingRows]:
        """Return the parts that have rows which are not written down."""
        return [part for part in self._waiting if part.dense is not None]

    def _ignored(self, first: int) -> Array:
        """Return which events, released from a number on, repeat one that counts for everybody; forget them."""
        found = self._known.repeat_within(first, self._lateness)
        self.repeated += int(found.sum())
        kept = np.ones(len(self._known), bool)
        kept[len(kept) - len(found) :] = ~found
        self._known.keep(kept)
        return found

    def _in_order(self, rows: MatchRows, places: Array, events: int) -> MatchRows:
        """Return rows by queue and event, each once, with events' places among those that are released."""
        rows = rows._replace(event=places[rows.event])
        order = rows_in_order(rows.queue, rows.event, len(self), events)
        return rows.chosen(without_repeats(order, *rows))

    def _in_rounds(
        self,
        batch: ArrivalRows,
        changes: list[QueueChange],
        is_repeated: Array,
        contents: Contents | None,
        delivered: _Delivered,
    ) -> Contents | None:
        """Let rows arrive up to where a queue changes or a row may be a repetition; do that; go on.

        Returns the contents that are to be compared from then on.
        """
        for happening, chosen in rounds_of(batch, changes, is_repeated):
            self._let_change(happening, contents, delivered)
            if any(change.ranking for change in happening):
                contents = self._contents(batch, changes)
            part = ArrivalRows(*(column[chosen] for column in batch))
            part = self._without_known(part, is_repeated[chosen])
            self._taken = self._taken.with_rows(part, self._recall)
            delivered.add(self._queues.take(part, contents))
        return contents

    def _without_known(self, rows: ArrivalRows, is_repeated: Array) -> ArrivalRows:
        """Leave out rows of queues that are gone, and those that repeat what their queue knows."""
        is_kept = ~self._gone[rows.queue]
        doubtful = np.flatnonzero(is_repeated & is_kept)
        if len(doubtful):
            self._queues.drop_unneeded(np.unique(rows.queue[doubtful]))  # a queue knows what it needs, no more
            earlier = [self._known.earlier(number) for number in (rows.event[doubtful] >> CODE_BITS).tolist()]
            starts = np.cumsum([0, *map(len, earlier)], dtype=np.int64)
            numbers = np.array([number for numbers in earlier for number in numbers], np.int64)
            times = self._known.events.time[self._known.positions(numbers)]
            is_kept[doubtful] = ~recognised(
                *self._queues.arrays,
                rows.queue[doubtful],
                rows.time[doubtful],
                starts,
                numbers,
                times,
                self._recall,
                self._taken.numbers,
                self._taken.queues,
            )
        return rows if is_kept.all() else ArrivalRows(*(column[is_kept] for column in rows))

    def _let_change(self, changes: list[QueueChange], contents: Contents | None, delivered: _Delivered) -> None:
        """Let queues change, each after what is due before its change."""
        for time in sorted({change.time for change in changes}):
            own = [change for change in changes if change.time == time]
            chosen = np.array([change.queue for change in own], np.int64)
            delivered.add(self._queues.advance_before(time, contents, chosen))
            ways = [(change, {change.handover, self._handovers[change.queue]}) for change in own]
            limited = [change.queue for change in own if self._limits(change)]
            plain = {change.queue for change, way in ways if way == {PLAIN} and not change.ranking}.difference(limited)
            self._notice([queue for queue in chosen.tolist() if queue not in plain], delivered)
            if limited:
                delivered.handed_over.append(self._handed_over(time, np.array(limited, np.int64)))
            for change in own:
                self._gone[change.queue] = change.policy is None
                self._handovers[change.queue] = change.handover
                self._caps.change(change.queue, change.policy)
                if change.policy is None:
                    self._queues.clear(change.queue)
                    is_void = (self._gathered.queue == change.queue) & (self._gathered.instants >= time)
                    self._gathered = self._gathered.chosen(np.flatnonzero(~is_void))
                else:
                    self._change(change, change.policy)

    def _limits(self, change: QueueChange) -> bool:
        """Whether something may be withheld of what a queue delivers before a change, or after it."""
        ways = change.handover, self._handovers[change.queue]
        is_capped = self._caps.has(change.queue) or (change.policy is not None and bool(change.policy.at_most))
        return is_capped or any(way.muted_until is not None for way in ways)

    def _change(self, change: QueueChange, policy: Policy) -> None:
        """Let a queue go on under another policy, with what it holds ranked again if the change says how."""
        now = instant_of(change.time)
        reranked = self._reranked(change, policy)
        queue = changed_queue(self._queues.get(change.queue), policy, now, reranked)
        self._queues.put(change.queue, queue, policy)
        self._recall[change.queue] = recalled(policy, self._lateness)
        waiting = np.flatnonzero(self._gathered.queue == change.queue)
        if change.ranking and self.reranking is not None and attributes_counted(policy) and len(waiting):
            rows = self._gathered.chosen(waiting)
            events = self.reranking.ranked(change.ranking, policy, rows.events).events
            counted = dataclasses.replace(rows.events, attributes=events.attributes, values=events.values)
            others = self._gathered.chosen(np.flatnonzero(self._gathered.queue != change.queue))
            self._gathered = DeliveryBatch.joined([others, dataclasses.replace(rows, events=counted)])

    def _reranked(self, change: QueueChange, policy: Policy) -> Callable[[Candidate], Candidate | None] | None:
        """Return how each event that a queue holds is ranked from now on, worked out for all of them together."""
        if not change.ranking or self.reranking is None:
            return None
        self._queues.get(change.queue)  # only what is needed is ranked
        words = self._queues.words(slice(change.queue, change.queue + 1))
        at = self._known.positions(words >> CODE_BITS)
        found = self.reranking.ranked(change.ranking, policy, self._known.events.taken(at))
        self._known.replace(at, found.events)
        again = words >> CODE_BITS << CODE_BITS | self._sets.import_numbers(found.matched, found.sets)
        columns = zip(
            words.tolist(),
            again.tolist(),
            found.score.tolist(),
            found.is_known.tolist(),
            found.is_wanted.tolist(),
            strict=True,
        )
        by_word = {word: (new, score, known, wanted) for word, new, score, known, wanted in columns}

        def rerank(candidate: Candidate) -> Candidate | None:
            assert isinstance(candidate.identity, int)
            word, score, is_known, is_wanted = by_word[candidate.identity]
            if not is_known:
                return candidate
            return structs.replace(candidate, identity=word, score=score) if is_wanted else None

        return rerank

    def _grow(self, change: QueueChange) -> None:
        policies = [ALL_MATCHES] * (change.queue - len(self)) + [change.policy or ALL_MATCHES]
        self._queues.grow(policies)
        self._handovers.grow(len(policies))
        self._caps.grow(len(policies))
        self._listed = np.concatenate([self._listed, np.zeros(len(policies), np.int64)])
        self._recall = np.concatenate([self._recall, [recalled(policy, self._lateness) for policy in policies]])
        self._gone = np.concatenate([self._gone, np.array([*[True] * (len(policies) - 1), False])])

    def _contents(self, rows: ArrivalRows, changes: list[QueueChange]) -> Contents | None:
        """Return what diverse selection compares, by every word that an event has in a queue that diversifies."""
        diversifies = self._queues.arrays[0][:, LINE.setting] > 0
        for change in changes:
            diversifies[change.queue] |= change.policy is not None and diversity_of(change.policy) is not None
        if not diversifies.any():
            return None
        own = rows.event[diversifies[rows.queue]]
        words = np.unique(np.concatenate([self._queues.words(diversifies), own]))
        at = self._known.positions(words >> CODE_BITS)
        attributes, values = self._known.events.attributes.taken(at), self._known.events.values.taken(at)
        return Contents(words, attributes.starts, attributes.values, values.values)

    # --------------------------------------------------------------------------------------------- what is kept of it

    def _settled(self, delivered: _Delivered) -> DeliveryBatch:
        """Return the notices of a release and forget what is no longer needed, once it has become much."""
        notices = self._notices(delivered.found)
        if len(self._gathered) or notices.handed_over is not None or self._caps:
            self._gathered = DeliveryBatch.joined([self._gathered, notices])
            notices = self._handed_over(self._watermark)
        if delivered.handed_over:
            notices = DeliveryBatch.joined([*delivered.handed_over, notices])
        if len(self._known) > 2 * self._needed + FEWEST_KNOWN:
            self._forget()
        return notices

    def _handed_over(self, before: int, queues: Array | None = None) -> DeliveryBatch:
        """Hand over what is due before an instant, of some queues or of all, as far as nothing withholds it."""
        notices = self._gathered
        order = np.lexsort((notices.instants, notices.queue))
        is_due = notices.instants[order] < before
        if queues is not None:
            is_due &= np.isin(notices.queue[order], queues)
        due, self._gathered = notices.chosen(order[is_due]), notices.chosen(order[~is_due])
        is_muted = self._handovers.are_muted(due.queue, due.instants)
        if is_muted.any():
            self.muted += int(is_muted.sum())
            due = due.chosen(np.flatnonzero(~is_muted))
        if not self._caps:
            return due
        attributes, values = due.events.attributes, due.events.values
        contents = Contents(_NO_NUMBERS, attributes.starts, attributes.values, values.values)
        event = due.event.astype(np.int64)
        is_capped = self._caps.hand_over(due.queue.astype(np.int64), due.instants, event, contents)
        self.capped += int(is_capped.sum())
        return due.chosen(np.flatnonzero(~is_capped)) if is_capped.any() else due

    def _notice(self, queues: list[int], delivered: _Delivered) -> None:
        """Make the notices of what some queues have delivered, before they change."""
        found = delivered.taken(np.array(queues, np.int64)) if queues else None
        if found is not None:
            self._gathered = DeliveryBatch.joined([self._gathered, self._notices([found])])

    def _notices(self, found: list[Deliveries]) -> DeliveryBatch:
        """Return what is handed over, now or later, of what was delivered."""
        if not found:
            return NO_NOTICES
        rows = Deliveries(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        if not self._handovers.number.any():
            return self._noticed(rows)
        is_told = ~self._handovers.are(OnDemand)[rows.queue]
        rows = Deliveries(*(column[is_told] for column in rows))
        is_period = self._queues.arrays[0][rows.queue, LINE.kind] == PERIODIC
        return self._noticed(rows, self._handovers.instants(rows.queue, is_period, rows.time))

    def _noticed(self, rows: Deliveries, handed_over: Array | None = None) -> DeliveryBatch:
        queue, word, time, score = rows
        order = np.argsort(queue, kind="stable") if (np.diff(queue) < 0).any() else slice(None)
        queue, word, time, score = (column[order] for column in (queue, word, time, score))
        matched, sets = self._sets.export_numbers(word & CODES)
        events, event = self._known.events.named(self._known.positions(word >> CODE_BITS))
        instants = None if handed_over is None else handed_over[order]
        return DeliveryBatch(events, queue, event, time, score, matched, sets, instants)

    def _forget(self) -> None:
        """Forget the events that no queue holds and no repetition would be recognised by, and unused sets."""
        self._taken = self._taken.since(self._watermark, self._known, self._recall)
        is_needed, is_used = np.zeros(len(self._known), bool), np.zeros(2 * SETS, bool)
        mark_held(*self._queues.arrays, self._known.numbers, is_needed, is_used)
        is_needed[self._known.positions(self._taken.numbers)] = True
        is_needed |= self._known.events.time >= self._watermark - self._lateness
        self._known.keep(is_needed)
        self._needed = len(self._known)
        for part in self._waiting:
            is_used[part.rows.matched] = True
        self._sets.keep(set((SETS + np.flatnonzero(is_used[SETS:])).tolist()))


def _marks(found: Deliveries, queues: int) -> Array:
    """Return a number for each queue that tells its list from others: 63 bits of a digest, 0 for an empty one."""
    starts = np.searchsorted(found.queue, found.queue)
    place = (np.arange(len(found.queue)) - starts).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (found.event.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(31) ^ found.score.view(np.uint64)) * np.uint64(0x94D049BB133111EB)
        mixed = (mixed ^ mixed >> np.uint64(29)) * (np.uint64(2) * place + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
    marks = np.zeros(queues, np.uint64)
    np.add.at(marks, found.queue, mixed | np.uint64(1))
    listed: Array = marks.view(np.int64)
    return listed


def _waiting_to_arrays(part: PendingRows, sets: Ragged) -> dict[str, Array]:
    """Return rows that wait as those of a match batch; the sets are the shard's."""
    batch = MatchBatch(part.events, *part.rows, sets, variant=part.variant, dense=part.dense)
    return {name: array for name, array in batch.to_arrays().items() if name not in SET_COLUMNS}


def _parts(dense: int, arrays: Mapping[str, Array]) -> list[str]:
    """Return the names of the parts that wait; every part has an array of queues."""
    if dense >= len(arrays):
        raise InvalidValueError(f"{KIND}: {dense:,} parts wait; expected fewer than there are arrays")
    return ["waiting", *(f"dense{at}" for at in range(dense))]


def _check_held(held: Array, known: KnownEvents, sets: int) -> None:
    """Raise where a queue holds an event that is not known, or that matched a set that is not."""
    if (held == GONE).any():
        held = held[held != GONE]
    words = held >> 63
    words ^= held  # those that were delivered are negative: ~word
    _check_known("queues.held", words >> CODE_BITS, known)
    words &= (1 << CODE_BITS) - 1
    if words.max(initial=0) >= SETS + sets:
        raise InvalidValueError(f"{KIND}: array queues.held: no matched set {int(words.max()) - SETS:,}")


def _check_known(name: str, numbers: Array, known: KnownEvents) -> None:
    """Raise unless all numbers are those of known events."""
    fail_where(known.positions(numbers) == NONE, f"{KIND}: array {name}: no known event")
