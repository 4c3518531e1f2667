"""YAML and JSON as one stream of tokens with line numbers, and the walk that gives each value its place.

JSON texts are parsed by the standard library, which is fast and forgets lines; their tokens are only needed to find the
line of something that is wrong. YAML is parsed from its tokens (libyaml's events): that is where anchors, aliases, tags
and merge keys are still visible and can be refused, and no recursion is involved however deep the text nests.
Cost: linear in the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import yaml

from rankcast.model.errors import shown
from rankcast.storage.text_files import invalid_file

MAX_DEPTH = 100
"""Nesting of lists and mappings. The shapes read here need ten levels; nested filter objects may take more."""

MAX_DIGITS = 400
"""Digits of a whole number, as far as reading goes; whether it fits its purpose is checked with its name."""

Path: TypeAlias = tuple[str | int, ...]


class Kind(Enum):
    """What a token does."""

    MAPPING = "{"
    LIST = "["
    END = "]"
    SCALAR = "scalar"


class Token(NamedTuple):
    """One token; `plain` tells a scalar without quotes, whose text may stand for a number, a bool or null."""

    kind: Kind
    line: int
    text: str = ""
    plain: bool = False


class Step(NamedTuple):
    """A value met on the walk: its key or index in the container, its token and the line to report for it."""

    key: str | int | None
    token: Token
    line: int


def walk(tokens: Iterator[Token], file: str) -> Iterator[Step]:
    """Pair values with their keys; END tokens pass through. Refuses duplicate keys and endless nesting."""
    keys: list[set[str] | None] = []  # of each open container: the keys met so far, None for a list
    at: list[str | int | None] = []  # of each open container: the key or index that the next value belongs to
    line = 1
    for token in tokens:
        if token.kind is Kind.END:
            if not keys:
                raise invalid_file(file, token.line, "a bracket is closed that was not opened")
            keys.pop()
            at.pop()
            yield Step(None, token, token.line)
            continue
        key: str | int | None = None
        line = token.line
        if keys and (known := keys[-1]) is not None:
            if at[-1] is None:
                at[-1] = _checked_key(token, known, file)
                key_line = token.line
                continue
            key, at[-1] = at[-1], None
            line = key_line
        elif keys:
            key = at[-1]
            at[-1] = key + 1 if isinstance(key, int) else 0
        yield Step(key, token, line)
        if token.kind is not Kind.SCALAR:
            if len(keys) == MAX_DEPTH:
                raise invalid_file(file, token.line, f"lists and mappings are nested more than {MAX_DEPTH} deep")
            keys.append(set() if token.kind is Kind.MAPPING else None)
            at.append(None if token.kind is Kind.MAPPING else 0)


def _checked_key(token: Token, known: set[str], file: str) -> str:
    if token.kind is not Kind.SCALAR:
        raise invalid_file(file, token.line, "a list or mapping cannot be a key; expected a text")
    if token.plain and token.text == "<<":
        raise invalid_file(file, token.line, "merge keys (<<) are not supported; write the entries out")
    if token.text in known:
        raise invalid_file(file, token.line, f"the key {shown(token.text)} occurs twice in one mapping")
    known.add(token.text)
    return token.text


def lines_of(steps: Iterator[Step], wanted: set[Path]) -> dict[Path, int]:
    """Return the lines of some paths: a mapping's entry is where its key is, an element of a list where it starts."""
    found: dict[Path, int] = {}
    path: list[str | int] = []
    for key, token, line in steps:
        if token.kind is Kind.END:
            if path:
                path.pop()
            continue
        if key is not None:
            path.append(key)
        here = tuple(path)
        if here in wanted:
            found[here] = line
            if len(found) == len(wanted):
                break
        if token.kind is Kind.SCALAR and key is not None:
            path.pop()
    return found


_JSON_TOKEN = re.compile(r'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s{}\[\],:"]++')
_JSON_KINDS = {"{": Kind.MAPPING, "[": Kind.LIST, "}": Kind.END, "]": Kind.END}


def json_tokens(text: str, file: str) -> Iterator[Token]:
    """Return the tokens of a JSON text; numbers that JSON or float64 does not have are refused."""
    line, counted = 1, 0
    for match in _JSON_TOKEN.finditer(text):
        start = match.start()
        line += text.count("\n", counted, start)
        counted = start
        found = match[0]
        kind = _JSON_KINDS.get(found, Kind.SCALAR)
        if kind is not Kind.SCALAR:
            yield Token(kind, line)
        elif found[0] == '"':
            yield Token(kind, line, json.loads(found) if "\\" in found else found[1:-1])
        else:
            _check_json_number(found, line, file)
            yield Token(kind, line, found, plain=True)


def _check_json_number(text: str, line: int, file: str) -> None:
    if text in ("NaN", "Infinity", "-Infinity"):
        raise invalid_file(file, line, f"{text} is not a JSON number")
    if text not in ("true", "false", "null"):
        try:
            _number(text, line, file)
        except ValueError:
            raise invalid_file(file, line, f"not JSON: {shown(text)} is not a value") from None


_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where PyYAML was built with it


def yaml_tokens(text: str, file: str) -> Iterator[Token]:
    """Return the tokens of a YAML text of one document; anchors, aliases and tags are refused."""
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
                yield Token(Kind.END, line)
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


def _yaml_token(event: yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent, line: int) -> Token:
    if isinstance(event, yaml.ScalarEvent):
        return Token(Kind.SCALAR, line, event.value, event.implicit[0])
    return Token(Kind.LIST if isinstance(event, yaml.SequenceStartEvent) else Kind.MAPPING, line)


_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_MARKS_NUMBER = frozenset("0123456789.+-")


def stands_for_itself(text: str) -> bool:
    """Whether a YAML text without quotes is read as that text: by the core schema of YAML 1.2 it is no other value."""
    return text not in _CONSTANTS and _NUMBER.fullmatch(text) is None


def yaml_value(token: Token, file: str) -> str | int | float | bool | None:
    """Return the value of a scalar by the core schema of YAML 1.2: `no`, `on`, `1:30` and dates are texts."""
    text = token.text
    if not token.plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _MARKS_NUMBER or _NUMBER.fullmatch(text) is None:
        return text
    return _number(text, token.line, file)


def _number(text: str, line: int, file: str) -> int | float:
    if len(text) > MAX_DIGITS:
        raise invalid_file(file, line, f"the number {shown(text)} has more than {MAX_DIGITS} digits")
    if text.startswith(("0o", "0x")):
        return int(text, 0)
    if _WHOLE.fullmatch(text):
        return int(text)
    value = math.inf if text.lstrip("+-").lower() in (".inf", ".nan") else float(text)
    if math.isinf(value):
        raise invalid_file(file, line, f"the number {shown(text)} is outside the range of float64")
    return value
