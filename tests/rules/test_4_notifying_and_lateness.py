"""Section 4 of the rules: handing over, late events, changes in event time. One class per rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankcast as rc
from rankcast.delivery.stream.lateness import Remembered
from rankcast.model.events import Identity
from rankcast.model.policies import Gathered, OnDemand
from rule_builders import at, event, seconds


def hub_with(policy, **options):
    """Return a hub in which ana wants events with x >= 0, the larger x the better."""
    hub = rc.Hub(**{name: options.pop(name) for name in ("lateness", "on_late") if name in options})
    wanted = {f"x = {x}": x / 10 for x in range(11)}
    hub.subscribe("ana", wanted, deliver=policy, **options)
    return hub


def put(hub, *stream):
    """Publish (time, x) in this order, each at its own time; return (id, instant) of what is delivered by each."""
    found = []
    for time, x in stream:
        notes = hub.publish(event(f"{time}", time=time, x=x), now=at(time))
        found.append([(note.event.id, (note.time - at(0)).total_seconds()) for note in notes])
    return found


class TestRule6HandingOver:
    def test_proactive_each_policy_delivers_at_its_own_instants(self):
        assert put(hub_with(rc.Sliding(1, 5)), (1, 3), (2, 5)) == [[("1", 1)], [("2", 2)]]

    def test_gathered_what_was_delivered_is_handed_over_together_every_period(self):
        hub = hub_with(rc.Sliding(1, 5), notify=Gathered(seconds(10)))
        assert put(hub, (1, 3), (2, 5)) == [[], []]
        assert [(note.event.id, note.gathered) for note in hub.advance(at(10))] == [("1", at(10)), ("2", at(10))]

    def test_gathering_may_have_another_period_than_the_policy(self):
        hub = hub_with(rc.Periodic(1, seconds(4)), notify=Gathered(seconds(10)))
        put(hub, (1, 3), (5, 5))
        assert hub.advance(at(9)) == []
        assert [note.event.id for note in hub.advance(at(10))] == ["1", "5"]

    def test_on_demand_the_current_list_is_read_and_nothing_is_handed_over(self):
        hub = hub_with(rc.Sliding(2, 3), notify=OnDemand())
        assert put(hub, (1, 3), (2, 9), (3, 5), (4, 1)) == [[], [], [], []]
        assert [note.event.id for note in hub.read("ana", now=at(4))] == ["2", "3"]

    def test_reading_changes_nothing(self):
        hub = hub_with(rc.Sliding(2, 3), notify=OnDemand())
        put(hub, (1, 3), (2, 9))
        assert hub.read("ana", now=at(2)) == hub.read("ana", now=at(2))


class TestRule7LateEvents:
    def test_an_event_later_than_allowed_goes_to_the_late_output_and_changes_nothing(self):
        late = []
        hub = hub_with(rc.Sliding(1, 5), lateness=seconds(2), on_late=late.append)
        put(hub, (10, 3))
        hub.publish(event("old", time=7, x=9), now=at(10))
        assert [one.event.id for one in late] == ["old"]
        assert [note.event.id for note in hub.finish()] == ["10"]

    def test_late_events_are_counted(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(2))
        put(hub, (10, 3))
        for time in (1, 2, 3):
            hub.publish(event(f"old {time}", time=time, x=1), now=at(10))
        assert hub.late_count == 3

    def test_the_same_identity_is_ignored_while_it_waits_and_after(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(5))
        put(hub, (10, 3))
        again = event("10", time=10, x=3)
        hub.publish(again, now=at(11))
        assert [note.event.id for note in hub.advance(at(30))] == ["10"]
        assert hub.publish(again, now=at(31)) == []

    def test_the_same_content_under_another_identity_is_distinct(self):
        hub = hub_with(rc.AllMatches(), lateness=seconds(5))
        for name in ("a", "b"):
            hub.publish(event(name, time=10, x=3), now=at(10))
        assert [note.event.id for note in hub.finish()] == ["a", "b"]


class TestRule8ChangesInEventTime:
    def test_ranks_that_change_reorder_what_is_still_held(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "x = 2": 0.5}, deliver=rc.Periodic(2, seconds(10)))
        put(hub, (1, 1), (2, 2))
        hub.update("ana", subscriptions={"x = 1": 0.1, "x = 2": 0.5})
        assert [note.event.id for note in hub.advance(at(10))] == ["2", "1"]

    def test_what_matches_no_subscription_any_more_is_dropped(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "x = 2": 0.5}, deliver=rc.Periodic(2, seconds(10)))
        put(hub, (1, 1), (2, 2))
        hub.unsubscribe("ana", "1")
        assert [note.event.id for note in hub.advance(at(10))] == ["2"]

    @pytest.mark.parametrize("order", [((1, 3), (4, 5), (9, 7)), ((4, 5), (1, 3), (9, 7)), ((9, 7), (4, 5), (1, 3))])
    def test_activation_is_in_event_time_and_does_not_depend_on_the_order_of_arrival(self, order):
        wanted = rc.Subscription("s", rc.parse_filter("x >= 0"), 0.5, active_from=at(3), active_until=at(9))
        hub = rc.Hub([rc.Subscriber("ana", (wanted,))], lateness=seconds(60))
        for time, x in order:
            hub.publish(event(f"{time}", time=time, x=x), now=at(10))
        assert [note.event.id for note in hub.finish()] == ["4"]


class TestRule9Buffering:
    POLICIES = (rc.Continuous(2), rc.Periodic(2, seconds(4)), rc.Sliding(2, 3), rc.TopKWindow(2, seconds(4)))

    @pytest.mark.parametrize("policy", POLICIES)
    @given(
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 10)), max_size=12, unique_by=lambda one: one[0]),
        st.data(),
    )
    def test_events_no_later_than_allowed_give_exactly_the_result_of_processing_in_order(self, policy, stream, data):
        shuffled = data.draw(st.permutations(stream))

        def everything(order):
            hub = hub_with(policy, lateness=seconds(20))
            notes = [note for time, x in order for note in hub.publish(event(f"{time:02}", time=time, x=x), now=at(12))]
            return [(note.event.id, note.time) for note in (*notes, *hub.finish())]

        assert everything(shuffled) == everything(sorted(stream))

    def test_a_hub_s_log_records_each_now_and_its_replay_uses_it(self, tmp_path):
        """Brought back long after, the hub is in the same period as when it ended."""
        path = tmp_path / "hub.db"
        with rc.Hub(path=path, clock=lambda: at(3)) as hub:
            hub.subscribe("ana", {"x >= 0": 0.5}, deliver=rc.Periodic(1, seconds(10)))
            hub.publish(event("1", x=1))
        with rc.Hub(path=path, clock=lambda: at(4)) as hub:
            assert hub.advance() == []
            assert [(note.event.id, note.time) for note in hub.advance(at(5_000))] == [("1", at(10))]


class TestDuplicates:
    def test_an_identity_is_remembered_for_a_span_and_past_that_it_is_new(self):
        known = Remembered()
        known.add(Identity("/s", "1"), at(0))
        known.forget(at(9), at_least=0, span=seconds(10))
        assert Identity("/s", "1") in known
        known.forget(at(10), at_least=0, span=seconds(10))
        assert Identity("/s", "1") not in known

    def test_memory_is_bounded_but_for_what_the_span_needs(self):
        known = Remembered()
        for number in range(100):
            known.add(Identity("/s", f"{number}"), at(number))
            known.forget(at(number), at_least=20, span=seconds(5))
        assert len(known.state()) == 20
