"""`rankcast study NAME`: run a published experiment again, and show published against measured."""

# ruff: noqa: PLC0415 (a command imports its work when it runs)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankcast.cli.main import Overwrite
from rankcast_lab.studies.registry import STUDIES, study_named

if TYPE_CHECKING:
    from rankcast_lab.studies.findings import Outcome


study_app = typer.Typer()


@study_app.command("study", epilog="Example: rankcast study topkw-deliveries --quick --out studies")
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(STUDIES)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Smaller: seconds, and little to compare.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same data.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write NAME.md and its pictures to this folder.")
    ] = None,
    overwrite: Overwrite = False,
    movies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table of movies (CSV, gzip or not) for `preferences`; else they are made."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Run a published experiment again: what was published, what is measured here, and whether it holds.

    A statement that does not hold is a result, not an error: the exit code is 0.
    """
    from rankcast.cli.output.files import check_outputs
    from rankcast.cli.output.streams import complain, write_json
    from rankcast.plotting import figure_class
    from rankcast_lab.cli.bench import told
    from rankcast_lab.studies.findings import Settings
    from rankcast_lab.studies.pages import write_study

    run = study_named(name)
    if out is not None:
        figure_class()  # rather now than after a long run
        check_outputs([("--out", out / f"{name}.md"), ("--out", out / f"{name}.png")], [movies], overwrite=overwrite)
    with told(quiet=json) as say:
        settings = Settings(quick=quick, seed=seed, movies=movies, say=say)
        outcome = run(settings)
        files = write_study(outcome, settings, out) if out is not None else []
    if json:
        write_json({**outcome.to_json(), "seed": seed, "quick": quick, "files": [str(path) for path in files]})
        return
    _show(outcome)
    for path in files:
        complain(f"wrote {path}")


def _show(outcome: Outcome) -> None:
    from rankcast.cli.output.terminal import console, table
    from rankcast_lab.studies.pages import cells

    columns = {"Quantity": "wrap", "Published": "right", "Measured": "right", "Holds": "left"}
    shown = console()
    shown.print(table(outcome.title, columns, map(cells, outcome.findings)))
    for remark in outcome.remarks:
        shown.print(f"\n{remark}")
