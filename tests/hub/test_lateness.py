"""A hub with an allowed lateness: whatever the order of arrival, the result is that of processing in order."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rankcast.hub.core
from hub_builders import NOW, at, flat
from rankcast.hub import Hub, Verdict
from rankcast.model.errors import InvalidValueError
from rankcast.model.policies import AT_ONCE, Continuous, Digest, Periodic, Sliding, TieRule, TopKWindow
from rankcast.testing.clock import FakeClock
from rankcast.testing.conformance import cases, check
from rankcast.testing.definitions import ExpectedDelivery


def got(notifications):
    return [(note.subscriber, note.event.id, note.time) for note in notifications]


def replayed(hub, events):
    return [note for event in events for note in hub.publish(event, now=event.time)] + hub.finish()


class Shuffled:
    """The hub, to which the events of a case come in another order."""

    def __init__(self, lateness, order):
        self.lateness = lateness
        self.order = order
        self.late = []

    def deliveries(self, case):
        hub = Hub(case.subscribers, lateness=self.lateness, on_late=self.late.append)
        return [
            ExpectedDelivery(note.subscriber, note.event.identity, note.rank, note.matched, note.time)
            for note in replayed(hub, map(case.events.__getitem__, self.order))
        ]


@given(cases(), st.data())
def test_events_that_come_too_late_are_told_and_change_nothing(drawn, data):
    """The result is that of the events that were not late, whichever these are."""
    case = replace(drawn, events=tuple(sorted(drawn.events, key=lambda event: (event.time, event.identity))))
    order = data.draw(st.permutations(range(len(case.events))))
    allowed = timedelta(seconds=1)
    engine = Shuffled(allowed, order)
    found = sorted(engine.deliveries(case))
    latest = [max(case.events[number].time for number in order[: end + 1]) for end in range(len(order))]
    late = [number for number, now in zip(order, latest, strict=True) if now - case.events[number].time > allowed]
    assert [one.event for one in engine.late] == [case.events[number] for number in late]
    intime = tuple(event for number, event in enumerate(case.events) if number not in late)
    assert found == sorted(Shuffled(allowed, range(len(intime))).deliveries(replace(case, events=intime)))


@given(cases())
def test_without_lateness_events_in_order_are_taken_as_ever(case):
    check(Shuffled(timedelta(0), range(len(case.events))), case)


SECONDS = st.integers(1, 4).map(lambda number: timedelta(seconds=number))
TIES = st.sampled_from(TieRule)
POLICIES = st.one_of(
    st.builds(Continuous, st.integers(1, 2), ties=TIES),
    st.builds(Periodic, st.integers(1, 2), SECONDS, ties=TIES),
    st.builds(Sliding, st.integers(1, 2), st.integers(1, 4), ties=TIES),
    st.builds(TopKWindow, st.integers(1, 2), SECONDS, ties=TIES),
)
EVENTS = st.tuples(st.integers(0, 12), st.integers(0, 2))


class Changing:
    """A hub with one subscriber, who changes or comes and goes."""

    def __init__(self, policy, notify, **options):
        self.hub = Hub(**options)
        self.policy, self.notify, self.found = policy, notify, []
        self.change(None)

    def change(self, policy):
        """Give the subscriber another policy; None: let it come or go."""
        if policy is not None and self.hub.subscribers:
            self.hub.update("ana", deliver=policy)
        elif policy is None and self.hub.subscribers:
            self.hub.unsubscribe("ana")
        elif policy is None:
            ranks = {"x = 2": 1.0, "x = 1": 0.5, "x = 0": 0.1}
            self.hub.subscribe("ana", ranks, deliver=self.policy, notify=self.notify)

    def finished(self):
        self.found += self.hub.finish()
        return sorted((note.event.id, note.time, note.handed_over, note.rank) for note in self.found)


@given(
    st.lists(EVENTS | POLICIES | st.none(), max_size=15),
    POLICIES,
    st.just(AT_ONCE) | st.builds(Digest, SECONDS),
    st.integers(1, 4),
)
@example([(0, 0), (3, 0), None], Periodic(1, timedelta(seconds=1)), AT_ONCE, 2)
@example([(0, 0), (3, 0), None], Continuous(1), Digest(timedelta(seconds=1)), 2)
def test_changes_act_at_the_watermark_before_all_that_is_due_then(inputs, policy, notify, lateness):
    """The result is that of events in order, with each change after all that is due before it, and nothing else."""
    changing = Changing(policy, notify, lateness=timedelta(seconds=lateness))
    watermark, steps = 0, []
    for number, one in enumerate(inputs):
        if not isinstance(one, tuple):
            steps.append((watermark, 0, number, one))
            changing.change(one)
            continue
        seconds, x = one
        event = flat(f"{number:02}", seconds, x=x)
        if seconds >= watermark:
            steps.append((seconds, 1, number, event))
        watermark = max(watermark, seconds - lateness)
        changing.found += changing.hub.publish(event, now=at(watermark + lateness))
    in_order = Changing(policy, notify)
    for seconds, is_event, _, what in sorted(steps, key=lambda step: step[:3]):
        if is_event:
            in_order.found += in_order.hub.publish(what, now=what.time)
        else:
            in_order.found += in_order.hub.advance(at(seconds) - timedelta(microseconds=1))
            in_order.change(what)
    assert changing.finished() == in_order.finished()


class TestLateness:
    def test_a_hub_that_goes_by_its_clock_takes_what_is_no_older_than_the_lateness(self):
        clock = FakeClock(at(60))
        hub = Hub(lateness=timedelta(seconds=10), clock=clock, on_late=(late := []).append)
        hub.subscribe("ana", "true")
        for number, seconds in enumerate((55, 49, 50)):
            assert hub.publish(flat(number, seconds)) == []
        assert [(one.event.id, one.time, one.by) for one in late] == [("1", at(50), timedelta(seconds=1))]
        clock.advance(timedelta(seconds=10))
        assert got(hub.publish({"x": 1})) == [("ana", "2", at(50)), ("ana", "0", at(55))]
        assert hub.late_count == 1

    def test_an_event_of_the_future_waits_for_its_time(self):
        hub = Hub(lateness=timedelta(0), clock=FakeClock(NOW))
        hub.subscribe("ana", "true")
        assert hub.publish(flat(1, 30)) == []
        assert hub.advance(at(29)) == []
        assert got(hub.advance(at(30))) == [("ana", "1", at(30))]

    def test_without_a_lateness_the_hub_goes_by_arrival_and_nothing_is_late(self):
        hub = Hub(clock=FakeClock(at(60)))
        hub.subscribe("ana", "true", deliver=Periodic(k=1, period=timedelta(seconds=10)))
        hub.publish(flat(1, 5))
        assert got(hub.advance(at(70))) == [("ana", "1", at(70))]
        assert hub.late_count == 0

    def test_the_end_of_the_input_takes_in_what_waits_and_closes_the_past(self):
        hub = Hub(lateness=timedelta(hours=1), clock=FakeClock(NOW))
        hub.subscribe("ana", {"x = 2": 1.0, "true": 0.5}, deliver=Continuous(1))
        for number, seconds, x in ((3, 3, 1), (1, 1, 2), (2, 2, 1)):
            assert hub.publish(flat(number, seconds, x=x), now=at(seconds)) == []
        assert got(hub.finish()) == [("ana", "1", at(1))]
        hub.publish(flat(4, 2), now=at(4))
        assert hub.late_count == 1

    def test_a_late_event_is_not_known_afterwards_and_a_repeated_one_is_not_late(self):
        hub = Hub(lateness=timedelta(0), on_late=(late := []).append)
        hub.subscribe("ana", "true")
        assert len(hub.publish(flat(1, 5), now=at(5))) == 1
        for number in (1, 2, 2):
            hub.publish(flat(number, 4), now=at(9))
        assert [one.event.id for one in late] == ["2", "2"]
        assert len(hub.publish(flat(2, 9), now=at(9))) == 1

    def test_a_number_that_a_late_event_was_given_is_not_given_again(self):
        hub = Hub(lateness=timedelta(0), clock=FakeClock(at(9)), on_late=(late := []).append)
        hub.subscribe("ana", "true")
        hub.publish({"time": at(1)})
        assert ([one.event.id for one in late], hub.publish({})[0].event.id) == (["1"], "2")

    def test_explain_tells_what_would_be_late_and_what_would_wait(self):
        hub = Hub(lateness=timedelta(seconds=5), clock=FakeClock(at(60)))
        hub.subscribe("ana", "true")
        late, held = hub.explain(flat(1, 50), "ana"), hub.explain(flat(1, 55), "ana")
        assert (late.verdict, held.verdict) == (Verdict.LATE, Verdict.HELD)
        assert str(late).endswith("ana: not delivered: the event comes 0:00:05 later than is allowed")
        assert late.late.by == timedelta(seconds=5)
        assert str(held).endswith("with rank 1 it is kept back until nothing earlier can come")
        hub.publish(flat(1, 55))
        assert hub.explain(flat(1, 55), "ana").verdict is Verdict.REPEATED
        assert hub.publish(flat(1, 55)) == []

    def test_changes_act_where_the_hub_is_so_a_newcomer_sees_what_waits(self):
        hub = Hub(lateness=timedelta(seconds=5), clock=FakeClock(NOW))
        hub.subscribe("ana", "true")
        hub.publish(flat(1, 1), now=at(1))
        hub.unsubscribe("ana")
        hub.subscribe("rui", "true")
        assert got(hub.finish()) == [("rui", "1", at(1))]

    @pytest.mark.parametrize("lateness", [timedelta(seconds=-1), 60])
    def test_a_lateness_is_checked(self, lateness):
        with pytest.raises(InvalidValueError, match="lateness"):
            Hub(lateness=lateness)


class TestRepetitions:
    @pytest.fixture(autouse=True)
    def few_are_remembered(self, monkeypatch):
        monkeypatch.setattr(rankcast.hub.core, "REMEMBERED", 1)

    def test_are_recognised_for_as_long_as_the_lateness(self):
        hub = Hub(lateness=timedelta(seconds=10), clock=FakeClock(NOW))
        hub.subscribe("ana", "true")
        for number in (1, 2, 3):
            hub.publish(flat(number, number), now=at(number))
        hub.publish(flat(1, 9), now=at(9))
        assert [one[1] for one in got(hub.finish())] == ["1", "2", "3"]

    def test_are_recognised_for_as_long_as_a_period(self):
        hub = Hub()
        hub.subscribe("ana", "true", deliver=Periodic(k=9, period=timedelta(seconds=10)))
        for number, seconds in ((1, 9), (2, 11), (3, 12), (1, 18)):
            hub.publish(flat(number, seconds), now=at(seconds))
        assert [one[1] for one in got(hub.finish())] == ["3", "2"]
        hub.update("ana", deliver=Periodic(k=9, period=timedelta(seconds=1)))
        hub.publish(flat(4, 20), now=at(20))
        hub.publish(flat(1, 20), now=at(20))
        assert [one[1] for one in got(hub.finish())] == ["1", "4"]

    @pytest.mark.parametrize("policy", [TopKWindow(3, timedelta(seconds=5)), Sliding(3, 9), TopKWindow(3, 9)])
    @pytest.mark.parametrize("columnar", [False, True])
    def test_are_events_of_their_own_once_a_window_has_let_the_first_go(self, policy, columnar):
        hub = Hub()
        hub.subscribe("ana", "true", deliver=policy)
        if columnar:
            hub._core.serving.use_kernels()
        events = [replace(flat(1, 1), expires=at(6)), flat(2, 2), flat(1, 6)]
        for event in events:
            assert hub.explain(event, "ana", now=event.time).verdict is not Verdict.REPEATED
            found = got(hub.publish(event, now=event.time)) + got(hub.advance(event.time))
            assert found == [("ana", event.id, event.time)]

    @pytest.mark.parametrize("policy", [Sliding(3, 3), TopKWindow(3, 3), TopKWindow(3, timedelta(seconds=60))])
    def test_are_recognised_for_as_long_as_a_window_holds_them(self, policy):
        hub = Hub()
        hub.subscribe("ana", {"x = 1": 1.0, "true": 0.5}, deliver=policy)
        events = [flat(1, 1, x=0), flat(2, 2, x=1), flat(3, 3, x=1), flat(1, 4, x=0), flat(2, 5, x=1)]
        found = [one[1] for event in events for one in got(hub.publish(event, now=event.time))]
        assert found == ["1", "2", "3"]
        assert hub.explain(flat(2, 5, x=1), "ana", now=at(5)).verdict is Verdict.REPEATED
