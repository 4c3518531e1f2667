"""Subscriber files: YAML or JSON of one documented shape, loaded and saved; and plain data of that shape.

`subscribers.schema.json` is the only description of the shape, and is checked first; then the parts get their meaning:
filters are parsed, durations and times read, ids compared. Good subscribers load. Each bad one is set aside with
everything found in it, as Problems that name the line. A filter that no event can match is a warning and loads; so is a
k that limits little, because all matches have the same rank. A file that cannot be used at all (missing, not UTF-8,
broken syntax, wrong version, a schema that contradicts itself) raises InvalidFileError. What is saved loads back equal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from rankcast.language.dialects import filter_from_cloudevents
from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_expression
from rankcast.model.advertisements import Advertisement, Advertisements
from rankcast.model.errors import (
    DuplicateIdError,
    InvalidEventError,
    InvalidFileError,
    InvalidSubscriptionError,
    InvalidValueError,
    Problem,
    RankcastError,
    shown,
)
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter, shared_steps
from rankcast.model.periods import check_zone
from rankcast.model.policies import ALL_MATCHES, AT_ONCE, AllMatches, OnDemand, Policy, check_attributes
from rankcast.model.relevance import Decay, Relevance, check_relevance
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import (
    RankBy,
    Subscriber,
    SubscriberId,
    Subscription,
    SubscriptionId,
    unique_subscribers,
)
from rankcast.model.times import format_time, parse_time
from rankcast.ranking.preferences import AGAINST_TIES, queues_without_order
from rankcast.storage.document_schema import DocumentSchema, Finding, locate
from rankcast.storage.documents import Document, DocumentFormat, DocumentPath, dumps_document, parse_document
from rankcast.storage.durations import format_duration, parse_duration
from rankcast.storage.subscribers.advertisements import (
    advertisement_from_document,
    advertisement_to_document,
    schema_from_document,
    schema_to_document,
)
from rankcast.storage.subscribers.settings import (
    format_priority,
    notify_from_document,
    notify_to_document,
    parse_priority,
    policy_from_document,
    policy_to_document,
    relevance_from_document,
    relevance_to_document,
)
from rankcast.storage.text_files import invalid_file, read_text
from rankcast.storage.writing import replacing

VERSION = 1
SUBSCRIBER_SUFFIXES = {".yaml": DocumentFormat.YAML, ".yml": DocumentFormat.YAML, ".json": DocumentFormat.JSON}


@cache
def subscribers_schema() -> DocumentSchema:
    """Return the schema that is shipped with the package."""
    text = resources.files("rankcast.storage").joinpath("subscribers.schema.json").read_text("utf-8")
    return DocumentSchema(json.loads(text))


@dataclass(frozen=True, slots=True)
class SubscriberFile:
    """What a subscriber file holds, and what was wrong with the rest of it."""

    subscribers: tuple[Subscriber, ...]
    schema: Schema | None = None
    problems: tuple[Problem, ...] = ()
    advertisements: tuple[Advertisement, ...] = ()


def load_subscribers(path: str | os.PathLike[str], *, format: DocumentFormat | None = None) -> SubscriberFile:  # noqa: A002
    """Load a file; the format is that of its suffix (.yaml, .yml, .json) unless it is given."""
    path = Path(path)
    known = format or _format_of(path)
    return loads_subscribers(read_text(path), format=known, file=str(path))


def loads_subscribers(
    text: str,
    *,
    format: DocumentFormat = DocumentFormat.YAML,  # noqa: A002
    file: str = "<text>",
) -> SubscriberFile:
    """Load a text.

    >>> text = "version: 1\\nsubscribers: [{id: ana, subscriptions: [{filter: rent < 500, rank: 7}]}]"
    >>> print(*loads_subscribers(text).problems)
    <text>:2: subscriber 'ana', subscription '1', rank: 7 is not a number from 0 to 1
    """
    document = parse_document(text, format, file, keep_unusable=True)
    with shared_steps(len(text)):
        return _read_subscribers(document)


def subscribers_from_document(document: Any, *, file: str = "<document>") -> SubscriberFile:
    """Load plain data (mappings, lists, texts, numbers, bools) of the documented shape; its problems have no lines."""
    return _read_subscribers(Document(document, file))


def _read_subscribers(document: Document) -> SubscriberFile:
    """Return the subscribers of a document; raise InvalidFileError when it is wrong as a whole."""
    value = document.value
    found = [finding._replace(message=_name_place(value, finding)) for finding in subscribers_schema().findings(value)]
    if isinstance(value, dict) and not value.keys() & {"subscribers", "advertisements"}:
        found.append(Finding((), "missing: 'subscribers'"))
    if any(not _is_within_subscriber(finding.path) for finding in found):
        raise InvalidFileError(locate(document, found))
    try:
        schema = schema_from_document(value["schema"]) if "schema" in value else None
    except InvalidSubscriptionError as error:
        raise InvalidFileError(locate(document, [*found, Finding(("schema",), str(error))])) from None
    reader = _Reader(schema, set(), {}, found)
    malformed = {finding.path[1] for finding in found}
    advertisements = reader.advertisements(value.get("advertisements", ()))
    if any(not _is_within_subscriber(finding.path) and not finding.warning for finding in found):
        raise InvalidFileError(locate(document, found))
    subscribers = [
        subscriber
        for at, entry in enumerate(value.get("subscribers", ()))
        if (subscriber := reader.subscriber(entry, ("subscribers", at), malformed=at in malformed)) is not None
    ]
    return SubscriberFile(tuple(subscribers), schema, tuple(locate(document, found)), advertisements)


def _is_within_subscriber(path: DocumentPath) -> bool:
    return len(path) > 1 and path[0] == "subscribers"


def _name_place(document: Any, finding: Finding) -> str:
    """Return the message with the names of the subscriber and subscription in front of it."""
    names: list[str] = []
    rest = finding.path
    node = document
    for key, kind in (("subscribers", "subscriber"), ("subscriptions", "subscription")):
        if len(rest) < 2 or rest[0] != key:
            break
        node = node[key][rest[1]]
        own = node.get("id") if isinstance(node, dict) else None
        position = int(rest[1]) + 1
        unnamed = str(position) if kind == "subscriber" else repr(str(position))  # a subscription has that id then
        names.append(f"{kind} {shown(own) if isinstance(own, str) else unnamed}")
        rest = rest[2:]
    if rest and not finding.message.startswith("unknown key"):
        names.append("".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest).lstrip("."))
    return ": ".join(filter(None, (", ".join(names), finding.message)))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads subscribers of one document; many share filters, so those are parsed once."""

    schema: Schema | None
    ids: set[str]
    filters: dict[str, Filter]
    found: list[Finding]

    def advertisements(self, entries: Iterable[Mapping[str, Any]]) -> tuple[Advertisement, ...]:
        """Return what is advertised; whatever is wrong is wrong with the file, as events would reach too many."""
        known = Advertisements()
        for at, entry in enumerate(entries):
            where = f"advertisement {shown(entry['id'])}"
            try:
                made = advertisement_from_document(entry, self.filter)
                known.add(made)
            except RankcastError as error:
                self.found.append(Finding(("advertisements", at), f"{where}: {error}"))
                continue
            if not made.space.is_satisfiable:
                place = ("advertisements", at, "space")
                self.found.append(Finding(place, f"{where}: no event can lie in this space", warning=True))
        return known.all

    def subscriber(self, entry: Any, path: DocumentPath, *, malformed: bool) -> Subscriber | None:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str):
            if name in self.ids:
                self.found.append(Finding((*path, "id"), f"an earlier subscriber has the id {shown(name)} already"))
                return None
            self.ids.add(name)
        if malformed:
            return None
        before = len(self.found)
        subscriptions = [
            self.subscription(inner, (*path, "subscriptions", at), entry["id"])
            for at, inner in enumerate(entry["subscriptions"])
        ]
        if any(not finding.warning for finding in self.found[before:]):
            return None
        return self._make(entry, path, tuple(filter(None, subscriptions)))

    def _make(self, entry: Any, path: DocumentPath, subscriptions: tuple[Subscription, ...]) -> Subscriber | None:
        place = (*path, "deliver")
        try:
            policy = self.policy(entry["deliver"]) if "deliver" in entry else ALL_MATCHES
            place = (*path, "decay")
            decay = Decay(parse_duration(entry["decay"]["half_life"])) if "decay" in entry else None
            place = (*path, "notify")
            notify = notify_from_document(entry["notify"]) if "notify" in entry else AT_ONCE
            place = (*path, "zone")
            if "zone" in entry:
                check_zone(entry["zone"])
            place = (*path, "muted_until")
            muted_until = _time(entry, "muted_until")
            place = (*path, "priorities")
            subscriber = Subscriber(
                SubscriberId(entry["id"]),
                subscriptions,
                deliver=policy,
                rank_by=RankBy(entry.get("rank_by", RankBy.MAX.value)),
                most_specific=entry.get("most_specific", False),
                priorities=tuple(map(parse_priority, entry.get("priorities", ()))),
                decay=decay,
                notify=notify,
                zone=entry.get("zone"),
                muted_until=muted_until,
            )
            unordered = queues_without_order(subscriber)
        except DuplicateIdError as error:
            self.found.append(Finding((*path, "subscriptions", _second(subscriptions)), str(error)))
        except RankcastError as error:
            self.found.append(Finding(place, f"subscriber {shown(entry['id'])}: {error}"))
        else:
            self._warn_of_ks(subscriber, unordered, path)
            return subscriber
        return None

    def _warn_of_ks(self, subscriber: Subscriber, queues: Iterable[SubscriptionId | None], path: DocumentPath) -> None:
        """Warn where a k limits nothing, but for lists, as who reads one has the best k, and where nothing passes."""
        ids = [held.id for held in subscriber.subscriptions]
        alike = f"all matches have the same rank, and of equals the newer is better, so k limits little; {AGAINST_TIES}"
        said = [(name, alike) for name in (() if isinstance(subscriber.notify, OnDemand) else queues)]
        empty = [name for name, own in subscriber.policies.items() if not isinstance(own, AllMatches) and own.k == 0]
        for name, what in (*said, *((name, "k is 0, so nothing is delivered") for name in empty)):
            place = path if name is None else (*path, "subscriptions", ids.index(name))
            whose = "" if name is None else f", subscription {shown(name)}"
            message = f"subscriber {shown(subscriber.id)}{whose}: deliver: {what}"
            self.found.append(Finding((*place, "deliver"), message, warning=True))

    def subscription(self, entry: Mapping[str, Any], path: DocumentPath, subscriber: str) -> Subscription | None:
        name = entry.get("id", str(int(path[-1]) + 1))
        where = f"subscriber {shown(subscriber)}, subscription {shown(name)}"
        place = (*path, "filter")
        try:
            wanted = self.filter(entry["filter"])
            if not wanted.is_satisfiable:
                message = f"{where}: no event can match this filter"
                self.found.append(Finding(place, message, warning=True))
            place = (*path, "relevance")
            relevance = self.relevance(entry["relevance"]) if "relevance" in entry else None
            place = (*path, "deliver")
            policy = self.policy(entry["deliver"]) if "deliver" in entry else None
            place = path
            return Subscription(
                SubscriptionId(name),
                wanted,
                entry.get("rank"),
                weight=entry.get("weight", 1.0),
                active_from=_time(entry, "active_from"),
                active_until=_time(entry, "active_until"),
                relevance=relevance,
                refresh=parse_duration(entry["refresh"]) if "refresh" in entry else None,
                deliver=policy,
            )
        except RankcastError as error:
            what = f"{place[-1]}: " if place != path else ""
            self.found.append(Finding(place, f"{where}: {what}{error}"))
        return None

    def filter(self, entry: Any) -> Filter:
        """Return a filter; InvalidSubscriptionError and FilterError say why it cannot be."""
        if isinstance(entry, bool):
            return Filter.of(Constant(entry), self.schema)
        if not isinstance(entry, str):
            return filter_from_cloudevents(entry, self.schema)
        if entry not in self.filters:
            self.filters[entry] = parse_filter(entry, self.schema)
        return self.filters[entry]

    def policy(self, entry: Mapping[str, Any]) -> Policy:
        """Return a delivery policy; InvalidSubscriptionError and FilterError say why it cannot be."""
        policy = policy_from_document(entry)
        if self.schema is not None:
            check_attributes(policy, self.schema)
        return policy

    def relevance(self, entry: Mapping[str, Any]) -> Relevance:
        """Return a relevance function; InvalidSubscriptionError and FilterError say why it cannot be."""
        relevance = relevance_from_document(entry)
        if self.schema is not None:
            check_relevance(relevance, self.schema)
        return relevance


