"""What one neighbour is told: the interests that its advertisements need, each once.

For every advertisement that came from the neighbour there is a forward set. An interest is told as long as one of them
forwards it. Two sources can have told interests of the same key, while a subscriber moves. Then both are told as one
that accepts what either does, with the rank of the newer one: others may be hidden behind the older.

What has to be forwarded goes out before what is withdrawn, and what is new before what takes the place of something
else, which may accept less than that did: so the neighbour never knows too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankcast.covering.relation import disjoint
from rankcast.covering.topk.cover_set import Change
from rankcast.model.errors import FilterTooLargeError
from rankcast.model.expressions import Constant, any_of
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import AdvertisementId, SubscriptionKey
from rankcast.overlay.routing.forward_sets import ForwardSet
from rankcast.overlay.routing.interests import Record, Table
from rankcast.overlay.routing.strategies import Strategy, Weighing
from rankcast.overlay.wire.messages import MAX_NUMBER, Advertise, Forward, Interest, Weigh, Withdraw


class NeighbourRoutes:
    """The interests that a neighbour is told.

    `told` has them by key, `told_weights` their weights by advertisement, `told_hiding` those that hide others.
    """

    def __init__(self, table: Table, strategy: Strategy, weighing: Weighing) -> None:
        self._table = table
        self._strategy = strategy
        self._weighing = weighing
        self._sets: dict[AdvertisementId, tuple[Advertise, ForwardSet]] = {}
        self._wanted: dict[SubscriptionKey, dict[int, int]] = {}
        self._touched: dict[SubscriptionKey, None] = {}
        self._may_weigh_otherwise = False
        self.told_weights: dict[tuple[AdvertisementId, SubscriptionKey], float] = {}
        self.told: dict[SubscriptionKey, Interest] = {}
        self.told_hiding: set[SubscriptionKey] = set()

    @property
    def advertisements(self) -> int:
        """How many advertisements the neighbour has."""
        return len(self._sets)

    def advertise(self, advertise: Advertise, records: Iterable[Record]) -> None:
        """Take an advertisement of the neighbour in, or as it is from now on; `records` are those of other sources."""
        name = advertise.advertisement.id
        before = self._sets.get(name)
        made = ForwardSet(self._strategy, advertise)
        self._sets[name] = (advertise, made)
        if self._strategy is not Strategy.FLOODING:
            for record in records:
                self._enter(name, record)
        if before is not None:
            self._apply(Change((), tuple(sorted(before[1].forwarded))))

    def unadvertise(self, name: AdvertisementId) -> None:
        """Forget an advertisement of the neighbour."""
        _, gone = self._sets.pop(name)
        self._apply(Change((), tuple(sorted(gone.forwarded))))
        self.told_weights = {told: weight for told, weight in self.told_weights.items() if told[0] != name}

    def add(self, record: Record) -> None:
        """Take a record of another source in."""
        if self._strategy is not Strategy.FLOODING:
            for name in self._sets:
                self._enter(name, record)

    def remove(self, record: Record) -> None:
        """Forget a record of another source, which is still in the table."""
        for _, held in self._sets.values():
            if record.number in held:
                self._may_weigh_otherwise = True
                self._apply(held.remove(record.number))
                self._note_hiding(held)

    def touch(self, record: Record) -> None:
        """Look at a record again when the neighbour is next told something: whether it hides others has changed."""
        if record.interest.key in self._wanted:
            self._touched[record.interest.key] = None

    def relieve(self) -> None:
        """Find out which interests hide nobody any more."""
        for _, held in self._sets.values():
            for number in held.forget_hiding():
                self.touch(self._table[number])

    @property
    def is_touched(self) -> bool:
        """Whether there may be something to tell."""
        return bool(self._touched)

    def settled(self) -> list[Forward | Withdraw]:
        """Return what the neighbour must be told since this was last asked."""
        new: list[Forward | Withdraw] = []
        changed: list[Forward | Withdraw] = []
        withdraw: list[Forward | Withdraw] = []
        for key in self._touched:
            wanted = self._wanted.get(key)
            if wanted is None:
                if self.told.pop(key, None) is not None:
                    withdraw.append(Withdraw(key))
                    self._forget_weights(key)
                    self.told_hiding.discard(key)
                continue
            interest = self._interest(wanted)
            known = self.told.get(key)
            if (known is not interest and known != interest) or self._hides(key) != (key in self.told_hiding):
                (new if known is None else changed).append(self._forward(key))
        self._touched = {}
        return new + changed + withdraw

    def everything(self) -> list[Forward]:
        """Return all that the neighbour must know, to be told from the beginning."""
        self.settled()
        return [self._forward(key) for key in self.told]

    def _forward(self, key: SubscriptionKey) -> Forward:
        """Return an interest as it is told, and take note that it is."""
        wanted = self._wanted[key]
        told = Forward(self._interest(wanted), self._weights_of(max(wanted)), self._hides(key))
        self.told[key] = told.interest
        (self.told_hiding.add if told.hides else self.told_hiding.discard)(key)
        return told

    def _interest(self, wanted: Iterable[int]) -> Interest:
        """Return what is told of the interests of one key, by their numbers."""
        *others, newest = (self._table[number].interest for number in sorted(wanted))
        if all(one.filter == newest.filter for one in others):
            return newest
        try:
            both = Filter.of(any_of(*(one.filter.expression for one in (*others, newest))))
        except FilterTooLargeError:
            both = Filter.of(Constant(True))  # more than needed, and only until the older one is withdrawn
        return Interest(newest.key, both, newest.score, newest.relevance)

    def _hides(self, key: SubscriptionKey) -> bool:
        """Whether somebody may be hidden behind an interest: here, or where it came from."""
        return self._strategy.counts and any(
            self._table[number].hides or any(held.hides(number) for _, held in self._sets.values())
            for number in self._wanted[key]
        )

    def restore(
        self,
        told: dict[SubscriptionKey, Interest],
        weights: dict[tuple[AdvertisementId, SubscriptionKey], float],
        hiding: Iterable[SubscriptionKey],
    ) -> None:
        """Take over what the neighbour was told; should it be told anything else, it is with the next change."""
        self.told, self.told_weights, self.told_hiding = told, weights, set(hiding)
        self._may_weigh_otherwise = True
        self._touched = dict.fromkeys((*told, *self._wanted))

    def reweigh(self, record: Record) -> None:
        """Take note of what a record of another source stands for now."""
        for name, (_, held) in self._sets.items() if self._is_weighing else ():
            if record.number in held:
                held.weigh(record.number, record.weight(name))
                self._may_weigh_otherwise = True

    def weighed(self) -> list[Weigh]:
        """Return the weights that have changed since they were told: one pass over all interests for each forwarded
        one, but nothing when no interest has come, gone or got another weight."""
        messages: list[Weigh] = []
        is_due, self._may_weigh_otherwise = self._is_weighing and self._may_weigh_otherwise, False
        for name, (_, held) in self._sets.items() if is_due else ():
            changed: list[tuple[SubscriptionKey, float]] = []
            numbers = sorted(held.forwarded)
            for number, weight in zip(numbers, self._weights(held, numbers), strict=True):
                key = self._table[number].interest.key
                if max(self._wanted[key]) == number and self.told_weights.get((name, key), 1.0) != weight:
                    self.told_weights[name, key] = weight
                    changed.append((key, weight))
            if changed:
                messages.append(Weigh(name, tuple(changed)))
        return messages

    @property
    def _is_weighing(self) -> bool:
        return self._strategy is Strategy.ANCESTOR_FAIR_K

    def _weights_of(self, number: int) -> tuple[tuple[AdvertisementId, float], ...]:
        """Return the weights to be told with an interest, and take note that they are."""
        if not self._is_weighing:
            return ()
        key = self._table[number].interest.key
        weights = {name: self._weight(held, number) for name, (_, held) in self._sets.items() if number in held}
        self.told_weights.update({(name, key): weight for name, weight in weights.items()})
        return tuple((name, weight) for name, weight in weights.items() if weight != 1)

    def _weight(self, held: ForwardSet, number: int) -> float:
        return self._weights(held, [number])[0] if number in held.forwarded else held.own_weight(number)

    def _weights(self, held: ForwardSet, numbers: Sequence[int]) -> list[float]:
        """Return what forwarded interests weigh: at most what a message may say, whatever neighbours have said."""
        if self._weighing is Weighing.SPLIT:
            found = held.split_weights(numbers)
        else:
            found = [held.descendants_weight(number, lambda one: self._table[one].source) for number in numbers]
        return [min(weight, MAX_NUMBER - 1.0) for weight in found]

    def _forget_weights(self, key: SubscriptionKey) -> None:
        for name in self._sets if self._is_weighing else ():
            self.told_weights.pop((name, key), None)

    def _enter(self, name: AdvertisementId, record: Record) -> None:
        advertise, held = self._sets[name]
        space = advertise.advertisement.space
        if space.accepts_everything or disjoint(record.interest.filter, space) is not True:
            self._may_weigh_otherwise = True
            if name in record.weights:
                held.weigh(record.number, record.weight(name))
            self._apply(held.add(record.number, record.interest))
            self._note_hiding(held)

    def _note_hiding(self, held: ForwardSet) -> None:
        for number in held.new_hiding():
            self.touch(self._table[number])

    def _apply(self, change: Change) -> None:
        for number in change.forward:
            key = self._table[number].interest.key
            wanted = self._wanted.setdefault(key, {})
            wanted[number] = wanted.get(number, 0) + 1
            self._touched[key] = None
        for number in change.withdraw:
            key = self._table[number].interest.key
            wanted = self._wanted[key]
            wanted[number] -= 1
            if not wanted[number]:
                del wanted[number]
                if not wanted:
                    del self._wanted[key]
            self._touched[key] = None
