"""Events: which attributes filters see, what is refused, what identity and time mean."""

from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from rankcast.model.errors import InvalidEventError
from rankcast.model.events import DEFAULT_TYPE, MAX_ATTRIBUTES, MAX_ITEMS, MAX_NESTING, Event
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import conforming_events, events, schemas, times

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(payload, **envelope):
    return Event(**{"id": "1", "source": "/s", "data": payload, **envelope})


def payload_attributes(payload):
    return {name: value for name, value in event(payload).attributes.items() if name not in ENVELOPE_TYPES}


def nested(levels):
    return reduce(lambda inner, _: {"a": inner}, range(levels), 1)


def doubled(twice):
    """Return a small payload that is large once it is written out."""
    return reduce(lambda inner, _: twice(inner), range(24), [1])


class TestNames:
    @pytest.mark.parametrize(
        ("payload", "seen"),
        [
            ({}, {}),
            ({"city": "Porto"}, {"city": "Porto"}),
            ({"address": {"city": "Porto", "zip": {"code": 1}}}, {"address.city": "Porto", "address.zip.code": 1}),
            ({"address.city": "Porto"}, {"address.city": "Porto"}),
            ({"type": "x"}, {"data.type": "x"}),
            ({"id": 5, "time": "late", "specversion": 2}, {"data.id": 5, "data.time": "late", "data.specversion": 2}),
            ({"type": {"a": 1}}, {"data.type.a": 1}),
            ({"data": {"type": 1}}, {"data.data.type": 1}),
            ({"data": {"x": 1}}, {"data.x": 1}),
            ({"data": {"data": {"type": 1}}}, {"data.data.data.type": 1}),
            ({"data.type": 1, "type": 2}, {"data.data.type": 1, "data.type": 2}),
            ({"types": 1, "typed.x": 2}, {"types": 1, "typed.x": 2}),
            ({"a": {}}, {}),
            (
                {"tags": ["a", None, "b", "a"], "v": (1, 2.5), "none": []},
                {"tags": ("a", "b"), "v": (1, 2.5), "none": ()},
            ),
            ({"a": None, "b": float("nan"), "c": {"d": None}}, {}),
            ({"a": False, "b": 0, "c": "", "d": -0.0}, {"a": False, "b": 0, "c": "", "d": 0.0}),
        ],
    )
    def test_of_the_payload(self, payload, seen):
        assert payload_attributes(payload) == seen

    def test_of_the_envelope(self):
        full = event(None, type="t", time=NOON, expires=NOON, subject="s", datacontenttype="c", dataschema="d")
        assert full.attributes == {
            "id": "1", "source": "/s", "specversion": "1.0", "type": "t", "time": NOON, "expirytime": NOON,
            "subject": "s", "datacontenttype": "c", "dataschema": "d",
        }  # fmt: skip
        assert set(full.attributes) == set(ENVELOPE_TYPES)

    def test_what_the_envelope_lacks_is_missing(self):
        assert set(event(None).attributes) == {"id", "source", "specversion", "type"}

    def test_of_extensions_which_the_payload_hides(self):
        both = event({"region": "north"}, extensions={"region": "south", "tenant": 7, "gone": None})
        assert (both.attributes["region"], both.attributes["tenant"]) == ("north", 7)
        assert "gone" not in both.attributes

    @pytest.mark.parametrize("data", [None, "text", 5, b"bytes", [1, 2], 0.5, True])
    def test_data_that_is_no_object_has_no_attributes(self, data):
        assert payload_attributes(data) == {}
        assert event(data).data == data

    def test_plain_attributes_with_an_envelope_name_go_to_the_envelope(self):
        made = Event.of(
            {"id": "own", "type": "t", "time": NOON, "expirytime": NOON, "source": None, "x": 1}, id="1", source="/s"
        )
        assert (made.id, made.type, made.time, made.expires, made.source) == ("own", "t", NOON, NOON, "/s")
        assert made.data == {"x": 1}

    def test_without_a_type_there_is_a_default(self):
        assert Event.of({}, id="1", source="/s").type == DEFAULT_TYPE


