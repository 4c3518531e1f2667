"""The diverse selection among events that come and go, made anew only when it has to be.

It stands until one of the events chosen leaves, or one enters that would have been chosen instead of another. What
leaves without having been chosen changes nothing. So an event that enters costs k distances at most, and none where its
rank is too low for any distance to help. The arithmetic is that of `rankcast.ranking.diversity`, so the selection is
always the one that would be made anew.

Cost: k distances per event that changes nothing, k for each event held otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.diverse_selection import selected_with_divranks, selection_arrays
from rankcast.model.diversity import Diversity


class StandingSelection:
    """Which k of the events held are chosen. Tell it of each one that enters or leaves."""

    __slots__ = ("_chosen", "_diversity", "_k", "_least")

    def __init__(self, k: int, diversity: Diversity) -> None:
        self._k = k
        self._diversity = diversity
        self._chosen: list[tuple[Candidate, float]] | None = None
        self._least = math.inf

    def entered(self, candidate: Candidate) -> None:
        """Take note of an event that has entered."""
        if self._chosen is not None and (len(self._chosen) < self._k or self._would_choose(candidate, self._chosen)):
            self._chosen = None

    def left(self, candidate: Candidate) -> None:
        """Take note of an event that has left."""
        if self._chosen is not None and any(one is candidate for one, _ in self._chosen):
            self._chosen = None

    def among(self, held: Iterable[Candidate]) -> list[Candidate]:
        """Return the events chosen among those held, in the order of selection."""
        if self._chosen is None:
            oldest_first = sorted(held, key=_age)
            contents = [one.content for one in oldest_first]
            arrays = selection_arrays(contents, [one.score for one in oldest_first], self._diversity)
            self._chosen = [(oldest_first[at], divrank) for at, divrank in selected_with_divranks(arrays, self._k)]
            self._least = min((divrank for _, divrank in self._chosen[1:]), default=math.inf)
        return [one for one, _ in self._chosen]

    def _would_choose(self, candidate: Candidate, chosen: list[tuple[Candidate, float]]) -> bool:
        """Whether a candidate would have been chosen instead of one that was."""
        sigma, rank, content = self._diversity.sigma, candidate.score, dict(candidate.content)
        if not chosen or (rank < chosen[0][1] and sigma * rank + (1 - sigma) * 1.0 < self._least):
            return False
        mean = 0.0
        for count, (one, divrank) in enumerate(chosen):
            own = sigma * rank + (1 - sigma) * mean if count else rank
            if (own, rank) > (divrank, one.score):
                return True
            if (own, rank) == (divrank, one.score) and _age(candidate) < _age(one):
                return True
            mean = (mean * count + self._diversity.distance(content, dict(one.content))) / (count + 1)
        return False


def _age(candidate: Candidate) -> tuple[object, ...]:
    return candidate.time, candidate.identity
