"""Pictures: one look for those of all commands and studies. Needs the extra `plot`, which is loaded when one is drawn.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart; markers and lines differ too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.model.errors import RankcastError, shown
from rankcast.storage.writing import replacing

BLUE, ORANGE, GREEN, RED, PURPLE, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#000000"

FORMATS = (".png", ".svg", ".pdf")

Drawing: TypeAlias = Callable[[Any], None]
"""Draws on an empty matplotlib figure."""


class MissingExtraError(RankcastError):
    """A package that only pictures need is not installed."""


def figure_class() -> Any:
    """Return matplotlib's figure, or raise an error that says what to install."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra; no global state of pyplot)
    except ModuleNotFoundError:
        raise MissingExtraError(
            "matplotlib is not installed, so nothing can be drawn: pip install 'rankcast[plot]'"
        ) from None
    return Figure


def check_plot(path: Path) -> None:
    """Raise at once, rather than after a long run, when a plot could not be saved."""
    if path.suffix.lower() not in FORMATS:
        raise RankcastError(f"--plot: {shown(str(path))} is not a picture; expected a name with {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise RankcastError(f"--plot: there is no folder {shown(str(path.absolute().parent))}")
    figure_class()


def save_picture(draw: Drawing, size: tuple[float, float], path: Path) -> None:
    """Draw a picture and save it."""
    figure = figure_class()(figsize=size, dpi=130, layout="constrained")
    draw(figure)
    save_figure(figure, path)


def save_figure(figure: Any, path: Path) -> None:
    """Save a matplotlib figure in the format of its suffix, whole."""
    with replacing(path) as stream:
        figure.savefig(stream, format=path.suffix.removeprefix(".").lower())


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
