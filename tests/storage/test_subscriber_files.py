"""Subscriber files: what loads, what is set aside with which line, what makes a file unusable, and saving."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model import filters
from rankcast.model.errors import DuplicateIdError, InvalidFileError, InvalidSubscriptionError
from rankcast.model.periods import Every
from rankcast.model.policies import (
    ALL_MATCHES,
    AllMatches,
    AtOnce,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TopKWindow,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.model.values import ValueType
from rankcast.storage import text_files as texts
from rankcast.storage.documents import DocumentFormat
from rankcast.storage.durations import format_duration, parse_duration
from rankcast.storage.subscribers.files import (
    load_subscribers,
    loads_subscribers,
    save_subscribers,
    subscribers_from_document,
    subscribers_schema,
    subscribers_to_document,
)
from rankcast.storage.subscribers.settings import (
    format_priority,
    parse_priority,
    policy_from_document,
    policy_to_document,
)
from rankcast.testing.strategies import notified_subscribers, policies, schemas

EXAMPLE = """\
version: 1
schema:
  attributes: {city: string, rent: int, rooms: int, posted: time, furnished: bool, score: float}
  required: [city, rent]
subscribers:
  - id: ana
    deliver: {policy: sliding, k: 3, window: 100}
    rank_by: mean
    most_specific: true
    subscriptions:
      - id: central
        filter: city = 'Porto' and rent between 500 and 900
        rank: 0.9
        weight: 2.0
        active_from: 2026-01-01T00:00:00Z
        active_until: 2027-01-01T00:00:00Z
      - filter: city = 'Porto' and rooms >= 3
        rank: 0.6
  - id: rui
    subscriptions: [{id: big, filter: rooms >= 4}, {id: cheap, filter: rent < 500}]
    priorities: [big before cheap]
