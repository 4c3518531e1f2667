"""What may become a value, and what is refused; times from RFC 3339 text to UTC and back."""

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.lossless import from_plain, to_plain
from rankcast.model.cloudevents import event_to_json
from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Event
from rankcast.model.times import EARLIEST, LATEST, format_time, parse_time
from rankcast.model.values import (
    INT_MAX,
    INT_MIN,
    SCALARS,
    Family,
    ValueType,
    checked_constant,
    checked_value,
    family_of,
    type_of,
)
from rankcast.testing.strategies import constants, times, values


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Clock(datetime):
    """A datetime of another class, as pandas has one."""


class TestAccepted:
    @given(values(*SCALARS))
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
        *(Fraction(1, 2), 1j, time(12), timedelta(1), [1], {"a": 1}, object),
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


@given(times())
def test_the_text_of_a_time_reads_back(time):
    assert parse_time(format_time(time)) == time
    assert parse_time(format_time(time), exact=True) == time
    assert parse_time(format_time(time)).tzinfo is UTC


@given(times(), st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_any_offset_names_the_same_instant(time, minutes):
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    try:
        local = (time + timedelta(minutes=minutes)).replace(tzinfo=None)
    except OverflowError:
        return  # this instant has no such local time within the years 1 to 9999
    assert parse_time(f"{local.isoformat()}{sign}{hours:02}:{rest:02}") == time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T09:30", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01T09:30:15", datetime(2026, 3, 1, 9, 30, 15, tzinfo=UTC)),
        ("2026-03-01 09:30:15z", datetime(2026, 3, 1, 9, 30, 15, tzinfo=UTC)),
        ("2026-03-01t09:30:15.5Z", datetime(2026, 3, 1, 9, 30, 15, 500_000, tzinfo=UTC)),
        ("2026-03-01T09:30:15.000001Z", datetime(2026, 3, 1, 9, 30, 15, 1, tzinfo=UTC)),
        ("2026-03-01T09:30:15.999999999Z", datetime(2026, 3, 1, 9, 30, 15, 999_999, tzinfo=UTC)),
        ("2026-03-01T00:30:00+01:00", datetime(2026, 2, 28, 23, 30, tzinfo=UTC)),
        ("2024-02-29T00:00:00-00:00", datetime(2024, 2, 29, tzinfo=UTC)),
        ("0001-01-01", EARLIEST),
        ("0001-01-01T01:00:00+01:00", EARLIEST),
        ("9999-12-31T23:59:59.999999Z", LATEST),
        ("9999-12-31T22:59:59.999999-01:00", LATEST),
    ],
)
def test_what_is_a_time(text, time):
    assert parse_time(text) == time


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "now", "2026", "2026-03", "2026-3-1", "26-03-01", "2026-02-29", "2026-13-01", "2026-00-01",
        "0000-01-01",
        "2026-03-01T", "2026-03-01T09", "2026-03-01T25:00:00Z", "2026-03-01T09:60:00Z", "2026-03-01T23:59:60Z",
        "2026-03-01T09:30.5Z", "2026-03-01T09:30:15.Z", "2026-03-01T09:30:15.1234567890Z", "2026-03-01Z",
        "2026-03-01T09:30:15+1:00", "2026-03-01T09:30:15+0100", "2026-03-01T09:30:15+24:00",
        "2026-03-01T09:30:15+05:60",
        "2026-03-01T09:30:15 Z", " 2026-03-01", "2026-03-01\n", "2026-03-01T09:30:15Z\n", "٢٠٢٦-03-01", "12026-03-01",
        "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "x" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_a_time(text):
    with pytest.raises(InvalidValueError, match=r"is not a time.*; expected an RFC 3339 time") as caught:
        parse_time(text)
    assert len(str(caught.value)) < 300


class TestExact:
    def test_digits_beyond_microseconds_are_refused(self):
        with pytest.raises(InvalidValueError, match="finer than a microsecond"):
            parse_time("2026-03-01T09:30:15.0000001Z", exact=True)

    def test_zeros_beyond_microseconds_lose_nothing(self):
        assert parse_time("2026-03-01T09:30:15.000001000Z", exact=True).microsecond == 1


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00Z"),
        (datetime(2026, 3, 1, 0, 0, 10, tzinfo=UTC), "2026-03-01T00:00:10Z"),
        (datetime(2026, 3, 1, 0, 0, 10, 500_000, tzinfo=UTC), "2026-03-01T00:00:10.5Z"),
        (EARLIEST, "0001-01-01T00:00:00Z"),
        (LATEST, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_the_text_is_the_shortest(time, text):
    assert format_time(time) == text


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (Decimal("5.00"), 5),
        (Decimal(-9223372036854775808), INT_MIN),
        (Decimal("9.90"), 9.9),
        (Decimal("-Infinity"), -math.inf),
        (Decimal("1e30"), 1e30),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (pd.Timestamp("2026-01-01 01:00", tz="Europe/Berlin"), datetime(2026, 1, 1, tzinfo=UTC)),
        *((missing, None) for missing in (pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"))),
    ],
)
def test_values_as_python_programs_have_them(given, value):
    """They are values of events, in JSON and in the digest of an event, too, and in lists."""
    found = checked_value(given, "x")
    assert (found, type(found)) == (value, type(value))
    event = Event.of({"x": given, "list": [given], "nested": {"x": given}}, id="1", source="/s")
    same = Event.of({"x": value, "list": [value], "nested": {"x": value}}, id="1", source="/s")
    assert event.attributes == same.attributes
    assert event_to_json(event) == event_to_json(same)
    assert event.identified().id == same.identified().id
    assert from_plain(to_plain(event, Event), Event) == from_plain(to_plain(same, Event), Event)


def test_what_no_value_comes_near_is_refused():
    for raw in (Decimal("1e400"), np.datetime64("2026-01-01"), np.array([1.0])):
        with pytest.raises(InvalidValueError, match=r"x: .* is a .*; expected bool, int, float"):
            checked_value(raw, "x")
