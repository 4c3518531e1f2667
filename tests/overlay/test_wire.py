"""Messages survive the wire, and whatever is no message is refused with a reason."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.overlay.routing.rankings import AudienceRanking, Scoring, Ties
from rankcast.overlay.wire.codec import to_plain
from rankcast.overlay.wire.form import MAX_BYTES, MAX_PACKET_BYTES, decoded, encoded
from rankcast.overlay.wire.messages import (
    Advertise,
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Interest,
    Packet,
    Publish,
    Read,
    Renew,
    Reset,
    Session,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
    Weigh,
    Withdraw,
)
from rankcast.testing.strategies import events, filters, notified_subscribers, relevances, schemas

KEY = SubscriptionKey("ana", "1")
SESSION = Session(1, 2)


@st.composite
def advertisements(draw):
    schema = draw(schemas())
    return Advertisement("flats", "/flats", draw(filters()), schema, draw(st.none() | st.integers(1, 9)))


def messages():
    ranking = st.builds(AudienceRanking, st.sampled_from(Scoring), st.sampled_from(Ties))
    leases = st.none() | st.timedeltas(min_value=timedelta(microseconds=1))
    interests = st.builds(Interest, st.just(KEY), filters(), st.floats(0, 1), st.none() | relevances())
    weights = st.floats(0.5, 100)
    peers = st.one_of(
        st.builds(Advertise, advertisements(), ranking),
        st.builds(Forward, interests, st.lists(st.tuples(st.just("flats"), weights), max_size=2).map(tuple)),
        st.builds(Weigh, st.just("flats"), st.lists(st.tuples(st.just(KEY), weights), max_size=2).map(tuple)),
        st.builds(Publish, st.just("flats"), events(), st.none() | st.integers(0, 5), st.none() | st.just((KEY,))),
        st.builds(CountQuery, st.just("flats"), events()),
        st.sampled_from([Withdraw(KEY), Unadvertise("flats"), Reset(), Synced(), CountReply("/flats", "1", 4)]),
    )
    return st.one_of(
        st.builds(Subscribe, notified_subscribers(), leases),
        st.builds(Packet, st.just(SESSION), st.integers(0, 10**9), peers),
        st.sampled_from(
            [Unsubscribe("ana"), Read("ana"), Read("ana", "1"), Renew(), Connect(SESSION), Alive(SESSION, 7)]
        ),
    )


@given(messages())
def test_a_message_comes_back_as_it_was(message):
    assert decoded(encoded(message)) == message


def test_a_whole_number_may_stand_for_a_float_and_hides_nothing_that_follows():
    ranks = (0.5, 1, None)
    wanted = tuple(Subscription(str(at), parse_filter(f"x = {at}"), rank=rank) for at, rank in enumerate(ranks))
    message = Subscribe(Subscriber("ana", wanted))
    assert decoded(encoded(message)) == message
    whole = encoded(message).replace(b'"rank":0.5', b'"rank":0')
    assert encoded(decoded(whole)) == whole


def test_what_has_no_wire_form_is_an_error_and_not_the_end_of_a_list():
    with pytest.raises(InvalidMessageError, match="'no number' has no wire form"):
        to_plain((1.0, None, "no number"), tuple[float | None, ...])


@given(messages())
def test_a_message_is_one_line(message):
    assert b"\n" not in encoded(message)


@given(events())
def test_an_event_keeps_every_attribute_with_its_type(event):
    found = decoded(encoded(Publish("flats", event))).event
    assert found == event
    assert {name: type(value) for name, value in found.attributes.items()} == {
        name: type(value) for name, value in event.attributes.items()
    }


def test_names_in_a_payload_may_look_like_tags():
    event = Event("1", "/flats", data={"$time": "no time", "inner": {"$object": [1, {"is": "Renew"}]}})
    assert decoded(encoded(Publish("flats", event))).event == event


def changed(message, /, **changes):
    plain = json.loads(encoded(message))
    return json.dumps({name: value for name, value in (plain | changes).items() if value is not Ellipsis}).encode()


PUBLISH = Publish("flats", Event("1", "/flats"))
FORWARD = Packet(SESSION, 3, Forward(Interest(KEY, parse_filter("rent < 900"))))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[1]", "not a message"),
        (b'{"is": "Renew"}', "not a message"),
        (b'{"rankcast": 2, "is": "Renew"}', "version 2 is not known"),
        (b'{"rankcast": true, "is": "Renew"}', "version True is not known"),
        (b'{"rankcast": 1, "is": "Shutdown"}', "'Shutdown' is not one of"),
        (b'{"rankcast": 1}', "None is not one of"),
        (b'{"rankcast": 1, "is": "Renew", "is": "Renew"}', "occurs twice"),
        (b"[" * 100_000, "nested too deep"),
        (changed(PUBLISH, k=-1), "k: -1"),
        (changed(PUBLISH, k=2**60), "k: "),
        (changed(PUBLISH, k=1.5), "message.k: 1.5 is not a int"),
        (changed(PUBLISH, k=True), "True"),
        (changed(PUBLISH, event={"id": "1"}), "source of Event is missing"),
        (changed(PUBLISH, event={"id": "", "source": "/s"}), "id: ''"),
        (changed(PUBLISH, event={"id": "1", "source": "/s", "time": "soon"}), "not a time"),
        (changed(PUBLISH, event={"id": "1", "source": "/s", "data": {"$eval": "1"}}), "is not \\$time"),
        (changed(PUBLISH, advertisement=...), "advertisement of Publish is missing"),
        (changed(PUBLISH, extra=1), "no field 'extra' in Publish; expected advertisement, event, k, targets$"),
        (changed(PUBLISH, advertisment="flats"), "'advertisment' in Publish; did you mean 'advertisement'\\?$"),
        (changed(PUBLISH, **{"x" * 900_000: 1}), "^.{1,200}$"),
        (b'{"rankcast": 1, "is": "Renew", "lease": 1}', "no field 'lease' in Renew; expected none$"),
        (changed(PUBLISH, targets=[["ana"]]), "a list of 2"),
        (changed(FORWARD, session=[1]), "a list of 2"),
        (changed(FORWARD, number=-1), "number: -1"),
        (changed(PUBLISH, advertisement="\ud800"), "half a surrogate pair"),
        (changed(FORWARD, message={"is": "Subscribe"}), "'Subscribe' is not one of"),
        (changed(FORWARD, message={"is": "Forward", "interest": {"key": ["a", "b"], "filter": "rent <"}}), "column"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(data, reason):
    with pytest.raises(InvalidMessageError, match=reason):
        decoded(data)


def test_a_message_of_absurd_size_is_refused_unread():
    with pytest.raises(InvalidMessageError, match="longer than"):
        decoded(b" " * (MAX_PACKET_BYTES + 1))
    with pytest.raises(InvalidMessageError, match="longer than"):
        encoded(Publish("flats", Event("1", "/flats", data={"text": "x" * MAX_BYTES})))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(plain, path=()):
    """Give every place in some plain data."""
    yield path
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for name, value in inner:
        yield from places(value, (*path, name))


@given(messages(), JSON, st.data())
def test_a_message_with_anything_in_any_place_is_read_or_refused(message, junk, data):
    plain = json.loads(encoded(message))
    *path, last = data.draw(st.sampled_from(list(places(plain))[1:]))
    place = plain
    for step in path:
        place = place[step]
    place[last] = junk
    try:
        found = decoded(json.dumps(plain).encode())
    except InvalidMessageError:
        return
    assert decoded(encoded(found)) == found


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    with pytest.raises(InvalidMessageError):
        decoded(data)
