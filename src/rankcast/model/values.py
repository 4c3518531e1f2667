"""Values: bool, int64, float64, string and UTC time, lists of one of these, and the rule for what may become one.

Values keep their type. They compare within a family: int and float form one family (numbers) and compare exactly by
value, bool is not an int, a string never equals a number. Strings are sequences of Unicode scalar values ordered by
code point, which is also the order of their UTF-8 bytes. An attribute's list is a tuple of distinct values of one
family, in the order in which they first came; an empty one is of every family.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, TypeAlias

from rankcast.model.errors import InvalidValueError, shown

Value: TypeAlias = bool | int | float | str | datetime

ListValue: TypeAlias = tuple[Value, ...]

AttributeValue: TypeAlias = Value | ListValue
"""What an attribute of an event holds."""

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

INFINITE_TEXTS = ("Infinity", "-Infinity")
"""How infinite floats are written in JSON, which has no number for them."""

LONGEST_PLAIN = 10_000
"""Items of a list that is looked through at once."""

MAX_NAME_LENGTH = 1_000
"""Characters of an attribute name, with the names of the objects that it is nested in."""


class ValueType(Enum):
    """The declared type of an attribute."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STRING = "string"
    TIME = "time"
    BOOLS = "[bool]"
    INTS = "[int]"
    FLOATS = "[float]"
    STRINGS = "[string]"
    TIMES = "[time]"

    __hash__ = object.__hash__  # each value is there once; an Enum would hash its name, in Python

    @property
    def is_list(self) -> bool:
        """Whether values of this type are lists."""
        return self not in SCALARS

    @property
    def element(self) -> ValueType:
        """The type of the elements of a list; of a scalar, which is a list of one, its own.

        >>> ValueType.INTS.element
        <ValueType.INT: 'int'>
        """
        return ValueType(self.value.strip("[]"))


SCALARS = (ValueType.BOOL, ValueType.INT, ValueType.FLOAT, ValueType.STRING, ValueType.TIME)
"""The types whose values are no lists."""


class Family(Enum):
    """Types whose values compare with each other. A comparison across families is unknown, never an error."""

    NUMBER = "number"
    STRING = "string"
    BOOL = "bool"
    TIME = "time"

    __hash__ = object.__hash__  # each value is there once; an Enum would hash its name, in Python


FAMILY_OF_TYPE = {
    ValueType.BOOL: Family.BOOL,
    ValueType.INT: Family.NUMBER,
    ValueType.FLOAT: Family.NUMBER,
    ValueType.STRING: Family.STRING,
    ValueType.TIME: Family.TIME,
}
FAMILY_OF_TYPE |= {kind: FAMILY_OF_TYPE[kind.element] for kind in ValueType if kind.is_list}
"""The family that values of a type compare in; of a list, its elements."""


def type_of(value: Value) -> ValueType:
    """Return the type of a value.

    >>> type_of(True), type_of(1), type_of(1.0)
    (<ValueType.BOOL: 'bool'>, <ValueType.INT: 'int'>, <ValueType.FLOAT: 'float'>)
    """
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        return ValueType.INT
    if isinstance(value, float):
        return ValueType.FLOAT
    return ValueType.STRING if isinstance(value, str) else ValueType.TIME


def family_of(value: Value) -> Family:
    """Return the family a value compares in."""
    return FAMILY_OF_TYPE[type_of(value)]


def checked_value(raw: object, where: str) -> Value | None:
    """Return `raw` as an event's value; None means "attribute missing" (null and NaN do).

    Among numbers, the texts that stand for infinite ones in JSON are these.
    Raises InvalidValueError, which names `where`, for anything that is none of the five types, nor of those that
    `as_python` knows.
    """
    if type(raw).__module__ in _ELSEWHERE:
        raw = as_python(raw)
    if raw is None or isinstance(raw, bool):
        return raw
    if isinstance(raw, int):
        return _checked_int(raw, where)
    if isinstance(raw, float):
        return None if math.isnan(raw) else float(raw)
    if isinstance(raw, str):
        return _checked_string(raw, where)
    if isinstance(raw, date):
        return _checked_time(raw, where)
    raise InvalidValueError(
        f"{where}: {shown(raw)} is a {type(raw).__name__}; expected bool, int, float, str or datetime"
    )


def checked_attribute(raw: object, where: str) -> AttributeValue | None:
    """Return `raw`, a value or a list of values, as what an event's attribute holds; None means "missing"."""
    return checked_list(raw, where) if isinstance(raw, list | tuple) else checked_value(raw, where)


