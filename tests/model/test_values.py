"""What may become a value, and what is refused."""

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from rankcast.model.errors import InvalidValueError
from rankcast.model.values import (
    INT_MAX,
    INT_MIN,
    Family,
    ValueType,
    checked_constant,
    checked_value,
    family_of,
    type_of,
)
from rankcast.testing.strategies import constants, values


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Clock(datetime):
    """A datetime of another class, as pandas has one."""


class TestAccepted:
    @given(values())
    def test_values_stay_as_they_are(self, value):
        found = checked_value(value, "a")
        assert type(found) is type(value)
        assert found == value
        assert math.copysign(1, found) == math.copysign(1, value) if isinstance(value, float) else True

    @given(constants())
    def test_constants_stay_as_they_are(self, value):
        assert type(checked_constant(value, "a")) is type(value)

    @pytest.mark.parametrize("raw", [None, float("nan"), -float("nan"), np.float64("nan"), np.float32("nan")])
    def test_null_and_nan_mean_missing(self, raw):
        assert checked_value(raw, "a") is None

    @pytest.mark.parametrize(
        ("raw", "value"),
        [
            (Colour.RED, 1),
            (Text("a"), "a"),
            (np.int64(5), 5),
            (np.uint8(5), 5),
            (np.bool_(True), True),
            (np.float64(0.5), 0.5),
            (np.float32(0.5), 0.5),
            (np.str_("a"), "a"),
            (date(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC)),
            (datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2026, 3, 1, tzinfo=UTC)),
            (Clock(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        ],
    )
    def test_subclasses_become_the_plain_type(self, raw, value):
        found = checked_value(raw, "a")
        assert found == value
        assert type(found) is type(value)
        assert getattr(found, "tzinfo", UTC) is UTC

    @pytest.mark.parametrize("raw", [INT_MIN, INT_MAX, math.inf, -math.inf, 5e-324, "", "\0", "\U0010ffff"])
    def test_the_edges_are_values(self, raw):
        assert checked_value(raw, "a") == raw


class TestRefused:
    OTHER_TYPES = (
        *(Decimal("1.5"), Fraction(1, 2), 1j, time(12), timedelta(1), [1], {"a": 1}, object),
        *(np.datetime64("2026-03-01T00:00:00", "ns"), np.datetime64("2026-03-01"), np.timedelta64(5, "ns")),
        *(np.array([1, 2]), np.complex128(1)),
    )

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (INT_MAX + 1, "does not fit a 64-bit integer"),
            (INT_MIN - 1, "does not fit a 64-bit integer"),
            pytest.param(10**5000, "about 5,000 digits does not fit", id="huge"),
            (np.uint64(2**63), "does not fit a 64-bit integer"),
            ("\ud800", "half a surrogate pair"),
            ("fine until \udfff", "half a surrogate pair"),
            (datetime(2026, 3, 1), "has no time zone"),  # noqa: DTZ001
            (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "outside the years 1 to 9999"),
            (datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=1))), "outside the years 1 to 9999"),
            (b"bytes", "is a bytes; expected bool, int, float, str or datetime"),
            *((raw, f"is a {type(raw).__name__}") for raw in OTHER_TYPES),
        ],
    )
    def test_with_the_place_and_the_reason(self, raw, reason):
        with pytest.raises(InvalidValueError, match=f"^here: .*{reason}"):
            checked_value(raw, "here")

    @pytest.mark.parametrize("raw", [None, math.nan, math.inf, -math.inf, np.float64("inf")])
    def test_a_constant_is_present_and_finite(self, raw):
        with pytest.raises(InvalidValueError, match=r"^here: .* expected a finite constant"):
            checked_constant(raw, "here")


@pytest.mark.parametrize(
    ("value", "kind", "family"),
    [
        (True, ValueType.BOOL, Family.BOOL),
        (1, ValueType.INT, Family.NUMBER),
        (1.0, ValueType.FLOAT, Family.NUMBER),
        ("1", ValueType.STRING, Family.STRING),
        (datetime(2026, 3, 1, tzinfo=UTC), ValueType.TIME, Family.TIME),
    ],
)
def test_types_and_families(value, kind, family):
    assert (type_of(value), family_of(value)) == (kind, family)
