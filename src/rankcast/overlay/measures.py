"""What a simulation counts: messages and bytes, deliveries and their delays, hops, and the work of brokers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.messages import Alive, Connect, Forward, Interest, Packet, Session
from rankcast.overlay.wire import encoded

_SESSION = Session(0, 0)


class Sizes:
    """The bytes of messages. An interest is written once, however many links it goes over."""

    def __init__(self) -> None:
        self._interests: dict[int, tuple[Interest, int]] = {}

    def of(self, message: Packet | Connect | Alive) -> int:
        """Return how many bytes a message has on the wire."""
        if isinstance(message, Packet) and isinstance(message.message, Forward) and not message.message.weights:
            return self._of_interest(message.message.interest) + len(str(message.session)) + len(str(message.number))
        return len(encoded(message))

    def _of_interest(self, interest: Interest) -> int:
        known = self._interests.get(id(interest))
        if known is None:  # the interest is kept, so that its id stays its own
            packet = Packet(_SESSION, 0, Forward(interest))
            known = interest, len(encoded(packet)) - len(str(_SESSION)) - 1
            self._interests[id(interest)] = known
        return known[1]


@dataclass(slots=True)
class Measures:
    """Counts of one simulation, or since they were last cleared.

    `messages` and `bytes` are by the name of the message; `over_links` counts messages by (from, to); `handled` and
    `busy` are, by broker, how many messages it took in and how many seconds that kept it; `rejected` is by reason.
    """

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    over_links: Counter[tuple[str, str]] = field(default_factory=Counter)
    handled: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    published: int = 0
    deliveries: Counter[SubscriptionKey] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    hops: Counter[int] = field(default_factory=Counter)

    @property
    def delivered(self) -> int:
        """How many deliveries there were."""
        return len(self.latencies)

    def latency(self, share: float) -> float:
        """Return the seconds from publication to delivery that this share of the deliveries took at most.

        >>> Measures(latencies=[0.1, 0.2, 0.9]).latency(0.5)
        0.2
        """
        return float(np.quantile(self.latencies, share)) if self.latencies else 0.0
