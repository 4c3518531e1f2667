"""Studies, run quickly by their command."""

import json

from typer.testing import CliRunner

from rankcast.cli.main import app


def quick_study(name, folder):
    """Run a study with --quick and return its rows by quantity; its page and pictures go to a folder."""
    result = CliRunner().invoke(app, ["study", name, "--quick", "--json", "--out", str(folder)])
    assert result.exit_code == 0
    return {row["quantity"]: row for row in json.loads(result.stdout)["rows"]}