def _time(entry: Mapping[str, Any], name: str) -> datetime | None:
    try:
        return parse_time(entry[name], exact=True) if name in entry else None
    except InvalidValueError as error:
        raise InvalidSubscriptionError(f"{name}: {error}") from None


def _second(subscriptions: Iterable[Subscription]) -> int:
    known: set[str] = set()
    for at, subscription in enumerate(subscriptions):
        if subscription.id in known:
            return at
        known.add(subscription.id)
    return 0


def load_advertisements(path: str | os.PathLike[str] | None, known: SubscriberFile) -> Advertisements:
    """Return what a subscriber file advertises, and what a file of its own does, under the subscribers' schema."""
    found = () if path is None else load_subscribers(path).advertisements
    return Advertisements((*known.advertisements, *found)).under(known.schema)


def admitted(items: Iterable[Event | Problem], advertisements: Advertisements, file: str) -> Iterator[Event | Problem]:
    """Give the events of a file, those of its problems that are known, and of each one that is not advertised."""
    for item in items:
        try:
            yield item if isinstance(item, Problem) else advertisements.admit(item).event
        except InvalidEventError as error:
            yield Problem(file, None, str(error))


def save_subscribers(
    path: str | os.PathLike[str],
    subscribers: Iterable[Subscriber],
    schema: Schema | None = None,
    advertisements: Iterable[Advertisement] = (),
    *,
    format: DocumentFormat | None = None,  # noqa: A002
) -> None:
    """Write subscribers so that they load back equal (with filters in normal form under `schema`); atomic."""
    path = Path(path)
    document = subscribers_to_document(subscribers, schema, advertisements)
    text = dumps_document(document, format or _format_of(path))
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def _format_of(path: Path) -> DocumentFormat:
    found = SUBSCRIBER_SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise invalid_file(
            str(path),
            None,
            f"the suffix {path.suffix!r} is not that of a subscriber file; expected .yaml, .yml or .json",
        )
    return found


