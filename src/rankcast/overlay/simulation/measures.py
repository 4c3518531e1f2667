"""What a simulation counts: messages and bytes, deliveries and their delays, hops, and the work of brokers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.wire.messages import (
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Interest,
    Packet,
    PeerMessage,
    Publish,
    Session,
    encoded,
)

_SESSION = Session(0, 0)


class Sizes:
    """The bytes of messages. An interest is written once, however many links it goes over, and so is an event."""

    def __init__(self) -> None:
        self._interests: dict[tuple[int, bool], tuple[Interest, int]] = {}
        self._event: Event | None = None
        self._of_event: dict[tuple[object, ...], int] = {}

    def of(self, message: Packet | Connect | Alive) -> int:
        """Return how many bytes a message has on the wire."""
        if not isinstance(message, Packet):
            return len(encoded(message))
        held = message.message
        if isinstance(held, Forward) and not held.weights:
            size = self._of_interest(held)
        elif isinstance(held, Publish | CountQuery):
            size = self._of_traffic(held)
        elif isinstance(held, CountReply):
            size = self._of_reply(held)
        else:
            return len(encoded(message))
        return size + len(str(message.session)) + len(str(message.number))

    def _of_interest(self, held: Forward) -> int:
        key = id(held.interest), held.hides
        known = self._interests.get(key)
        if known is None:  # the interest is kept, so that its id stays its own
            known = self._interests[key] = held.interest, _without_number(held)
        return known[1]

    def _of_traffic(self, held: Publish | CountQuery) -> int:
        if held.event is not self._event:
            self._event, self._of_event = held.event, {}
        rest = (held.k, held.targets) if isinstance(held, Publish) else ()
        key = (type(held), held.advertisement, *rest)
        if key not in self._of_event:
            self._of_event[key] = _without_number(held)
        return self._of_event[key]

    def _of_reply(self, reply: CountReply) -> int:
        key = (CountReply, reply.source, reply.id)
        if key not in self._of_event:
            self._of_event[key] = _without_number(CountReply(reply.source, reply.id, 0)) - 1
        return self._of_event[key] + len(str(reply.count))


def _without_number(message: PeerMessage) -> int:
    """Return the bytes of a packet with a message, but for those of its session and number."""
    return len(encoded(Packet(_SESSION, 0, message))) - len(str(_SESSION)) - 1


@dataclass(slots=True)
class Measures:
    """Counts of one simulation, or since they were last cleared.

    `messages` and `bytes` are by the name of the message; `over_links` counts messages by (from, to), `events_over`
    those of them that carry an event; `handled` and `busy` are, by broker, how many messages it took in and how many
    seconds that kept it; `rejected` is by reason.
    """

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    over_links: Counter[tuple[str, str]] = field(default_factory=Counter)
    events_over: Counter[tuple[str, str]] = field(default_factory=Counter)
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
