"""The index is exact at every moment: after any updates, for every snapshot, while merges are under way."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from costly import COSTLY_EXAMPLES, costly
from rankcast.containers.container import Container
from rankcast.language.parser import parse_filter
from rankcast.matching.entries import Entry, FewSnapshot
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate, matches
from rankcast.matching.segments.compiled_index import SPARE_NAMES
from rankcast.matching.segments.search import match_parts, search
from rankcast.matching.warming import warm_up
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.expressions import Constant, attr
from rankcast.model.filters import Filter
from rankcast.storage.index_files import index_from_arrays, index_to_arrays
from rankcast.testing.strategies import attributes, events, filters, subscriptions

NUMBERS = st.integers(0, 11)


def matching(model, found):
    return sorted(number for number, one in model.items() if evaluate(one.expression, found) is True)


class Updates(RuleBasedStateMachine):
    """An index with a tiny delta against a dict and the oracle; jobs wait until a rule lets one run.

    It begins in plain Python or with kernels; so does its twin, which does every job at once.
    """

    @initialize(
        wanted=st.lists(filters(max_leaves=4), max_size=4), delta=st.integers(1, 3), few=st.sampled_from((0, 2, 5))
    )
    def start(self, wanted, delta, few):
        self.jobs = []
        self.model = dict(enumerate(wanted))
        entries = [Entry.of(number, one) for number, one in self.model.items()]
        self.index = Index(entries, run=self.jobs.append, delta=delta, few=few)
        self.twin = Index(entries, delta=delta, few=few)
        self.readers = [self.index.reader(), self.twin.reader()]
        self.older = None

    @rule(number=NUMBERS, wanted=filters(max_leaves=4))
    def add(self, number, wanted):
        if number in self.model:
            with pytest.raises(DuplicateIdError):
                self.index.add(Entry.of(number, wanted))
        else:
            self.index.add(Entry.of(number, wanted))
            self.twin.add(Entry.of(number, wanted))
            self.model[number] = wanted

    @rule(number=NUMBERS)
    def remove(self, number):
        assert (number in self.index) == (number in self.model)
        if number in self.model:
            self.index.remove(number)
            self.twin.remove(number)
            del self.model[number]
        else:
            with pytest.raises(UnknownIdError):
                self.index.remove(number)

    @rule()
    def do_a_job(self):
        if self.jobs:
            self.jobs.pop(0)()

    @rule()
    def use_kernels(self):
        self.index.use_kernels()

    @rule(found=attributes())
    def save(self, found):
        arrays, about = index_to_arrays(self.index.snapshot)
        reader = index_from_arrays(Container("index", about, arrays)).reader()
        assert sorted(reader.match_one(found).tolist()) == matching(self.model, found)

    @rule()
    def remember(self):
        self.older = (self.index.snapshot, dict(self.model))

    @rule(found=attributes())
    def match(self, found):
        for reader in self.readers:
            assert sorted(reader.match_one(found).tolist()) == matching(self.model, found)

    @rule(found=attributes())
    def match_in_an_older_snapshot(self, found):
        if self.older is not None:
            snapshot, model = self.older
            assert sorted(self.readers[0].match_one(found, snapshot).tolist()) == matching(model, found)

    @invariant()
    def counts(self):
        assert len(self.index) == len(self.twin) == len(self.model)


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(max_examples=max(40, COSTLY_EXAMPLES // 4), stateful_step_count=30, deadline=None)


@costly
@given(st.lists(subscriptions(), max_size=6), st.lists(events(), min_size=1, max_size=3))
def test_activation_is_obeyed_by_the_few_the_delta_and_segments(owned, published):
    for few in (0, 100):
        index = Index(delta=4, few=few)
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


@pytest.mark.parametrize("few", [0, 300])
def test_readers_in_other_threads_are_exact_while_updates_and_jobs_go_on(few):
    """Even numbers stay, odd ones come and go: a reader always finds all even ones, and never a number twice."""
    with ThreadPoolExecutor(1) as executor:
        entries = [Entry.of(number, Filter.of(attr("x") >= number)) for number in range(0, 400, 2)]
        index = Index(entries, run=executor.submit, few=few, delta=64)
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


@pytest.mark.parametrize("few", [0, 2])
def test_a_job_that_could_not_be_handed_over_is_tried_again(few):
    def refuse(job):
        raise RuntimeError("shut down")

    index = Index(run=refuse, few=few, delta=1)
    with pytest.raises(RuntimeError, match="shut down"):
        add_all(index, ranges(20))
    held = len(index)
    assert index.reader().match_one({"x": 0}).tolist() == [0]
    with pytest.raises(RuntimeError, match="shut down"):
        index.add(Entry.of(100, Filter.of(attr("x") < 0)))
    assert len(index) == held + 1


def test_what_comes_and_goes_while_a_job_works_is_not_lost():
    jobs = []
    index = Index(run=jobs.append, few=3, delta=2)
    add_all(index, ranges(4))
    assert len(jobs) == 1
    index.remove(1)
    index.remove(2)
    add_all(index, [Entry.of(1, Filter.of(attr("x") == 50)), Entry.of(9, Filter.of(attr("x") == 50))])
    assert len(jobs) == 1
    reader = index.reader()
    before = [sorted(reader.match_one({"x": x}).tolist()) for x in (1, 3, 50)]
    jobs.pop()()
    assert not isinstance(index.snapshot, FewSnapshot)
    assert before == [[0], [0, 3], [1, 9]] == [sorted(reader.match_one({"x": x}).tolist()) for x in (1, 3, 50)]


def test_neither_writers_nor_readers_do_a_job_that_was_handed_over():
    jobs = []
    index = Index(run=jobs.append, few=0, delta=2)
    reader = index.reader()
    add_all(index, ranges(20))
    assert (len(jobs), index.snapshot.parts) == (1, ())
    assert len(reader.match_one({"x": 10})) == 11
    while jobs:
        jobs.pop()()
    assert sum(len(part.segment) for part in index.snapshot.parts) == 20
    assert len(reader.match_one({"x": 10})) == 11


def test_few_that_died_are_forgotten():
    index = Index(few=10)
    for number in range(1000):
        index.add(Entry.of(number, Filter.of(attr(f"a{number}") == number)))
        index.remove(number)
    assert len(index.snapshot.few) < 50


@pytest.mark.parametrize("value", [lambda n: n, str])
def test_attributes_that_nothing_asks_for_any_more_are_forgotten(value):
    index = Index(few=0, delta=16)
    index.add(Entry.of(0, Filter.of(attr("stays") > 0)))
    reader = index.reader()
    older = None
    for number in range(1, 1000):
        index.add(Entry.of(number, Filter.of(attr(f"a{number}") == value(number))))
        event = {"stays": 1, f"a{number}": value(number), f"a{number - 1}": value(number - 1)}
        assert sorted(reader.match_one(event).tolist()) == [0, number]
        if number == 500:
            older = index.snapshot
        index.remove(number)
    assert len(index.snapshot.names) < 2 * SPARE_NAMES
    assert sorted(reader.match_one({"stays": 1, "a500": value(500), "a999": value(999)}, older).tolist()) == [0, 500]


def test_an_index_is_used_without_a_compiler():
    """The first events of a program are not to wait for one: neither numba nor pyarrow is imported."""
    code = """
import sys
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
index = Index()
index.add(Entry.of(1, Filter.of(attr("x") > 1)))
assert index.reader().match_one({"x": 2}).tolist() == [1]
print([name for name in ("numba", "pyarrow", "rankcast.compiling") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_kernels_can_be_compiled_ahead():
    warm_up()
    assert search.load().signatures
    assert match_parts.load().signatures


def test_what_one_caller_does_with_matches_concerns_no_other():
    index = Index([Entry.of(number, Filter.of(Constant(True))) for number in range(5)], few=0)
    reader = index.reader()
    reader.match_one({"x": 1})[:] = 99
    assert sorted(reader.match_one({"x": 1}).tolist()) == [0, 1, 2, 3, 4]


def test_an_entry_that_is_no_row_is_asked_though_no_row_asks_for_an_attribute():
    index = Index(delta=4, few=0)
    index.add(Entry.of(7, parse_filter("n = -1 or s like '_'")))
    reader = index.reader()
    assert reader.match_one({"n": -1}).tolist() == [7]
    assert reader.match_one({"s": "ab"}).tolist() == []
    assert reader.match_one({"s": "a"}).tolist() == [7]
