"""The placement-dynamic study on small work: three ways from one plan, with their traffic and moves."""

import json

from typer.testing import CliRunner

from rankcast.cli.main import app


def test_a_quick_run_has_rows_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["study", "placement-dynamic", "--quick", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.stderr
    rows = {row["quantity"]: row["measured"] for row in json.loads(result.stdout)["rows"]}
    at_first = {value for name, value in rows.items() if name.endswith("at first")}
    assert len(at_first) == 1  # one plan, and the same subscribers
    assert rows["improved: traffic over yardstick at last"] <= rows["arrivals alone: traffic over yardstick at last"]
    assert rows["improved: moved in all"] > 0
    assert (tmp_path / "placement-dynamic.png").read_bytes().startswith(b"\x89PNG")
