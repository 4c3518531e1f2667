"""The examples of docs/spark.md are run, in the order of the page, and so is examples/spark_pipeline.py."""

import contextlib
import doctest
import io
import re
import runpy
import shlex
import shutil
from pathlib import Path

from typer.testing import CliRunner

from rankcast.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs" / "spark.md", ROOT / "examples" / "spark_pipeline.py"
BLOCK = re.compile(r"^```(console|python spark)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_work(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    shown = io.StringIO()
    for kind, content in BLOCK.findall(PAGE.read_text()):
        if kind == "console":
            _run_commands(content)
            continue
        if not Path("arriving").exists():
            Path("arriving").mkdir()
            shutil.copy("flats.jsonl", "arriving")
        # The JVM of all tests was started in another folder.
        here = content.replace('spark.read.parquet("', f'spark.read.parquet("{tmp_path}/')
        with contextlib.redirect_stdout(shown):
            exec(compile(here, PAGE.name, "exec"), namespace)
    spark.streams.removeListener(namespace["metrics"])
    found = spark.read.parquet(str(tmp_path / "found" / "notifications"))
    assert namespace["notifications"].count() == found.count() > 100
    assert shown.getvalue().count("+----") >= 6
    assert len(Path("metrics.jsonl").read_text().splitlines()) >= 1


def _run_commands(content: str) -> None:
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        printed = result.stderr + result.stdout
        assert doctest.OutputChecker().check_output(expected, printed, options), f"{command}\n{printed}"


def test_the_example_shows_a_table_and_a_stream(spark, capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    parts, title = {}, ""
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(":"):
            title = line
        else:
            parts.setdefault(title, []).append(line.split())
    notified = [row[:3] for row in parts["Notifications:"]]
    assert notified == [row[:3] for row in parts["Notifications of the stream:"]]
    assert ["ana", "f1", "0.6"] in notified
    assert ["ben", "f5", "0.8"] in notified
    assert parts["The best subscriber of each flat:"] == [
        ["f1", "ana"],
        ["f2", "ana"],
        ["f3", "ben"],
        ["f4", "ana"],
        ["f5", "ana"],
        ["f6", "ben"],
    ]
