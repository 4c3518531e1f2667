"""What a bench returns: costs as rows, other quantities as figures, and what is required of them.

Everything is plain data with a fixed shape, so that `--json` output of different runs can be put side by side.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """The cost of one engine on one case; None where a quantity has no meaning for the engine."""

    case: str
    engine: str
    microseconds_per_event: float
    build_seconds: float | None = None
    megabytes: float | None = None
    matches_per_event: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured quantity that is not a cost per event."""

    case: str
    quantity: str
    value: float
    unit: str


class Bound(Enum):
    """Which side of its limit a quantity has to stay on."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    BELOW = "below"
    ABOVE = "above"

    def holds(self, measured: float, limit: float) -> bool:
        """Whether a measured quantity is on the right side."""
        match self:
            case Bound.AT_MOST:
                return measured <= limit
            case Bound.AT_LEAST:
                return measured >= limit
            case Bound.BELOW:
                return measured < limit
        return measured > limit


@dataclass(frozen=True, slots=True)
class Requirement:
    """A quantity that rankcast promises, and what it is here.

    >>> Requirement.of("W1 100k: index / limit", Bound.AT_MOST, 2.5, 1.75)
    Requirement(quantity='W1 100k: index / limit', required='at most 2.5', measured=1.75, holds=True)
    """

    quantity: str
    required: str
    measured: float
    holds: bool

    @staticmethod
    def of(quantity: str, bound: Bound, limit: float, measured: float) -> Requirement:
        """Judge a measured quantity."""
        return Requirement(quantity, f"{bound.value} {limit:g}", measured, bound.holds(measured, limit))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether an engine's answers are those of the reference, on how many events; `difference` describes the first."""

    case: str
    engine: str
    reference: str
    events: int
    equal: bool
    difference: str = ""


@dataclass(slots=True)
class Report:
    """Everything one run found out, in the order it was found."""

    bench: str
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_correct(self) -> bool:
        """Whether all answers that were compared are equal."""
        return all(comparison.equal for comparison in self.comparisons)

    def cost(self, case: str, engine: str) -> float | None:
        """Return what an engine took on a case, in microseconds per event."""
        found = (row.microseconds_per_event for row in self.rows if (row.case, row.engine) == (case, engine))
        return next(found, None)

    def ratio(self, case: str, engine: str, reference: str) -> float | None:
        """Return how many times the reference's cost an engine took, or None when either was not measured."""
        cost, base = self.cost(case, engine), self.cost(case, reference)
        return cost / base if cost is not None and base else None

    def require(self, quantity: str, bound: Bound, limit: float, measured: float | None) -> None:
        """Judge a quantity, if it was measured."""
        if measured is not None:
            self.requirements.append(Requirement.of(quantity, bound, limit, measured))

    def warn_when_busy(self) -> None:
        """Note it when the machine is busy: for benches that go by the wall clock, before they start."""
        note = busy_note(os.getloadavg()[0], os.cpu_count() or 1)
        if note is not None:
            self.notes.append(note)

    def add(self, others: Iterable[Comparison]) -> None:
        """Add comparisons."""
        self.comparisons.extend(others)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**asdict(self), "correct": self.is_correct, "machine": machine()}


def machine() -> dict[str, Any]:
    """Return what a reader of the figures should know of the machine."""
    return {
        "processor": platform.processor() or platform.machine(),
        "processors": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def busy_note(load: float, processors: int) -> str | None:
    """Return a warning that others use the machine too much for times of the wall clock to say anything, or None.

    >>> busy_note(0.4, 2)
    >>> busy_note(3.1, 2)
    'The machine is busy (load 3.1 on 2 processors): do not trust times of the wall clock from this run.'
    """
    if load <= processors / 2:
        return None
    place = f"load {load:.1f} on {processors} processors"
    return f"The machine is busy ({place}): do not trust times of the wall clock from this run."
