"""Warming up compiles every kernel of placement, each for one signature: nothing is compiled while it is timed.

From numba's cache only those kernels are loaded that are called from Python.
"""

import subprocess
import sys

AFTER_WARMING_UP = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.problem.boxes import Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, limits_of_delay
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.tree_design import design_tree
from rankcast.placement.warming import warm_up

def kernels():
    found = [one for one in gc.get_objects() if isinstance(one, Dispatcher) and "placement" in one.py_func.__module__]
    return {f"{one.py_func.__module__}.{one.py_func.__name__}": one.signatures for one in found}

warm_up(Algorithm)
before = kernels()
random = np.random.default_rng(0)
tree = BrokerTree([0.0, 0.0], random.random((7, 2)), [-1, -1, 0, 0, 0, 1, 1])
sites = random.random((5, 2))
low = random.random((60, 2))
for density in (Density.sampled(random.random((30, 2))), Density.sampled(random.random((1, 2)), [2.0])):
    problem = PlacementProblem(
        tree,
        Interests.of_boxes(low, low + 0.1, np.arange(0, 61, 2)),
        random.integers(0, 30, 90),
        sites,
        limits_of_delay(tree, sites, 2.0),
        random.integers(0, 5, 90),
        beta=1.5,
        beta_max=3.0,
        alpha=[1, 2, 3, 2, 3, 2, 3],
        density=density,
    )
    for algorithm in Algorithm:
        place(problem, algorithm, random, moves=300)
    design_tree(problem, 4, random, moves=100, rounds=1, tries=20)
after = kernels()
assert after == before, {name: found for name, found in after.items() if found != before.get(name)}
print(len([name for name, found in after.items() if len(found) == 1]), max(map(len, after.values())))
"""


def test_nothing_is_compiled_after_warming_up_and_no_kernel_twice():
    run = subprocess.run([sys.executable, "-c", AFTER_WARMING_UP], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    warm, signatures = map(int, run.stdout.split())
    assert warm >= 12
    assert signatures == 1
