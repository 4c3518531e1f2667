"""Tables, progress bars and readable values.

Text from files is never read as markup. Without a terminal there are no colours and no progress bars, and lines are
WIDTH columns wide unless the environment says COLUMNS.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO

from rich import box
from rich import progress as bars
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from rankcast.cli.output.streams import Item, one_line
from rankcast.compiling import readiness
from rankcast.model.times import format_time
from rankcast.model.values import AttributeValue

WIDTH = 100
"""Columns where there is no terminal to ask."""


class _Console(Console):
    """A console that leaves a reader who went away to the command's own guard, and its exit code."""

    def on_broken_pipe(self) -> None:
        """Be called while a BrokenPipeError is handled: let it go on."""
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """Return a console on a stream, by default standard output."""
    stream = stream or sys.stdout
    fixed = not stream.isatty() and not os.environ.get("COLUMNS", "").isdigit()
    return _Console(file=stream, width=WIDTH if fixed else None, highlight=False, markup=False, emoji=False)


@contextmanager
def progress(description: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Progress]:
    """Show a progress bar on standard error while the block runs; nothing without a terminal."""
    known = (bars.BarColumn(), bars.TimeRemainingColumn()) if total is not None else ()
    with bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        *known,
        bars.TextColumn("{task.completed:,}"),
        bars.TimeElapsedColumn(),
        console=console(sys.stderr),
        transient=True,
        redirect_stdout=False,  # results on standard output must not pass through the bar's standard error
        disable=quiet or not sys.stderr.isatty(),
    ) as shown:
        yield Progress(shown, shown.add_task(description, total=total))


def require_kernels(*packages: str) -> None:
    """Have the kernels of some packages ready before anything is timed; on a new machine they are compiled first."""
    with progress("compiling"):
        readiness.require(packages)


class Progress:
    """One bar of one task."""

    def __init__(self, shown: bars.Progress, task: bars.TaskID) -> None:
        self._shown, self._task = shown, task

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items and advance the bar with each."""
        if self._shown.disable:
            yield from items
            return
        for item in items:
            yield item
            self._shown.advance(self._task)

    def reach(self, completed: int) -> None:
        """Move the bar to where so much is done."""
        self._shown.update(self._task, completed=completed)


def table(title: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; `columns` maps each heading to "left", "right", "wrap" or "rest".

    "rest" gets whatever width is left over. Where the width does not suffice, columns that "wrap" give way first, so
    that numbers beside them are not cut off.
    """
    made = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for heading, place in columns.items():
        justify: JustifyMethod = "right" if place == "right" else "left"
        ratio = 1 if place == "rest" else None
        if place == "wrap":
            made.add_column(heading, overflow="fold")
        else:
            made.add_column(heading, justify=justify, ratio=ratio, no_wrap=True, overflow="ellipsis")
    made.expand = "rest" in columns.values()
    for row in rows:
        made.add_row(*(Text(one_line(cell)) for cell in row))
    return made


def is_within(screen: Console, made: Table) -> bool:
    """Whether a table fits on a console as it is, with nothing cut off or wrapped."""
    return screen.measure(made, options=screen.options.update(width=10_000)).maximum <= screen.width


def shown_attributes(attributes: Mapping[str, AttributeValue]) -> str:
    """Return attributes as one short line.

    >>> shown_attributes({"city": "Porto", "rent": 700, "pets": True})
    'city Porto, rent 700, pets yes'
    """
    return ", ".join(f"{name} {shown_value(value)}" for name, value in attributes.items())


def shown_value(value: AttributeValue) -> str:
    """Return a value as people read it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown_value, value))}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown_time(value) if isinstance(value, datetime) else str(value)


def shown_time(time: datetime) -> str:
    """Return a time in UTC, as short as it can be."""
    return format_time(time).replace("T", " ").removesuffix("Z")


def shown_amount(amount: float, digits: int = 6) -> str:
    """Return an amount to so many digits, written out unless it is very large or very small.

    >>> shown_amount(18500.0, 4), shown_amount(12345678.9), shown_amount(0.61803, 3), shown_amount(1e30)
    ('18,500', '12,345,679', '0.618', '1e+30')
    """
    if not 1e-4 <= abs(amount) < 1e12:
        return f"{amount:.{digits}g}"
    text = f"{amount:,.{max(0, digits - 1 - math.floor(math.log10(abs(amount))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
