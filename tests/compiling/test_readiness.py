"""Kernels are compiled by a process of its own, loaded in the background, and nobody waits or hangs."""

import logging
import os
import subprocess
import sys

import pytest

from rankcast.compiling import cache, readiness

LOADED_IN_THE_BACKGROUND = """
import sys
from rankcast.compiling import readiness
readiness.MOMENT = 0
assert not readiness.loaded(["ranking"])
readiness.request(["ranking"])
readiness.request(["ranking"])
readiness._thread.join()
assert readiness.loaded(["ranking"]) and not readiness.loaded()
from rankcast.compiling import dispatchers
from rankcast.ranking.warming import warm_up
known = set(dispatchers.callable_now)
warm_up()
print(dispatchers.compilations, len(known), known == set(dispatchers.callable_now))
"""

ENDING_EARLY = """
from rankcast.compiling import readiness
readiness.MOMENT = {moment}
readiness.request(["ranking"])
"""


def run(code, **settings):
    environment = {**os.environ, **settings}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_kernels_are_compiled_apart_and_loaded_without_compiling(tmp_path):
    """For a processor that nobody has compiled for, so that there is nothing to be found."""
    settings = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    compiled, kernels, complete = run(LOADED_IN_THE_BACKGROUND, **settings)
    assert (compiled, complete) == ("0", "True")
    assert int(kernels) >= 3
    lists = list(tmp_path.rglob("*.kernels"))
    assert [path.name.partition(".")[0] for path in lists] == ["ranking"]
    min(tmp_path.rglob("*.nbc")).unlink()  # the list is there and some code is not: it is compiled again
    assert run(LOADED_IN_THE_BACKGROUND, **settings)[0] == "0"


@pytest.mark.parametrize("moment", [0, 60])
def test_a_process_that_ends_meanwhile_ends_at_once_and_quietly(moment):
    assert run(ENDING_EARLY.format(moment=moment)) == []


def test_kernels_that_are_required_are_there():
    code = "from rankcast.compiling import readiness as r; r.require(['ranking']); print(r.loaded(['ranking']))"
    assert run(code) == ["True"]


def test_a_forked_process_keeps_what_is_loaded_and_can_ask_for_more():
    code = """
import os, sys
from rankcast.compiling import readiness
readiness.request(["ranking"])
readiness.require(["ranking"])
child = os.fork()
if not child:
    readiness.MOMENT = 0
    readiness.request(["ranking", "matching"])
    os._exit(0 if readiness.loaded(["ranking"]) and readiness._thread is not None else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(code) == ["0"]


def test_one_process_compiles_at_a_time_and_a_dead_one_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "places", lambda: [tmp_path])
    cache.writable.cache_clear()
    with readiness._locked() as lock:
        waiting = subprocess.Popen(
            [sys.executable, "-c", "input()"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[lock.fileno()],
        )
    assert readiness._locked() is None
    waiting.kill()
    waiting.communicate()
    with readiness._locked() as lock:
        assert lock is not None
    cache.writable.cache_clear()


@pytest.mark.parametrize(
    ("executable", "message"),
    [("/bin/false", "ended with 1: no complaint"), ("/nowhere/python", "/nowhere/python cannot be run")],
)
def test_a_compiling_process_that_fails_is_a_line_in_the_log(executable, message, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", executable)
    caplog.set_level(logging.WARNING)
    with (tmp_path / "lock").open("wb") as lock:
        assert not readiness._compiled_apart(["ranking"], lock.fileno())
    (record,) = caplog.records
    assert record.message.startswith("kernels are not compiled ahead: ")
    assert message in record.message