"""
TYPES = {"city": "string", "rent": "int", "rooms": "int", "posted": "time", "furnished": "bool", "score": "float"}
FLATS = Schema({name: ValueType(kind) for name, kind in TYPES.items()}, frozenset({"city", "rent"}))
CENTRAL = parse_filter("city = 'Porto' and rent between 500 and 900", FLATS)
YEARS = [datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2027)]
ANA = Subscriber(
    "ana",
    (
        Subscription("central", CENTRAL, 0.9, 2.0, *YEARS),
        Subscription("2", parse_filter("city = 'Porto' and rooms >= 3", FLATS), 0.6),
    ),
    Sliding(k=3, window=100),
    RankBy.MEAN,
    most_specific=True,
)
BIG = Subscription("big", parse_filter("rooms >= 4", FLATS))
CHEAP = Subscription("cheap", parse_filter("rent < 500", FLATS))
RUI = Subscriber("rui", (BIG, CHEAP), priorities=(Priority("big", "cheap"),))


def loaded(entry):
    """Return the only subscriber, which has no problems; `entry` is what its mapping says beside the id."""
    found = loads_subscribers(f"version: 1\nsubscribers: [{{id: a, {entry}}}]")
    assert found.problems == ()
    return found.subscribers[0]


def refused(text):
    """Return the problems for which a document cannot be used."""
    with pytest.raises(InvalidFileError) as caught:
        loads_subscribers(text)
    return caught.value.problems


def with_subscriber(*lines):
    """Return a file with two good subscribers and, between them, one made of these lines; it starts on line 4."""
    good = "  - {{id: {name}, subscriptions: [{{filter: x = 1}}]}}"
    between = ["  - " + lines[0], *("    " + line for line in lines[1:])]
    return "\n".join(["version: 1", "subscribers:", good.format(name="first"), *between, good.format(name="last"), ""])


def only_problem(*lines):
    """Return the problem of the subscriber in the middle, having made sure that the good ones load."""
    found = loads_subscribers(with_subscriber(*lines))
    assert [subscriber.id for subscriber in found.subscribers] == ["first", "last"]
    (problem,) = found.problems
    assert not problem.warning
    return problem


def test_the_documented_example_loads():
    found = loads_subscribers(EXAMPLE)
    assert found.problems == ()
    assert found.schema == FLATS
    assert found.subscribers == (ANA, RUI)


def test_the_example_of_the_documentation_loads():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text("utf-8")
    found = loads_subscribers(page.split("```yaml\n")[1].split("```")[0])
    assert found.problems == ()
    assert [subscriber.id for subscriber in found.subscribers] == ["ana", "rui", "eva", "lia"]
    assert found.subscribers[2].subscriptions[0].relevance is not None
    assert found.subscribers[3].policies == {None: Periodic(5, Every("day", at="08:00", zone="Europe/Lisbon"))}


def test_defaults_are_those_of_the_model():
    assert loaded("subscriptions: []") == Subscriber("a")


@pytest.mark.parametrize(
    ("entry", "policy"),
    [
        ("{policy: all}", ALL_MATCHES),
        ("{policy: continuous, k: 2}", Continuous(2)),
        ("{policy: periodic, k: 2, period: 15m}", Periodic(2, timedelta(minutes=15))),
        ("{policy: periodic, k: 2, period: 0.5}", Periodic(2, timedelta(milliseconds=500))),
        ("{policy: sliding, k: 2.0, window: 1e1}", Sliding(2, 10)),
        ("{policy: topkw, k: 2, window: 10}", TopKWindow(2, 10)),
        ("{policy: topkw, k: 2, window: 10, ties: newer}", TopKWindow(2, 10)),
        ("{policy: continuous, k: 2, ties: keep}", Continuous(2, ties="keep")),
        ("{policy: periodic, k: 2, period: 15m, ties: keep}", Periodic(2, timedelta(minutes=15), ties="keep")),
        ("{policy: sliding, k: 2, window: 10, ties: keep}", Sliding(2, 10, ties="keep")),
        ("{policy: topkw, k: 2, window: 1d}", TopKWindow(2, timedelta(days=1))),
        (
            "{policy: sliding, k: 3, window: 100, diversity: {sigma: 0.5, weights: {genre: 2}}}",
            Sliding(3, 100, Diversity(0.5, {"genre": 2})),
        ),
        ("{policy: sliding, k: 3, window: 100, diversity: {sigma: 1}}", Sliding(3, 100, Diversity(1))),
        (
            "{policy: periodic, k: 3, period: 1h, diversity: {weights: {b: 0.5, a: 1}}}",
            Periodic(3, timedelta(hours=1), Diversity(0.5, {"a": 1, "b": 0.5})),
        ),
        ("{policy: topkw, k: 3, window: 1h, diversity: {}}", TopKWindow(3, timedelta(hours=1), Diversity())),
        ("{policy: topkw, k: 3, window: 9, diversity: {weights: {}}}", TopKWindow(3, 9, Diversity())),
    ],
)
def test_policies(entry, policy):
    assert loaded(f"deliver: {entry}, subscriptions: []").deliver == policy


@given(policies())
def test_every_policy_comes_back(policy):
    entry = policy_to_document(policy)
    (subscriber,) = subscribers_to_document([Subscriber("a", deliver=policy)])["subscribers"]  # follows the schema
    assert subscriber.get("deliver") == entry
    assert entry is None or policy_from_document(json.loads(json.dumps(entry))) == policy


@pytest.mark.parametrize(
    ("entry", "relevance"),
    [
        (
            "{function: ideal_point, targets: {rooms: 3, rent: {value: 700, scale: 100, weight: 2}}}",
            IdealPoint([Target("rent", 700, 100, 2), Target("rooms", 3)]),
        ),
        ("{function: ideal_point, targets: {rent: 700}, reach: 50}", IdealPoint([Target("rent", 700)], 50)),
        ("{function: closeness, targets: {rent: {value: 7e2, scale: 9}}}", Closeness([Target("rent", 700, 9)])),
        ("{function: cosine, attribute: item.embedding, vector: [1, -0.5]}", Cosine("item.embedding", [1, -0.5])),
    ],
)
def test_relevance_functions(entry, relevance):
    assert loaded(f"subscriptions: [{{filter: true, relevance: {entry}}}]").subscriptions[0].relevance == relevance


def test_decay_and_refresh_times_are_durations():
    subscriber = loaded("decay: {half_life: 1d}, subscriptions: [{filter: true, refresh: 2h}]")
    assert subscriber.decay == Decay(timedelta(days=1))
    assert subscriber.subscriptions[0].refresh == timedelta(hours=2)


def test_numbers_of_a_relevance_function_are_written_as_people_write_them():
    targets = [Target("rent", 700, scale=100), Target("rooms", 3), Target("size", 0.5, weight=2)]
    subscriber = Subscriber("a", (Subscription("b", parse_filter("true"), relevance=IdealPoint(targets, 4)),))
    (entry,) = subscribers_to_document([subscriber])["subscribers"][0]["subscriptions"]
    assert json.dumps(entry["relevance"]) == (
        '{"function": "ideal_point", "targets": {"rent": {"value": 700, "scale": 100}, "rooms": 3, '
        '"size": {"value": 0.5, "weight": 2}}, "reach": 4}'
    )


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("filter: true", "true"),
        ("filter: false or x = 1", "x = 1"),
        ("filter: {exact: {type: flat}}", "type = 'flat'"),
        ("filter: [{exact: {type: flat}}, {prefix: {subject: a}}]", "type = 'flat' and subject prefix 'a'"),
        ("filter: |\n     x > 1\n     and x < 5", "x > 1 and x < 5"),
    ],
)
def test_filters_are_text_or_cloud_events_filters(text, same):
    found = loads_subscribers(f"version: 1\nsubscribers:\n- id: a\n  subscriptions:\n  - {text}\n")
    assert found.problems == ()
    assert found.subscribers[0].subscriptions[0].filter == parse_filter(same)


WRONG_SETTINGS = [  # on line 6
    ("deliver: all", "deliver: 'all' is not a mapping with a policy"),
    ("deliver: {policy: best}", "deliver.policy: 'best' is not one of the"),
    ("deliver: {policy: sliding, k: 3}", "deliver: missing: 'window'"),
    ("deliver: {policy: all, k: 3}", "unknown key 'k'; expected policy"),
    ("deliver: {policy: sliding, k: -1, window: 1}", "deliver.k: -1 is not a whole number of at least 0"),
    ("deliver: {policy: topkw, k: 1, window: 0s}", "deliver.window: '0s' is not a window"),
    ("deliver: {policy: continuous, k: 3, diversity: {}}", "unknown key 'diversity'; expected policy, k"),
    *(
        (f"deliver: {{policy: sliding, k: 3, window: 9, diversity: {diversity}}}", message)
        for diversity, message in [
            ("0.5", "0.5 is not a mapping with sigma and weights"),
            ("{sigma: 2}", "sigma: 2 is not a number from 0 to 1"),
            ("{weights: [a]}", "a mapping of attribute names to weights"),
            ("{weights: {a: 0}}", "weights.a: 0 is not a number above 0"),
            ("{sigmas: 1}", "unknown key 'sigmas'; did you mean 'sigma'"),
            ("{weights: {a: 1.0e+308, b: 1.0e+308}}", "weights: their sum is not a finite number"),
        ]
    ),
    ("rank_by: sum", "rank_by: 'sum' is not one of max, min, mean"),
    ("decay: {half_life: 0s}", "decay.half_life: '0s' is not a duration"),
    ("decay: 1h", "decay: '1h' is not a mapping with half_life"),
]
WRONG_IN_A_SUBSCRIPTION = [  # on line 7
    ("rank: 1.5", "rank: 1.5 is not a number from 0 to 1"),
    ("weight: -1", "weight: -1 is not a number of at least 0"),
    ("active_from: soon", "active_from: 'soon' is not an RFC 3339 time"),
    ("refresh: soon", "refresh: 'soon' is not a duration"),
    *(
        (f"relevance: {{function: {function}}}", message)
        for function, message in [
            ("distance", "relevance.function: 'distance' is not one of the functions ideal_point, closeness, cosine"),
            ("closeness, targets: {x: 1}, reach: 2", "unknown key 'reach'; expected function, targets"),
            ("closeness, targets: {}", "subscriber 'a', subscription '1': relevance: targets: there is none"),
            ("cosine, attribute: v, vector: [0]", "subscription '1': relevance: vector: [0.0] has no direction"),
        ]
    ),
    (
        "relevance: {function: closeness, targets: {x: near}}",
        "relevance.targets.x: 'near' is not a target: a number, or a mapping with value, scale",
    ),
]
IDEAL_POINT = "relevance: {function: ideal_point, targets: {x: 1}}"
WRONG_SUBSCRIPTIONS = [  # on the line that is named
    ("- rank: 1", 6, "subscriber 'a', subscription '1': missing: 'filter'"),
    ("- filter: 7", 6, "subscription '1', filter: 7 is not a filter"),
    ("- {filter: x = 1, active_from: 2026-02-30}", 6, "'1': active_from: '2026-02-30' is not a time"),
    ("- {filter: x = 1, active_from: 2026-02-01, active_until: 2026-01-01}", 6, "is not after active_from"),
    ("- id: b\n  filter: x ~ 1", 7, "subscriber 'a', subscription 'b': filter: "),
    ("- id: b\n  filter: ''", 7, "filter is blank; write true"),
    ("- filter: {exakt: {type: x}}", 6, "subscription '1': filter: "),
    ("- {id: b, filter: x = 1}\n- {id: b, filter: x = 2}", 7, "subscriber 'a' has two subscriptions 'b'"),
    ("- {id: '2', filter: x = 1}\n- {filter: x = 2}", 7, "subscriber 'a' has two subscriptions '2'"),
    (f"- {{filter: true, rank: 1, {IDEAL_POINT}}}", 6, "an ideal point needs a reach to be combined with a rank"),
    (
        f"- {{filter: true, {IDEAL_POINT}}}\ndecay: {{half_life: 1h}}",
        4,
        "subscription '1': relevance: an ideal point needs a reach to be combined with decay",
    ),
    (
        "- filter: true\ndeliver: {policy: sliding, k: 3, window: 9, diversity: {}}\ndecay: {half_life: 1h}",
        4,
        "diversity needs ranks from 0 to 1, but there is a decay",
    ),
    ("- filter: x = 1\npriorities: [1 before 3]", 7, "has no subscription '3'"),
    (
        "- {filter: x = 1, rank: 1}\n- filter: x = 2\npriorities: [1 before 2]",
        8,
        "has a rank although there are priorities",
    ),
    (
        "- filter: x = 1\n- filter: x = 2\npriorities: [1 before 2, 2 before 1]",
        8,
        "the priorities form a cycle: 1 before 2 before 1",
    ),
    (
        "- filter: x = 1\npriorities: [1 over 2]",
        7,
        "priorities[0]: '1 over 2' is not a priority such as 'big before cheap'",
    ),
    ("- filter: x = 1\npriorities: [1 before 2 before 3]", 7, "has 3 names"),
]


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (["id: a"], 4, "subscriber 'a': missing: 'subscriptions'"),
        (["subscriptions: []"], 4, "subscriber 2: missing: 'id'"),
        (["id: 7", "subscriptions: []"], 4, "subscriber 2, id: 7 is not an id: a text of 1 to 1,000 characters"),
        (["id: ' '", "subscriptions: []"], 4, "subscriber ' ', id: ' ' is not an id"),
        (["id: a", "subscription: []", "subscriptions: []"], 5, "unknown key 'subscription'; did you mean"),
        (["id: a", "subscriptions: 7"], 5, "subscriber 'a', subscriptions: 7 is not a list of subscriptions"),
        (["id: first", "subscriptions: []"], 4, "an earlier subscriber has the id 'first' already"),
        (["7"], 4, "subscriber 2: 7 is not a mapping with id and subscriptions"),
        *((["id: a", "subscriptions: []", setting], 6, message) for setting, message in WRONG_SETTINGS),
        *(
            (["id: a", "subscriptions:", "- filter: x = 1", f"  {setting}"], 7, message)
            for setting, message in WRONG_IN_A_SUBSCRIPTION
        ),
        *(
            (["id: a", "subscriptions:", *text.splitlines()], line, message)
            for text, line, message in WRONG_SUBSCRIPTIONS
        ),
    ],
)
def test_a_bad_subscriber_is_set_aside_with_its_line(lines, line, message):
    problem = only_problem(*lines)
    assert message in problem.message
    assert problem.line == line


@pytest.mark.parametrize("number", [".nan", "-.inf", "1e999"])
def test_a_number_that_float64_does_not_have_costs_only_its_subscriber(number):
    text = f"version: 1\nsubscribers:\n- {{id: a, subscriptions: [{{filter: x > 1, rank: {number}}}]}}\n"
    found = loads_subscribers(text + "- {id: b, subscriptions: [{filter: x > 1}]}\n")
    assert [str(problem) for problem in found.problems] == [
        f"<text>:3: subscriber 'a', subscription '1', rank: {number} is not a number from 0 to 1"
    ]
    assert [subscriber.id for subscriber in found.subscribers] == ["b"]


def test_filters_of_one_file_share_their_steps_and_plain_ones_are_read_nevertheless(monkeypatch):
    """A file of 100 KB has room for three hundred filters of which each takes half a second."""
    monkeypatch.setattr(filters, "MAX_STEPS", 1_000_000)
    slow = " and ".join("(t like '%{0}a{1}_%' or u like '%{1}_%')".format("{0}", at) for at in range(5))
    entries = [f'- {{id: s{at}, subscriptions: [{{filter: "{slow.format(at)}"}}]}}' for at in range(20)]
    text = "version: 1\nsubscribers:\n" + "\n".join([*entries, "- {id: plain, subscriptions: [{filter: x > 1}]}"])
    found = loads_subscribers(text)
    read = [subscriber.id for subscriber in found.subscribers]
    assert read[0] == "s0"
    assert read[-1] == "plain"
    assert 1 < len(read) < 20
    assert len(read) + len(found.problems) == 21
    assert "the filters of this file or message together take too many steps" in found.problems[0].message
    assert loads_subscribers(text.replace(" or ", " and ")).problems == ()


def test_so_does_one_in_json_wherever_it_is():
    text = """{"version": 1, "subscribers": [
        {"id": "a", "subscriptions": [{"filter": {"exact": {"type": NaN}}}]},
        {"id": -Infinity, "subscriptions": [{"filter": 1e999}]},
        {"id": "b", "subscriptions": [{"filter": "x > 1"}]}]}"""
    found = loads_subscribers(text, format=DocumentFormat.JSON)
    assert [problem.line for problem in found.problems] == [2, 3, 3]
    assert [subscriber.id for subscriber in found.subscribers] == ["b"]


def test_a_syntax_error_in_a_filter_keeps_its_caret():
    message = only_problem("id: a", "subscriptions:", "- filter: rent < ").message
    text, caret = message.splitlines()[-2:]
    assert text == "  rent <"
    assert caret.strip() == "^"


def test_every_problem_of_a_subscriber_is_reported():
    text = with_subscriber("id: a", "subscriptions:", "- filter: x <", "- filter: '> 1'", "- filter: x = 1")
    assert [problem.line for problem in loads_subscribers(text).problems] == [6, 7]


UNKNOWN = "subscription '2': relevance: unknown attribute 'romos'; did you mean 'rooms'?"


@pytest.mark.parametrize(
    ("good", "wrong", "line", "message"),
    [
        ("rooms >= 4", "romos >= 4", 20, "did you mean 'rooms'?"),
        ("rooms >= 3", "rooms >= 'x'", 17, "rooms is declared int"),
        ("rank: 0.6", "relevance: {function: closeness, targets: {romos: 3}}", 18, UNKNOWN),
        ("window: 100}", "window: 100, diversity: {weights: {romos: 1}}}", 7, "rooms"),
    ],
)
def test_attributes_are_checked_against_the_files_schema(good, wrong, line, message):
    found = loads_subscribers(EXAMPLE.replace(good, wrong))
    assert len(found.subscribers) == 1
    (problem,) = found.problems
    assert problem.line == line
    assert message in problem.message


def test_diversity_may_weigh_what_the_schema_or_the_envelope_has():
    text = EXAMPLE.replace("window: 100}", "window: 100, diversity: {weights: {city: 1, source: 1}}}")
    assert loads_subscribers(text).problems == ()


def test_a_filter_that_no_event_can_match_is_a_warning():
    found = loads_subscribers("version: 1\nsubscribers:\n- id: a\n  subscriptions:\n  - filter: x > 2 and x < 1")
    assert len(found.subscribers) == 1
    (problem,) = found.problems
    assert problem.warning
    assert str(problem) == "<text>:5: warning: subscriber 'a', subscription '1': no event can match this filter"


ONE_RANK = [
    "rank_by: mean, deliver: {policy: continuous, k: 1}, subscriptions: [{filter: x > 1}, {filter: y > 1}]",
    "deliver: {policy: sliding, k: 3, window: 100}, subscriptions: [{filter: x > 1}, {filter: y > 1}]",
    "deliver: {policy: continuous, k: 1}, subscriptions: [{filter: x > 1, rank: 0.4}, {filter: y > 1, rank: 0.4}]",
    "deliver: {policy: topkw, k: 1, window: 9}, rank_by: weighted_sum, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: topkw, k: 9, window: 1h}, notify: {every: 1h}, subscriptions: [{filter: x > 1}]",
    "subscriptions: [{filter: y > 1}, {filter: x > 1, deliver: {policy: sliding, k: 3, window: 100}}]",
]
SEVERAL_RANKS = [
    "deliver: {policy: sliding, k: 3, window: 100, ties: keep}, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: sliding, k: 3, window: 100, diversity: {}}, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: sliding, k: 3, window: 3}, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: sliding, k: 3, window: 9}, subscriptions: [{filter: x > 1}, {filter: y > 1, rank: 0.4}]",
    "deliver: {policy: sliding, k: 3, window: 9}, rank_by: weighted_sum, "
    "subscriptions: [{filter: x > 1}, {filter: y > 1}]",
    "rank_by: mean, deliver: {policy: continuous, k: 1}, "  # of three, the mean is a little more than 0.1
    "subscriptions: [{filter: x > 1, rank: 0.1}, {filter: y > 1, rank: 0.1}, {filter: z > 1, rank: 0.1}]",
    "deliver: {policy: continuous, k: 3}, decay: {half_life: 1h}, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: continuous, k: 3}, notify: on_demand, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: periodic, k: 3, period: 1h}, subscriptions: [{filter: x > 1}]",
    "deliver: {policy: sliding, k: 3, window: 9}, subscriptions: []",
    "subscriptions: [{filter: x > 1}]",
    "deliver: {policy: sliding, k: 1, window: 9}, subscriptions: [{filter: x > 1, relevance: {function: closeness, "
    "targets: {x: 5}}}]",
    "deliver: {policy: sliding, k: 1, window: 9}, priorities: [a before b], "
    "subscriptions: [{id: a, filter: x > 1}, {id: b, filter: y > 1}]",
]


@pytest.mark.parametrize("text", ONE_RANK + SEVERAL_RANKS)
def test_a_k_that_limits_little_as_all_matches_have_one_rank_is_a_warning(text):
    found = loads_subscribers(f"version: 1\nsubscribers:\n- {{id: a, {text}}}")
    assert len(found.subscribers) == 1
    whose = "" if text.startswith(("deliver", "rank_by")) else ", subscription '2'"
    expected = (
        f"<text>:3: warning: subscriber 'a'{whose}: deliver: all matches have the same rank, and of equals the newer "
        "is better, so k limits little; what helps is ties: keep, ranks that differ, or a relevance"
    )
    assert list(map(str, found.problems)) == ([expected] if text in ONE_RANK else [])


def test_a_k_of_0_is_a_warning():
    text = "version: 1\nsubscribers:\n- {id: a, subscriptions: [{filter: x > 1, deliver: {policy: continuous, k: 0}}]}"
    (problem,) = loads_subscribers(text).problems
    expected = "<text>:3: warning: subscriber 'a', subscription '1': deliver: k is 0, so nothing is delivered"
    assert str(problem) == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("version: 2\nsubscribers: []", 1, "version: 2 is not 1"),
        ("subscribers: []", 1, "missing: 'version'"),
        ("version: 1", 1, "missing: 'subscribers'"),
        ("version: 1\nsubscribers: 7", 2, "subscribers: 7 is not a list of subscribers"),
        ("version: 1\nsubscibers: []\nsubscribers: []", 2, "unknown key 'subscibers'; did you mean 'subscribers'?"),
        ("- 1", 1, "[1] is not a subscriber file"),
        ("version: 1\nschema: {attributes: {a: text}}\nsubscribers: []", 2, "'text' is not one of the types bool"),
        ("version: 1\nsubscribers: []\nschema: {required: [a]}", 3, "schema: required but not declared: 'a'"),
        ("version: 1\nsubscribers: []\nschema:\n  attributes: {time: int}", 3, "'time' belongs to the envelope"),
        ("version: 1\nsubscribers: [", 2, "not YAML"),
    ],
)
def test_a_document_that_is_wrong_as_a_whole_makes_the_file_unusable(text, line, message):
    (problem,) = refused(text)
    assert message in problem.message
    assert problem.line == line


def test_an_unusable_document_still_names_its_bad_subscribers():
    assert [problem.line for problem in refused("version: 2\nsubscribers:\n- 7")] == [1, 3]


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("x.yaml", None, "x.yaml: cannot be read: No such file"),
            ("x.txt", EXAMPLE.encode(), "x.txt: the suffix '.txt' is not that of a subscriber file"),
            ("x.yaml", b"version: 1\nsubscribers: \xff", "x.yaml:2: not UTF-8: byte 0xff at offset 24"),
            ("x.yaml", "version: 1".encode("utf-16"), "x.yaml:1: the file is UTF-16; expected UTF-8"),
            ("x.yaml", b" " * 1_001, "x.yaml: the file is larger than 1,000 bytes"),
        ],
    )
    def test_a_file_that_cannot_be_used(self, tmp_path, monkeypatch, name, content, message):
        monkeypatch.setattr(texts, "MAX_FILE_BYTES", 1_000)
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidFileError) as caught:
            load_subscribers(tmp_path / name)
        assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)

    def test_a_format_that_is_given_wins_over_the_suffix(self, tmp_path):
        (tmp_path / "x.txt").write_text(EXAMPLE)
        assert len(load_subscribers(tmp_path / "x.txt", format=DocumentFormat.YAML).subscribers) == 2

    def test_a_byte_order_mark_is_ignored(self, tmp_path):
        for name, text in (("x.yaml", EXAMPLE), ("x.json", '{"version": 1, "subscribers": []}')):
            (tmp_path / name).write_text(text, encoding="utf-8-sig")
            assert load_subscribers(tmp_path / name).problems == ()

    def test_saving_is_atomic(self, tmp_path):
        path = tmp_path / "x.yaml"
        save_subscribers(path, [RUI], FLATS)
        before = path.read_text()
        with pytest.raises(DuplicateIdError):
            save_subscribers(path, [RUI, RUI], FLATS)
        assert path.read_text() == before
        assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("subscribers")


@given(st.data())
def test_what_is_saved_loads_back_equal(folder, data):
    schema = data.draw(st.none() | schemas())
    drawn = notified_subscribers(schema=schema)
    saved = data.draw(st.lists(drawn, max_size=3, unique_by=lambda subscriber: subscriber.id))
    document = subscribers_to_document(saved, schema)
    assert subscribers_schema().findings(document) == []
    assert subscribers_from_document(document).subscribers == tuple(saved)
    for name in ("x.yaml", "x.json"):
        save_subscribers(folder / name, saved, schema)
        found = load_subscribers(folder / name)
        assert [problem for problem in found.problems if not problem.warning] == []
        assert found.subscribers == tuple(saved)
        assert found.schema == schema


def test_periods_and_digests_may_be_those_of_a_calendar():
    text = """\
