"""The covering bench on small work: everything is measured and compared, and wrong answers are found out."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rankcast.cli.main import app
from rankcast.covering.topk.cover_set import Change, CoverSet
from rankcast.covering.topk.poset import Poset, PosetWalk
from rankcast.model.errors import UnknownIdError
from rankcast_lab.bench import covering, covering_top_k
from rankcast_lab.bench.covering_kernels import pairwise_counts
from rankcast_lab.bench.registry import Settings
from rankcast_lab.engines.bulk import levels_above
from rankcast_lab.engines.relations import RELATIONS, RelationTable

SMALL = Settings(workloads=("top-k", "relations"), subscriptions=(300,))


def test_changes_and_relations_are_measured_and_compared():
    report = covering.run(SMALL)
    churns = {f"{churn.name} 300" for churn in covering_top_k.CHURNS}
    assert {(row.case, row.engine) for row in report.rows} == {
        *((case, engine) for case in churns for engine in ("incremental", "from scratch", "pairwise")),
        *((f"relations of {kind} 300", name) for kind in ("ranges", "disjunctions") for name in ("table", "pairs")),
    }
    assert all(row.microseconds_per_event > 0 for row in report.rows)
    assert report.is_correct, report.comparisons
    assert len(report.comparisons) == 2 * (2 * 3 + 1) + 2
    assert report.requirements == []  # promised of other sizes


def test_comparisons_with_forwarded_ones_are_fewer_than_all():
    report = covering.run(SMALL)
    for k in covering_top_k.MOST_COMPARISONS:
        case = f"one attribute, AncestorCoverK k={k} 300"
        found = {one.quantity: one.value for one in report.figures if one.case == case}
        deciding = found["comparisons with forwarded ones per addition"]
        assert 0 < deciding <= found["comparisons in all per addition"]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)), max_size=20),
    st.integers(1, 5),
)
def test_the_plain_loop_counts_what_the_bulk_kernel_counts(rows, most):
    table = np.array(rows, float).reshape(len(rows), 4)
    starts, ends = table[:, ::2].copy(), table[:, ::2] + table[:, 1::2]
    assert pairwise_counts(starts, ends, most).tolist() == levels_above(starts, ends, most=most).tolist()


def test_wrong_changes_and_wrong_relations_are_found_out_and_the_exit_code_says_so(monkeypatch):
    honest_remove, honest_codes = CoverSet.remove, RelationTable.codes

    def forgetting(self, number):
        change = honest_remove(self, number)
        return Change(change.forward[1:], change.withdraw)

    def off(self, wanted):
        codes = honest_codes(self, wanted)
        codes[0] = (codes[0] + 1) % len(RELATIONS)
        return codes

    monkeypatch.setattr(CoverSet, "remove", forgetting)
    monkeypatch.setattr(RelationTable, "codes", off)
    arguments = ["bench", "covering", "--part", "top-k", "--part", "relations", "--subscriptions", "200", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["correct"] is False
    assert "one attribute, AncestorCoverK k=10 200: changes, half is wrong" in result.stderr
    assert "relations of ranges 200: table is wrong" in result.stderr


def test_changes_that_make_no_sense_are_noted():
    upstream = covering_top_k.Upstream()
    upstream.take(Change(forward=(1,)))
    upstream.take(Change(forward=(1,), withdraw=(2,)))
    assert upstream.wrong == "[1] forwarded again, [2] withdrawn though never forwarded"


def test_the_poset_is_measured_and_its_walks_and_ancestors_are_compared():
    report = covering.run(Settings(workloads=("poset",), subscriptions=(150,)))
    cases = ("poset, 1 attribute 150", "poset, 3 attributes 150")
    assert [(row.case, row.engine) for row in report.rows] == [
        (case, engine) for case in cases for engine in ("poset", "walk", "all filters")
    ]
    assert report.is_correct, report.comparisons
    assert len(report.comparisons) == 4
    asked = [one.value for one in report.figures if one.quantity == "nodes asked by a walk"]
    assert all(0 < share <= 100 for share in asked)


def test_a_walk_that_loses_a_match_is_found_out(monkeypatch):
    honest = Poset.walk
    monkeypatch.setattr(Poset, "walk", lambda self, event: PosetWalk(honest(self, event).accepting[1:], 1))
    report = covering.run(Settings(workloads=("poset",), subscriptions=(150,)))
    assert [one.engine for one in report.comparisons if not one.equal] == ["walk", "walk"]


def test_an_unknown_part_is_refused():
    with pytest.raises(UnknownIdError, match="there is no part 'sets' of covering; expected one of top-k, relations"):
        covering.run(Settings(workloads=("sets",)))
