"""`rankcast cover`: what a file reduces to under each strategy, who covers whom, and a picture."""

import math
import sys

import pytest

import command_line
from command_line import printed
from rankcast.cli import cover
from rankcast.cli.cover import STRATEGIES
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

PEOPLE = """\
version: 1
schema:
  attributes: {rent: int, rooms: int, city: string}
  required: [rent, rooms]
subscribers:
  - id: ana
    subscriptions:
      - {id: small, filter: "rent < 900 and rooms <= 2"}
      - {id: large, filter: "rent < 900 and rooms >= 3"}
  - id: rui
    subscriptions:
      - {id: inside, filter: "rent < 500 and rooms = 1"}
      - {id: across, filter: "rent between 300 and 800"}
      - {id: city, filter: "city = 'Porto' and rent > 1000"}
"""


def run(*arguments):
    return command_line.run("cover", *arguments)


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.yaml"
    path.write_text(PEOPLE)
    return path


def reductions(path, *options):
    (document,) = printed("cover", path, *options)
    return {reduction["strategy"]: reduction for reduction in document["strategies"]}


def test_every_strategy_reports_what_it_forwards(people):
    found = reductions(people)
    assert list(found) == list(STRATEGIES)
    assert [reduction["forwarded"] for reduction in found.values()] == [4, 5, 5, 4, 3, 3]
    assert all(reduction["forwarded"] + reduction["covered"] == 5 for reduction in found.values())
    assert found["exact"]["forwarded_percent"] == 60


ARMS = ("x <= 2 and y <= 1", "x >= 2 and y <= 2", "x >= 1 and y >= 2", "x <= 1 and y >= 1")
"""Rectangles around a square in the middle, like the arms of a windmill: no two of them make another one needless."""

WHOLE = "x between 0 and 3 and y between 0 and 3"


def windmill(path, *filters):
    listed = "".join(f'      - {{id: s{at}, filter: "{text}"}}\n' for at, text in enumerate(filters))
    head = "version: 1\nschema: {attributes: {x: float, y: float}, required: [x, y]}\n"
    path.write_text(f"{head}subscribers:\n  - id: ana\n    subscriptions:\n{listed}")
    return path


def test_work_that_is_not_allowed_is_given_up_and_forwarded(tmp_path):
    path = windmill(tmp_path / "people.yaml", *ARMS, "x between 1 and 2 and y between 1 and 2", WHOLE)
    found = reductions(path, "--strategy", "exact")["exact"]
    assert (list(found["covered_by"]), found["given_up"]) == (["ana/s5"], 0)
    found = reductions(path, "--strategy", "exact", "--budget", "0")["exact"]
    assert (list(found["covered_by"]), found["given_up"]) == (["ana/s4"], 1)


def test_a_lax_delta_lets_the_probabilistic_strategy_be_wrong(tmp_path):
    path = windmill(tmp_path / "people.yaml", *ARMS, WHOLE)
    for delta, forwarded in (("1e-9", 5), ("0.99", 4)):
        found = reductions(path, "--strategy", "probabilistic", "--delta", delta)
        assert found["probabilistic"]["forwarded"] == forwarded
    assert run(path, "--delta", "2").exit_code == 1


def test_a_covered_subscription_names_those_that_cover_it(people):
    found = reductions(people)
    assert found["regular"]["covered_by"] == {"rui/inside": ["ana/small"]}
    assert found["exact"]["covered_by"] == {"rui/inside": ["ana/small"], "rui/across": ["ana/small", "ana/large"]}


def test_k_says_how_many_above_hide_a_subscription(people):
    assert reductions(people, "--strategy", "ancestor", "--k", 1)["ancestor"]["forwarded"] == 4
    assert reductions(people, "--strategy", "ancestor", "--k", 2)["ancestor"]["forwarded"] == 5


def test_the_schema_of_the_file_counts(people):
    people.write_text(PEOPLE.replace("  required: [rent, rooms]\n", ""))
    assert reductions(people, "--strategy", "exact")["exact"]["covered_by"] == {"rui/inside": ["ana/small"]}


def test_details_say_whom_nobody_covers_and_how_many_a_limit_left_out(people):
    result = run(people, "--strategy", "exact", "--strategy", "rank", "--details", "--limit", 1)
    assert "... and 1 more; --limit sets how many are shown" in result.stdout
    assert "RankCoverK, k=2: nothing is covered" in result.stdout


def test_a_reader_is_told_what_is_not_looked_at(people):
    people.write_text(PEOPLE.replace('rooms = 1"}', 'rooms = 1", active_until: 2030-01-01T00:00:00Z}'))
    result = run(people)
    assert "1 subscription active for some time only: times are not looked at here" in result.stdout
    assert "probabilistic answers may be wrong" in result.stdout


