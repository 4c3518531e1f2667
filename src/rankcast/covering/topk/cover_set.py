"""Top-k covering: which subscriptions a broker must forward so that the k best matches of any publication are known.

A publication goes to its k best subscriptions only, so a subscription that k others cover and outrank never decides
whether a publication comes this way. Three ways to tell who is hidden, each sound:

- RegularCover: hidden as soon as one other is above it. Right for plain routing, which needs to know only that somebody
  matches.
- RankCoverK: hidden when the longest chain of subscriptions above it has at least k members.
- AncestorCoverK: hidden when at least k subscriptions are above it, in whatever arrangement; hides most.

Chains and ancestors may be counted among the forwarded ones alone: of k above a subscription the top ones are forwarded
themselves, and there are k of them. So what a broker computes from what its neighbours forwarded equals what it would
compute from everything (the depth by shortest paths, as printed, does not have this property).

`add` and `remove` return what to send upstream: whom to forward now, and whom to withdraw. `weights` gives each
forwarded subscription its share of those hidden below it; the paper's weight, all descendants, counts a hidden one
several times.

Subscriptions may have owners: then a subscription is hidden when another one of its owner is above it, or when those of
k other owners are. An owner counts once, however many of its subscriptions are above; in a chain of forwarded ones it
cannot come twice. With one subscription for each owner that is the same.

Paper: top-k covering for publish/subscribe overlays, with the corrections of docs/semantics.md.
Cost: an addition is compared with the forwarded ones; a change of the forwarded ones is one pass over all, or, as soon
as an owner has several, a comparison with the forwarded ones for each that is below the one that comes or goes.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import Enum
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import enlarge
from rankcast.covering.topk.order import BoxColumns, Order, Ranking
from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema


class Cover(Enum):
    """How many above a subscription hide it: one, a chain of k, or any k."""

    REGULAR = "RegularCover"
    RANK = "RankCoverK"
    ANCESTOR = "AncestorCoverK"


class Change(NamedTuple):
    """What a broker tells its neighbour upstream: subscriptions to forward, and forwarded ones to withdraw."""

    forward: tuple[int, ...] = ()
    withdraw: tuple[int, ...] = ()


OWN = 2**32
"""The level of a subscription that another one of its owner is above: more than any k that is asked for."""


def check_k(k: object) -> None:
    """Raise InvalidValueError unless this can be a k."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InvalidValueError(f"k: {shown(k)} is not a whole number of at least 1")


