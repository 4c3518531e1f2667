"""The engines that every rule of delivery is tried on; Spark's pass the conformance suite in tests/spark."""

import pytest

from rankcast.overlay.routing.strategies import Strategy
from rankcast.testing.conformance import HubEngine
from rankcast.testing.overlay_engine import OverlayEngine

ENGINES = {
    "hub-steps": HubEngine(kernels=False),
    "hub-kernels": HubEngine(kernels=True),
    "overlay": OverlayEngine(Strategy.REGULAR_COVER, 3),
}


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request):
    """An engine of the conformance suite."""
    return request.param
