"""The kernels that rank one event for many subscriptions at once, or many events for one of them.

All subscriptions here have a relevance function of one kind over the same attributes, so that their numbers lie in
columns: `targets[what, part, column]` and `settings[what, column]`. The arithmetic is that of `relevance` and
`preferences`, bit for bit: every column has sums of its own, added part by part, and nothing is fused.

Cost: some nanoseconds per column and part; columns are worked off in vector registers.
"""

from __future__ import annotations

import math

from rankcast.compiling import compiled, inlined
from rankcast.ranking.batch_table import CLOSENESS, COSINE, DISTANCE, Array
from rankcast.ranking.relevance import MAX_DISTANCE

VALUE, SCALE, WEIGHT = range(3)
"""What is known of a target; of the elements of a cosine's vector, only the value."""

REACH, WEIGHTS, RANK, FACTOR = range(4)
"""By column: the reach of an ideal point or the length of a cosine's vector, the sum of the weights of a closeness, the
preference rank, and the weight in a weighted sum, 1 for other ways to combine ranks."""


@inlined
def _finished(kind: int, total: float, length: float, settings: Array, column: int) -> float:
    """Return the rank of an event, given the sum over the parts; NaN when it has none."""
    if kind == COSINE:
        cosine = total / (length * settings[REACH, column])
        relevance = float(1 + max(-1.0, min(1.0, cosine))) / 2
    elif kind == CLOSENESS:
        relevance = total / settings[WEIGHTS, column]
    else:
        distance = math.sqrt(total)
        if distance > MAX_DISTANCE:
            return math.nan
        relevance = 0.0 - distance if kind == DISTANCE else max(0.0, 1 - distance / settings[REACH, column])
    return float(0.0 + settings[RANK, column] * relevance * settings[FACTOR, column])


@inlined
def rank_one(kind: int, features: Array, length: float, targets: Array, settings: Array, column: int) -> float:
    """Return the rank of one event for one column; NaN when it has none."""
    total = 0.0
    for part in range(len(features)):
        if kind == COSINE:
            total += features[part] * targets[VALUE, part, column]
            continue
        difference = abs(features[part] - targets[VALUE, part, column]) / targets[SCALE, part, column]
        if kind == CLOSENESS:
            total += targets[WEIGHT, part, column] * (1 - min(1.0, difference))
        else:
            total += targets[WEIGHT, part, column] * (difference * difference)
    return _finished(kind, total, length, settings, column)


@compiled
def rank_columns(
    kind: int, features: Array, length: float, targets: Array, settings: Array, columns: int, ranks: Array
) -> None:
    """Write the ranks of one event for the first columns; NaN where it has none."""
    for column in range(columns):
        ranks[column] = 0.0
    for part in range(len(features)):
        feature = features[part]
        if kind == COSINE:
            for column in range(columns):
                ranks[column] += feature * targets[VALUE, part, column]
        elif kind == CLOSENESS:
            for column in range(columns):
                difference = abs(feature - targets[VALUE, part, column]) / targets[SCALE, part, column]
                ranks[column] += targets[WEIGHT, part, column] * (1 - min(1.0, difference))
        else:
            for column in range(columns):
                difference = abs(feature - targets[VALUE, part, column]) / targets[SCALE, part, column]
                ranks[column] += targets[WEIGHT, part, column] * (difference * difference)
    for column in range(columns):
        ranks[column] = _finished(kind, ranks[column], length, settings, column)


@compiled
def rank_events(
    kind: int,
    features: Array,
    lengths: Array,
    chosen: Array,
    targets: Array,
    settings: Array,
    column: int,
    ranks: Array,
) -> None:
    """Write the ranks of chosen events, rows of features, for one column."""
    for at in range(len(chosen)):
        row = chosen[at]
        ranks[at] = rank_one(kind, features[row], lengths[row], targets, settings, column)
