"""YAML and JSON documents: plain data, and the line of any part of it on demand.

Both formats give the same data for the same content: null, bools, numbers, texts, lists, and mappings with texts as
keys. Duplicate keys, numbers that float64 does not have, and more than MAX_DEPTH levels are refused in both.

JSON is parsed by the standard library, which is fast and forgets lines. YAML is parsed from its tokens, libyaml's
events: that is where anchors, aliases, tags and merge keys are still visible and can be refused, and no recursion is
involved however deep the text nests. Lines are found by a second pass over the tokens of either format, which only a
document with problems pays for. JSON has tokens of its own, because it is not quite a part of YAML: libyaml refuses
escaped surrogate pairs, keys of more than 1,024 characters and a line end before a colon, and counts U+2028 as a line.
Cost: linear in the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from rankcast.model.cloudevents import refuse_number, strict_json
from rankcast.model.errors import InvalidEventError, InvalidFileError, shown
from rankcast.storage.text_files import invalid_file, read_text

MAX_DEPTH = 100
"""Nesting of lists and mappings. The shapes read here need ten levels; nested filter objects may take more."""

MAX_DIGITS = 400
"""Digits of a whole number, as far as reading goes; whether it fits its purpose is checked with its name."""

DocumentPath: TypeAlias = tuple[str | int, ...]


class DocumentFormat(Enum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the text it came from; data that came from no text has no lines."""

    value: Any
    file: str
    format: DocumentFormat = DocumentFormat.JSON
    text: str | None = field(default=None, repr=False)

    def lines(self, paths: Iterable[DocumentPath]) -> dict[DocumentPath, int | None]:
        """Return the line of each path or, where the document does not have the path, of what would contain it."""
        asked = set(paths)
        if not asked or self.text is None:
            return dict.fromkeys(asked)
        wanted = {path[:length] for path in asked for length in range(len(path) + 1)}
        found: dict[DocumentPath, int] = {}
        for path, _, line in _walk(self.text, self.format, self.file, keep_unusable=True):
            here = tuple(path)
            if here in wanted:
                found.setdefault(here, line)
                if len(found) == len(wanted):
                    break
        return {path: _nearest(path, found) for path in asked}


def _nearest(path: DocumentPath, found: dict[DocumentPath, int]) -> int:
    return next((found[path[:length]] for length in range(len(path), -1, -1) if path[:length] in found), 1)


@dataclass(frozen=True, slots=True)
class UnusableNumber:
    """A number that float64 does not have; no schema allows it, so that it is reported where it is."""

    text: str

    def __repr__(self) -> str:
        return self.text


def parse_document(
    text: str,
    format: DocumentFormat,  # noqa: A002 (what it is called)
    file: str,
    *,
    keep_unusable: bool = False,
) -> Document:
    """Parse a text; raise InvalidFileError, with the line, where it does not follow its format.

    A number that float64 does not have is an UnusableNumber if these are kept, else it is an error as well.

    >>> parse_document("version: 1\\nanswer: no", DocumentFormat.YAML, "x.yaml").value
    {'version': 1, 'answer': 'no'}
    """
    parse = _parsed_json if format is DocumentFormat.JSON else _parsed_yaml
    return Document(parse(text, file, keep_unusable=keep_unusable), file, format, text)


def load_document(path: Path) -> Document:
    """Read a file that is JSON if its name ends so, and else YAML; raise InvalidFileError where it is neither."""
    format = DocumentFormat.JSON if path.suffix == ".json" else DocumentFormat.YAML  # noqa: A001 (what it is called)
    return parse_document(read_text(path), format, str(path))


def first_json_keys(start: str) -> set[str]:
    """Return the keys of the object that a JSON text starts with, as far as they can be read."""
    keys: set[str] = set()
    try:
        for path, token, _ in _walk(start, DocumentFormat.JSON, ""):
            if not path and token.kind is not _Kind.MAPPING:  # the end of the object, or no object
                break
            keys.update(key for key in path[:1] if isinstance(key, str))
    except (InvalidFileError, ValueError):  # what is wrong with the text is found when it is read in earnest
        pass
    return keys


def _parsed_json(text: str, file: str, *, keep_unusable: bool) -> Any:
    try:
        value = strict_json(text, UnusableNumber if keep_unusable else refuse_number)
    except json.JSONDecodeError as error:
        raise invalid_file(file, error.lineno, f"not JSON: {error.msg} at column {error.colno}") from None
    except (InvalidEventError, RecursionError):
        raise _refusal(text, file) from None
    if _is_deeper_than(value, MAX_DEPTH):
        raise _refusal(text, file)
    return value


