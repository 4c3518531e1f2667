"""One direction of a link: in order, once, and asked for anew when something is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.links import MAX_WAITING, Inbox, Outbox
from rankcast.overlay.messages import Alive, CountReply, Session, Synced


def numbered(count):
    """Return an inbox, and the first packets of the session that it asks for."""
    inbox, outbox = Inbox(1), Outbox()
    outbox.begin(inbox.ask().session)
    return inbox, [outbox.packet(CountReply("/s", "1", number)) for number in range(count)]


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=8))
def test_packets_are_taken_in_order_and_once_however_they_come(order, again):
    inbox, packets = numbered(8)
    taken, refused = [], []
    for number in [*order, *again]:
        try:
            taken += inbox.take(packets[number])
        except RefusedError as error:
            refused.append(error.reason)
    assert [message.count for message in taken] == list(range(8))
    assert refused == [Reason.REPLAY] * len(again)


def test_packets_of_another_session_are_refused():
    inbox, packets = numbered(2)
    inbox.ask()
    with pytest.raises(RefusedError, match="session"):
        inbox.take(packets[0])


def test_a_packet_far_ahead_is_refused_so_that_few_wait():
    inbox, packets = numbered(MAX_WAITING + 2)
    assert inbox.take(packets[MAX_WAITING]) == []
    with pytest.raises(RefusedError, match="too far ahead"):
        inbox.take(packets[MAX_WAITING + 1])


def test_nothing_goes_out_until_a_session_is_asked_for_and_an_old_request_begins_none():
    outbox = Outbox()
    assert outbox.packet(Synced()) is None
    assert outbox.begin(Session(1, 2))
    assert outbox.packet(Synced()).number == 0
    assert not outbox.begin(Session(1, 2))
    assert not outbox.begin(Session(1, 1))
    outbox.silence()
    assert outbox.packet(Synced()) is None
    assert not outbox.begin(Session(1, 2))
    assert outbox.begin(Session(2, 1))


def test_a_gap_that_stays_is_noticed_and_one_that_closes_is_not():
    inbox, packets = numbered(4)
    inbox.is_synced = True
    assert inbox.check_progress()
    inbox.take(packets[1])
    assert inbox.check_progress()
    inbox.take(packets[0])
    assert inbox.check_progress()
    inbox.take(packets[3])
    assert [inbox.check_progress(), inbox.check_progress()] == [True, False]


def test_the_loss_of_the_last_packet_is_noticed_by_what_the_neighbour_says_it_sent():
    inbox, packets = numbered(2)
    inbox.take(packets[0])
    inbox.is_synced = True
    inbox.note(Alive(Session(9, 9), 7))
    assert inbox.check_progress()
    inbox.note(Alive(inbox.session, 2))
    assert [inbox.check_progress(), inbox.check_progress()] == [True, False]
