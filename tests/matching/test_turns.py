"""Readers go first, by flags that never make them wait, and writers are never kept for good."""

import threading

import numpy as np

from rankcast.matching import reader as readers
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index
from rankcast.matching.turns import CHANGES, READERS, Turns, wait_for
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter


def index_of(count):
    return Index([Entry.of(number, Filter.of(attr("x") >= number)) for number in range(count)])


def test_a_writer_goes_on_although_a_flag_stays_up():
    turns = Turns()
    place, _ = turns.join()
    turns.flags[place] = 1
    for _ in range(2 * CHANGES):
        turns.give_way()
    assert turns.flags[place] == 1


def test_waiting_ends_when_the_flag_is_lowered():
    flags = np.ones(READERS, np.uint8)
    waiting = threading.Thread(target=wait_for, args=(flags, 10**12))
    waiting.start()
    assert waiting.is_alive()
    flags[:] = 0
    waiting.join(60)
    assert not waiting.is_alive()


def test_every_reader_has_a_flag_of_its_own_until_they_are_used_up():
    turns = Turns()
    places = [turns.join()[0] for _ in range(READERS)]
    assert sorted(places) == list(range(READERS))
    assert turns.join()[0] in places


def test_flags_are_down_between_events_whether_the_index_is_quiet_or_not():
    index = index_of(10)
    reader = index.reader()
    for number in range(5):
        assert reader.match_one({"x": 9}).tolist() == list(range(number, 10))
        assert not any(index.turns.flags)
        index.remove(number)
        assert reader.match_one({"x": 2**60}).tolist() == list(range(number + 1, 10))
        assert not any(index.turns.flags)


def test_the_interpreter_is_kept_only_while_the_index_changes_and_nobody_else_reads(monkeypatch):
    kept = []
    holding, releasing = readers.match_parts_holding, readers.match_parts
    monkeypatch.setattr(readers, "match_parts_holding", lambda *given: kept.append(True) or holding(*given))
    monkeypatch.setattr(readers, "match_parts", lambda *given: kept.append(False) or releasing(*given))
    monkeypatch.setattr(readers, "CALM", 2)
    index = index_of(3)
    reader = index.reader()
    reader.match_one({"x": 1})
    index.remove(0)
    for _ in range(3):
        reader.match_one({"x": 1})
    index.remove(1)
    other, _ = index.turns.join()
    index.turns.flags[other] = 1
    reader.match_one({"x": 1})
    assert kept == [False, True, True, False, False]
