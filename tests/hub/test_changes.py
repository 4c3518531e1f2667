"""Changes of k, windows and ranks act from the next instant on, on what is still held; nothing is taken back."""

from datetime import timedelta

import pytest

from hub_builders import NOW, at, flat
from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.policies import Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Decay, Target
from rankcast.model.subscriptions import Subscription
from rankcast.testing.clock import FakeClock

RANKS = {"x = 2": 1.0, "x = 1": 0.5, "x = 0": 0.1}


@pytest.fixture(params=["in memory", "durable, reopened before every call"])
def hub(request, tmp_path):
    """A hub and, to show that the log gives back every change, one that is closed by a crash before each call."""
    if request.param == "in memory":
        return Hub(clock=FakeClock(NOW))
    return Reopened(tmp_path / "changes.hub")


class Reopened:
    """Passes every call to a hub that was just opened."""

    def __init__(self, path):
        self.path = path
        self.last = None

    def __getattr__(self, name):
        if self.last is not None:
            self.last._journal.abandon()
        self.last = Hub(path=self.path, clock=FakeClock(NOW), sync="normal", snapshot_every=2)
        return getattr(self.last, name)


def published(hub, number, x, **data):
    return [(note.event.id, note.rank) for note in hub.publish(flat(number, number, x=x, **data), now=at(number))]


def finished(hub):
    return [(note.event.id, note.rank) for note in hub.finish()]


def near(target):
    return Subscription("near", parse_filter("true"), relevance=Closeness([Target("x", target, scale=10)]))


TWO, SWAPPED = {"x = 2": 0.9, "x = 1": 0.5}, {"x = 2": 0.1, "x = 1": 0.5}
NARROW = {"x > 0": 0.9, "x > 1": 0.1, "x = 1": 0.5}
LOW = {"x > 0": 0.2, "x > 1": 1.0, "x = 1": 0.5}
ONE, TWO_BEST = {"deliver": Sliding(1, 5)}, {"deliver": Sliding(2, 5)}
FIRST, SECOND = {"priorities": ["1 before 2"]}, {"priorities": ["2 before 1"]}
CHANGES = {  # subscriptions, settings, x of events and what each delivers; the change, and the same after it
    "a larger k lets in what is held": (RANKS, ONE, "21", ["1 1.0", ""], TWO_BEST, "0", ["2 0.5"]),
    "a smaller k takes nothing back": (RANKS, TWO_BEST, "21", ["1 1.0", "2 0.5"], ONE, "1", [""]),
    "a smaller window keeps the most recent": (
        *(RANKS, ONE, "210", ["1 1.0", "", ""]),
        *({"deliver": Sliding(1, 2)}, "0", ["4 0.1"]),
    ),
    "ranks count for a window": (TWO, ONE, "21", ["1 0.9", ""], {"subscriptions": SWAPPED}, "2", ["2 0.5"]),
    "ranks count for continuous delivery": (
        *(TWO, {"deliver": Continuous(1)}, "21", ["1 0.9", ""]),
        *({"subscriptions": SWAPPED}, "1", ["3 0.5"]),
    ),
    "another way to combine ranks": (LOW, ONE, "21", ["1 1.0", ""], {"rank_by": "min"}, "1", ["3 0.2"]),
    "the most specific": (NARROW, ONE, "2", ["1 0.9"], {"most_specific": True}, "1", ["2 0.5"]),
    "priorities": (["x = 2", "x = 1"], {**FIRST, **ONE}, "21", ["1 1.0", ""], SECOND, "2", ["2 1.0"]),
    "another relevance": (near(2), ONE, "27", ["1 1.0", ""], {"subscriptions": near(7)}, "0", ["2 1.0"]),
    "what did not match before does not come back": (
        *("x = 1", {"deliver": Sliding(5, 5)}, "2", [""]),
        *({"subscriptions": "x > 0"}, "1", ["2 1.0"]),
    ),
    "what was delivered is not delivered again with its new rank": (
        *(RANKS, TWO_BEST, "21", ["1 1.0", "2 0.5"]),
        *({"subscriptions": {"x = 2": 0.2, "x = 1": 1.0}}, "01", ["", "4 1.0"]),
    ),
    "a policy of another kind starts empty": (RANKS, ONE, "2", ["1 1.0"], {"deliver": Continuous(1)}, "0", ["2 0.1"]),
}


