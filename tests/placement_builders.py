"""Small placement problems for tests: on whole numbers, so that sums and measures are exact."""

import numpy as np
from hypothesis import strategies as st

from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, limits_of_delay
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree


def line_problem(boxes, brokers=(1, 2), places=None, limit=100.0, **settings):
    """Brokers and subscribers on a line, the publisher at 0; interests of one attribute, a pair of ends each."""
    tree = BrokerTree.star([0.0], [[float(at)] for at in brokers])
    places = [1.0] * len(boxes) if places is None else places
    interests = Interests.of_boxes([[low] for low, _ in boxes], [[high] for _, high in boxes])
    numbers = np.arange(len(boxes))
    settings = {"beta": 2.0, "beta_max": 2.0, "alpha": 1, **settings}
    return PlacementProblem(tree, interests, numbers, [[float(at)] for at in places], limit, numbers, **settings)


def box_problem(low, high, brokers, **settings):
    """Everybody at the publisher, who wants one box each, and no limit of latency."""
    positions = np.array(brokers, float)
    publisher = np.zeros(positions.shape[1])
    tree, wanted = BrokerTree.star(publisher, positions), Interests.of_boxes(low, high)
    return PlacementProblem(
        tree, wanted, np.arange(len(low)), publisher[None], np.inf, np.zeros(len(low), int), **settings
    )


@st.composite
def trees(draw, most=6):
    """Trees of up to so many brokers in the plane."""
    count = draw(st.integers(1, most))
    place = st.tuples(st.integers(-6, 6), st.integers(-6, 6))
    positions = draw(st.lists(place, min_size=count, max_size=count))
    parents = [draw(st.integers(PUBLISHER, at - 1)) if at else PUBLISHER for at in range(count)]
    return BrokerTree(np.zeros(2), np.array(positions, float), np.array(parents))


@st.composite
def interests(draw, most=5, attributes=2, parts=2):
    """Interests of one or more boxes on a small grid."""
    side = st.tuples(st.integers(0, 6), st.integers(0, 3)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
    box = st.lists(side, min_size=attributes, max_size=attributes)
    found = draw(st.lists(st.lists(box, min_size=1, max_size=parts), min_size=1, max_size=most))
    table = np.array([box for parts in found for box in parts], float)
    return Interests.of_boxes(table[:, :, 0], table[:, :, 1], np.cumsum([0, *map(len, found)]))


@st.composite
def problems(draw, subscribers=10, brokers=6, attributes=2, parts=2, star=False, most_alpha=3):
    """Problems of every kind: several levels, interests of several boxes, tight and loose limits."""
    tree = draw(trees(brokers))
    if star:
        tree = BrokerTree.star(tree.publisher, tree.positions)
    wanted = draw(interests(attributes=attributes, parts=parts))
    count = draw(st.integers(1, subscribers))
    place = st.tuples(st.integers(-6, 6), st.integers(-6, 6))
    sites = np.array(draw(st.lists(place, min_size=1, max_size=4)), float)
    many = {"min_size": count, "max_size": count}
    events = draw(
        st.none() | st.lists(st.lists(st.integers(0, 9), min_size=attributes, max_size=attributes), min_size=1)
    )
    beta = draw(st.sampled_from([1.0, 1.5, 2.5]))
    return PlacementProblem(
        tree,
        wanted,
        np.array(draw(st.lists(st.integers(0, len(wanted) - 1), **many))),
        sites,
        limits_of_delay(tree, sites, draw(st.sampled_from([0.0, 0.3, 5.0]))),
        np.array(draw(st.lists(st.integers(0, len(sites) - 1), **many))),
        beta=beta,
        beta_max=beta + draw(st.sampled_from([0.0, 1.0])),
        alpha=draw(st.integers(1, most_alpha)),
        density=UNIFORM if events is None else Density.sampled(events, np.ones(len(events))),
    )
