"""Commands as a user calls them, through typer's test runner."""

import json

from click.testing import Result
from typer.testing import CliRunner

from rankcast.cli.main import app


def run(*arguments: object, columns: int = 100) -> Result:
    """Run a command on a terminal of so many columns."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})


def lines(text: str) -> list[dict[str, object]]:
    """Return the documents of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def printed(*arguments: object) -> list[dict[str, object]]:
    """Return the documents that a command prints with --json."""
    return lines(run(*arguments, "--json").stdout)
