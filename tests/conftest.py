"""Hypothesis profiles, shared by every test, and a guard against stale kernels.

``dev`` is the default; ``ci`` applies where the environment says ``CI=true``; ``HYPOTHESIS_PROFILE`` names any of them
and wins. No profile has a deadline: the first call of a numba kernel compiles it, which says nothing about the code
under test.
"""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dev", max_examples=100, deadline=None, print_blob=True)
# Derandomised: a red build is red again on the next run, and an unrelated change does not meet a new counterexample.
settings.register_profile("ci", max_examples=200, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", max_examples=5_000, deadline=None, print_blob=True)

# Several processes for the tests say 80 here; tables are tested as wide as where nobody says how wide a terminal is.
os.environ.pop("COLUMNS", None)

_default = "ci" if os.environ.get("CI", "").lower() == "true" else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or _default)


def _forget_stale_kernels() -> None:
    """Remove compiled kernels when any kernel's source has changed.

    numba's cache looks at the file of the outermost function only, so a change to a function that is inlined from
    another file would go unnoticed, and the tests would run yesterday's code.
    """
    package = Path(__file__).parents[1] / "src" / "rankcast"
    sources = sorted(
        path for path in package.rglob("*.py") if "numba" in (text := path.read_text()) or "@inlined" in text
    )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    stamp = package / "__pycache__" / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    for compiled in package.rglob("*.nb[ci]"):
        compiled.unlink()
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest)


_forget_stale_kernels()


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a folder in one process where there are several: they compile the same kernels.

    Spark's come first: they take longest, and all of them share one session.
    """
    folders = {item: _folder(item.path) for item in items}
    for item, folder in folders.items():
        item.add_marker(pytest.mark.xdist_group(folder))
    items.sort(key=lambda item: folders[item] != "spark")


def _folder(path: Path) -> str:
    """Return the folder below tests, or that of all examples in docstrings."""
    tests = Path(__file__).parent
    return path.relative_to(tests).parts[0] if path.is_relative_to(tests) else "docstrings"
