"""`rankcast warm-up`: compiles all kernels ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import typer

from rankcast.cli.output.streams import complain, write_json
from rankcast.cli.output.terminal import progress
from rankcast.compiling import dispatchers
from rankcast.compiling.cache import writable
from rankcast.compiling.readiness import PACKAGES, warm_up
from rankcast.model.errors import counted


def warm_packages(packages: Sequence[str], *, as_json: bool) -> int:
    """Run the command and return its exit code."""
    unknown = [package for package in packages if package not in PACKAGES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} has no kernels; expected some of {', '.join(PACKAGES)}")
    folder = writable()
    if folder is None:
        complain("compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a folder that can be written to")
        return 1
    for package in packages or PACKAGES:
        with progress(f"compiling {package}", quiet=as_json):
            told = _compile(package)
        if as_json:
            write_json({"package": package, **told})
        elif "missing" in told:
            typer.echo(f"{package}: left out; {told['missing']} is not installed")
        else:
            typer.echo(
                f"{package}: {counted(told['kernels'], 'kernel')}, {told['compiled']} compiled, {told['seconds']} s"
            )
    write_json({"cache": str(folder)}) if as_json else typer.echo(f"kept in {folder}")
    return 0


def _compile(package: str) -> dict[str, Any]:
    start, before = perf_counter(), dispatchers.compilations
    try:
        kernels = warm_up(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rankcast"):
            raise
        return {"missing": error.name}  # of an extra
    compiled = dispatchers.compilations - before
    return {"kernels": kernels, "compiled": compiled, "seconds": round(perf_counter() - start, 1)}