version: 1
subscribers:
  - id: ana
    zone: Europe/Lisbon
    deliver: {policy: periodic, k: 5, period: {every: day, at: "08:00"}}
    notify: {every: week, weekday: sunday, zone: Asia/Tokyo}
    subscriptions: [{filter: a > 1}, {filter: a > 2, deliver: {policy: periodic, k: 1, period: {every: 7d}}}]
  - {id: rui, notify: {every: month, day: 31, at: "23:59"}, subscriptions: [{filter: a > 1}]}
"""
    found = loads_subscribers(text, file="x.yaml")
    assert found.problems == ()
    ana, rui = found.subscribers
    assert ana.policies == {
        None: Periodic(5, Every("day", at="08:00", zone="Europe/Lisbon")),
        "2": Periodic(1, timedelta(days=7)),
    }
    assert ana.deliver == Periodic(5, Every("day", at="08:00"))
    assert ana.handover == ana.notify == Digest(Every("week", weekday="sunday", zone="Asia/Tokyo"))
    assert rui.handover == Digest(Every("month", at="23:59", day=31))
    assert subscribers_from_document(subscribers_to_document(found.subscribers)).subscribers == found.subscribers


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("zone: Europe/Lisboa", ": zone: 'Europe/Lisboa' is no zone .*; did you mean 'Europe/Lisbon'"),
        ("zone: 1", ", zone: 1 is not a time zone such as Europe/Berlin"),
        ("notify: {every: year}", ", notify.every: 'year' is not hour, day, week, month, or a duration such as 15m"),
        ("notify: {every: day, weekday: monday}", ": weekday: 'monday' is not for every day; it goes with every week"),
        ("notify: {every: hour, zone: UTC}", ": zone: 'UTC' is not for every hour, which is the same in every zone"),
        ("notify: {every: day, at: 24:00}", ", notify.at: '24:00' is not a time of day from 00:00 to 23:59"),
        (
            "deliver: {policy: periodic, k: 1, period: {every: day, at: '7:00'}}",
            ", deliver.period.at: '7:00' is not a time of",
        ),
        (
            "deliver: {policy: all, at_most: {count: 0, every: day}}",
            ", deliver.at_most.count: 0 is not a whole number of",
        ),
        ("deliver: {policy: all, at_most: []}", ", deliver.at_most: .* is not a cap such as .*, or a list of them"),
        ("deliver: {policy: periodic, k: 1, period: {every: week, day: 1}}", ": day: 1 is not for every week"),
    ],
)
def test_a_calendar_that_is_none_is_a_problem_at_its_line(entry, problem):
    text = f"version: 1\nsubscribers:\n  - id: ana\n    {entry}\n    subscriptions: [{{filter: a > 1}}]\n"
    (found,) = loads_subscribers(text, file="x.yaml").problems
    assert re.fullmatch(f"x.yaml:4: subscriber 'ana'{problem}.*", str(found))


def test_a_subscription_may_have_its_own_policy_and_a_subscriber_its_way_to_be_notified():
    text = """\
