"""Everything that brokers and their clients say to each other: plain frozen values, and their form as bytes.

Clients (subscribers and publishers) speak to their broker: `Subscribe`, `Unsubscribe`, `Advertise`, `Unadvertise`,
`Publish`, `Read`, `Renew`. Brokers speak to each other in packets, numbered per direction of a link and per session,
which carry the routing state (`Advertise`, `Unadvertise`, `Forward`, `Withdraw`, `Weigh`, with `Reset` and `Synced`
around the state at the start of a session) and the traffic (`Publish`, `CountQuery`, `CountReply`). `Connect` asks a
neighbour to begin a session, `Alive` tells how far it has come; these two stand outside the numbering. Durations are
counted by whoever gets them, on its own clock.

As bytes a message is a JSON object with the version of the form, the name of the message and its fields:

    {"rankcast": 1, "is": "Withdraw", "key": ["ana", "1"]}

A packet holds its message under "message". `rankcast.language.lossless` says how each type of field is written,
docs/overlay.md lists the messages. Reading refuses bytes of another version, too many of them, or that are no message,
with a reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from rankcast.language.lossless import from_plain, json_bytes, to_plain
from rankcast.model.advertisements import Advertisement, AdvertisementId
from rankcast.model.cloudevents import parse_json
from rankcast.model.errors import InvalidEventError, InvalidMessageError, shown
from rankcast.model.events import Event
from rankcast.model.filters import Filter, shared_steps
from rankcast.model.periods import check_duration
from rankcast.model.relevance import Relevance
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId, SubscriptionKey
from rankcast.overlay.routing.strategies import Strategy, Weighing

MAX_NUMBER = 2**53
"""Numbers of packets, sessions and counts stay below: every JSON reader keeps them exact."""


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription as other brokers know it: whose it is, what it matches (its time bounds included), its rank."""

    key: SubscriptionKey
    filter: Filter
    score: float = 1.0
    relevance: Relevance | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 1:
            raise InvalidMessageError(f"score: {shown(self.score)} is not a rank from 0 to 1")

    @staticmethod
    def of(subscriber: SubscriberId, subscription: Subscription, rank: float) -> Interest:
        """Return what others must know of a subscription of this preference rank."""
        key = SubscriptionKey(subscriber, subscription.id)
        return Interest(key, subscription.bounded, rank, subscription.relevance)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client's subscriber, new or as it is from now on; without renewal it ends after the lease."""

    subscriber: Subscriber
    lease: timedelta | None = None

    def __post_init__(self) -> None:
        _check_lease(self.lease)


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The end of a client's subscriber."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class Advertise:
    """What somebody is going to publish; from a client, it ends after the lease.

    `strategy` says how its events are routed, if not as the brokers route others.
    """

    advertisement: Advertisement
    lease: timedelta | None = None
    strategy: Strategy | None = None

    def __post_init__(self) -> None:
        _check_lease(self.lease)


@dataclass(frozen=True, slots=True)
class Unadvertise:
    """The end of an advertisement."""

    advertisement: AdvertisementId


@dataclass(frozen=True, slots=True)
class Read:
    """What is on the list of a client's subscriber, or of one subscription with a policy of its own?"""

    subscriber: SubscriberId
    subscription: SubscriptionId | None = None


@dataclass(frozen=True, slots=True)
class Renew:
    """A client is still there: all its leases begin again."""


@dataclass(frozen=True, slots=True)
class Forward:
    """An interest that the neighbour must know; `weights` are, by advertisement, how many it stands for.

    `hides` says that the neighbour may not know of others whose matches are all its own: only who counts is told.
    """

    interest: Interest
    weights: tuple[tuple[AdvertisementId, float], ...] = ()
    hides: bool = False

    def __post_init__(self) -> None:
        for _, weight in self.weights:
            _check_weight(weight)


@dataclass(frozen=True, slots=True)
class Withdraw:
    """An interest that the neighbour need not know any more."""

    key: SubscriptionKey


@dataclass(frozen=True, slots=True)
class Weigh:
    """How many subscriptions forwarded interests stand for now, themselves included."""

    advertisement: AdvertisementId
    weights: tuple[tuple[SubscriptionKey, float], ...]

    def __post_init__(self) -> None:
        for _, weight in self.weights:
            _check_weight(weight)


@dataclass(frozen=True, slots=True)
class Publish:
    """An event of an advertisement.

    `k` is for how many subscribers: a client may ask for fewer than it advertised; between brokers it is the
    neighbour's share. None is for all that match. With `targets` the event is for these and nobody else.
    """

    advertisement: AdvertisementId
    event: Event
    k: int | None = None
    targets: tuple[SubscriberId, ...] | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            check_number("k", self.k)


@dataclass(frozen=True, slots=True)
class CountQuery:
    """How many subscribers behind the neighbour want an event, by their scores?"""

    advertisement: AdvertisementId
    event: Event


class ScoreCount(NamedTuple):
    """How many have a score."""

    score: float
    number: int


