"""Segments made of a full delta are exact, at every number of rows around a word and a line of words."""

import numpy as np
import pytest

from rankcast.matching.builder import Entry
from rankcast.matching.exact_wide import MAX_ROWS
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter


def random_filters(count, generator):
    """Conjunctions of intervals over few values, some open at an end; every tenth accepts everything."""
    wanted = []
    for number in range(count):
        expression = attr("a0").exists() | ~attr("a0").exists()
        for name in generator.choice(6, size=generator.integers(1, 4), replace=False) if number % 10 else ():
            low, high = sorted(generator.integers(0, 30, 2).tolist())
            one = (attr(f"a{name}").between(low, high), attr(f"a{name}") > low, attr(f"a{name}") <= high)
            expression &= one[generator.integers(0, 3)]
        wanted.append(Filter.of(expression))
    return wanted


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 511, 512, 513, MAX_ROWS, MAX_ROWS + 1])
def test_a_flushed_delta_equals_the_oracle(count):
    generator = np.random.default_rng(count)
    wanted = random_filters(count, generator)
    index = Index(delta=count, run=lambda job: None)
    for number, one in enumerate(wanted):
        index.add(Entry.of(number, one))
    [part] = index.snapshot.parts
    assert len(part.segment.wide.bits) > 0 or not 1 < count <= MAX_ROWS
    reader = index.reader()
    for _ in range(20):
        event = {f"a{at}": int(generator.integers(-1, 32)) for at in range(6) if generator.random() < 0.8}
        expected = [number for number, one in enumerate(wanted) if evaluate(one.expression, event) is True]
        assert sorted(reader.match_one(event).tolist()) == expected


def test_strings_do_not_satisfy_intervals_of_numbers():
    index = Index(delta=2, run=lambda job: None)
    index.add(Entry.of(1, Filter.of(attr("x") > 1)))
    index.add(Entry.of(2, Filter.of(attr("x") < 5)))
    reader = index.reader()
    assert reader.match_one({"x": "a"}).tolist() == []
    assert reader.match_one({"x": True}).tolist() == []
    assert sorted(reader.match_one({"x": 3}).tolist()) == [1, 2]
