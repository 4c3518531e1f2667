"""Routing strategies: which subscriptions a broker tells its neighbours, and how the best k of an event are found.

| strategy | forwards | an event goes to |
|---|---|---|
| Flooding | nothing | every broker |
| RegularK | everything | all matches, or exactly the k best |
| RegularCover | what no other covers | all matches |
| GroupCover | what the others together do not cover | all matches |
| RankCoverK | what no chain of k covers and outranks | exactly the k best |
| AncestorCoverK | what no k cover and outrank | exactly the k best |
| AncestorFairK | the same, with weights for those hidden | k of equal score, nearly fairly |
| ExactFair | what no other covers | the k best of the matches, each as likely as any other of its score |

Without a k, RankCoverK, AncestorCoverK, AncestorFairK and ExactFair route as RegularCover does. An advertisement may
name a strategy of its own.
"""

from __future__ import annotations

from enum import Enum

from rankcast.covering.topk.cover_set import Cover
from rankcast.model.advertisements import Advertisement, Scoring, Ties


class Strategy(Enum):
    """How a broker routes the events of an advertisement; all brokers of an overlay have to use the same one."""

    FLOODING = "Flooding"
    REGULAR_K = "RegularK"
    REGULAR_COVER = "RegularCover"
    GROUP_COVER = "GroupCover"
    RANK_COVER_K = "RankCoverK"
    ANCESTOR_COVER_K = "AncestorCoverK"
    ANCESTOR_FAIR_K = "AncestorFairK"
    EXACT_FAIR = "ExactFair"

    @property
    def takes_k(self) -> bool:
        """Whether a publisher can ask for the k best."""
        return self not in (Strategy.FLOODING, Strategy.REGULAR_COVER, Strategy.GROUP_COVER)

    @property
    def counts(self) -> bool:
        """Whether brokers ask each other how many match, and so have to know behind whom somebody is hidden."""
        return self is Strategy.EXACT_FAIR

    def cover(self, k: int | None) -> Cover | None:
        """Return who hides a subscription of an advertisement with this k; None when that is not decided pairwise."""
        if self in (Strategy.FLOODING, Strategy.REGULAR_K, Strategy.GROUP_COVER):
            return None
        if k is None or self in (Strategy.REGULAR_COVER, Strategy.EXACT_FAIR):
            return Cover.REGULAR
        return Cover.RANK if self is Strategy.RANK_COVER_K else Cover.ANCESTOR

    def refusal(self, advertisement: Advertisement) -> str | None:
        """Return what an advertisement asks for that the strategy cannot do, if anything."""
        k, ranking = advertisement.k, advertisement.ranking
        if k is None:
            return None
        if not self.takes_k:
            others = ", ".join(strategy.value for strategy in Strategy if strategy.takes_k)
            return f"k: {k} has no meaning for {self.value}; expected one of {others}"
        if self is Strategy.EXACT_FAIR and (ranking.ties is Ties.BY_ID or ranking.scoring is Scoring.DIVERSITY):
            return f"a ranking by {'id' if ranking.ties is Ties.BY_ID else 'diversity'}, which {self.value} cannot"
        return None


class Weighing(Enum):
    """What a forwarded subscription of AncestorFairK weighs.

    SPLIT divides each hidden one evenly among the forwarded ones above it; DESCENDANTS, the paper's, counts it once
    for each of them.
    """

    SPLIT = "split"
    DESCENDANTS = "descendants"
