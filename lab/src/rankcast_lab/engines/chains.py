"""Proposition 4: how likely a publication is found along a chain of brokers whose cover tests may be wrong.

A subscription enters at the first broker and goes on, hop by hop, as long as each broker finds that it is not covered.
Every broker has a publication that only this subscription matches with probability `published`, independently; each
broker wrongly holds the subscription back with probability `held_back`, for random points (1 - w) ** d when d of them
are tried and a share w is open. The publication is found at the first broker that has it, if the subscription got so
far:

    sum over i = 1..n of published * ((1 - published) * (1 - held_back)) ** (i - 1)

The paper states this "under the condition that the subscription is erroneously found to be covered". That cannot be
meant: held back at the first broker it finds only what is published there. It is the probability without a condition,
for a subscription that is in truth not covered. Tests that are never wrong reach the most there is, 1 - (1 - p) ** n.

Paper: probabilistic subsumption checking in content-based publish/subscribe, section 5.
"""

from __future__ import annotations

import math

from rankcast.model.errors import InvalidValueError


def held_back(open_share: float, points: float) -> float:
    """Return the probability that so many random points all miss a share that is open.

    >>> round(held_back(0.01, 100), 3)
    0.366
    """
    _check("open_share", open_share)
    if points < 0:
        raise InvalidValueError(f"points: {points} is not a number of at least 0")
    return math.exp(points * math.log1p(-open_share)) if open_share < 1 else float(points == 0)


def chain_probability(brokers: int, published: float, held_back: float) -> float:
    """Return the probability that the publication is found along a chain of brokers (Proposition 4, equation 2).

    >>> round(chain_probability(10, 0.1, held_back=0.0), 4)  # 1 - 0.9 ** 10
    0.6513
    >>> chain_probability(10, 0.1, held_back=1.0)
    0.1
    """
    _check("published", published)
    _check("held_back", held_back)
    if brokers < 0:
        raise InvalidValueError(f"brokers: {brokers} is not a number of at least 0")
    goes_on = (1 - published) * (1 - held_back)
    if goes_on == 1:
        return 0.0  # nothing is ever published
    return published * (1 - goes_on**brokers) / (1 - goes_on)


def _check(name: str, probability: float) -> None:
    if not 0 <= probability <= 1:
        raise InvalidValueError(f"{name}: {probability} is not a probability from 0 to 1")
