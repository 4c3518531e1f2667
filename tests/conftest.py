"""Hypothesis profiles, shared by every test.

``dev`` is the default; ``ci`` applies where the environment says ``CI=true``; ``HYPOTHESIS_PROFILE`` names any of them
and wins. No profile has a deadline: the first call of a numba kernel compiles it, which says nothing about the code
under test.
"""

import os

from hypothesis import settings

settings.register_profile("dev", max_examples=100, deadline=None, print_blob=True)
# Derandomised: a red build is red again on the next run, and an unrelated change does not meet a new counterexample.
settings.register_profile("ci", max_examples=200, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", max_examples=5_000, deadline=None, print_blob=True)

_default = "ci" if os.environ.get("CI", "").lower() == "true" else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or _default)
