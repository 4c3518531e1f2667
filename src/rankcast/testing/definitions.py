"""The delivery policies straight from their definitions, with the whole history at hand: the oracle of delivery.

Nothing is shared with `rankcast.delivery`. An `Offer` is a matching event of one subscriber as it would be delivered,
with its time and the time at which it expires. Offers come in the order of their times.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Policy, Sliding
from rankcast.model.subscriptions import SubscriberId, SubscriptionId
from rankcast.model.times import LATEST


class Delivery(NamedTuple):
    """One event delivered to one subscriber at one instant."""

    subscriber: SubscriberId
    event: Identity
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime


class Offer(NamedTuple):
    """An event that could be delivered."""

    delivery: Delivery
    time: datetime
    expires: datetime


def due(policy: Policy, offers: list[Offer]) -> list[Delivery]:
    """Return what a policy delivers of some offers, until the end of time."""
    if isinstance(policy, AllMatches):
        return [_delivered(offer, offer.time) for offer in offers if offer.expires > offer.time]
    if isinstance(policy, Continuous):
        return _continuous(policy.k, offers)
    if isinstance(policy, Sliding):
        return _counted(policy.k, policy.window, offers, between_arrivals=False)
    if isinstance(policy, Periodic):
        return _periodic(policy.k, policy.period, offers)
    if isinstance(policy.window, timedelta):
        return _timed(policy.k, policy.window, offers)
    return _counted(policy.k, policy.window, offers, between_arrivals=True)


def _delivered(offer: Offer, at: datetime) -> Delivery:
    return offer.delivery._replace(time=at)


def _best(offers: list[Offer], k: int) -> list[Offer]:
    ordered = sorted(offers, key=lambda offer: offer.delivery.event)
    return sorted(ordered, key=lambda offer: (offer.delivery.rank, offer.time), reverse=True)[:k]


def _continuous(k: int, offers: list[Offer]) -> list[Delivery]:
    delivered: list[Offer] = []
    for offer in offers:
        better = [one for one in delivered if one.expires > offer.time and one.delivery.rank > offer.delivery.rank]
        if offer.expires > offer.time and len(better) < k:
            delivered.append(offer)
    return [_delivered(offer, offer.time) for offer in delivered]


def _periodic(k: int, period: timedelta, offers: list[Offer]) -> list[Delivery]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    found: list[Delivery] = []
    for number in sorted({(offer.time - epoch) // period for offer in offers}):
        end = epoch + (number + 1) * period
        inside = [offer for offer in offers if (offer.time - epoch) // period == number and offer.expires > end]
        found += (_delivered(offer, end) for offer in _best(inside, k))
    return found


def _timed(k: int, window: timedelta, offers: list[Offer]) -> list[Delivery]:
    ends = {offer: min(offer.time + window, offer.expires) for offer in offers}
    found: dict[Identity, Delivery] = {}
    for instant in sorted({*ends.values(), *(offer.time for offer in offers)} - {LATEST}):
        living = [offer for offer in offers if offer.time <= instant < ends[offer]]
        for offer in _best(living, k):
            found.setdefault(offer.delivery.event, _delivered(offer, instant))
    return list(found.values())


def _counted(k: int, window: int, offers: list[Offer], *, between_arrivals: bool) -> list[Delivery]:
    """Windows of so many events, looked at when one arrives and, if asked, also when one expires between arrivals."""
    found: dict[Identity, Delivery] = {}
    places: list[Offer] = []

    def look(instant: datetime) -> None:
        for offer in _best(places, k):
            found.setdefault(offer.delivery.event, _delivered(offer, instant))

    def expire(before: datetime) -> None:
        for instant in sorted({offer.expires for offer in places if offer.expires < before}):
            places[:] = [offer for offer in places if offer.expires > instant]
            look(instant)

    for arriving in offers:
        if between_arrivals:
            expire(arriving.time)
        places = [offer for offer in (*places, arriving) if offer.expires > arriving.time][-window:]
        look(arriving.time)
    if between_arrivals:
        expire(LATEST)
    return list(found.values())
