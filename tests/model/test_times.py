"""Times: RFC 3339 text to UTC and back."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidValueError
from rankcast.model.times import EARLIEST, LATEST, format_time, parse_time
from rankcast.testing.strategies import times


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
