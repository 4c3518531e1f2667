"""The index is exact at every moment: after any updates, for every snapshot, while merges are under way."""

import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from costly import COSTLY_EXAMPLES, costly
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index, in_background
from rankcast.matching.kernels_search import match_parts, match_parts_holding, search, search_one
from rankcast.matching.naive import evaluate, matches
from rankcast.matching.searcher import Searcher
from rankcast.matching.warming import warm_up
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.testing.strategies import attributes, events, filters, subscriptions

NUMBERS = st.integers(0, 11)


class Updates(RuleBasedStateMachine):
    """An index with a tiny delta against a dict and the oracle; merges wait until a rule lets one run."""

    @initialize(wanted=st.lists(filters(max_leaves=4), max_size=4), delta=st.integers(1, 3))
    def start(self, wanted, delta):
        self.jobs = []
        self.model = dict(enumerate(wanted))
        entries = [Entry.of(number, one) for number, one in self.model.items()]
        self.index = Index(entries, run=self.jobs.append, delta=delta)
        self.reader = self.index.reader()
        self.older = None

    @rule(number=NUMBERS, wanted=filters(max_leaves=4))
    def add(self, number, wanted):
        if number in self.model:
            with pytest.raises(DuplicateIdError):
                self.index.add(Entry.of(number, wanted))
        else:
            self.index.add(Entry.of(number, wanted))
            self.model[number] = wanted

    @rule(number=NUMBERS)
    def remove(self, number):
        if number in self.model:
            self.index.remove(number)
            del self.model[number]
        else:
            with pytest.raises(UnknownIdError):
                self.index.remove(number)

    @rule(number=NUMBERS, wanted=filters(max_leaves=4))
    def replace(self, number, wanted):
        if number in self.model:
            self.index.replace(Entry.of(number, wanted))
            self.model[number] = wanted
        else:
            with pytest.raises(UnknownIdError):
                self.index.replace(Entry.of(number, wanted))

    @rule()
    def merge(self):
        if self.jobs:
            self.jobs.pop(0)()

    @rule(found=attributes())
    def freeze(self, found):
        searcher = Searcher(self.index.frozen())
        expected = sorted(n for n, one in self.model.items() if evaluate(one.expression, found) is True)
        assert sorted(searcher.match_one(found).tolist()) == expected

    @rule()
    def remember(self):
        self.older = (self.index.snapshot, dict(self.model))

    @rule(found=attributes())
    def match(self, found):
        expected = sorted(n for n, one in self.model.items() if evaluate(one.expression, found) is True)
        assert sorted(self.reader.match_one(found).tolist()) == expected

    @rule(found=attributes())
    def match_in_an_older_snapshot(self, found):
        if self.older is not None:
            snapshot, model = self.older
            expected = sorted(n for n, one in model.items() if evaluate(one.expression, found) is True)
            assert sorted(self.reader.match_one(found, snapshot).tolist()) == expected

    @invariant()
    def counts(self):
        assert len(self.index) == len(self.model)


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(max_examples=max(40, COSTLY_EXAMPLES // 4), stateful_step_count=30, deadline=None)


@costly
@given(st.lists(subscriptions(), max_size=6), st.lists(events(), min_size=1, max_size=3))
def test_activation_is_obeyed_by_the_delta_and_by_segments(owned, published):
    index = Index(delta=4)
    for number, one in enumerate(owned):
        index.add(Entry.of(number, one.filter, one.active_from, one.active_until))
    reader = index.reader()
    for event in published:
        expected = [number for number, one in enumerate(owned) if matches(one, event)]
        assert sorted(reader.match_one(event.attributes).tolist()) == expected


def ranges(count):
    return [Entry.of(number, Filter.of(attr("x").between(number, number + 10))) for number in range(count)]


def test_batches_see_delta_and_segments_alike():
    index = Index(ranges(300), delta=8)
    for number in range(300, 305):
        index.add(Entry.of(number, Filter.of(attr("x") > 290)))
    index.remove(295)
    reader = index.reader()
    offsets, numbers = reader.match_batch(pa.RecordBatch.from_pydict({"x": [5, 300, None]}))
    assert sorted(numbers[offsets[0] : offsets[1]].tolist()) == [0, 1, 2, 3, 4, 5]
    assert sorted(numbers[offsets[1] : offsets[2]].tolist()) == [*range(290, 295), *range(296, 305)]
    assert offsets[2] == offsets[3]


def test_an_empty_index_matches_nothing():
    reader = Index().reader()
    assert reader.match_one({"x": 1}).tolist() == []
    offsets, numbers = reader.match_batch(pa.RecordBatch.from_pydict({"x": [1, 2]}))
    assert (offsets.tolist(), numbers.tolist()) == ([0, 0, 0], [])


def test_an_older_snapshot_is_used_even_when_it_is_empty():
    index = Index()
    before = index.snapshot
    index.add(ranges(1)[0])
    assert index.reader().match_one({"x": 1}, before).tolist() == []


def test_numbers_are_unique():
    with pytest.raises(DuplicateIdError, match="twice"):
        Index([*ranges(2), *ranges(1)])


def test_readers_in_other_threads_are_exact_while_updates_and_merges_go_on():
    """Even numbers stay, odd ones come and go: a reader always finds all even ones, and never a number twice."""
    index = Index([Entry.of(number, Filter.of(attr("x") >= number)) for number in range(0, 400, 2)], run=in_background)
    stop = threading.Event()
    problems = []

    def read():
        reader = index.reader()
        while not stop.is_set():
            found = reader.match_one({"x": 399}).tolist()
            if len(set(found)) != len(found) or not set(range(0, 400, 2)) <= set(found):
                problems.append(found)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        for number in range(1, 400, 2):
            index.add(Entry.of(number, Filter.of(attr("x") >= number)))
        for number in range(1, 400, 2):
            index.remove(number)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(index) == 200


def add_all(index, entries):
    for entry in entries:
        index.add(entry)


def test_a_merge_that_could_not_be_handed_over_is_tried_again():
    def refuse(job):
        raise RuntimeError("shut down")

    index = Index(run=refuse, delta=1)
    with pytest.raises(RuntimeError, match="shut down"):
        add_all(index, ranges(20))
    held = len(index)
    assert index.reader().match_one({"x": 0}).tolist() == [0]
    with pytest.raises(RuntimeError, match="shut down"):
        index.add(Entry.of(100, Filter.of(attr("x") < 0)))
    assert len(index) == held + 1


def test_kernels_can_be_compiled_ahead():
    warm_up()
    assert search.load().signatures
    assert search_one.load().signatures
    assert match_parts.load().signatures
    assert match_parts_holding.load().signatures