def test_what_no_event_can_match_is_covered_by_nobody(people):
    people.write_text(PEOPLE.replace("rent < 500 and rooms = 1", "rent < 500 and rent > 600"))
    assert "rui/inside   nobody: no event can match it" in run(people, "--strategy", "exact", "--details").stdout


def test_a_file_without_subscriptions_is_no_error(tmp_path):
    path = tmp_path / "nobody.yaml"
    path.write_text("version: 1\nsubscribers: []\n")
    assert all(cut["forwarded"] == cut["forwarded_percent"] == 0 for cut in reductions(path).values())


def test_problems_of_the_file_are_reported_and_the_rest_is_used(people):
    people.write_text(PEOPLE.replace("rent < 500 and rooms = 1", "rent <"))
    result = run(people, "--strategy", "regular")
    assert result.exit_code == 1
    assert "people.yaml:12" in result.stderr
    assert "2 subscriptions of 1 subscriber" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "exaxt"], "--strategy: there is no 'exaxt'; expected one of regular, rank"),
        (["--attributes", "rent"], "--attributes: 'rent' is not two different names; expected such as rent,rooms"),
        (["--attributes", "rent,rent"], "is not two different names"),
        (["--attributes", "rent,rom"], "--attributes: no filter names 'rom'; did you mean 'rooms'?"),
        (["--plot", "cover.jpg"], "--plot: 'cover.jpg' is not a picture; expected a name with .png, .svg, .pdf"),
        (["--plot", "nowhere/cover.png"], "--plot: there is no folder"),
    ],
)
def test_mistakes_are_told_before_any_work(people, options, message):
    result = run(people, *options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert run(people, "--k", 0).exit_code == 2


class TestPicture:
    def test_without_matplotlib_the_extra_is_named_before_any_work(self, people, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        result = run(people, "--plot", "cover.png")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "matplotlib is not installed" in result.stderr
        assert result.stderr.endswith(": pip install 'rankcast[plot]'\n")

    def test_it_is_written_for_all_strategies_or_one(self, people, tmp_path):
        for options in ([], ["--strategy", "exact"], ["--attributes", "rooms,rent"]):
            path = tmp_path / "cover.png"
            result = run(people, "--plot", path, *options)
            assert result.exit_code == 0, result.stderr
            assert path.read_bytes().startswith(b"\x89PNG")
            assert f"wrote {path}" in result.stderr
            path.unlink()

    def test_the_largest_numbers_are_drawn_as_far_out_as_can_be(self, people, tmp_path):
        ends = "rent between -1.7e308 and 1.7e308 and rooms between -1.7e308 and 1.7e308"
        subscribers = PEOPLE[PEOPLE.index("subscribers") :]
        people.write_text("version: 1\n" + subscribers.replace("rent < 900 and rooms <= 2", ends))
        result = run(people, "--strategy", "exact", "--plot", tmp_path / "cover.png")
        assert result.exit_code == 0, result.stderr

    def test_many_subscriptions_have_no_names(self, tmp_path):
        path = tmp_path / "many.yaml"
        filters = "".join(f"      - {{filter: 'x > {at} and y < {at}'}}\n" for at in range(40))
        path.write_text(f"version: 1\nsubscribers:\n  - id: many\n    subscriptions:\n{filters}")
        result = run(path, "--strategy", "exact", "--plot", tmp_path / "many.svg")
        assert result.exit_code == 0, result.stderr
        assert "<svg" in (tmp_path / "many.svg").read_text()

    def test_two_attributes_with_numbers_are_needed(self, tmp_path):
        path = tmp_path / "one.yaml"
        path.write_text("version: 1\nsubscribers: [{id: a, subscriptions: [{filter: \"x > 1 and s = 'b'\"}]}]\n")
        result = run(path, "--plot", tmp_path / "one.png")
        assert result.exit_code == 1
        assert "a picture needs two attributes that are bounded by numbers, there is 'x' only" in result.stderr

    def test_an_open_end_is_infinite_and_whole_numbers_touch(self):
        schema = Schema({"x": ValueType.INT, "y": ValueType.FLOAT})
        wanted = parse_filter("x between 1 and 3 and y > 2.5 and x != 2").under(schema)
        assert list(cover._rectangles(wanted, "x", "y")) == [
            ((0.5, 1.5), (2.5, math.inf), True),
            ((2.5, 3.5), (2.5, math.inf), True),
        ]

    def test_a_filter_on_other_attributes_too_is_marked(self):
        (drawn,) = cover._rectangles(parse_filter("x > 1 and z = 4"), "x", "y")
        assert drawn == ((1, math.inf), (-math.inf, math.inf), False)

    def test_the_border_has_room_around_all_ends(self):
        rectangles = [cover.Rectangle((0, 10), (-math.inf, 5), whole=True)]
        (left, right), (bottom, top) = cover._border(rectangles)
        assert left < 0 < 10 < right
        assert bottom < 5 < top
