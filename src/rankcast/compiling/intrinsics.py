"""What kernels need of the processor, and numba does not have; `intrinsics_llvm` says how it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankcast.compiling import borrowed

_HOME = "rankcast.compiling.intrinsics_llvm"

lowest_bit: Callable[[Any], int] = borrowed(_HOME, "lowest_bit")
"""The position of the lowest set bit of a uint64; 64 for zero."""

count_bits: Callable[[Any], int] = borrowed(_HOME, "count_bits")
"""How many bits of a uint64 are set."""

prefetch: Callable[[Any, int], None] = borrowed(_HOME, "prefetch")
"""Start to load the line of an array (its first index); a line outside the array is harmless."""

move_words: Callable[[Any, int, Any, int, int], None] = borrowed(_HOME, "move_words")
"""Copy so many 64-bit words to a place in a contiguous array from a place in another, or in the same, where the two may
overlap; places are not checked."""
