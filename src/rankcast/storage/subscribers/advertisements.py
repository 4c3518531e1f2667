"""Advertisements in files: a part of a subscriber file, or all of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankcast.language.printer import format_expression
from rankcast.model.advertisements import (
    EVERYTHING,
    FAIRNESS,
    Advertisement,
    AdvertisementId,
    AudienceRanking,
    Scoring,
    Ties,
)
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType


def advertisement_from_document(entry: Mapping[str, Any], wanted: Callable[[Any], Filter]) -> Advertisement:
    """Return the advertisement of a mapping; `wanted` reads its space.

    >>> from rankcast.language.parser import parse_filter
    >>> advertisement_from_document({"id": "flats", "source": "/flats", "k": 3}, parse_filter).k
    3
    """
    return Advertisement(
        AdvertisementId(entry["id"]),
        entry["source"],
        wanted(entry["space"]) if "space" in entry else EVERYTHING,
        schema_from_document(entry.get("schema", {})),
        entry.get("k"),
        ranking_from_document(entry.get("ranking", {})),
    )


def advertisement_to_document(advertisement: Advertisement) -> dict[str, Any]:
    """Return the mapping of an advertisement; defaults are left out."""
    space, schema, ranking = advertisement.space, advertisement.schema, advertisement.ranking
    everything = space.expression == EVERYTHING.expression
    return {
        "id": advertisement.id,
        "source": advertisement.source,
        **({} if everything else {"space": format_expression(space.expression)}),
        **({"schema": schema_to_document(schema)} if schema.attributes or schema.required else {}),
        **({} if advertisement.k is None else {"k": advertisement.k}),
        **({} if ranking == FAIRNESS else {"ranking": _ranking_to_document(ranking)}),
    }


def ranking_from_document(entry: str | Mapping[str, Any]) -> AudienceRanking:
    """Return the ranking of a mapping, or of the name of its scoring.

    >>> ranking_from_document("preference") == ranking_from_document({"scoring": "preference", "ties": "fair"})
    True
    """
    given: Mapping[str, Any] = {"scoring": entry} if isinstance(entry, str) else entry
    scoring, ties = Scoring(given.get("scoring", "none")), Ties(given.get("ties", "fair"))
    return AudienceRanking(scoring, ties, given.get("seed", 0))


def _ranking_to_document(ranking: AudienceRanking) -> str | dict[str, Any]:
    ties = {} if ranking.ties is FAIRNESS.ties else {"ties": ranking.ties.value}
    stated = ties | ({"seed": ranking.seed} if ranking.seed else {})
    return {"scoring": ranking.scoring.value, **stated} if stated else ranking.scoring.value


def schema_from_document(entry: Mapping[str, Any]) -> Schema:
    """Return the schema of a mapping; raise InvalidSubscriptionError when it contradicts itself."""
    declared = {
        name: given if isinstance(given, Mapping) else {"type": given}
        for name, given in entry.get("attributes", {}).items()
    }
    attributes = {name: _type_from_document(given["type"]) for name, given in declared.items()}
    separators = {name: given["separator"] for name, given in declared.items() if "separator" in given}
    return Schema(attributes, frozenset(entry.get("required", ())), separators)


def _type_from_document(given: str | Sequence[str]) -> ValueType:
    """Return the type of a text, or of a list of the type of its elements, as YAML reads `[string]`."""
    return ValueType(given if isinstance(given, str) else f"[{given[0]}]")


def schema_to_document(schema: Schema) -> dict[str, Any]:
    """Return the mapping of a schema."""
    attributes = {
        name: {"type": declared.value, "separator": schema.separators[name]}
        if name in schema.separators
        else declared.value
        for name, declared in schema.attributes.items()
    }
    return {"attributes": attributes, "required": sorted(schema.required)}
