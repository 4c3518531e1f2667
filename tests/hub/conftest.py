"""Hubs in memory, and durable ones in files of their own."""

import pytest

from hub_builders import NOW, crash
from rankcast.hub import Hub
from rankcast.testing.clock import FakeClock


@pytest.fixture
def hub():
    return Hub(clock=FakeClock(NOW))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flats.hub"


@pytest.fixture
def opened(path):
    """Opens the hub, as after the end of the process that had it open before."""
    hubs = []

    def opened(**options):
        for hub in hubs:
            crash(hub)
        hub = Hub(path=path, **{"clock": FakeClock(NOW), "sync": "normal", **options})
        hubs.append(hub)
        return hub

    yield opened
    for hub in hubs:
        crash(hub)
