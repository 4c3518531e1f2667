"""The caps of many queues as one table: `rankcast.delivery.rules.caps` for all deliveries of a batch at once.

    caps = CapTable.of(policies)
    is_capped = caps.hand_over(queue, instants)   # row by row; what is not capped has counted

Rows of one queue are in the order in which they are handed over. With `per`, contents have to be given as well: the
attributes of events by their codes, as `contents` has them, and which event each row is about.

Each cap of a queue is a line, and the lines of a queue lie together. A line has what has counted in the period that
ends at its end; with `per` that is in a hash table instead, by line and code of the value. A period that is over ends
with the next delivery of its queue. What was counted in it by value is forgotten when the hash table is full, or when
it is written down.

Cost: some nanoseconds for each row and cap, and a probe of the hash table where there is a `per`. A change copies the
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import borrowing_inlined, compiled
from rankcast.containers.expectations import Column, Columns, Range, below, check_types, check_values, fail_where
from rankcast.delivery.engine.contents import LIST, MISSING, NO_CONTENTS, Contents, attribute_code
from rankcast.delivery.engine.kernels.diverse import find
from rankcast.delivery.engine.kernels.held import CALENDARS
from rankcast.delivery.engine.kernels.policies import end_of_period
from rankcast.delivery.engine.layout import LONGEST
from rankcast.delivery.rules.caps import CapCount, CapCounts, changed_counts
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.periods import Every, period_end_ticks, period_ends
from rankcast.model.policies import Cap, Policy
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, TICK, instant_of, microseconds

CAP_TABLE = "caps"


class CapWords(NamedTuple):
    """The words of a line: its queue, how many it lets through, how it counts, until when, and what has counted."""

    queue: int
    most: int
    setting: int
    end: int
    used: int


class ValueWords(NamedTuple):
    """The words of a place in the hash table: a line (-1: the place is free), a value's code, until when, how many."""

    line: int
    code: int
    end: int
    used: int


CAP, VALUE = CapWords(*range(5)), ValueWords(*range(4))
FREE = -1
FEWEST_PLACES = 64

SPAN, HAS_PER, PER = range(3)
"""Of a setting, as kernels take it: its period as queues have theirs, and the code of its attribute."""

STATE: Columns = {
    "lines": Column(
        np.int64,
        "caps",
        width=len(CAP),
        columns={
            CAP.queue: below("queues"),
            CAP.most: below(LONGEST + 1, 1),
            CAP.setting: below("settings"),
            CAP.end: Range(FIRST_INSTANT, LAST_INSTANT + 1),
            CAP.used: Range(),
        },
    ),
    "values": Column(
        np.int64,
        "values",
        width=len(VALUE),
        columns={VALUE.line: below("caps"), VALUE.end: Range(FIRST_INSTANT, LAST_INSTANT + 1), VALUE.used: Range(1)},
    ),
    "settings": Column(np.uint8, "bytes of settings"),
}
"""What is expected of the arrays of a table; a cap without its count is one of the settings."""

_SETTINGS = tuple[Cap, ...]
_NO_LINES, _NO_VALUES = np.zeros((0, len(CAP)), np.int64), np.zeros((0, len(VALUE)), np.int64)


class PreparedSettings(NamedTuple):
    """What kernels are told of so many different caps, right for instants from one on and before another."""

    settings: Array
    counters: Array
    caps: int
    first: int
    until: int


