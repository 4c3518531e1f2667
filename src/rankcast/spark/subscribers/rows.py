"""Rows of a subscriber table read strictly: what each says, and what is wrong with it.

A row has the `id` of a subscriber and either its `document` (JSON, as in a subscriber file) or the same in columns
(`subscriptions`, `deliver`, ...). `active_from` and `active_until` say, in event time, when it holds; null is always.
`sequence`, a whole number, says which row counts where several hold: the highest. A row with neither a document nor
subscriptions says that the subscriber is not there.

A row in which anything is wrong is named with its file, its number, the value and what was expected. Texts that were
read before are not read again: of a table that changes here and there, only what changed costs anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from rankcast.model.errors import InvalidFileError, InvalidSubscriptionError, InvalidValueError, Problem, shown
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, SubscriberId, check_id
from rankcast.model.times import EXPECTED_TIME, NEVER, microseconds, parse_time
from rankcast.model.values import checked_value
from rankcast.spark.matching.compiled_subscribers import needs_hub
from rankcast.spark.subscribers.timelines import ALWAYS, Revision, Timeline, moment, timeline_of
from rankcast.storage.documents import DocumentFormat, parse_document
from rankcast.storage.subscribers.files import VERSION, subscribers_from_document, subscribers_to_document

DOCUMENT, ACTIVE_FROM, ACTIVE_UNTIL, SEQUENCE = "document", "active_from", "active_until", "sequence"

LARGEST_SEQUENCE = 2**63 - 1


class TableRow(NamedTuple):
    """One row as it is in its file; `line` counts from 1."""

    file: str
    line: int
    values: Mapping[str, Any]


class _Placed(NamedTuple):
    """What a row says of one subscriber, and where."""

    row: TableRow
    id: SubscriberId
    revision: Revision


@dataclass(frozen=True, slots=True)
class RowReading:
    """What the rows of a table say, by subscriber, and everything that is wrong with them."""

    timelines: Mapping[SubscriberId, Timeline]
    problems: tuple[Problem, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong; warnings are not wrong."""
        return all(problem.warning for problem in self.problems)


@dataclass(slots=True)
class RowReader:
    """Reads tables, one after the other, under one schema; `subscribers` are those of the texts it has read."""

    schema: Schema | None = None
    subscribers: dict[str, Subscriber] = field(default_factory=dict)

    def read(self, rows: Iterable[TableRow]) -> RowReading:
        """Return what rows say; only a reading that `is_good` is meant to be used."""
        problems: list[Problem] = []
        placed: dict[SubscriberId, list[_Placed]] = {}
        for row in rows:
            try:
                one = _placed(row)
            except (InvalidSubscriptionError, InvalidValueError) as error:
                problems.append(Problem(row.file, row.line, str(error)))
            except InvalidFileError as error:
                problems += (Problem(row.file, row.line, f"{DOCUMENT}: {one.message}") for one in error.problems)
            else:
                placed.setdefault(one.id, []).append(one)
        for own in placed.values():
            problems += _ties(own)
        problems += self._read_documents(placed.values())
        problems.sort(key=lambda problem: (problem.file, problem.line or 0))
        timelines = {name: timeline_of(one.revision for one in own) for name, own in placed.items()}
        return RowReading(timelines, tuple(problems))

    def subscriber(self, document: str) -> Subscriber:
        """Return the subscriber of a text that was read and found good, by this process or by an earlier one."""
        if document not in self.subscribers:
            problems = self._read_round({document: TableRow("<version>", 1, {})})
            bad = [problem for problem in problems if not problem.warning]
            if bad:
                raise InvalidFileError(bad)
        return self.subscribers[document]

    def file_document(self, document: str) -> dict[str, Any]:
        """Return the subscriber file, with the schema if there is one, that has the subscriber of a text only."""
        return self._document([document])

    def forget_but(self, documents: Iterable[str]) -> None:
        """Keep the subscribers of these texts only."""
        self.subscribers = {text: self.subscribers[text] for text in documents if text in self.subscribers}

    def _read_documents(self, placed: Iterable[list[_Placed]]) -> list[Problem]:
        """Read the new texts, in rounds in which each subscriber occurs once: a document has no id twice."""
        rounds: list[dict[str, TableRow]] = []
        for own in placed:
            new = {one.revision.document: one.row for one in reversed(own)}
            fresh = [(text, row) for text, row in new.items() if text is not None and text not in self.subscribers]
            for at, (text, row) in enumerate(fresh):
                if at == len(rounds):
                    rounds.append({})
                rounds[at][text] = row
        return [problem for texts in rounds for problem in self._read_round(texts)]

    def _read_round(self, texts: Mapping[str, TableRow]) -> list[Problem]:
        """Read texts of different subscribers at once; only when something is wrong, again one by one to say where."""
        problems: list[Problem] = []
        try:
            found = subscribers_from_document(self._document(texts))
            is_fit = not any(map(needs_hub, found.subscribers))
            if len(found.subscribers) == len(texts) and not found.problems and is_fit:
                self.subscribers.update(zip(texts, found.subscribers, strict=True))
                return []
        except InvalidFileError:
            pass  # one of them is not even a subscriber; below it is found which
        for text, row in texts.items():
            try:
                alone = subscribers_from_document(self._document([text]))
            except InvalidFileError as error:
                problems += (Problem(row.file, row.line, problem.message) for problem in error.problems)
                continue
            problems += (Problem(row.file, row.line, one.message, one.warning) for one in alone.problems)
            problems += (Problem(row.file, row.line, unfit) for unfit in map(needs_hub, alone.subscribers) if unfit)
            self.subscribers.update(zip([text], alone.subscribers, strict=False))
        return problems

    def _document(self, texts: Iterable[str]) -> dict[str, Any]:
        declared = {} if self.schema is None else {"schema": subscribers_to_document((), self.schema)["schema"]}
        return {"version": VERSION, **declared, "subscribers": [json.loads(text) for text in texts]}