def subscribers_to_document(
    subscribers: Iterable[Subscriber], schema: Schema | None = None, advertisements: Iterable[Advertisement] = ()
) -> dict[str, Any]:
    """Return plain data of the documented shape; defaults are left out.

    Raises DuplicateIdError for two subscribers with one id, InvalidSubscriptionError for what the shape cannot express.
    """
    document: dict[str, Any] = {"version": VERSION}
    if schema is not None:
        document["schema"] = schema_to_document(schema)
    advertised = Advertisements(advertisements).all
    if advertised:
        document["advertisements"] = list(map(advertisement_to_document, advertised))
    document["subscribers"] = list(map(_subscriber_entry, unique_subscribers(subscribers).values()))
    findings = subscribers_schema().findings(document)
    if findings:
        raise InvalidSubscriptionError("\n".join(_name_place(document, finding) for finding in findings))
    return document


def _subscriber_entry(subscriber: Subscriber) -> dict[str, Any]:
    return _said(
        id=subscriber.id,
        deliver=policy_to_document(subscriber.deliver),
        rank_by=None if subscriber.rank_by is RankBy.MAX else subscriber.rank_by.value,
        most_specific=subscriber.most_specific or None,
        subscriptions=[_subscription_entry(subscription) for subscription in subscriber.subscriptions],
        priorities=[format_priority(priority) for priority in subscriber.priorities] or None,
        decay=subscriber.decay and {"half_life": format_duration(subscriber.decay.half_life)},
        notify=None if subscriber.notify == AT_ONCE else notify_to_document(subscriber.notify),
        zone=subscriber.zone,
        muted_until=subscriber.muted_until and format_time(subscriber.muted_until),
    )


def _subscription_entry(subscription: Subscription) -> dict[str, Any]:
    return _said(
        id=subscription.id,
        filter=format_expression(subscription.filter.expression),
        rank=subscription.rank,
        weight=None if subscription.weight == 1 else subscription.weight,
        relevance=subscription.relevance and relevance_to_document(subscription.relevance),
        refresh=None if subscription.refresh is None else format_duration(subscription.refresh),
        deliver=subscription.deliver and (policy_to_document(subscription.deliver) or {"policy": "all"}),
        active_from=subscription.active_from and format_time(subscription.active_from),
        active_until=subscription.active_until and format_time(subscription.active_until),
    )


def _said(**entries: Any) -> dict[str, Any]:
    """Return a mapping without what is a default, which needs no words."""
    return {name: value for name, value in entries.items() if value is not None}
