"""Periods and calendars: the end of a period is what a clock that is watched, instant by instant, says it is."""

from bisect import bisect_right
from datetime import date, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.periods import (
    WEEKDAYS,
    Every,
    Period,
    check_period,
    in_zone,
    longest,
    next_start,
    period_end,
    period_ends,
)
from rankcast.model.times import (
    EARLIEST,
    EPOCH,
    FIRST_INSTANT,
    LAST_INSTANT,
    LATEST,
    TICK,
    instant_of,
    microseconds,
    parse_time,
)

DAY = timedelta(days=1)
ZONES = files("tzdata").joinpath("zones").read_text().split()


def zone_of(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def is_wanted(every: Every, day: date) -> bool:
    """Whether a local date is one of a calendar's, word for word."""
    if every.unit == "week":
        return WEEKDAYS[day.weekday()] == (every.weekday or "monday")
    if every.unit == "month":
        last = (day + DAY).month != day.month
        return day.day == (every.day or 1) or (last and day.day < (every.day or 1))
    return True


def watched(every: Every, first: datetime, last: datetime, step: timedelta) -> list[datetime]:
    """Return the starts between two instants, by a look at the clock at every step."""
    zone = zone_of(every.zone or "UTC")
    days = [first.date() + at * DAY for at in range(-2, (last - first).days + 4)]
    at = datetime.strptime(every.at, "%H:%M").time()  # noqa: DTZ007 (a local time)
    wanted = [datetime.combine(day, at) for day in days if is_wanted(every, day)]
    largest = first.astimezone(zone).replace(tzinfo=None)
    wanted = [local for local in wanted if local > largest]
    found, now = list[datetime](), first
    while now < last and wanted:
        now += step
        local = now.astimezone(zone).replace(tzinfo=None, fold=0)
        if local >= wanted[0]:
            found.append(now)
            wanted = [one for one in wanted if one > local]
    return found


def starts(every: Every, first: datetime, last: datetime) -> list[datetime]:
    """Return the starts after one instant, up to another, as the engines compute them."""
    found = [period_end(first, every)]
    while found[-1] <= last:
        found.append(period_end(found[-1], every))
    return found[:-1]


TIMES = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 15, 30, 59]) | st.integers(0, 59))
CALENDARS = st.one_of(
    st.builds(Every, st.just("day"), TIMES, zone=st.sampled_from(ZONES)),
    st.builds(Every, st.just("week"), TIMES, weekday=st.sampled_from(WEEKDAYS), zone=st.sampled_from(ZONES)),
    st.builds(Every, st.just("month"), TIMES, day=st.integers(1, 31), zone=st.sampled_from(ZONES)),
)


def agrees_with_the_clock(every: Every, first: datetime, last: datetime) -> None:
    """Hold starts against a clock that is watched by the second where its offset has seconds, else by the minute."""
    zone = zone_of(every.zone or "UTC")
    offsets = [(first + hour * timedelta(hours=1)).astimezone(zone).utcoffset() for hour in range(-24, 96)]
    by_the_second = any(offset is None or offset.seconds % 60 for offset in offsets)
    step = timedelta(seconds=1) if by_the_second else timedelta(minutes=1)
    # What the clock showed before `first` may be later than what it shows then; so only the second half is compared.
    middle = first + (last - first) / 2
    expected = [start for start in watched(every, first, last, step) if start > middle]
    assert starts(every, middle, last) == expected
    for start, end in zip([middle, *expected], expected, strict=False):
        for now in (start, start + TICK, end - TICK):
            assert period_end(now, every) == end
        assert next_start(end, every) == next_start(end - TICK, every) == end < next_start(end + TICK, every)


@settings(max_examples=40)
@given(CALENDARS, st.integers(-130 * 365 * 1440, 930 * 365 * 1440))
def test_a_calendar_starts_when_its_clock_first_shows_the_time(every: Every, minute: int) -> None:
    first = EPOCH + minute * timedelta(minutes=1)
    agrees_with_the_clock(every, first, first + timedelta(hours=50))