def checked_list(raw: Sequence[object], where: str) -> ListValue:
    """Return a list as an event's attribute holds it: without nulls and NaN, every element once.

    Raises InvalidValueError, which names `where` and the element, for what is no list of values of one family.

    >>> checked_list(["Go", None, "Rust", "Go"], "skills")
    ('Go', 'Rust')
    """
    if plain_list(raw):
        return tuple(dict.fromkeys(raw))  # type: ignore[arg-type]  # texts or integers, all of them
    if any(item in INFINITE_TEXTS for item in raw if isinstance(item, str)) and any(map(_is_number, raw)):
        raw = [float(item) if isinstance(item, str) and item in INFINITE_TEXTS else item for item in raw]
    found: list[Value] = []
    for item in raw:
        if isinstance(item, list | tuple | dict):
            raise InvalidValueError(f"{where}: the list holds {shown(item)}; {_EXPECTED_LIST}")
        value = checked_value(item, where)
        if value is None:
            continue
        if found and family_of(value) is not family_of(found[0]):
            raise InvalidValueError(
                f"{where}: the list holds {shown(found[0])} ({family_of(found[0]).value}) and "
                f"{shown(value)} ({family_of(value).value}); {_EXPECTED_LIST}"
            )
        found.append(value)
    return tuple(dict.fromkeys(found))


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


_EXPECTED_LIST = "expected values of one type: bool, int, float, str or datetime"


def plain_list(raw: Sequence[Any]) -> bool:
    """Whether a list holds texts or usual numbers, as most do, and nothing that has to be checked or left out."""
    if len(raw) > LONGEST_PLAIN:
        return False
    kinds = set(map(type, raw))
    if kinds == {str}:
        return "".join(raw).isascii()
    if not kinds <= {int, float} or not INT_MIN <= min(raw, default=0) <= max(raw, default=0) <= INT_MAX:
        return False
    return not math.isnan(sum(raw))


def elements_of(value: AttributeValue) -> ListValue:
    """Return what an attribute holds as a list: a scalar is a list of one."""
    return value if isinstance(value, tuple) else (value,)


def checked_constant(raw: object, where: str) -> Value:
    """Return `raw` as a constant of a filter: a value that is present and, for floats, finite."""
    value = checked_value(raw, where)
    if value is None or (isinstance(value, float) and math.isinf(value)):
        hint = "; whether an attribute is there is asked with `exists`" if raw is None else ""
        raise InvalidValueError(f"{where}: {shown(raw)} cannot be compared with; expected a finite constant{hint}")
    return value


def checked_name(raw: object) -> str:
    """Return `raw` as an attribute name that filters, targets, weights and schemas may use."""
    if not isinstance(raw, str) or not 0 < len(raw) <= MAX_NAME_LENGTH:
        raise InvalidValueError(f"an attribute name is 1 to {MAX_NAME_LENGTH:,} characters, not {shown(raw)}")
    return _checked_string(raw, "attribute name")


_ELSEWHERE = frozenset(("numpy", "pandas._libs.missing", "pandas._libs.tslibs.nattype", "decimal", "uuid"))
"""Modules of types that stand for a value; they are known by name, so that none has to be imported."""


def as_python(raw: Any) -> Any:
    """Return the plain value that a scalar of numpy, a missing one of pandas, a Decimal or a UUID stands for.

    A Decimal is an int where it is a whole number of 64 bits and else the nearest float; what is no number is None.
    Arrays and numpy's times, which have no zone, stay what they are, as does all else.
    """
    match type(raw).__module__:
        case "numpy":
            return raw.item() if getattr(raw, "shape", None) == () and raw.dtype.kind in "biufU" else raw
        case "decimal":
            return _from_decimal(raw)
        case "uuid":
            return str(raw)
        case "pandas._libs.missing" | "pandas._libs.tslibs.nattype":
            return None if type(raw).__name__ in ("NAType", "NaTType") else raw
    return raw


def _from_decimal(raw: Any) -> object:
    if not hasattr(raw, "is_nan"):
        return raw
    if not raw.is_finite():
        return None if raw.is_nan() else float(raw)
    if raw.adjusted() < _DIGITS and raw == raw.to_integral_value():
        return int(raw)
    number = float(raw)
    return raw if math.isinf(number) else number


_DIGITS = 19
"""Of the largest integer."""


def _checked_int(raw: int, where: str) -> int:
    if not INT_MIN <= raw <= INT_MAX:
        raise InvalidValueError(f"{where}: {shown(raw)} does not fit a 64-bit integer")
    return int(raw)


def _checked_string(raw: str, where: str) -> str:
    if not raw.isascii():
        try:
            raw.encode()
        except UnicodeEncodeError:
            raise InvalidValueError(f"{where}: {shown(raw)} holds half a surrogate pair, which is not text") from None
    return str.__str__(raw)


def _checked_time(raw: date, where: str) -> datetime:
    if not isinstance(raw, datetime):
        return datetime(raw.year, raw.month, raw.day, tzinfo=UTC)
    if raw.tzinfo is None:
        raise InvalidValueError(
            f"{where}: {raw.isoformat()} has no time zone; expected an aware datetime, such as one in UTC"
        )
    try:
        utc = raw.astimezone(UTC)
    except OverflowError:
        raise InvalidValueError(f"{where}: {shown(raw)} is outside the years 1 to 9999 in UTC") from None
    if type(utc) is datetime:
        return utc
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)