class TestRefused:
    @pytest.mark.parametrize(
        ("payload", "reason"),
        [
            ({"a": {"b": 1}, "a.b": 2}, r"a\.b: the payload has this attribute twice"),
            ({"a.b": 2, "a": {"b": 1}}, r"a\.b: the payload has this attribute twice"),
            ({"a": {"b.c": 1, "b": {"c": 1}}}, r"a\.b\.c: the payload has this attribute twice"),
            ({"": 1}, "'' is not an attribute name"),
            ({"a": {"": 1}}, "'' is not an attribute name"),
            ({1: 1}, "1 is not an attribute name"),
            ({"\ud800": 1}, "attribute name: .* half a surrogate pair"),
            ({"a": "\ud800"}, "a: .* half a surrogate pair"),
            ({"a": ["\ud800"]}, "a: .* half a surrogate pair"),
            (
                {"a": {"b": [1, "c"]}},
                r"a\.b: the list holds 1 \(number\) and 'c' \(string\); expected values of one type",
            ),
            ({"a": [None, {"b": 1}]}, r"a: the list holds {'b': 1}; expected values of one type: bool, int"),
            ({"a": [b"x"]}, r"a: b'x' is a bytes; expected"),
            ("\ud800", "data: .* half a surrogate pair"),
            (["\ud800"], "data: .* half a surrogate pair"),
            ({"a": {"n": 2**63}}, r"a\.n: 9223372036854775808 does not fit a 64-bit integer"),
            ({"type": 2**63}, r"data\.type: 9223372036854775808 does not fit"),
            ({"a": b"x"}, "a: b'x' is a bytes"),
            ({"a": datetime(2026, 3, 1)}, "a: .* has no time zone"),  # noqa: DTZ001
            ({"a" * 1_001: 1}, r"'a+'... \(1,001 characters\): an attribute name has at most 1,000 characters"),
            ({"a" * 1_001: [1]}, "at most 1,000 characters"),
            ({"a" * 1_001: {}}, "at most 1,000 characters"),
            ({"a" * 500: {"b" * 500: 1}}, "at most 1,000 characters"),
            (nested(MAX_NESTING + 1), f"nests more than {MAX_NESTING} objects"),
            (nested(10_000), f"nests more than {MAX_NESTING} objects"),
            (
                {"a": doubled(lambda inner: [inner, inner])},
                r"a: the list holds .*; expected values of one type",
            ),
            (
                {"a": {"b": doubled(lambda inner: [{"c": inner}, inner])}},
                r"a\.b: the list holds .*; expected values of one type",
            ),
            (
                doubled(lambda inner: [inner, inner]),
                f"'data': the lists .* more than {MAX_ITEMS:,} items",
            ),
            (doubled(lambda inner: {"a": inner, "b": inner}), f"more than {MAX_ATTRIBUTES:,} attributes"),
        ],
    )
    def test_payloads(self, payload, reason):
        with pytest.raises(InvalidEventError, match=reason):
            event(payload)

    @pytest.mark.parametrize(
        ("wrap", "reason"),
        [
            (lambda deep: deep, f"nests more than {MAX_NESTING} objects and lists"),
            (lambda deep: {"a": deep}, "a: the list holds"),
        ],
    )
    def test_lists_nested_too_deep(self, wrap, reason):
        with pytest.raises(InvalidEventError, match=reason):
            event(wrap(reduce(lambda inner, _: [inner], range(10_000), [])))

    def test_names_and_nesting_up_to_the_bound_are_seen(self):
        assert payload_attributes({"a" * 500: {"b" * 499: 1}}) == {"a" * 500 + "." + "b" * 499: 1}
        assert event(None, extensions={"a" * 1_000: 1}).attributes["a" * 1_000] == 1
        assert payload_attributes(nested(MAX_NESTING)) == {".".join("a" * MAX_NESTING): 1}

    @pytest.mark.parametrize(
        ("envelope", "reason"),
        [
            ({"id": ""}, "id: '' is not a non-empty string"),
            ({"id": 5}, "id: 5 is not a non-empty string"),
            ({"id": None}, "id: None is not a non-empty string"),
            ({"id": "\ud800"}, "id: .* half a surrogate pair"),
            ({"source": ""}, "source: '' is not"),
            ({"type": ""}, "type: '' is not"),
            ({"subject": 5}, "subject: 5 is not a string"),
            ({"datacontenttype": 1.5}, "datacontenttype: 1.5 is not a string"),
            ({"dataschema": ["x"]}, "dataschema: .* is not a string"),
            ({"time": "2026-03-01"}, "time: '2026-03-01' is not a time"),
            ({"time": 5}, "time: 5 is not a time"),
            ({"time": datetime(2026, 3, 1)}, "time: .* has no time zone"),  # noqa: DTZ001
            ({"expires": True}, "expirytime: True is not a time"),
            ({"extensions": {"id": "x"}}, "extension 'id': the name belongs to the envelope"),
            ({"extensions": {"data": "x"}}, "extension 'data': the name belongs to the envelope or the payload"),
            ({"extensions": {"": "x"}}, "'' is not an attribute name"),
            ({"extensions": {"a": [1]}}, "a: .* is a list"),
            ({"extensions": {"a" * 1_001: 1}}, "at most 1,000 characters"),
        ],
    )
    def test_envelopes(self, envelope, reason):
        with pytest.raises(InvalidEventError, match=reason):
            event({}, **envelope)