def _refusal(text: str, file: str) -> InvalidFileError:
    """Return the error of JSON that is none of ours, with the line, which the parser does not tell."""
    try:
        for _ in _walk(text, DocumentFormat.JSON, file):
            pass
    except InvalidFileError as error:
        return error
    return invalid_file(file, None, "not usable JSON: lists and objects are nested too deep")


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


def _parsed_yaml(text: str, file: str, *, keep_unusable: bool) -> Any:
    root: list[Any] = []
    open_containers: list[Any] = [root]
    for path, token, _ in _walk(text, DocumentFormat.YAML, file):
        if token.kind is _Kind.END:
            open_containers.pop()
            continue
        value: Any = (
            {}
            if token.kind is _Kind.MAPPING
            else []
            if token.kind is _Kind.LIST
            else _yaml_value(token, file, keep_unusable=keep_unusable)
        )
        container = open_containers[-1]
        if isinstance(container, dict):
            container[path[-1]] = value
        else:
            container.append(value)
        if token.kind is not _Kind.SCALAR:
            open_containers.append(value)
    if not root:
        raise invalid_file(file, None, "the file is empty")
    return root[0]


class _Kind(Enum):
    """What a token does."""

    MAPPING = "{"
    LIST = "["
    END = "]"
    SCALAR = "scalar"


class _Token(NamedTuple):
    """One token; `plain` tells a scalar without quotes, whose text may stand for a number, a bool or null."""

    kind: _Kind
    line: int
    text: str = ""
    plain: bool = False


def _walk(
    text: str,
    format: DocumentFormat,  # noqa: A002
    file: str,
    *,
    keep_unusable: bool = False,
) -> Iterator[tuple[list[Any], _Token, int]]:
    """Yield each value, and the end of each list and mapping, with its path and its line.

    The path is one list that changes on the way. The line of a mapping's entry is that of its key. Refuses duplicate
    keys and endless nesting.
    """
    path: list[Any] = []  # of each open container: the key or index of its value; None where a key comes next
    keys: list[set[str] | None] = []  # of each open container: the keys met so far; None for a list
    key_line = 1
    is_json = format is DocumentFormat.JSON
    for token in _json_tokens(text, file, keep_unusable=keep_unusable) if is_json else _yaml_tokens(text, file):
        known = keys[-1] if keys else None
        if token.kind is _Kind.END:
            if not keys:
                raise invalid_file(file, token.line, "a bracket is closed that was not opened")
            keys.pop()
            path.pop()
            known = keys[-1] if keys else None
            yield path, token, token.line
        elif known is not None and path[-1] is None:
            path[-1] = _checked_key(token, known, file)
            key_line = token.line
            continue
        else:
            if keys and known is None:
                path[-1] += 1
            yield path, token, token.line if known is None else key_line
            if token.kind is not _Kind.SCALAR:
                if len(keys) == MAX_DEPTH:
                    raise invalid_file(file, token.line, f"lists and mappings are nested more than {MAX_DEPTH} deep")
                keys.append(set() if token.kind is _Kind.MAPPING else None)
                path.append(None if token.kind is _Kind.MAPPING else -1)
                continue
        if known is not None:  # an entry of a mapping is complete
            path[-1] = None


def _checked_key(token: _Token, known: set[str], file: str) -> str:
    if token.kind is not _Kind.SCALAR:
        raise invalid_file(file, token.line, "a list or mapping cannot be a key; expected a text")
    if token.plain and token.text == "<<":
        raise invalid_file(file, token.line, "merge keys (<<) are not supported; write the entries out")
    if token.text in known:
        raise invalid_file(file, token.line, f"the key {shown(token.text)} occurs twice in one mapping")
    known.add(token.text)
    return token.text


_JSON_TOKEN = re.compile(r'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s{}\[\],:"]++')
_JSON_KINDS = {"{": _Kind.MAPPING, "[": _Kind.LIST, "}": _Kind.END, "]": _Kind.END}


