"""Hypothesis profiles, shared by every test.

``same`` is the default and draws the same examples everywhere, so that no run fails by chance; `make search` looks for
new ones. ``HYPOTHESIS_PROFILE`` names another. No profile has a deadline: the first call of a numba kernel compiles it,
which says nothing about the code under test.
"""

import os
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Derandomised: a red run is red again, and an unrelated change does not meet a new counterexample.
settings.register_profile("same", max_examples=100, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", max_examples=5_000, deadline=None, print_blob=True)
# One round of `make search`, which goes on with other seeds for as long as it is told to.
settings.register_profile("search", max_examples=1_000, deadline=None, print_blob=True)

# Several processes for the tests say 80 here; tables are tested as wide as where nobody says how wide a terminal is.
os.environ.pop("COLUMNS", None)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take Spark's tests first: they take longest."""
    items.sort(key=lambda item: _folder(item.nodeid) != "spark")


class _ByFolder(LoadScopeScheduling):
    """Keeps the tests of a folder in one process: they compile the same kernels, and Spark's share one session."""

    def _split_scope(self, nodeid: str) -> str:
        return _folder(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Divide tests among processes by folder."""
    return _ByFolder(config, log)


def _folder(nodeid: str) -> str:
    """Return the folder below tests that a test lies in; all examples in docstrings count as one."""
    first, second, *_ = nodeid.removeprefix("lab/").split("/")
    return second if first == "tests" else "docstrings"
