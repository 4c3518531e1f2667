"""The examples of the README and the guides are run, and print what the page says they print."""

import contextlib
import doctest
import io
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from command_line import run
from rankcast.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "lab" / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = (ROOT / "docs" / "command-line.md").read_text()
COMMAND = re.compile(r"^```(console|yaml file=(\S+))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def names(pages):
    return [page.name for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_python_blocks_run_and_print_the_output_block_that_follows(page):
    blocks = BLOCK.findall(page.read_text())
    namespace = {}
    for (language, code), (following, output) in pairwise([*blocks, ("", "")]):
        if language != "python" or code.startswith(">>>"):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), namespace)
        assert printed.getvalue() == (output if following == "output" else "")


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_interactive_examples_give_what_the_page_shows(page):
    failed, _ = doctest.testfile(str(page), module_relative=False)
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_has_its_examples():
    assert (
        len([language for language, _ in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python"]) >= 3
    )


def test_commands_run_one_after_the_other_in_one_folder_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = 0
    for kind, file, content in COMMAND.findall(COMMANDS):
        if file:
            Path(file).write_text(content)
            continue
        command, _, expected = content.partition("\n")
        program, *arguments = shlex.split(command.removeprefix("$ "))
        assert (kind, program) == ("console", "rankcast")
        result = run(*arguments)
        # Problems come before results, and what was written after them.
        either = (result.stderr + result.stdout, result.stdout + result.stderr)
        is_shown = any(doctest.OutputChecker().check_output(expected, printed, OPTIONS) for printed in either)
        assert is_shown, f"{command}\n{either[0]}"
        examples += 1
    assert examples >= 9


def test_every_command_is_described():
    for command in app.registered_commands:
        assert f"rankcast {command.name or command.callback.__name__}" in COMMANDS
