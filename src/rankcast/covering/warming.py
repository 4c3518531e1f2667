"""Runs every kernel of the package on a few random boxes, so that it is compiled, or loaded, before it is needed."""

from __future__ import annotations

from itertools import product

import numpy as np

from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import Ranking
from rankcast.covering.topk.poset import Poset
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter

BOXES = 30
"""Enough of them that some are covered by several others, which is what the search is for."""


def warm_up() -> None:
    """Cover boxes by every strategy."""
    random = np.random.default_rng(0)
    low = random.integers(0, 9, (BOXES, 2))
    high = low + random.integers(1, 5, (BOXES, 2))
    filters = [
        Filter.of(attr("x").between(x, u) & attr("y").between(y, v))
        for (x, y), (u, v) in zip(low.tolist(), high.tolist(), strict=True)
    ]
    sets = [CoverSet(cover, 2, ranking) for cover, ranking in product(Cover, Ranking)]
    checks = [Checking(strategy, printed_bound=printed) for strategy, printed in product(GroupStrategy, (False, True))]
    actives, poset = [ActiveSet(checking) for checking in checks], Poset()
    for number, wanted in enumerate(filters):
        poset.add(number, wanted)
        for covers in sets:
            covers.add(number, wanted, float(number % 3))
        for active in actives:
            active.add(number, wanted)
    for covers in sets:
        covers.hidden_weights(covers.forwarded, np.ones(BOXES))
    for number, wanted in enumerate(filters):
        poset.remove(number, wanted)
        for covers in sets:
            covers.remove(number)
        for active in actives:
            active.remove(number)
