"""Active and passive subscriptions: forward only what the union of the others does not cover, and lose nothing.

An active subscription is forwarded. A passive one is covered by active ones, its support: those that proved it. When a
supporter goes, exactly its dependents are looked at again, widest first, and those that the rest does not cover become
active. So active subscriptions accept together the same events as all, always.

A subscription that becomes active makes passive those active ones that it covers alone; it takes their place in the
supports of others, which stay proofs because it contains them.

`expire` removes what has ended. Imprecise publications are boxes of what an event may be: `check` of a filter that says
so tells whether every possible event is wanted by somebody.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np

from rankcast.covering.boxes import Boxed
from rankcast.covering.group.conflicts import CoverReason
from rankcast.covering.group.cover import Answer, Checking, GroupStrategy, Union
from rankcast.covering.topk.cover_set import Change
from rankcast.covering.topk.order import BoxColumns, Order
from rankcast.model.errors import UnknownIdError
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema


class ActiveSet:
    """Numbered subscriptions, active or passive; `seed` is that of the random points."""

    def __init__(self, checking: Checking | None = None, schema: Schema | None = None, seed: int = 0) -> None:
        self.checking = Checking() if checking is None else checking
        self.exhausted = 0
        """How often the work allowed was used up, so that a subscription was forwarded that may be covered."""

        self._points = np.random.default_rng(seed)
        self._order = Order(schema=schema)
        self._active = BoxColumns(self._order)
        self._union = Union(space=self._order.boxes.space)
        self._support: dict[int, set[int]] = {}
        self._dependents: dict[int, set[int]] = {}
        self._ends: dict[int, datetime] = {}

    def __len__(self) -> int:
        return len(self._order)

    @property
    def active(self) -> tuple[int, ...]:
        """The active subscriptions, in ascending order."""
        return tuple(sorted(self._active.numbers.tolist()))

    @property
    def passive(self) -> tuple[int, ...]:
        """The passive subscriptions, in ascending order."""
        return tuple(sorted(self._support))

    def support(self, number: int) -> tuple[int, ...]:
        """Return the active subscriptions that prove a passive one covered."""
        if number not in self._support:
            raise UnknownIdError(f"there is no passive subscription {number}")
        return tuple(sorted(self._support[number]))

    def check(self, wanted: Filter) -> Answer:
        """Return whether the active subscriptions cover a filter."""
        return self._union.check(wanted, self.checking, self._points)

    def add(self, number: int, wanted: Filter, expires: datetime | None = None) -> Change:
        """Take a subscription in; return what to forward and what to withdraw."""
        boxed = self._order.add(number, wanted)
        if expires is not None:
            self._ends[number] = expires
        support = self._covering(number, boxed)
        if support is not None:
            self._make_passive(number, support)
            return Change()
        return Change((number,), tuple(sorted(self._activate(number, boxed))))

    def remove(self, number: int) -> Change:
        """Forget a subscription; return what to forward and what to withdraw."""
        self._order.filter(number)
        self._ends.pop(number, None)
        if number in self._support:
            self._forget_support(number)
            self._order.remove(number)
            return Change()
        self._active.remove(number)
        self._union.remove(number)
        forward, withdraw = self._promote(self._dependents.pop(number, set()))
        self._order.remove(number)
        return Change(tuple(sorted(forward)), tuple(sorted({*withdraw, number})))

    def expire(self, now: datetime) -> Change:
        """Remove what has ended by `now`; return what to forward and what to withdraw."""
        forward: set[int] = set()
        withdraw: set[int] = set()
        for number in sorted(one for one, end in self._ends.items() if end <= now):
            change = self.remove(number)
            # What was to be forwarded and is withdrawn again was never sent.
            withdraw |= set(change.withdraw) - forward
            forward = (forward - set(change.withdraw)) | set(change.forward)
        return Change(tuple(sorted(forward)), tuple(sorted(withdraw)))

    def _covering(self, number: int, boxed: Boxed) -> set[int] | None:
        """Return active subscriptions that together cover one, or None when they do not.

        Nobody is needed to cover what no event can match.
        """
        above = self._order.above(number, self._active)
        if len(above):
            return {int(above[0])}
        if self.checking.strategy is GroupStrategy.PAIRWISE and boxed.outer:
            return None
        found, _ = self._union.decide(boxed, self.checking, self._points)
        self.exhausted += found.reason is CoverReason.EXHAUSTED
        return set(found.support) if found.covered else None

    def _activate(self, number: int, boxed: Boxed) -> set[int]:
        """Make a subscription active; return those that are passive by that."""
        covered = set(self._order.below(number, self._active).tolist())
        self._active.add(number)
        self._union.add_boxed(number, self._order.filter(number), boxed)
        for one in covered:
            self._active.remove(one)
            self._union.remove(one)
            for dependent in self._dependents.pop(one, set()):
                self._support[dependent].remove(one)
                self._support[dependent].add(number)
                self._dependents.setdefault(number, set()).add(dependent)
            self._make_passive(one, {number})
        return covered

    def _promote(self, dependents: set[int]) -> tuple[set[int], set[int]]:
        """Look again at passive subscriptions of which a supporter is gone: (now active, now passive instead)."""
        forward: set[int] = set()
        withdraw: set[int] = set()
        for number in self._order.top_down(np.array(sorted(dependents), np.int64)).tolist():
            self._forget_support(number)
            boxed = self._order.boxed(number)
            support = self._covering(number, boxed)
            if support is not None:
                self._make_passive(number, support)
                continue
            gone = self._activate(number, boxed)
            withdraw |= gone - forward
            forward = (forward - gone) | {number}
        return forward, withdraw

    def _make_passive(self, number: int, support: set[int]) -> None:
        self._support[number] = support
        for supporter in support:
            self._dependents.setdefault(supporter, set()).add(number)

    def _forget_support(self, number: int) -> None:
        for supporter in self._support.pop(number):
            dependents = self._dependents.get(supporter)
            if dependents is not None:
                dependents.discard(number)
                if not dependents:
                    del self._dependents[supporter]
