"""Advertisements: what a publisher is going to publish, and which subscribers it should reach.

An advertisement with a k asks that each of its events reach its k best subscribers only; one publication may ask for
fewer. A subscriber counts once, by the best of its subscriptions that match, however many these are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import NamedTuple, NewType

from rankcast.model.errors import (
    DuplicateIdError,
    FilterError,
    InvalidEventError,
    InvalidSubscriptionError,
    UnknownIdError,
    require,
    shown,
)
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.policies import check_count
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import check_id

AdvertisementId = NewType("AdvertisementId", str)

NO_SCHEMA = Schema()
EVERYTHING = Filter.of(Constant(True))


class Scoring(Enum):
    """What the score of a subscription is that matches an event; a subscriber has the best of its scores.

    - NONE: all are equal;
    - PREFERENCE: its preference rank, which no publication changes;
    - RELEVANCE: its preference rank times the event's relevance to it;
    - DIVERSITY: the sum of its distances to all subscriptions that match (see `ranking.audiences`): those that nobody
      resembles come first.
    """

    NONE = "none"
    PREFERENCE = "preference"
    RELEVANCE = "relevance"
    DIVERSITY = "diversity"


class Ties(Enum):
    """In which order subscribers of equal score are taken: by chance, with all orders as likely, or by id."""

    FAIR = "fair"
    BY_ID = "by id"


@dataclass(frozen=True, slots=True)
class AudienceRanking:
    """How a publisher wants its audience ranked: by scores, and what decides between equals; by fairness alone.

    Chance is a hash of the seed, the event and the subscriber: another seed draws otherwise, the same seed draws the
    same in every engine and in every repetition.

    Paper: top-k covering for publish/subscribe overlays, sections III and IV, Appendix A.
    """

    scoring: Scoring = Scoring.NONE
    ties: Ties = Ties.FAIR
    seed: int = 0

    def __post_init__(self) -> None:
        require(isinstance(self.scoring, Scoring), "scoring", self.scoring, "a Scoring")
        require(isinstance(self.ties, Ties), "ties", self.ties, "a Ties")
        check_count("seed", self.seed, at_least=0)

    @property
    def is_by_chance(self) -> bool:
        """Whether everybody is as likely as anybody else."""
        return self.scoring is Scoring.NONE and self.ties is Ties.FAIR


FAIRNESS = AudienceRanking()


@dataclass(frozen=True, slots=True)
class AudienceLimit:
    """Whom one event is for: the `k` best subscribers by a ranking."""

    k: int
    ranking: AudienceRanking = FAIRNESS

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """The events of one source: those in `space`, with the attributes that `schema` declares.

    `k` asks that each event reach only its k best subscribers by the ranking; None lets it reach every match.
    """

    id: AdvertisementId
    source: str
    space: Filter = EVERYTHING
    schema: Schema = NO_SCHEMA
    k: int | None = None
    ranking: AudienceRanking = FAIRNESS

    def __post_init__(self) -> None:
        check_id("advertisement", self.id)
        require(isinstance(self.source, str), "source", self.source, "a text")
        require(isinstance(self.space, Filter), "space", self.space, "a Filter")
        require(isinstance(self.schema, Schema), "schema", self.schema, "a Schema")
        require(isinstance(self.ranking, AudienceRanking), "ranking", self.ranking, "an AudienceRanking")
        if self.k is not None:
            check_count("k", self.k, at_least=1)

    def under(self, schema: Schema) -> Advertisement:
        """Return the advertisement with its space under a schema; raise when it does not fit."""
        checked = self.space.under(schema)
        return self if checked is self.space else replace(self, space=checked)

    def permits(self, event: Event) -> bool:
        """Whether an event is one of those announced."""
        return (
            event.source == self.source
            and self.space.accepts(event.attributes)
            and self.schema.required <= event.attributes.keys()
        )

    def audience(self, k: int | None) -> AudienceLimit | None:
        """Return whom an event is for that asks for so many subscribers itself; None when for everybody who wants it.

        Raises InvalidEventError for one that asks for more than is advertised, or for no number.
        """
        given: object = k
        if k is not None and (not isinstance(given, int) or isinstance(given, bool) or k < 0):
            raise InvalidEventError(f"k: {shown(k)} is not a whole number of at least 0")
        if k is not None and (self.k is None or k > self.k):
            raise InvalidEventError(f"k: {shown(k)} is more than advertisement {shown(self.id)} has, {self.k}")
        asked = self.k if k is None else k
        return None if asked is None else AudienceLimit(asked, self.ranking)


class Admitted(NamedTuple):
    """An event as its advertisement declares it, if there is one, and whom it is for; None: for everybody."""

    event: Event
    advertisement: AdvertisementId | None = None
    audience: AudienceLimit | None = None


class Advertisements:
    """The advertisements of one engine, and to which an event belongs: the one that it names, or that of its source.

    Where several of its source permit an event it has to name one. A source that advertises publishes nothing else.
    """

    def __init__(self, advertisements: Iterable[Advertisement] = ()) -> None:
        self._by_id: dict[AdvertisementId, Advertisement] = {}
        self._by_source: dict[str, list[Advertisement]] = {}
        for advertisement in advertisements:
            self.add(advertisement)

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def all(self) -> tuple[Advertisement, ...]:
        """The advertisements, in the order they came."""
        return tuple(self._by_id.values())

    @property
    def choose(self) -> bool:
        """Whether one of them has a k."""
        return any(advertisement.k is not None for advertisement in self._by_id.values())

    def under(self, schema: Schema | None) -> Advertisements:
        """Return the same with their spaces under a schema, if there is one; raise where one does not fit."""
        return self if schema is None else Advertisements(map(partial(_named_under, schema), self.all))

    def add(self, advertisement: Advertisement) -> None:
        """Take an advertisement in; raise DuplicateIdError when there is one of its id."""
        if not isinstance(advertisement, Advertisement):
            raise InvalidSubscriptionError(f"advertisements: {shown(advertisement)} is no Advertisement")
        if advertisement.id in self._by_id:
            raise DuplicateIdError(f"there are two advertisements {shown(advertisement.id)}")
        self._by_id[advertisement.id] = advertisement
        self._by_source.setdefault(advertisement.source, []).append(advertisement)

    def withdraw(self, name: AdvertisementId) -> None:
        """Forget an advertisement."""
        gone = self[name]
        del self._by_id[name]
        self._by_source[gone.source].remove(gone)
        if not self._by_source[gone.source]:
            del self._by_source[gone.source]

    def __getitem__(self, name: str) -> Advertisement:
        found = self._by_id.get(AdvertisementId(name))
        if found is None:
            raise UnknownIdError(f"there is no advertisement {shown(name)}")
        return found

    def admit(self, event: Event, k: int | None = None, name: str | None = None) -> Admitted:
        """Return an event in the types that its advertisement declares, and whom it is for.

        Raises InvalidEventError for one that its source does not advertise, or that asks for too many.
        """
        known = self._by_source.get(event.source, []) if name is None else [self[name]]
        if not known:
            if k is not None:
                raise InvalidEventError(f"k: {shown(k)} needs an advertisement of source {shown(event.source)}")
            return Admitted(event)
        permitted = [(own, conformed) for own in known if (conformed := _permitted(own, event)) is not None]
        if len(permitted) != 1:
            names = ", ".join(shown(own.id) for own in (known if not permitted else [own for own, _ in permitted]))
            problem = f"is not what {names} advertises" if not permitted else f"is advertised by {names}; name one"
            raise InvalidEventError(f"event {tuple(event.identity)} {problem}")
        ((advertisement, conformed),) = permitted
        return Admitted(conformed, advertisement.id, advertisement.audience(k))


def _named_under(schema: Schema, advertisement: Advertisement) -> Advertisement:
    try:
        return advertisement.under(schema)
    except FilterError as error:
        raise InvalidSubscriptionError(f"advertisement {shown(advertisement.id)}: space: {error}") from None


def _permitted(advertisement: Advertisement, event: Event) -> Event | None:
    """Return an event in the types of an advertisement that permits it."""
    try:
        conformed = event.conformed(advertisement.schema)
    except InvalidEventError:
        return None
    return conformed if advertisement.permits(conformed) else None
