"""Many queues at once: rows in, deliveries out, all state in three arrays.

    queues = QueueTable.of([Sliding(10, 100)] * 100_000)
    delivered = queues.take(rows)        # Deliveries(queue, event, time, score)
    delivered = queues.advance(now)      # what is due by now, for policies that also act when time passes
    delivered = queues.finish()          # the end of the input

or, one event at a time, for queues that come and go:

    queues.serve()                                          # from now on, know when queues act by themselves
    delivered = queues.arrive(rows, count, time, now, 1)    # one event in some queues, and what is due by then
    queues.put(5, changed_queue(queues.get(5), policy, now))

Rows are (queue, event, time, expires, score), sorted by queue; those of one queue in the order of their times, none
before what the queue has seen. Each arrives at its own time. The result is that of
`rankcast.delivery.rules.queues.step` with `closed=False` for every row, and does not depend on how rows are divided
into calls: deliveries come by queue, within a queue as the steps give them.

An event is a number from 0 on. Among equal scores and times the lower number is better, so numbers have to be given in
the order of (source, id). Rows of equal time are taken as they come: sort them by event to be independent of whoever
brought them. Duplicates are not recognised here.

`get` returns a queue as the step functions know it, with numbers for identities: all that is rare is done there, once
for every engine, and `put` brings it back.

Queues that diversify also need the contents of events, by their numbers: each call is given those of its rows and of
everything that the queues which select in it still hold (`contents.Contents`; more do no harm). Their scores have to
lie in [0, 1].

A call that raises has changed nothing. An object belongs to one thread at a time; kernels release the GIL.
Cost: see the kernels; arrays grow by a quarter when they are full, in place, and queues without use of their room give
it back then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple, Self, TypeAlias, cast

import numpy as np
from msgspec.structs import replace

from rankcast.arrays import Array
from rankcast.compiling import loaded
from rankcast.compiling.arguments import KernelArguments
from rankcast.containers.container import Buffer, pack, unpack
from rankcast.containers.expectations import Column, Columns, Range, below, check_types, check_values, fail_where
from rankcast.delivery.engine.contents import (
    NO_CONTENTS,
    NO_SETTINGS,
    Content,
    Contents,
    DiversitySettings,
    Setting,
    diverse_arguments,
    diverse_table,
)
from rankcast.delivery.engine.kernels.dispatch import (
    DUE,
    LATE,
    LINES,
    NEGATIVE_EVENT,
    NO_FAULT,
    PLACE,
    QUEUE,
    SCORE_NOT_A_NUMBER,
    TIME_OUT_OF_RANGE,
    UNKNOWN_QUEUE,
    UNSORTED_QUEUE,
    first_fault,
    list_all,
    pass_time,
    serve_event,
    set_timers,
    take_rows,
)
from rankcast.delivery.engine.kernels.diverse import (
    NO_DIVERSE_FAULT,
    SCORE_IS_NO_RANK,
    first_diverse_fault,
    first_due_without_content,
)
from rankcast.delivery.engine.kernels.held import (
    CALENDARS,
    DONE,
    FOUND_FULL,
    TIMED,
    USED,
    WRITTEN,
    copy_slots,
    drop_unneeded_of,
    first_out_of_order,
    repack,
    sizes_of,
)
from rankcast.delivery.engine.layout import (
    ALL,
    CONTINUOUS,
    COUNT_WINDOW,
    GONE,
    HELD,
    LINE,
    LONGEST,
    PERIODIC,
    SLIDING,
    SLOT,
    TIME_WINDOW,
    lines_of,
)
from rankcast.delivery.rules.policies import ContinuousQueue, PeriodicQueue, SlidingQueue, TopKWindowQueue, new_queue
from rankcast.delivery.rules.queues import Candidate, Queue, place
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidEventError, InvalidValueError, RankcastError
from rankcast.model.periods import Every, period_end_ticks, period_ends
from rankcast.model.policies import (
    ALL_MATCHES,
    Bounded,
    Continuous,
    Diversity,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
    diversity_of,
)
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER, instant_of, microseconds
from rankcast.ranking.batch import ROW_QUEUE

QUEUE_TABLE, VERSION = "queue table", 6
"""Kind and version of the packed state."""

MOST_CALENDARS = 1 << 20
"""Calendars of one table: more than there are zones and times of day that anybody names."""

STATE: Columns = {
    "queues": Column(
        np.int64,
        "queues",
        width=len(LINE),
        columns={
            LINE.kind: below(PERIODIC + 1),
            LINE.k: below(LONGEST + 1),
            LINE.window: below(LONGEST + 1),
            LINE.span: below(LONGEST + 1, -MOST_CALENDARS),
            LINE.size: below("held and one"),
            LINE.setting: below("settings and one"),
            LINE.entered: Range(),
            LINE.ties: below(2),
            **dict.fromkeys((LINE.start, LINE.head, LINE.top, LINE.stray), below(1)),
        },
    ),
    "held": Column(
        np.int64,
        "held",
        width=SLOT,
        columns={
            HELD.time: Range(FIRST_INSTANT, LAST_INSTANT + 1),
            HELD.expiry: Range(FIRST_INSTANT, LAST_INSTANT + 1, NEVER),
        },
    ),
    "settings": Column(np.int64, "words of settings"),
    "calendars": Column(np.uint8, "bytes of calendars", is_optional=True),
}
"""What is expected of the packed state; `_check_lines` has the rest."""

FEWEST_FOUND = 1024
SPARE = 1.25
"""How much larger than what it holds an arena is made."""

FEWEST_FREE = 4
"""Slots, besides half as many as are in use, that a queue keeps free."""

WASTE = 1.1
"""How much of a full arena may be regions that nobody is in any more, before queues are put together again."""


class ArrivalRows(NamedTuple):
    """Matching events of many queues, as columns of equal length. `expires` is NEVER for events that do not expire."""

    queue: Array
    event: Array
    time: Array
    expires: Array
    score: Array


class Deliveries(NamedTuple):
    """Which queue delivers which event, when, and the score it was ranked by: columns of equal length."""

    queue: Array
    event: Array
    time: Array
    score: Array


class DeliveredRows(NamedTuple):
    """Deliveries as lists."""

    queue: list[int]
    event: list[int]
    time: list[int]
    score: list[float]


NOTHING_DELIVERED = DeliveredRows([], [], [], [])


ContentOf: TypeAlias = Callable[[int], Content]


class Live(NamedTuple):
    """The state of queues as it is in memory: lines, arena, how much of that is used, diversities and calendars."""

    queues: Array
    arena: Array
    used: int
    settings: Array
    calendars: bytes


class QueueTable:
    """The delivery queues of many subscribers, each with its own policy, numbered from 0."""

    def __init__(
        self,
        queues: Array,
        arena: Array,
        settings: DiversitySettings = NO_SETTINGS,
        calendars: tuple[Every, ...] = (),
    ) -> None:
        self._queues = self._all_lines = queues  # what lies behind the queues is room for more
        self._arena = arena
        self._settings = settings
        self._calendars = {calendar: number for number, calendar in enumerate(calendars)}
        self._ends_until = FIRST_INSTANT if calendars else NEVER
        self._setting_of: dict[Diversity, int] = {}
        self._known_settings: dict[Setting, int] | None = None
        self._counters = np.array([len(arena), 0, 0], np.int64)
        self._timers = np.zeros((LINES, 0), np.int64)
        self._found = _empty(0)

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Self:
        """Return queues that have seen nothing yet."""
        made = cls(np.zeros((0, len(LINE)), np.int64), np.zeros(0, np.int64))
        made.grow(policies)
        return made

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def clocks(self) -> Array:
        """How far each queue is, in microseconds since 1970."""
        clocks: Array = self._queues[:, LINE.clock].copy()
        return clocks

    @property
    def nbytes(self) -> int:
        """What the state takes in memory, spare room included."""
        return self._queues.nbytes + self._arena.nbytes

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The lines of the queues and the arena, as `layout` describes them: to look at, not to change."""
        return self._queues, self._arena

    # ---------------------------------------------------------------------------------------------------- many rows

    def take(self, rows: ArrivalRows, contents: Contents | None = None) -> Deliveries:
        """Let rows arrive; return what is delivered before and by that."""
        rows = _checked(rows)
        diverse = self._diverse(contents)
        row, fault = first_fault(self._queues, rows.queue, rows.event, rows.time, rows.score)
        if fault != NO_FAULT:
            raise InvalidEventError(self._complaint(rows, row, fault))
        if self._settings.size:
            self._check_diverse(rows, diverse.arrays["numbers"])
        if self._calendars:
            self._prepare_calendars(rows)
        self._begin(len(rows.queue))
        row, bits = 0, rows.score.view(np.int64)
        while True:
            row, status = take_rows(
                self._queues,
                self._arena,
                self._found,
                self._counters,
                rows.queue,
                rows.event,
                rows.time,
                rows.expires,
                bits,
                diverse.addresses,
                row,
            )
            if status == DONE:
                return self._finished()
            self._make_room(int(rows.queue[row]), status)

    def advance(self, now: int, contents: Contents | None = None) -> Deliveries:
        """Let time pass to `now`: do what is due before it, and end the periods that end at it.

        Queues that are further already stay.
        """
        return self._pass_time(now, contents, ends=1)

    def advance_before(self, now: int, contents: Contents | None = None, chosen: Array | None = None) -> Deliveries:
        """Let time pass to `now`: do what is due before it, and leave everything open that is due at it.

        So queues can still be changed at `now`, for changes come first at an instant. `chosen` are some queues, each
        named once; deliveries come in their order.
        """
        if chosen is None:
            return self._pass_time(now, contents, ends=0)
        part = type(self)(self._queues[chosen], self._arena, self._settings)
        found = part.advance_before(now, contents)
        self._queues[chosen] = part._queues
        return found._replace(queue=chosen[found.queue])

    def _pass_time(self, now: int, contents: Contents | None, *, ends: int) -> Deliveries:
        if now > LAST_INSTANT:
            raise InvalidValueError(f"now: {now} is after the end of time, {LAST_INSTANT} microseconds since 1970")
        diverse = self._diverse(contents)
        if self._settings.size:
            queue, event = first_due_without_content(self._queues, self._arena, diverse.arrays["numbers"], now, ends)
            if event >= 0:
                raise InvalidEventError(f"queue {queue}: {_without_content(event)}")
        self._begin(0)
        queue = 0
        while True:
            queue, status = pass_time(
                self._queues, self._arena, self._found, self._counters, now, ends, diverse.addresses, queue
            )
            if status == DONE:
                return self._finished()
            self._make_room(queue, status)

    def finish(self, contents: Contents | None = None) -> Deliveries:
        """End the input: open periods and windows are completed, as if time went on for ever."""
        return self.advance(LAST_INSTANT, contents)

    def lists(self, chosen: Array, now: int, contents: Contents | None = None) -> Deliveries:
        """Return the current lists of some queues at an instant that is over, the best first; nothing is changed.

        A list is what a period would deliver that ends now and has all that is held and valid: so it is made like that.
        """
        lines, begins = self._queues[chosen], self._slots_in_use(chosen)
        slots = self._arena[begins[:, None] + np.arange(SLOT)]
        owner = np.repeat(np.arange(len(chosen)), lines[:, LINE.size])
        kind, ends = lines[owner, LINE.kind], slots[:, HELD.expiry]
        ends = np.where(kind == TIME_WINDOW, np.minimum(ends, slots[:, HELD.time] + lines[owner, LINE.span]), ends)
        has_ended = (kind == PERIODIC) & (lines[owner, LINE.next] <= now)
        is_valid = (slots[:, HELD.event] != GONE) & (ends > now) & ~has_ended
        slots, counts = slots[is_valid], np.bincount(owner[is_valid], minlength=len(chosen))
        slots[:, HELD.event] = _plain(slots[:, HELD.event])
        lines[:, LINE.window] = np.where(lines[:, LINE.setting] > 0, LONGEST, lines[:, LINE.k])
        for word, value in ((LINE.kind, PERIODIC), (LINE.head, 0), (LINE.top, 0), (LINE.next, now), (LINE.ties, 0)):
            lines[:, word] = value
        lines[:, LINE.size] = lines[:, LINE.capacity] = counts
        lines[counts == 0, LINE.next] = NEVER
        sizes = sizes_of(lines, counts)
        lines[:, LINE.start] = np.cumsum(sizes) - sizes
        arena = np.empty(int(sizes.sum()), np.int64)
        copy_slots(counts, slots.reshape(-1), SLOT * (np.cumsum(counts) - counts), arena, lines[:, LINE.start].copy())
        list_all(lines, arena)
        found = QueueTable(lines, arena, self._settings).advance(now, contents)
        return found._replace(queue=chosen[found.queue])

    # --------------------------------------------------------------------------------------- one event, some queues

    def serve(self) -> None:
        """Know from now on when queues act by themselves, which `arrive` needs."""
        self._timers = np.zeros((LINES, max(16, len(self))), np.int64)
        self._timers[PLACE] = -1
        self._counters[TIMED] = 0
        set_timers(self._queues, self._timers, self._counters, 0, len(self))
        self._serve_event = loaded(serve_event)

    def arrive(
        self,
        rows: Array,
        count: int,
        time: int,
        now: int,
        closed: int,
        contents: tuple[Array, Array, Array, Array] = NO_CONTENTS,
        shift: int = 0,
    ) -> DeliveredRows:
        """Let time pass to `now` and an event of a time arrive in some queues, each named once, or in none.

        The first so many columns of `rows` are taken: queues, words of the event, expiries and the bits of scores, each
        a line of int64. What is due before `now` comes first. With `closed`, 1 instead of 0, nothing more arrives at
        `now`, which is evaluated. All that is trusted. So is `now`, which never goes back, and so are the contents, by
        event number: what is above `shift` bits of an event's word.
        """
        diverse = _NONE_DIVERSE
        if contents is not NO_CONTENTS:
            diverse = diverse_table(contents, self._settings)
        if now >= self._ends_until:
            self._set_ends([[period_end_ticks(now, calendar)] for calendar in self._calendars])
            self._ends_until = min(self._counters[-len(self._calendars) :].tolist())
        counters = self._counters
        counters[WRITTEN] = 0
        row = -1
        while True:
            row, status = self._serve_event(
                self._queues,
                self._arena,
                self._found,
                counters,
                self._timers,
                rows,
                count,
                time,
                now,
                closed,
                diverse.addresses,
                shift,
                row,
            )
            if status == DONE:
                return self._delivered()
            due = row < 0 or row == count
            self._make_room(int(self._timers[QUEUE, 0] if due else rows[ROW_QUEUE, row]), status)

    def _delivered(self) -> DeliveredRows:
        """Return what was written last."""
        written = int(self._counters[WRITTEN])
        if not written:
            return NOTHING_DELIVERED
        part = self._found[:, :written]
        queue, event, time, orders = part.tolist()
        bits = _flipped(part[3]) if min(orders) < 0 else part[3]
        scores = bits.view(np.float64).tolist()
        if self._found.shape[1] > FEWEST_FOUND:
            self._found = _empty(0)
        return DeliveredRows(queue, event, time, scores)

    @property
    def next_due(self) -> int | None:
        """When a queue acts by itself, at the earliest, in microseconds since 1970."""
        return int(self._timers[DUE, self._timers[QUEUE, 0]]) >> 1 if self._counters[TIMED] else None

    # ----------------------------------------------------------------------------------------------- queue by queue

    def grow(self, policies: Iterable[Policy]) -> None:
        """Add queues that have seen nothing yet."""
        lines = self._lines(list(policies))
        before, size = len(self), len(self) + len(lines)
        if size > len(self._all_lines):
            self._all_lines = np.concatenate([self._queues, np.zeros((max(16, size), len(LINE)), np.int64)])
        self._queues = self._all_lines[:size]
        self._queues[before:] = lines
        room = self._timers.shape[1]
        if 0 < room < len(self):
            more = np.zeros((LINES, len(self)), np.int64)  # half as much again
            more[PLACE] = -1
            self._timers = np.concatenate([self._timers, more], axis=1)

    def get(self, queue: int, policy: Policy | None = None, content_of: ContentOf | None = None) -> Queue:
        """Return a queue as the step functions know it; `policy` is its own, where the caller knows that."""
        self.drop_unneeded(np.array([queue]))
        line = self._queues[queue]
        first = line[LINE.start] + SLOT * line[LINE.head]
        slots = self._arena[first : first + SLOT * line[LINE.size]].reshape(-1, SLOT)
        return _queue_of(line, slots, _policy_of(line, self._calendars) if policy is None else policy, content_of)

    def put(self, queue: int, state: Queue, policy: Policy) -> None:
        """Let a queue go on as one of the step functions, of this policy."""
        line = self._lines([policy])[0]
        line[LINE.clock] = self._queues[queue, LINE.clock]
        slots = _fill_line(line, state)
        line[LINE.stray] = line[LINE.entered]
        used = int(self._counters[USED])
        line[LINE.start], line[LINE.capacity], line[LINE.size] = used, len(slots), len(slots)
        end = used + int(sizes_of(line[None], line[None, LINE.capacity])[0])
        if end > len(self._arena):
            self._resize(int(SPARE * end))
        self._arena[used : used + slots.size] = slots.ravel()
        self._counters[USED] = end
        self._queues[queue] = line
        if line[LINE.kind] == PERIODIC and not line[LINE.setting]:
            list_all(self._queues[queue : queue + 1], self._arena)
        if self._timers.shape[1]:
            set_timers(self._queues, self._timers, self._counters, queue, queue + 1)

    def clear(self, queue: int) -> None:
        """Let a queue forget everything that it holds."""
        self.put(queue, new_queue(ALL_MATCHES), ALL_MATCHES)

    def words(self, chosen: slice | Array = slice(None)) -> Array:
        """Return the words of the events that some queues hold, needed or not, each as often as it is held."""
        words = self._arena[self._slots_in_use(chosen)]
        return _plain(words[words != GONE])

    def renumber(self, old: Array, new: Array, bits: int) -> None:
        """Let events have other numbers, which are above so many bits of their words; `old` ascends."""
        at = self._slots_in_use()
        words = self._arena[at]
        plain = _plain(words)
        place = np.minimum(np.searchsorted(old, plain >> bits), len(old) - 1)
        is_meant = (old[place] == plain >> bits) & (words != GONE)
        changed = new[place] << bits | plain & ((1 << bits) - 1)
        self._arena[at[is_meant]] = np.where(words < 0, ~changed, changed)[is_meant]

    def _slots_in_use(self, chosen: slice | Array = slice(None)) -> Array:
        """Return where the slots of some queues, or of all, begin."""
        queues = self._queues[chosen]
        counts = queues[:, LINE.size]
        begins = queues[:, LINE.start] + SLOT * queues[:, LINE.head]
        before = np.cumsum(counts) - counts
        return np.repeat(begins - SLOT * before, counts) + SLOT * np.arange(int(counts.sum()))

    def _lines(self, policies: list[Policy]) -> Array:
        stated = (diversity for policy in policies if (diversity := diversity_of(policy)) is not None)
        unknown = [diversity for diversity in stated if diversity not in self._setting_of]
        if unknown:
            if self._known_settings is None:
                self._known_settings = self._settings.numbers()
            self._settings, numbers = self._settings.including(unknown, self._known_settings)
            self._setting_of.update(numbers)
        for policy in policies:
            if isinstance(policy, Periodic) and isinstance(policy.period, Every):
                self._calendars.setdefault(policy.period, len(self._calendars))
                self._ends_until = FIRST_INSTANT
        return lines_of(policies, self._setting_of, self._calendars)

    def _prepare_calendars(self, rows: ArrivalRows) -> None:
        """Have the ends of the periods in which rows arrive."""
        spans = self._queues[rows.queue, LINE.span]
        chosen = np.flatnonzero(spans < 0)
        chosen = chosen[np.lexsort((rows.time[chosen], ~spans[chosen]))]
        bounds = np.searchsorted(~spans[chosen], np.arange(len(self._calendars) + 1))
        times = cast("list[Sequence[int]]", np.split(rows.time[chosen], bounds[1:-1]))
        self._set_ends([period_ends(own, calendar) for own, calendar in zip(times, self._calendars, strict=True)])
        self._ends_until = FIRST_INSTANT

    def _set_ends(self, ends: Sequence[list[int]]) -> None:
        """Give kernels the ends of periods by calendar."""
        starts = CALENDARS + 1 + len(ends) + np.cumsum([0, *map(len, ends)])
        self._counters = np.array([*self._counters[:CALENDARS], *starts, *chain.from_iterable(ends)], np.int64)

    # -------------------------------------------------------------------------------------------------- written down

    def drop_unneeded(self, chosen: Array | None = None) -> None:
        """Hold nothing that is not needed, in some queues or in all."""
        drop_unneeded_of(self._queues, self._arena, np.arange(len(self)) if chosen is None else chosen)

    def to_arrays(self) -> dict[str, Array]:
        """Return the state, packed, as named arrays of its own: just what is needed, without lists of the best."""
        self.drop_unneeded()
        queues = self._queues.copy()
        counts, begins = queues[:, LINE.size].copy(), queues[:, LINE.start] + SLOT * queues[:, LINE.head]
        held = np.empty((int(counts.sum()), SLOT), np.int64)
        copy_slots(counts, self._arena, begins, held.reshape(-1), SLOT * (np.cumsum(counts) - counts))
        queues[:, (LINE.start, LINE.head, LINE.top, LINE.stray)] = 0
        queues[:, LINE.capacity] = queues[:, LINE.size]
        calendars = {"calendars": np.frombuffer(self._packed_calendars(), np.uint8)} if self._calendars else {}
        return {"queues": queues, "held": held, "settings": self._settings.to_words(), **calendars}

    def _packed_calendars(self) -> bytes:
        return encode(tuple(self._calendars), _CALENDARS)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return queues that go on as those whose state was packed; arrays that cannot be such state are refused.

        The array of queues becomes this object's own.
        """
        check_types(QUEUE_TABLE, arrays, STATE)
        queues, held, settings = arrays["queues"], arrays["held"], DiversitySettings.from_words(arrays["settings"])
        given = {"held and one": len(held) + 1, "settings and one": settings.size + 1}
        check_values(QUEUE_TABLE, arrays, STATE, given)
        calendars = _read_calendars(arrays["calendars"].tobytes()) if "calendars" in arrays else ()
        _check_lines(queues, held, len(calendars))
        queues[:, LINE.stray] = queues[:, LINE.entered]
        sizes, counts = sizes_of(queues, queues[:, LINE.capacity].copy()), queues[:, LINE.size].copy()
        queues[:, LINE.start] = np.cumsum(sizes) - sizes
        arena = np.empty(int(sizes.sum()), np.int64)
        begins = SLOT * (np.cumsum(counts) - counts)
        copy_slots(counts, held.reshape(-1), begins, arena, queues[:, LINE.start].copy())
        list_all(queues, arena)
        return cls(queues, arena, settings, calendars)

    def to_bytes(self) -> bytes:
        """Return the state, packed."""
        return pack(QUEUE_TABLE, VERSION, self.to_arrays())

    @classmethod
    def from_bytes(cls, packed: Buffer) -> Self:
        """Return queues that go on as those whose state was packed."""
        return cls.from_arrays(unpack(packed, QUEUE_TABLE, VERSION).arrays)

    def to_live(self) -> Live:
        """Return the state as it is in memory, nothing packed: to go on with elsewhere (`from_live`)."""
        settings, calendars = self._settings.to_words(), self._packed_calendars()
        return Live(self._queues, self._arena, int(self._counters[USED]), settings, calendars)

    @classmethod
    def from_live(cls, live: Live) -> Self:
        """Return queues that go on with these very arrays, which are trusted."""
        settings, calendars = DiversitySettings.from_words(live.settings), _read_calendars(live.calendars)
        made = cls(live.queues, live.arena, settings, calendars)
        made._counters[USED] = live.used
        return made

    def move_to(self, arena: Array) -> None:
        """Go on in another arena of the same size; what is used of this one is copied."""
        used = int(self._counters[USED])
        arena[:used] = self._arena[:used]
        self._arena = arena

    # ------------------------------------------------------------------------------------------------------- inside

    def _diverse(self, contents: Contents | None) -> KernelArguments:
        """Return what diverse selection needs, the numbers of events first."""
        return diverse_arguments(NO_CONTENTS if contents is None else contents, self._settings)

    def _check_diverse(self, rows: ArrivalRows, numbers: Array) -> None:
        """Raise when a queue that diversifies would get a score that is no rank, or lacks the content of an event."""
        row, fault, event = first_diverse_fault(self._queues, self._arena, rows.queue, rows.event, rows.score, numbers)
        if fault == SCORE_IS_NO_RANK:
            raise InvalidEventError(
                f"row {row}: score {rows.score[row]} of queue {rows.queue[row]}, which diversifies; expected 0 to 1"
            )
        if fault != NO_DIVERSE_FAULT:
            raise InvalidEventError(f"row {row}: queue {rows.queue[row]}: {_without_content(event)}")

    def _begin(self, rows: int) -> None:
        """Have room for about as many deliveries as rows."""
        self._counters[WRITTEN] = 0
        if self._found.shape[1] < rows:
            self._found = _empty(rows)

    def _finished(self) -> Deliveries:
        queue, event, time, order = (column[: self._counters[WRITTEN]].copy() for column in self._found)
        if self._found.shape[1] > FEWEST_FOUND:
            self._found = _empty(0)
        return Deliveries(queue, event, time, _flipped(order).view(np.float64))

    def _make_room(self, queue: int, status: int) -> None:
        """Make room where a kernel stopped, at one queue."""
        wanted = self._queues[queue]
        if status == FOUND_FULL:
            more = max(FEWEST_FOUND, self._found.shape[1], int(min(wanted[LINE.k], wanted[LINE.size] + 1)))
            self._found = np.concatenate([self._found, np.empty((4, more), np.int64)], axis=1)
            return
        grown = int(sizes_of(wanted[None], np.array([FEWEST_FREE + 2 * int(wanted[LINE.size])]))[0])
        needed = int(sizes_of(self._queues, self._least_capacities()).sum())
        if self._counters[USED] > WASTE * needed:
            self.compact()
        if self._counters[USED] + grown > len(self._arena):
            self._resize(max(FEWEST_FOUND, int(SPARE * self._counters[USED])) + grown)

    def _least_capacities(self) -> Array:
        """Return how many slots the queues are left with when they are put together again."""
        counts = self._queues[:, LINE.size]
        found: Array = np.minimum(self._queues[:, LINE.capacity], counts + counts // 2 + FEWEST_FREE)
        return found

    def compact(self) -> None:
        """Put the queues together, one behind the other, with few free slots."""
        order = np.argsort(self._queues[:, LINE.start], kind="stable")
        capacities = self._least_capacities()
        self._counters[USED] = repack(self._queues, self._arena, order, capacities)

    def _resize(self, size: int) -> None:
        """Make the arena larger, in place where its memory is its own."""
        if self._arena.flags.owndata and self._arena.base is None:
            self._arena.resize(size, refcheck=False)
            return
        arena = np.empty(size, np.int64)
        arena[: len(self._arena)] = self._arena
        self._arena = arena

    def _complaint(self, rows: ArrivalRows, row: int, fault: int) -> str:
        queue, time = rows.queue[row], rows.time[row]
        problems = {
            UNKNOWN_QUEUE: f"there is no queue {queue}; expected 0 to {len(self) - 1}",
            UNSORTED_QUEUE: f"queue {queue} after queue {rows.queue[row - 1]}; expected rows sorted by queue",
            NEGATIVE_EVENT: f"event {rows.event[row]} of queue {queue}; expected a number of at least 0",
            TIME_OUT_OF_RANGE: f"time {time} of queue {queue} is not within the years 1 to 9999",
            SCORE_NOT_A_NUMBER: f"score {rows.score[row]} of queue {queue} is not a number",
        }
        if fault == LATE:
            before = rows.time[row - 1] if row and rows.queue[row - 1] == queue else self._queues[queue, LINE.clock]
            problems[LATE] = (
                f"time {time} of queue {queue} is before {before}; expected the rows of a queue in time order"
            )
        return f"row {row}: {problems[fault]}"


_NONE_DIVERSE = diverse_table(NO_CONTENTS, NO_SETTINGS)


def _without_content(event: int) -> str:
    return f"the content of event {event} is not given; expected that of each row and of each event held"


def _checked(rows: ArrivalRows) -> ArrivalRows:
    """Return the columns as the kernels take them."""
    columns = ArrivalRows(
        queue=_column("queue", rows.queue, "iu", np.int64),
        event=_column("event", rows.event, "iu", np.int64),
        time=_column("time", rows.time, "iu", np.int64),
        expires=_column("expires", rows.expires, "iu", np.int64),
        score=_column("score", rows.score, "iuf", np.float64),
    )
    lengths = sorted(set(map(len, columns)))
    if len(lengths) > 1:
        raise InvalidEventError(f"rows: columns of {lengths} rows; expected the same length")
    return columns


def _column(name: str, column: Array, kinds: str, dtype: type) -> Array:
    values = np.asarray(column)
    if values.ndim != 1 or (values.dtype.kind not in kinds and len(values)):
        raise InvalidEventError(f"rows: {name} is a column of {values.dtype}; expected {dtype.__name__}")
    if values.dtype == np.uint64 and len(values) and values.max() > NEVER:
        raise InvalidEventError(f"rows: {name} has {values.max()}; expected at most {NEVER}")
    return np.ascontiguousarray(values, dtype)


def _empty(rows: int) -> Array:
    return np.empty((4, max(FEWEST_FOUND, rows)), np.int64)


def _plain(words: Array) -> Array:
    """Return the words of events, whether they were delivered or not."""
    plain: Array = words ^ words >> 63
    return plain


def _flipped(words: Array) -> Array:
    """Return integers that order as floats do, given the bits of these, or the bits, given such integers."""
    flipped: Array = words >> 63
    flipped &= NEVER
    flipped ^= words
    return flipped


_CALENDARS = tuple[Every, ...]


def _read_calendars(packed: bytes) -> tuple[Every, ...]:
    try:
        calendars: tuple[Every, ...] = decode(packed, _CALENDARS, "calendars")
    except RankcastError as error:
        raise InvalidValueError(f"{QUEUE_TABLE}: {error}") from None
    if len(set(calendars)) < len(calendars):
        raise InvalidValueError(f"{QUEUE_TABLE}: calendars: one is there twice")
    return calendars


def _policy_of(line: Array, calendars: Iterable[Every]) -> Policy:
    """Return the policy of a line; of its diversity or bound, only that it has one."""
    kind, k, window, span = (int(line[word]) for word in (LINE.kind, LINE.k, LINE.window, LINE.span))
    diversity = Diversity() if line[LINE.setting] else None
    ties = TieRule.KEEP if line[LINE.ties] else TieRule.NEWER
    if kind == ALL:
        return ALL_MATCHES
    if kind == CONTINUOUS:
        return Continuous(k, ties=ties)
    if kind == PERIODIC:
        return Periodic(k, timedelta(microseconds=span) if span > 0 else tuple(calendars)[~span], diversity)
    if kind == SLIDING:
        return Sliding(k, window, diversity, ties=ties)
    if kind == COUNT_WINDOW:
        return TopKWindow(k, window, diversity, ties=ties, queue=None if span == LONGEST else Bounded())
    return TopKWindow(k, timedelta(microseconds=span), diversity, ties=ties)


def _queue_of(line: Array, slots: Array, policy: Policy, content_of: ContentOf | None = None) -> Queue:
    """Return the queue of a line with this policy and of its slots in order."""
    held: list[Candidate] = []
    delivered: list[int] = []
    places: list[tuple[int, datetime]] = []
    scores = _flipped(slots[:, HELD.score]).view(np.float64).tolist()
    for (event, time, expiry, _, arrival), score in zip(slots.tolist(), scores, strict=True):
        if event == GONE:
            places.append((arrival, instant_of(expiry)))
            continue
        number = event if event >= 0 else ~event
        if event < 0:
            delivered.append(number)
        expires = None if expiry == NEVER else instant_of(expiry)
        content = () if content_of is None else content_of(number)
        held.append(Candidate(number, instant_of(time), score, expires, content, arrival))
    entered = int(line[LINE.entered])
    if isinstance(policy, Continuous):
        return ContinuousQueue(policy, tuple(held))
    if isinstance(policy, Sliding):
        return SlidingQueue(policy, tuple(held), frozenset(delivered), entered, tuple(places))
    if isinstance(policy, Periodic):
        return PeriodicQueue(policy, _optional(line[LINE.next]), tuple(held))
    if isinstance(policy, TopKWindow):
        return TopKWindowQueue(policy, tuple(held), frozenset(delivered), _optional(line[LINE.unseen]), entered)
    return new_queue(policy)


def _optional(ticks: int) -> datetime | None:
    return None if ticks == NEVER else instant_of(int(ticks))


def _fill_line(line: Array, queue: Queue) -> Array:
    """Complete the line of an empty queue with this policy by what the queue knows; return its slots in order."""
    held, delivered = queue.held, frozenset[object]()
    if isinstance(queue, ContinuousQueue):
        best_first = sorted(held, key=place)
        above = [sum(other.outlives(candidate) for other in best_first[:at]) for at, candidate in enumerate(best_first)]
        held = tuple(replace(candidate, arrival=count) for candidate, count in zip(best_first, above, strict=True))
    if isinstance(queue, SlidingQueue | TopKWindowQueue):
        delivered, line[LINE.entered] = queue.delivered, queue.entered
    slots = _slots(held, delivered)
    if isinstance(queue, SlidingQueue):
        kept = np.array([(GONE, 0, microseconds(end), GONE, number) for number, end in queue.places], np.int64)
        slots = np.concatenate([slots, kept.reshape(-1, SLOT)])
        slots = slots[np.argsort(slots[:, HELD.arrival], kind="stable")]
    if isinstance(queue, TopKWindowQueue):
        line[LINE.unseen] = microseconds(queue.unseen)
    ends = slots[:, HELD.expiry]
    if line[LINE.kind] == TIME_WINDOW:
        ends = np.minimum(ends, slots[:, HELD.time] + line[LINE.span])
    line[LINE.next] = microseconds(queue.end) if isinstance(queue, PeriodicQueue) else ends.min(initial=NEVER)
    return slots


def _slots(held: tuple[Candidate, ...], delivered: frozenset[object]) -> Array:
    assert tuple(range(SLOT)) == (HELD.event, HELD.time, HELD.expiry, HELD.score, HELD.arrival)
    numbers = [
        candidate.identity for candidate in held if isinstance(candidate.identity, int)
    ]  # queue tables know events by numbers
    words = [
        (~number if number in delivered else number, microseconds(event.time), microseconds(event.expires), 0, last)
        for number, event, last in zip(numbers, held, [event.arrival for event in held], strict=True)
    ]
    found = np.array(words, np.int64).reshape(-1, SLOT)
    scores = np.array([candidate.score for candidate in held], np.float64) + 0.0  # no zero is negative
    found[:, HELD.score] = _flipped(scores.view(np.int64))
    return found


def _check_lines(queues: Array, held: Array, calendars: int) -> None:
    """Raise where the words of a line contradict each other or its slots: a kernel could be led outside the arrays."""
    kinds, counts = queues[:, LINE.kind], queues[:, LINE.size]
    diversifies, is_window = queues[:, LINE.setting] > 0, (kinds >= SLIDING) & (kinds <= TIME_WINDOW)
    is_bounded = (kinds == COUNT_WINDOW) & (queues[:, LINE.span] != LONGEST)
    for wrong, message in (
        ((kinds != PERIODIC) & (queues[:, LINE.window] == 0), "a window of no events"),
        ((kinds != PERIODIC) & (queues[:, LINE.span] <= 0), "a span of no time"),
        ((queues[:, LINE.span] == 0) | (~queues[:, LINE.span] >= calendars), "a period of no time, or of no calendar"),
        (
            (kinds == PERIODIC) & ~diversifies & (counts > queues[:, LINE.k]),
            "a period that holds more than it delivers",
        ),
        ((kinds == ALL) & (counts > 0), "a queue of all matches that holds some"),
        (diversifies & ~is_window & (kinds != PERIODIC), "a queue that cannot diversify and does"),
        (
            (queues[:, LINE.ties] > 0) & (diversifies | ((kinds != CONTINUOUS) & ~is_window)),
            "ties are kept where they cannot be",
        ),
        (
            is_bounded & (diversifies | (queues[:, LINE.ties] > 0) | (queues[:, LINE.span] < queues[:, LINE.k])),
            "a bounded queue that cannot be one",
        ),
        (is_bounded & (counts > queues[:, LINE.span]), "a bounded queue that holds more than it may"),
        ((kinds == TIME_WINDOW) & (queues[:, LINE.window] != LONGEST), "a window of time that counts events"),
        (is_window & (counts > queues[:, LINE.window]), "a window that holds more events than it has"),
        (counts != queues[:, LINE.capacity], "room for more or fewer events than are held"),
    ):
        fail_where(wrong, f"{QUEUE_TABLE}: array queues: {message}")
    if int(counts.sum()) != len(held):
        raise InvalidValueError(
            f"{QUEUE_TABLE}: array held: {len(held):,} events, where the queues hold {int(counts.sum()):,}"
        )
    owner = np.repeat(np.arange(len(queues)), counts)[held[:, HELD.event] == GONE]
    fail_where(
        ((kinds != SLIDING) | diversifies)[owner], f"{QUEUE_TABLE}: array held: a place is kept where none can be"
    )
    wrong = first_out_of_order(queues, held)
    if wrong >= 0:
        raise InvalidValueError(f"{QUEUE_TABLE}: array held: the events of queue {wrong:,} are not in their order")
