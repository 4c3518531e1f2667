"""Scores that are all different: of equal ones the smaller key is the better one.

Covering by fixed scores breaks ties by the numbers that a broker gives, which differ from broker to broker; what is
hidden must not depend on them where ties are broken by key. So each (score, key) gets a label of its own in the same
order, halfway between its neighbours' or a long step beyond the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sortedcontainers import SortedDict

Ranked: TypeAlias = tuple[float, tuple[str, ...], int]
"""A negated score, a key, and a number that tells two of the same apart: the best one is the smallest."""

HIGHEST = 2**53
STEP = 2**30
"""How far beyond the best or the worst a new label lies: room for 30 halvings, and for millions of steps."""


class ScoreOrder:
    """Labels of scores and keys, whole floats below 2**53; larger is better."""

    def __init__(self, held: Iterable[Ranked] = ()) -> None:
        ranked = sorted(held)
        labels = (HIGHEST - HIGHEST * (at + 1) // (len(ranked) + 1) for at in range(len(ranked)))
        self._labels: SortedDict[Ranked, int] = SortedDict(zip(ranked, labels, strict=True))

    def label(self, ranked: Ranked) -> float:
        """Return the label of what is held."""
        return float(self._labels[ranked])

    def add(self, ranked: Ranked) -> bool:
        """Give a score and key its label; False when there is no room left between its neighbours."""
        at = self._labels.bisect_left(ranked)
        above = self._labels.peekitem(at - 1)[1] if at else HIGHEST
        below = self._labels.peekitem(at)[1] if at < len(self._labels) else 0
        if above - below < 2:
            return False
        middle = (above + below) // 2
        if not at:
            middle = min(middle, below + STEP) if self._labels else middle
        elif at == len(self._labels):
            middle = max(middle, above - STEP)
        self._labels[ranked] = middle
        return True

    def remove(self, ranked: Ranked) -> None:
        """Forget a score and key."""
        del self._labels[ranked]
