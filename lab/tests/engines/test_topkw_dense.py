"""Top-k in a window for many ideal points: every queue against the definition, and where the bounded one fails."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, step
from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError
from rankcast.model.events import Identity
from rankcast.model.policies import TopKWindow
from rankcast_lab.engines import topkw_dense
from rankcast_lab.engines.topkw_dense import Deliveries, DenseTopKWindow, QueueKind
from rankcast_lab.engines.topkw_dense_lengths import (
    chance_at_end,
    expected_deliveries,
    last_position,
    queue_length,
    skyband_length,
)

EXACT_QUEUES = (QueueKind.EXACT, QueueKind.SKYBAND)


def distances(points, ideal, weights=None, scales=None):
    total = np.zeros(len(points))
    for dimension, value in enumerate(ideal):
        scale = 1.0 if scales is None else scales[dimension]
        difference = (points[:, dimension] - value) / scale
        total = total + (1.0 if weights is None else weights[dimension]) * (difference * difference)
    return np.sqrt(total)


def by_definition(points, ideal, k, window, weights=None, scales=None):
    """Return (event, instant) of everything that is ever among the best k, newer before older where distances tie."""
    far = distances(points, ideal, weights, scales)
    found = {}
    for instant in range(len(points)):
        first = 0 if window is None else max(0, instant - window + 1)
        for event in sorted(range(first, instant + 1), key=lambda one: (far[one], -one))[:k]:
            found.setdefault(event, instant)
    return set(found.items())


def delivered(ideals, points, cuts=(), **options):
    """Return the set of (event, instant) of each subscription, the events published in batches."""
    engine = DenseTopKWindow(ideals, **options)
    found = Deliveries.joined([engine.publish(batch) for batch in np.split(points, sorted(cuts))])
    rows = list(zip(found.subscription.tolist(), found.event.tolist(), found.instant.tolist(), strict=True))
    assert len({row[:2] for row in rows}) == len(rows), "delivered twice"
    return [{row[1:] for row in rows if row[0] == subscription} for subscription in range(len(ideals))]


def events_of(found):
    return [{event for event, _ in one} for one in found]


@st.composite
def streams(draw):
    """Draw points with many ties, exact duplicates and drifts; ideal points among them; cuts of the stream."""
    count, dimensions = draw(st.integers(1, 120)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.integers(0, draw(st.sampled_from([2, 5, 1000])), (count, dimensions)).astype(float)
    points += draw(st.sampled_from([-1.0, 0.0, 0.0, 0.5])) * np.arange(count)[:, None]
    ideals = points[rng.integers(0, count, 2)] + draw(st.sampled_from([0.0, 0.25]))
    return ideals, points, draw(st.lists(st.integers(0, count), max_size=3))


@pytest.mark.parametrize("queue", EXACT_QUEUES)
@settings(max_examples=60)
@given(stream=streams(), k=st.integers(0, 7), window=st.sampled_from([1, 2, 3, 5, 8, 20, 60, 500, None]))
def test_exact_queues_deliver_by_definition(queue, stream, k, window):
    ideals, points, cuts = stream
    expected = [by_definition(points, ideal, k, window) for ideal in ideals]
    assert delivered(ideals, points, cuts, k=k, window=window, queue=queue) == expected


@settings(max_examples=30)
@given(stream=streams(), k=st.integers(1, 4), window=st.integers(5, 30), data=st.data())
def test_weights_and_scales_change_distances_and_nothing_else(stream, k, window, data):
    ideals, points, cuts = stream
    positive = st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=ideals.shape[1], max_size=ideals.shape[1])
    weights, scales = data.draw(positive), data.draw(positive)
    expected = [by_definition(points, ideal, k, window, weights, scales) for ideal in ideals]
    assert delivered(ideals, points, cuts, k=k, window=window, weights=weights, scales=scales) == expected


@pytest.mark.parametrize("dimensions", [1, 2, 5])
@pytest.mark.parametrize("k", [1, 6])
def test_many_blocks_and_rebuilds_change_nothing(monkeypatch, dimensions, k):
    monkeypatch.setattr(topkw_dense, "BLOCK", 300)
    monkeypatch.setattr(topkw_dense, "ROOM", 1)
    rng = np.random.default_rng(7)
    # Twice nearer and nearer, then farther and farther: what leaves is better than what comes.
    distance = np.concatenate([np.linspace(1, 5, 700), np.linspace(5, 1, 200), np.linspace(1, 9, 700)])
    points = distance[:, None] * (1 + 0.1 * rng.random((len(distance), dimensions)))
    ideals = rng.random((4, dimensions))
    engine = DenseTopKWindow(ideals, k=k, window=150)
    found = engine.publish(points)
    assert engine.rebuilds[0] > 4
    rows = zip(found.event.tolist(), found.instant.tolist(), strict=True)
    assert set(rows) == set().union(*(by_definition(points, ideal, k, 150) for ideal in ideals))


def test_the_short_form_for_two_dimensions_ties_exactly_as_the_general_one():
    rng = np.random.default_rng(3)
    points = rng.random((3000, 2)).round(2) / 3
    ideals = rng.random((5, 2)) / 3
    flat = [np.column_stack([part, np.zeros(len(part))]) for part in (points, ideals)]
    options = {"k": 3, "window": 40}
    assert delivered(ideals, points, **options) == delivered(flat[1], flat[0], **options)


def test_step_functions_agree():
    rng = np.random.default_rng(4)
    points, ideal = rng.integers(0, 6, (80, 2)).astype(float), np.array([2.0, 3.0])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    queue, rows = new_queue(TopKWindow(k=3, window=12)), set()
    for number, distance in enumerate(distances(points, ideal)):
        now = start + timedelta(seconds=number)
        queue, found = step(queue, Candidate(Identity("/points", f"{number:03}"), now, -float(distance)), now)
        rows |= {(int(one.candidate.identity.id), number) for one in found}
    assert delivered([ideal], points, k=3, window=12) == [rows]


@pytest.mark.parametrize("queue", QueueKind)
def test_with_k_of_zero_nothing_is_delivered(queue):
    assert delivered([[0.0, 0.0]], np.ones((20, 2)), k=0, window=5, queue=queue) == [set()]


@pytest.mark.parametrize("queue", QueueKind)
@pytest.mark.parametrize("window", [1, 3])
def test_a_window_of_at_most_k_delivers_everything_on_arrival(queue, window):
    expected = {(event, event) for event in range(20)}
    assert delivered([[0.0], [9.0]], np.ones((20, 1)), (7,), k=3, window=window, queue=queue) == [expected, expected]


@pytest.mark.parametrize("queue", QueueKind)
def test_in_a_window_without_end_only_the_best_k_so_far_are_delivered(queue):
    points = np.random.default_rng(5).random((500, 2))
    ideals = np.array([[0.5, 0.5], [0.0, 1.0]])
    expected = [by_definition(points, ideal, 4, None) for ideal in ideals]
    assert delivered(ideals, points, (100,), k=4, window=None, queue=queue) == expected


def test_of_equal_distances_the_newer_is_better():
    # Every event is best when it arrives; nothing is delivered a second time when the newer one leaves.
    assert delivered([[0.0]], np.ones((6, 1)), k=1, window=3) == [{(event, event) for event in range(6)}]


def test_deliveries_are_put_in_order():
    engine = DenseTopKWindow([[0.0], [1.0]], k=1, window=2)
    found = engine.publish([[0.4], [0.6], [0.5]]).in_order()
    assert found.instant.tolist() == sorted(found.instant.tolist())
    assert len(found) == len(found.subscription) == len(found.event)


def test_an_empty_batch_and_no_subscriptions_deliver_nothing():
    assert len(DenseTopKWindow([[0.0]], k=1, window=2).publish(np.empty((0, 1)))) == 0
    assert len(DenseTopKWindow(np.empty((0, 1)), k=1, window=2).publish([[1.0]])) == 0


@pytest.mark.parametrize("queue", QueueKind)
def test_queues_stay_within_what_they_may_hold(queue):
    engine = DenseTopKWindow([[0.5, 0.5]], k=5, window=100, queue=queue)
    engine.publish(np.random.default_rng(6).random((2000, 2)))
    assert 5 <= engine.sizes()[0] <= (100 if queue is QueueKind.SKYBAND else engine.capacity)


class TestBoundedQueue:
    """Right with a probability on independent scores; wrong on correlated ones."""

    def test_it_misses_few_deliveries_of_independent_scores(self):
        rng = np.random.default_rng(8)
        points, ideals = rng.random((20_000, 2)), rng.random((40, 2))
        options = {"k": 5, "window": 1000}
        right = events_of(delivered(ideals, points, **options))
        bounded = events_of(delivered(ideals, points, **options, queue=QueueKind.BOUNDED))
        total = sum(map(len, right))
        missed = sum(len(one - other) for one, other in zip(right, bounded, strict=True))
        assert total > 5_000
        assert missed <= 0.001 * total

    def test_a_queue_of_k_misses_many(self):
        rng = np.random.default_rng(8)
        points, ideals = rng.random((20_000, 2)), rng.random((10, 2))
        right = events_of(delivered(ideals, points, k=5, window=1000))
        short = events_of(delivered(ideals, points, k=5, window=1000, queue=QueueKind.BOUNDED, sigma=0.99))
        missed = sum(len(one - other) for one, other in zip(right, short, strict=True))
        assert missed > 0.05 * sum(map(len, right))

    def test_it_collapses_where_content_repeats_and_depends_on_time(self):
        # Bursts of one good point fill the queue; while they live, all that will follow them is turned away.
        burst, others = np.zeros((60, 1)), np.linspace(1, 2, 140)[:, None]
        points = np.concatenate([burst, others] * 10)
        right = events_of(delivered([[0.0]], points, k=2, window=100))[0]
        bounded = events_of(delivered([[0.0]], points, k=2, window=100, queue=QueueKind.BOUNDED))[0]
        assert len(right - bounded) > 0
        assert len(bounded - right) > 0


class TestLengths:
    def test_lengths_are_the_corrected_ones(self):
        corrected = {1: 10, 2: 13, 5: 20, 10: 30, 20: 46, 50: 88, 100: 151, 200: 271, 500: 609, 1000: 1152, 2000: 2213}
        assert {k: queue_length(k) for k in corrected} == corrected

    @given(st.integers(1, 40), st.integers(1, 12))
    def test_the_chance_is_that_of_a_binomial(self, position, k):
        coins = position + k - 1
        exact = Fraction(sum(math.comb(coins, heads) for heads in range(k)), 2**coins)
        assert chance_at_end(position, k) == pytest.approx(float(exact), rel=1e-12)

    @given(st.integers(1, 30), st.data())
    def test_in_a_finite_window_the_chance_is_a_share_of_arrangements(self, window, data):
        position, k = data.draw(st.integers(1, window)), data.draw(st.integers(1, window + 3))
        exact = sum(
            Fraction(
                math.comb(window, j) * math.comb(window - 1, position - 1),
                2 * math.comb(2 * window - 1, position - 1 + j),
            )
            for j in range(min(k, window + 1))
        )
        assert chance_at_end(position, k, window) == pytest.approx(float(exact), rel=1e-9)

    def test_lengths_hardly_depend_on_the_window(self):
        lengths = [last_position(100, 0.001, window) for window in (10_000, 1_000_000, None)]
        assert lengths == sorted(lengths)
        assert lengths[-1] - lengths[0] <= 2

    @pytest.mark.parametrize(("k", "published"), [(10, 760), (100, 6068), (1000, 54631)])
    def test_expected_deliveries_are_near_the_published_ones(self, k, published):
        assert expected_deliveries(1_000_000, k, 20_000) == pytest.approx(published, rel=0.02)

    def test_expected_deliveries_at_the_ends(self):
        assert expected_deliveries(500, 0, 10) == 0
        assert expected_deliveries(500, 10, 10) == 500
        assert expected_deliveries(5, 10, 100) == 5
        assert expected_deliveries(4, 1, 100) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4)

    def test_the_skyband_is_as_long_as_the_formula_says(self):
        engine = DenseTopKWindow(np.random.default_rng(1).random((60, 2)), k=4, window=300, queue=QueueKind.SKYBAND)
        engine.publish(np.random.default_rng(2).random((3000, 2)))
        assert engine.sizes().mean() == pytest.approx(skyband_length(4, 300), rel=0.1)
        assert skyband_length(7, 5) == 5


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"k": -1}, "k: -1 is not a whole number of at least 0"),
            ({"window": 0}, "window: 0 is not a whole number of at least 1"),
            ({"ideals": [1.0, 2.0]}, r"ideals: an array of shape \(2,\)"),
            ({"ideals": [[1.0, math.nan]]}, "ideals: row 0"),
            ({"weights": [1.0, 0.0]}, "weights: every value has to be a finite number above zero"),
            ({"scales": -1.0}, "scales: every value"),
            ({"sigma": 1.0}, "sigma: 1.0 is not a probability between 0 and 1"),
        ],
    )
    def test_subscriptions(self, options, message):
        with pytest.raises(InvalidSubscriptionError, match=message):
            DenseTopKWindow(**{"ideals": [[0.0, 0.0]], "k": 1, "window": 5, **options})

    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ([[0.0, math.inf]], "points: row 0"),
            ([[0.0]], "points: 1 dimensions; expected 2"),
            ([[0.0, 1e200]], "beyond the largest float"),
        ],
    )
    def test_events_change_nothing(self, points, message):
        engine = DenseTopKWindow([[0.0, 0.0]], k=1, window=5)
        with pytest.raises(InvalidEventError, match=message):
            engine.publish(points)
        assert engine.published == 0
        assert len(engine.publish([[1.0, 1.0]])) == 1
