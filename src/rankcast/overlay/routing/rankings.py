"""How a publisher wants the subscriptions that match its events to be ranked; each event goes to the best k.

The score of a subscription is one of:

- NONE: all are equal;
- PREFERENCE: its preference rank, which no publication changes;
- RELEVANCE: its preference rank times the event's relevance to it;
- DIVERSITY: the sum of its distances to all subscriptions that match (see `distances`): those that nobody resembles
  come first.

Equals are ranked at random, each order as likely as any other, or by their keys. A ranking must be able to prove that a
subscription which covers another also ranks above it, for every publication; else nothing may be hidden. `proof` says
how: ranks drawn at random are taken to (that is what the paper evaluates), fixed scores are compared, and scores that
depend on the event prove nothing.

Paper: top-k covering for publish/subscribe overlays, sections III and IV, Appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankcast.covering.topk.order import Ranking


class Scoring(Enum):
    """What a subscription's score is."""

    NONE = "none"
    PREFERENCE = "preference"
    RELEVANCE = "relevance"
    DIVERSITY = "diversity"


class Ties(Enum):
    """In which order subscriptions of equal score are taken."""

    FAIR = "fair"
    BY_ID = "by id"


@dataclass(frozen=True, slots=True)
class AudienceRanking:
    """Scores, and what decides between equals. The default is fairness alone."""

    scoring: Scoring = Scoring.NONE
    ties: Ties = Ties.FAIR

    @property
    def proof(self) -> Ranking:
        """How it is proven that a subscription ranks above another one."""
        if self.scoring in (Scoring.RELEVANCE, Scoring.DIVERSITY):
            return Ranking.UNPROVABLE
        if self.scoring is Scoring.NONE and self.ties is Ties.FAIR:
            return Ranking.AGNOSTIC
        return Ranking.FIXED


FAIRNESS = AudienceRanking()
