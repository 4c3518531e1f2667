"""How large and how small the numbers of a placement problem may be.

Algorithms add and multiply lengths, volumes and distances. Within these bounds nothing of that overflows, and the
measure of all events does not vanish, so that every figure of a plan is a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankcast.model.errors import shown

FARTHEST = 1e12
"""Coordinates in the network, either way: distances are squared."""

UTMOST = 1e30
"""Values of attributes, either way."""

MOST_EVENTS, FEWEST_EVENTS = 1e100, 1e-100
"""The measure of all events: the volume of the event space, or the sum of weights."""

LARGEST_FACTOR = 1e12
"""Factors of loads and latencies: so large ones limit nothing."""

LEAST_SHARE = 1e-15
"""Shares of the capacity of all leaves, other than none at all."""


def wrong_place(at: Sequence[float]) -> str | None:
    """Return what is wrong with a point of the network, if anything is."""
    if all(abs(coordinate) <= FARTHEST for coordinate in at):
        return None
    return f"at {shown(list(at))}; expected coordinates from {-FARTHEST:g} to {FARTHEST:g}"


def wrong_values(low: float, high: float) -> str | None:
    """Return what is wrong with the least and the largest value of an attribute, if anything is."""
    if abs(low) <= UTMOST and abs(high) <= UTMOST:
        return None
    return f"{shown(low)} to {shown(high)}; expected values from {-UTMOST:g} to {UTMOST:g}"


def wrong_range(low: float, high: float) -> str | None:
    """Return what is wrong with the range of an attribute, if anything is.

    >>> wrong_range(9, 1)
    '9 to 1; expected a lowest value below the highest'
    """
    if wrong := wrong_values(low, high):
        return wrong
    return None if low < high else f"{shown(low)} to {shown(high)}; expected a lowest value below the highest"


def wrong_measure(everything: float) -> str | None:
    """Return what is wrong with the measure of all events, if anything is."""
    if FEWEST_EVENTS <= everything <= MOST_EVENTS:
        return None
    return f"all events together measure {everything:g}; expected {FEWEST_EVENTS:g} to {MOST_EVENTS:g}"
