"""Kill a stream with kill -9, driver, JVM and Python workers, again and again; compare what it puts out in the end.

    make soak [KILLS=20] [SEED=1]

A run is killed up to four times at random moments, each later than the one before, and started again each time. Its
notifications, late events and rejected rows must be those of a run that was never interrupted, each exactly once. The
moments are drawn from SEED and counted in files written, so that they fall everywhere: while Spark starts, in the
middle of a batch, between a batch and its commit. Exits with 1 when an output differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import spark_stream_program  # noqa: E402
from crashing_programs import Program, files_under, until  # noqa: E402 (found by the line above)

KILLS_PER_RUN = 4
ATTEMPTS = 5


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Kill a stream many times and compare its output.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="rankcast-soak-") as name:
        root = Path(name)
        expected, whole = _uninterrupted(root / "uninterrupted")
        say(f"uninterrupted: {counted(expected)}")
        kills = runs = 0
        phases: Counter[str] = Counter()
        while kills < arguments.kills:
            shares = sorted(draw.random() for _ in range(min(KILLS_PER_RUN, arguments.kills - kills)))
            folder = root / f"run-{runs}"
            killed = _killed(folder, [share * whole for share in shares])
            phases.update(killed)
            kills, runs = kills + len(killed), runs + 1
            if spark_stream_program.outputs_of(folder) != expected:
                say(f"run {runs}, killed {len(killed)} times: the output DIFFERS (seed {arguments.seed})")
                return 1
            say(f"run {runs}, killed {len(killed)} times: the same output; {kills} of {arguments.kills} kills")
        where = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        say(f"{kills} kills ({where}) in {runs} runs: every output was that of the uninterrupted run")
    return 0


def _uninterrupted(folder: Path) -> tuple[dict[str, list[str]], int]:
    spark_stream_program.prepare(folder)
    _finish(folder)
    return spark_stream_program.outputs_of(folder), files_under(folder / "checkpoint", folder / "out")


def _killed(folder: Path, moments: list[float]) -> list[str]:
    """Run a stream to its end, killed at these moments on the way; return in which phases it was."""
    spark_stream_program.prepare(folder)
    watched = (folder / "checkpoint", folder / "out")
    phases = []
    for moment in moments:
        if not _killed_when(folder, lambda moment=moment: files_under(*watched) >= moment):
            break
        phases.append(_phase(folder))
    _finish(folder)
    return phases


def _killed_when(folder: Path, moment: Callable[[], bool]) -> bool:
    """Start a stream and kill it at a moment; return False when it came to its end before.

    A start may fail where the machine is busy, because Spark gives a Python worker ten seconds to start; the stream is
    started again then, as its user would.
    """
    for _ in range(ATTEMPTS):
        program = _started(folder)
        if program.killed_when(moment):
            return True
        if program.wait() == 0:
            return False
    raise SystemExit(f"the stream failed:\n{_said(folder)}")


def _phase(folder: Path) -> str:
    """Tell where in its work a stream was killed, from what Spark has written down."""
    last = {
        name: max((int(file.name) for file in _files(folder / "checkpoint" / name) if file.name.isdigit()), default=-1)
        for name in ("offsets", "commits")
    }
    return "within a batch" if last["offsets"] > last["commits"] else "between batches"


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _started(folder: Path) -> Program:
    return Program([sys.executable, spark_stream_program.__file__, str(folder)], folder / "log")


def _finish(folder: Path) -> None:
    if not until(lambda: _started(folder).wait() == 0, ATTEMPTS):
        raise SystemExit(f"the stream failed:\n{_said(folder)}")


def _said(folder: Path) -> str:
    return (folder / "log").read_text("utf-8", "replace")[-3000:]


def counted(outputs: dict[str, list[str]]) -> str:
    """Return how many rows each output has."""
    return ", ".join(f"{len(rows):,} {name}" for name, rows in outputs.items())


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 (a script speaks by printing)


if __name__ == "__main__":
    sys.exit(main())
