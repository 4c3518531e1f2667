"""Section 4 of the rules, the queue of top-k in a window: lengths, deliveries, and where the bounded queue fails."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import rankcast as rc
import rankcast.delivery.rules.bounded
from rankcast_lab.engines.topkw_dense import Deliveries, DenseTopKWindow, QueueKind
from rankcast_lab.engines.topkw_dense_lengths import (
    SIGMA,
    chance_at_end,
    expected_deliveries,
    last_position,
    queue_length,
    skyband_length,
)
from rankcast_lab.studies.topkw_data import sale, sessions
from rankcast_lab.studies.topkw_queue import simulated

LENGTHS = {1: 10, 2: 13, 5: 20, 10: 30, 20: 46, 50: 88, 100: 151, 200: 271, 500: 609, 1000: 1152, 2000: 2213}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
TABLE_2 = {
    "uniform": (102, 194, 418, 760, 1382, 3196, 6068, 11728, 28096, 54631, 106738),
    "clustered": (104, 198, 410, 784, 1393, 3217, 6114, 11749, 28018, 54739, 106638),
}
"""Publications delivered to one subscription, of a million, in windows of 20,000."""


def delivered(points, ideals=((0.0,),), queue=QueueKind.EXACT, **options):
    """Return the set of (subscription, event) that a queue delivers."""
    found = DenseTopKWindow(ideals, queue=queue, **options).publish(points)
    return set(zip(found.subscription.tolist(), found.event.tolist(), strict=True))


class TestTheBoundedQueue:
    def test_p_is_that_of_a_binomial_as_the_window_grows(self):
        for position, k in ((1, 1), (4, 2), (13, 5)):
            coins = position + k - 1
            binomial = sum(math.comb(coins, heads) for heads in range(k)) / 2**coins
            assert chance_at_end(position, k) == pytest.approx(binomial)
            assert chance_at_end(position, k, 10**6) == pytest.approx(binomial, rel=1e-3)

    def test_erratum_the_chance_of_ever_entering_is_twice_that_of_being_there_at_the_end(self):
        end, ever = simulated(np.random.default_rng(1), 12, 5, 20_000)
        assert end == pytest.approx(chance_at_end(12, 5), rel=0.1)
        assert ever == pytest.approx(2 * chance_at_end(12, 5), rel=0.15)

    def test_so_its_length_is_that_of_half_the_share_it_may_miss(self):
        for k in (1, 20, 300):
            assert queue_length(k, SIGMA) == last_position(k, SIGMA / 2)

    @pytest.mark.parametrize(("k", "length"), LENGTHS.items())
    def test_the_best_length_for_each_k(self, k, length):
        assert queue_length(k) == rankcast.delivery.rules.bounded.queue_length(k, SIGMA) == length

    @pytest.mark.parametrize("k", [50, 200, 1000, 2000])
    def test_its_length_grows_like_k_and_a_root_of_k(self, k):
        z = NormalDist().inv_cdf(1 - SIGMA / 2)
        assert queue_length(k) == pytest.approx(k + z * math.sqrt(2 * k) + z * z / 2, abs=2)

    def test_on_independent_scores_it_misses_and_invents_very_little(self):
        generator = np.random.default_rng(1)
        points, ideals = generator.random((20_000, 2)), generator.random((30, 2))
        right, bounded = (delivered(points, ideals, queue, k=5, window=1000) for queue in list(QueueKind)[:2])
        assert len(right - bounded) <= SIGMA * len(right)

    def test_it_both_misses_and_falsely_delivers_where_content_repeats_in_time(self):
        trace = sessions(np.random.default_rng(2), 40_000)
        ideals = np.random.default_rng(3).random((5, 2))
        right, bounded = (delivered(trace, ideals, queue, k=20, window=4_000) for queue in list(QueueKind)[:2])
        assert len(right - bounded) > 5 * SIGMA * len(right)
        assert len(bounded - right) > 0.01 * len(bounded)

    @pytest.mark.parametrize("k", [1, 10])
    def test_it_collapses_where_correlated_scores_get_worse(self, k):
        """A ticket sale whose price climbs: every offer is turned away, and would be the best later."""
        prices = sale(np.random.default_rng(1), 30_000, seats=900)
        right, bounded = (delivered(prices, queue=queue, k=k, window=3_000) for queue in list(QueueKind)[:2])
        assert len(right - bounded) > 0.95 * len(right)

    def test_of_a_counter_it_learns_as_many_events_of_a_window_as_it_holds(self):
        counter = np.arange(30_000.0)[:, None]
        right, bounded = (delivered(counter, queue=queue, k=1, window=5_000) for queue in list(QueueKind)[:2])
        assert 1 - len(right & bounded) / len(right) == pytest.approx(1 - queue_length(1) / 5_000, abs=0.001)
        assert len(right) == 30_000 - 5_000 + 1


class TestTheExactQueue:
    def test_it_is_the_default(self):
        assert DenseTopKWindow([[0.0]], k=1, window=9).queue is QueueKind.EXACT

    @pytest.mark.parametrize("k", [1, 7])
    def test_it_rebuilds_itself_where_the_bounded_queue_collapses(self, k):
        prices = sale(np.random.default_rng(4), 6_000, seats=150)
        engine = DenseTopKWindow([[0.0]], k=k, window=500)
        found = engine.publish(prices)
        assert engine.rebuilds[0] > 0
        skyband = DenseTopKWindow([[0.0]], k=k, window=500, queue=QueueKind.SKYBAND).publish(prices)
        assert set(zip(found.event, found.instant, strict=True)) == set(
            zip(skyband.event, skyband.instant, strict=True)
        )

    @pytest.mark.parametrize("queue", QueueKind)
    def test_special_cases_are_defined_for_every_queue(self, queue):
        points = np.arange(20.0)[:, None]
        assert delivered(points, queue=queue, k=0, window=5) == set()
        assert len(delivered(points, queue=queue, k=5, window=5)) == 20
        assert delivered(points, queue=queue, k=3, window=None) == {(0, 0), (0, 1), (0, 2)}

    def test_batches_change_nothing(self):
        points = np.random.default_rng(5).random((3_000, 2))
        whole = DenseTopKWindow([[0.5, 0.5]], k=4, window=200).publish(points)
        engine = DenseTopKWindow([[0.5, 0.5]], k=4, window=200)
        parts = Deliveries.joined([engine.publish(part) for part in np.array_split(points, 7)])
        assert whole.event.tolist() == parts.event.tolist()


class TestTheSkyband:
    def test_it_holds_k_times_1_plus_the_difference_of_harmonic_numbers(self):
        engine = DenseTopKWindow(np.random.default_rng(1).random((60, 2)), k=4, window=300, queue=QueueKind.SKYBAND)
        engine.publish(np.random.default_rng(2).random((3_000, 2)))
        expected = 4 * (1 + sum(1 / i for i in range(5, 301)))
        assert skyband_length(4, 300) == pytest.approx(expected)
        assert engine.sizes().mean() == pytest.approx(expected, rel=0.1)

    def test_every_arrival_enters_it(self):
        engine = DenseTopKWindow([[0.0]], k=1, window=10, queue=QueueKind.SKYBAND)
        sizes = []
        for value in (1.0, 2.0, 3.0):
            engine.publish([[value]])
            sizes.append(int(engine.sizes()[0]))
        assert sizes == [1, 2, 3]


class TestExpectedDeliveries:
    def test_the_closed_form(self):
        events, k, window = 1_000_000, 10, 20_000
        harmonic = math.fsum(1 / i for i in range(k + 1, window + 1))
        half = math.comb(2 * k, k) / 4**k
        form = k * events / window + k * harmonic + (events / window - 4 / 3) * 2 * k * half * math.sqrt(1 - k / window)
        assert expected_deliveries(events, k, window) == pytest.approx(form)

    @pytest.mark.parametrize("published", TABLE_2.values(), ids=TABLE_2)
    def test_table_2_the_published_counts_are_near_it_whatever_the_distribution(self, published):
        """Each is that of one subscription; their noise is below twice the root of the mean.

        Of the third column, connections with repeated content, no such form can be true: scores depend on time there.
        """
        for k, count in zip(KS, published, strict=True):
            mean = expected_deliveries(1_000_000, k, 20_000)
            assert abs(count - mean) < 2 * math.sqrt(mean)

    def test_table_2_a_hub_delivers_as_many(self):
        """A hundredth of its window and of its publications; 60 subscriptions are within 4% of their mean."""
        generator, k, window, events = np.random.default_rng(6), 10, 200, 10_000
        hub = rc.Hub(kernels=True)
        for number, (x, y) in enumerate(generator.random((60, 2)).tolist()):
            nearest = rc.IdealPoint([rc.Target("x", x), rc.Target("y", y)])
            wanted = rc.Subscription("1", rc.parse_filter("true"), relevance=nearest)
            hub.add(rc.Subscriber(f"{number}", (wanted,), rc.TopKWindow(k, window)))
        found = hub.publish_many({"x": x, "y": y} for x, y in generator.random((events, 2)).tolist())
        assert len(found.notifications) / 60 == pytest.approx(expected_deliveries(events, k, window), rel=0.04)

    @pytest.mark.parametrize("k", [1, 10])
    def test_it_is_the_mean_of_a_simulation(self, k):
        generator = np.random.default_rng(6)
        ideals = generator.random((60, 2))
        count = len(DenseTopKWindow(ideals, k=k, window=500).publish(generator.random((20_000, 2))))
        assert count / len(ideals) == pytest.approx(expected_deliveries(20_000, k, 500), rel=0.03)


class TestTies:
    @pytest.mark.parametrize("queue", QueueKind)
    def test_newer_wins_exact_ties_in_every_queue(self, queue):
        found = DenseTopKWindow([[0.0]], k=1, window=3, queue=queue).publish(np.ones((5, 1)))
        assert found.event.tolist() == [0, 1, 2, 3, 4]

    def test_distances_that_are_equal_but_for_the_order_of_attributes_tie(self):
        for x, y in np.random.default_rng(5).random((50, 2)) / (3, 7):
            stream = np.array([[x, y], [9.0, 9.0], [y, -x]])
            for points, ideal in ((stream, [[0.0, 0.0]]), (np.column_stack([stream, np.zeros(3)]), [[0.0, 0.0, 0.0]])):
                found = DenseTopKWindow(ideal, k=1, window=3).publish(points)
                assert found.event.tolist() == [0, 2], "an exact tie goes to the newer"
