"""A JSON Schema compiled into functions that say yes or no, several times faster than explaining why.

Knows the keywords that the schemas of this package use and refuses any other, so that a schema can never say more than
is tested. Values are plain data as documents give it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Test: TypeAlias = Callable[[Any], bool]
Tests: TypeAlias = Mapping[str, Test]
SchemaPart: TypeAlias = Mapping[str, Any] | bool

_ANNOTATIONS = frozenset(("$schema", "$id", "$defs", "title", "description", "default", "then"))
_REFERENCE = "#/$defs/"


def compiled(schema: Mapping[str, Any]) -> tuple[Test, Tests]:
    """Return the test of a schema and those of its definitions, by name.

    >>> small = compiled({"type": "integer", "minimum": 1})[0]
    >>> small(3), small(0), small(True), small("3")
    (True, False, False, False)
    """
    definitions: dict[str, Test] = {}
    for name, part in schema.get("$defs", {}).items():
        definitions[name] = _test(part, definitions)
    return _test(schema, definitions), definitions


def _test(schema: SchemaPart, definitions: Tests) -> Test:
    if isinstance(schema, bool):
        return lambda _: schema
    tests = [
        _KEYWORDS[keyword](value, schema, definitions)
        for keyword, value in schema.items()
        if keyword not in _ANNOTATIONS
    ]
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _reference(target: str, _schema: Any, definitions: Tests) -> Test:
    name = target.removeprefix(_REFERENCE)

    def test(value: Any) -> bool:
        return definitions[name](value)  # looked up late: definitions may refer to later ones

    return test


_TYPES: Mapping[str, Test] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
}


def _type(names: str | list[str], _schema: Any, _definitions: Tests) -> Test:
    if isinstance(names, str):
        return _TYPES[names]
    tests = [_TYPES[name] for name in names]
    return lambda value: any(test(value) for test in tests)


def _properties(parts: Mapping[str, SchemaPart], _schema: Any, definitions: Tests) -> Test:
    tests = {name: _test(part, definitions) for name, part in parts.items()}
    return lambda value: (
        not isinstance(value, dict) or all(tests[name](inner) for name, inner in value.items() if name in tests)
    )


def _required(names: list[str], _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not isinstance(value, dict) or all(name in value for name in names)


def _additional(part: SchemaPart, schema: Mapping[str, Any], definitions: Tests) -> Test:
    known = frozenset(schema.get("properties", ()))
    test = _test(part, definitions)
    return lambda value: (
        not isinstance(value, dict) or all(test(inner) for name, inner in value.items() if name not in known)
    )


def _items(part: SchemaPart, _schema: Any, definitions: Tests) -> Test:
    test = _test(part, definitions)
    return lambda value: not isinstance(value, list) or all(map(test, value))


def _constant(constant: str | int, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not isinstance(value, bool) and bool(value == constant)


def _enum(constants: list[str], _schema: Any, _definitions: Tests) -> Test:
    return lambda value: isinstance(value, str) and value in constants


def _minimum(bound: float, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not _TYPES["number"](value) or not value < bound


def _exclusive_minimum(bound: float, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not _TYPES["number"](value) or not value <= bound


def _maximum(bound: float, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not _TYPES["number"](value) or not value > bound


def _min_length(bound: int, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not isinstance(value, str) or len(value) >= bound


def _max_length(bound: int, _schema: Any, _definitions: Tests) -> Test:
    return lambda value: not isinstance(value, str) or len(value) <= bound


def _pattern(text: str, _schema: Any, _definitions: Tests) -> Test:
    search = re.compile(text).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _any_of(parts: list[SchemaPart], _schema: Any, definitions: Tests) -> Test:
    tests = [_test(part, definitions) for part in parts]
    return lambda value: any(test(value) for test in tests)


def _all_of(parts: list[SchemaPart], _schema: Any, definitions: Tests) -> Test:
    tests = [_test(part, definitions) for part in parts]
    return lambda value: all(test(value) for test in tests)


def _if(part: SchemaPart, schema: Mapping[str, Any], definitions: Tests) -> Test:
    condition, then = _test(part, definitions), _test(schema["then"], definitions)
    return lambda value: not condition(value) or then(value)


_KEYWORDS: Mapping[str, Callable[[Any, Mapping[str, Any], Tests], Test]] = {
    "$ref": _reference,
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "const": _constant,
    "enum": _enum,
    "minimum": _minimum,
    "exclusiveMinimum": _exclusive_minimum,
    "maximum": _maximum,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "anyOf": _any_of,
    "allOf": _all_of,
    "if": _if,
}
