"""The command as a process of its own: streams, exit codes, signals."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "rankcast"]
PEOPLE = "version: 1\nsubscribers: [{id: ana, subscriptions: [{filter: rent < 600}]}]\n"


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60, **options
    )


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.yaml"
    path.write_text(PEOPLE)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text('{"id": "1", "time": "2026-03-01T12:00:00Z", "rent": 500, "city": "Campanhã"}\n')
    return path


def generating() -> subprocess.Popen[bytes]:
    """Start to generate a feed that nobody waits for."""
    command = [*COMMAND, "generate", "flats", "--events", "10000000"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_results_go_to_standard_output_and_problems_to_standard_error(people, events):
    events.write_text(events.read_text() + "nonsense\n")
    result = run("match", events, "--subscribers", people, "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["event"]["data"]["city"] == "Campanhã"
    assert result.stderr.startswith(f"{events}:2: ")
    assert "\x1b" not in result.stdout + result.stderr


def test_a_terminal_without_unicode_gets_escapes_and_json_stays_json(people, events):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = run("match", events, "--subscribers", people, "--json", env=ascii_only)
    assert json.loads(result.stdout)["event"]["data"]["city"] == "Campanhã"
    result = run("match", events, "--subscribers", people, env=ascii_only)
    assert result.returncode == 0
    assert "Campanh\\xe3" in result.stdout


def test_progress_is_shown_on_a_terminal_and_never_mixes_with_the_results():
    terminal, other_end = pty.openpty()
    try:
        command = [*COMMAND, "generate", "flats", "--events", "300"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=other_end, check=True, timeout=60)
        shown = os.read(terminal, 65_536)
    finally:
        os.close(terminal)
        os.close(other_end)
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [f"flat-{n}" for n in range(1, 301)]
    assert b"generating flats" in shown
    assert b"flat-1" not in shown


def test_a_reader_that_goes_away_ends_the_command_quietly():
    with generating() as process:
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


@pytest.mark.parametrize(
    "arguments", [["--help"], ["match", "--help"], ["version"], ["demo", "--small", "--events", "5"]]
)
def test_a_reader_that_was_never_there_ends_the_command_quietly(arguments):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = subprocess.run(
            [*COMMAND, *arguments], stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(write_end)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.fixture
def interruptible():
    """A shell's background jobs ignore interrupts, and so would every process they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_command_with_130_and_one_line():
    with generating() as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors == b"interrupted\n"


def test_a_failure_leaves_the_old_output_file_as_it_was(people, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("precious\n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 this is not a Parquet file PAR1")
    result = run("match", broken, "--subscribers", people, "--out", out, "--overwrite")
    assert result.returncode == 1
    assert out.read_text() == "precious\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.parquet", "out.jsonl", "people.yaml"]


def test_bad_input_is_a_message_and_exit_code_1_and_wrong_usage_2(people, tmp_path):
    result = run("match", tmp_path / "missing.jsonl", "--subscribers", people)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"{tmp_path / 'missing.jsonl'}: cannot be read: No such file or directory\n"
    wrong = run("match", "--nonsense")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--nonsense" in wrong.stderr


def test_start_up_imports_nothing_heavy():
    heavy = {"numpy", "numba", "pyarrow", "jsonschema_rs", "yaml"}
    code = f"import sys, rankcast.cli.main; print(*{heavy} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == []


@pytest.mark.parametrize("command", ["--help", "match --help", "version --json", "match $FILE -s $PEOPLE --json"])
def test_a_standard_output_that_takes_nothing_is_an_error_and_a_closed_standard_error_is_none(people, events, command):
    rankcast = f"{shlex.join([*COMMAND])} {command}"
    environment = {**os.environ, "FILE": str(events), "PEOPLE": str(people)}
    closed = "standard output: cannot be written: it is closed\n"
    expected = {
        "2>&-": (0, ""),
        ">&-": (1, closed),
        ">&- 2>&-": (1, ""),
        "> /dev/full": (1, "No space left on device\n"),
    }
    for end, (code, message) in expected.items():
        shell = ["bash", "-c", f"{rankcast} {end}"]
        result = subprocess.run(shell, capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert (result.returncode, result.stderr) == (code, message)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_the_command_is_still_being_loaded_is_one_line():
    code = """
import signal, sys
class Loading:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Loading())
from rankcast.__main__ import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")
