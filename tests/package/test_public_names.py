"""What `import rankcast` offers."""

import subprocess
import sys

import pytest

import rankcast


@pytest.mark.parametrize("name", rankcast.__all__)
def test_every_public_name_is_there(name):
    assert getattr(getattr(rankcast, name), "__name__", name) == name  # a constant has no name of its own
    assert name in dir(rankcast)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rankcast.Nonsense  # noqa: B018 (reading it is the test)


def test_importing_rankcast_loads_no_engine():
    heavy = ("msgspec", "numpy", "numba", "pyarrow", "rankcast.hub")
    code = f"import sys, rankcast; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
