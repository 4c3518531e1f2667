"""Values, attributes, names and times: small shared pools most of the time, the whole range of each type else."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.model.values import FAMILY_OF_TYPE, INT_MAX, INT_MIN, Family, Value, ValueType

Drawn = TypeVar("Drawn")

_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

COMMON: Mapping[ValueType, tuple[Value, ...]] = {
    ValueType.BOOL: (False, True),
    ValueType.INT: (-1, 0, 1, 2, 3, 4),
    ValueType.FLOAT: (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    ValueType.STRING: ("", "a", "aa", "ab", "aba", "abc", "b", "ba", "bab", "c"),
    ValueType.TIME: (_NOON - TICK, _NOON, _NOON + TICK, _NOON + timedelta(hours=1), _NOON + timedelta(days=1)),
}
"""The pools that events and filters share: few enough that a constant often equals a value, or just misses it."""

EDGES: Mapping[ValueType, tuple[Value, ...]] = {
    ValueType.BOOL: (False, True),
    ValueType.INT: (INT_MIN, INT_MIN + 1, INT_MAX - 1, INT_MAX, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1),
    ValueType.FLOAT: (
        *(-0.0, 5e-324, -5e-324, sys.float_info.min, sys.float_info.max, -sys.float_info.max, math.inf, -math.inf),
        *(2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1 + sys.float_info.epsilon, 1 - sys.float_info.epsilon / 2, 0.1),
    ),
    ValueType.STRING: (
        *("\0", "a\0", "a\0\0", "\ud7ff", "\ue000", "a\ud7ff", "a\ue000", "\U0010ffff", "a\U0010ffff", "😀", "é", "é"),
        *("%", "_", "\\", "'", '"', "a%b", "a_b", "a\\b", " ", "\n", "true", "1"),
    ),
    ValueType.TIME: (EARLIEST, EARLIEST + TICK, LATEST - TICK, LATEST),
}
"""Where mistakes are likely: the ends of each type and what is special in the middle of it."""

ATTRIBUTES: Mapping[str, ValueType] = {
    "n": ValueType.INT,
    "x": ValueType.FLOAT,
    "s": ValueType.STRING,
    "u": ValueType.STRING,
    "t": ValueType.TIME,
    "flag": ValueType.BOOL,
    "address.city": ValueType.STRING,
    "data.type": ValueType.INT,
}
"""The pool of names, each with the type that it has most of the time (in events) or is compared with (in filters)."""


@st.composite
def mostly(draw: DrawFn, common: SearchStrategy[Drawn], rare: SearchStrategy[Drawn], share: int = 8) -> Drawn:
    """Draw from `common` in `share` of 10 cases (one_of would choose evenly)."""
    return draw(common if draw(st.integers(1, 10)) <= share else rare)


def text(max_size: int = 12, min_size: int = 0) -> SearchStrategy[str]:
    """Draw any text without surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)


_WIDE: Mapping[ValueType, SearchStrategy[Any]] = {
    ValueType.BOOL: st.booleans(),
    ValueType.INT: st.integers(INT_MIN, INT_MAX),
    ValueType.FLOAT: st.floats(allow_nan=False),
    ValueType.STRING: text(),
    ValueType.TIME: st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(fold=0)),
}


def _of_type(kind: ValueType) -> SearchStrategy[Value]:
    return mostly(st.sampled_from(COMMON[kind]), st.sampled_from(EDGES[kind]) | _WIDE[kind])


def values(*types: ValueType) -> SearchStrategy[Value]:
    """Draw what an attribute of an event may hold: any of the given types, or of all five.

    >>> from hypothesis import given
    >>> @given(values(ValueType.INT))
    ... def check_range(value):
    ...     assert INT_MIN <= value <= INT_MAX
    >>> check_range()
    """
    return _values(types or tuple(ValueType))


@cache
def _values(types: tuple[ValueType, ...]) -> SearchStrategy[Value]:
    return st.one_of(*map(_of_type, types))


def constants(*types: ValueType) -> SearchStrategy[Value]:
    """Draw what a filter may compare with: a value that is not infinite."""
    return _constants(types or tuple(ValueType))


@cache
def _constants(types: tuple[ValueType, ...]) -> SearchStrategy[Value]:
    return _values(types).filter(lambda value: not (isinstance(value, float) and math.isinf(value)))


def attribute_names() -> SearchStrategy[str]:
    """Draw a name of an attribute, mostly one of `ATTRIBUTES`; envelope names are left to `events`."""
    return _NAMES


def is_free(name: str) -> bool:
    """Whether a payload key is seen under its own name, which needs that no envelope name hides it."""
    while name.startswith("data."):
        name = name.removeprefix("data.")
    return name.partition(".")[0] not in ENVELOPE_TYPES


_OTHER_NAMES = text(min_size=1).filter(is_free)
_NAMES = mostly(st.sampled_from(tuple(ATTRIBUTES)), _OTHER_NAMES, share=9)


@cache
def _values_for(name: str) -> SearchStrategy[Value]:
    """Return values that suit a name of the pool, and now and then others."""
    return mostly(values(*alike(ATTRIBUTES[name])), values(), share=9)


def alike(kind: ValueType) -> tuple[ValueType, ...]:
    """Return the types whose values can be compared with those of a type."""
    return (ValueType.INT, ValueType.FLOAT) if FAMILY_OF_TYPE[kind] is Family.NUMBER else (kind,)


def attributes() -> SearchStrategy[dict[str, Value]]:
    """Draw attributes as filters see them: `Filter.accepts` and `evaluate` take them as they are."""
    return _ATTRIBUTES


@st.composite
def _attributes(draw: DrawFn) -> dict[str, Value]:
    present = draw(st.tuples(*(st.booleans() for _ in ATTRIBUTES)))
    found = {name: draw(_values_for(name)) for name, has in zip(ATTRIBUTES, present, strict=True) if has}
    return {**draw(mostly(st.just({}), _OTHER_ATTRIBUTES)), **found}


_OTHER_ATTRIBUTES = st.dictionaries(_OTHER_NAMES, values(), max_size=2)
_ATTRIBUTES = _attributes()


@cache
def times() -> SearchStrategy[datetime]:
    """Draw a UTC time."""
    return cast(SearchStrategy[datetime], values(ValueType.TIME))


@cache
def identifiers() -> SearchStrategy[str]:
    """Draw an id: mostly a number, so that ids meet."""
    return mostly(st.integers(1, 99).map(str), text(min_size=1).filter(lambda drawn: bool(drawn.strip())), share=9)
