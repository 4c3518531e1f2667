"""What every placement algorithm returns."""

from __future__ import annotations

from dataclasses import dataclass

from rankcast.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The broker of each subscriber, and the filter of each broker: boxes as rows of sides.

    Nothing is promised here: `audit.verify` says what a placement is worth.
    """

    brokers: Array
    filters: tuple[Array, ...]
