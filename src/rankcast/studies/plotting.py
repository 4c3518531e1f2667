"""One look for the pictures of all studies.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart; markers and lines differ too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankcast.bench.registry import MissingExtraError
from rankcast.studies.findings import Drawing

BLUE, ORANGE, GREEN, RED, PURPLE, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#000000"


def figure_class() -> Any:
    """Return matplotlib's figure, or raise an error that says what to install."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra; no global state of pyplot)
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "studies", "leave out --out") from None
    return Figure


def save_picture(draw: Drawing, size: tuple[float, float], path: Path) -> None:
    """Draw a picture and save it."""
    figure = figure_class()(figsize=size, dpi=130, layout="constrained")
    draw(figure)
    figure.savefig(path)


def tidy(panel: Any, title: str, across: str, up: str) -> None:
    """Name a panel and its axes, and take away what says nothing. Names are text, whatever signs are in them."""
    panel.set_title(title, loc="left", fontsize=11, parse_math=False)
    panel.set_xlabel(across, parse_math=False)
    panel.set_ylabel(up, parse_math=False)
    panel.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def mark_numbers(axis: Any, numbers: list[int]) -> None:
    """Put ticks of a logarithmic axis at some whole numbers, written out."""
    axis.set_ticks(numbers, [f"{number:,}" for number in numbers])
    axis.set_ticks([], minor=True)
