"""Subscribers from plain data of the documented shape, and back.

The shape itself is checked by `structure`; here the parts get their meaning: filters are parsed, durations and times
read, ids compared. A subscriber in which anything is wrong is set aside with everything found in it; the others load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from rankcast.language.dialects import filter_from_cloudevents
from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_expression
from rankcast.model.errors import DuplicateIdError, InvalidSubscriptionError, InvalidValueError, RankcastError, shown
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.notifying import AT_ONCE
from rankcast.model.policies import ALL_MATCHES, Policy, check_attributes
from rankcast.model.relevance import Relevance, check_relevance
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
from rankcast.model.values import ValueType
from rankcast.ranking.preferences import preference_ranks
from rankcast.storage.durations import format_duration, parse_duration
from rankcast.storage.subscribers.schema import Finding, structure_findings
from rankcast.storage.subscribers.settings import (
    decay_from_document,
    decay_to_document,
    format_priority,
    notify_from_document,
    notify_to_document,
    parse_priority,
    policy_from_document,
    policy_to_document,
    relevance_from_document,
    relevance_to_document,
)
from rankcast.storage.tokens import Path

VERSION = 1


class Reading(NamedTuple):
    """What a document holds; with `usable` false nothing was read, because the document as a whole is wrong."""

    subscribers: tuple[Subscriber, ...]
    schema: Schema | None
    findings: tuple[Finding, ...]
    usable: bool = True


def read_document(document: Any) -> Reading:
    """Return the subscribers of plain data, and everything that is wrong with it."""
    found = [finding._replace(message=_placed(document, finding)) for finding in structure_findings(document)]
    if any(not _is_within_subscriber(finding.path) for finding in found):
        return Reading((), None, tuple(found), usable=False)
    try:
        schema = _schema(document["schema"]) if "schema" in document else None
    except InvalidSubscriptionError as error:
        return Reading((), None, (*found, Finding(("schema",), str(error))), usable=False)
    reader = _Reader(schema, set(), {}, found)
    malformed = {finding.path[1] for finding in found}
    subscribers = [
        subscriber
        for at, entry in enumerate(document["subscribers"])
        if (subscriber := reader.subscriber(entry, ("subscribers", at), malformed=at in malformed)) is not None
    ]
    return Reading(tuple(subscribers), schema, tuple(found))


def _is_within_subscriber(path: Path) -> bool:
    return len(path) > 1 and path[0] == "subscribers"


def _placed(document: Any, finding: Finding) -> str:
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


def _schema(entry: Mapping[str, Any]) -> Schema:
    attributes = {name: ValueType(declared) for name, declared in entry.get("attributes", {}).items()}
    return Schema(attributes, frozenset(entry.get("required", ())))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads subscribers of one document; many share filters, so those are parsed once."""

    schema: Schema | None
    ids: set[str]
    filters: dict[str, Filter]
    found: list[Finding]

    def subscriber(self, entry: Any, path: Path, *, malformed: bool) -> Subscriber | None:
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
        return self._made(entry, path, tuple(filter(None, subscriptions)))

    def _made(self, entry: Any, path: Path, subscriptions: tuple[Subscription, ...]) -> Subscriber | None:
        place = path
        try:
            place = (*path, "deliver") if "deliver" in entry else path
            policy = self.policy(entry["deliver"]) if "deliver" in entry else ALL_MATCHES
            place = path
            decay = decay_from_document(entry["decay"]) if "decay" in entry else None
            place = (*path, "priorities") if "priorities" in entry else path
            subscriber = Subscriber(
                SubscriberId(entry["id"]),
                subscriptions,
                deliver=policy,
                rank_by=RankBy(entry.get("rank_by", RankBy.MAX.value)),
                most_specific=entry.get("most_specific", False),
                priorities=tuple(map(parse_priority, entry.get("priorities", ()))),
                decay=decay,
                notify=notify_from_document(entry["notify"]) if "notify" in entry else AT_ONCE,
            )
            preference_ranks(subscriber)
        except DuplicateIdError as error:
            self.found.append(Finding((*path, "subscriptions", _second(subscriptions)), str(error)))
        except RankcastError as error:
            self.found.append(Finding(place, f"subscriber {shown(entry['id'])}: {error}"))
        else:
            return subscriber
        return None

    def subscription(self, entry: Mapping[str, Any], path: Path, subscriber: str) -> Subscription | None:
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


def subscribers_to_document(subscribers: Iterable[Subscriber], schema: Schema | None = None) -> dict[str, Any]:
    """Return plain data of the documented shape; defaults are left out.

    Raises DuplicateIdError for two subscribers with one id, InvalidSubscriptionError for what the shape cannot express.
    """
    document: dict[str, Any] = {"version": VERSION}
    if schema is not None:
        document["schema"] = {
            "attributes": {name: declared.value for name, declared in schema.attributes.items()},
            "required": sorted(schema.required),
        }
    document["subscribers"] = [_subscriber_entry(one) for one in unique_subscribers(subscribers).values()]
    findings = structure_findings(document)
    if findings:
        raise InvalidSubscriptionError("\n".join(_placed(document, finding) for finding in findings))
    return document


def _subscriber_entry(subscriber: Subscriber) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": subscriber.id}
    policy = policy_to_document(subscriber.deliver)
    if policy is not None:
        entry["deliver"] = policy
    if subscriber.rank_by is not RankBy.MAX:
        entry["rank_by"] = subscriber.rank_by.value
    if subscriber.most_specific:
        entry["most_specific"] = True
    entry["subscriptions"] = [_subscription_entry(subscription) for subscription in subscriber.subscriptions]
    if subscriber.priorities:
        entry["priorities"] = [format_priority(priority) for priority in subscriber.priorities]
    if subscriber.decay is not None:
        entry["decay"] = decay_to_document(subscriber.decay)
    if subscriber.notify != AT_ONCE:
        entry["notify"] = notify_to_document(subscriber.notify)
    return entry


def _subscription_entry(subscription: Subscription) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": subscription.id, "filter": format_expression(subscription.filter.expression)}
    if subscription.rank is not None:
        entry["rank"] = subscription.rank
    if subscription.weight != 1:
        entry["weight"] = subscription.weight
    if subscription.relevance is not None:
        entry["relevance"] = relevance_to_document(subscription.relevance)
    if subscription.refresh is not None:
        entry["refresh"] = format_duration(subscription.refresh)
    if subscription.deliver is not None:
        entry["deliver"] = policy_to_document(subscription.deliver) or {"policy": "all"}
    for bound in ("active_from", "active_until"):
        time = getattr(subscription, bound)
        if time is not None:
            entry[bound] = format_time(time)
    return entry
