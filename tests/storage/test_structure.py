"""The shipped JSON Schema: valid itself, complete in its titles, and read alike by jsonschema and by us."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rankcast.model.errors import InvalidFileError
from rankcast.model.subscriptions import MAX_ID_LENGTH, RankBy
from rankcast.model.values import ValueType
from rankcast.storage.subscribers.compiled_schema import compiled
from rankcast.storage.subscribers.files import subscribers_from_document
from rankcast.storage.subscribers.schema import MAX_UNKNOWN_KEYS, has_structure, structure_findings, subscribers_schema

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
                {
                    "id": "central",
                    "filter": "rent < 500",
                    "rank": 0.9,
                    "weight": 2,
                    "active_from": "2026-01-01",
                    "active_until": "2027-01-01T00:00:00.5+01:00",
                },
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
            container[draw(st.sampled_from(["k", "window", "period", "rank", "id", "reach", "other"]))] = copy.deepcopy(
                draw(st.sampled_from(ODD))
            )
    return document


def test_the_schema_is_a_valid_schema():
    Draft202012Validator.check_schema(subscribers_schema())


def test_the_schema_accepts_a_document_with_everything_in_it():
    assert Draft202012Validator(subscribers_schema()).is_valid(GOOD)
    assert structure_findings(GOOD) == []


def test_the_schema_names_what_the_model_has():
    definitions = subscribers_schema()["$defs"]
    subscriber = definitions["subscriber"]["properties"]
    types = definitions["schema"]["properties"]["attributes"]["additionalProperties"]["enum"]
    assert types == [kind.value for kind in ValueType]
    assert subscriber["rank_by"]["enum"] == [way.value for way in RankBy]
    assert definitions["id"]["maxLength"] == MAX_ID_LENGTH


@given(changed_documents())
def test_the_compiled_schema_and_jsonschema_agree(document):
    valid = Draft202012Validator(subscribers_schema()).is_valid(document)
    assert has_structure(document) == valid
    assert (structure_findings(document) == []) == valid


@given(changed_documents())
def test_a_finding_is_about_a_place_that_the_document_has(document):
    known = set(paths(document))
    for finding in structure_findings(document):
        assert finding.path in known
        assert finding.message


def test_only_bad_subscribers_are_explained_and_keep_their_positions():
    document = {"version": 1, "subscribers": [{"id": str(at), "subscriptions": []} for at in range(5)]}
    document["subscribers"][3]["subscriptions"] = 7
    (finding,) = structure_findings(document)
    assert finding.path == ("subscribers", 3, "subscriptions")
    assert finding.message == "7 is not a list of subscriptions"


def loads_without_problems(document):
    try:
        return subscribers_from_document(document).problems == ()
    except InvalidFileError:
        return False


SUBSCRIBERS = [
    {"id": "a", "subscriptions": []},
    {"id": "a"},
    {"subscriptions": []},
    {"id": "", "subscriptions": []},
    {"id": "x" * 1000, "subscriptions": []},
    {"id": "x" * 1001, "subscriptions": []},
    {"id": "a", "subscriptions": [], "other": 1},
    {"id": "a", "subscriptions": [{"filter": "x = 1"}]},
    {"id": "a", "subscriptions": [{"filter": True}]},
    {"id": "a", "subscriptions": [{"filter": None}]},
    {"id": "a", "subscriptions": [{}]},
    *({"id": "a", "subscriptions": [{"filter": "x = 1", "rank": rank}]} for rank in (0, 1, 0.5, -0.1, 1.1, True, "1")),
    *({"id": "a", "subscriptions": [{"filter": "x = 1", "weight": weight}]} for weight in (0, 7, -1, None)),
    *(
        {"id": "a", "subscriptions": [{"filter": "x = 1", "active_from": time}]}
        for time in ("2026-01-01", "2026-01-01 10:00", "2026-01-01T10:00:00.123456+01:00", "2026", "now", 2026)
    ),
    *({"id": "a", "subscriptions": [], "rank_by": way} for way in ("max", "min", "mean", "weighted_sum", "sum", None)),
    *({"id": "a", "subscriptions": [], "most_specific": answer} for answer in (True, False, "no", 0)),
    *(
        {"id": "a", "subscriptions": [], "deliver": {"policy": policy, **numbers}}
        for policy in ("all", "continuous", "periodic", "sliding", "topkw", "other")
        for numbers in (
            *({}, {"k": 1}, {"k": 0}, {"k": -1}, {"k": 1.5}, {"k": 1, "window": 1}, {"k": 1, "window": 0}),
            *({"k": 1, "window": "1s"}, {"k": 1, "window": "0s"}, {"k": 1, "window": 1.5}, {"k": 1, "period": "1s"}),
            *({"k": 1, "period": 1}, {"k": 1, "period": 0}, {"k": 1, "period": 1e-7}, {"k": 1, "period": 1e15}),
            *({"k": 1, "period": "999999999d"}, {"k": 1, "period": "9999999999d"}, {"k": 1, "period": "1"}),
        )
    ),
    *(
        {"id": "a", "subscriptions": [{"filter": "x = 1"}, {"filter": "x = 2"}], "priorities": [priority]}
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
    assert Draft202012Validator(subscribers_schema()).is_valid(document) == loads_without_problems(document)


@given(changed_documents())
def test_what_the_schema_rejects_never_loads(document):
    if not Draft202012Validator(subscribers_schema()).is_valid(document):
        assert not loads_without_problems(document)


def test_of_many_unknown_keys_only_some_are_named():
    document = {"version": 1, "subscribers": [], **dict.fromkeys(map(str, range(1_000)), 1)}
    findings = structure_findings(document)
    assert len(findings) == MAX_UNKNOWN_KEYS + 1
    assert findings[-1].message == f"unknown keys: {1_000 - MAX_UNKNOWN_KEYS} more"


def test_the_compiler_refuses_a_keyword_it_does_not_know():
    with pytest.raises(KeyError):
        compiled({"multipleOf": 2})
