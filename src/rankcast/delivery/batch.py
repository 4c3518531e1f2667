"""Many queues at once: rows in, deliveries out, all state in three arrays.

    queues = BatchedQueues.of([Sliding(10, 100)] * 100_000)
    delivered = queues.take(rows)        # Deliveries(queue, event, time, score)
    delivered = queues.advance(now)      # what is due before now, for policies that also act when time passes
    delivered = queues.finish()          # the end of the input

Rows are (queue, event, time, expires, score), sorted by queue; those of one queue in the order of their times, none
before what the queue has seen. Each arrives at its own time. The result is that of `rankcast.delivery.queues.step`
with `closed=False` for every row, and does not depend on how rows are divided into calls: deliveries come by queue,
within a queue as the steps give them.

An event is a number from 0 on. Among equal scores and times the lower number is better, so numbers have to be given in
the order of (source, id). Rows of equal time are taken as they come: sort them by event to be independent of whoever
brought them. Duplicates are not recognised here.

Queues that diversify also need the contents of events, by their numbers: each call is given those of its rows and of
everything that the queues which select in it still hold (`contents.Contents`; more do no harm). Their scores have to
lie in [0, 1].

A call that raises has changed nothing. An object belongs to one thread at a time; kernels release the GIL.
Cost: see the kernels; arrays at most double when they are full, and queues without use of their room give it back then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np

from rankcast.delivery.batch_diversity import NO_SETTINGS, Diverse, Settings, diverse_input
from rankcast.delivery.batch_layout import (
    CAPACITY,
    CLOCK,
    CONTINUOUS,
    COUNT,
    HEAD,
    KIND,
    LAST_INSTANT,
    LINE,
    LONGEST,
    NEVER,
    PERIODIC,
    SETTING,
    SLIDING,
    SLOT,
    SPAN,
    START,
    TIME_WINDOW,
    TOP,
    WINDOW,
    Array,
    K,
    lines_of,
)
from rankcast.delivery.contents import NO_CONTENTS, Contents
from rankcast.delivery.kernels_batch import (
    LATE,
    NEGATIVE_EVENT,
    NO_FAULT,
    SCORE_NOT_A_NUMBER,
    TIME_OUT_OF_RANGE,
    UNKNOWN_QUEUE,
    UNSORTED_QUEUE,
    all_places_exist,
    first_fault,
    pass_time,
    score_bits_of,
    take_rows,
)
from rankcast.delivery.kernels_diverse import (
    NO_DIVERSE_FAULT,
    SCORE_IS_NO_RANK,
    first_diverse_fault,
    first_due_without_content,
)
from rankcast.delivery.kernels_room import DONE, FEWEST_SLOTS, FOUND_FULL, USED, WRITTEN, repack
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import Policy, diversity_of

VERSION = 2
"""Of the packed state. Version 1, which had no diversity, is read as well."""

_LINE_1 = LINE - 1
_HEADER = struct.Struct("<8sqqqq")
_HEADER_1 = struct.Struct("<8sqqq")
_MAGIC = b"rcqueues"

FEWEST_FOUND = 1024
SPARE = 1.25
"""How much larger than what it holds an arena is made."""


class Rows(NamedTuple):
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


class BatchedQueues:
    """The delivery queues of many subscribers, each with its own policy, numbered from 0."""

    def __init__(self, queues: Array, arena: Array, settings: Settings = NO_SETTINGS) -> None:
        self._queues = queues
        self._arena = arena
        self._used = len(arena)
        self._settings = settings

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Self:
        """Return queues that have seen nothing yet."""
        policies = list(policies)
        diversities = (diversity_of(policy) for policy in policies)
        settings, numbers = NO_SETTINGS.including(filter(None, diversities))
        return cls(lines_of(policies, numbers), np.zeros(0, np.int64), settings)

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def clocks(self) -> Array:
        """How far each queue is, in microseconds since 1970."""
        clocks: Array = self._queues[:, CLOCK].copy()
        return clocks

    @property
    def nbytes(self) -> int:
        """What the state takes in memory, spare room included."""
        return self._queues.nbytes + self._arena.nbytes

    def take(self, rows: Rows, contents: Contents | None = None) -> Deliveries:
        """Let rows arrive; return what is delivered before and by that."""
        rows = _checked(rows)
        diverse = self._diverse(contents)
        row, fault = first_fault(self._queues, rows.queue, rows.event, rows.time, rows.score)
        if fault != NO_FAULT:
            raise InvalidEventError(self._complaint(rows, row, fault))
        if self._settings.size:
            self._check_diverse(rows, diverse)
        found, counters, row, bits = _empty(len(rows.queue)), self._counters(), 0, rows.score.view(np.int64)
        while True:
            row, status = take_rows(
                self._queues,
                self._arena,
                found,
                counters,
                rows.queue,
                rows.event,
                rows.time,
                rows.expires,
                bits,
                diverse,
                row,
            )
            if status == DONE:
                return self._finished(found, counters)
            found = self._with_room(found, counters, int(rows.queue[row]), status)

    def advance(self, now: int, contents: Contents | None = None) -> Deliveries:
        """Let time pass to `now`: do everything that is due before it. Queues that are further already stay."""
        if now > LAST_INSTANT:
            raise InvalidValueError(f"now: {now} is after the end of time, {LAST_INSTANT} microseconds since 1970")
        diverse = self._diverse(contents)
        if self._settings.size:
            queue, event = first_due_without_content(self._queues, self._arena, diverse.numbers, now)
            if event >= 0:
                raise InvalidEventError(f"queue {queue}: {_without_content(event)}")
        found, counters, queue = _empty(0), self._counters(), 0
        while True:
            queue, status = pass_time(self._queues, self._arena, found, counters, now, diverse, queue)
            if status == DONE:
                return self._finished(found, counters)
            found = self._with_room(found, counters, queue, status)

    def finish(self, contents: Contents | None = None) -> Deliveries:
        """End the input: open periods and windows are completed, as if time went on for ever."""
        return self.advance(LAST_INSTANT, contents)

    def to_arrays(self) -> dict[str, Array]:
        """Return the state, packed, as named arrays of its own."""
        queues = self._queues.copy()
        capacities = queues[:, COUNT].copy()
        held = np.zeros(int(_words(queues, capacities).sum()), np.int64)
        repack(queues, self._arena, capacities, held)
        version = np.array([VERSION], np.int64)
        return {"version": version, "queues": queues, "held": held, "settings": self._settings.to_words()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return queues that go on as those whose state was packed; arrays that cannot be such state are refused."""
        version = arrays["version"].tolist() if "version" in arrays else None
        if version == [1]:
            arrays = _of_version_2(arrays)
        missing = {"version", "queues", "held", "settings"} - set(arrays)
        if missing:
            raise InvalidValueError(f"packed queues: there is no array {min(missing)!r}")
        if version not in ([1], [VERSION]):
            raise InvalidValueError(f"packed queues: version {version} is not one of [1] and [{VERSION}]")
        queues, held, words = (np.array(arrays[name], order="C") for name in ("queues", "held", "settings"))
        are_numbers = all(array.dtype == np.int64 for array in (queues, held, words))
        if not are_numbers or queues.shape[1:] != (LINE,) or held.ndim != 1 or words.ndim != 1:
            raise InvalidValueError(
                f"packed queues: expected int64 arrays, queues with {LINE} columns, held and settings with one"
            )
        settings = Settings.from_words(words)
        if not _is_sound(queues, held, settings.size):
            raise InvalidValueError("packed queues: the arrays contradict each other; expected what to_arrays returns")
        return cls(queues, held, settings)

    def to_bytes(self) -> bytes:
        """Return the state, packed."""
        arrays = self.to_arrays()
        parts = [arrays[name].astype("<i8").tobytes() for name in ("queues", "held", "settings")]
        return _HEADER.pack(_MAGIC, VERSION, *map(len, parts)) + b"".join(parts)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Return queues that go on as those whose state was packed."""
        if len(packed) < _HEADER_1.size or not packed.startswith(_MAGIC):
            raise InvalidValueError("packed queues: these bytes do not begin as packed queues do")
        _, version, *_ = _HEADER_1.unpack_from(packed)
        if version not in (1, VERSION):
            raise InvalidValueError(f"packed queues: version [{version}] is not one of [1] and [{VERSION}]")
        header, columns = (_HEADER_1, _LINE_1) if version == 1 else (_HEADER, LINE)
        if len(packed) < header.size:
            raise InvalidValueError("packed queues: these bytes do not begin as packed queues do")
        _, _, *sizes = header.unpack_from(packed)
        if min(sizes) < 0 or any(size % 8 for size in sizes) or sizes[0] % (8 * columns):
            raise InvalidValueError("packed queues: the sizes at the beginning of the bytes are not possible")
        if len(packed) != header.size + sum(sizes):
            raise InvalidValueError(
                f"packed queues: {len(packed):,} bytes, where {header.size + sum(sizes):,} were expected"
            )
        words = np.frombuffer(packed, "<i8", offset=header.size).astype(np.int64)
        queues, held, *settings = np.split(words, np.cumsum(sizes)[:-1] // 8)
        arrays = {"version": np.array([version]), "queues": queues.reshape(-1, columns), "held": held}
        return cls.from_arrays({**arrays, "settings": settings[0]} if settings else arrays)

    def _diverse(self, contents: Contents | None) -> Diverse:
        return diverse_input(NO_CONTENTS if contents is None else contents, self._settings)

    def _check_diverse(self, rows: Rows, diverse: Diverse) -> None:
        """Raise when a queue that diversifies would get a score that is no rank, or lacks the content of an event."""
        row, fault, event = first_diverse_fault(
            self._queues, self._arena, rows.queue, rows.event, rows.score, diverse.numbers
        )
        if fault == SCORE_IS_NO_RANK:
            raise InvalidEventError(
                f"row {row}: score {rows.score[row]} of queue {rows.queue[row]}, which diversifies; expected 0 to 1"
            )
        if fault != NO_DIVERSE_FAULT:
            raise InvalidEventError(f"row {row}: queue {rows.queue[row]}: {_without_content(event)}")

    def _counters(self) -> Array:
        counters = np.zeros(2, np.int64)
        counters[USED] = self._used
        return counters

    def _finished(self, found: Array, counters: Array) -> Deliveries:
        self._used = int(counters[USED])
        queue, event, time, order = (column[: counters[WRITTEN]].copy() for column in found)
        return Deliveries(queue, event, time, score_bits_of(order).view(np.float64))

    def _with_room(self, found: Array, counters: Array, queue: int, status: int) -> Array:
        """Make room where a kernel stopped, at one queue; return where it writes on."""
        wanted = self._queues[queue]
        if status == FOUND_FULL:
            more = max(FEWEST_FOUND, found.shape[1], int(min(wanted[K], wanted[COUNT] + 1)))
            return np.concatenate([found, np.empty((4, more), np.int64)], axis=1)
        capacities = np.minimum(self._queues[:, CAPACITY], np.maximum(FEWEST_SLOTS, 2 * self._queues[:, COUNT]))
        needed = int(_words(self._queues, capacities).sum())
        grown = int(_words(wanted[None], np.array([max(FEWEST_SLOTS, 2 * wanted[CAPACITY])]))[0])
        arena = np.empty(max(FEWEST_FOUND, int(SPARE * needed)) + grown, np.int64)
        counters[USED] = repack(self._queues, self._arena, capacities, arena)
        self._arena = arena
        return found

    def _complaint(self, rows: Rows, row: int, fault: int) -> str:
        queue, time = rows.queue[row], rows.time[row]
        problems = {
            UNKNOWN_QUEUE: f"there is no queue {queue}; expected 0 to {len(self) - 1}",
            UNSORTED_QUEUE: f"queue {queue} after queue {rows.queue[row - 1]}; expected rows sorted by queue",
            NEGATIVE_EVENT: f"event {rows.event[row]} of queue {queue}; expected a number of at least 0",
            TIME_OUT_OF_RANGE: f"time {time} of queue {queue} is not within the years 1 to 9999",
            SCORE_NOT_A_NUMBER: f"score {rows.score[row]} of queue {queue} is not a number",
        }
        if fault == LATE:
            before = rows.time[row - 1] if row and rows.queue[row - 1] == queue else self._queues[queue, CLOCK]
            problems[LATE] = (
                f"time {time} of queue {queue} is before {before}; expected the rows of a queue in time order"
            )
        return f"row {row}: {problems[fault]}"


def _without_content(event: int) -> str:
    return f"the content of event {event} is not given; expected that of each row and of each event held"


def _of_version_2(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays of version 1 as they are now: no queue diversifies."""
    queues = np.array(arrays.get("queues", np.zeros((0, _LINE_1), np.int64)))
    if queues.ndim == 2:
        queues = np.concatenate([queues, np.zeros((len(queues), 1), queues.dtype)], axis=1)
    return {**arrays, "queues": queues, "settings": NO_SETTINGS.to_words()}


