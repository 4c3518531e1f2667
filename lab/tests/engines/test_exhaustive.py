"""Trying everything finds the least traffic, on problems whose least traffic is plain to see."""

import numpy as np
import pytest

from placement_builders import line_problem
from rankcast.model.errors import PlacementError
from rankcast_lab.engines.exhaustive import least_traffic


def total(boxes):
    return float((boxes[:, 0] + boxes[:, 1]).sum())


def test_like_interests_go_together():
    problem = line_problem([(0, 2), (7, 9), (0, 2), (7, 9)], brokers=(1, 2), beta=1.0, beta_max=1.0, alpha=1)
    assert least_traffic(problem, total) == 4


def test_limits_of_load_are_kept_and_may_leave_nothing():
    boxes = [(0, 1), (0, 1), (0, 1), (5, 6)]
    assert least_traffic(line_problem(boxes, brokers=(1, 2), beta=1.5, beta_max=1.5, alpha=1), total) == 2
    assert least_traffic(line_problem(boxes, brokers=(1, 2), beta=1.0, beta_max=1.0, alpha=1), total) == 7
    far = line_problem(boxes, brokers=(1, 30), places=[1, 1, 1, 1], limit=3.0, beta=1.0, beta_max=1.0)
    assert least_traffic(far, total) is None


def test_a_problem_that_is_too_large_is_refused():
    with pytest.raises(PlacementError, match="expected at most 100,000 on one level"):
        least_traffic(line_problem([(0, 1)] * 40, brokers=tuple(np.arange(1, 4))), total)
