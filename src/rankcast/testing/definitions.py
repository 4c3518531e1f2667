"""The delivery policies straight from their definitions, with the whole history at hand: the oracle of delivery.

Nothing is shared with `rankcast.delivery` or `rankcast.ranking`. An `Offer` is a matching event of one subscriber as it
would be delivered, with its time, the time at which it expires and its attributes. Offers come in the order of their
times. Floats are added in the order that docs/semantics.md states, because ties depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from hashlib import blake2b
from math import comb
from typing import NamedTuple

from rankcast.model.advertisements import AudienceLimit, Ties
from rankcast.model.events import Identity
from rankcast.model.periods import Period, period_end
from rankcast.model.policies import (
    AllMatches,
    Cap,
    Continuous,
    Diversity,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
)
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.subscriptions import SubscriberId, SubscriptionId
from rankcast.model.times import EARLIEST, LATEST, TICK, later
from rankcast.model.values import AttributeValue


class ExpectedDelivery(NamedTuple):
    """One event delivered to one subscriber at one instant, by its policy or by that of one subscription.

    `digest` is when it is handed over to a subscriber of digests. An entry of a list that is read on demand is a
    delivery at the instant of reading.
    """

    subscriber: SubscriberId
    event: Identity
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime
    subscription: SubscriptionId | None = None
    digest: datetime | None = None


class Offer(NamedTuple):
    """An event that could be delivered."""

    delivery: ExpectedDelivery
    time: datetime
    expires: datetime
    attributes: tuple[tuple[str, AttributeValue], ...] = ()


def due(policy: Policy, offers: list[Offer]) -> list[ExpectedDelivery]:
    """Return what a policy delivers of some offers, until the end of time."""
    if isinstance(policy, AllMatches):
        return [_delivered(offer, offer.time) for offer in offers if offer.expires > offer.time]
    if isinstance(policy, Continuous):
        return _continuous(policy, offers)
    if isinstance(policy, Sliding):
        return _sliding(policy, offers)
    if isinstance(policy, Periodic):
        return _periodic(policy, offers)
    if isinstance(policy.window, timedelta):
        return _timed(policy, policy.window, offers)
    return _counted(policy, policy.window, offers)


def in_digests(every: Period, policy: Policy, deliveries: list[ExpectedDelivery]) -> list[ExpectedDelivery]:
    """Return what a policy delivers with the first digest that comes at or after it.

    At one instant there is first the end of a period, then the digest, then all that events of that instant lead to.
    """
    return [
        each._replace(digest=each.time if is_start and isinstance(policy, Periodic) else period_end(each.time, every))
        for each in deliveries
        for is_start in [each.time > EARLIEST and period_end(each.time - TICK, every) == each.time]
    ]


def handed_over(
    caps: Sequence[Cap],
    deliveries: Iterable[ExpectedDelivery],
    contents: Mapping[Identity, Mapping[str, AttributeValue]],
) -> list[ExpectedDelivery]:
    """Return which of the deliveries of one queue, in order, its caps let through."""
    through: list[ExpectedDelivery] = []
    for each in deliveries:
        if all(sum(_count_together(cap, each, other, contents) for other in through) < cap.count for cap in caps):
            through.append(each)
    return through


def _count_together(
    cap: Cap, one: ExpectedDelivery, other: ExpectedDelivery, contents: Mapping[Identity, Mapping[str, AttributeValue]]
) -> bool:
    """Whether two deliveries are in one period of a cap, and have equal values of its attribute or none."""
    periods = [period_end(each.digest or each.time, cap.every) for each in (one, other)]
    values = [None if cap.per is None else contents[each.event].get(cap.per) for each in (one, other)]
    values = [None if isinstance(value, tuple) else value for value in values]
    are_alike = isinstance(values[0], bool) == isinstance(values[1], bool)  # 1 is not true
    return periods[0] == periods[1] and values[0] == values[1] and are_alike


def listed(policy: Policy, offers: list[Offer], at: datetime) -> list[ExpectedDelivery]:
    """Return the list that is read on demand at an instant, after everything of that instant has arrived."""
    seen = [offer for offer in offers if offer.time <= at]
    if isinstance(policy, AllMatches):
        return []
    if isinstance(policy, Continuous):
        delivered = {delivery.event for delivery in _continuous(policy, seen)}
        held = [offer for offer in seen if offer.delivery.event in delivered]
        return [_delivered(offer, at) for offer in _best([offer for offer in held if offer.expires > at], policy.k)]
    if isinstance(policy, Periodic):
        return [_delivered(offer, at) for offer in _best_of_period(policy, seen, period_end(at, policy.period))]
    if isinstance(policy.window, timedelta):
        held = [offer for offer in seen if at < later(offer.time, policy.window)]
    elif isinstance(policy, Sliding):
        held = []
        for arriving in _valid(seen):
            held = [offer for offer in (*held, arriving) if offer.expires > arriving.time][-policy.window :]
    else:
        recent: list[Offer | None] = []
        for arriving in _valid(seen):
            recent = _most_recent(policy, policy.window, recent, arriving)
        held = [offer for offer in recent if offer is not None]
    valid = [offer for offer in held if offer.expires > at]
    return [_delivered(offer, at) for offer in _top(valid, policy.k, policy.diversity)]


def _delivered(offer: Offer, at: datetime) -> ExpectedDelivery:
    return offer.delivery._replace(time=at)


def _top(offers: list[Offer], k: int, diversity: Diversity | None) -> list[Offer]:
    return _best(offers, k) if diversity is None else _diverse(offers, k, diversity)


def _best(offers: list[Offer], k: int, first: Collection[Identity] = ()) -> list[Offer]:
    """Return the best k; of equals those named, then the newer."""
    ordered = sorted(offers, key=lambda offer: offer.delivery.event)
    return sorted(
        ordered, key=lambda offer: (offer.delivery.rank, offer.delivery.event in first, offer.time), reverse=True
    )[:k]


def _now_best(policy: Sliding | TopKWindow, offers: list[Offer], delivered: Collection[Identity]) -> list[Offer]:
    """Return what a window wants to have delivered; with `ties: keep`, of equals what was delivered comes first."""
    if policy.ties is TieRule.KEEP and policy.diversity is None:
        return _best(offers, policy.k, delivered)
    return _top(offers, policy.k, policy.diversity)


def _diverse(offers: list[Offer], k: int, diversity: Diversity) -> list[Offer]:
    """Always the next best by rank and mean distance to those taken before, of equals the older one."""
    left = sorted(offers, key=lambda offer: (offer.time, offer.delivery.event))
    taken: list[Offer] = []

    def wanted(offer: Offer) -> tuple[float, float]:
        rank, mean = offer.delivery.rank, 0.0
        for number, other in enumerate(taken, start=1):
            mean = (mean * (number - 1) + _distance(offer, other, diversity)) / number
        return (diversity.sigma * rank + (1 - diversity.sigma) * mean if taken else rank, rank)

    while left and len(taken) < k:
        found = max(left, key=wanted)  # the first of equals
        left.remove(found)
        taken.append(found)
    return taken


def _distance(first: Offer, second: Offer, diversity: Diversity) -> float:
    """Return 1 minus the weighted share of equal attributes, weights added in the order of names."""
    one, other = dict(first.attributes), dict(second.attributes)
    weights = dict(diversity.weights) or dict.fromkeys({*one, *other} - ENVELOPE_TYPES.keys(), 1.0)
    alike = total = 0.0
    for name in sorted(weights):
        total += weights[name]
        if name in one and name in other and one[name] == other[name]:
            both_or_none = isinstance(one[name], bool) == isinstance(other[name], bool)  # 1 is not true
            alike += weights[name] if both_or_none else 0.0
    return 1 - alike / total if total else 0.0


def _continuous(policy: Continuous, offers: list[Offer]) -> list[ExpectedDelivery]:
    delivered: list[Offer] = []
    for offer in _valid(offers):
        valid = [one for one in delivered if one.expires > offer.time]
        first = [one.delivery.event for one in valid] if policy.ties is TieRule.KEEP else []
        if offer in _best([*valid, offer], policy.k, first):
            delivered.append(offer)
    return [_delivered(offer, offer.time) for offer in delivered]


def _periodic(policy: Periodic, offers: list[Offer]) -> list[ExpectedDelivery]:
    ends = sorted({period_end(offer.time, policy.period) for offer in offers})
    return [_delivered(offer, end) for end in ends for offer in _best_of_period(policy, offers, end)]


def _best_of_period(policy: Periodic, offers: list[Offer], end: datetime) -> list[Offer]:
    valid = [offer for offer in offers if offer.expires > end or offer.expires == LATEST]  # that is: never
    inside = [offer for offer in valid if period_end(offer.time, policy.period) == end]
    return _top(inside, policy.k, policy.diversity)


def _timed(policy: TopKWindow, window: timedelta, offers: list[Offer]) -> list[ExpectedDelivery]:
    ends = {offer: min(later(offer.time, window), offer.expires) for offer in offers}
    found: dict[Identity, ExpectedDelivery] = {}
    for instant in sorted({*ends.values(), *(offer.time for offer in offers)} - {LATEST}):
        living = [offer for offer in offers if offer.time <= instant < ends[offer]]
        for offer in _now_best(policy, living, found):
            found.setdefault(offer.delivery.event, _delivered(offer, instant))
    return list(found.values())


def _valid(offers: list[Offer]) -> list[Offer]:
    """Return what has not expired when it arrives; the rest changes nothing."""
    return [offer for offer in offers if offer.expires > offer.time]


def _sliding(policy: Sliding, offers: list[Offer]) -> list[ExpectedDelivery]:
    """The most recent that have not expired, looked at when one arrives."""
    found: dict[Identity, ExpectedDelivery] = {}
    window: list[Offer] = []
    for arriving in _valid(offers):
        window = [offer for offer in (*window, arriving) if offer.expires > arriving.time][-policy.window :]
        for offer in _now_best(policy, window, found):
            found.setdefault(offer.delivery.event, _delivered(offer, arriving.time))
    return list(found.values())


def _counted(policy: TopKWindow, window: int, offers: list[Offer]) -> list[ExpectedDelivery]:
    """The most recent, of which some may have expired, looked at when one arrives and when one expires in between."""
    found: dict[Identity, ExpectedDelivery] = {}
    recent: list[Offer | None] = []

    def look(instant: datetime) -> None:
        for offer in _now_best(policy, [offer for offer in recent if offer and offer.expires > instant], found):
            found.setdefault(offer.delivery.event, _delivered(offer, instant))

    before = EARLIEST
    for arriving in _valid(offers):
        for instant in sorted({offer.expires for offer in recent if offer and before < offer.expires < arriving.time}):
            look(instant)
        recent = _most_recent(policy, window, recent, arriving)
        before = arriving.time
        look(before)
    for instant in sorted({offer.expires for offer in recent if offer and before < offer.expires < LATEST}):
        look(instant)
    return list(found.values())


def _most_recent(policy: TopKWindow, window: int, recent: list[Offer | None], arriving: Offer) -> list[Offer | None]:
    """Return the most recent when one has arrived; None is the place of one that a bounded queue has dropped."""
    found = [*recent, arriving][-window:]
    if policy.queue is None:
        return found
    valid = [offer for offer in found if offer and offer.expires > arriving.time]
    held = _best(valid, _length(policy.k, policy.queue.sigma))
    return [offer if offer in held else None for offer in found]


def _length(k: int, sigma: float) -> int:
    """Return the last place on arrival from which an event is among the best k at its end with sigma / 2 or more."""
    length = k
    while 2 * sum(comb(length + k, better) for better in range(k)) >= Fraction(sigma) * 2 ** (length + k):
        length += 1
    return length


def chosen_subscribers(
    limit: AudienceLimit, event: Identity, matches: Iterable[tuple[SubscriberId, float]]
) -> list[SubscriberId]:
    """Return whom an event is for, the best first, given a score of each match of each subscriber."""
    best: dict[SubscriberId, float] = {}
    for subscriber, score in matches:
        best[subscriber] = max(score, best.get(subscriber, score))
    if limit.ranking.ties is Ties.BY_ID:
        return sorted(best, key=lambda name: (-best[name], name))[: limit.k]
    return sorted(best, key=lambda name: (-best[name], _drawn(limit.ranking.seed, event, name)))[: limit.k]


def _drawn(seed: int, event: Identity, subscriber: SubscriberId) -> int:
    """Return the hash of seed, event and subscriber by which equals are drawn, the smallest first."""
    source, name = (text.encode("utf-8", "surrogatepass") for text in (event.source, event.id))
    texts = (b"%d:%d:%b:%b" % (seed, len(source), source, name), subscriber.encode("utf-8", "surrogatepass"))
    one, other = (int.from_bytes(blake2b(text, digest_size=8).digest(), "little") for text in texts)
    mixed = one ^ other
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ mixed >> shift) * factor) % 2**64
    return mixed ^ mixed >> 31
