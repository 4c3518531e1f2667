"""Messages survive the wire, and whatever is no message is refused with a reason."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.overlay.messages import (
    MAX_BYTES,
    MAX_PACKET_BYTES,
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
    ScoreCount,
    Session,
    Subscribe,
    Synced,
    Terms,
    Unadvertise,
    Unsubscribe,
    Weigh,
    Withdraw,
    decoded,
    encoded,
)
from rankcast.overlay.routing.strategies import Strategy, Weighing
from rankcast.testing.strategies import advertisements, events, filters, notified_subscribers, relevances
from written_forms import spoil

KEY = SubscriptionKey("ana", "1")
SESSION = Session(1, 2)
CONNECT = Connect(SESSION, Terms(Strategy.FLOODING, Weighing.SPLIT, 2))


def messages():
    leases = st.none() | st.timedeltas(min_value=timedelta(microseconds=1))
    interests = st.builds(Interest, st.just(KEY), filters(), st.floats(0, 1), st.none() | relevances())
    weights = st.floats(0.5, 100)
    peers = st.one_of(
        st.builds(Advertise, advertisements(), strategy=st.none() | st.sampled_from(Strategy)),
        st.builds(Forward, interests, st.lists(st.tuples(st.just("flats"), weights), max_size=2).map(tuple)),
        st.builds(Weigh, st.just("flats"), st.lists(st.tuples(st.just(KEY), weights), max_size=2).map(tuple)),
        st.builds(Publish, st.just("flats"), events(), st.none() | st.integers(0, 5), st.none() | st.just(("ana",))),
        st.builds(CountQuery, st.just("flats"), events()),
        st.sampled_from(
            [
                Withdraw(KEY),
                Unadvertise("flats"),
                Reset(),
                Synced(),
                CountReply("/flats", "1", (ScoreCount(0.5, 4), ScoreCount(0.1, 1))),
            ]
        ),
    )
    return st.one_of(
        st.builds(Subscribe, notified_subscribers(), leases),
        st.builds(Packet, st.just(SESSION), st.integers(0, 10**9), peers),
        st.sampled_from(
            [
                Unsubscribe("ana"),
                Read("ana"),
                Read("ana", "1"),
                Renew(),
                Connect(SESSION, Terms(Strategy.FLOODING, Weighing.SPLIT, 2)),
                Alive(SESSION, 7),
            ]
        ),
    )


@given(messages())
def test_a_message_is_one_line_and_comes_back_as_it_was(message):
    line = encoded(message)
    assert b"\n" not in line
    assert decoded(line) == message
    assert encoded(decoded(line)) == line, "types too: 1, 1.0 and True are equal"


def test_a_whole_number_may_stand_for_a_float_and_hides_nothing_that_follows():
    ranks = (0.5, 1, None)
    wanted = tuple(Subscription(str(at), parse_filter(f"x = {at}"), rank=rank) for at, rank in enumerate(ranks))
    message = Subscribe(Subscriber("ana", wanted))
    assert decoded(encoded(message)) == message
    whole = encoded(message).replace(b'"rank":0.5', b'"rank":0')
    assert encoded(decoded(whole)) == whole


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
        (changed(PUBLISH, targets=[["ana"]]), "is not a str"),
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


@given(messages(), st.data())
def test_a_message_with_anything_in_any_place_is_read_or_refused(message, data):
    plain = json.loads(encoded(message))
    spoil(plain, data)
    try:
        found = decoded(json.dumps(plain).encode())
    except InvalidMessageError:
        return
    assert decoded(encoded(found)) == found


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    with pytest.raises(InvalidMessageError):
        decoded(data)
