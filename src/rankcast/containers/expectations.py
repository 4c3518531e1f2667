"""What a structure expects of its arrays, as a table: types, lengths that belong together, and ranges of values.

    ROWS = {
        "start": Column(np.int64, "rows", starts="predicates"),
        "predicates": Column(np.int32, "predicates", columns={0: below("dimensions")}, width=3),
    }
    sizes = check("segment", arrays, ROWS, {"dimensions": 7})

A word stands for a number, the same wherever it stands: it is given, or is the length of the first array that has it.
Kernels index arrays by what other arrays say, and look at nothing before they do. So every array that comes from
outside and says where something is has an entry here. Cost: one or two passes over each array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import Kinds
from rankcast.model.errors import InvalidValueError

Number: TypeAlias = int | str
"""A number, or the word for one."""


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` up to `high`, which is not among them; `other` is allowed beside them."""

    low: int = 0
    high: Number | None = None
    other: int | None = None


def below(high: Number, low: int = 0) -> Range:
    """Return the numbers from 0, or another one, up to one that is not among them."""
    return Range(low, high)


@dataclass(frozen=True, slots=True)
class Column:
    """What is expected of one array.

    `starts` says that it has where lists begin in something: it has one number more than its length says, from 0 to the
    number of what is listed, and never descends. An array of two dimensions has a `width`, and ranges by column.
    """

    dtype: type[np.generic]
    length: Number
    values: Range | None = None
    starts: str | None = None
    ascends: bool = False
    is_number: bool = False
    """Whether no element may be NaN."""
    is_positive: bool = False
    """Whether every element is finite and above 0."""
    width: Number | None = None
    columns: Mapping[int, Range] = field(default_factory=dict)
    is_optional: bool = False


Columns: TypeAlias = Mapping[str, Column]


def kinds_of(columns: Columns) -> Kinds:
    """Return what kernels are told of arrays that are as expected; see `rankcast.compiling.arguments`."""
    return {name: (column.dtype, int(column.width or 0)) for name, column in columns.items()}


def check(
    what: str, arrays: Mapping[str, Array], columns: Columns, given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Raise InvalidValueError, with the place, unless arrays are as expected; return what the words stand for."""
    check_types(what, arrays, columns)
    return check_values(what, arrays, columns, given)


def check_types(what: str, arrays: Mapping[str, Array], columns: Columns) -> None:
    """Raise unless every array is there and has its type and number of dimensions."""
    for name, column in columns.items():
        array = arrays.get(name)
        if array is None:
            if not column.is_optional:
                raise InvalidValueError(f"{what}: array {name} is missing")
        elif array.dtype.type is not column.dtype or array.ndim != 1 + (column.width is not None):
            expected = f"{np.dtype(column.dtype)} of {1 + (column.width is not None)}"
            raise InvalidValueError(
                f"{what}: array {name}: {array.dtype} of {array.ndim} dimensions; expected {expected}"
            )


def check_values(
    what: str, arrays: Mapping[str, Array], columns: Columns, given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Raise unless arrays, of whatever types, have the expected lengths and values."""
    held = [(name, arrays[name], column) for name, column in columns.items() if arrays.get(name) is not None]
    sizes = dict(given or {})
    for name, array, column in held:
        more = int(column.starts is not None)
        expected = _number(column.length, sizes, len(array) - more) + more
        if len(array) != expected or expected < more:
            raise InvalidValueError(f"{what}: array {name}: {len(array):,} elements; expected {max(expected, more):,}")
        if column.width is not None and array.shape[1] != (width := _number(column.width, sizes, array.shape[1])):
            raise InvalidValueError(f"{what}: array {name}: {array.shape[1]:,} columns; expected {width:,}")
    for name, array, column in held:
        _check_column(f"{what}: array {name}", array, column, sizes)
    return sizes


def _number(number: Number, sizes: dict[str, int], found: int) -> int:
    """Return what a word stands for: from now on what was found, if it is not known yet."""
    return number if isinstance(number, int) else sizes.setdefault(number, found)


def _check_column(place: str, array: Array, column: Column, sizes: Mapping[str, int]) -> None:
    if column.starts is not None:
        check_starts(place, array, sizes[column.starts])
    if column.values is not None:
        _check_range(place, array, column.values, sizes)
    for at, values in column.columns.items():
        # Copied, because every pass over a column of many reads the others, too.
        _check_range(f"{place}, column {at}", np.ascontiguousarray(array[:, at]), values, sizes)
    if column.ascends:
        fail_where(array[1:] <= array[:-1], f"{place}: does not ascend")
    if column.is_number:
        fail_where(np.isnan(array), f"{place}: is not a number")
    if column.is_positive:
        fail_where(~((array > 0) & (array < np.inf)), f"{place}: is not finite and above 0")


def check_starts(place: str, starts: Array, size: int) -> None:
    """Raise unless numbers say where consecutive lists begin, and where the last of them ends."""
    if not len(starts):
        raise InvalidValueError(f"{place}: none; expected one at least")
    if starts[0] != 0 or starts[-1] != size:
        raise InvalidValueError(f"{place}: from {starts[0]:,} to {starts[-1]:,}; expected 0 to {size:,}")
    fail_where(starts[1:] < starts[:-1], f"{place}: descends")


def check_texts(place: str, starts: Array, values: Array) -> None:
    """Raise unless consecutive lists of bytes, whose starts were checked, are texts in UTF-8."""
    try:
        if values.tobytes().decode().isascii():
            return
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{place}: not UTF-8 at byte {error.start:,}") from None
    firsts = starts[:-1][starts[:-1] < starts[1:]]
    fail_where(values[firsts] & 0xC0 == 0x80, f"{place}: a text begins within a character")


def _check_range(place: str, array: Array, values: Range, sizes: Mapping[str, int]) -> None:
    if not len(array):
        return
    high = sizes[values.high] if isinstance(values.high, str) else values.high
    if values.other is None and _is_within(array, values.low, high):
        return
    wrong = array < values.low
    if high is not None:
        wrong |= array >= high
    if values.other is not None:
        wrong &= array != values.other
    if wrong.any():
        at = int(wrong.argmax())
        end = "more" if high is None else f"{high - 1:,}"
        raise InvalidValueError(f"{place}: {array[at]:,} at {at:,}; expected {values.low:,} to {end}")


_UNSIGNED = {kind.itemsize: kind for kind in map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64))}


def _is_within(array: Array, low: int, high: int | None) -> bool:
    if low == 0 and high is not None and array.dtype.kind == "i":  # negative numbers become large ones: one pass
        return int(array.view(_UNSIGNED[array.itemsize]).max()) < min(high, 1 << 8 * array.itemsize - 1)
    return bool(array.min() >= low and (high is None or array.max() < high))


def fail_where(wrong: Array, message: str) -> None:
    """Raise InvalidValueError with the first place that is marked as wrong, if one is."""
    if wrong.any():
        raise InvalidValueError(f"{message}, at {int(wrong.argmax()):,}")