class CapTable:
    """What has counted in the caps of queues, numbered from 0."""

    def __init__(self, queues: int, lines: Array = _NO_LINES, values: Array = _NO_VALUES) -> None:
        self._queues = queues
        self._lines = lines
        self._settings: dict[Cap, int] = {}
        self._kept: PreparedSettings | None = None
        self._set_values(values)
        self._starts = np.searchsorted(lines[:, CAP.queue], np.arange(queues + 1))

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Self:
        """Return the caps of queues that have handed over nothing yet."""
        listed = list(policies)
        made = cls(len(listed))
        lines = [
            made._line(queue, count)
            for queue, policy in enumerate(listed)
            for count in changed_counts((), policy.at_most)
        ]
        made._set_lines(np.array(lines, np.int64).reshape(-1, len(CAP)))
        return made

    def __bool__(self) -> bool:
        """Whether there are caps."""
        return len(self._lines) > 0

    def has(self, queue: int) -> bool:
        """Whether a queue has caps."""
        return bool(self._starts[queue] < self._starts[queue + 1])

    def grow(self, queues: int) -> None:
        """Add queues without caps."""
        self._queues += queues
        self._set_lines(self._lines)

    def hand_over(
        self, queue: Array, instants: Array, event: Array | None = None, contents: Contents = NO_CONTENTS
    ) -> Array:
        """Have deliveries handed over at these instants, as far as caps allow; return which of them are capped.

        Where caps count by values, `event` says where each row's event is in the contents.
        """
        is_capped = np.zeros(len(queue), np.bool_)
        if not len(queue) or not self:
            return is_capped
        settings, counters = self._prepared(instants)
        event, row = np.zeros(len(queue), np.int64) if event is None else event, 0
        _, starts, attributes, values = contents
        while True:
            row = hand_over_rows(
                self._starts,
                self._lines,
                settings,
                counters,
                self._places,
                self._held,
                queue,
                instants,
                event,
                starts,
                attributes,
                values,
                is_capped,
                row,
            )
            if row == len(queue):
                return is_capped
            self._set_values(self._values(FIRST_INSTANT))

    def _prepared(self, instants: Array) -> tuple[Array, Array]:
        """Return the settings as kernels take them, and the ends of the periods of calendars that instants lie in.

        They are kept for as long as no calendar begins another period.
        """
        first, last, kept = int(instants.min()), int(instants.max()), self._kept
        if kept is not None and kept.caps == len(self._settings) and kept.first <= first and last < kept.until:
            return kept.settings, kept.counters
        calendars: list[Every] = []
        settings = np.zeros((len(self._settings), 3), np.int64)
        for cap, at in self._settings.items():
            if isinstance(cap.every, Every):
                settings[at, SPAN] = ~len(calendars)
                calendars.append(cap.every)
            else:
                settings[at, SPAN] = min(cap.every // TICK, LONGEST)
            if cap.per is not None:
                settings[at, HAS_PER], settings[at, PER] = 1, attribute_code(cap.per)
        ends: list[list[int]] = []
        several: list[int] = []
        for calendar in calendars:
            own = [period_end_ticks(first, calendar)]
            if own[0] <= last:
                several = several or np.unique(instants).tolist()
                own = period_ends(several, calendar)
            ends.append(own)
        starts = CALENDARS + 1 + len(ends) + np.cumsum([0, *map(len, ends)])
        counters = np.array([*[0] * CALENDARS, *starts, *chain.from_iterable(ends)], np.int64)
        until = min((own[0] for own in ends), default=LAST_INSTANT + 1)
        self._kept = PreparedSettings(settings, counters, len(self._settings), first, until)
        return settings, counters

    # ----------------------------------------------------------------------------------------------- queue by queue

    def get(self, queue: int) -> CapCounts:
        """Return the caps of a queue as the rules know them."""
        caps, values = list(self._settings), self._values(FIRST_INSTANT)
        found = []
        for at in range(int(self._starts[queue]), int(self._starts[queue + 1])):
            _, count, setting, end, used = self._lines[at].tolist()
            own = values[values[:, VALUE.line] == at]
            counts = dict(zip(own[:, VALUE.code].tolist(), own[:, VALUE.used].tolist(), strict=True))
            counts = {MISSING: used} if used else counts
            found.append(CapCount(replace(caps[setting], count=count), instant_of(end), counts))
        return tuple(found)

    def put(self, queue: int, counts: CapCounts) -> None:
        """Let the caps of a queue be these."""
        first, last = int(self._starts[queue]), int(self._starts[queue + 1])
        if not counts and first == last:
            return
        values = self._values(FIRST_INSTANT)
        before, after = values[values[:, VALUE.line] < first], values[values[:, VALUE.line] >= last]
        after[:, VALUE.line] += len(counts) - (last - first)
        own = [
            (first + at, code, microseconds(count.end), used)
            for at, count in enumerate(counts)
            for code, used in count.counts.items()
            if count.cap.per is not None
        ]
        lines = np.array([self._line(queue, count) for count in counts], np.int64).reshape(-1, len(CAP))
        if len(lines) == last - first:
            self._lines[first:last] = lines
        else:
            self._set_lines(np.concatenate([self._lines[:first], lines, self._lines[last:]]))
        if self._held[0] or own:  # what counted in periods that are over goes, too: its lines are others now
            self._set_values(np.concatenate([before, np.array(own, np.int64).reshape(-1, len(VALUE)), after]))

    def change(self, queue: int, policy: Policy | None) -> None:
        """Let a queue have the caps of another policy; without one it is gone."""
        counts = () if policy is None else changed_counts(self.get(queue), policy.at_most)
        self.put(queue, counts)

    def _line(self, queue: int, count: CapCount) -> CapWords:
        cap, end = count.cap, microseconds(count.end)
        setting = self._settings.setdefault(replace(cap, count=1), len(self._settings))
        used = 0 if cap.per is not None else count.counts.get(MISSING, 0)
        return CapWords(queue, min(cap.count, LONGEST), setting, end, used)

    def _set_lines(self, lines: Array) -> None:
        self._lines = lines
        self._starts = np.searchsorted(lines[:, CAP.queue], np.arange(self._queues + 1))

    def _values(self, now: int) -> Array:
        """Return what has counted by value in periods that are open and end after an instant."""
        found = self._places[self._places[:, VALUE.line] != FREE]
        ends = self._lines[found[:, VALUE.line], CAP.end]
        kept: Array = found[(found[:, VALUE.end] == ends) & ((ends > now) | (ends == LAST_INSTANT))]
        return kept[np.lexsort((kept[:, VALUE.code], kept[:, VALUE.line]))]

    def _set_values(self, values: Array) -> None:
        """Have a hash table of these, a quarter full at most."""
        size = max(FEWEST_PLACES, 1 << (4 * len(values)).bit_length())
        self._places = np.full((size, len(VALUE)), FREE, np.int64)
        fill_places(self._places, values)
        self._held = np.array([len(values)], np.int64)

    # -------------------------------------------------------------------------------------------------- written down

    def to_arrays(self, now: int) -> dict[str, Array]:
        """Return the table as named arrays, at an instant that nothing is handed over before any more."""
        used = sorted({int(setting) for setting in self._lines[:, CAP.setting].tolist()})
        caps, lines = list(self._settings), self._lines.copy()
        lines[:, CAP.setting] = np.searchsorted(np.array(used, np.int64), lines[:, CAP.setting])
        settings = encode(tuple(caps[setting] for setting in used), _SETTINGS)
        return {"lines": lines, "values": self._values(now), "settings": np.frombuffer(settings, np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], queues: int) -> Self:
        """Return the table of named arrays; raise InvalidValueError when they are none."""
        check_types(CAP_TABLE, arrays, STATE)
        try:
            settings: tuple[Cap, ...] = decode(arrays["settings"].tobytes(), _SETTINGS, "settings")
        except RankcastError as error:
            raise InvalidValueError(f"{CAP_TABLE}: {error}") from None
        check_values(CAP_TABLE, arrays, STATE, {"queues": queues, "settings": len(settings)})
        lines, values = arrays["lines"], arrays["values"]
        fail_where(lines[1:, CAP.queue] < lines[:-1, CAP.queue], f"{CAP_TABLE}: array lines: queues descend")
        made = cls(queues, lines.copy(), values)
        made._settings = {cap: number for number, cap in enumerate(settings)}
        if len(made._settings) < len(settings) or int(made._held[0]) != len(made._places[made._places[:, 0] != FREE]):
            raise InvalidValueError(f"{CAP_TABLE}: a setting or a value is there twice")
        return made


@borrowing_inlined
def _place_of(places: Array, line: int, code: int) -> int:
    """Return the place of a value: where it is, or where it would be put."""
    mixed = (code ^ line) * 1099511628211
    mixed ^= mixed >> 29
    at = mixed & (len(places) - 1)
    while places[at, VALUE.line] != FREE and (places[at, VALUE.line] != line or places[at, VALUE.code] != code):
        at = (at + 1) & (len(places) - 1)
    return int(at)


@compiled
def fill_places(places: Array, values: Array) -> None:
    """Put values into an empty hash table."""
    for row in range(len(values)):
        at = _place_of(places, values[row, VALUE.line], values[row, VALUE.code])
        places[at] = values[row]


@borrowing_inlined
def _code_of(setting: int, settings: Array, starts: Array, attributes: Array, values: Array, event: int) -> int:
    """Return the code of an event's value of the attribute of a setting; a list counts as missing."""
    if len(starts) < 2:
        return MISSING
    end = starts[event + 1]
    at = find(attributes, starts[event], end, settings[setting, PER])
    is_list = at >= 0 and (values[at] == LIST or (at + 1 < end and attributes[at + 1] == attributes[at]))
    return MISSING if at < 0 or is_list else int(values[at])


@compiled
def hand_over_rows(
    line_starts: Array,
    lines: Array,
    settings: Array,
    counters: Array,
    places: Array,
    held: Array,
    queue: Array,
    instants: Array,
    event: Array,
    starts: Array,
    attributes: Array,
    values: Array,
    is_capped: Array,
    row: int,
) -> int:
    """Hand over rows from one on, or cap them; return the first for which the hash table has no room, or their number.

    A period without an end within time does not end. Once a cap of a queue is used up, whatever the value, nothing of
    that queue is looked up again until its period ends: rows of one queue come together.
    """
    used_up, until = -1, 0
    while row < len(queue):
        now = instants[row]
        if queue[row] == used_up and now < until:
            is_capped[row] = True
            row += 1
            continue
        first, last = line_starts[queue[row]], line_starts[queue[row] + 1]
        if 2 * (held[0] + last - first) > len(places):
            return row
        capped = False
        for at in range(first, last):
            setting = lines[at, CAP.setting]
            if lines[at, CAP.end] <= now and lines[at, CAP.end] != LAST_INSTANT:
                lines[at, CAP.end] = end_of_period(counters, settings[setting, SPAN], now)
                lines[at, CAP.used] = 0
            used = lines[at, CAP.used]
            if settings[setting, HAS_PER]:
                code = _code_of(setting, settings, starts, attributes, values, event[row])
                place = _place_of(places, at, code)
                is_current = places[place, VALUE.line] == at and places[place, VALUE.end] == lines[at, CAP.end]
                used = places[place, VALUE.used] if is_current else 0
            if used >= lines[at, CAP.most]:
                capped = True
                if not settings[setting, HAS_PER]:
                    used_up, until = queue[row], lines[at, CAP.end]
                break
        is_capped[row] = capped
        for at in range(first, first if capped else last):
            setting = lines[at, CAP.setting]
            if settings[setting, HAS_PER]:
                code = _code_of(setting, settings, starts, attributes, values, event[row])
                place = _place_of(places, at, code)
                held[0] += int(places[place, VALUE.line] == FREE)
                if places[place, VALUE.line] == FREE or places[place, VALUE.end] != lines[at, CAP.end]:
                    places[place, VALUE.used] = 0
                places[place, VALUE.line], places[place, VALUE.code] = at, code
                places[place, VALUE.end] = lines[at, CAP.end]
                places[place, VALUE.used] += 1
            else:
                lines[at, CAP.used] += 1
        row += 1
    return row
