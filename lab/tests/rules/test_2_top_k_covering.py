"""Rules 2.2, 2.4 and 2.5: what the studies of top-k covering rest on."""

import numpy as np
import pytest

from rankcast.covering.topk.cover_set import Cover
from rankcast.overlay.simulation.ranges import Ranges
from rankcast_lab.engines.bulk import forwarded
from rankcast_lab.studies.covering_top_k import Depth, Sample, depths


class TestAncestors:
    def test_ancestor_cover_hides_whatever_rank_cover_hides(self):
        random = np.random.default_rng(1)
        starts = random.random((300, 1))
        ends = starts + random.random((300, 1))
        for k in (1, 2, 5):
            by_ancestors = set(forwarded(starts, ends, Cover.ANCESTOR, k).tolist())
            assert by_ancestors <= set(forwarded(starts, ends, Cover.RANK, k).tolist())


class TestErratumDepthByTheShortestPath:
    """[5,6] is two steps below [4,10], and one below [0,6]. A broker without [0,6] hides it, one with it would not."""

    RANGES = ((4, 10), (4, 7), (5, 6), (0, 6))

    def passed(self, numbers, by, k=2):
        """Return who is passed on of some ranges, by a reading of depth."""
        table = np.array([self.RANGES[number] for number in numbers], float)
        found = depths(Ranges(table[:, :1], table[:, 1:]), by, np.random.default_rng(1))
        return [number for number, depth in zip(numbers, found, strict=True) if depth <= k]

    def both_ways(self, by):
        first, second = self.passed([0, 1, 2], by), self.passed([3], by)
        return self.passed(sorted(first + second), by), self.passed([0, 1, 2, 3], by)

    def test_by_the_shortest_path_the_result_depends_on_the_way(self):
        hop_by_hop, at_once = self.both_ways(Depth.SHORTEST)
        assert (hop_by_hop, at_once) == ([0, 1, 3], [0, 1, 2, 3])

    def test_by_the_longest_chain_it_does_not(self):
        hop_by_hop, at_once = self.both_ways(Depth.LONGEST)
        assert hop_by_hop == at_once == [0, 1, 3]


class TestErratumSelectivity:
    def test_one_percent_of_50_000_is_500(self):
        sample = Sample(np.arange(50_000), {})  # a chain: as many above each as its number
        assert sample.ancestor_share(0.01 * 50_000) == pytest.approx(1.0)
