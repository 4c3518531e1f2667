"""A hub whose queues share windows does what one does that serves every queue alone: deliveries, matches and state."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.hub import Hub, Verdict, core
from rankcast.hub.commands import Advance, Finish, HubState, Publish, Subscribe, Unsubscribe, Update
from rankcast.hub.core import Core
from rankcast.hub.dense import FEWEST
from rankcast.language.parser import parse_filter
from rankcast.model.events import Event
from rankcast.model.notifying import Gathered
from rankcast.model.policies import Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER_DENSE = 10**9
EVERYTHING = parse_filter("true")
NAMES = st.sampled_from(["ana", "bruno", "carla", "duarte", "eva", "fabio"])
FUNCTIONS = st.one_of(
    st.builds(lambda at: IdealPoint([Target("x", at)]), st.integers(0, 4)),
    st.builds(lambda at: IdealPoint([Target("x", at, weight=1e-300)]), st.integers(0, 4)),
    st.builds(lambda at: IdealPoint([Target("x", at)], reach=3), st.integers(0, 4)),
    st.builds(lambda at: Closeness([Target("x", at, scale=3), Target("y", 1)]), st.integers(0, 4)),
    st.builds(lambda at: Cosine("v", (at, 1)), st.integers(0, 4)),
)
POLICIES = st.sampled_from(
    (
        TopKWindow(1, 3),
        TopKWindow(2, 4),
        TopKWindow(1, timedelta(seconds=4)),
        TopKWindow(2, timedelta(seconds=2)),
        Sliding(1, 3),
        Sliding(2, 4),
        Continuous(1),
        Periodic(1, timedelta(seconds=5)),
    )
)


@st.composite
def subscribers(draw, name):
    function = draw(FUNCTIONS)
    bounded = function.is_bounded
    one = Subscription(
        "1",
        draw(st.sampled_from((EVERYTHING, EVERYTHING, EVERYTHING, parse_filter("x < 3")))),
        draw(st.sampled_from((None, 0.5))) if bounded else None,
        draw(st.sampled_from((1.0, 0.5))),
        relevance=function,
        refresh=draw(st.none() | st.just(timedelta(seconds=2))),
        deliver=draw(st.none() | POLICIES),
        active_from=draw(st.sampled_from((None, None, START + timedelta(seconds=5)))),
    )
    others = draw(st.sampled_from(((), (), (Subscription("2", parse_filter("x > 1"), deliver=Sliding(1, 2)),))))
    return Subscriber(
        name,
        (one, *others),
        draw(POLICIES),
        rank_by=draw(st.sampled_from(RankBy)),
        decay=draw(st.sampled_from((None, None, Decay(timedelta(seconds=3))))) if bounded else None,
        notify=draw(st.sampled_from((Subscriber(name).notify, Gathered(timedelta(seconds=3))))),
    )


VALUES = st.integers(0, 4) | st.sampled_from((1e130, "text", None))
EVENTS = st.tuples(VALUES, st.none() | st.integers(0, 2), st.none() | st.integers(0, 5), st.integers(-3, 1))
MOVES = st.lists(
    st.one_of(
        *[st.tuples(st.just("publish"), st.integers(0, 2), EVENTS, st.booleans())] * 5,
        st.tuples(st.just("again"), st.integers(0, 1), st.integers(0, 99), st.booleans()),
        st.tuples(st.just("advance"), st.integers(0, 5), st.none(), st.booleans()),
        st.tuples(st.just("subscriber"), st.just(0), NAMES.flatmap(subscribers), st.booleans()),
        st.tuples(st.just("subscriber"), st.just(0), NAMES.flatmap(subscribers), st.booleans()),
        st.tuples(st.just("unsubscribe"), st.just(0), NAMES, st.booleans()),
        st.tuples(st.just("restart"), st.just(0), st.none(), st.booleans()),
    ),
    max_size=40,
)


def made(name, x, y=None, time=None, expires=None):
    given = {"x": x, "y": y, "v": None if y is None else [x if isinstance(x, int) else 0, y], "time": time}
    return Event.of(
        {**{key: one for key, one in given.items() if one is not None}, "expirytime": expires}, id=name, source="/s"
    )


class Several:
    """Hubs that get the same commands and must do the same."""

    def __init__(self, state, lateness, fewest):
        self.lateness, self.fewest = lateness, fewest
        self.cores = [Core(state, lateness, fewest=some) for some in fewest]

    def apply(self, command):
        done = [one.apply(command) for one in self.cores]
        found = [
            ([(member.subscriber.id, note) for member, note in one.delivered], one.matches, one.late) for one in done
        ]
        assert all(one == found[0] for one in found[1:])
        self.check()

    def check(self):
        first, *others = (one.state() for one in self.cores)
        assert all(one == first for one in others)

    def restart(self):
        self.cores = [
            Core(one.state(), self.lateness, fewest=some) for one, some in zip(self.cores, self.fewest, strict=True)
        ]
        self.check()


@pytest.fixture
def forgetful(monkeypatch):
    monkeypatch.setattr(core, "REMEMBERED", 2)


@settings(max_examples=120)
@given(
    st.lists(NAMES.flatmap(subscribers), max_size=6, unique_by=lambda one: one.id),
    st.sampled_from((None, None, timedelta(0), timedelta(seconds=2))),
    MOVES,
)
@pytest.mark.usefixtures("forgetful")
def test_sharing_a_window_changes_nothing(given_subscribers, lateness, moves):
    hubs, now, published = Several(HubState(), lateness, (NEVER_DENSE, 1, 2)), START, []
    for one in given_subscribers:
        hubs.apply(Subscribe(one))
    for number, (kind, wait, what, closed) in enumerate(moves):
        now += timedelta(seconds=wait)
        members = hubs.cores[0].members
        if kind == "publish":
            x, y, life, age = what
            expires = None if life is None else now + timedelta(seconds=life)
            event = made(f"{number * 7 % 10}-{number}", x, y, now + timedelta(seconds=age), expires)
            published.append(event)
            found = [[match for _, match in one.matches(event)] for one in hubs.cores]
            assert all(one == found[0] for one in found)
            hubs.apply(Publish(event, now, closed, hubs.cores[0].next_id))
        elif kind == "again" and published:
            hubs.apply(Publish(published[what % len(published)], now, closed, hubs.cores[0].next_id))
        elif kind == "advance":
            hubs.apply(Advance(now))
        elif kind == "subscriber":
            hubs.apply(Update(what) if what.id in members else Subscribe(what))
        elif kind == "unsubscribe" and what in members:
            hubs.apply(Unsubscribe(what))
        elif kind == "restart":
            hubs.restart()
    hubs.apply(Finish())


def near(at, policy=TopKWindow(1, timedelta(seconds=5))):  # noqa: B008 (policies are values)
    return {"deliver": policy, "subscriptions": Subscription("1", EVERYTHING, relevance=IdealPoint([Target("x", at)]))}


def shared(hub):
    """Return the subscribers whose queues share a window."""
    return [name for name, member in hub._core.members.items() if all(one.shared for one in member.queues.values())]


def crowd(policy=TopKWindow(1, timedelta(seconds=5)), **about):  # noqa: B008
    hub = Hub(**about)
    for number in range(FEWEST + 4):
        hub.subscribe(f"s{number}", **near(number, policy))
    return hub


def test_queues_share_a_window_from_so_many_of_a_kind_on():
    hub = Hub()
    for number in range(FEWEST - 1):
        hub.subscribe(f"s{number}", **near(number))
    hub.publish({"x": 3}, START)
    assert shared(hub) == []
    hub.subscribe("last", **near(3))
    hub.publish({"x": 4}, START + timedelta(seconds=1))
    assert len(shared(hub)) == FEWEST
    hub.publish({"x": 4}, START + timedelta(seconds=2))
    assert len(hub._core._matches_alone(made("1", 4))) == 0, "nobody is matched one by one"


def test_one_with_an_event_beyond_every_distance_goes_on_alone_and_gets_the_same():
    hub = crowd()
    far = Subscription("1", EVERYTHING, relevance=IdealPoint([Target("x", 0, scale=1e-90)]))
    hub.subscribe("exact", far, deliver=TopKWindow(1, timedelta(seconds=5)))
    hub.publish({"x": 3}, START)
    assert "exact" in shared(hub)
    assert hub.explain({"x": 1e20}, "exact", START).verdict is Verdict.NO_RELEVANCE
    delivered = hub.publish({"x": 1e20}, START + timedelta(seconds=1))
    assert "exact" not in shared(hub)
    assert [note.event.attributes["x"] for note in delivered if note.subscriber == "exact"] == [3]
    assert len(delivered) == FEWEST + 5
    hub.publish({"x": 1}, START + timedelta(seconds=9))
    assert [note.event.attributes["x"] for note in hub.finish() if note.subscriber == "exact"] == [1]


def test_explain_tells_the_rank_the_competitor_and_when_an_event_could_enter():
    hub = crowd()
    hub.publish(made("good", 3, time=START), START)
    outcome = hub.explain(made("bad", 5, time=START + timedelta(seconds=1)), "s3", START + timedelta(seconds=1))
    assert "s3" in shared(hub)
    assert (outcome.rank, outcome.verdict, outcome.competitor.event.id) == (-2.0, Verdict.OUTRANKED, "good")
    assert outcome.outlook.enters == START + timedelta(seconds=5)
    newer = made("newer", 3, time=START + timedelta(seconds=1))
    assert hub.explain(newer, "s3", START + timedelta(seconds=1)).delivered
    hub.publish(made("bad", 5, time=START + timedelta(seconds=1)), START + timedelta(seconds=1))
    late = {note.subscriber: note for note in hub.advance(START + timedelta(seconds=5))}
    assert (late["s3"].event.id, late["s3"].time) == ("bad", START + timedelta(seconds=5))


def test_the_current_list_can_be_read():
    hub = crowd(Sliding(2, 9))
    for x in (7, 1, 4):
        hub.publish({"x": x}, START)
    assert [note.event.attributes["x"] for note in hub.read("s3", now=START)] == [4, 1]
    assert len(shared(hub)) == FEWEST + 4


def test_matches_are_told_to_one_who_asks():
    found = []
    hub = crowd(on_match=found.append)
    hub.publish({"x": 3}, START)
    assert [(match.subscriber, match.rank) for match in found] == [
        (f"s{number}", 0.0 - abs(3 - number)) for number in range(FEWEST + 4)
    ]
    assert hub.matches({"x": 3}, START)[5].rank == -2.0


def test_a_durable_hub_goes_on_where_it_was(tmp_path):
    subscribers = [one.subscriber for one in crowd()._core.members.values()]
    whole = Hub(subscribers)
    for number in range(40):
        with Hub(subscribers, path=tmp_path / "hub.db", sync="normal", snapshot_every=7) as hub:
            event, now = made(str(number), number * 7 % 20, time=START + timedelta(seconds=number)), START
            now += timedelta(seconds=number)
            assert hub.publish(event, now) == whole.publish(event, now)
            assert len(shared(hub)) == FEWEST + 4


def test_changed_and_removed_subscribers_leave_the_group():
    hub = crowd()
    hub.publish({"x": 3}, START)
    hub.update("s3", deliver=TopKWindow(2, 5))
    hub.unsubscribe("s4")
    hub.update("s5", subscriptions=Subscription("1", parse_filter("x > 4"), relevance=IdealPoint([Target("x", 1)])))
    hub.publish({"x": 4}, START + timedelta(seconds=1))
    assert len(shared(hub)) == FEWEST + 1
    for number in range(FEWEST + 4):
        if number != 4:
            hub.unsubscribe(f"s{number}")
    assert hub._core._dense.groups() == []
    assert hub.publish({"x": 4}, START + timedelta(seconds=2)) == []


def test_a_queue_of_a_group_is_not_moved_alone():
    hub = crowd()
    hub.publish({"x": 3}, START)
    with pytest.raises(AssertionError, match="moved by its group"):
        hub._core.members["s3"].queues[None].moved(None, START, closed=True)
