"""What a neighbour must know of the interests that meet one of its advertisements: forwarded ones, and hidden ones.

A forward set is told which interests come and go, by their numbers, and says what to forward and what to withdraw. What
covering cannot judge is forwarded always and hides nobody: filters that do not fit the advertisement's schema and,
where k are chosen, subscriptions with a relevance function, which match less than their filters say.

Where matches are counted, a set also knows which of the forwarded ones hide others. Whoever hides one is noted at once;
who no longer does is found when `forget_hiding` is asked, so in between too many are noted, never too few.

Cost: that of `rankcast.covering`. Numbers there are never used twice; now and then a set is made again with small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import TypeAlias

import numpy as np
from sortedcontainers import SortedDict

from rankcast.covering.boxes import enlarge
from rankcast.covering.group.cover import DEFAULT_CHECKING, ActiveSet, Checking
from rankcast.covering.topk.cover_set import Change, Cover, CoverSet
from rankcast.covering.topk.order import Ranking
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.errors import FilterError
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import SubscriberId
from rankcast.overlay.messages import Advertise, Interest
from rankcast.overlay.routing.strategies import Strategy

SPARE_NUMBERS = 1024
"""Numbers used beyond twice those in use, before a set is made again."""


Ranked: TypeAlias = tuple[float, tuple[str, ...], int]
"""A negated score, a key, and a number that tells two of the same apart: the best one is the smallest."""

HIGHEST = 2**53
STEP = 2**30
"""How far beyond the best or the worst a new label lies: room for 30 halvings, and for millions of steps."""


def proof_of(ranking: AudienceRanking) -> Ranking:
    """Return how it is proven that a subscription which covers another also ranks above it, for every publication.

    Else nothing may be hidden. Ranks drawn at random are taken to (that is what the paper evaluates), fixed scores are
    compared, equal ones by id where ties are, and scores that depend on the event prove nothing.
    """
    if ranking.scoring in (Scoring.RELEVANCE, Scoring.DIVERSITY):
        return Ranking.UNPROVABLE
    if ranking.is_by_chance:
        return Ranking.AGNOSTIC
    return Ranking.FIXED if ranking.ties is Ties.BY_ID else Ranking.STRICT


class ForwardSet:
    """The interests that meet one advertisement; `strategy` and the advertisement say which are forwarded, and `group`
    how GroupCover decides."""

    def __init__(self, strategy: Strategy, advertise: Advertise, group: Checking = DEFAULT_CHECKING) -> None:
        self.advertisement = advertise.advertisement
        self._ranking = self.advertisement.ranking
        self._proof = proof_of(self._ranking)
        self._strategy = strategy
        self._group = group
        schema = self.advertisement.schema
        self._schema: Schema | None = schema if schema.attributes or schema.required else None
        self._k = self.advertisement.k
        self._cover = strategy.cover(self._k)
        self._interests: dict[int, Interest] = {}
        self._aside: set[int] = set()
        self._weights: dict[int, float] = {}
        self._forwarded: set[int] = set()
        self._counts = strategy.counts and self._k is not None
        self._hiding: set[int] = set()
        self._new_hiding: list[int] = []
        self._has_lost_some = False
        self._scores: ScoreOrder | None = None
        if self._cover in (Cover.RANK, Cover.ANCESTOR) and self._proof is Ranking.FIXED:
            self._scores = ScoreOrder()
        self._start()

    def _start(self) -> None:
        """Make an empty set of covering, and its numbers."""
        self._owners: dict[SubscriberId, int] = {}
        self._local: dict[int, int] = {}
        self._outer: list[int] = []
        self._own = np.ones(16)
        self._covering: CoverSet | ActiveSet | None = None
        if self._strategy is Strategy.GROUP_COVER:
            self._covering = ActiveSet(self._group, self._schema)
        elif self._cover is not None:
            ranking = Ranking.AGNOSTIC if self._cover is Cover.REGULAR else self._proof
            self._covering = CoverSet(self._cover, self._k or 1, ranking, self._schema)

    def __len__(self) -> int:
        return len(self._interests)

    def __contains__(self, number: int) -> bool:
        return number in self._interests

    @property
    def floods(self) -> bool:
        """Whether events go everywhere, so that nothing has to be forwarded."""
        return self._strategy is Strategy.FLOODING

    @property
    def weighs(self) -> bool:
        """Whether neighbours are told what forwarded interests stand for."""
        return self._strategy is Strategy.ANCESTOR_FAIR_K

    @property
    def forwarded(self) -> Set[int]:
        """The numbers of those that the neighbour must know: a view."""
        return self._forwarded

    def hides(self, number: int) -> bool:
        """Whether a forwarded interest may hide others; only known where matches are counted."""
        return number in self._hiding

    def new_hiding(self) -> list[int]:
        """Return the interests that are noted to hide others since this was last asked."""
        found, self._new_hiding = self._new_hiding, []
        return found

    def forget_hiding(self) -> list[int]:
        """Find out which interests hide nobody any more, and return them."""
        covers = self._covering
        if not isinstance(covers, CoverSet) or not self._has_lost_some:
            return []
        self._has_lost_some = False
        forgotten = sorted(number for number in self._hiding if not covers.hides(self._local[number]))
        self._hiding.difference_update(forgotten)
        return forgotten

    def add(self, number: int, interest: Interest) -> Change:
        """Take an interest in; return what to forward and what to withdraw."""
        change = self._add(number, interest)
        if self._counts:
            self._note_hiding(change, () if number in self._forwarded else (number,))
        return change

    def remove(self, number: int) -> Change:
        """Forget an interest; return what to forward and what to withdraw."""
        change = self._remove(number)
        if self._counts:
            self._has_lost_some = True
            self._note_hiding(change)
        return change

    def _note_hiding(self, change: Change, hidden: tuple[int, ...] = ()) -> None:
        """Note who is above those that are hidden now, and which of the newly forwarded are above hidden ones."""
        covers = self._covering
        if not isinstance(covers, CoverSet):
            return
        hidden += tuple(number for number in change.withdraw if number in self._local)
        above = {local for number in hidden for local in covers.hiding(self._local[number])}
        above |= {local for local in map(self._local.get, change.forward) if local is not None and covers.hides(local)}
        noted = {self._outer[local] for local in above} - self._hiding
        self._hiding |= noted
        self._new_hiding += sorted(noted)

    def _add(self, number: int, interest: Interest) -> Change:
        self._interests[number] = interest
        if self._stands_aside(interest):
            self._aside.add(number)
            self._forwarded.add(number)
            return Change((number,))
        if self._scores is not None and not self._scores.add(self._ranked(number, interest)):
            return self._rebuild()
        return self._apply(self._enter(number, interest))

    def _remove(self, number: int) -> Change:
        interest = self._interests.pop(number)
        self._weights.pop(number, None)
        if number in self._aside or self._covering is None:
            self._aside.remove(number)
            self._forwarded.remove(number)
            return Change((), (number,))
        if self._scores is not None:
            self._scores.remove(self._ranked(number, interest))
        if len(self._outer) > 2 * len(self._interests) + SPARE_NUMBERS:
            return self._rebuild()
        return self._apply(self._covering.remove(self._local.pop(number)))

    def weigh(self, number: int, weight: float) -> None:
        """Take note of how many an interest stands for by itself, if that is not one."""
        self._weights[number] = weight
        if number in self._local:
            self._own[self._local[number]] = weight

    def own_weight(self, number: int) -> float:
        """Return how many an interest stands for by itself."""
        return self._weights.get(number, 1.0)

    def split_weights(self, numbers: Sequence[int]) -> list[float]:
        """Return what forwarded interests weigh: each its own weight, and its share of those hidden below it.

        One pass over the hidden ones each: how many are above each is known.
        """
        own, covers = [self.own_weight(number) for number in numbers], self._covering
        if not isinstance(covers, CoverSet) or self._cover is not Cover.ANCESTOR:
            return own
        at = [place for place, number in enumerate(numbers) if number not in self._aside]
        locals_of = np.array([self._local[numbers[place]] for place in at], np.int64)
        for place, hidden in zip(at, covers.hidden_weights(locals_of, self._own).tolist(), strict=True):
            own[place] += hidden
        return own

    def descendants_weight(self, number: int, source: Callable[[int], object]) -> float:
        """Return the paper's weight: its own, and one for each subscriber below it that its own does not count.

        What a neighbour told counts those below that came from the same neighbour; of own clients (None) nobody does.
        """
        own, covers = self.own_weight(number), self._covering
        if not isinstance(covers, CoverSet) or self._cover is not Cover.ANCESTOR or number in self._aside:
            return own
        counted, below = source(number), [self._outer[at] for at in covers.below(self._local[number]).tolist()]
        others = {self._subscriber(at) for at in below if counted is None or source(at) != counted}
        return own + len(others - {self._subscriber(number)})

    def _subscriber(self, number: int) -> SubscriberId:
        return self._interests[number].key.subscriber

    def _stands_aside(self, interest: Interest) -> bool:
        """Whether covering cannot judge an interest, or is not asked."""
        if self._covering is None or (self._cover in (Cover.RANK, Cover.ANCESTOR) and interest.relevance is not None):
            return True
        if self._schema is None:
            return False
        try:
            interest.filter.under(self._schema)
        except FilterError:
            return True
        return False

    def _enter(self, number: int, interest: Interest) -> Change:
        local = self._local[number] = len(self._outer)
        self._outer.append(number)
        self._own = enlarge(self._own, local + 1, 1.0)
        self._own[local] = self.own_weight(number)
        assert self._covering is not None  # else all stand aside
        if isinstance(self._covering, ActiveSet):
            return self._covering.add(local, interest.filter)
        ranked = self._ranked(number, interest)
        score = -ranked[0] if self._scores is None else self._scores.label(ranked)
        owner = self._owners.setdefault(interest.key.subscriber, len(self._owners))
        return self._covering.add(local, interest.filter, score, owner)

    def _apply(self, change: Change) -> Change:
        """Take over a change of covering; return it in the numbers of the caller."""
        forward = tuple(self._outer[local] for local in change.forward)
        withdraw = tuple(self._outer[local] for local in change.withdraw)
        self._forwarded.update(forward)
        self._forwarded.difference_update(withdraw)
        self._hiding.difference_update(withdraw)
        return Change(forward, withdraw)

    def _rebuild(self) -> Change:
        """Make the set again, with small numbers and wide labels; return what changes against what was forwarded."""
        before = self._forwarded
        held = [(number, interest) for number, interest in self._interests.items() if number not in self._aside]
        if self._scores is not None:
            self._scores = ScoreOrder(self._ranked(number, interest) for number, interest in held)
        self._start()
        self._forwarded = set(self._aside)
        for number, interest in held:
            self._apply(self._enter(number, interest))
        self._hiding &= self._forwarded
        return Change(tuple(sorted(self._forwarded - before)), tuple(sorted(before - self._forwarded)))

    def _ranked(self, number: int, interest: Interest) -> Ranked:
        score = 0.0 if self._ranking.scoring is Scoring.NONE else interest.score
        return -score, tuple(interest.key), number


class ScoreOrder:
    """Labels of scores and keys, all different: whole floats below 2**53; larger is better.

    Covering by fixed scores breaks ties by the numbers that a broker gives, which differ from broker to broker; what is
    hidden must not depend on them where ties are broken by key. So each (score, key) gets a label of its own in the
    same order, halfway between its neighbours' or a long step beyond the last.
    """

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
