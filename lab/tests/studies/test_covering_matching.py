"""`rankcast study covering-matching`: walks find whom they must, and ask no more nodes than that takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.language.parser import parse_filter
from rankcast.testing.strategies import attributes, filters
from rankcast_lab.studies import covering_matching
from rankcast_lab.studies.covering_matching import FirstMatchWalk, Graph, posets


@given(st.lists(filters(), min_size=6, max_size=6), st.lists(attributes(), max_size=6))
def test_walks_without_ranks_find_every_subscriber_with_a_match(wanted, events):
    everything, own_roots = posets(wanted, Graph(3, 2))
    first_match = FirstMatchWalk(everything)
    for event in events:
        expected = {number // 2 for number, one in enumerate(wanted) if one.accepts(event)}
        found, asked = first_match.walk(event)
        kept = own_roots.walk(event)
        assert found == expected == {member for node in kept.accepting for member in own_roots.members(node)}
        assert asked <= everything.walk(event).visited


def test_a_subscriber_with_a_match_is_not_asked_for_again():
    wanted = [parse_filter(text) for text in ("x > 0", "x > 1", "y = 1", "y = 2")]
    everything, own_roots = posets(wanted, Graph(2, 2))
    event = {"x": 2, "y": 1}
    assert everything.walk(event).visited == 4
    assert own_roots.walk(event).visited == 3
    assert FirstMatchWalk(everything).walk(event) == ({0, 1}, 2)


def test_the_study_writes_rows_a_page_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(covering_matching, "ONE_SUBSCRIBER", (Graph(1, 5), Graph(1, 20)))
    monkeypatch.setattr(covering_matching, "SERVERS", (Graph(4, 5),))
    monkeypatch.setattr(covering_matching, "QUICK_EVENTS", 20)
    result = CliRunner().invoke(app, ["study", "covering-matching", "--quick", "--json", "--out", str(tmp_path)])
    rows = {row["quantity"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["zipf, 5 to 20 of one subscriber: ranked / own roots"]["published"] == 2
    for graph in ("1 x 5", "1 x 20", "4 x 5"):
        assert 0 < rows[f"uniform, {graph}: ranked walk asks, % of nodes"]["measured"] <= 100
        assert rows[f"uniform, {graph}: ranked / first match"]["measured"] >= 1
    assert (tmp_path / "covering-matching.png").read_bytes().startswith(b"\x89PNG")
    assert "](covering-matching.png)" in (tmp_path / "covering-matching.md").read_text()


def test_twice_holds_where_the_factor_passes_it_on_the_way():
    graphs = (*covering_matching.ONE_SUBSCRIBER, *covering_matching.SERVERS)
    for step, holds, place in ((0.5, True, 50.0), (0.1, False, "-")):
        measured = {
            (constants, graph): covering_matching.Visits(100, 10 * (1 + step * at), 10, 10)
            for constants in covering_matching.Constants
            for at, graph in enumerate(graphs)
        }
        found = list(covering_matching.findings(measured))
        assert [one.holds for one in found if one.published == 2] == [holds] * 4
        places = [one.measured for one in found if one.quantity.endswith("twice at")]
        assert places == [place if place == "-" else pytest.approx(place)] * 4