def _placed(row: TableRow) -> _Placed:
    values = {name: value for name, value in row.values.items() if value is not None}
    document = _document(row, values)
    name = values.get("id", document.get("id") if document else None)
    check_id("subscriber", name)
    if document is not None and document.setdefault("id", name) != name:
        raise InvalidSubscriptionError(
            f"{DOCUMENT}: its id is {shown(document['id'])}; expected {shown(name)}, the row's"
        )
    start, end = _time(values, ACTIVE_FROM, ALWAYS), _time(values, ACTIVE_UNTIL, NEVER)
    if start >= end:
        raise InvalidSubscriptionError(f"{ACTIVE_UNTIL}: {moment(end)} is not after {ACTIVE_FROM}, {moment(start)}")
    text = None if document is None else canonical(document)
    return _Placed(row, SubscriberId(str(name)), Revision(text, start, end, _sequence(values)))


def canonical(document: Mapping[str, Any]) -> str:
    """Return a document as the text that stands for it: equal documents have equal texts."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _document(row: TableRow, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the subscriber that a row describes; None where it says that there is none."""
    if DOCUMENT in row.values:
        given = values.get(DOCUMENT)
        if isinstance(given, str):
            given = parse_document(given, DocumentFormat.JSON, row.file).value
        if not isinstance(given, dict | None):
            raise InvalidSubscriptionError(
                f"{DOCUMENT}: {shown(given)} is not an object; expected a subscriber in JSON"
            )
        return None if given is None else dict(given)
    if "subscriptions" not in values:
        return None
    return {name: _without_nulls(value) for name, value in values.items() if name not in _OWN}


_OWN = frozenset((ACTIVE_FROM, ACTIVE_UNTIL, SEQUENCE))


def _without_nulls(value: Any) -> Any:
    """Return nested data without the nulls that a table has where a document has nothing."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _time(values: Mapping[str, Any], name: str, default: int) -> int:
    value = values.get(name)
    if value is None:
        return default
    try:
        time = parse_time(value, exact=True) if isinstance(value, str) else checked_value(value, name)
    except InvalidValueError as error:
        raise InvalidValueError(f"{name}: {error}" if isinstance(value, str) else str(error)) from None
    if not isinstance(time, datetime):
        raise InvalidValueError(f"{name}: {shown(value)} is not a time; expected {EXPECTED_TIME}")
    return microseconds(time)


def _sequence(values: Mapping[str, Any]) -> int:
    value = values.get(SEQUENCE, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_SEQUENCE:
        raise InvalidValueError(f"{SEQUENCE}: {shown(value)} is not a whole number from 0 to 2^63-1")
    return value


def _ties(placed: list[_Placed]) -> list[Problem]:
    """Return a problem for each row that says something else than another one which counts as much."""
    first: dict[tuple[int, int], _Placed] = {}
    problems = []
    for one in placed:
        other = first.setdefault((one.revision.sequence, one.revision.start), one)
        if other.revision != one.revision:
            problems.append(
                Problem(
                    one.row.file,
                    one.row.line,
                    f"subscriber {shown(one.id)}: {other.row.file}:{other.row.line} says something else from the same "
                    f"{ACTIVE_FROM} on with the same {SEQUENCE}, {one.revision.sequence}; expected a higher one on the "
                    "row that counts",
                )
            )
    return problems
