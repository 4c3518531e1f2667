"""What loading numba costs, and what it leaves to kernels of others."""

import subprocess
import sys

PROGRAM = """
import sys
import rankcast.compiling.dispatchers
assert "scipy.linalg" not in sys.modules

import numba
import numpy as np

@numba.njit
def product(left, right):
    return left @ right

assert product(np.eye(2), np.ones((2, 2))).tolist() == [[1, 1], [1, 1]]
assert "scipy.linalg" in sys.modules
"""


def test_scipy_is_imported_when_somebodys_kernel_needs_it():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
