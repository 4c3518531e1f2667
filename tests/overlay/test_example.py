"""The example of brokers over TCP runs, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "brokers_over_tcp.py"
GOT = "Ana got {'city': 'Porto', 'rent': 700}, rank 0.9\n"


@pytest.fixture
def example():
    """Start the example. Its brokers have the same pipes, which are at their end when the last process has ended."""
    command = [sys.executable, "-u", "-W", "error", str(EXAMPLE)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_the_example_shows_that_events_arrive_before_and_after_a_crash(example):
    shown, errors = example.communicate(timeout=90)
    assert (example.returncode, errors) == (0, "")
    assert shown == f"{GOT}Ana's broker was killed; it starts again with nothing, as incarnation 2\n{GOT}"


def test_the_brokers_of_the_example_end_when_it_is_killed(example):
    assert example.stdout.readline() == GOT
    example.kill()
    example.communicate(timeout=30)
    assert example.returncode == -signal.SIGKILL
