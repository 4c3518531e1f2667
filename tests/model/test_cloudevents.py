"""Events from and to JSON: CloudEvents 1.0 in structured mode, plain objects, and nothing that is not JSON."""

import json
import math
from datetime import UTC, datetime
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.cloudevents import event_from_json, event_to_json, parse_json
from rankcast.model.errors import InvalidEventError
from rankcast.model.events import Event
from rankcast.testing.strategies import conforming_events, events, schemas, times

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT.filter(bool), inner, max_size=3)
)


def through_json(event: Event) -> Event:
    return event_from_json(parse_json(json.dumps(event_to_json(event), allow_nan=False)))


class TestRoundTrip:
    @given(
        st.builds(
            Event,
            id=TEXT.filter(bool),
            source=TEXT.filter(bool),
            type=TEXT.filter(bool),
            time=st.none() | times(),
            expires=st.none() | times(),
            subject=st.none() | TEXT,
            datacontenttype=st.none() | TEXT,
            dataschema=st.none() | TEXT,
            extensions=st.dictionaries(
                st.text("abc", min_size=1), st.booleans() | st.integers(-9, 9) | TEXT, max_size=2
            ),
            data=st.dictionaries(st.text("xyz", min_size=1), SCALARS, max_size=3)
            | SCALARS
            | st.lists(SCALARS)
            | st.binary(),
        )
    )
    def test_what_json_can_say_comes_back_equal(self, event):
        again = through_json(event)
        assert again == event
        assert again.attributes == event.attributes
        assert repr(again.attributes) == repr(event.attributes)

    @given(st.data())
    def test_a_schema_turns_times_and_infinities_back(self, data):
        schema = data.draw(schemas())
        event = data.draw(conforming_events(schema))
        again = through_json(event).conformed(schema)
        declared = {*schema.attributes, "time", "expirytime", "id", "source", "subject", "type"}
        assert {name: again.attributes.get(name) for name in declared} == {
            name: event.attributes.get(name) for name in declared
        }

    @given(events())
    def test_any_event_can_be_written(self, event):
        assert through_json(event).identity == event.identity

    @pytest.mark.parametrize(
        ("data", "written"),
        [
            ({"a": math.inf, "b": [-math.inf, math.nan]}, {"data": {"a": "Infinity", "b": ["-Infinity", None]}}),
            (b"\0\xff", {"data_base64": "AP8="}),
        ],
    )
    def test_what_json_has_no_form_for(self, data, written):
        document = event_to_json(Event(id="1", source="/s", data=data))
        assert {name: document.get(name) for name in written} == written


class TestCloudEvents:
    def test_an_example_with_everything(self):
        event = event_from_json(
            {
                **MINIMAL,
                "time": "2026-03-01T13:00:00+01:00",
                "expirytime": "2026-03-01T12:00:00.000000999Z",
                "subject": "flat",
                "region": "north",
                "data": {"rent": 700},
            }
        )
        assert (event.time, event.expires, event.subject) == (NOON, NOON, "flat")
        assert event.extensions == {"region": "north"}
        assert event.attributes["rent"] == 700

    @pytest.mark.parametrize("name", ["id", "source", "type"])
    @pytest.mark.parametrize("change", ["left out", "null"])
    def test_required_attributes(self, name, change):
        document = {**MINIMAL, name: None}
        if change == "left out":
            del document[name]
        with pytest.raises(InvalidEventError, match=f"required CloudEvents attribute missing: {name}"):
            event_from_json(document, id="1", source="/s")

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"specversion": "0.3"}, "specversion: '0.3' is not supported"),
            ({"specversion": None}, "specversion: None is not supported"),
            ({"time": "yesterday"}, "time: 'yesterday' is not a time"),
            ({"time": 1772366400}, "time: 1772366400 is not a time"),
            ({"expirytime": False}, "expirytime: False is not a time"),
            ({"region": {"a": 1}}, "extension 'region': .* is not a simple value"),
            ({"region": [1]}, "extension 'region': .* is not a simple value"),
            ({"region": 2**63}, "extension 'region': 9223372036854775808 does not fit"),
            ({"\ud800": 1}, "half a surrogate pair"),
            ({"data": 1, "data_base64": ""}, "both data and data_base64"),
            ({"data_base64": "!"}, "data_base64: '!' is not base64"),
            ({"data_base64": "é"}, "data_base64: 'é' is not base64"),
            ({"data_base64": 5}, "data_base64: 5 is not base64"),
        ],
    )
    def test_refusals(self, change, reason):
        with pytest.raises(InvalidEventError, match=reason):
            event_from_json({**MINIMAL, **change})

    def test_null_attributes_are_missing(self):
        event = event_from_json({**MINIMAL, "time": None, "subject": None, "region": None, "data": None})
        assert event == Event(id="1", source="/s", type="t")


