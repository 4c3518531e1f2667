"""Every algorithm can be had by name, and its result can be audited."""

import numpy as np
import pytest

from placement_builders import line_problem
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.problem.audit import Rule, verify


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_every_algorithm_places_by_name(algorithm):
    problem = line_problem([(0, 2), (1, 3), (7, 9), (8, 9)], brokers=(1, 2), places=[1, 2, 1, 2])
    found = verify(problem, place(problem, algorithm, np.random.default_rng(0), moves=50))
    assert found.broken() <= {Rule.LOAD}
    assert found.loads.sum() == 4


@pytest.mark.parametrize(
    "algorithm", [Algorithm.GREEDY_ONLINE, Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH]
)
def test_like_interests_go_together_where_that_is_looked_at(algorithm):
    problem = line_problem([(0, 2), (7, 9), (0, 2), (7, 9)], brokers=(1, 2), beta=1.0, beta_max=1.0)
    found = place(problem, algorithm, np.random.default_rng(0), moves=50)
    assert found.brokers[0] == found.brokers[2] != found.brokers[1] == found.brokers[3]
    assert verify(problem, found).bandwidth == 4