class TestTime:
    @given(events(), times())
    def test_a_stamped_event_has_a_time_and_the_same_identity(self, found, now):
        stamped = found.stamped(now)
        assert stamped.time == (now if found.time is None else found.time)
        assert stamped.attributes == {**found.attributes, "time": stamped.time}
        assert stamped.stamped(now + timedelta(0)) is stamped
        assert (stamped.identity, hash(stamped)) == (found.identity, hash(found))

    def test_events_of_one_identity_differ_by_their_content(self):
        assert event({"a": 1}) != event({"a": 2})

    def test_times_are_kept_in_utc(self):
        early = event({}, time=NOON.astimezone(timezone(timedelta(hours=5))), expires=date(2026, 3, 2))
        assert (early.time.tzinfo, early.time) == (UTC, NOON)
        assert early.expires == datetime(2026, 3, 2, tzinfo=UTC)

    @pytest.mark.parametrize("now", ["2026-03-01", datetime(2026, 3, 1)])  # noqa: DTZ001
    def test_a_stamp_must_be_an_aware_time(self, now):
        with pytest.raises(InvalidEventError, match=r"time: .* (is not a time|has no time zone)"):
            event({}).stamped(now)

    def test_an_event_expires_at_the_instant_itself(self):
        expiring = event({}, expires=NOON)
        assert expiring.is_valid_at(NOON - timedelta(microseconds=1))
        assert not expiring.is_valid_at(NOON)
        assert event({}).is_valid_at(NOON)


class TestConformed:
    SCHEMA = Schema(
        {"n": ValueType.INT, "x": ValueType.FLOAT, "t": ValueType.TIME, "s": ValueType.STRING}, frozenset({"n"})
    )

    def test_attributes_get_their_declared_types_and_the_payload_stays_as_it_was_published(self):
        published = {"n": 2.0, "x": 3, "t": "2026-03-01T12:00:00Z", "other": 1}
        found = event(published).conformed(self.SCHEMA)
        assert found.data == published
        kinds = {name: type(found.attributes[name]) for name in published}
        assert kinds == {"n": int, "x": float, "t": datetime, "other": int}
        assert found.attributes["t"] == NOON

    @pytest.mark.parametrize("found", [[1], [], {"a": 1}, {}])
    def test_a_list_or_an_object_is_no_single_value(self, found):
        for name, payload in (("x", {"x": found}), ("s.t", {"s": {"t": found}}), ("data.type", {"type": found})):
            what = "a list; expected one" if isinstance(found, list) else "an object; expected a"
            with pytest.raises(InvalidEventError, match=f"{name}: .* is {what} value of type"):
                event(payload).conformed(Schema({name: ValueType.FLOAT}))

    def test_stamping_keeps_the_types(self):
        stamped = event({"n": 2.0}).conformed(self.SCHEMA).stamped(NOON)
        assert type(stamped.attributes["n"]) is int
        assert stamped.attributes["time"] == NOON

    @given(st.data())
    def test_conforming_twice_changes_nothing(self, data):
        schema = data.draw(schemas())
        found = data.draw(conforming_events(schema))
        assert found.conformed(schema) is found


KEYS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(".".join)
LISTS = st.lists(st.integers(0, 9), min_size=1, max_size=2)


def list_at(data, path):
    """Say it as plainly as can be: the list under a key, else what lies below the shortest of the keys that lead on."""
    if not isinstance(data, dict):
        return None
    if isinstance(data.get(path), list):
        return data[path]
    words = path.split(".")
    below = [list_at(data.get(".".join(words[:at])), ".".join(words[at:])) for at in range(1, len(words))]
    return next((found for found in below if found is not None), None)


class TestVectors:
    @given(
        st.recursive(
            st.dictionaries(KEYS, LISTS, max_size=4),
            lambda inner: st.dictionaries(KEYS, inner | LISTS, max_size=4),
            max_leaves=6,
        ),
        st.lists(st.sampled_from("ab"), min_size=1, max_size=8).map(".".join),
    )
    def test_any_dot_may_belong_to_a_key_or_lead_into_an_object(self, data, path):
        expected = list_at(data, path)
        try:
            found = event(data)
        except InvalidEventError:  # one attribute twice, nested and with a dotted name
            reject()
        assert found.vector(path) == (None if expected is None else tuple(map(float, expected)))

    def test_many_dots_and_many_ways_take_no_long_time(self):
        ways = {}
        for _ in range(12):
            ways = {"a": ways, "a.a": ways}  # 4,096 ways
        assert event(ways).vector("a" + ".a" * 499) is None
        assert event(ways).vector("a" + ".a" * 23) is None

    def test_a_name_of_many_data_is_looked_at_once(self):
        for name in ("data." * 199 + "type", "data." * 199 + "x"):
            assert event({name: 1}).attributes[("data." if name.endswith("type") else "") + name] == 1


@pytest.mark.parametrize(
    ("attributes", "envelope"),
    [
        ({"a": 1}, {"id": 1}),
        ({"a": 1}, {"source": 5}),
        ({"a": 1}, {"time": "2026-01-01T00:00:00Z"}),
        ([("a", 1)], {}),
        (None, {}),
    ],
)
def test_plain_attributes_are_refused_as_others_are(attributes, envelope):
    with pytest.raises(InvalidEventError):
        Event.of(attributes, **{"id": "1", "source": "s", "time": NOON, **envelope})
