"""Batched queues that can be added, emptied and given another policy.

A change does what `rankcast.delivery.policies.with_policy` does to one queue: what is still held is kept where the kind
of policy stays, within a smaller window the most recent events; a policy of another kind starts empty. What is held is
what batched queues hold: of a period the best k so far (all of it with diversity), with k = 0 nothing. `rank_anew`
does what `with_candidates` does: it gives what is held other scores.

Cost: a change copies what its queue holds to the end of the arena; the old place is free at the next repacking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np

from rankcast.delivery.batch import BatchedQueues, Deliveries, Rows
from rankcast.delivery.batch_diversity import NO_SETTINGS, Settings
from rankcast.delivery.batch_layout import (
    ALL,
    CAPACITY,
    CLOCK,
    CONTINUOUS,
    COUNT,
    COUNT_WINDOW,
    DOMINATORS,
    EVENT,
    EXPIRY,
    HEAD,
    KIND,
    NEVER,
    NEXT,
    PERIODIC,
    SCORE,
    SETTING,
    SLIDING,
    SLOT,
    START,
    TIME,
    TIME_WINDOW,
    TOP,
    UNSEEN,
    WINDOW,
    Array,
    K,
    lines_of,
)
from rankcast.delivery.contents import Contents
from rankcast.model.policies import Policy, Sliding, TopKWindow, diversity_of

_FAMILIES = {CONTINUOUS: 1, SLIDING: 2, COUNT_WINDOW: 3, TIME_WINDOW: 3, PERIODIC: 4}
SPARE = 1.25
"""How much larger than needed an arena is made."""


class Live(NamedTuple):
    """The state of queues as it is in memory: lines, arena, how much of that is used, settings of diversity."""

    queues: Array
    arena: Array
    used: int
    settings: Array


class ChangingQueues(BatchedQueues):
    """Batched queues whose policies change."""

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Self:
        """Return queues that have seen nothing yet."""
        lines, settings = _lines(list(policies), NO_SETTINGS)
        return cls(lines, np.zeros(0, np.int64), settings)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The lines of the queues and the arena, as `batch_layout` describes them: to look at, not to change."""
        return self._queues, self._arena

    def to_live(self) -> Live:
        """Return the state as it is in memory, nothing packed: to go on with elsewhere (`from_live`)."""
        return Live(self._queues, self._arena, self._used, self._settings.to_words())

    @classmethod
    def from_live(cls, live: Live) -> Self:
        """Return queues that go on with these very arrays, which are trusted."""
        made = cls(live.queues, live.arena, Settings.from_words(live.settings))
        made._used = live.used
        return made

    def move_to(self, arena: Array) -> None:
        """Go on in another arena of the same size; what is used of this one is copied."""
        arena[: self._used] = self._arena[: self._used]
        self._arena = arena

    def grow(self, policies: Iterable[Policy]) -> None:
        """Add queues that have seen nothing yet."""
        lines, self._settings = _lines(list(policies), self._settings)
        self._queues = np.concatenate([self._queues, lines])

    def clear(self, queue: int) -> None:
        """Let a queue forget everything that it holds."""
        line = self._queues[queue]
        line[[HEAD, COUNT, TOP]] = 0
        line[[NEXT, UNSEEN]] = NEVER

    def change(self, queue: int, policy: Policy) -> None:
        """Give a queue another policy, from the next instant on."""
        lines, self._settings = _lines([policy], self._settings)
        line, old = lines[0], self._queues[queue]
        line[CLOCK] = old[CLOCK]
        slots = np.zeros((0, SLOT), np.int64)
        if line[K] > 0 and _FAMILIES.get(int(line[KIND])) == _FAMILIES.get(int(old[KIND]), 0):
            line[[NEXT, UNSEEN]] = old[[NEXT, UNSEEN]]
            slots = _kept(_held(old, self._arena), line)
        self._place(queue, line, slots)

    def words_of(self, queue: int) -> Array:
        """Return the words of the events that a queue holds, in its order."""
        words = _held(self._queues[queue], self._arena)[:, EVENT]
        return np.where(words < 0, ~words, words)

    def rank_anew(self, queue: int, rows: Rows, is_known: Array, is_wanted: Array) -> None:
        """Make what a queue holds, in the order of `words_of`, what these rows say; what is not wanted leaves."""
        line = self._queues[queue].copy()
        slots = _held(line, self._arena)
        words = np.where(slots[:, EVENT] < 0, ~rows.event, rows.event)
        slots[is_known, EVENT], slots[is_known, EXPIRY] = words[is_known], rows.expires[is_known]
        slots[is_known, SCORE] = _orders(rows.score[is_known])
        slots = slots[is_wanted | ~is_known]
        if line[KIND] == CONTINUOUS:
            slots = _skyband(slots, int(line[K]))
        if line[KIND] == PERIODIC:
            slots = slots[slots[:, EXPIRY] > line[NEXT]]
        else:
            line[NEXT] = slots[:, EXPIRY].min(initial=NEVER)
        line[HEAD] = 0
        self._place(queue, line, slots)

    def advance_before(self, now: int, chosen: Array, contents: Contents | None = None) -> Deliveries:
        """Do what is due before an instant in some queues, each named once; deliveries come in their order.

        Windows leave open what is due at the instant itself, to which time passes; a period that ends there has to be
        left alone.
        """
        lines = self._queues[chosen]
        chosen = chosen[(lines[:, KIND] != PERIODIC) | (lines[:, NEXT] < now)]
        part = type(self)(self._queues[chosen], self._arena, self._settings)
        found = part.advance(now, contents)
        self._queues[chosen] = part._queues
        return found._replace(queue=chosen[found.queue])

    def _place(self, queue: int, line: Array, slots: Array) -> None:
        """Put a queue with what it holds behind the others."""
        listed = self._listed(line, slots)
        line[START], line[CAPACITY], line[COUNT], line[TOP] = self._used, len(slots), len(slots), len(listed)
        limit = len(slots) if line[KIND] != CONTINUOUS else 0
        if line[KIND] == PERIODIC or line[SETTING]:
            limit = min(limit, int(line[K]))
        limit = min(limit, 2 * int(line[K])) if line[KIND] in _WINDOWS and not line[SETTING] else limit
        end = self._used + SLOT * len(slots) + 2 * limit
        if end > len(self._arena):
            arena = np.empty(int(SPARE * end), np.int64)
            arena[: self._used] = self._arena[: self._used]
            self._arena = arena
        words = slots.ravel()
        self._arena[self._used : self._used + len(words)] = words
        scores = self._used + len(words)
        self._arena[scores : scores + len(listed)] = slots[listed, SCORE]
        self._arena[scores + limit : scores + limit + len(listed)] = 2 * listed
        self._queues[queue], self._used = line, end

    @staticmethod
    def _listed(line: Array, slots: Array) -> Array:
        """Return the places to list: for periods all, best first; windows make their list when they are evaluated."""
        if line[KIND] != PERIODIC or line[SETTING]:
            return np.zeros(0, np.int64)
        return _best_first(slots)


