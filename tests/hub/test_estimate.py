"""What a subscriber would have got of past events: just what a hub delivers to it, in whatever order they are told."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import rankcast as rc
from hub_builders import at, flat
from rankcast.hub import estimate
from rankcast.hub.estimate import AS_IT_IS, estimates, variants_of
from rankcast.model.errors import InvalidSubscriptionError, UnknownIdError
from rankcast.testing.strategies import attributes, subscribers


@st.composite
def pasts(draw):
    drawn = draw(st.lists(st.tuples(attributes(), st.integers(0, 40)), max_size=12))
    plain = ({name: value for name, value in made.items() if name not in ("id", "source")} for made, _ in drawn)
    return [flat(number, seconds, **made) for number, ((_, seconds), made) in enumerate(zip(drawn, plain, strict=True))]


@settings(max_examples=150)
@given(subscribers(), pasts(), st.randoms(use_true_random=False), st.booleans(), st.integers(0, 3))
def test_an_estimate_is_what_a_hub_would_have_delivered(wanted, past, order, many, repeated):
    """Also where those that nobody wants are left out, as of many events, and where some are there twice."""
    again = [replace(event, time=event.time + timedelta(seconds=1)) for event in past[:repeated]]
    past = [*past, *again]
    ordered = sorted(past, key=lambda event: (event.time, *event.identity))
    matched = []
    hub = rc.Hub([structs.replace(wanted, notify=rc.AtOnce(), muted_until=None)], on_match=matched.append)
    notes = [note for event in ordered for note in hub.publish(event, event.time)] + hub.finish()
    order.shuffle(past)
    with patch.multiple(estimate, FEWEST=0 if many else 5_000, CHUNK=5):
        (found,) = estimates(past, {AS_IT_IS: wanted})
    assert (found.delivered, found.matched) == (len(notes), len({match.event.identity for match in matched}))
    assert found.capped == sum(withheld.capped for withheld in hub.withheld.values())
    ranks = [note.rank for note in notes]
    assert (found.best, found.worst) == (max(ranks, default=None), min(ranks, default=None))


def test_events_with_lists_are_looked_through_one_by_one(monkeypatch):
    monkeypatch.setattr(estimate, "FEWEST", 0)
    hub = rc.Hub()
    hub.subscribe("ana", "tags has 'new'")
    past = [{"id": str(number), "time": at(number), "tags": tags} for number, tags in enumerate((["new"], [], ["old"]))]
    assert hub.estimate(past, "ana").estimates[0].matched == 1


def renter():
    hub = rc.Hub()
    hub.subscribe("ana", {"rent < 900": 0.9, "rooms > 2": 0.5}, deliver=rc.Periodic(2, timedelta(days=1)))
    return hub


PAST = [{"id": str(one), "time": at(one * 21_600), "rent": 700 + 100 * one, "rooms": one} for one in range(12)]
"""Four a day; two are cheap, and nine have more than two rooms."""


def test_variants_say_what_another_k_or_filter_would_bring():
    hub = renter()
    found = hub.estimate(reversed(PAST), "ana", k=[1, 9], filters=["rent >= 1800"])
    assert {row.variant: (row.matched, row.delivered, row.best, row.worst) for row in found.estimates} == {
        "as it is": (11, 6, 0.9, 0.5),
        "k = 1": (11, 3, 0.9, 0.5),
        "k = 9": (11, 11, 0.9, 0.5),
        "without 1": (9, 5, 0.5, 0.5),
        "without 2": (2, 2, 0.9, 0.9),
        "only rent >= 1800": (1, 1, 1.0, 1.0),
    }
    assert found.estimates[0].per_day == pytest.approx(6 / 2.75)
    assert hub.publish(PAST[0]) == []  # the period is as open as before, and the event is new to the hub
    assert len(hub.finish()) == 1


def test_events_that_cannot_be_published_are_reported():
    found = renter().estimate([PAST[0], {"rent": object()}, 5, PAST[1]], "ana")
    assert [rejected.index for rejected in found.rejected] == [1, 2]
    assert found.estimates[0].matched == 2


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"at_most": rc.Cap(1, timedelta(1))}, "at_most: Cap.* is one alone; expected a list"),
        ({"filters": "rent < 800"}, "filters: 'rent < 800' is one alone"),
        ({"k": 3}, "k: 3 is one alone"),
        ({"k": [[]]}, "k: .* is not a whole number"),
        ({"at_most": [3]}, "at_most: 3 is no Cap"),
    ],
)
def test_what_is_to_be_tried_is_a_list_of_what_can_be_tried(stated, message):
    with pytest.raises(InvalidSubscriptionError, match=message):
        renter().estimate(PAST, "ana", **stated)


def test_a_subscriber_need_not_be_added():
    wanted = rc.Subscriber("rui", (rc.Subscription("1", rc.parse_filter("rent < 800")),), notify=rc.AtOnce())
    assert [row.delivered for row in rc.Hub().estimate(PAST, wanted).estimates] == [1]
    with pytest.raises(UnknownIdError, match="there is no subscriber 'rui'"):
        rc.Hub().estimate(PAST, "rui")


def test_other_ks_are_tried_where_there_is_one():
    def tried(policy, **options):
        held = (rc.Subscription("1", rc.parse_filter("rent < 800")),)
        return list(variants_of(rc.Subscriber("ana", held, policy), **options))

    assert tried(rc.AllMatches()) == [AS_IT_IS]
    assert tried(rc.Sliding(1, 10)) == [AS_IT_IS, "k = 1", "k = 2"]
    most = rc.Periodic(1000, timedelta(1), rc.Diversity())
    assert tried(most) == [AS_IT_IS, "k = 500"]  # a diverse selection has at most 1,000
    with pytest.raises(InvalidSubscriptionError, match="k: 2,000 is more than 1,000"):
        tried(most, ks=[2000])
    with pytest.raises(InvalidSubscriptionError, match="k: every match is delivered"):
        tried(rc.AllMatches(), ks=[3])


def test_caps_are_counted_and_tried_and_left_out():
    past = [flat(number, number, landlord="ab"[number % 2]) for number in range(8)]
    capped = rc.AllMatches(at_most=rc.Cap(2, rc.Every("day")))
    wanted = rc.Subscriber("ana", (rc.Subscription("1", rc.parse_filter("true")),), capped, muted_until=at(4))
    found = rc.Hub().estimate(past, wanted, at_most=[rc.Cap(1, timedelta(days=7), per="landlord")]).estimates
    assert [(one.variant, one.delivered, one.capped) for one in found] == [
        (AS_IT_IS, 2, 6),
        ("without caps", 8, 0),
        ("at most 1 every 7d per landlord", 2, 6),
    ]


def test_many_events_are_estimated_as_few_are_and_the_refused_reported_once():
    """Beyond so many, what nobody wants is left out; mixed types and repetitions make no difference."""
    past = [{"id": str(one), "time": at(one), "rent": one % 1_000} for one in range(6_000)]
    odd = [{"rent": "700", "time": at(7)}, {"rent": object()}, past[0]]
    for more in ([], odd[:2], odd):
        found = renter().estimate([*past, *more], "ana", k=[1])
        assert {row.variant: row.matched for row in found.estimates[:2]} == {"as it is": 5_400, "k = 1": 5_400}
        assert [one.index for one in found.rejected] == [6_001] * bool(more)
