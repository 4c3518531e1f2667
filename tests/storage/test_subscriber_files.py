"""Subscriber files: what loads, what is set aside with which line, what makes a file unusable, and saving."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rankcast.language.parser import parse_filter
from rankcast.model.errors import DuplicateIdError, InvalidFileError, InvalidSubscriptionError
from rankcast.model.notifying import AtOnce, Gathered, OnDemand
from rankcast.model.policies import ALL_MATCHES, AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.model.values import ValueType
from rankcast.storage import text_files as texts
from rankcast.storage.documents import DocumentFormat
from rankcast.storage.durations import format_duration, parse_duration
from rankcast.storage.subscribers.files import (
    SubscriberFile,
    load_subscribers,
    loads_subscribers,
    save_subscribers,
    subscribers_from_document,
    subscribers_to_document,
)
from rankcast.storage.subscribers.schema import subscribers_schema
from rankcast.storage.subscribers.settings import format_priority, parse_priority
from rankcast.testing.strategies import notified_subscribers, schemas

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
FLATS = Schema(
    {
        "city": ValueType.STRING,
        "rent": ValueType.INT,
        "rooms": ValueType.INT,
        "posted": ValueType.TIME,
        "furnished": ValueType.BOOL,
        "score": ValueType.FLOAT,
    },
    frozenset({"city", "rent"}),
)
ANA = Subscriber(
    "ana",
    (
        Subscription(
            "central",
            parse_filter("city = 'Porto' and rent between 500 and 900", FLATS),
            0.9,
            2.0,
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2027, 1, 1, tzinfo=UTC),
        ),
        Subscription("2", parse_filter("city = 'Porto' and rooms >= 3", FLATS), 0.6),
    ),
    Sliding(k=3, window=100),
    RankBy.MEAN,
    most_specific=True,
)
RUI = Subscriber(
    "rui",
    (
        Subscription("big", parse_filter("rooms >= 4", FLATS)),
        Subscription("cheap", parse_filter("rent < 500", FLATS)),
    ),
    priorities=(Priority("big", "cheap"),),
)


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
    assert [subscriber.id for subscriber in found.subscribers] == ["ana", "rui", "eva"]
    assert found.subscribers[2].subscriptions[0].relevance is not None


def test_defaults_are_those_of_the_model():
    (subscriber,) = loads_subscribers("version: 1\nsubscribers: [{id: a, subscriptions: []}]").subscribers
    assert subscriber == Subscriber("a")


def test_yaml_and_json_have_one_shape(tmp_path):
    document = subscribers_to_document([ANA, RUI], FLATS)
    (tmp_path / "x.json").write_text(json.dumps(document))
    (tmp_path / "x.yaml").write_text(EXAMPLE)
    assert load_subscribers(tmp_path / "x.json") == load_subscribers(tmp_path / "x.yaml")
    assert subscribers_from_document(document) == load_subscribers(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("entry", "policy"),
    [
        ("{policy: all}", ALL_MATCHES),
        ("{policy: continuous, k: 2}", Continuous(2)),
        ("{policy: periodic, k: 2, period: 15m}", Periodic(2, timedelta(minutes=15))),
        ("{policy: periodic, k: 2, period: 0.5}", Periodic(2, timedelta(milliseconds=500))),
        ("{policy: sliding, k: 2.0, window: 1e1}", Sliding(2, 10)),
        ("{policy: topkw, k: 2, window: 10}", TopKWindow(2, 10)),
        ("{policy: topkw, k: 2, window: 1d}", TopKWindow(2, timedelta(days=1))),
    ],
)
def test_policies(entry, policy):
    text = f"version: 1\nsubscribers: [{{id: a, deliver: {entry}, subscriptions: []}}]"
    assert loads_subscribers(text).subscribers[0].deliver == policy


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
    text = f"version: 1\nsubscribers: [{{id: a, subscriptions: [{{filter: true, relevance: {entry}}}]}}]"
    found = loads_subscribers(text)
    assert found.problems == ()
    assert found.subscribers[0].subscriptions[0].relevance == relevance


def test_decay_and_refresh_times_are_durations():
    text = "version: 1\nsubscribers: [{id: a, decay: {half_life: 1d}, subscriptions: [{filter: true, refresh: 2h}]}]"
    (subscriber,) = loads_subscribers(text).subscribers
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


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (["id: a"], 4, "subscriber 'a': missing: 'subscriptions'"),
        (["subscriptions: []"], 4, "subscriber 2: missing: 'id'"),
        (["id: 7", "subscriptions: []"], 4, "subscriber 2, id: 7 is not an id: a text of 1 to 1,000 characters"),
        (["id: ' '", "subscriptions: []"], 4, "subscriber ' ', id: ' ' is not an id"),
        (["id: a", "subscription: []", "subscriptions: []"], 5, "unknown key 'subscription'; did you mean"),
        (["id: a", "subscriptions: 7"], 5, "subscriber 'a', subscriptions: 7 is not a list of subscriptions"),
        (["id: a", "subscriptions: []", "deliver: all"], 6, "deliver: 'all' is not a mapping with a policy"),
        (["id: a", "subscriptions: []", "deliver: {policy: best}"], 6, "deliver.policy: 'best' is not one of the"),
        (["id: a", "subscriptions: []", "deliver: {policy: sliding, k: 3}"], 6, "deliver: missing: 'window'"),
        (["id: a", "subscriptions: []", "deliver: {policy: all, k: 3}"], 6, "unknown key 'k'; expected policy"),
        (
            ["id: a", "subscriptions: []", "deliver: {policy: sliding, k: -1, window: 1}"],
            6,
            "deliver.k: -1 is not a whole number of at least 0",
        ),
        (
            ["id: a", "subscriptions: []", "deliver: {policy: topkw, k: 1, window: 0s}"],
            6,
            "deliver.window: '0s' is not a window",
        ),
        (["id: a", "subscriptions: []", "rank_by: sum"], 6, "rank_by: 'sum' is not one of max, min, mean"),
        (["id: a", "subscriptions:", "- rank: 1"], 6, "subscriber 'a', subscription '1': missing: 'filter'"),
        (["id: a", "subscriptions:", "- filter: x = 1", "  rank: 1.5"], 7, "rank: 1.5 is not a number from 0 to 1"),
        (["id: a", "subscriptions:", "- filter: x = 1", "  weight: -1"], 7, "weight: -1 is not a number of at least 0"),
        (["id: a", "subscriptions:", "- filter: 7"], 6, "subscription '1', filter: 7 is not a filter"),
        (
            ["id: a", "subscriptions:", "- filter: x = 1", "  active_from: soon"],
            7,
            "active_from: 'soon' is not an RFC 3339 time",
        ),
        (
            ["id: a", "subscriptions:", "- filter: x = 1", "  active_from: 2026-02-30"],
            6,
            "subscriber 'a', subscription '1': active_from: '2026-02-30' is not a time",
        ),
        (
            ["id: a", "subscriptions:", "- {filter: x = 1, active_from: 2026-02-01, active_until: 2026-01-01}"],
            6,
            "is not after active_from",
        ),
        (["id: a", "subscriptions:", "- id: b", "  filter: x ~ 1"], 7, "subscriber 'a', subscription 'b': filter: "),
        (["id: a", "subscriptions:", "- id: b", "  filter: ''"], 7, "filter is blank; write true"),
        (["id: a", "subscriptions:", "- filter: {exakt: {type: x}}"], 6, "subscription '1': filter: "),
        (
            ["id: a", "subscriptions:", "- {id: b, filter: x = 1}", "- {id: b, filter: x = 2}"],
            7,
            "subscriber 'a' has two subscriptions 'b'",
        ),
        (
            ["id: a", "subscriptions:", "- {id: '2', filter: x = 1}", "- {filter: x = 2}"],
            7,
            "subscriber 'a' has two subscriptions '2'",
        ),
        (
            ["id: a", "subscriptions: [{filter: x = 1}]", "priorities: [1 before 3]"],
            6,
            "has no subscription '3'",
        ),
        (
            ["id: a", "subscriptions: [{filter: x = 1, rank: 1}, {filter: x = 2}]", "priorities: [1 before 2]"],
            6,
            "has a rank although there are priorities",
        ),
        (
            ["id: a", "subscriptions: [{filter: x = 1}, {filter: x = 2}]", "priorities: [1 before 2, 2 before 1]"],
            6,
            "the priorities form a cycle: 1 before 2 before 1",
        ),
        (
            ["id: a", "subscriptions: [{filter: x = 1}]", "priorities: [1 over 2]"],
            6,
            "priorities[0]: '1 over 2' is not a priority such as 'big before cheap'",
        ),
        (
            ["id: a", "subscriptions: [{filter: x = 1}]", "priorities: [1 before 2 before 3]"],
            6,
            "has 3 names",
        ),
        (
            ["id: a", "subscriptions:", "- filter: true", "  relevance: {function: distance}"],
            7,
            "relevance.function: 'distance' is not one of the functions ideal_point, closeness, cosine",
        ),
        (
            [
                "id: a",
                "subscriptions:",
                "- filter: x = 1",
                "  relevance: {function: closeness, targets: {x: 1}, reach: 2}",
            ],
            7,
            "unknown key 'reach'; expected function, targets",
        ),
        (
            ["id: a", "subscriptions:", "- filter: true", "  relevance: {function: closeness, targets: {}}"],
            7,
            "subscriber 'a', subscription '1': relevance: targets: there is none",
        ),
        (
            ["id: a", "subscriptions:", "- filter: true", "  relevance: {function: closeness, targets: {x: near}}"],
            7,
            "relevance.targets.x: 'near' is not a target: a number, or a mapping with value, scale",
        ),
        (
            ["id: a", "subscriptions:", "- filter: true", "  relevance: {function: cosine, attribute: v, vector: [0]}"],
            7,
            "subscription '1': relevance: vector: [0.0] has no direction",
        ),
        (
            [
                "id: a",
                "subscriptions:",
                "- {filter: true, rank: 1, relevance: {function: ideal_point, targets: {x: 1}}}",
            ],
            6,
            "relevance: an ideal point needs a reach to be combined with a rank",
        ),
        (
            [
                "id: a",
                "subscriptions:",
                "- {filter: true, relevance: {function: ideal_point, targets: {x: 1}}}",
                "decay: {half_life: 1h}",
            ],
            4,
            "subscription '1': relevance: an ideal point needs a reach to be combined with decay",
        ),
        (["id: a", "subscriptions: []", "decay: {half_life: 0s}"], 6, "decay.half_life: '0s' is not a duration"),
        (["id: a", "subscriptions: []", "decay: 1h"], 6, "decay: '1h' is not a mapping with half_life"),
        (["id: a", "subscriptions:", "- filter: true", "  refresh: soon"], 7, "refresh: 'soon' is not a duration"),
        (["id: first", "subscriptions: []"], 4, "an earlier subscriber has the id 'first' already"),
        (["7"], 4, "subscriber 2: 7 is not a mapping with id and subscriptions"),
    ],
)
def test_a_bad_subscriber_is_set_aside_with_its_line(lines, line, message):
    problem = only_problem(*lines)
    assert message in problem.message
    assert problem.line == line


def test_a_syntax_error_in_a_filter_keeps_its_caret():
    message = only_problem("id: a", "subscriptions:", "- filter: rent < ").message
    text, caret = message.splitlines()[-2:]
    assert text == "  rent <"
    assert caret.strip() == "^"


def test_every_problem_of_a_subscriber_is_reported():
    found = loads_subscribers(
        with_subscriber("id: a", "subscriptions:", "- filter: x <", "- filter: '> 1'", "- filter: x = 1")
    )
    assert [problem.line for problem in found.problems] == [6, 7]


def test_a_filter_is_checked_against_the_files_schema():
    text = EXAMPLE.replace("rooms >= 4", "romos >= 4").replace("rooms >= 3", "rooms >= 'x'")
    found = loads_subscribers(text)
    assert found.subscribers == ()
    assert [problem.line for problem in found.problems] == [17, 20]
    assert "did you mean 'rooms'?" in found.problems[1].message
    assert "rooms is declared int" in found.problems[0].message


def test_a_relevance_is_checked_against_the_files_schema():
    relevance = "relevance: {function: closeness, targets: {romos: 3}}"
    found = loads_subscribers(EXAMPLE.replace("rank: 0.6", relevance))
    assert [subscriber.id for subscriber in found.subscribers] == ["rui"]
    (problem,) = found.problems
    assert problem.line == 18
    assert "subscription '2': relevance: unknown attribute 'romos'; did you mean 'rooms'?" in problem.message


def test_a_filter_that_no_event_can_match_is_a_warning():
    found = loads_subscribers("version: 1\nsubscribers:\n- id: a\n  subscriptions:\n  - filter: x > 2 and x < 1")
    assert len(found.subscribers) == 1
    (problem,) = found.problems
    assert problem.warning
    assert str(problem) == "<text>:5: warning: subscriber 'a', subscription '1': no event can match this filter"


def test_json_problems_have_lines_too():
    text = '{"version": 1,\n"subscribers": [\n{"id": "a",\n"subscriptions": [{"filter":\n"x <"}]}]}'
    (problem,) = loads_subscribers(text, format=DocumentFormat.JSON, file="x.json").problems
    assert str(problem).startswith("x.json:4: subscriber 'a', subscription '1': filter: ")


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
    with pytest.raises(InvalidFileError) as caught:
        loads_subscribers(text)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line == line


def test_an_unusable_document_still_names_its_bad_subscribers():
    with pytest.raises(InvalidFileError) as caught:
        loads_subscribers("version: 2\nsubscribers:\n- 7")
    assert [problem.line for problem in caught.value.problems] == [1, 3]


class TestFiles:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(InvalidFileError, match="cannot be read: No such file"):
            load_subscribers(tmp_path / "x.yaml")

    def test_an_unknown_suffix(self, tmp_path):
        (tmp_path / "x.txt").write_text(EXAMPLE)
        with pytest.raises(InvalidFileError, match=r"the suffix '.txt' is not that of a subscriber file"):
            load_subscribers(tmp_path / "x.txt")
        assert len(load_subscribers(tmp_path / "x.txt", format=DocumentFormat.YAML).subscribers) == 2

    def test_bytes_that_are_not_utf8_are_named_with_line_and_offset(self, tmp_path):
        (tmp_path / "x.yaml").write_bytes(b"version: 1\nsubscribers: \xff")
        with pytest.raises(InvalidFileError, match=r"x.yaml:2: not UTF-8: byte 0xff at offset 24"):
            load_subscribers(tmp_path / "x.yaml")

    def test_utf_16_is_named(self, tmp_path):
        (tmp_path / "x.yaml").write_text(EXAMPLE, encoding="utf-16")
        with pytest.raises(InvalidFileError, match="the file is UTF-16; expected UTF-8"):
            load_subscribers(tmp_path / "x.yaml")

    def test_a_byte_order_mark_is_ignored(self, tmp_path):
        for name, text in (("x.yaml", EXAMPLE), ("x.json", '{"version": 1, "subscribers": []}')):
            (tmp_path / name).write_text(text, encoding="utf-8-sig")
            assert load_subscribers(tmp_path / name).problems == ()

    def test_a_file_beyond_the_bound_is_not_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(texts, "MAX_FILE_BYTES", 100)
        (tmp_path / "x.yaml").write_text(EXAMPLE)
        with pytest.raises(InvalidFileError, match="the file is larger than 100 bytes"):
            load_subscribers(tmp_path / "x.yaml")

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
    saved = data.draw(
        st.lists(notified_subscribers(schema=schema), max_size=3, unique_by=lambda subscriber: subscriber.id)
    )
    for name in ("x.yaml", "x.json"):
        save_subscribers(folder / name, saved, schema)
        found = load_subscribers(folder / name)
        assert [problem for problem in found.problems if not problem.warning] == []
        assert found.subscribers == tuple(saved)
        assert found.schema == schema


@given(st.lists(notified_subscribers(), max_size=2, unique_by=lambda subscriber: subscriber.id))
def test_what_is_saved_follows_the_schema(saved):
    document = subscribers_to_document(saved)
    assert Draft202012Validator(subscribers_schema()).is_valid(document)
    assert subscribers_from_document(document).subscribers == tuple(saved)


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
    assert (ana.notify, rui.notify, eva.notify) == (Gathered(timedelta(seconds=90)), OnDemand(), AtOnce())
    assert ana.policies == {"1": TopKWindow(2, timedelta(minutes=15)), "2": AllMatches()}
    way = "is not at_once, on_demand, or a mapping with every (a duration such as 15m)"
    assert [str(problem) for problem in found.problems] == [
        "x.yaml:8: subscriber 'gil': notify: the policy of all matches holds nothing that could be read on demand; "
        "expected another policy",
        f"x.yaml:9: subscriber 'leo', notify: 'weekly' {way}",
        f"x.yaml:10: subscriber 'lia', notify: {{'each': '5m'}} {way}",
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
def test_priorities_are_read_back_whatever_the_ids(first, then):
    assert parse_priority(format_priority(Priority(first, then))) == Priority(first, then)


def test_a_priority_is_written_as_people_write_it():
    assert format_priority(Priority("big flats", "cheap")) == "big flats before cheap"


def test_the_result_is_a_value():
    assert loads_subscribers(EXAMPLE) == SubscriberFile((ANA, RUI), FLATS)