version: 1
subscribers:
  - id: ana
    notify: {every: 90}
    subscriptions: [{filter: a > 1, deliver: {policy: topkw, k: 2, window: 15m}}, {filter: a>2, deliver: {policy: all}}]
  - {id: rui, notify: on_demand, deliver: {policy: continuous, k: 1}, subscriptions: [{filter: a > 1}]}
  - {id: eva, notify: at_once, subscriptions: []}
  - {id: gil, notify: on_demand, subscriptions: [{filter: a > 1}]}
  - {id: leo, notify: weekly, subscriptions: [{filter: a > 1}]}
  - {id: lia, notify: {each: 5m}, subscriptions: [{filter: a > 1}]}
  - {id: mia, subscriptions: [{filter: a > 1, deliver: {policy: topkw, k: 2}}]}
"""
    found = loads_subscribers(text, file="x.yaml")
    ana, rui, eva = found.subscribers
    assert (ana.notify, rui.notify, eva.notify) == (Digest(timedelta(seconds=90)), OnDemand(), AtOnce())
    assert ana.policies == {"1": TopKWindow(2, timedelta(minutes=15)), "2": AllMatches()}
    way = "is not at_once, on_demand, or a mapping with every (a duration such as 15m, or hour, day, week or month)"
    assert [str(problem) for problem in found.problems if not problem.warning] == [
        "x.yaml:8: subscriber 'gil': notify: the policy of all matches holds nothing that could be read on demand; "
        "expected another policy",
        f"x.yaml:9: subscriber 'leo', notify: 'weekly' {way}",
        "x.yaml:10: subscriber 'lia': unknown key 'each'; expected every, at, weekday, day, zone",
        "x.yaml:10: subscriber 'lia', notify: missing: 'every'",
        "x.yaml:11: subscriber 'mia', subscription '1', deliver: missing: 'window'",
    ]


def test_what_the_shape_cannot_express_is_not_saved():
    beyond = Subscriber("a", deliver=Periodic(1, timedelta(days=999_999_999, microseconds=1)))
    with pytest.raises(InvalidSubscriptionError, match=r"deliver.period: .* is not a duration"):
        subscribers_to_document([beyond])


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=100_000_000)))
def test_durations_are_read_back(duration):
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    "text", ["", "1", "s", "1 s", "-1s", "1.5h", "1w", "\u0661s", float("nan"), float("inf"), "9" * 30 + "d"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InvalidSubscriptionError, match="is not a duration"):
        parse_duration(text)


@given(*[st.text(" beforab\n", min_size=1, max_size=20)] * 2)
@example("big flats", "cheap")
def test_priorities_are_read_back_whatever_the_ids(first, then):
    written = format_priority(Priority(first, then))
    assert parse_priority(written) == Priority(first, then)
    assert (first, then) != ("big flats", "cheap") or written == "big flats before cheap"
