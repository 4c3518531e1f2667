"""Dynamic placement: every limit is kept after every change, and nobody is refused for whom there is room."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from placement_builders import trees
from rankcast.model.errors import InvalidValueError, PlacementError, UnknownIdError
from rankcast.placement.dynamic.drift import Watch, excess
from rankcast.placement.dynamic.dynamic import DynamicPlacement
from rankcast.placement.dynamic.improvement import improve
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.problem.audit import verify
from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.flow import largest_flow

corner = st.tuples(st.integers(0, 6), st.integers(0, 6))
size = st.tuples(st.integers(0, 3), st.integers(0, 3))
box = st.tuples(corner, size)
place = st.tuples(st.integers(-6, 6), st.integers(-6, 6))


class Changes(RuleBasedStateMachine):
    """Subscribers come and go, and the placement is improved in between."""

    subscribers = Bundle("subscribers")

    @initialize(
        tree=trees(),
        room=st.integers(1, 4),
        alpha=st.integers(1, 3),
        events=st.none() | st.lists(corner, min_size=1, max_size=20),
    )
    def start(self, tree, room, alpha, events):
        density = UNIFORM if events is None else Density.sampled(events)
        self.placement = DynamicPlacement(tree, [room] * len(tree.leaves), 2, alpha, density)
        self.count = 0
        self.candidates = {}
        self.random = np.random.default_rng(1)

    @rule(target=subscribers, boxes=st.lists(box, min_size=1, max_size=2), at=place, limit=st.integers(0, 40))
    def arrive(self, boxes, at, limit):
        self.count += 1
        name = f"s{self.count}"
        low = np.array([corner for corner, _ in boxes])
        high = low + [size for _, size in boxes]
        near = self.placement.tree.latencies(np.array([at], float))[0] <= limit * (1 + 1e-9)
        wanted = {**self.candidates, name: near}
        has_room = self.has_room(wanted)
        before = self.placement.traffic
        if not has_room:
            with pytest.raises(PlacementError, match=name):
                self.placement.arrive(name, low, high, at, limit)
            assert self.placement.traffic == before
            assert name not in self.placement
            return name
        arrived = self.placement.arrive(name, low, high, at, limit)
        self.candidates = wanted
        assert self.placement.broker_of(name) == arrived.broker
        for other, _, to in arrived.moved:
            assert self.placement.broker_of(other) == to
        return name

    @rule(name=consumes(subscribers))
    def leave(self, name):
        if name in self.candidates:
            del self.candidates[name]
            before = self.placement.traffic
            self.placement.leave(name)
            assert self.placement.traffic <= before + 1e-9

    @rule(budget=st.integers(0, 5))
    def improve(self, budget):
        homes = {name: self.placement.broker_of(name) for name in self.placement}
        done = improve(self.placement, budget, self.random)
        assert len(done.moved) <= budget
        assert done.after <= done.before
        assert {name for name in homes if self.placement.broker_of(name) != homes[name]} <= set(done.moved)

    @invariant()
    def every_limit_is_kept(self):
        assert set(self.placement) == set(self.candidates)
        if not self.candidates:
            assert self.placement.traffic == 0
            return
        found = self.placement.snapshot()
        audit = verify(found.problem, found.placement)
        assert audit.is_feasible, audit.violations
        assert audit.bandwidth == pytest.approx(self.placement.traffic)
        assert (audit.loads <= self.placement.rooms).all()

    def has_room(self, wanted):
        allowed = np.array(list(wanted.values())).reshape(len(wanted), -1)
        flow = largest_flow(allowed, np.ones(len(wanted), np.int64), self.placement.rooms)
        return flow.total == len(wanted)


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def star(rooms, **settings):
    tree = BrokerTree.star([0.0], [[float(at + 1)] for at in range(len(rooms))])
    return DynamicPlacement(tree, rooms, 1, **{"alpha": 1, **settings})


def arrive(placement, name, low, high, limit=100.0):
    return placement.arrive(name, [[low]], [[high]], [1.0], limit)


def test_a_filter_that_lets_a_newcomer_through_already_comes_first():
    placement = star([5, 5])
    arrive(placement, "ana", 0, 10)
    arrive(placement, "bob", 50, 52)
    assert arrive(placement, "eva", 3, 4).broker == placement.broker_of("ana")
    assert arrive(placement, "rui", 51, 51).broker == placement.broker_of("bob")
    assert placement.traffic == 12


def test_whoever_costs_nothing_elsewhere_makes_room():
    placement = star([2, 4], alpha=2)
    for name, low, high in (("ana", 0, 10), ("bob", 100, 110), ("eva", 2, 3), ("rui", 105, 106), ("zoe", 0, 10)):
        arrive(placement, name, low, high)
    assert [placement.column_of(name) for name in ("ana", "eva", "bob", "rui", "zoe")] == [0, 0, 1, 1, 1]
    arrived = arrive(placement, "max", 50, 60)  # a box of its own at the first broker, which is full; else 40 more
    assert arrived.broker == 0
    assert arrived.moved == (("ana", 0, 1),)


def test_somebody_is_moved_further_when_all_near_brokers_are_full():
    placement = star([1, 1])
    assert arrive(placement, "ana", 0, 1, 50.0).broker == 0
    arrived = arrive(placement, "bob", 5, 6, 1.0)  # only the first broker is near enough
    assert arrived.broker == 0
    assert arrived.moved == (("ana", 0, 1),)
    with pytest.raises(PlacementError, match="no broker has room for eva: all 2"):
        arrive(placement, "eva", 5, 6, 50.0)


def test_improvement_moves_no_more_than_its_budget_and_lowers_traffic():
    placement = star([3, 3])
    for name, low, column in (("a", 0, 0), ("b", 100, 0), ("c", 1, 1), ("d", 101, 1)):
        arrive(placement, name, low, low + 1)
        if placement.column_of(name) != column:
            placement.move(name, column)
    before = placement.traffic
    assert improve(placement, 0, np.random.default_rng(1)).after == before
    done = improve(placement, 2, np.random.default_rng(1))
    assert len(done.moved) <= 2
    assert done.after == placement.traffic < before


def crowd(placement, count, seed, spread=10.0):
    random = np.random.default_rng(seed)
    for number in range(count):
        low = random.uniform(0, spread, (1, 2))
        placement.arrive(f"{seed}.{number}", low, low + random.uniform(0, 1, (1, 2)), random.uniform(0, 5, 2), 40.0)


def test_the_same_changes_give_the_same_placement():
    made = []
    for _ in range(2):
        tree = BrokerTree.star([0.0, 0.0], np.random.default_rng(3).uniform(0, 5, (5, 2)))
        placement = DynamicPlacement(tree, [30] * 5, 2)
        crowd(placement, 100, 1)
        for number in range(0, 100, 3):
            placement.leave(f"1.{number}")
        improve(placement, 10, np.random.default_rng(4))
        made.append({name: placement.broker_of(name) for name in placement})
    assert made[0] == made[1]


def test_drift_above_its_limit_leads_to_a_new_plan_that_is_adopted():
    tree = BrokerTree.star([0.0, 0.0], np.random.default_rng(3).uniform(0, 5, (4, 2)))
    placement = DynamicPlacement(tree, [60] * 4, 2, alpha=2)
    crowd(placement, 60, 1)
    random = np.random.default_rng(5)

    def plan(problem, random):
        return greedy_offline(problem)

    watch = Watch.over(placement, plan, random, limit=1.0)
    assert watch.baseline == pytest.approx(excess(placement, np.random.default_rng(5)))
    for number in range(0, 60, 2):
        placement.leave(f"1.{number}")
    crowd(placement, 60, 2)
    before = placement.traffic
    drift, moved = watch.check(placement, random)
    assert watch.replanned == (drift > 1.0)
    assert placement.traffic <= before
    assert (moved > 0) == (placement.traffic < before)
    found = placement.snapshot()
    assert verify(found.problem, found.placement).is_feasible


def test_a_placement_that_breaks_a_limit_or_is_of_others_is_not_adopted():
    placement = star([1, 3])
    arrive(placement, "ana", 0, 1)
    arrive(placement, "bob", 0, 1)
    found = placement.snapshot()
    wrong = greedy_offline(found.problem)
    wrong.brokers[:] = 0
    with pytest.raises(PlacementError, match="breaks a limit"):
        placement.adopt(found, wrong)
    arrive(placement, "eva", 0, 1)
    with pytest.raises(PlacementError, match="of other subscribers"):
        placement.adopt(found, found.placement)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda placement: arrive(placement, "ana", 0, 1), InvalidValueError, "there is a subscriber 'ana' already"),
        (lambda placement: placement.leave("bob"), UnknownIdError, "there is no subscriber 'bob'"),
        (lambda placement: arrive(placement, "bob", 2, 1), InvalidValueError, "expected finite numbers, low <= high"),
        (lambda placement: arrive(placement, "bob", 0, 1, 0.5), PlacementError, "no broker is near enough to bob"),
        (lambda placement: placement.arrive("b", [[0, 1]], [[1, 2]], [1.0], 9), InvalidValueError, "of 1 attributes"),
        (lambda placement: placement.arrive("b", [[0]], [[1]], [1.0, 2.0], 9), InvalidValueError, "1 finite numbers"),
        (lambda placement: improve(placement, -1, np.random.default_rng(1)), InvalidValueError, "budget: -1"),
        (lambda placement: placement.move("ana", 7), InvalidValueError, r"column 7; expected one that .*of \[0, 1\]"),
        (lambda placement: placement.move("ana", -1), InvalidValueError, "column -1; expected one that ana may have"),
        (lambda placement: placement.move("ana", None), InvalidValueError, "column None; expected one that ana"),
        (lambda placement: placement.move("bob", 1), UnknownIdError, "there is no subscriber 'bob'"),
        (lambda _: star([0, 0]), PlacementError, "from 1 to 1e"),
        (lambda _: star([1]).snapshot(), PlacementError, "there are no subscribers"),
        (lambda _: Watch(greedy_offline, 1.0, 0.5), InvalidValueError, "limit: 0.5"),
    ],
)
def test_what_cannot_be_is_refused(change, error, message):
    placement = star([2, 2])
    arrive(placement, "ana", 0, 1)
    with pytest.raises(error, match=message):
        change(placement)
    assert list(placement) == ["ana"]
    assert placement.loads.sum() == 1
    assert placement.traffic == 1


def test_nobody_is_moved_to_a_leaf_that_is_full_or_too_far():
    placement = star([1, 1, 5])
    arrive(placement, "ana", 0, 1, 2.0)
    arrive(placement, "bob", 0, 1, 3.0)
    assert [placement.column_of(name) for name in ("ana", "bob")] == [0, 1]
    with pytest.raises(PlacementError, match=r"column 0 is full: it has room for 1 and has 1; bob stays at column 1"):
        placement.move("bob", 0)
    with pytest.raises(InvalidValueError, match=r"column 2; expected one that ana may have, of \[0\]"):
        placement.move("ana", 2)
    placement.move("bob", 1)  # where it is already
    assert [placement.column_of(name) for name in ("ana", "bob")] == [0, 1]
    assert placement.loads.tolist() == [1, 1, 0]
    assert verify(*now_at(placement)).is_feasible


def now_at(placement):
    found = placement.snapshot()
    return found.problem, found.placement


@pytest.mark.parametrize(
    ("rooms", "attributes", "message"),
    [
        ([1.5, 2], 1, r"rooms: \[1.5, 2.0\]; expected 2 whole numbers"),
        ([np.nan, 2], 1, "rooms: "),
        ([2**70, 2], 1, r"from 1 to 1e\+12 in all"),
        ([2**62, 2**62], 1, r"from 1 to 1e\+12 in all"),
        ([2, 2], 0, "attributes: 0; expected a whole number of at least 1"),
        ([2, 2], -1, "attributes: -1"),
        ([2, 2], 1.5, "attributes: 1.5"),
        ([2, 2], 2.0, "attributes: 2.0; expected a whole number of at least 1"),
        ([2, 2], np.nan, "attributes: nan"),
        ([2, 2], "2", "attributes: '2'"),
        ([2, 2], True, "attributes: True"),
    ],
)
def test_rooms_and_attributes_are_whole_numbers(rooms, attributes, message):
    tree = BrokerTree.star([0.0], [[1.0], [2.0]])
    with pytest.raises(PlacementError, match=message):
        DynamicPlacement(tree, rooms, attributes)


def test_newcomers_beyond_all_bounds_are_refused():
    placement = star([2])
    with pytest.raises(InvalidValueError, match=r"at \[1e\+200\]; expected coordinates from"):
        placement.arrive("ana", [[0.0]], [[1.0]], [1e200], 1e300)
    with pytest.raises(InvalidValueError, match=r"boxes: values up to 1e\+300"):
        placement.arrive("ana", [[0.0]], [[1e300]], [1.0], 5.0)
    assert len(placement) == 0


def test_events_of_a_density_have_as_many_attributes_as_the_placement():
    with pytest.raises(PlacementError, match="density: events of 2 attributes where interests have 1"):
        star([2], density=Density.sampled([[1.0, 2.0]]))


def test_newcomers_who_make_the_volume_of_all_interests_too_large_are_refused_as_problems_refuse_them():
    placement = DynamicPlacement(BrokerTree.star([0.0], [[1.0]]), [5], 4)

    def come(name, low, high):
        placement.arrive(name, [[low] * 4], [[high] * 4], [1.0], 9.0)

    with pytest.raises(InvalidValueError, match=r"boxes: a volume of 1e\+120 with all others; expected 1e\+100"):
        come("ana", 0.0, 1e30)
    come("ana", 0.0, 9e24)
    with pytest.raises(InvalidValueError, match=r"a volume of 1.0\d*e\+101 with all others"):
        come("bob", -9e24, 1.0)  # the box around both: 18e24 along each attribute
    placement.snapshot()
    placement.leave("ana")
    come("bob", -9e24, 1.0)
    with pytest.raises(InvalidValueError, match="with all others"):
        come("ana", 0.0, 9e24)
    assert np.isfinite(placement.traffic)
    assert verify(*now_at(placement)).is_feasible


def test_sampled_events_have_a_measure_however_large_interests_are():
    density = Density.sampled([[0.0] * 4])
    placement = DynamicPlacement(BrokerTree.star([0.0], [[1.0]]), [5], 4, density=density)
    placement.arrive("ana", [[0.0] * 4], [[1e30] * 4], [1.0], 9.0)
    assert placement.traffic == 1.0
    assert verify(*now_at(placement)).is_feasible


def test_of_leaves_that_cost_the_same_the_least_loaded_is_taken():
    tree = BrokerTree.star([0.0], [[1.0], [1.0], [1.0]])
    placement = DynamicPlacement(tree, [9, 9, 9], 2, alpha=9)
    sizes = np.random.default_rng(0).random((20, 2))
    for number, size in enumerate(sizes):  # apart from each other: each adds its own area, wherever it goes
        corner = np.full(2, 3.0 * number) + 0.1
        placement.arrive(f"s{number}", [corner], [corner + size], [1.0], 9.0)
        assert np.ptp(placement.loads) <= 1
