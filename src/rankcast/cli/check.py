"""`rankcast check`: every problem of subscriber and event files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rankcast.cli.output.streams import printable, write_json
from rankcast.cli.output.terminal import progress
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import InvalidFileError, Problem, counted, shown
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.storage.check_file import check_file, is_subscriber_file
from rankcast.storage.events.files import event_format, files_in
from rankcast.storage.subscribers.files import SUBSCRIBER_SUFFIXES
from rankcast.storage.text_files import is_folder


def check_files(files: Sequence[str], *, as_json: bool) -> int:
    """Run the command and return its exit code. Each file is checked once, however often it is named.

    Of a folder its event files are checked, and its subscriber files.
    """
    found: dict[str, list[Problem]] = {file: [] for named in files for file in _files(named)}
    schemas: list[Schema] = []
    advertised: dict[str, Advertisement] = {}
    subscribers: list[Subscriber] = []
    with progress("checking", total=len(found)) as bar:
        for file in bar.over(sorted(found, key=_has_subscribers, reverse=True)):
            schema = schemas[0] if len(schemas) == 1 else None
            checked = check_file(file, schema, advertised.values(), subscribers)
            found[file], declared, advertisements, more = checked
            subscribers += more
            schemas += [] if declared is None else [declared]
            for advertisement in advertisements:
                if advertisement.id in advertised:
                    message = f"another file has an advertisement {shown(advertisement.id)} already"
                    found[file].append(Problem(file, None, message))
                advertised[advertisement.id] = advertisement
    for file, problems in found.items():
        _report(file, problems, as_json=as_json)
    return 1 if any(not problem.warning for problems in found.values() for problem in problems) else 0


def _files(named: str) -> list[str]:
    """Return the files that a name stands for: itself, or what can be checked in a folder, if there is anything."""
    folder = Path(named)
    if not is_folder(folder):
        return [named]
    try:
        inside = files_in(folder)
    except InvalidFileError:
        return [named]  # `check_file` says what is wrong
    known = [file for file in inside if event_format(file) is not None or file.suffix.lower() in SUBSCRIBER_SUFFIXES]
    return list(map(str, known)) or [named]


def _has_subscribers(file: str) -> bool:
    try:
        return Path(file).suffix.lower() in SUBSCRIBER_SUFFIXES and is_subscriber_file(file)
    except InvalidFileError:
        return False  # it cannot be read, which `check_file` reports


def _report(file: str, problems: list[Problem], *, as_json: bool) -> None:
    for problem in problems:
        if as_json:
            severity = "warning" if problem.warning else "error"
            document = {"file": problem.file, "line": problem.line, "severity": severity, "message": problem.message}
            write_json(document)
        else:
            sys.stdout.write(printable(str(problem)) + "\n")
    if not as_json:
        warnings = sum(problem.warning for problem in problems)
        errors = len(problems) - warnings
        counts = [counted(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
        sys.stdout.write(f"{printable(file)}: {', '.join(counts) or 'ok'}\n")
