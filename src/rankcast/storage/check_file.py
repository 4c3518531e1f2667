"""Everything that is wrong with one file, whichever kind it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rankcast.language.printer import format_constraint
from rankcast.matching.explain import reason
from rankcast.matching.naive import Evaluation, holds
from rankcast.model.advertisements import Advertisement, Advertisements
from rankcast.model.errors import InvalidFileError, Problem, shown
from rankcast.model.events import Event
from rankcast.model.expressions import Constraint, Operator, leaves
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.storage.documents import first_json_keys
from rankcast.storage.events.files import EVENT_SUFFIXES, EventFormat, event_format, files_in, read_events
from rankcast.storage.subscribers.files import SUBSCRIBER_SUFFIXES, admitted, load_subscribers
from rankcast.storage.text_files import DamagedError, check_plain, is_folder, open_bytes, read_bytes, unreadable

_SUBSCRIBER_KEYS = frozenset(("$schema", "version", "schema", "subscribers", "advertisements"))
_HEAD_BYTES = 64 * 1024
"""How much of a JSON file is looked at to tell which kind it is: its first keys are there."""


class CheckedFile(NamedTuple):
    """Every problem of a file in the order of the file, and what a subscriber file declares and advertises."""

    problems: list[Problem]
    schema: Schema | None = None
    advertisements: tuple[Advertisement, ...] = ()
    subscribers: tuple[Subscriber, ...] = ()


def check_file(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    advertisements: Iterable[Advertisement] = (),
    subscribers: Iterable[Subscriber] = (),
) -> CheckedFile:
    """Check a subscriber file or event file; a file that is well has no problems.

    With a schema or advertisements, events are checked against these too; with subscribers, there is a warning where
    a constraint can never hold because the events have lists there. A folder is no file: name those in it.
    """
    path = Path(path)
    problems: list[Problem] = []
    try:
        if is_folder(path):
            files_in(path)
            message = "a folder; expected a subscriber or event file, or a folder of them"
            return CheckedFile([Problem(str(path), None, message)])
        if event_format(path) is None and path.suffix.lower() not in SUBSCRIBER_SUFFIXES:
            known = ", ".join(sorted({*SUBSCRIBER_SUFFIXES, *EVENT_SUFFIXES}))
            message = f"the suffix {path.suffix!r} is unknown; expected one of {known}"
            return CheckedFile([Problem(str(path), None, message)])
        if is_subscriber_file(path):
            loaded = load_subscribers(path)
            return CheckedFile(list(loaded.problems), loaded.schema, loaded.advertisements, loaded.subscribers)
        given = admitted(read_events(path, schema), Advertisements(advertisements), str(path))
        asked = _constraints(subscribers)
        for item in given:
            problems += [item] if isinstance(item, Problem) else _blind(item, asked, str(path))
    except InvalidFileError as error:
        problems += error.problems
    return CheckedFile(problems)


_Asked: TypeAlias = dict[str, dict[Constraint, Subscriber]]
"""The constraints of filters by their attribute, each with a subscriber who has it."""


def _constraints(subscribers: Iterable[Subscriber]) -> _Asked:
    found: _Asked = {}
    for subscriber in subscribers:
        for subscription in subscriber.subscriptions:
            for leaf in leaves(subscription.filter.expression):
                if isinstance(leaf, Constraint) and leaf.operator is not Operator.EXISTS:
                    found.setdefault(leaf.attribute, {}).setdefault(leaf, subscriber)
    return found


def _blind(event: Event, asked: _Asked, file: str) -> Iterator[Problem]:
    """Yield warnings of constraints that are unknown for a list of the event; each is told once, and then left out."""
    for name in asked.keys() & event.attributes.keys():
        value = event.attributes[name]
        if not isinstance(value, tuple):
            continue
        for constraint, subscriber in list(asked[name].items()):
            if holds(constraint, value) is None:
                del asked[name][constraint]
                what = f"{format_constraint(constraint)} of subscriber {shown(subscriber.id)}"
                seen = reason(Evaluation(constraint, None, value))
                message = f"event {shown(event.id)}: {what} is unknown for a list, and never holds: {seen}"
                yield Problem(file, None, message, warning=True)


def is_subscriber_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds subscribers rather than events.

    The suffix says so, but for .json, which both may have: there, an object that starts with keys of the subscriber
    shape only is one. Raises InvalidFileError when the file cannot be read.
    """
    path = Path(path)
    found = event_format(path)
    if found is not EventFormat.JSON or path.suffix.lower() == ".gz":
        return found is None
    check_plain(path)
    try:
        with open_bytes(path) as stream:
            head = read_bytes(stream, _HEAD_BYTES).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise unreadable(path, error) from None
    except DamagedError:
        return False
    keys = first_json_keys(head)
    return bool(keys) and keys <= _SUBSCRIBER_KEYS
