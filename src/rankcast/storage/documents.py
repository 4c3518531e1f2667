"""YAML and JSON documents: plain data, and the line of any part of it on demand.

Both formats give the same data for the same content: null, bools, numbers, texts, lists, and mappings with texts as
keys. Duplicate keys, numbers that float64 does not have, and more than MAX_DEPTH levels are refused in both. Lines are
found by a second pass over the text, which only a document with problems pays for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

import yaml

from rankcast.model.errors import InvalidFileError
from rankcast.storage.text_files import invalid_file
from rankcast.storage.tokens import (
    MAX_DEPTH,
    MAX_DIGITS,
    Kind,
    Path,
    Step,
    json_tokens,
    lines_of,
    stands_for_itself,
    walk,
    yaml_tokens,
    yaml_value,
)


class DocumentFormat(Enum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the text it came from."""

    value: Any
    file: str
    format: DocumentFormat
    text: str = field(repr=False)

    def lines(self, paths: Iterable[Path]) -> dict[Path, int]:
        """Return the line of each path or, where the document does not have the path, of what would contain it."""
        asked = set(paths)
        if not asked:
            return {}
        wanted = {path[:length] for path in asked for length in range(len(path) + 1)}
        found = lines_of(_steps(self.text, self.format, self.file), wanted)
        return {path: _nearest(path, found) for path in asked}


def _nearest(path: Path, found: dict[Path, int]) -> int:
    return next((found[path[:length]] for length in range(len(path), -1, -1) if path[:length] in found), 1)


def _steps(text: str, format: DocumentFormat, file: str) -> Iterator[Step]:  # noqa: A002
    return walk((json_tokens if format is DocumentFormat.JSON else yaml_tokens)(text, file), file)


def parse_document(text: str, format: DocumentFormat, file: str) -> Document:  # noqa: A002 (what it is called)
    """Parse a text; raise InvalidFileError, with the line, where it does not follow its format.

    >>> parse_document("version: 1\\nanswer: no", DocumentFormat.YAML, "x.yaml").value
    {'version': 1, 'answer': 'no'}
    """
    parse = _parsed_json if format is DocumentFormat.JSON else _parsed_yaml
    return Document(parse(text, file), file, format, text)


class _RefusedError(Exception):
    """JSON that the standard library reads and we do not; a walk over the tokens finds where."""


def _parsed_json(text: str, file: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise invalid_file(file, error.lineno, f"not JSON: {error.msg} at column {error.colno}") from None
    except (_RefusedError, RecursionError):
        raise _refusal(text, file) from None
    if _is_deeper_than(value, MAX_DEPTH):
        raise _refusal(text, file)
    return value


def _refusal(text: str, file: str) -> InvalidFileError:
    try:
        for _ in _steps(text, DocumentFormat.JSON, file):
            pass
    except InvalidFileError as error:
        return error
    return invalid_file(file, None, "not usable JSON: lists and objects are nested too deep")


def _refuse(_name: str) -> NoReturn:
    raise _RefusedError


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")) or len(text) > MAX_DIGITS:
        raise _RefusedError
    return value


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _RefusedError
    return made


def _is_deeper_than(value: object, depth: int) -> bool:
    """Whether containers nest deeper; level by level, because data that is too deep must not be recursed into."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(depth):
        level = [
            inner
            for container in level
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _parsed_yaml(text: str, file: str) -> Any:
    root: list[Any] = []
    open_containers: list[Any] = [root]
    for key, token, _ in walk(yaml_tokens(text, file), file):
        if token.kind is Kind.END:
            open_containers.pop()
            continue
        value: Any = {} if token.kind is Kind.MAPPING else [] if token.kind is Kind.LIST else yaml_value(token, file)
        container = open_containers[-1]
        if isinstance(container, dict):
            container[key] = value
        else:
            container.append(value)
        if token.kind is not Kind.SCALAR:
            open_containers.append(value)
    if not root:
        raise invalid_file(file, None, "the file is empty")
    return root[0]


def dumps_document(document: Any, format: DocumentFormat) -> str:  # noqa: A002
    """Return plain data as text that `parse_document` reads as the same data."""
    if format is DocumentFormat.JSON:
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE)
    return text


_ONE_LINE = 1_000_000
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]  # whichever of the two PyYAML was built with
    """Quotes the texts that YAML 1.2 would read as a number, a bool or null; PyYAML itself knows YAML 1.1."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts out instead of referring to the first of them."""
        return True


def _represent_text(dumper: Any, text: str) -> yaml.ScalarNode:
    style = None if stands_for_itself(text) else '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)
