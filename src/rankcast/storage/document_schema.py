"""The shapes of small documents as JSON Schemas, and errors that name the line.

Every part of a schema has a title that completes the sentence "this is not ...". Whole numbers are written as such: 2.0
is none, as what counts or points at something is used as it was read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from rankcast.model.errors import InvalidFileError, Problem
from rankcast.storage.documents import Document
from rankcast.storage.subscribers.schema import Finding, error_findings

Shape: TypeAlias = dict[str, Any]

NAME: Shape = {"title": "a name", "type": "string", "minLength": 1}
NUMBER: Shape = {"title": "a number", "type": "number"}
_LARGEST = sys.float_info.max
AMOUNT: Shape = {
    "title": "a number of at least 0",
    "type": "number",
    "minimum": 0,
    "allOf": [{"title": f"a number up to {_LARGEST:g}", "maximum": _LARGEST}],
}
COUNT: Shape = {"title": "a whole number of at least 1", "type": "integer", "minimum": 1}
PLACE: Shape = {"title": "a whole number of at least 0", "type": "integer", "minimum": 0}
POINT: Shape = {"title": "a list of numbers", "type": "array", "minItems": 1, "items": NUMBER}
RANGE: Shape = {
    "title": "a lowest and a highest value",
    "type": "array",
    "minItems": 2,
    "maxItems": 2,
    "items": NUMBER,
}

_Validator = extend(  # type: ignore[no-untyped-call]  # jsonschema types all but this function
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


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
    errors = _Validator(shape).iter_errors(document.value)
    refuse(document, (found for error in errors for found in error_findings(error, tuple(error.absolute_path))))


def refuse(document: Document, findings: Iterable[Finding] | Mapping[tuple[str | int, ...], str]) -> None:
    """Raise InvalidFileError with the lines of all findings, if there are any."""
    if isinstance(findings, Mapping):
        findings = (Finding(path, message) for path, message in findings.items())
    found = list(dict.fromkeys(findings))
    if found:
        lines = document.lines(one.path for one in found)
        problems = [Problem(document.file, lines[one.path], one.message) for one in found]
        raise InvalidFileError(sorted(problems, key=lambda one: one.line or 0))
