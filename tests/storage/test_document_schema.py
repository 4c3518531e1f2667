"""The shipped JSON Schema and shapes of small documents: what they accept, and what is said of the rest, and where."""

import copy

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidFileError
from rankcast.model.subscriptions import MAX_ID_LENGTH, RankBy
from rankcast.model.values import ValueType
from rankcast.storage.document_schema import AMOUNT, COUNT, MAX_UNKNOWN_KEYS, PLACE, check_shape, mapping
from rankcast.storage.documents import DocumentFormat, parse_document
from rankcast.storage.subscribers.files import subscribers_from_document, subscribers_schema

SCHEMA = subscribers_schema()
VALIDATOR = jsonschema_rs.validator_for(SCHEMA.shape)

GOOD = {
    "version": 1,
    "schema": {"attributes": {"rent": "int", "posted": "time"}, "required": ["rent"]},
    "subscribers": [
        {
            "id": "ana",
            "deliver": {"policy": "sliding", "k": 3, "window": 100},
            "rank_by": "mean",
            "most_specific": True,
            "subscriptions": [
                {"id": "central", "filter": "rent < 500", "rank": 0.9, "weight": 2, "active_from": "2026-01-01"},
                {"id": "old", "filter": "rent < 500", "active_until": "2027-01-01T00:00:00.5+01:00"},
                {"filter": {"exact": {"type": "x"}}},
                {"filter": True},
            ],
            "priorities": [],
        },
        {"id": "rui", "deliver": {"policy": "periodic", "k": 1, "period": "15m"}, "subscriptions": []},
        {"id": "eva", "deliver": {"policy": "periodic", "k": 1, "period": 0.5}, "subscriptions": []},
        {"id": "gil", "deliver": {"policy": "continuous", "k": 0}, "subscriptions": []},
        {"id": "leo", "deliver": {"policy": "topkw", "k": 1, "window": 10}, "subscriptions": []},
        {"id": "mia", "deliver": {"policy": "topkw", "k": 1, "window": "1d"}, "subscriptions": []},
        {
            "id": "noa",
            "decay": {"half_life": "1d"},
            "subscriptions": [
                {
                    "filter": True,
                    "relevance": {
                        "function": "ideal_point",
                        "targets": {"rent": 700, "rooms": {"value": 3, "scale": 0.5, "weight": 2}},
                        "reach": 5,
                    },
                    "refresh": "2h",
                },
                {"filter": True, "relevance": {"function": "closeness", "targets": {"rent": {"value": 1}}}},
                {"filter": True, "relevance": {"function": "cosine", "attribute": "v", "vector": [1, 0.5]}},
            ],
        },
        {"id": "ivo", "deliver": {"policy": "all"}, "subscriptions": [], "priorities": [{"first": "a", "then": "b"}]},
    ],
}


