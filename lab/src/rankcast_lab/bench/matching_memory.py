"""What an index takes of the machine's memory: by how much a new process grows that builds it.

Bytes of arrays are exact, but not all: what the build leaves behind, and the allocator keeps, is resident too. So a
process of its own generates the subscriptions, builds a small index to have everything loaded, notes its resident
memory, and once more when the index is built and has matched an event.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rankcast.model.errors import RankcastError
from rankcast_lab.bench.memory import MEGABYTE

STATUS = Path("/proc/self/statm")
"""Where Linux says how many pages of a process are resident."""

GROWTH = """
import os, sys
from pathlib import Path
from rankcast_lab.bench.matching_engines import build_index
from rankcast.matching.index import Index
from rankcast_lab.workloads.matching import MatchingWorkload, matching_case

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

workload, subscriptions, seed = MatchingWorkload(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def matched(case):
    index = Index(segments=[build_index(case)])
    index.reader().match_one(case.event_mappings()[0])
    return index

matched(matching_case(workload, 1_000, 1, seed))
case = matching_case(workload, subscriptions, 1, seed)
before = resident()
index = matched(case)
print(resident() - before)
"""
"""What the new process does; its last line is the answer, in bytes."""


def resident_megabytes(workload: str, subscriptions: int, seed: int) -> float | None:
    """Return by how much a process grows that builds an index, or None where the system does not say."""
    if not STATUS.exists():
        return None
    command = [sys.executable, "-c", GROWTH, workload, str(subscriptions), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RankcastError(f"the new process failed: {done.stderr.strip().splitlines()[-1:]}")
    return int(done.stdout.splitlines()[-1]) / MEGABYTE
