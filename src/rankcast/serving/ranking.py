"""From the subscriptions that one event matches to the rows of the queues that it is offered to.

Until kernels are loaded matches are ranked one by one, in plain Python. Then they go through the kernel that ranks
batches, for which the subscriptions are lines of a table that grows and shrinks; the arithmetic is the same to the last
bit. Subscribers for whom only the most specific matches count, or with very many subscriptions, are always ranked one
by one.

What an event matched in a queue are the low bits of its word (`delivery.stream.matched_sets`).

Where a publisher wants its k best subscribers only, `best` says who these are, before anything is ranked for them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rankcast.arrays import Array, longer
from rankcast.compiling import loaded
from rankcast.compiling.arguments import KernelArguments
from rankcast.containers.container import to_arrays
from rankcast.delivery.stream.matched_sets import SETS, WIDEST, MatchedSets
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.model.relevance import Relevance
from rankcast.model.subscriptions import SubscriptionId
from rankcast.model.times import NEVER, TICK, instant_of, microseconds
from rankcast.ranking.audiences import (
    by_id,
    diverse_scores,
    draws,
    event_number,
    relevant_score,
    select,
    subscriber_number,
)
from rankcast.ranking.batch import EVENT_ARRAYS, ROW_SCORE, Features, rank_event
from rankcast.ranking.batch_table import LONGEST, MAX, NONE, Functions, profile_of
from rankcast.serving.queues import ServedRows
from rankcast.serving.subscriber_state import ServedQueue, SubscriberState

SPARE = 64
"""Relevance functions that nobody uses any more, beside as many as are used, before they are forgotten."""

NO_VECTORS = Features.of(Functions(), 1, {})

PLAIN = MAX, 0, 0
"""How the rank of a subscription alone is made: it is its own."""

_WRITTEN = ("keys", "counts", "ranks", "out_event", "out_rank", "out_start", "out_matched")
"""What the kernel writes of an event's matches, beside the rows."""

_LINE = {
    "queue": np.int64,
    "profile": np.int32,
    "rank": np.float64,
    "weight": np.float64,
    "refresh": np.int64,
    "relevance": np.int32,
    "bits": np.int64,
    "subscriber": np.int64,
    "draw": np.uint64,
}
"""What is known of each subscription."""


