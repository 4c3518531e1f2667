"""Programs that die: run in a session of their own, and killed there with everything they started.

A moment to die is given as progress, not as time: when so many files are under some folders. So it falls into the same
phase of the work on a fast machine and on a slow one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

DEADLINE = 900.0
"""Seconds after which a program that neither ends nor comes to its moment is taken to be stuck."""

POLL = 0.05


class Program:
    """A program that runs, with its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, **environment: str) -> None:
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def wait(self) -> int:
        """Wait for its end; return its exit status. What it left running ends with it."""
        try:
            return self._process.wait(DEADLINE)
        finally:
            self.kill()

    def comes_to(self, moment: Callable[[], bool]) -> bool:
        """Wait for a moment; return False when it ended before."""
        end = time.monotonic() + DEADLINE
        while self._process.poll() is None:
            if moment():
                return True
            assert time.monotonic() < end, f"the moment does not come:\n{self.said()[-5000:]}"
            time.sleep(POLL)
        return False

    def killed_when(self, moment: Callable[[], bool]) -> bool:
        """Wait for a moment and kill it; return False when it ended before."""
        comes = self.comes_to(moment)
        self.kill()
        return comes

    def loses_workers_when(self, moment: Callable[[], bool]) -> bool:
        """Wait for a moment and kill the Python workers that are there then; return False when it ended before."""
        workers: list[int] = []

        def has_workers() -> bool:
            workers[:] = self.workers() if moment() else []
            return bool(workers)

        comes = self.comes_to(has_workers)
        for worker in workers:
            _kill(worker)
        return comes

    def signalled(self, number: signal.Signals, *, alone: bool = False) -> None:
        """Send a signal to everything in its process group, as a terminal does, or to the program alone."""
        (os.kill if alone else os.killpg)(self._process.pid, number)

    def kill(self) -> None:
        """Kill every process of its session: the driver, the JVM, the Python workers and the daemon they come from."""
        while running := self.processes():
            for process in running:
                _kill(process)
            self._process.poll()
        self._process.wait(DEADLINE)

    def processes(self) -> list[int]:
        """Return the processes of its session that are alive."""
        return [process for process in _processes() if _session(process) == self._process.pid]

    def workers(self) -> list[int]:
        """Return its Python workers: what the daemon has forked."""
        own = self.processes()
        daemons = [process for process in own if b"daemon" in _command(process) and _parent(process) != 1]
        return [process for process in own if _parent(process) in daemons and b"daemon" in _command(process)]

    def said(self) -> str:
        """Return its output so far."""
        return self.log.read_text("utf-8", "replace")


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.kill(process, signal.SIGKILL)


def until(done: Callable[[], bool], attempts: int = 5) -> bool:
    """Try again what a busy machine may spoil: Spark gives up on a Python worker that takes ten seconds to start."""
    return any(done() for _ in range(attempts))


def files_under(*folders: Path) -> int:
    """Return how many files and folders there are under some folders."""
    return sum(len(names) + len(files) for folder in folders for _, names, files in os.walk(folder))


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _status(process: int) -> list[str]:
    """Return the fields of a process after its name: state, parent, group, session, ..."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0", "0", "0"]


def _session(process: int) -> int:
    state, _, _, session = _status(process)[:4]
    return 0 if state in "ZX" else int(session)


def _parent(process: int) -> int:
    return int(_status(process)[1])


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
