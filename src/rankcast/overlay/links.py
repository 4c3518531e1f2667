"""One direction of a link each: numbered packets, put in order, each taken once; when some are lost, all state is asked
for again.

Who receives chooses the session: it asks for one with `Connect`, and gets all state from the beginning, numbered from
0. Packets of other sessions are old or forged and are refused, as are those taken already; those that came too early
wait for the ones before them. When something stays missing from one heartbeat to the next, or more than `MAX_WAITING`
packets wait, the receiver asks for another session. So routing state becomes right again whatever a link loses, doubles
or reorders; events that were in the lost packets are lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from rankcast.model.times import LATEST
from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.messages import Alive, Connect, Packet, PeerMessage, Session, Terms

MAX_WAITING = 4096
"""Packets that wait for an earlier one: seconds of heavy traffic on a link that reorders, and a bound on memory."""


@dataclass(slots=True)
class Inbox:
    """What comes from a neighbour.

    `request` numbers the sessions asked for, `next` is the packet due, `peer` the neighbour's incarnation as far as
    known, `promised` how many packets it says it has sent, and `is_synced` whether all its state has been told.
    """

    incarnation: int
    request: int = 0
    next: int = 0
    peer: int | None = None
    promised: int = 0
    is_synced: bool = False
    waiting: dict[int, PeerMessage] = field(default_factory=dict)
    marked: tuple[int, int] | None = None

    @property
    def session(self) -> Session:
        """The session asked for last."""
        return Session(self.incarnation, self.request)

    def ask(self, terms: Terms) -> Connect:
        """Begin a new session, on these terms."""
        self.request += 1
        self.next, self.promised, self.is_synced, self.marked = 0, 0, False, None
        self.waiting.clear()
        return Connect(self.session, terms)

    def take(self, packet: Packet) -> list[PeerMessage]:
        """Return the messages that are due with a packet, in order; raise when it is none of this session or taken."""
        if packet.session != self.session:
            raise RefusedError(Reason.REPLAY, f"a packet of session {tuple(packet.session)}, not {tuple(self.session)}")
        if packet.number < self.next or packet.number in self.waiting:
            raise RefusedError(Reason.REPLAY, f"packet {packet.number} has come before")
        if packet.number > self.next + MAX_WAITING:
            raise RefusedError(Reason.TOO_MANY, f"packet {packet.number} is too far ahead of {self.next}")
        self.waiting[packet.number] = packet.message
        due: list[PeerMessage] = []
        while self.next in self.waiting:
            due.append(self.waiting.pop(self.next))
            self.next += 1
        return due

    def note(self, alive: Alive) -> None:
        """Take note of how many packets there are."""
        if alive.session == self.session:
            self.promised = max(self.promised, alive.sent)

    def check_progress(self) -> bool:
        """Mark how far the inbox is; return False when something is missing and nothing has come since the last."""
        is_behind = not self.is_synced or bool(self.waiting) or self.promised > self.next
        before, self.marked = self.marked, (self.request, self.next) if is_behind else None
        return not is_behind or before != self.marked


@dataclass(slots=True)
class Outbox:
    """What goes to a neighbour: nothing until it has asked for a session."""

    session: Session | None = None
    sent: int = 0
    latest: Session | None = None
    """The last session that was asked for, whether it is still listened to or not."""

    def begin(self, session: Session) -> bool:
        """Begin the session that the neighbour asked for; False when that is an old one."""
        if self.latest is not None and session <= self.latest:
            return False
        self.session = self.latest = session
        self.sent = 0
        return True

    def silence(self) -> None:
        """Nobody listens any more."""
        self.session = None

    def packet(self, message: PeerMessage) -> Packet | None:
        """Return a message as the next packet; None when nobody listens."""
        if self.session is None:
            return None
        self.sent += 1
        return Packet(self.session, self.sent - 1, message)


@dataclass(slots=True)
class Neighbour:
    """A link to another broker: whether it is up, when it was last heard of, when the next heartbeat is due."""

    inbox: Inbox
    outbox: Outbox = field(default_factory=Outbox)
    is_up: bool = True
    heard: datetime = LATEST
    beat: datetime = LATEST