@dataclass(frozen=True, slots=True)
class CountReply:
    """So many want the event of this source and id: of each score, the best first, as far as the k may reach."""

    source: str
    id: str
    counts: tuple[ScoreCount, ...] = ()

    def __post_init__(self) -> None:
        for score, number in self.counts:
            check_number("count", number)
            if not math.isfinite(score):
                raise InvalidMessageError(f"score: {shown(score)} is not a finite number")
        if any(this.score >= before.score for before, this in pairwise(self.counts)):
            raise InvalidMessageError("counts: scores do not descend")


@dataclass(frozen=True, slots=True)
class Reset:
    """A session begins: all state follows, up to `Synced`."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All state has been told; what the neighbour still knows from earlier sessions and was not told again is over."""


class Session(NamedTuple):
    """Names the packets of one direction of a link: chosen by who receives them, growing."""

    incarnation: int
    request: int


RULES = 1
"""Which rules a broker follows in what it tells neighbours and expects of them; another number for other rules."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What neighbours have to agree on: else what one tells is not what the other takes it for."""

    strategy: Strategy
    weighing: Weighing
    rules: int = RULES

    def __post_init__(self) -> None:
        check_number("rules", self.rules)

    def differences(self, others: Terms) -> str:
        """Say in what a neighbour's terms differ from these; empty when they are the same."""
        pairs = (
            ("strategy", self.strategy.value, others.strategy.value),
            ("weighing", self.weighing.value, others.weighing.value),
            ("rules", self.rules, others.rules),
        )
        return ", ".join(f"{name} {own} here and {there} there" for name, own, there in pairs if own != there)


@dataclass(frozen=True, slots=True)
class Connect:
    """The sender asks for a new session on its terms; `incarnation` grows whenever it has lost its state."""

    session: Session
    terms: Terms

    def __post_init__(self) -> None:
        _check_session(self.session)


@dataclass(frozen=True, slots=True)
class Alive:
    """The sender is there, and has sent so many packets of the session."""

    session: Session
    sent: int

    def __post_init__(self) -> None:
        _check_session(self.session)
        check_number("sent", self.sent)


State: TypeAlias = Advertise | Unadvertise | Forward | Withdraw | Weigh | Reset | Synced
Traffic: TypeAlias = Publish | CountQuery | CountReply
PeerMessage: TypeAlias = State | Traffic
ClientMessage: TypeAlias = Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Read | Renew


@dataclass(frozen=True, slots=True)
class Packet:
    """A message between brokers, with its place in the session; the first one has the number 0."""

    session: Session
    number: int
    message: Advertise | Unadvertise | Forward | Withdraw | Weigh | Reset | Synced | Publish | CountQuery | CountReply

    def __post_init__(self) -> None:
        _check_session(self.session)
        check_number("number", self.number)


Message: TypeAlias = ClientMessage | Packet | Connect | Alive


def check_number(name: str, value: int) -> None:
    """Raise unless a number can be counted to."""
    if isinstance(value, bool) or not 0 <= value < MAX_NUMBER:
        raise InvalidMessageError(f"{name}: {shown(value)} is not a whole number from 0 to {MAX_NUMBER - 1}")


def _check_session(session: Session) -> None:
    check_number("incarnation", session.incarnation)
    check_number("request", session.request)


def _check_weight(weight: float) -> None:
    if isinstance(weight, bool) or not 0 < weight < MAX_NUMBER:
        raise InvalidMessageError(f"weight: {shown(weight)} is not a number above 0 and below {MAX_NUMBER}")


def _check_lease(lease: timedelta | None) -> None:
    if lease is not None:
        check_duration("lease", lease)


VERSION = 1
MAX_BYTES = 1_000_000
"""Bytes of one message of a client: far beyond every sensible filter or payload, and quick to refuse."""

MAX_PACKET_BYTES = 16 * MAX_BYTES
"""Bytes of one message of a broker, which wraps what its clients said and may list whom an event is for."""


def encoded(message: Message) -> bytes:
    """Return a message as bytes; raise InvalidMessageError when it has too many.

    >>> encoded(Renew())
    b'{"rankcast":1,"is":"Renew"}'
    """
    data = json_bytes({"rankcast": VERSION, **to_plain(message, Message)})
    _check_size(data, MAX_PACKET_BYTES if isinstance(message, Packet) else MAX_BYTES)
    return data


def decoded(data: bytes, most: int = MAX_PACKET_BYTES) -> Message:
    """Return the message of at most so many bytes; raise InvalidMessageError, with the reason, when there is none."""
    _check_size(data, most)
    try:
        plain = parse_json(data)
    except InvalidEventError as error:
        raise InvalidMessageError(str(error)) from None
    if b"\\u" in data:
        json_bytes(plain)  # escapes can express half a surrogate pair, which is not text
    if not isinstance(plain, dict) or "rankcast" not in plain:
        raise InvalidMessageError(f"{shown(plain)} is not a message of rankcast")
    version = plain.pop("rankcast")
    if version != VERSION or isinstance(version, bool):
        raise InvalidMessageError(f"version {shown(version)} is not known; expected {VERSION}")
    with shared_steps(len(data)):
        message: Message = from_plain(plain, Message)
    return message


def _check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise InvalidMessageError(f"a message of {len(data):,} bytes is longer than {most:,}")
