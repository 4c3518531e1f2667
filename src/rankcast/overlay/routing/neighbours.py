"""What one neighbour is told: the interests that its advertisements need, each once.

For every advertisement that came from the neighbour there is a forward set. An interest is told as long as one of them
forwards it. Two sources can have told interests of the same key, while a subscriber moves. Then both are told as one
that accepts what either does, with the rank of the newer one: others may be hidden behind the older.

What has to be forwarded goes out before what is withdrawn, and what is new before what takes the place of something
else, which may accept less than that did: so the neighbour never knows too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rankcast.covering.group.cover import Checking
from rankcast.covering.relation import disjoint
from rankcast.covering.topk.cover_set import Change
from rankcast.model.advertisements import AdvertisementId
from rankcast.model.errors import FilterTooLargeError
from rankcast.model.expressions import Constant, any_of
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.messages import MAX_NUMBER, Advertise, Forward, Interest, Weigh, Withdraw
from rankcast.overlay.routing.forward_sets import ForwardSet
from rankcast.overlay.routing.interests import Record, Table
from rankcast.overlay.routing.strategies import Strategy, Weighing


@dataclass(slots=True)
class Announced:
    """The interests that a neighbour was told, their weights by advertisement, and those it was told to hide others."""

    interests: dict[SubscriptionKey, Interest] = field(default_factory=dict)
    weights: dict[tuple[AdvertisementId, SubscriptionKey], float] = field(default_factory=dict)
    hiding: set[SubscriptionKey] = field(default_factory=set)

    def withdraw(self, key: SubscriptionKey, advertisements: Iterable[AdvertisementId]) -> bool:
        """Forget an interest; return whether it was told."""
        if self.interests.pop(key, None) is None:
            return False
        self.hiding.discard(key)
        for name in advertisements:
            self.weights.pop((name, key), None)
        return True


class NeighbourRoutes:
    """The interests that a neighbour is told: those that were `announced`, and those that have changed since."""

    def __init__(self, table: Table, strategy: Strategy, weighing: Weighing, group: Checking) -> None:
        self._table = table
        self._strategy = strategy
        self._weighing = weighing
        self._group = group
        self._sets: dict[AdvertisementId, ForwardSet] = {}
        self._wanted: dict[SubscriptionKey, dict[int, int]] = {}
        """By key, the numbers of the interests to be told, and how many forward sets want each."""
        self._touched: dict[SubscriptionKey, None] = {}
        self._may_weigh_otherwise = False
        self.announced = Announced()

    @property
    def advertisements(self) -> int:
        """How many advertisements the neighbour has."""
        return len(self._sets)

    def advertise(self, advertise: Advertise, records: Iterable[Record]) -> None:
        """Take an advertisement of the neighbour in, or as it is from now on; `records` are those of other sources."""
        name = advertise.advertisement.id
        before = self._sets.get(name)
        forward_set = self._sets[name] = ForwardSet(advertise.strategy or self._strategy, advertise, self._group)
        for record in records:
            self._add_to(forward_set, record)
        if before is not None:
            self._apply(Change((), tuple(sorted(before.forwarded))))

    def unadvertise(self, name: AdvertisementId) -> None:
        """Forget an advertisement of the neighbour."""
        self._apply(Change((), tuple(sorted(self._sets.pop(name).forwarded))))
        weights = self.announced.weights
        self.announced.weights = {told: weight for told, weight in weights.items() if told[0] != name}

    def add(self, record: Record) -> None:
        """Take a record of another source in."""
        for forward_set in self._sets.values():
            self._add_to(forward_set, record)

    def remove(self, record: Record) -> None:
        """Forget a record of another source, which is still in the table."""
        for forward_set in self._sets.values():
            if record.number in forward_set:
                self._may_weigh_otherwise = True
                self._apply(forward_set.remove(record.number))
                self._touch(forward_set.new_hiding())

    def touch(self, record: Record) -> None:
        """Look at a record again when the neighbour is next told something: whether it hides others has changed."""
        self._touch([record.number])

    def recheck_hidden(self) -> None:
        """Find out which interests hide nobody any more."""
        for forward_set in self._sets.values():
            self._touch(forward_set.forget_hiding())

    @property
    def is_touched(self) -> bool:
        """Whether there may be something to tell."""
        return bool(self._touched)

    def flush(self) -> list[Forward | Withdraw]:
        """Return what the neighbour must be told since this was last asked."""
        new: list[Forward | Withdraw] = []
        changed: list[Forward | Withdraw] = []
        withdraw: list[Forward | Withdraw] = []
        for key in self._touched:
            wanted = self._wanted.get(key)
            if wanted is None:
                if self.announced.withdraw(key, (name for name, held in self._sets.items() if held.weighs)):
                    withdraw.append(Withdraw(key))
                continue
            interest = self._interest(wanted)
            known = self.announced.interests.get(key)
            is_other = known is not interest and known != interest
            if is_other or self._hides(key) != (key in self.announced.hiding):
                (new if known is None else changed).append(self._announce(key))
        self._touched = {}
        return new + changed + withdraw

    def announce_all(self) -> list[Forward]:
        """Return all that the neighbour must know, to be told from the beginning."""
        self.flush()
        return [self._announce(key) for key in self.announced.interests]

    def _announce(self, key: SubscriptionKey) -> Forward:
        """Return an interest as it is told, and take note that it is."""
        wanted = self._wanted[key]
        forward = Forward(self._interest(wanted), self._weights_of(max(wanted)), self._hides(key))
        self.announced.interests[key] = forward.interest
        (self.announced.hiding.add if forward.hides else self.announced.hiding.discard)(key)
        return forward

    def _interest(self, wanted: Iterable[int]) -> Interest:
        """Return what is told of the interests of one key, by their numbers."""
        *others, newest = (self._table[number].interest for number in sorted(wanted))
        if all(other.filter == newest.filter for other in others):
            return newest
        try:
            both = Filter.of(any_of(*(interest.filter.expression for interest in (*others, newest))))
        except FilterTooLargeError:
            both = Filter.of(Constant(True))  # more than needed, and only until the older one is withdrawn
        return Interest(newest.key, both, newest.score, newest.relevance)

    def _hides(self, key: SubscriptionKey) -> bool:
        """Whether somebody may be hidden behind an interest: here, or where it came from."""
        return any(
            self._table[number].hides or any(forward_set.hides(number) for forward_set in self._sets.values())
            for number in self._wanted[key]
        )

    def restore(self, announced: Announced) -> None:
        """Take over what the neighbour was told; should it be told anything else, it is with the next change."""
        self.announced = announced
        self._may_weigh_otherwise = True
        self._touched = dict.fromkeys((*announced.interests, *self._wanted))

    def reweigh(self, record: Record) -> None:
        """Take note of what a record of another source stands for now."""
        for name, forward_set in self._sets.items():
            if forward_set.weighs and record.number in forward_set:
                forward_set.weigh(record.number, record.weight(name))
                self._may_weigh_otherwise = True

    def new_weights(self) -> list[Weigh]:
        """Return the weights that have changed since they were told: one pass over all interests for each forwarded
        one, but nothing when no interest has come, gone or got another weight."""
        messages: list[Weigh] = []
        is_due, self._may_weigh_otherwise = self._may_weigh_otherwise, False
        announced = self.announced.weights
        for name, forward_set in self._sets.items() if is_due else ():
            if not forward_set.weighs:
                continue
            changed: list[tuple[SubscriptionKey, float]] = []
            numbers = sorted(forward_set.forwarded)
            for number, weight in zip(numbers, self._weights(forward_set, numbers), strict=True):
                key = self._table[number].interest.key
                if max(self._wanted[key]) == number and announced.get((name, key), 1.0) != weight:
                    announced[name, key] = weight
                    changed.append((key, weight))
            if changed:
                messages.append(Weigh(name, tuple(changed)))
        return messages

    def _weights_of(self, number: int) -> tuple[tuple[AdvertisementId, float], ...]:
        """Return the weights to be told with an interest, and take note that they are."""
        key = self._table[number].interest.key
        weights: list[tuple[AdvertisementId, float]] = []
        for name, forward_set in self._sets.items():
            if forward_set.weighs and number in forward_set:
                is_forwarded = number in forward_set.forwarded
                weight = self._weights(forward_set, [number])[0] if is_forwarded else forward_set.own_weight(number)
                self.announced.weights[name, key] = weight
                weights += [(name, weight)] if weight != 1 else []
        return tuple(weights)

    def _weights(self, forward_set: ForwardSet, numbers: Sequence[int]) -> list[float]:
        """Return what forwarded interests weigh: at most what a message may say, whatever neighbours have said."""
        if self._weighing is Weighing.SPLIT:
            found = forward_set.split_weights(numbers)
        else:
            found = [forward_set.descendants_weight(number, lambda at: self._table[at].source) for number in numbers]
        return [min(weight, MAX_NUMBER - 1.0) for weight in found]

    def _add_to(self, forward_set: ForwardSet, record: Record) -> None:
        advertisement = forward_set.advertisement
        space = advertisement.space
        if forward_set.floods:
            return
        if space.accepts_everything or disjoint(record.interest.filter, space) is not True:
            self._may_weigh_otherwise = True
            if advertisement.id in record.weights:
                forward_set.weigh(record.number, record.weight(advertisement.id))
            self._apply(forward_set.add(record.number, record.interest))
            self._touch(forward_set.new_hiding())

    def _touch(self, numbers: Iterable[int]) -> None:
        """Look at what is told again when the neighbour is next told something."""
        keys = (self._table[number].interest.key for number in numbers)
        self._touched.update((key, None) for key in keys if key in self._wanted)

    def _apply(self, change: Change) -> None:
        for numbers, step in ((change.forward, 1), (change.withdraw, -1)):
            for number in numbers:
                key = self._table[number].interest.key
                wanted = self._wanted.setdefault(key, {})
                wanted[number] = wanted.get(number, 0) + step
                if not wanted[number]:
                    del wanted[number]
                if not wanted:
                    del self._wanted[key]
                self._touched[key] = None