def _checked(rows: Rows) -> Rows:
    """Return the columns as the kernels take them."""
    columns = Rows(
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


def _listed_at_most(queues: Array) -> Array:
    """Return how many events each queue lists at most: `kernels_best.listed_at_most` for all queues."""
    whole = (queues[:, KIND] == PERIODIC) | (queues[:, SETTING] != 0)
    limits = np.where(whole, queues[:, K], np.minimum(queues[:, WINDOW], 2 * queues[:, K]))
    return np.where(queues[:, KIND] == CONTINUOUS, 0, limits)


def _words(queues: Array, capacities: Array) -> Array:
    """Return how many words the regions of queues take with these capacities."""
    words: Array = SLOT * capacities + 2 * np.minimum(capacities, _listed_at_most(queues))
    return words


def _is_sound(queues: Array, held: Array, settings: int) -> bool:
    """Whether no kernel can be led outside the arrays, whatever else they say."""
    kinds, counts, capacities = queues[:, KIND], queues[:, COUNT], queues[:, CAPACITY]
    diversifies, is_window = queues[:, SETTING] > 0, (kinds >= SLIDING) & (kinds <= TIME_WINDOW)
    holds_all = diversifies & (kinds == PERIODIC) & (queues[:, WINDOW] == LONGEST) & (queues[:, TOP] == 0)
    in_range = (
        (kinds >= 0)
        & (kinds <= PERIODIC)
        & (queues[:, K] >= 0)
        & (queues[:, WINDOW] >= (kinds != PERIODIC))
        & ((kinds != PERIODIC) | diversifies | ((queues[:, WINDOW] == queues[:, K]) & (queues[:, TOP] == counts)))
        & (queues[:, SETTING] >= 0)
        & (queues[:, SETTING] <= settings)
        & (~diversifies | is_window | holds_all)
        & ((queues[:, WINDOW] == LONGEST) | ((kinds != CONTINUOUS) & (kinds != TIME_WINDOW)))
        & (queues[:, (K, WINDOW, SPAN)] <= LONGEST).all(axis=1)
        & (queues[:, SPAN] > 0)
        & (queues[:, TOP] >= 0)
        & (queues[:, HEAD] == 0)
        & (capacities >= 0)
        & (capacities == counts)
        & (counts <= queues[:, WINDOW])
        & (capacities <= len(held))
    )
    if not in_range.all() or (queues[:, TOP] > np.minimum(capacities, _listed_at_most(queues))).any():
        return False
    ends = np.cumsum(_words(queues, capacities))
    starts = np.concatenate([[0], ends])
    return bool((queues[:, START] == starts[:-1]).all() and starts[-1] == len(held) and all_places_exist(queues, held))