_WINDOWS = (SLIDING, COUNT_WINDOW, TIME_WINDOW)


def _lines(policies: list[Policy], settings: Settings) -> tuple[Array, Settings]:
    """Return lines of queues that hold their window even where it is so short that all is delivered."""
    diversities = [diversity for policy in policies if (diversity := diversity_of(policy)) is not None]
    settings, numbers = settings.including(diversities)
    lines = lines_of(policies, numbers)
    for at in np.flatnonzero(lines[:, KIND] == ALL).tolist():
        policy = policies[at]
        if isinstance(policy, Sliding | TopKWindow):
            lines[at, KIND] = SLIDING if isinstance(policy, Sliding) else COUNT_WINDOW
            diversity = diversity_of(policy)
            lines[at, SETTING] = 0 if diversity is None else numbers[diversity]
    return lines, settings


def _held(line: Array, arena: Array) -> Array:
    """Return the slots of what a queue holds; of a window, the oldest first."""
    if not line[COUNT]:
        return np.zeros((0, SLOT), np.int64)
    places = (line[HEAD] + np.arange(line[COUNT])) % line[CAPACITY]
    slots: Array = arena[line[START] + SLOT * places[:, None] + np.arange(SLOT)]
    return slots


def _kept(slots: Array, line: Array) -> Array:
    """Return what a queue of the same kind as before goes on with."""
    if line[KIND] == PERIODIC and not line[SETTING]:
        return slots[_best_first(slots)[: line[K]]]
    if line[KIND] in _WINDOWS:
        return slots[max(0, len(slots) - int(line[WINDOW])) :]
    return slots


def _orders(scores: Array) -> Array:
    """Return the integers that order as scores do: `kernels_batch.score_order` for all of them."""
    bits = (scores + 0.0).view(np.int64)  # the negative zero becomes the positive one
    found: Array = np.where(bits >= 0, bits, bits ^ NEVER)
    return found


def _skyband(slots: Array, k: int) -> Array:
    """Return what continuous delivery keeps, as it keeps it: the best score first, of equal ones the newer event.

    That is every event that fewer than k others outrank and outlive; of equals, the newer one does so.
    """
    slots = slots[np.lexsort((-slots[:, EVENT], -slots[:, SCORE]))]
    score, expiry = slots[:, SCORE], slots[:, EXPIRY]
    is_before = np.arange(len(slots))[:, None] < np.arange(len(slots))
    outranks = (score[:, None] > score) | ((score[:, None] == score) & ((expiry[:, None] > expiry) | is_before))
    slots[:, DOMINATORS] = (outranks & (expiry[:, None] >= expiry)).sum(axis=0)
    return slots[slots[:, DOMINATORS] < k]


def _best_first(slots: Array) -> Array:
    return np.lexsort((slots[:, EVENT], -slots[:, TIME], -slots[:, SCORE]))