class CoverSet:
    """Numbered subscriptions, divided into those forwarded and those hidden below them.

    `level` is what hides a subscription when it reaches k: for a forwarded one the number of those above it, or the
    longest chain of them; for a hidden one the same among the forwarded ones.
    """

    def __init__(
        self,
        cover: Cover,
        k: int = 1,
        ranking: Ranking = Ranking.AGNOSTIC,
        schema: Schema | None = None,
    ) -> None:
        if not isinstance(cover, Cover):
            raise InvalidValueError(f"cover: {shown(cover)} is not a Cover")
        check_k(k)
        self.cover = cover
        self.k = 1 if cover is Cover.REGULAR else k
        self.order = Order(ranking, schema)
        self._level = np.zeros(16, np.int64)
        self._owner = np.zeros(16, np.int64)
        self._owned: Counter[int] = Counter()
        self._are_shared = False
        self._forwarded = BoxColumns(self.order)
        self._hidden = BoxColumns(self.order)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def forwarded(self) -> Array:
        """The forwarded subscriptions, in ascending order."""
        return np.sort(self._forwarded.numbers)

    @property
    def hidden(self) -> Array:
        """The hidden subscriptions, in ascending order."""
        return np.sort(self._hidden.numbers)

    def hiding(self, number: int) -> tuple[int, ...]:
        """Return the forwarded subscriptions above one, in ascending order: those that hide it, if it is hidden."""
        return tuple(sorted(self.order.above(number, self._forwarded).tolist()))

    def hides(self, number: int) -> bool:
        """Whether one of the hidden subscriptions is below one."""
        return len(self.order.below(number, self._hidden)) > 0

    def below(self, number: int) -> Array:
        """Return all subscriptions below one, forwarded and hidden ones."""
        groups = (self._forwarded, self._hidden)
        return np.concatenate([self.order.below(number, group) for group in groups])

    def hidden_weights(self, numbers: Array, weights: Array) -> Array:
        """Return what forwarded subscriptions stand for beside themselves: of each hidden one below, given its weight,
        an even share among all above it. Only with AncestorCoverK, which counts those.

        A weight is 1 for the owner, and what the subscription stands for beside it. All hidden ones of an owner are 1
        together; one behind another of its owner is none.
        """
        if not self._are_shared:
            return self.order.shares(numbers, self._hidden, weights, self._level)
        behind = {number: self.hiding(number) for number in self._hidden.numbers.tolist()}
        new = {at for at, above in behind.items() if self._owner[at] not in self._owner[list(above)]}
        several = Counter(self._owner[list(new)].tolist())
        shares: dict[int, list[float]] = {number: [] for number in numbers.tolist()}
        for at, above in behind.items():
            weight = weights[at] - 1 + (1 / several[int(self._owner[at])] if at in new else 0)
            for upper in above:
                if upper in shares:
                    shares[upper].append(weight / len(above))
        return np.array([math.fsum(own) for own in shares.values()])

    def add(self, number: int, wanted: Filter, score: float = 0.0, owner: int | None = None) -> Change:
        """Take a subscription in; without an `owner`, which is a number, nobody else's."""
        self.order.add(number, wanted, score)
        self._level, self._owner = enlarge(self._level, number + 1), enlarge(self._owner, number + 1)
        self._owner[number] = -1 - number if owner is None else owner
        self._owned[int(self._owner[number])] += 1
        self._are_shared |= self.cover is not Cover.REGULAR and self._owned[int(self._owner[number])] > 1
        if self._set_level(number):
            self._hidden.add(number)
            return Change()
        if self._are_shared:
            self._forwarded.add(number)
            change = self._settle(self.below(number))
            return Change((number, *change.forward), change.withdraw)
        return Change((number,), tuple(self._enter(number)))

    def remove(self, number: int) -> Change:
        """Forget a subscription."""
        self.order.filter(number)
        owner = int(self._owner[number])
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]
        if number in self._hidden:
            self._hidden.remove(number)
            self.order.remove(number)
            return Change()
        self._forwarded.remove(number)
        change = self._settle(self.below(number)) if self._are_shared else Change(tuple(self._uncover(number)))
        self.order.remove(number)
        return Change(change.forward, (number, *change.withdraw))

    def weights(self) -> dict[int, float]:
        """Return for each forwarded subscription 1 plus its shares of the hidden ones: each is divided evenly among
        the forwarded ones above it. The sum is the number of all subscriptions."""
        shares = dict.fromkeys(self.forwarded.tolist(), 1.0)
        for number in self.hidden.tolist():
            above = self.order.above(number, self._forwarded).tolist()
            for upper in above:
                shares[upper] += 1 / len(above)
        return shares

    def descendants(self) -> dict[int, int]:
        """Return for each forwarded subscription how many are below it: the paper's weights, less 1."""
        return {number: len(self.below(number)) for number in self.forwarded.tolist()}

    def _set_level(self, number: int) -> bool:
        """Work out the level of a subscription; return whether it is hidden by that."""
        above = self.order.above(number, self._forwarded)
        if self._are_shared and (self._owner[above] == self._owner[number]).any():
            level = OWN
        elif self.cover is Cover.RANK:
            level = self._level[above].max(initial=-1) + 1
        else:
            level = len(np.unique(self._owner[above])) if self._are_shared else len(above)
        self._level[number] = level
        return bool(level >= self.k)

    def _enter(self, number: int) -> list[int]:
        """Let a subscription be forwarded; return those that are hidden by that."""
        self._forwarded.add(number)
        if self.cover is Cover.RANK:
            return self._deepen(number)
        below = self.order.below(number, self._forwarded)
        self._level[below] += 1
        hidden_below = self.order.below(number, self._hidden)
        self._level[hidden_below] += 1
        withdrawn = below[self._level[below] >= self.k].tolist()
        for lower in withdrawn:
            self._forwarded.remove(lower)
        for lower in withdrawn:
            # Whoever it was above of is counted among the forwarded only.
            self._level[self.order.below(lower, self._hidden)] -= 1
            self._level[self.order.below(lower, self._forwarded)] -= 1
        for lower in withdrawn:
            self._set_level(lower)
        for lower in withdrawn:
            self._hidden.add(lower)
        return sorted(withdrawn)

    def _uncover(self, number: int) -> list[int]:
        """Let a subscription, no longer forwarded, hide nobody; return those that are forwarded by that."""
        if self.cover is Cover.RANK:
            return self._raise(number)
        self._level[self.order.below(number, self._forwarded)] -= 1
        below = self.order.below(number, self._hidden)
        self._level[below] -= 1
        promoted: list[int] = []
        for lower in self.order.top_down(below[self._level[below] < self.k]).tolist():
            if self._level[lower] < self.k:
                self._hidden.remove(lower)
                promoted.append(lower)
                for withdrawn in self._enter(lower):
                    promoted.remove(withdrawn)
        return sorted(promoted)

    def _settle(self, numbers: Array) -> Change:
        """Decide again, from the top down, which of some subscriptions are forwarded."""
        forward: list[int] = []
        withdraw: list[int] = []
        for number in self.order.top_down(numbers).tolist():
            was_hidden, is_hidden = number in self._hidden, self._set_level(number)
            if is_hidden != was_hidden:
                left, entered = (self._forwarded, self._hidden) if is_hidden else (self._hidden, self._forwarded)
                left.remove(number)
                entered.add(number)
                (withdraw if is_hidden else forward).append(number)
        return Change(tuple(sorted(forward)), tuple(sorted(withdraw)))

    def _deepen(self, number: int) -> list[int]:
        """Work out the chains again below a subscription that has entered; return those whose chain is too long now."""
        withdrawn: list[int] = []
        for lower in self.order.top_down(self.order.below(number, self._forwarded)).tolist():
            if self._set_level(lower):
                self._forwarded.remove(lower)
                self._hidden.add(lower)
                withdrawn.append(lower)
        return sorted(withdrawn)

    def _raise(self, number: int) -> list[int]:
        """Work out the chains again below a subscription that has left; return those whose chain is short enough now.

        A hidden one stays hidden while one of level k-1 is above it, so only those are looked at that have lost one.
        """
        left = {int(self._level[number])}
        lost = [number] if self.k - 1 in left else []
        for lower in self.order.top_down(self.order.below(number, self._forwarded)).tolist():
            before = int(self._level[lower])
            if before - 1 not in left:
                continue  # whoever made its chain so long is still there
            self._set_level(lower)
            if self._level[lower] != before:
                left.add(before)
                lost += [lower] if before == self.k - 1 else []
        below = [self.order.below(upper, self._hidden) for upper in lost]
        promoted: list[int] = []
        for lower in self.order.top_down(np.unique(np.concatenate([np.zeros(0, np.int64), *below]))).tolist():
            if not self._set_level(lower):
                self._hidden.remove(lower)
                self._forwarded.add(lower)
                promoted.append(lower)
        return sorted(promoted)