class TestPlainEvents:
    def test_every_key_is_an_attribute(self):
        event = event_from_json({"city": "Porto", "time": "2026-03-01T12:00:00Z", "type": "flat"}, id="1", source="/s")
        assert (event.time, event.type, event.data) == (NOON, "flat", {"city": "Porto"})

    def test_its_own_id_and_source_win(self):
        event = event_from_json({"id": "own", "source": "/own"}, id="1", source="/s")
        assert event.identity == ("/own", "own")

    @pytest.mark.parametrize("name", ["id", "source"])
    def test_without_id_or_source_it_is_refused(self, name):
        with pytest.raises(InvalidEventError, match=f"the event has no {name}"):
            event_from_json({"city": "Porto"}, **{"id": "1", "source": "/s", name: None})

    @pytest.mark.parametrize(
        "document",
        [None, 5, "text", [], [{"id": "1"}], True, reduce(lambda inner, _: [inner], range(5_000), [])],
    )
    def test_only_objects_are_events(self, document):
        with pytest.raises(InvalidEventError, match="is not a JSON object"):
            event_from_json(document, id="1", source="/s")


class TestStrictJson:
    @given(DOCUMENTS)
    def test_json_is_read_with_its_types_and_every_digit(self, document):
        assert repr(parse_json(json.dumps(document))) == repr(document)
        assert repr(parse_json(json.dumps(document, ensure_ascii=False).encode())) == repr(document)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "not JSON: Expecting value at column 1"),
            ("  ", "not JSON: Expecting value at column 3"),
            ('{"a": 1', "not JSON: Expecting ',' delimiter at column 8"),
            ('{"a', "not JSON: Unterminated string starting at column 2"),
            ('{"a": 1}\n{', "not JSON: Extra data at line 2 column 1"),
            ("{'a': 1}", "not JSON: Expecting property name"),
            ('{"a": NaN}', "NaN is not a JSON number"),
            ('{"a": Infinity}', "Infinity is not a JSON number"),
            ("-Infinity", "-Infinity is not a JSON number"),
            ("1e400", "'1e400' is outside the range of float64"),
            ("1" * 401, r"'1+'\.\.\. \(401 characters\) does not fit a 64-bit integer"),
            ("1" * 100_000, r"\(100,000 characters\) does not fit a 64-bit integer"),
            ('{"a": 1, "a": 1}', "the key 'a' occurs twice in one object"),
            ('{"b": {"a": 1, "c": 2, "a": 1}}', "the key 'a' occurs twice"),
            ("[" * 100_000, "nested too deep"),
            ('{"a":' * 100_000, "nested too deep"),
            ("\ufeff{}", "not JSON: "),
            (b'{"a": "\xff"}', "not UTF-8: byte 0xff at offset 7"),
            (b'{"a": "\xc3', "not UTF-8: byte 0xc3 at offset 7"),
            ('{"a": "\t"}', "not JSON: Invalid control character"),
            ("01", "not JSON: Extra data"),
            ("+1", "not JSON: Expecting value"),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_what_is_refused(self, text, reason):
        with pytest.raises(InvalidEventError, match=reason) as caught:
            parse_json(text)
        assert len(str(caught.value)) < 300

    def test_one_duplicate_among_many_keys_is_found(self):
        keys = ",".join(f'"k{at}":0' for at in range(100_000))
        with pytest.raises(InvalidEventError, match="the key 'k99999' occurs twice"):
            parse_json("{" + keys + ',"k99999":1}')

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("9223372036854775808", "^n: 9223372036854775808 does not fit a 64-bit integer"),
            (r'"\ud800"', "^n: .* half a surrogate pair"),
            (b'"\xed\xa0\x80"', "^n: .* half a surrogate pair"),
            ("[" * 300 + "]" * 300, "the list holds \\[\\["),
        ],
    )
    def test_what_json_may_say_but_an_event_must_not_have(self, text, reason):
        document = {"n": parse_json(text)}
        with pytest.raises(InvalidEventError, match=reason):
            event_from_json(document, id="1", source="/s")
