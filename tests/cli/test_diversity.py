"""`rankcast match` with a subscriber file that asks for diversity."""

import json

from typer.testing import CliRunner

from rankcast.cli.main import app

PEOPLE = """\
version: 1
subscribers:
  - id: ana
    deliver: {policy: periodic, k: 2, period: 1h, diversity: {weights: {genre: 1}}}
    subscriptions:
      - {filter: rating >= 8, rank: 1.0}
      - {filter: rating >= 6, rank: 0.8}
"""
FILMS = [("1", "war", 8), ("2", "war", 9), ("3", "comedy", 6)]


def matched(tmp_path, *options):
    people, films = tmp_path / "people.yaml", tmp_path / "films.jsonl"
    people.write_text(PEOPLE, "utf-8")
    lines = [
        {"id": name, "time": f"2026-01-01T00:0{name}:00Z", "genre": genre, "rating": rating}
        for name, genre, rating in FILMS
    ]
    films.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    arguments = ["match", str(films), "--subscribers", str(people), *options]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_near_copy_gives_way_to_a_lower_rank(tmp_path):
    notes = [json.loads(line) for line in matched(tmp_path, "--json").splitlines()]
    assert [(note["event"]["id"], note["rank"]) for note in notes] == [("1", 1.0), ("3", 0.8)]
    assert {note["time"] for note in notes} == {"2026-01-01T01:00:00Z"}


def test_the_report_names_the_policy_and_its_diversity(tmp_path):
    assert "the diverse best 2 every 1h" in " ".join(matched(tmp_path).split())