class SubscriptionRanking:
    """Subscriptions by number, and how an event that matches some of them ranks for their subscribers."""

    def __init__(self, codes: MatchedCodes) -> None:
        self._codes = codes
        self._owners: list[ServedQueue | None] = []
        self._positions: list[int] = []
        self._lines = {name: np.zeros(0, kind) for name, kind in _LINE.items()}
        self._one_by_one = np.zeros(0, np.bool_)
        self._are_special = 0
        self._free: dict[int, list[int]] = {}
        self._profiles: dict[tuple[int, int, int], int] = {}
        self._functions = Functions()
        self._uses: Counter[Relevance] = Counter()
        self._stale = True
        self._room = 0
        self._places: Array | None = None
        self._profile(PLAIN)  # the first

    def add(self, owner: SubscriberState, queues: Mapping[SubscriptionId | None, ServedQueue]) -> None:
        """Number the subscriptions of a subscriber that has these queues."""
        subscriptions = owner.subscriber.subscriptions
        free = self._free.get(len(subscriptions))
        owner.first = free.pop() if free else len(self._owners)
        if owner.first == len(self._owners):
            self._owners += [None] * len(subscriptions)
            self._positions += range(len(subscriptions))
            self._grow(len(self._owners))
        profile = self._profile(profile_of(owner.subscriber))
        special = owner.subscriber.most_specific or len(subscriptions) > WIDEST
        draw = subscriber_number(owner.subscriber.id)
        self._places = None
        for at, (number, own) in enumerate(zip(owner.numbers, subscriptions, strict=True)):
            queue = queues[None if own.deliver is None else own.id]
            self._owners[number] = queue
            relevance = NONE if own.relevance is None else self._function(own.relevance)
            refresh = LONGEST if own.refresh is None else min(LONGEST, own.refresh // TICK)
            rank, weight = owner.preferences.ranks[own.id], owner.preferences.weights[own.id]
            bits = 1 << at if at < WIDEST else 0
            line = (queue.number, profile, rank, weight, refresh, relevance, bits, owner.first, draw)
            for name, value in zip(self._lines, line, strict=True):
                self._lines[name][number] = value
            self._one_by_one[number] = special
        self._are_special += special

    def remove(self, owner: SubscriberState) -> None:
        """Forget the subscriptions of a subscriber."""
        size = len(owner.subscriber.subscriptions)
        for number in owner.numbers:
            self._owners[number] = None
        self._are_special -= owner.subscriber.most_specific or size > WIDEST
        if size:
            self._free.setdefault(size, []).append(owner.first)
        relevances = (subscription.relevance for subscription in owner.subscriber.subscriptions)
        self._uses.subtract(relevance for relevance in relevances if relevance is not None)
        self._uses += Counter()  # without those that nobody uses
        if len(self._functions) > 2 * len(self._uses) + SPARE:
            self._collect_functions()

    def _collect_functions(self) -> None:
        """Forget the relevance functions that nobody uses, and number the others again."""
        self._functions, self._stale = Functions(), True
        for number, queue in enumerate(self._owners):
            own = None if queue is None else queue.owner.subscriber.subscriptions[self._positions[number]]
            if own is not None and own.relevance is not None:
                self._lines["relevance"][number] = self._functions.add(own.relevance)

    def owner(self, number: int) -> tuple[ServedQueue, int]:
        """Return the queue that a subscription competes in, and its position among its subscriber's."""
        queue = self._owners[number]
        assert queue is not None
        return queue, self._positions[number]

    def _grow(self, size: int) -> None:
        if size > len(self._one_by_one):
            room = max(64, 2 * size)
            self._lines = {name: longer(column, room) for name, column in self._lines.items()}
            self._one_by_one = longer(self._one_by_one, room)
            self._stale = True

    def _profile(self, profile: tuple[int, int, int]) -> int:
        if profile not in self._profiles:
            self._profiles[profile] = len(self._profiles)
            self._stale = True
        return self._profiles[profile]

    def _function(self, relevance: Relevance) -> int:
        self._uses[relevance] += 1
        known = len(self._functions)
        number = self._functions.add(relevance)
        self._stale = self._stale or len(self._functions) > known
        return number

    # ------------------------------------------------------------------------------------------------------- ranking

    def grouped(self, numbers: Iterable[int]) -> dict[ServedQueue, tuple[int, ...]]:
        """Return the positions of matching subscriptions by the queues they compete in."""
        found: dict[ServedQueue, list[int]] = {}
        for number in sorted(numbers):
            queue = self._owners[number]
            assert queue is not None
            found.setdefault(queue, []).append(self._positions[number])
        return {queue: tuple(positions) for queue, positions in found.items()}

    def rows(self, event: Event, numbers: Array, word: int, time: int, *, by_kernel: bool) -> ServedRows:
        """Return the rows of an event of a time that matches some subscriptions; its word has no code yet.

        They are there until the next call.
        """
        if not by_kernel:
            return self._rows_one_by_one(event, numbers.tolist(), word, time)
        if not self._are_special:
            return self._rows_by_kernel(event, numbers, word, time)
        special = self._one_by_one[numbers]
        rest = self._rows_one_by_one(event, numbers[special].tolist(), word, time)
        if special.all():
            return rest
        plain = self._rows_by_kernel(event, numbers[~special], word, time)
        return plain.joined(rest) if rest.size else plain

    def _rows_one_by_one(self, event: Event, numbers: Sequence[int], word: int, time: int) -> ServedRows:
        rows: list[tuple[int, int, int, float]] = []
        instant, stated = instant_of(time), microseconds(event.expires)
        for queue, positions in self.grouped(numbers).items():
            ranked = queue.ranked(event, positions)
            if ranked is None:
                continue
            preferences = queue.owner.preferences
            code = self.code(queue, ranked.matched, positions)
            expires = microseconds(queue.expires(event, ranked, instant)) if preferences.refreshes else stated
            score = ranked.rank if preferences.decay is None else preferences.score(ranked.rank, instant)
            rows.append((queue.number, word | code, expires, score))
        return ServedRows.of(rows)

    def code(self, queue: ServedQueue, matched: tuple[str, ...], positions: tuple[int, ...]) -> int:
        """Return the code of the subscriptions that rank an event, which are among those at some positions."""
        if len(matched) < len(positions):
            owned, ranking = queue.owner.subscriber.subscriptions, set(matched)
            positions = tuple(at for at in positions if owned[at].id in ranking)
        return self._codes.number(positions)

    def _rows_by_kernel(self, event: Event, numbers: Array, word: int, time: int) -> ServedRows:
        rows = self._ranked_by_kernel(event, numbers, word, time)
        if self._profiles_decay:
            self._complete_scores(rows, time)
        return rows

    def _ranked_by_kernel(
        self, event: Event, numbers: Array, word: int, time: int, *, apart: bool = False
    ) -> ServedRows:
        """Return the rows of matches or, `apart`, a row for each, as if it were the only one of a queue of its number.

        A decayed score may be missing.
        """
        if self._stale or len(numbers) > self._room:
            self._refresh(len(numbers))
        if self._numbers:
            given, written = event.attributes.get, self._written
            for at, name in enumerate(self._numbers):
                value = given(name)
                written[at] = value if type(value) is float and -math.inf < value < math.inf else _number(value)
        if self._vectors or apart:
            arguments = self._arguments(self._vectors_of(event), apart=apart)
        else:
            arguments = self._without_vectors
        stated = NEVER if event.expires is None else microseconds(event.expires)
        return ServedRows(self._rows, self._rank_event(arguments.addresses, numbers, word, time, stated, self._rows))

    def _complete_scores(self, rows: ServedRows, time: int) -> None:
        """Work out one by one the few decayed scores that need whole numbers beyond 2**53."""
        scores = rows.table[ROW_SCORE, : rows.size].view(np.float64)
        for row in np.flatnonzero(np.isnan(scores)).tolist():
            owner = self.owner(int(self._out["out_matched"][self._out["out_start"][row]]))[0].owner
            scores[row] = owner.preferences.score(float(self._out["out_rank"][row]), instant_of(time))

    def _refresh(self, count: int) -> None:
        """Make again what the kernel is given beside single events, with room for so many matches."""
        if count > self._room:
            self._room = 2 * count
        room = self._room
        profiles = np.array(list(self._profiles), np.int64)
        self._profiles_decay = bool((profiles[:, 1:] != 0).any())
        self._numbers, self._vectors = tuple(self._functions.numbers), tuple(self._functions.vectors)
        self._values = np.empty((max(1, len(self._numbers)), 1))  # of nothing there is no view
        self._written = memoryview(self._values.data).cast("B").cast("d")
        self._rows = np.empty((4, room), np.int64)
        self._out = {
            "event": np.zeros(4, np.int64),
            **{name: np.empty(room + 1, EVENT_ARRAYS[name][0]) for name in _WRITTEN},
        }
        self._tables = {
            **self._lines,
            "rank_by": profiles[:, 0].astype(np.int8),
            "half_life": np.ascontiguousarray(profiles[:, 1:]),
            **self._functions.arrays(),
            "numbers": self._values,
            **dict.fromkeys(("general_start", "general_end", "general"), np.zeros(len(self._one_by_one), np.int64)),
        }
        self._without_vectors = self._arguments(NO_VECTORS, apart=False)
        self._rank_event = loaded(rank_event)
        self._stale = False

    def _arguments(self, vectors: Features, *, apart: bool) -> KernelArguments:
        given = {**to_arrays(vectors), **self._tables, **self._out}
        if apart:
            count = len(self._one_by_one)
            given |= {"queue": np.arange(count), "profile": np.zeros(count, np.int32)}
        return KernelArguments.of(EVENT_ARRAYS, given)

    def _vectors_of(self, event: Event) -> Features:
        """Return the vectors of an event, as far as functions look at them."""
        found = ((name, event.vector(name)) for name in self._vectors)
        vectors = {name: (np.array([0, len(vector)]), np.array(vector)) for name, vector in found if vector is not None}
        return Features.of(self._functions, 1, {}, vectors)

    # --------------------------------------------------------------------------------------------- the k best of all

    def best(self, event: Event, numbers: Array, ranking: AudienceRanking, k: int, *, by_kernel: bool) -> Array:
        """Return one number of each of the k best subscribers of an event that matches some subscriptions."""
        matched, scores = self._scores(event, numbers, ranking.scoring, by_kernel=by_kernel)
        order = draws(event_number(ranking.seed, event.identity), self._lines["draw"][matched])
        if ranking.ties is Ties.BY_ID:
            order = self._by_id[matched]
        found: Array = matched[select(self._lines["subscriber"][matched], scores, order, k)]
        return found

    def of_same(self, numbers: Array, chosen: Array) -> Array:
        """Return those of some subscriptions whose subscribers have one of the chosen ones."""
        subscriber = self._lines["subscriber"]
        found: Array = numbers[np.isin(subscriber[numbers], subscriber[chosen])]
        return found

    @property
    def _by_id(self) -> Array:
        """The place of each subscription in the order of its subscriber's id: worked out when somebody has come."""
        if self._places is None:
            self._places = by_id("" if queue is None else queue.owner.subscriber.id for queue in self._owners)
        return self._places

    def _scores(self, event: Event, numbers: Array, scoring: Scoring, *, by_kernel: bool) -> tuple[Array, Array | None]:
        """Return the subscriptions among those that an event matches to which it is relevant, and what they score."""
        numbers = np.sort(numbers)
        scores = self._lines["rank"][numbers]
        if (self._lines["relevance"][numbers] != NONE).any():
            if by_kernel:
                rows = self._ranked_by_kernel(event, numbers, 0, 0, apart=True)
                numbers, relevant = rows.queue.copy(), rows.table[ROW_SCORE, : rows.size].view(np.float64).copy()
            else:
                found = [(at, self._relevant_score(event, at)) for at in numbers.tolist()]
                known = [(at, score) for at, score in found if score is not None]
                numbers = np.array([at for at, _ in known], np.int64)
                relevant = np.array([score for _, score in known])
            scores = relevant if scoring is Scoring.RELEVANCE else self._lines["rank"][numbers]
        if scoring is Scoring.DIVERSITY:
            owned = [self.owner(at) for at in numbers.tolist()]
            return numbers, diverse_scores([queue.owner.subscriber.subscriptions[at].bounded for queue, at in owned])
        return numbers, None if scoring is Scoring.NONE else scores

    def _relevant_score(self, event: Event, number: int) -> float | None:
        queue, position = self.owner(number)
        own = queue.owner.subscriber.subscriptions[position]
        return relevant_score(queue.owner.preferences.ranks[own.id], own.relevance, event)


def _number(value: object) -> float:
    """Return an attribute as relevance functions take it, NaN when it is no finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    number = float(value)
    return number if math.isfinite(number) else math.nan


FEWEST, MOST = SETS // 8, SETS // 2
"""Sets that are kept before queues are asked which they need, where they need few or very many."""


class MatchedCodes(MatchedSets):
    """What events matched in queues, as the low bits of their words; sets that no queue needs are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._many = FEWEST
        self._recent: set[int] = set()

    @property
    def are_many(self) -> bool:
        """Whether it is time to look which of the sets are still needed."""
        return len(self) > self._many

    def number(self, chosen: tuple[int, ...]) -> int:
        """Return the code of ascending positions."""
        found = super().number(chosen)
        if found >= SETS:
            self._recent.add(found)
        return found

    def begin_sweep(self) -> None:
        """Remember from now on which codes are asked for."""
        self._recent = set()

    def end_sweep(self, held: set[int]) -> None:
        """Forget the sets but those of some codes, and those that were asked for since the sweep began."""
        if len(self):
            self.keep(held | self._recent)
            self._many = min(max(2 * len(self), FEWEST), MOST)
