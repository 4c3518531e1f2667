"""Trees of brokers, and the broker that suits a newcomer."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.covering.topk.poset import Poset
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, UnknownIdError
from rankcast.overlay.routing.broker_choice import Fit, best_broker, fit
from rankcast.overlay.simulation.topologies import Link, Topology, balanced_tree, chain, random_tree, star


def test_the_papers_overlay_is_a_chain_of_cores_with_edges():
    topology = chain(10, 5)
    assert len(topology.brokers) == 60
    assert len(topology.edges) == 50
    assert topology.hops("edge0.0", "edge9.4") == 11
    assert topology.neighbours("core0") == ("core1", "edge0.0", "edge0.1", "edge0.2", "edge0.3", "edge0.4")


def test_stars_and_balanced_trees():
    assert star(4).edges == ("edge0", "edge1", "edge2", "edge3")
    assert len(balanced_tree(3, 2).brokers) == 13
    assert balanced_tree(3, 2).hops("b.0.0", "b.2.1") == 4
    assert balanced_tree(2, 0).edges == ("b",)


@given(st.integers(1, 30), st.integers(0, 99))
def test_a_random_tree_is_a_tree_and_the_same_for_the_same_seed(brokers, seed):
    topology = random_tree(brokers, np.random.default_rng(seed))
    assert len(topology.brokers) == brokers
    assert topology == random_tree(brokers, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("brokers", "links", "problem"),
    [
        ((), (), "at least one"),
        (("a", "a"), (), "each name once"),
        (("a", "b"), (), "do not join"),
        (("a", "b", "c"), (("a", "b"), ("b", "a")), "do not join"),
        (("a", "b"), (("a", "x"),), "no broker 'x'"),
    ],
)
def test_what_is_no_tree_is_refused(brokers, links, problem):
    with pytest.raises(InvalidValueError, match=problem):
        Topology(brokers, tuple(Link(*link) for link in links))


def test_what_is_not_there_is_an_error():
    with pytest.raises(UnknownIdError, match="nowhere"):
        star(2).hops("core", "nowhere")
    with pytest.raises(UnknownIdError, match="no link between"):
        star(2).link("edge0", "edge1")
    with pytest.raises(InvalidValueError, match="below 0"):
        Link("a", "b", -timedelta(1))
    with pytest.raises(InvalidValueError, match="cores: 0"):
        chain(0, 5)


def poset(*texts):
    made = Poset()
    for number, text in enumerate(texts):
        made.add(number, parse_filter(text))
    return made


def filters(*texts):
    return [parse_filter(text) for text in texts]


def test_a_newcomer_joins_where_it_adds_no_root():
    comedies = poset("genre = 'comedy'", "genre = 'comedy' and length > 100")
    dramas = poset("genre = 'drama'")
    wanted = filters("genre = 'comedy' and length > 120")
    assert best_broker({"dramas": dramas, "comedies": comedies}, wanted) == "comedies"
    assert fit(comedies, wanted) == Fit(0, 2, 0)
    assert fit(dramas, wanted) == Fit(1, 1, 0)


def test_of_equal_roots_the_smaller_poset_then_the_one_of_which_more_is_covered():
    wide = filters("length > 50")
    large, small = poset("length > 60", "length > 70"), poset("length > 60")
    assert best_broker({"large": large, "small": small}, wide) == "small"
    other = poset("rating > 3")
    assert best_broker({"other": other, "small": small}, wide) == "small"
    assert fit(small, wide).covered == 1


def test_filters_of_the_newcomer_count_once_and_not_below_each_other():
    empty = poset()
    assert fit(empty, filters("x > 1", "x > 1", "x > 2")).new_roots == 1
    assert fit(poset("x > 1"), filters("x > 1", "y > 2")).new_roots == 1
    with pytest.raises(InvalidValueError, match="no broker"):
        best_broker({}, filters("true"))
