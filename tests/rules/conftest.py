"""The engines on which the rules of delivery are tried."""

import pytest

from rule_builders import ENGINES


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request):
    """An engine of the conformance suite."""
    return request.param