@pytest.mark.parametrize(
    ("subscriptions", "settings", "first", "delivered", "change", "then", "expected"), CHANGES.values(), ids=CHANGES
)
def test_a_change_acts_on_what_is_held(hub, subscriptions, settings, first, delivered, change, then, expected):
    def deliveries(xs, start):
        found = (published(hub, number, int(x)) for number, x in enumerate(xs, start))
        return [" ".join(f"{name} {rank}" for name, rank in notes) for notes in found]

    hub.subscribe("ana", subscriptions, **settings)
    assert deliveries(first, 1) == delivered
    hub.update("ana", **change)
    assert deliveries(then, len(first) + 1) == expected


def test_a_larger_window_of_time_keeps_what_is_still_held_longer(hub):
    hub.subscribe("ana", RANKS, deliver=TopKWindow(1, timedelta(seconds=5)))
    published(hub, 1, 2)
    published(hub, 2, 1)
    hub.update("ana", deliver=TopKWindow(1, timedelta(seconds=50)))
    hub.advance(at(20))
    assert published(hub, 21, 1) == []
    assert [(note.event.id, note.time) for note in hub.advance(at(60))] == [("21", at(51))]


def test_changed_ranks_count_for_a_window_of_time_from_its_next_instant_on(hub):
    hub.subscribe("ana", {"x = 2": 0.9, "x = 1": 0.5}, deliver=TopKWindow(1, timedelta(seconds=10)))
    published(hub, 1, 2)
    published(hub, 2, 1)
    assert hub.advance(at(2)) == []
    hub.update("ana", subscriptions={"x = 2": 0.1, "x = 1": 0.5})
    assert [(note.event.id, note.time) for note in hub.advance(at(60))] == [("2", at(11))]


def test_changed_ranks_count_for_an_open_period(hub):
    hub.subscribe("ana", {"x = 2": 0.9, "x = 1": 0.5}, deliver=Periodic(2, timedelta(minutes=1)))
    published(hub, 1, 2)
    published(hub, 2, 1)
    hub.update("ana", subscriptions={"x = 2": 0.1, "x = 1": 0.5})
    assert finished(hub) == [("2", 0.5), ("1", 0.1)]


def test_explain_says_that_ranks_fade(hub):
    hub.subscribe("ana", {"true": 0.5}, deliver=Sliding(1, 8), decay=Decay(timedelta(seconds=90)))
    assert str(hub.explain({}, "ana")).endswith(
        "ana: delivered with rank 0.5 (an older event needs twice the rank for every 90s between them) "
        "(place 1, only the best is delivered)"
    )


def test_a_decay_can_be_given_changed_and_taken_away(hub):
    hub.subscribe("ana", RANKS, deliver=Sliding(1, 9))
    assert [published(hub, number, x) for number, x in ((1, 2), (5, 1))] == [[("1", 1.0)], []]
    assert hub.update("ana", decay=Decay(timedelta(seconds=1))).decay == Decay(timedelta(seconds=1))
    assert published(hub, 6, 0) == [("5", 0.5)]
    assert hub.update("ana", deliver=Sliding(1, 8)).decay is not None
    hub.update("ana", decay=None)
    assert [(note.event.id, note.rank) for note in hub.read("ana", now=at(7))] == [("5", 0.5)]


def test_another_refresh_counts_for_what_comes_and_what_is_held_expires_when_it_was_to(hub):
    def wishes(refresh):
        return Subscription("w", parse_filter("x = 2"), 1.0, refresh=refresh), Subscription(
            "o", parse_filter("true"), 0.5
        )

    hub.subscribe("ana", wishes(None)[:1], deliver=Continuous(1))
    published(hub, 1, 2)
    hub.update("ana", subscriptions=(wishes(timedelta(seconds=3))[0], Subscription("o", parse_filter("x = 1"), 0.5)))
    assert [published(hub, number, 1) for number in (3, 4)] == [[], []]
    assert published(hub, 5, 2) == [("5", 1.0)]
    hub.unsubscribe("ana", "o")
    assert [note.event.id for note in hub.read("ana", now=at(8))] == ["1"]


def test_events_that_match_nothing_any_more_leave(hub):
    hub.subscribe("ana", RANKS, deliver=Sliding(1, 3))
    for number, x in ((1, 2), (2, 1)):
        published(hub, number, x)
    hub.unsubscribe("ana", "1")
    assert [note.event.id for note in hub.read("ana", now=at(3))] == ["2"]
    assert published(hub, 3, 0) == [("2", 0.5)]
