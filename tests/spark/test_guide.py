"""The examples of docs/spark.md are run, in the order of the page."""

import contextlib
import doctest
import io
import re
import shlex
import shutil
from pathlib import Path

from typer.testing import CliRunner

from rankcast.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
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
