"""Greedy placement that turns others out where there is no room."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_builders import line_problem, problems
from rankcast.placement.greedy import greedy_online
from rankcast.placement.problem.audit import Rule, verify
from rankcast_lab.engines.greedy_eviction import Again, greedy_with_eviction


@settings(max_examples=40)
@given(problems(), st.sampled_from(Again), st.integers(0, 60))
def test_eviction_keeps_latency_and_says_for_how_many_there_was_no_room(problem, again, steps):
    found = greedy_with_eviction(problem, np.random.default_rng(1), again, steps)
    audit = verify(problem, found.placement)
    assert audit.broken() <= {Rule.LOAD}
    if not found.homeless:
        assert audit.is_feasible
    assert found.homeless <= len(problem)


def test_eviction_finds_room_where_online_greedy_does_not():
    # The first two may have either broker and take the near one, which is the only one of the third.
    problem = line_problem(
        [(0, 1), (0, 1), (0, 1)], brokers=(1, 2), places=[1.0, 1.0, 1.0], limit=9.0, beta=1.0, beta_max=1.4
    )
    tight = line_problem(
        [(0, 1), (0, 1), (5, 6)],
        brokers=(1, 2),
        places=[1.0, 1.0, 0.5],
        limit=[9.0, 9.0, 2.0],
        beta=1.0,
        beta_max=4 / 3,
    )
    assert verify(problem, greedy_online(problem)).is_feasible
    assert not verify(tight, greedy_online(tight)).is_feasible
    for again in Again:
        found = greedy_with_eviction(tight, np.random.default_rng(1), again, 100)
        assert found.homeless == 0
        assert found.evicted > 0
        assert verify(tight, found.placement).is_feasible
