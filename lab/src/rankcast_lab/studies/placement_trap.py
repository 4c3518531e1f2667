"""A problem that misleads greedy placement, however well it sorts: built so, not drawn.

Two rows of tiny squares, one above the other. All filters together have so many boxes; as many squares of the lower row
come first, and greedy placement gives each a box of its own, as a new box costs next to nothing. Then come the squares
of the upper row, each midway between two of the lower row: every box has to reach up to them, and the whole space is
covered. One flat box around each row would do. The smaller the squares, the larger the ratio, without any limit.
"""

from __future__ import annotations

import numpy as np

from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem
from rankcast.placement.tree import BrokerTree

ALPHA = 3


def misleading_problem(side: float, brokers: int = 2, copies: int = 20) -> Problem:
    """Return the problem with squares of a side; so many subscribers want each square, the lower row first."""
    lower = (np.arange(brokers * ALPHA) + 0.5) / (brokers * ALPHA)
    upper = np.arange(brokers * ALPHA) / (brokers * ALPHA)
    corners = np.concatenate([np.column_stack([lower, np.zeros_like(lower)]), np.column_stack([upper, upper * 0 + 1])])
    tree = BrokerTree.star([0.0], np.ones((brokers, 1)))
    wanted = np.tile(np.arange(len(corners)).reshape(2, -1)[:, None], (1, copies, 1)).reshape(-1)
    sites = np.array([[1.0]])
    return Problem(
        tree,
        Interests.of_boxes(corners, corners + side),
        wanted,
        sites,
        np.array([2.0]),
        np.zeros(len(wanted), np.int64),
        beta=1.2,
        beta_max=1.2,
        alpha=ALPHA,
    )
