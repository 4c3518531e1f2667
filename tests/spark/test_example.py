"""The example runs, and shows the same notifications for the table and for the stream."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline.py"


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
