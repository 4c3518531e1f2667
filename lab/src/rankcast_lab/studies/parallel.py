"""Independent pieces of a study, on all processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from rankcast_lab.studies.findings import Say

Piece = TypeVar("Piece")
Found = TypeVar("Found")


def each(function: Callable[[Piece], Found], pieces: Sequence[Piece], say: Say, *, apart: bool) -> list[Found]:
    """Return what a function finds for each piece, in the order of the pieces: one by one, or `apart`.

    Apart, as many processes as there are processors take the pieces on, the first ones first: put long ones
    there. The function then has to be one of a module, and pieces and findings plain values.
    """
    if not apart:
        return [_found(one, at, len(pieces), say) for at, one in enumerate(map(function, pieces))]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return [_found(one, at, len(pieces), say) for at, one in enumerate(pool.map(function, pieces))]


def _found(one: Found, at: int, count: int, say: Say) -> Found:
    say(f"{at + 1} of {count} parts")
    return one
