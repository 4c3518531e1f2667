"""What a study finds: rows of published against measured, what to say about them, and a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.plotting import Drawing

Say: TypeAlias = Callable[[str], None]
"""Takes a word on what is being done now."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a study is run: `quick` makes it smaller, and then nothing that depends on size can be compared.

    `movies` is a table of movies for the study that can use one.
    """

    quick: bool = False
    seed: int = 1
    movies: Path | None = None
    say: Say = field(default=lambda _: None, compare=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One quantity: the published value or statement (None: nothing is published), the measured value, the verdict."""

    quantity: str
    published: float | str | None
    measured: float | str
    holds: bool | None

    @staticmethod
    def near(quantity: str, published: float | None, measured: float, margin: float) -> Finding:
        """Compare two numbers; they agree when they differ by no more than a margin.

        >>> Finding.near("deliveries, k=1", 102, 109.0, margin=10).holds
        True
        """
        holds = None if published is None else abs(measured - published) <= margin
        return Finding(quantity, published, measured, holds)


@dataclass(frozen=True, slots=True)
class Picture:
    """One more picture of a study: its file is NAME-`part`.png."""

    part: str
    title: str
    draw: Drawing = field(compare=False)
    size: tuple[float, float] = (11.0, 4.6)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished study."""

    study: str
    title: str
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    draw: Drawing = field(compare=False)
    size: tuple[float, float] = (11.0, 4.6)
    """Of the picture, in inches."""

    further: tuple[Picture, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        return {
            "study": self.study,
            "title": self.title,
            "rows": [asdict(finding) for finding in self.findings],
            "remarks": list(self.remarks),
        }
