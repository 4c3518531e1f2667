"""The filter dialects of the CloudEvents Subscriptions API, from parsed JSON: exact, prefix, suffix, all, any, not.

There a filter is true or false, never unknown: a missing attribute makes `exact`, `prefix` and `suffix` false, and the
`not` of that true. So `{"exact": {"a": "x"}}` is read as `exists a and a = 'x'`, whose negation is
`not exists a or a != 'x'`. An attribute that is there but is no string stays unknown, as everywhere in rankcast, unless
a schema declares it: then an `exact` text is read as a value of the declared type (time, int or bool). `time` and
`expirytime` are times even without a schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rankcast.model.errors import FilterError, FilterTooLargeError, InvalidValueError, RankcastError, shown
from rankcast.model.expressions import Constraint, Expression, Not, Operator, all_of, any_of
from rankcast.model.filters import Filter
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import parse_time
from rankcast.model.values import Value, ValueType

MAX_NESTING = 100
"""Levels of `all`, `any` and `not` inside each other."""

_OPERATORS = {"exact": Operator.EQ, "prefix": Operator.PREFIX, "suffix": Operator.SUFFIX}
_COMBINATIONS: Mapping[str, Callable[..., Expression]] = {"all": all_of, "any": any_of}
_DIALECTS = "exact, prefix, suffix, all, any or not"
_PLAIN_KEY = re.compile(r"\w+", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def filter_from_cloudevents(document: object, schema: Schema | None = None) -> Filter:
    """Return the filter of one JSON filter object, or of the array of them that a subscription has (all must hold).

    The empty array holds for every event. Errors name the place in the document, such as `$[0].all[1].exact`.

    >>> filter_from_cloudevents([{"prefix": {"type": "com.github."}}]).accepts({"type": "com.github.push"})
    True
    """
    if isinstance(document, list | tuple):
        expression = all_of(*[_filter(item, f"$[{at}]", schema, 1) for at, item in enumerate(document)])
    else:
        expression = _filter(document, "$", schema, 1)
    return Filter.of(expression, schema)


def _filter(document: object, path: str, schema: Schema | None, depth: int) -> Expression:
    if depth > MAX_NESTING:
        raise FilterTooLargeError(f"the filter nests all, any and not more than {MAX_NESTING} deep")
    if not isinstance(document, Mapping) or len(document) != 1:
        raise FilterError(f"{path}: {shown(document)} is not a filter; expected an object with one key: {_DIALECTS}")
    ((dialect, content),) = document.items()
    if dialect == "sql":
        raise FilterError(f"{path}.sql: CloudEvents SQL is not supported; expected {_DIALECTS}")
    if dialect not in ("not", *_COMBINATIONS, *_OPERATORS):
        raise FilterError(f"{path}: unknown filter dialect {shown(dialect)}; expected {_DIALECTS}")
    path = f"{path}.{dialect}"
    if dialect == "not":
        return Not(_filter(content, path, schema, depth + 1))
    if dialect in _COMBINATIONS:
        if not isinstance(content, list | tuple) or not content:
            raise FilterError(f"{path}: {shown(content)} is not a list of filters; expected at least one in [...]")
        parts = [_filter(item, f"{path}[{at}]", schema, depth + 1) for at, item in enumerate(content)]
        return _COMBINATIONS[dialect](*parts)
    if not isinstance(content, Mapping) or not content:
        raise FilterError(f"{path}: {shown(content)} is not an object of attribute names and strings")
    return all_of(*[_leaf(_OPERATORS[dialect], name, text, path, schema) for name, text in content.items()])


def _leaf(operator: Operator, name: object, text: object, path: str, schema: Schema | None) -> Expression:
    if not isinstance(name, str) or not name:
        raise FilterError(f"{path}: {shown(name)} is not an attribute name; expected a non-empty string")
    path += f".{name}" if _PLAIN_KEY.fullmatch(name) else f"[{shown(name)}]"
    if not isinstance(text, str) or not text:
        raise FilterError(f"{path}: {shown(text)} is not a non-empty string")
    try:
        declared = schema.type_of(name) if schema else ENVELOPE_TYPES.get(name, ValueType.STRING)
        if operator is not Operator.EQ and declared is not ValueType.STRING:
            raise FilterError(f"{name} is of type {declared.value}; prefix and suffix are for strings, expected exact")
        constraint = Constraint(name, operator, (_constant(text, declared),))
    except RankcastError as error:
        kind = type(error) if isinstance(error, FilterError) else FilterError
        raise kind(f"{path}: {error}") from None
    return all_of(Constraint(name, Operator.EXISTS), constraint)


def _constant(text: str, declared: ValueType) -> Value:
    """Return the value that a text stands for, by the string forms of CloudEvents' own types."""
    if declared is ValueType.STRING:
        return text
    if declared is ValueType.TIME:
        return parse_time(text, exact=True)
    if declared is ValueType.INT and _INTEGER.fullmatch(text):
        return int(text)
    if declared is ValueType.BOOL and text in ("true", "false"):
        return text == "true"
    raise InvalidValueError(f"{shown(text)} is not the text of a value of type {declared.value}")
