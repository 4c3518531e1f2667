"""What a hub answers with: matches, notifications, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple, TypeAlias

from rankcast.delivery.rules.caps import UsedCap
from rankcast.delivery.rules.forecast import Forecast
from rankcast.matching.explain import Explanation
from rankcast.model.errors import InvalidEventError, RankcastError
from rankcast.model.events import Event
from rankcast.model.periods import Every
from rankcast.model.policies import Cap
from rankcast.model.relevance import Decay
from rankcast.model.subscriptions import SubscriberId, SubscriptionId
from rankcast.model.times import format_time
from rankcast.serving.results import Match, Notification
from rankcast.storage.durations import format_cap, format_duration


@dataclass(frozen=True, slots=True)
class Late:
    """An event that came later than the hub allows; it changed nothing. `time` is how far the hub was already."""

    event: Event
    time: datetime

    @property
    def by(self) -> timedelta:
        """How much too late it came, beyond what is allowed."""
        return self.time - (self.event.time or self.time)


Callback: TypeAlias = Callable[[Notification], object]


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """An event that was left out: its place among those that were given, and why."""

    index: int
    error: InvalidEventError


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing many events led to: everything that is delivered by now, and the events that were left out."""

    notifications: list[Notification]
    rejected: tuple[RejectedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one variant of a subscriber would have got: so many matches and deliveries, with ranks from best to worst.

    `days` is how long the events took, at least one. `capped` would not have been handed over, and are not among those
    delivered.
    """

    variant: str
    matched: int
    delivered: int
    best: float | None
    worst: float | None
    days: float
    capped: int = 0

    @property
    def per_day(self) -> float:
        """How many would have been delivered a day."""
        return self.delivered / self.days


@dataclass(frozen=True, slots=True)
class Estimated:
    """Estimates, of the subscriber as it is first, and the events that were left out."""

    estimates: tuple[Estimate, ...]
    rejected: tuple[RejectedEvent, ...] = ()


class CallbackError(RankcastError):
    """Callbacks raised. Events were published and every other callback was called.

    `notifications` has all that was delivered, and `rejected` the events that `publish_many` left out.
    """

    def __init__(self, notifications: list[Notification], errors: list[Exception]) -> None:
        self.notifications = notifications
        self.errors = errors
        self.rejected: tuple[RejectedEvent, ...] = ()
        super().__init__(f"{len(errors)} callback(s) raised, the first: {type(errors[0]).__name__}: {errors[0]}")


class Verdict(Enum):
    """Whether publishing an event now would deliver it to a subscriber at once and, if not, why not."""

    DELIVERED = "delivered"
    NO_MATCH = "no match"
    NO_RELEVANCE = "no relevance"
    REPEATED = "published before"
    LATE = "too late"
    HELD = "kept back for earlier events"
    EXPIRED = "expired"
    TOO_OLD = "too old for the window"
    WAITING = "waiting for the end of the period"
    OUTRANKED = "not among the best"
    TIED = "no better than what was delivered"
    NOT_CHOSEN = "not among those it is for"
    IN_DIGEST = "in a digest"
    ON_DEMAND = "read on demand"
    CAPPED = "capped"
    MUTED = "muted"


_WORDS = {
    Verdict.DELIVERED: "delivered with rank {rank}{standing}",
    Verdict.NO_MATCH: "not delivered: {which}",
    Verdict.NO_RELEVANCE: "not delivered: the event lacks the numbers that its relevance is worked out from",
    Verdict.REPEATED: "not delivered now: an event with this source and id was published before",
    Verdict.LATE: "not delivered: the event comes {beyond}later than is allowed",
    Verdict.HELD: "not delivered now: with rank {rank} it is kept back until nothing earlier can come",
    Verdict.EXPIRED: "not delivered: the event has expired",
    Verdict.TOO_OLD: "not delivered: the event is too old for the window",
    Verdict.WAITING: "not delivered now: with rank {rank} it waits for the end of the period{standing}{later}",
    Verdict.OUTRANKED: "not delivered now: with rank {rank} it is not among the best{by}{standing}{chance}",
    Verdict.TIED: "not delivered now: with rank {rank} it is no better than {standing}{chance}",
    Verdict.NOT_CHOSEN: "not delivered: the subscriber is {standing}",
    Verdict.IN_DIGEST: "not handed over now: with rank {rank} it is in the digest of {digest}{standing}{later}",
    Verdict.ON_DEMAND: "not handed over: with rank {rank} it is there to be read{standing}",
    Verdict.CAPPED: "not handed over: with rank {rank} it is capped: {cap}{standing}",
    Verdict.MUTED: "not handed over: with rank {rank} it is delivered while muted, until {muted}{standing}",
}


class Standing(NamedTuple):
    """A subscriber's place among all whom an event interests, as its publisher ranks them, and for how many it is."""

    place: int
    k: int

    def __str__(self) -> str:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(self.place % 10 if self.place % 100 not in {11, 12, 13} else 0, "th")
        return f"{self.place}{ending}, and it was for the best {self.k if self.k > 1 else ''}".rstrip()


_THIS = {"hour": "this hour's", "day": "today's", "week": "this week's", "month": "this month's"}


def shown_cap(used: UsedCap) -> str:
    """Return in words how a cap is used up.

    >>> from rankcast.model.policies import Cap
    >>> from rankcast.model.times import EPOCH
    >>> shown_cap(UsedCap(Cap(1, Every("week"), per="company"), 1, EPOCH))
    "1 of this week's 1 per company delivered, until 1970-01-01T00:00:00Z"
    """
    cap = used.cap
    unit = _THIS.get(cap.every.unit) if isinstance(cap.every, Every) else None
    per = "" if cap.per is None else f" per {cap.per}"
    limit = format_cap(cap) if unit is None else f"{unit} {cap.count}{per}"
    return f"{used.used} of {limit} delivered, until {format_time(used.end)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an event means to a subscriber: why each subscription matches or not, its rank, and whether it is delivered.

    `rank` is None when nothing matches, or when what matches ranks by a relevance that the event does not have.
    `outlook` tells where the event stands in its queue: its place, when it could still enter, or that it no longer can.
    `competitor` is the match to beat. All this is about the subscriber's queue;
    `others` has the outcomes for the queues of subscriptions with their own policies, each with its `subscription`.
    `late` tells by how much the event would come too late, and `decay` how its rank fades. `standing` is the
    subscriber's place among all whom the event interests, where its publisher wants it to reach only some of them.
    `cap` is what withholds it. Of an event that waits, `handed_over` is when it is handed over if nothing better comes,
    and `caps` are those that it then has to pass.
    """

    subscriber: SubscriberId
    explanations: tuple[Explanation, ...]
    rank: float | None
    verdict: Verdict
    outlook: Forecast | None = None
    competitor: Match | None = None
    subscription: SubscriptionId | None = None
    others: tuple[Outcome, ...] = ()
    late: Late | None = None
    decay: Decay | None = None
    standing: Standing | None = None
    cap: UsedCap | None = None
    muted_until: datetime | None = None
    handed_over: datetime | None = None
    caps: tuple[Cap, ...] = ()

    @property
    def delivered(self) -> bool:
        """Whether publishing the event now would deliver it at once, by whichever policy."""
        return self.verdict is Verdict.DELIVERED or any(other.delivered for other in self.others)

    def __str__(self) -> str:
        pages = [f"[{explanation.subscription.id}] {explanation}" for explanation in self.explanations]
        own = "" if self.subscription is None else f" [{self.subscription}]"
        return "\n".join((*pages, f"{self.subscriber}{own}: {self._in_words}", *map(str, self.others)))

    @property
    def _in_words(self) -> str:
        return _WORDS[self.verdict].format(
            rank="" if self.rank is None else f"{self.rank:g}{self._fading}",
            which="no subscription matches" if self.subscription is None else "the subscription does not match",
            beyond="" if self.late is None else f"{self.late.by} ",
            by=" by rank and diversity" if self.outlook is not None and self.outlook.diverse else "",
            standing=self._standing if self.verdict is not Verdict.NOT_CHOSEN else self.standing,
            chance=self._chance,
            cap="" if self.cap is None else shown_cap(self.cap),
            muted="" if self.muted_until is None else format_time(self.muted_until),
            digest="" if self.handed_over is None else format_time(self.handed_over),
            later=self._later,
        )

    @property
    def _fading(self) -> str:
        """How the rank of an event compares with that of a newer one."""
        if self.decay is None:
            return ""
        return f" (an older event needs twice the rank for every {format_duration(self.decay.half_life)} between them)"

    @property
    def _standing(self) -> str:
        """Where the event stands: its place, those it competes with, and the one to beat."""
        ahead = self.outlook
        if ahead is None or ahead.k is None:
            return ""
        last = ""
        if self.competitor is not None:
            rank = self.competitor.rank
            which = "so far" if ahead.k == 1 else "the last of them"
            last = f", {which} event {self.competitor.event.id} with rank {rank:g}"
        if self.verdict is Verdict.TIED:
            which = "one that was delivered and is" if ahead.k == 1 else f"{ahead.k} that were delivered and are"
            return f"{which} still {'in the window' if ahead.in_window else 'valid'}{last}"
        place = "not chosen so far, " if ahead.diverse and self.verdict is Verdict.WAITING else ""
        if ahead.place is not None:
            place = f"place {ahead.place}, "
        end = "" if ahead.decided is None else f" at {format_time(ahead.decided)}"
        chosen = "only the best is delivered" if ahead.k == 1 else f"the best {ahead.k} are delivered"
        if ahead.diverse and ahead.k > 1:
            chosen = f"the {ahead.k} best by rank and diversity are delivered"
        return f" ({place}{chosen}{end}{last})"

    @property
    def _later(self) -> str:
        """What an event that waits has still before it: its digest, and caps."""
        digest, ahead = "", self.outlook
        if self.handed_over is not None and ahead is not None and ahead.decided not in (None, self.handed_over):
            digest = f"; that is in the digest of {format_time(self.handed_over)}"
        caps = " and ".join(map(format_cap, self.caps))
        return f"{digest}; at most {caps} are handed over" if caps else digest

    @property
    def _chance(self) -> str:
        """What an event that is not delivered can still hope for."""
        ahead = self.outlook
        if ahead is None:
            return ""
        if ahead.hopeless and ahead.k and ahead.bound is not None:
            return f"; its bounded queue holds {ahead.bound} better ones: it can no longer be delivered"
        if ahead.hopeless and ahead.k:
            better = "a better one stays" if ahead.k == 1 else f"{ahead.k} better ones stay"
            better = "as good ones stay" if self.verdict is Verdict.TIED else better
            return f"; {better} as long: it can no longer be delivered"
        if ahead.reopens is not None:
            return f"; an event of this rank passes from {format_time(ahead.reopens)} on"
        chances = []
        if ahead.enters is not None:
            chances.append(f"at {format_time(ahead.enters)}")
        if ahead.enters_after is not None:
            matches = "match" if ahead.enters_after == 1 else "matches"
            chances.append(f"after {ahead.enters_after} more {matches} of lower rank")
        return f"; if nothing better comes it enters {' or '.join(chances)}" if chances else ""
