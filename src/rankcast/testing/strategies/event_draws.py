"""Events: an envelope around drawn attributes, with or without a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rankcast.model.events import DEFAULT_TYPE, Event
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.values import Value, ValueType
from rankcast.testing.strategies.pools import attributes, identifiers, is_free, times, values


@st.composite
def events(draw: DrawFn, content: SearchStrategy[Mapping[str, Value]] | None = None) -> Event:
    """Draw an event whose attributes are those of `content` and of an envelope; some payloads are nested objects.

    >>> from hypothesis import given
    >>> @given(events(st.just({"address.city": "Porto"})))
    ... def check_city(event):
    ...     assert event.attributes["address.city"] == "Porto"
    >>> check_city()
    """
    found = draw(attributes() if content is None else content)
    payload = {_payload_key(name): value for name, value in found.items() if name not in ENVELOPE_TYPES}
    envelope: dict[str, Any] = {
        "id": draw(identifiers()),
        "source": draw(st.sampled_from(("/a", "/b", "/flats"))),
        "type": draw(st.sampled_from((DEFAULT_TYPE, "a", "ab"))),
        "time": draw(st.none() | times()),
        "expirytime": draw(st.none() | times()),
        "subject": draw(st.none() | values(ValueType.STRING)),
    }
    envelope |= {name: value for name, value in found.items() if name in ENVELOPE_TYPES}
    envelope.pop("specversion", None)
    expires = envelope.pop("expirytime")
    extensions = draw(st.just({}) | st.just({"region": draw(values(ValueType.STRING))}))
    data = _nested(payload) if draw(st.booleans()) else payload
    return Event(**envelope, expires=expires, extensions=extensions, data=data)


def _payload_key(name: str) -> str:
    """Return the key of a payload that filters see as `name`."""
    return name if is_free(name) else name.removeprefix("data.")


def _nested(payload: Mapping[str, Value]) -> dict[str, Any]:
    """Write dotted names as nested objects where nothing stands in the way."""
    made: dict[str, Any] = {}
    inner: dict[str, dict[str, Value]] = {}
    for name, value in payload.items():
        head, _, tail = name.partition(".")
        if head and tail and head not in payload:
            inner.setdefault(head, {})[tail] = value
        else:
            made[name] = value
    return {**made, **{head: _nested(below) for head, below in inner.items()}}


@st.composite
def conforming_events(draw: DrawFn, schema: Schema) -> Event:
    """Draw an event that a schema accepts: the required attributes, some of the others, each of its declared type.

    >>> from hypothesis import given
    >>> flats = Schema({"rent": ValueType.INT}, required=frozenset({"rent"}))
    >>> @given(conforming_events(flats))
    ... def check_rent(event):
    ...     assert isinstance(event.attributes["rent"], int)
    >>> check_rent()
    """
    others = draw(attributes())
    found = {name: value for name, value in others.items() if name not in schema.attributes}
    for name in sorted(schema.attributes.keys() | schema.required):
        if name in schema.required or draw(st.booleans()):
            found[name] = draw(_nonempty(name, values(schema.type_of(name))))
    return draw(events(st.just(found))).conformed(schema)


def _nonempty(name: str, drawn: SearchStrategy[Value]) -> SearchStrategy[Value]:
    return drawn.filter(bool) if name in ("id", "source", "type") else drawn
