"""Search for counterexamples of the properties: run their tests with many new examples, again and again.

    make search [SECONDS=3600] [SEED=1] [FOLDERS="tests/delivery tests/hub"]

Each round runs the tests with the Hypothesis profile `search` and a seed of its own until the time is over; the first
seed is drawn unless SEED gives it. A round that fails prints pytest's report, in which `@reproduce_failure` repeats the
example, and the seed of the round; the search goes on. Exits with 1 when any round failed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("delivery", "hub", "serving", "ranking", "overlay", "covering", "matching", "language", "containers")
"""Below tests; those that are there."""


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Search for counterexamples of the properties.")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("folders", nargs="*", help="tests to run; by default those of the engines")
    arguments = parser.parse_args()
    folders = arguments.folders or [f"tests/{name}" for name in FOLDERS if (ROOT / "tests" / name).is_dir()]
    first = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    end = time.monotonic() + arguments.seconds
    rounds, failed = 0, []
    while (left := end - time.monotonic()) > 0:
        seed = first + rounds
        if not _holds(folders, seed, left):
            failed.append(seed)
        rounds += 1
    say(f"{rounds} rounds from seed {first}; failed: {', '.join(map(str, failed)) or 'none'}")
    return 1 if failed else 0


def _holds(folders: list[str], seed: int, seconds: float) -> bool:
    """Run one round; print what failed. A round that the time runs out on counts as far as it came."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not soak", f"--hypothesis-seed={seed}"]
    command += ["-p", "no:cacheprovider", "--numprocesses", "2", "--dist", "loadscope", *folders]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "search"}
    say(f"seed {seed}: {' '.join(folders)}")
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            told, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest then ends its processes and reports what failed so far
            told, _ = process.communicate()
            if "\nFAILED " not in told:
                return True
        if process.returncode == 0:
            return True
    say(f"seed {seed} FAILED (again: make search SEED={seed} FOLDERS='{' '.join(folders)}')\n{told}")
    return False


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 (a script speaks by printing)


if __name__ == "__main__":
    sys.exit(main())
