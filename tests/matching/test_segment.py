"""A segment answers exactly what the oracle answers, whichever kernel finds a row."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costly import costly
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate
from rankcast.matching.segments import bitmap_index as wide
from rankcast.matching.segments import compiled_index
from rankcast.matching.segments import plan as planning
from rankcast.matching.segments.building import build_segment
from rankcast.model.expressions import attr
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern
from rankcast.model.valuesets.sets import ValueSet
from rankcast.model.valuesets.strings import StringSet
from rankcast.testing.strategies import attributes, filters

ALWAYS_WIDE, ALWAYS_SELECTIVE = 0.0, math.inf


NEVER_CHECK, ALWAYS_CHECK = 0, -1


KERNELS = ("measured", "corrected", "checked", "selective")


@contextmanager
def searching_with(kernel: str) -> Iterator[None]:
    """Have rows found by one kernel, or by the one that is measured to be best."""
    with pytest.MonkeyPatch.context() as patched:
        if kernel != "measured":
            patched.setattr(planning, "SCANNED_ROWS", 0)
            patched.setattr(planning, "WIDE_COST", ALWAYS_SELECTIVE if kernel == "selective" else ALWAYS_WIDE)
        if kernel in ("corrected", "checked"):
            # Few buckets, so that even a few rows have end points inside them.
            patched.setattr(wide, "MAX_BUCKETS", 3)
            per_check = ALWAYS_CHECK if kernel == "checked" else NEVER_CHECK
            patched.setattr(compiled_index, "_ends_per_check", lambda segment: per_check)
        yield


@pytest.fixture(params=KERNELS)
def kernel(request):
    with searching_with(request.param):
        yield request.param


def expected(wanted, found):
    return [number for number, one in enumerate(wanted) if evaluate(one.expression, found) is True]


def entries(wanted):
    return [Entry.of(number, one) for number, one in enumerate(wanted)]


class TestOneEvent:
    @costly
    @given(wanted=st.lists(filters(), max_size=5), found=st.lists(attributes(), min_size=1, max_size=3))
    def test_equals_the_oracle_whichever_kernel_searches(self, wanted, found):
        for kernel in KERNELS:  # to draw filters takes longer than to search them
            with searching_with(kernel):
                searcher = Index(entries(wanted), few=0).reader()
                for one in found:
                    assert sorted(searcher.match_one(one).tolist()) == expected(wanted, one), kernel


@cache
def random_ranges(count, seed, dimensions=6):
    """Filters over few ints, with shared end points, gaps and patterns, and some that match everything."""
    generator = np.random.default_rng(seed)
    wanted = []
    for _ in range(count):
        kind = generator.integers(0, 10)
        parts = []
        for name in generator.choice(dimensions, size=generator.integers(0, 4), replace=False):
            low, high = sorted(generator.integers(0, 40, 2).tolist())
            attribute = attr(f"a{name}")
            parts.append(attribute.between(low, high))
            if kind == 0:
                parts.append(attribute != int(generator.integers(0, 40)))
            elif kind == 1:
                parts[-1] = attribute.is_in(*generator.integers(0, 40, 5).tolist())
        if kind == 2:
            parts.append(attr("s").like(f"%{generator.integers(0, 10)}_{generator.integers(0, 10)}%"))
        elif kind == 3:
            parts.append(attr("s").suffix(str(generator.integers(0, 10))))
        elif kind == 4:
            parts.append(~attr("s").contains(str(generator.integers(0, 10))))
        elif kind == 5:
            parts.append(~attr("a0").exists())
        expression = parts[0] if len(parts) == 1 else None
        for part in parts:
            expression = part if expression is None else expression & part
        if kind == 6 and expression is not None:
            expression = expression | (attr("a1") > 30)
        wanted.append(Filter.of(expression if expression is not None else attr("a9").exists() | ~attr("a9").exists()))
    return wanted


def random_events(count, seed, dimensions=6):
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        event = {f"a{at}": int(generator.integers(0, 40)) for at in range(dimensions) if generator.random() < 0.8}
        if generator.random() < 0.8:
            event["s"] = "".join(map(str, generator.integers(0, 10, generator.integers(0, 7)).tolist()))
        found.append(event)
    return found


@cache
def expected_in_sizes(count):
    """What the oracle says, once for all kernels."""
    return [expected(random_ranges(count, seed=count), one) for one in random_events(20, seed=1)]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 4096])
class TestSizes:
    def test_equals_the_oracle(self, kernel, count):
        wanted, found = random_ranges(count, seed=count), random_events(20, seed=1)
        searcher = Index(entries(wanted), few=0).reader()
        assert [sorted(searcher.match_one(one).tolist()) for one in found] == expected_in_sizes(count)

    def test_batch_equals_single_events(self, kernel, count):
        wanted, found = random_ranges(count, seed=count), random_events(60, seed=2)
        searcher = Index(entries(wanted), few=0).reader()
        offsets, numbers = searcher.match_batch(pa.RecordBatch.from_pylist(found, schema=BATCH))
        for at, one in enumerate(found):
            assert sorted(numbers[offsets[at] : offsets[at + 1]].tolist()) == sorted(searcher.match_one(one).tolist())


BATCH = pa.schema([*((f"a{at}", pa.int64()) for at in range(6)), ("s", pa.string())])


class TestBatches:
    @costly
    @given(wanted=st.lists(filters(), max_size=8), found=st.lists(attributes(), max_size=6))
    def test_equal_the_oracle_on_every_arrow_type(self, wanted, found):
        searcher = Index(entries(wanted), few=0).reader()
        batch, present = as_batch(found)
        offsets, numbers = searcher.match_batch(batch)
        assert len(offsets) == batch.num_rows + 1
        for at, one in enumerate(present):
            assert sorted(numbers[offsets[at] : offsets[at + 1]].tolist()) == expected(wanted, one)

    def test_structs_are_dotted_names_and_dictionaries_are_strings(self):
        wanted = [Filter.of(attr("address.city") == "Porto"), Filter.of(attr("kind").suffix("at"))]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([{"city": "Porto"}, {"city": None}, None]),
                pa.array(["flat", None, "house"]).dictionary_encode(),
            ],
            names=["address", "kind"],
        )
        offsets, numbers = Index(entries(wanted), few=0).reader().match_batch(batch)
        assert offsets.tolist() == [0, 2, 2, 2]
        assert sorted(numbers.tolist()) == [0, 1]

    def test_finer_digits_of_a_time_are_cut(self):
        noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        wanted = [Filter.of(attr("t") == noon)]
        nanoseconds = int(noon.timestamp()) * 10**9
        column = pa.array([nanoseconds + 999, nanoseconds + 1000], pa.timestamp("ns", "UTC"))
        offsets, _ = (
            Index(segments=[build_segment(entries(wanted))])
            .reader()
            .match_batch(pa.RecordBatch.from_arrays([column], ["t"]))
        )
        assert offsets.tolist() == [0, 1, 1]


ARROW = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), datetime: pa.timestamp("us", "UTC")}


def types_of(value):
    """Return the type of a value, and those of its elements."""
    return type(value), frozenset(map(type, value)) if isinstance(value, tuple) else frozenset()


def arrow_type(kind, elements):
    if kind is not tuple:
        return ARROW[kind]
    return pa.list_(pa.null() if not elements else pa.float64() if len(elements) > 1 else ARROW[min(elements, key=str)])


def as_batch(found):
    """Return events as a batch; a column has one type, so values of another type than its first one are dropped."""
    kinds = {}
    for one in found:
        for name, value in one.items():
            kinds.setdefault(name, types_of(value))
    present = [{name: value for name, value in one.items() if types_of(value) == kinds[name]} for one in found]
    schema = pa.schema([(name, arrow_type(*kind)) for name, kind in kinds.items()])
    if not kinds:
        return pa.RecordBatch.from_pylist(
            [{"unused": None} for _ in found], pa.schema([("unused", pa.int8())])
        ), present
    return pa.RecordBatch.from_pylist(present, schema), present


def test_a_conjunction_whose_patterns_contradict_each_other_matches_nothing():
    """Made by hand, because the normal form drops contradictions that it sees; the other alternative still counts."""
    ends = frozenset((Pattern.suffix("ab"), Pattern.suffix("c")))
    contradiction = Conjunction((("s", ValueSet(strings=StringSet(IntervalSet.full(Domain.STRING), ends))),))
    entry = Entry(7, (contradiction, *Filter.of(attr("x") == 2).conjunctions))
    searcher = Index(segments=[build_segment([entry, Entry(8, (contradiction,))])]).reader()
    assert searcher.match_one({"s": "abc"}).tolist() == []
    assert searcher.match_one({"s": "abc", "x": 2}).tolist() == [7]
