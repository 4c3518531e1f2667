"""Subscriber files as placement workloads: every event that a filter accepts lies in its boxes."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, PlacementError
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.placement.named.interests import named_interests
from rankcast.placement.problem.boxes import corners
from rankcast.testing.strategies import attribute_names, events, filters


def people(**wanted):
    return [
        Subscriber(name, tuple(Subscription(str(at), parse_filter(text)) for at, text in enumerate(texts.split(" | "))))
        for name, texts in wanted.items()
    ]


def boxes(found, name):
    low, high = corners(found.interests.parts(int(found.interest_of[found.names.index(name)])))
    return [list(zip(*ends, strict=True)) for ends in zip(low.tolist(), high.tolist(), strict=True)]


def test_subscriptions_of_one_subscriber_are_parts_of_one_interest():
    found = named_interests(
        people(ana="rent < 500 | rent > 1500 and rooms = 3", bob="rent < 500"), {"rent": (0, 2000), "rooms": (1, 6)}
    )
    assert boxes(found, "ana") == [[(0, 500), (1, 6)], [(1500, 2000), (3, 3)]]
    assert boxes(found, "bob") == [[(0, 500), (1, 6)]]


def test_equal_interests_are_kept_once():
    found = named_interests(people(ana="rent < 500", bob="rent > 5", eva="not (rent >= 500)"), {"rent": (0, 2000)})
    assert len(found.interests) == 2
    assert found.interest_of.tolist() == [0, 1, 0]


def test_what_lies_beyond_a_range_counts_as_its_end():
    found = named_interests(people(ana="rent > 5000", bob="rent < 100"), {"rent": (0, 2000)})
    assert boxes(found, "ana") == [[(2000, 2000)]]
    assert found.axes["rent"].coordinate(7000) == 2000
    assert found.axes["rent"].coordinate(-5) == 0


def test_words_have_cells_and_all_others_share_one():
    found = named_interests(people(ana="city in ('Faro', 'Braga')", bob="city != 'Faro'", eva="city like 'B%a'"), None)
    assert found.axes["city"].words == ("Braga", "Faro")
    assert boxes(found, "ana") == [[(0, 2)]]
    assert boxes(found, "bob") == [[(0, 1)], [(2, 3)]]
    assert boxes(found, "eva") == [[(0, 1)], [(2, 3)]]
    assert found.axes["city"].coordinate("Porto") == 2.5
    assert found.notes == ("city: patterns (1) let all words through that are in no list",)


def test_bools_and_times_are_axes_too():
    found = named_interests(
        people(ana="pets = true and since > TIMESTAMP '2026-01-01T00:00:00Z'", bob="pets = false"),
        {"pets": "words", "since": (0.0, 1.0)},
    )
    assert found.axes["pets"].words == ("false", "true")
    timed = named_interests(
        people(ana="since > TIMESTAMP '2026-01-01T00:00:00Z' and since < TIMESTAMP '2026-01-02T00:00:00Z'"), None
    )
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert boxes(timed, "ana")[0][0] == pytest.approx((start, start + 86400))


def test_attributes_without_an_axis_are_left_out_and_named():
    found = named_interests(people(ana="rent < 500 and city = 'Faro'", bob="city = 'Porto'"), {"rent": (0, 2000)})
    assert boxes(found, "bob") == [[(0, 2000)]]
    assert found.notes == ("city: no axis; conditions on it (2) are taken as if anything would do",)


def test_who_accepts_nothing_is_left_out_and_named():
    found = named_interests(people(ana="rent < 500", bob="rent < 1 and rent > 2"), {"rent": (0, 2000)})
    assert found.names == ("ana",)
    assert found.notes == ("left out, as they accept no event: bob",)


def test_other_kinds_of_values_count_as_the_end_and_are_named():
    found = named_interests(people(ana="rent < 500 or not exists rent", bob="exists rent"), {"rent": (0, 2000)})
    assert boxes(found, "ana") == [[(0, 500)], [(2000, 2000)]]
    assert boxes(found, "bob") == [[(0, 2000)]]
    assert found.notes == ("rent: conditions about other kinds of values, or none (1), count as its end",)


def test_the_density_of_events_is_that_of_their_points():
    found = named_interests(people(ana="rent < 500"), {"rent": (0, 2000)})
    density = found.density([Event("1", "/x", data={"rent": rent}) for rent in (100, 100, 700, None)])
    assert density.weights.tolist() == [0.5, 0.25, 0.25]
    assert density.measures(found.interests.sides).tolist() == [0.5]
    with pytest.raises(InvalidValueError, match="there are none"):
        found.density([])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"rent": (5, 5)}, "rent: 5 to 5; expected a lower end"),
        ({"rent": "letters"}, "'letters'; expected a range such as"),
        ({"floor": "numbers"}, "no filter has numbers of it"),
    ],
)
def test_an_axis_that_cannot_be_made_is_named(attributes, message):
    with pytest.raises(PlacementError, match=message):
        named_interests(people(ana="rent < 500"), attributes)


def test_subscribers_who_speak_of_nothing_have_no_axes():
    with pytest.raises(PlacementError, match="the filters speak of none"):
        named_interests(people(ana="true"))


def test_attributes_are_found_that_most_filters_speak_of_and_that_tell_events_apart():
    wanted = "description like '%sunny%' and exists owner and rent < 500 and city = 'Faro'"
    found = named_interests(people(ana=wanted, bob=wanted, eva=f"{wanted} and rooms between 3 and 5", rui="rooms > 4"))
    assert list(found.axes) == ["city", "rent", "rooms"]
    assert found.notes[0] == "description: no axis; conditions on it (3) are taken as if anything would do"


def test_an_attribute_that_tells_nothing_apart_is_better_than_none():
    assert list(named_interests(people(ana="description like '%sunny%'")).axes) == ["description"]


kinds = st.sampled_from([(-2.0, 3.0), "words"])


@given(st.lists(filters(), min_size=1, max_size=3), st.lists(events(), min_size=1), st.data())
@example([parse_filter("n < 3")], [Event("1", "/x", data={"n": 2})], None)
def test_every_event_that_a_filter_accepts_lies_in_its_boxes(wanted, published, data):
    subscribers = [Subscriber(str(at), (Subscription("1", one),)) for at, one in enumerate(wanted)]
    given_axes = {"n": (0, 10)} if data is None else data.draw(st.dictionaries(attribute_names(), kinds, max_size=3))
    try:
        found = named_interests(subscribers, given_axes)
    except PlacementError:
        return
    for event in published:
        point = np.array([axis.coordinate(event.attributes.get(name)) for name, axis in found.axes.items()])
        for at, one in enumerate(wanted):
            if one.accepts(event.attributes):
                low, high = corners(found.interests.parts(int(found.interest_of[found.names.index(str(at))])))
                assert ((low <= point) & (point <= high)).all(axis=1).any()
