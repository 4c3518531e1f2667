"""Advertisements: what a publisher is going to publish, and how far it should reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from rankcast.model.events import Event
from rankcast.model.filters import Filter
from rankcast.model.policies import check_count
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import check_id

AdvertisementId = NewType("AdvertisementId", str)

NO_SCHEMA = Schema()


@dataclass(frozen=True, slots=True)
class Advertisement:
    """The events of one source: those in `space`, with the attributes that `schema` declares.

    `k` asks that each event reach only its k best subscribers; None lets it reach every match.
    """

    id: AdvertisementId
    source: str
    space: Filter
    schema: Schema = NO_SCHEMA
    k: int | None = None

    def __post_init__(self) -> None:
        check_id("advertisement", self.id)
        if self.k is not None:
            check_count("k", self.k, at_least=1)

    def permits(self, event: Event) -> bool:
        """Whether an event is one of those announced."""
        return (
            event.source == self.source
            and self.space.accepts(event.attributes)
            and self.schema.required <= event.attributes.keys()
        )
