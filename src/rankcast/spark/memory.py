"""Giving memory back to the system: compiling many subscribers leaves the driver with twice what it needs afterwards.

What is freed stays with the allocators: Arrow's pool, and the heap of the C library, which glibc gives back only when
it is asked to (`malloc_trim`). Other C libraries have no such call, and need none.
"""

from __future__ import annotations

import ctypes
import gc

import pyarrow as pa


def give_back() -> None:
    """Free what nothing refers to, and return unused memory to the system: some tens of milliseconds."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
