"""Everything that is wrong with one file, whichever kind it is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rankcast.model.advertisements import Advertisement, Advertisements
from rankcast.model.errors import InvalidFileError, Problem
from rankcast.model.schema import Schema
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


def check_file(
    path: str | os.PathLike[str], schema: Schema | None = None, advertisements: Iterable[Advertisement] = ()
) -> CheckedFile:
    """Check a subscriber file or event file; a file that is well has no problems.

    With a schema or advertisements, events are checked against these too. A folder is no file: name those in it.
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
            return CheckedFile(list(loaded.problems), loaded.schema, loaded.advertisements)
        given = admitted(read_events(path, schema), Advertisements(advertisements), str(path))
        problems += (item for item in given if isinstance(item, Problem))
    except InvalidFileError as error:
        problems += error.problems
    return CheckedFile(problems)


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
