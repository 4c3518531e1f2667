"""Commands that other distributions add to `rankcast`, and what is said where they are missing."""

import importlib.metadata
import sys

import pytest
import typer

from command_line import run
from rankcast.cli.main import COMMANDS_GROUP, LAB_COMMANDS

greeting = typer.Typer()


@greeting.command("greet")
def greet(name: str) -> None:
    """Say hello."""
    typer.echo(f"hello {name}")


def install(monkeypatch, *points):
    asked = []

    def entry_points(*, group):
        asked.append(group)
        return [point for point in points if point.group == group]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return asked


@pytest.mark.parametrize("name", LAB_COMMANDS)
def test_without_the_lab_one_line_says_where_its_commands_are(name, monkeypatch):
    install(monkeypatch)
    result = run(name, "--quick")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"`rankcast {name}` is not installed: it is in the repository of rankcast; there: pip install ./lab\n"
    )
    assert name not in run("--help").stdout


def test_an_added_command_is_listed_and_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "greetings", sys.modules[__name__])
    install(monkeypatch, importlib.metadata.EntryPoint("greet", "greetings:greeting", COMMANDS_GROUP))
    assert "Say hello." in run("--help").stdout
    result = run("greet", "ana")
    assert (result.exit_code, result.stdout) == (0, "hello ana\n")


def test_an_unknown_command_is_one_still(monkeypatch):
    install(monkeypatch)
    result = run("nonsense")
    assert result.exit_code == 2
    assert "No such command 'nonsense'" in result.stderr


def test_other_commands_do_not_look_for_added_ones(monkeypatch):
    asked = install(monkeypatch)
    assert run("check", "--help").exit_code == 0
    assert asked == []
