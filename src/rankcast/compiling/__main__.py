"""Compiles the kernels of some packages, for who waits for them: see `readiness`."""

from __future__ import annotations

import os
import signal
import sys

from rankcast.compiling.readiness import PATIENCE, warm_up

if __name__ == "__main__":
    os.nice(10)
    signal.alarm(PATIENCE)
    for package in sys.argv[1:]:
        warm_up(package)