def _json_tokens(text: str, file: str, *, keep_unusable: bool) -> Iterator[_Token]:
    """Yield the tokens of a JSON text; numbers that JSON does not have are refused."""
    line, counted = 1, 0
    for match in _JSON_TOKEN.finditer(text):
        start = match.start()
        line += text.count("\n", counted, start)
        counted = start
        found = match[0]
        kind = _JSON_KINDS.get(found, _Kind.SCALAR)
        if kind is not _Kind.SCALAR:
            yield _Token(kind, line)
        elif found[0] == '"':
            yield _Token(kind, line, json.loads(found) if "\\" in found else found[1:-1])
        else:
            if found not in ("true", "false", "null"):
                try:
                    _number(found, line, file, keep_unusable=keep_unusable)
                except ValueError:
                    raise invalid_file(file, line, f"not JSON: {shown(found)} is not a value") from None
            yield _Token(kind, line, found, plain=True)


_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where PyYAML was built with it


def _yaml_tokens(text: str, file: str) -> Iterator[_Token]:
    """Yield the tokens of a YAML text of one document; anchors, aliases and tags are refused."""
    documents = 0
    try:
        for event in yaml.parse(text, Loader=_YAML_LOADER):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent):
                if event.tag is not None:
                    raise invalid_file(file, line, f"the tag {shown(event.tag)} is not supported; leave it out")
                if event.anchor is not None:
                    raise invalid_file(file, line, f"the anchor &{event.anchor} is not supported; leave it out")
                yield _yaml_token(event, line)
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                yield _Token(_Kind.END, line)
            elif isinstance(event, yaml.AliasEvent):
                raise invalid_file(file, line, f"the alias *{event.anchor} is not supported; write the value out")
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise invalid_file(file, line, "a second document starts here; expected one document in the file")
    except yaml.MarkedYAMLError as error:
        raise invalid_file(file, *_yaml_syntax(error, text)) from None
    except yaml.reader.ReaderError as error:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        at = text.count("\n", 0, bad.start()) + 1 if bad else None
        character = f" {bad[0]!r}" if bad else ""
        raise invalid_file(file, at, f"not YAML: the character{character}: {error.reason}") from None


_YAML_HINTS = {
    "mapping values are not allowed": "; a text with ': ' in it, such as a filter, needs quotes",
    "cannot start any token": "; indent with spaces, not tabs, and put quotes around a text that starts with % @ or `",
}


def _yaml_syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[int | None, str]:
    """Return the line and the message of a syntax error; at the end of the text libyaml counts a line too many."""
    mark = error.problem_mark or error.context_mark
    start = f" that starts on line {error.context_mark.line + 1}" if error.context and error.context_mark else ""
    message = ": ".join(filter(None, (error.context and error.context + start, error.problem)))
    message += next((hint for problem, hint in _YAML_HINTS.items() if problem in (error.problem or "")), "")
    return min(mark.line, text.count("\n")) + 1 if mark else None, f"not YAML: {message}"


def _yaml_token(event: yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent, line: int) -> _Token:
    if isinstance(event, yaml.ScalarEvent):
        return _Token(_Kind.SCALAR, line, event.value, event.implicit[0])
    return _Token(_Kind.LIST if isinstance(event, yaml.SequenceStartEvent) else _Kind.MAPPING, line)


_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_NUMBER = re.compile(
    rf"{_WHOLE.pattern}"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_MARKS_NUMBER = frozenset("0123456789.+-")


def _stands_for_itself(text: str) -> bool:
    """Whether a YAML text without quotes is read as that text: by the core schema of YAML 1.2 it is no other value."""
    return text not in _CONSTANTS and _NUMBER.fullmatch(text) is None


def _yaml_value(token: _Token, file: str, *, keep_unusable: bool) -> str | int | float | bool | UnusableNumber | None:
    """Return the value of a scalar by the core schema of YAML 1.2: `no`, `on`, `1:30` and dates are texts."""
    text = token.text
    if not token.plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _MARKS_NUMBER or _NUMBER.fullmatch(text) is None:
        return text
    return _number(text, token.line, file, keep_unusable=keep_unusable)


def _number(text: str, line: int, file: str, *, keep_unusable: bool) -> int | float | UnusableNumber:
    if _WHOLE.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise invalid_file(file, line, f"the number {shown(text)} has more than {MAX_DIGITS} digits")
        return int(text, 0 if text.startswith(("0o", "0x")) else 10)
    value = math.inf if text.lstrip("+-").lower() in (".inf", ".nan") else float(text)
    if not math.isfinite(value) and keep_unusable:
        return UnusableNumber(text)
    if not math.isfinite(value):
        raise invalid_file(file, line, f"the number {shown(text)} is outside the range of float64")
    return value


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
    style = None if _stands_for_itself(text) else '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)
