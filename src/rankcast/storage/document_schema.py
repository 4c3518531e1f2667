"""Documents against JSON Schemas: everything that does not have the described shape, and its line.

Every part of a schema has a title that completes the sentence "this is not ...". jsonschema-rs finds what is wrong;
what is said about it comes from the title and the document. JSON Schema takes 2.0 for an integer: where a number is
used as it was read, `whole`, a keyword of our own, refuses that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rankcast.lazily import module
from rankcast.model.errors import InvalidFileError, Problem, hint, shown
from rankcast.storage.documents import MAX_DEPTH, Document, DocumentPath

if TYPE_CHECKING:
    import jsonschema_rs
else:
    jsonschema_rs = module("jsonschema_rs")

Shape: TypeAlias = dict[str, Any]

MAX_UNKNOWN_KEYS = 20
"""Unknown keys of one mapping that are reported one by one: looking for the key that was meant takes its time."""


class Finding(NamedTuple):
    """Something to report about one place of a document."""

    path: DocumentPath
    message: str
    warning: bool = False


class _Whole:
    """The keyword `whole`: a number is written without a fraction."""

    def __init__(self, *_schema: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        """Raise for a float, whatever its value."""
        if isinstance(instance, float):
            raise TypeError


class DocumentSchema:
    """A JSON Schema, ready to say what is wrong with plain data."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._validator = jsonschema_rs.validator_for(shape, keywords={"whole": _Whole})

    def findings(self, data: Any) -> list[Finding]:
        """Return everything that does not have the shape, each once."""
        try:
            errors = list(self._validator.iter_errors(data))
        except ValueError:  # something that JSON does not have, such as a key that is no text
            errors = list(self._validator.iter_errors(_as_json(data)))
        return list(dict.fromkeys(finding for error in errors for finding in self._explain(error, data)))

    def _explain(self, error: jsonschema_rs.ValidationError, data: Any, expected: str = "") -> Iterator[Finding]:
        """Yield what is there and what was expected; of an alternative without a title that is said by the whole."""
        path, value = _looked_up(data, error.instance_path)
        *places, keyword = error.schema_path
        part: Any = self.shape
        for place in places:
            part = part[place]
        if keyword == "required":
            missing = [repr(name) for name in part["required"] if name not in value]
            yield Finding(path, f"missing: {', '.join(missing)}")
        elif keyword == "additionalProperties":
            yield from _unknown_keys(value, list(part["properties"]), path)
        elif inner := _within_the_meant(error):
            for found in inner:
                yield from self._explain(found, data, part.get("title", expected))
        else:
            yield Finding(path, f"{shown(value)} is not {part.get('title', expected)}")


def _within_the_meant(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Return what is wrong inside the one alternative that a mapping or list was meant to be; nothing if none was."""
    kind = error.kind
    if not isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf) or not isinstance(error.instance, dict | list):
        return []
    meant = [found for found in kind.context if not any(_is_another_kind(inner, error) for inner in found)]
    return meant[0] if len(meant) == 1 else []


def _is_another_kind(found: jsonschema_rs.ValidationError, error: jsonschema_rs.ValidationError) -> bool:
    """Whether a value fails an alternative as a whole: that is for another kind of values."""
    if found.instance_path != error.instance_path:
        return False
    return found.schema_path[-1] in {"type", "enum", "anyOf"} and not _within_the_meant(found)


def _unknown_keys(mapping: dict[Any, Any], known: list[str], path: DocumentPath) -> Iterator[Finding]:
    unknown = [name for name in mapping if name not in known]
    for name in unknown[:MAX_UNKNOWN_KEYS]:
        yield Finding((*path, name), f"unknown key {shown(name)}; {hint(name, known)}")
    if len(unknown) > MAX_UNKNOWN_KEYS:
        yield Finding(path, f"unknown keys: {len(unknown) - MAX_UNKNOWN_KEYS:,} more")


def _looked_up(data: Any, path: Iterable[str | int]) -> tuple[DocumentPath, Any]:
    """Return what is at a path, and the path with the keys that the data has where `_as_json` gave it others."""
    keys: list[str | int] = []
    for key in path:
        is_given = isinstance(data, dict) and key not in data
        keys.append(next(own for own in data if _as_text(own) == key) if is_given else key)
        data = data[keys[-1]]
    return tuple(keys), data


def _as_json(data: Any, depth: int = MAX_DEPTH) -> Any:
    """Return data of the caller's own making as JSON could have it; None, which no shape allows, is for the rest."""
    if depth and isinstance(data, dict):
        return {_as_text(key): _as_json(inner, depth - 1) for key, inner in data.items()}
    if depth and isinstance(data, list | tuple):
        return [_as_json(inner, depth - 1) for inner in data]
    if isinstance(data, str):
        return _as_text(data)
    return next((kind(data) for kind in (bool, int, float) if isinstance(data, kind)), None)


def _as_text(key: object) -> str:
    """Return a text that UTF-8 can hold: half a surrogate pair is a question mark."""
    return str(key).encode("utf-8", "replace").decode()


NAME: Shape = {"title": "a name", "type": "string", "minLength": 1}
NUMBER: Shape = {"title": "a number", "type": "number"}
_LARGEST = sys.float_info.max
AMOUNT: Shape = {
    "title": "a number of at least 0",
    "type": "number",
    "minimum": 0,
    "allOf": [{"title": f"a number up to {_LARGEST:g}", "maximum": _LARGEST}],
}
COUNT: Shape = {"title": "a whole number of at least 1", "type": "integer", "whole": True, "minimum": 1}
PLACE: Shape = {"title": "a whole number of at least 0", "type": "integer", "whole": True, "minimum": 0}
POINT: Shape = {"title": "a list of numbers", "type": "array", "minItems": 1, "items": NUMBER}
RANGE: Shape = {
    "title": "a lowest and a highest value",
    "type": "array",
    "minItems": 2,
    "maxItems": 2,
    "items": NUMBER,
}


def mapping(required: list[str], **properties: object) -> Shape:
    """Return the shape of a mapping with these keys and no others."""
    return {
        "title": "a mapping",
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def named(items: Shape, title: str) -> Shape:
    """Return the shape of a mapping from any names to items of one shape."""
    return {"title": title, "type": "object", "minProperties": 1, "additionalProperties": items}


def listed(items: Shape, title: str, least: int = 0) -> Shape:
    """Return the shape of a list."""
    return {"title": title, "type": "array", "minItems": least, "items": items}


def check_shape(document: Document, shape: Shape) -> None:
    """Raise InvalidFileError with everything in which a document is not of a shape."""
    if found := DocumentSchema(shape).findings(document.value):
        raise InvalidFileError(locate(document, found))


def refuse(document: Document, wrong: Mapping[DocumentPath, str]) -> None:
    """Raise InvalidFileError with what is wrong at each place, and its line, if anything is."""
    if wrong:
        raise InvalidFileError(locate(document, starmap(Finding, wrong.items())))


def locate(document: Document, findings: Iterable[Finding]) -> list[Problem]:
    """Return findings as problems with their lines, in the order of the document."""
    found = list(findings)
    lines = document.lines(finding.path for finding in found)
    problems = [Problem(document.file, lines[finding.path], finding.message, finding.warning) for finding in found]
    return sorted(problems, key=lambda problem: problem.line or 0)
