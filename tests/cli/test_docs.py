"""The examples of docs/command-line.md are run, one after the other in one folder, and print what the page shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankcast.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"^```(console|yaml file=(\S+))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = 0
    for kind, file, content in BLOCK.findall(PAGE.read_text()):
        if file:
            Path(file).write_text(content)
            continue
        command, _, expected = content.partition("\n")
        program, *arguments = shlex.split(command.removeprefix("$ "))
        assert (kind, program) == ("console", "rankcast")
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
        # Problems come before results, and what was written after them.
        either = (result.stderr + result.stdout, result.stdout + result.stderr)
        is_shown = any(doctest.OutputChecker().check_output(expected, printed, OPTIONS) for printed in either)
        assert is_shown, f"{command}\n{either[0]}"
        examples += 1
    assert examples >= 9


def test_every_command_is_described() -> None:
    page = PAGE.read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"rankcast {command.name or command.callback.__name__}" in page