def paths(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from paths(inner, (*path, key))


ODD = (
    *(None, True, False, 0, 1, -1, 0.5, 1.0, 2.5, 1e300, float("inf"), "", " ", "x", "ana", "max", "all", "topkw"),
    *("90s", "0s", "1w", "a before b", "2026-01-01", "2026-1-1", [], {}, [1], {"a": 1}, {"policy": "all"}, "x" * 1001),
)


@st.composite
def changed_documents(draw):
    """Draw the good document with one to three parts replaced, removed or added."""
    document = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(document) if path] or [("version",)]))
        container = document
        for key in path[:-1]:
            container = container[key]
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            container[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif change == "remove" and path[-1] in (container if isinstance(container, dict) else range(len(container))):
            del container[path[-1]]
        elif isinstance(container, dict):
            name = draw(st.sampled_from(["k", "window", "period", "rank", "id", "reach", "other"]))
            container[name] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return document


def test_the_schema_is_a_valid_schema():
    jsonschema_rs.meta.validate(SCHEMA.shape)


def test_the_schema_accepts_a_document_with_everything_in_it():
    assert SCHEMA.findings(GOOD) == []


def test_the_schema_names_what_the_model_has():
    definitions = SCHEMA.shape["$defs"]
    subscriber = definitions["subscriber"]["properties"]
    types = definitions["type"]["anyOf"][0]["enum"]
    assert types == [kind.value for kind in ValueType]
    assert subscriber["rank_by"]["enum"] == [way.value for way in RankBy]
    assert definitions["id"]["maxLength"] == MAX_ID_LENGTH


def loads_without_problems(document):
    try:
        return all(problem.warning for problem in subscribers_from_document(document).problems)
    except InvalidFileError:
        return False


@given(changed_documents())
def test_what_is_wrong_with_a_document_is_found_at_a_place_that_it_has_and_nothing_else(document):
    findings = SCHEMA.findings(document)
    assert (findings == []) == VALIDATOR.is_valid(document)
    assert set(paths(document)).issuperset(finding.path for finding in findings)
    assert all(finding.message for finding in findings)
    assert findings == [] or not loads_without_problems(document)


def empty(**settings):
    return {"id": "a", "subscriptions": [], **settings}


def single(**settings):
    return {"id": "a", "subscriptions": [{"filter": "x = 1", **settings}]}


TWO = [{"filter": "x = 1"}, {"filter": "x = 2"}]
SUBSCRIBERS = [
    *(empty(), {"id": "a"}, {"subscriptions": []}, empty(id=""), empty(id="x" * 1000), empty(id="x" * 1001)),
    *(empty(other=1), single(), single(filter=True), single(filter=None), empty(subscriptions=[{}])),
    *(single(rank=rank) for rank in (0, 1, 0.5, -0.1, 1.1, True, "1")),
    *(single(weight=weight) for weight in (0, 7, -1, None)),
    *(single(active_from=time) for time in ("2026-01-01", "2026-01-01 10:00", "2026-01-01T10:00:00.123456+01:00")),
    *(single(active_from=time) for time in ("2026", "now", 2026)),
    *(empty(rank_by=way) for way in ("max", "min", "mean", "weighted_sum", "sum", None)),
    *(empty(most_specific=answer) for answer in (True, False, "no", 0)),
    *(
        empty(deliver={"policy": policy, **numbers})
        for policy in ("all", "continuous", "periodic", "sliding", "topkw", "other")
        for numbers in (
            *({}, {"k": 1}, {"k": 0}, {"k": -1}, {"k": 1.5}, {"k": 1, "window": 1}, {"k": 1, "window": 0}),
            *({"k": 1, "window": "1s"}, {"k": 1, "window": "0s"}, {"k": 1, "window": 1.5}, {"k": 1, "period": "1s"}),
            *({"k": 1, "period": 1}, {"k": 1, "period": 0}, {"k": 1, "period": 1e-7}, {"k": 1, "period": 1e15}),
            *({"k": 1, "period": "999999999d"}, {"k": 1, "period": "9999999999d"}, {"k": 1, "period": "1"}),
        )
    ),
    *(
        empty(subscriptions=TWO, priorities=[priority])
        for priority in (
            "1 before 2",
            " 1  before\t2 ",
            "1 over 2",
            "before",
            {"first": "1", "then": "2"},
            {"first": "1"},
            7,
        )
    ),
]


@pytest.mark.parametrize("subscriber", SUBSCRIBERS, ids=repr)
def test_the_schema_and_the_loader_accept_the_same_subscribers(subscriber):
    document = {"version": 1, "subscribers": [subscriber]}
    assert VALIDATOR.is_valid(document) == loads_without_problems(document)


def test_of_many_unknown_keys_only_some_are_named():
    document = {"version": 1, "subscribers": [], **dict.fromkeys(map(str, range(1_000)), 1)}
    findings = SCHEMA.findings(document)
    assert len(findings) == MAX_UNKNOWN_KEYS + 1
    assert findings[-1].message == f"unknown keys: {1_000 - MAX_UNKNOWN_KEYS} more"


OTHER = {"id": "b", "subscriptions": []}


@pytest.mark.parametrize(
    ("subscriber", "path", "message"),
    [
        ({"id": "a", "subscriptions": 7}, ("subscriptions",), "7 is not a list of subscriptions"),
        ({"id": "a"}, (), "missing: 'subscriptions'"),
        ({}, (), "missing: 'id', 'subscriptions'"),
        ({"id": b"a", "subscriptions": []}, ("id",), "b'a' is not an id: a text"),
        ({**OTHER, 1: 2}, (1,), "unknown key 1; expected id, deliver"),
        ({**OTHER, (1, 2): 3}, ((1, 2),), "unknown key (1, 2); expected id"),
        ({**OTHER, "\ud800": 3}, ("\ud800",), "unknown key '\\ud800'; expected id"),
        ({**OTHER, "decay": {"half_life": float("inf")}}, ("decay", "half_life"), "inf is not a duration"),
        (
            {**OTHER, "deliver": {"policy": "sliding", "k": 1, "window": 2, "diversity": {"weights": {1: -1}}}},
            ("deliver", "diversity", "weights", 1),
            "-1 is not a number above 0",
        ),
    ],
    ids=ascii,
)
def test_what_is_wrong_is_said_of_its_place_also_where_json_could_not_hold_it(subscriber, path, message):
    (finding,) = SCHEMA.findings({"version": 1, "subscribers": [OTHER, subscriber, OTHER]})
    assert finding.path == ("subscribers", 1, *path)
    assert finding.message.startswith(message)


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


def test_values_of_derived_types_and_texts_that_utf_8_cannot_hold_are_what_they_derive_from():
    subscription = {"filter": Text("x = 1"), "rank": Number(0.5)}
    document = {Text("version"): 1, "subscribers": [{"id": "\ud800", "subscriptions": [subscription]}]}
    assert SCHEMA.findings(document) == []


SHAPE = mapping([], amount=AMOUNT, count=COUNT, place=PLACE)


def check(text):
    check_shape(parse_document(text, DocumentFormat.YAML, "x.yaml"), SHAPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count: 1\namount: 1" + "0" * 320, "x.yaml:2: .*is not a number up to 1.79769e"),
        ("amount: -1", "x.yaml:1: -1 is not a number of at least 0"),
        ("amount: x", "x.yaml:1: 'x' is not a number of at least 0"),
        ("count: 2.0", "x.yaml:1: 2.0 is not a whole number of at least 1"),
        ("place: 0.0", "x.yaml:1: 0.0 is not a whole number of at least 0"),
        ("place: true", "x.yaml:1: True is not a whole number of at least 0"),
    ],
)
def test_what_is_no_such_number_is_refused_with_its_line(text, message):
    with pytest.raises(InvalidFileError, match=message):
        check(text)


def test_numbers_may_be_as_large_as_they_can_be():
    check("{amount: 1.7e+308, count: 2, place: 0}")
    check("amount: 1" + "0" * 308)