CHANGES = {
    "Europe/Berlin in spring": ("Europe/Berlin", "2026-03-29"),
    "Europe/Berlin in autumn": ("Europe/Berlin", "2026-10-25"),
    "Europe/Berlin, a leap year far ahead": ("Europe/Berlin", "4712-03-27"),
    "midnight is left out": ("America/Sao_Paulo", "2018-11-04"),
    "midnight comes twice": ("America/Havana", "2025-11-02"),
    "half an hour is left out": ("Australia/Lord_Howe", "2026-10-04"),
    "half an hour comes twice": ("Australia/Lord_Howe", "2026-04-05"),
    "a quarter of an hour is left out": ("Asia/Kathmandu", "1986-01-01"),
    "a day is left out": ("Pacific/Apia", "2011-12-30"),
    "another day is left out": ("Pacific/Kwajalein", "1993-08-21"),
    "a day is left out, with seconds": ("Asia/Manila", "1844-12-31"),
    "a day comes twice, with seconds": ("America/Juneau", "1867-10-18"),
    "44 minutes and a half": ("Africa/Monrovia", "1972-01-07"),
    "28 seconds": ("Europe/Amsterdam", "1937-07-01"),
    "the month of fasting": ("Africa/Casablanca", "2025-02-23"),
}


@pytest.mark.parametrize("at", ["00:00", "00:45", "02:30", "23:59"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_calendar_is_right_where_the_clock_changes(change: str, at: str) -> None:
    zone, day = CHANGES[change]
    first = parse_time(day) - 2 * DAY
    agrees_with_the_clock(Every("day", at, zone=zone), first, first + timedelta(hours=80))


@pytest.mark.parametrize(
    ("every", "now", "end"),
    [
        (Every("day", zone="Pacific/Kwajalein"), "1993-08-20T12:00:00Z", "1993-08-21T12:00:00Z"),
        (Every("week", weekday="thursday"), "2026-11-19T12:00:00Z", "2026-11-26T00:00:00Z"),
        (Every("week", "09:00", "sunday", zone="Asia/Tokyo"), "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"),
        (Every("month"), "2026-11-19T12:00:00Z", "2026-12-01T00:00:00Z"),
        (Every("month", day=31), "2027-02-27T00:00:00Z", "2027-02-28T00:00:00Z"),
        (Every("month", day=30), "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        (Every("month", "08:00", day=29, zone="America/New_York"), "2028-02-29T13:00:00Z", "2028-03-29T12:00:00Z"),
        (Every("hour", "05:20"), "2026-11-19T12:20:00Z", "2026-11-19T13:20:00Z"),
        (Every("hour"), "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"),
        (Every("day"), "0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"),
        (Every("day", "00:15", zone="Asia/Tokyo"), "0001-01-01T00:00:00Z", "0001-01-01T14:56:01Z"),  # 9:18:59 ahead
        (Every("month", "08:00", zone="Europe/Berlin"), "9999-11-30T12:00:00Z", "9999-12-01T07:00:00Z"),
        (timedelta(days=7), "2026-11-18T12:00:00Z", "2026-11-19T00:00:00Z"),
    ],
)
def test_periods_end_at(every: Every | timedelta, now: str, end: str) -> None:
    assert period_end(parse_time(now), every) == parse_time(end)


@pytest.mark.parametrize(
    "every", [timedelta(days=3_000_000), Every("month"), Every("hour", "00:30"), Every("day", "12:00")]
)
def test_what_would_end_after_the_end_of_time_ends_at_it(every: Every | timedelta) -> None:
    assert period_end(LATEST, every) == period_end(LATEST - TICK, every) == next_start(LATEST, every) == LATEST


def test_the_first_period_ends_after_the_beginning_of_time() -> None:
    assert period_end(EARLIEST, Every("month", zone="America/New_York")) == parse_time("0001-01-01T04:56:02Z")
    assert next_start(EARLIEST, Every("day")) == next_start(EARLIEST, timedelta(days=1)) == EARLIEST


@given(
    CALENDARS | st.builds(Every, st.just("hour"), TIMES) | st.timedeltas(TICK, 400 * DAY).filter(bool),
    st.sampled_from([FIRST_INSTANT, -(10**16), 0, 10**15, 10**17, LAST_INSTANT - 3 * 10**14]),
    st.lists(st.integers(0, 3 * 10**14), min_size=1),
)
def test_ends_for_many_instants_are_those_for_each(every: Period, first: int, later: list[int]) -> None:
    instants = sorted(first + ticks for ticks in later)
    ends = period_ends(instants, every)
    assert ends == sorted({microseconds(period_end(instant_of(now), every)) for now in instants})
    for now in instants:
        assert instant_of(ends[min(bisect_right(ends, now), len(ends) - 1)]) == period_end(instant_of(now), every)


@given(CALENDARS | st.builds(Every, st.just("hour"), TIMES), st.integers(-130 * 365 * 1440, 930 * 365 * 1440))
def test_no_period_is_longer_than_it_may_be(every: Every, minute: int) -> None:
    end = period_end(EPOCH + minute * timedelta(minutes=1), every)
    assert period_end(end, every) - end <= longest(every)


def test_a_day_that_comes_twice_is_one_period() -> None:
    juneau = Every("day", zone="America/Juneau")
    end = period_end(parse_time("1867-10-18T00:00:00Z"), juneau)
    assert timedelta(days=1) < period_end(end, juneau) - end <= longest(juneau)


def test_zones_are_those_of_the_package() -> None:
    for zone in ZONES[::9]:
        end = period_end(EPOCH + 20_000 * DAY, Every("day", "08:00", zone=zone))
        assert end.astimezone(zone_of(zone)).strftime("%H:%M") == "08:00"


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"unit": "year"}, "every: 'year' is not one of hour, day, week, month"),
        ({"unit": "day", "at": "8"}, "at: '8' is not a time of day from 00:00 to 23:59"),
        ({"unit": "day", "at": "24:00"}, "at: '24:00' is not a time of day from 00:00 to 23:59"),
        ({"unit": "day", "weekday": "monday"}, "weekday: 'monday' is not for every day; it goes with every week"),
        ({"unit": "week", "weekday": "mondy"}, "weekday: 'mondy' is not a day; did you mean 'monday'?"),
        ({"unit": "week", "day": 1}, "day: 1 is not for every week; it goes with every month"),
        ({"unit": "month", "day": 32}, "day: 32 is not a day of the month from 1 to 31"),
        ({"unit": "month", "day": True}, "day: True is not a day of the month from 1 to 31"),
        ({"unit": "hour", "zone": "UTC"}, "zone: 'UTC' is not for every hour, which is the same in every zone"),
        ({"unit": "day", "zone": "Europe/Berlinn"}, "'Europe/Berlinn' is no zone .*; did you mean 'Europe/Berlin'?"),
        ({"unit": "day", "zone": "europe/berlin"}, "did you mean 'Europe/Berlin'?"),
        ({"unit": "day", "zone": "../zones"}, "zone: '../zones' is no zone of tzdata"),
        ({"unit": "day", "zone": "x"}, "expected one such as Europe/Berlin"),
    ],
)  # fmt: skip
def test_a_calendar_that_is_none_is_refused(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSubscriptionError, match=message.replace("?", r"\?")):
        Every(**settings_)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, timedelta(0), "day", None])
def test_a_period_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidSubscriptionError, match=r"period: .* is not a period; expected a timedelta"):
        check_period("period", value)


def test_a_zone_is_that_of_the_subscriber_unless_the_calendar_names_one() -> None:
    assert in_zone(Every("day"), "Asia/Tokyo") == Every("day", zone="Asia/Tokyo")
    for period in (Every("day", zone="UTC"), Every("hour"), timedelta(days=1)):
        assert in_zone(period, "Asia/Tokyo") == period
