"""Top-k covering: what is forwarded equals the definition, after any sequence of subscriptions and removals.

And per hop = global: a chain of brokers sends to the publisher what one broker that has everything would send.
"""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.covering import lines
from rankcast.covering.relation import covers
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import Order, Ranking
from rankcast.language.parser import parse_filter
from rankcast.model.errors import DuplicateIdError, InvalidValueError, UnknownIdError
from rankcast.testing.strategies import filters

RANGES = (
    st.builds(lambda low, width: f"x between {low} and {low + width}", st.integers(0, 6), st.integers(0, 5))
    | st.sampled_from(
        ["x != 3", "x in (1, 4)", "exists x", "true", "s contains 'a'", "s suffix 'ba'", "x > 2 or y = 1"]
    )
    | st.sampled_from(["x in (0, 6)", "x between 0 and 6", "x in (0, 4, 6)"])
)
PLAIN = st.builds(
    lambda low, width, bottom, height: (
        f"x between {low} and {low + width} and y between {bottom} and {bottom + height}"
    ),
    *(st.integers(0, 4) for _ in range(4)),
)


HALF_OPEN = st.builds(
    lambda low, width, bottom: f"x between {low} and {low + width} and y >= {bottom}",
    *(st.integers(0, 4) for _ in range(3)),
) | st.sampled_from(["x < 4", "x > 2", "x between 0 and 4", "y = 1 or x = 2"])


def is_above(upper, lower, ranking):
    """The definition, for pairs (number, filter, score)."""
    if upper[0] == lower[0] or ranking is Ranking.UNPROVABLE or covers(upper[1], lower[1]) is not True:
        return False
    if ranking is Ranking.FIXED:
        return (upper[2], -upper[0]) > (lower[2], -lower[0])
    if ranking is Ranking.STRICT:
        return upper[2] > lower[2]
    return covers(lower[1], upper[1]) is not True or upper[0] < lower[0]


def forwarded(subscriptions, cover, k, ranking):
    """What the definition forwards, from scratch, counting among all subscriptions."""
    above = {one: [other for other in subscriptions if is_above(other, one, ranking)] for one in subscriptions}
    if cover is Cover.REGULAR:
        return {one[0] for one, others in above.items() if not others}
    if cover is Cover.ANCESTOR:
        owners = {one: {owner_of(other) for other in others} for one, others in above.items()}
        return {one[0] for one, others in owners.items() if owner_of(one) not in others and len(others) < k}
    depth = {}  # of those that are forwarded
    for one in sorted(subscriptions, key=lambda one: len(above[one])):
        chain = [other for other in above[one] if other in depth]
        length = 1 + max((depth[other] for other in chain), default=0)
        if length <= k and owner_of(one) not in map(owner_of, chain):
            depth[one] = length
    return {one[0] for one in depth}


def owner_of(one):
    """Whose a subscription is: without an owner its own."""
    return one[0] if len(one) < 4 or one[3] is None else f"owner {one[3]}"


@given(texts=st.lists(PLAIN | RANGES, min_size=1, max_size=8))
def test_labels_that_are_given_anew_at_every_subscription_change_nothing(texts):
    """As a filter with many constants makes them."""
    subscriptions = [(number, parse_filter(text), 0.0) for number, text in enumerate(texts)]
    cover = CoverSet(Cover.ANCESTOR, 2)
    with patch.object(lines, "MANY", 0):
        for number, wanted, _ in subscriptions:
            cover.add(number, wanted)
    assert set(cover.forwarded.tolist()) == forwarded(subscriptions, Cover.ANCESTOR, 2, Ranking.AGNOSTIC)


def test_a_filter_with_very_many_constants_is_related_to_others():
    cover = CoverSet(Cover.REGULAR)
    cover.add(0, parse_filter("x in (5, 40)"))
    cover.add(1, parse_filter(f"x in ({', '.join(map(str, range(0, 20_000, 5)))})"))
    cover.add(2, parse_filter("x = 7"))
    assert cover.forwarded.tolist() == [1, 2]


@given(
    cover=st.sampled_from(Cover),
    k=st.integers(1, 3),
    ranking=st.sampled_from(Ranking),
    texts=st.lists(PLAIN | RANGES, min_size=1, max_size=12),
    data=st.data(),
)
def test_forwarding_deltas_add_up_to_the_definition(cover, k, ranking, texts, data):
    known, upstream, covered = {}, set(), CoverSet(cover, k, ranking)
    for number, text in enumerate(texts):
        if known and data.draw(st.booleans(), label="remove one first"):
            gone = data.draw(st.sampled_from(sorted(known)))
            change = covered.remove(gone)
            del known[gone]
            _apply(change, upstream)
            assert upstream == forwarded(list(known.values()), cover, k, ranking)
        score = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
        owner = data.draw(st.none() | st.integers(0, 2), label="owner")
        known[number] = (number, parse_filter(text), score, owner)
        _apply(covered.add(*known[number]), upstream)
        assert upstream == forwarded(list(known.values()), cover, k, ranking) == set(covered.forwarded.tolist())
        assert upstream.isdisjoint(covered.hidden.tolist())
        assert len(upstream) + len(covered.hidden) == len(covered) == len(known)


def _apply(change, upstream):
    assert upstream.isdisjoint(change.forward)
    assert upstream.issuperset(change.withdraw)
    upstream |= set(change.forward)
    upstream -= set(change.withdraw)


class Chain:
    """Brokers in a row, each with a cover set of its own subscriptions and of what the one before it forwards."""

    def __init__(self, brokers, cover, k, ranking):
        self.sets = [CoverSet(cover, k, ranking) for _ in range(brokers)]
        self.all = CoverSet(cover, k, ranking)
        self.known = {}

    def add(self, broker, number, wanted, score):
        self.known[number] = (broker, wanted, score)
        self.all.add(number, wanted, score)
        self._send(broker, self.sets[broker].add(number, wanted, score))

    def remove(self, number):
        broker, _, _ = self.known.pop(number)
        self.all.remove(number)
        self._send(broker, self.sets[broker].remove(number))

    def _send(self, broker, change):
        """Tell the next broker, which tells the one after it, message by message."""
        if broker + 1 == len(self.sets):
            return
        for number in change.withdraw:
            self._send(broker + 1, self.sets[broker + 1].remove(number))
        for number in change.forward:
            _, wanted, score = self.known[number]
            self._send(broker + 1, self.sets[broker + 1].add(number, wanted, score))

    def check(self):
        assert self.sets[-1].forwarded.tolist() == self.all.forwarded.tolist()


@given(
    cover=st.sampled_from(Cover),
    k=st.integers(1, 3),
    ranking=st.sampled_from([Ranking.AGNOSTIC, Ranking.FIXED]),
    brokers=st.integers(2, 4),
    texts=st.lists(PLAIN | RANGES | HALF_OPEN, min_size=1, max_size=12),
    data=st.data(),
)
def test_a_chain_of_brokers_forwards_what_one_would_while_subscriptions_come_and_go(
    cover, k, ranking, brokers, texts, data
):
    chain = Chain(brokers, cover, k, ranking)
    for number, text in enumerate(texts):
        if chain.known and data.draw(st.booleans(), label="remove one first"):
            chain.remove(data.draw(st.sampled_from(sorted(chain.known))))
            chain.check()
        broker = data.draw(st.integers(0, brokers - 1), label="attached to")
        chain.add(broker, number, parse_filter(text), data.draw(st.sampled_from([0.0, 0.5, 1.0])))
        chain.check()
    for number in sorted(chain.known):
        chain.remove(number)
        chain.check()
    assert [len(one) for one in chain.sets] == [0] * brokers


@given(
    cover=st.sampled_from([Cover.REGULAR, Cover.ANCESTOR]), k=st.integers(1, 3), wanted=st.lists(filters(), max_size=8)
)
@settings(deadline=None)
def test_what_is_hidden_has_k_forwarded_ones_that_cover_it(cover, k, wanted):
    covered = CoverSet(cover, k)
    for number, one in enumerate(wanted):
        covered.add(number, one)
    for number in covered.hidden.tolist():
        proofs = [covers(wanted[other], wanted[number]) for other in covered.forwarded.tolist()]
        assert proofs.count(True) >= covered.k


@given(
    texts=st.lists(PLAIN, max_size=14) | st.lists(PLAIN | RANGES, max_size=10),
    k=st.integers(1, 3),
    ranking=st.sampled_from(list(Ranking)),
    data=st.data(),
)
def test_weights_of_hidden_subscriptions_are_split_evenly_whatever_their_order(texts, k, ranking, data):
    subscriptions = [(number, parse_filter(text), float(number % 3)) for number, text in enumerate(texts)]
    weights = np.array([1 / (3 + number % 4) for number in range(len(texts))])
    covered = CoverSet(Cover.ANCESTOR, k, ranking)
    for one in data.draw(st.permutations(subscriptions)):
        covered.add(*one)
    held = covered.forwarded
    above = {
        hidden: [one for one in held.tolist() if is_above(subscriptions[one], subscriptions[hidden], ranking)]
        for hidden in covered.hidden.tolist()
    }
    for one, found in zip(held.tolist(), covered.hidden_weights(held, weights).tolist(), strict=True):
        assert found == math.fsum(weights[hidden] / len(some) for hidden, some in above.items() if one in some)


def test_labels_that_run_out_are_given_anew_and_nothing_changes():
    covered = CoverSet(Cover.REGULAR)
    covered.add(0, parse_filter("x between 0 and 50"))
    for power in range(1, 121):  # each start lies between 0 and the one before: soon there is no label left
        covered.add(power, parse_filter(f"x between {1 / 2**power!r} and {300 - power}"))
    assert covered.order.boxes.generation > 1
    assert covered.forwarded.tolist() == list(range(121))  # each starts lower and ends lower than the one before
    assert covered.add(121, parse_filter("x between 0.25 and 200")).forward == ()


@pytest.mark.parametrize("cover", Cover)
@pytest.mark.parametrize("halvings", [40, 44])
def test_labels_that_differ_by_one_are_told_apart_in_boxes_without_an_end(cover, halvings):
    """Widths near 2**62 that differ by less than a float can say: the order must not go by rounded widths."""
    covered = CoverSet(cover, 3)
    covered.add(0, parse_filter("x = 0"))
    for power in range(1, halvings + 1):
        covered.add(power, parse_filter(f"x >= {1 / 2**power!r}"))
    left = list(range(1, halvings + 1))
    while left:
        gone = left.pop(len(left) * 2 // 3)
        covered.remove(gone)
        assert covered.forwarded.tolist() == [0, *left[max(0, len(left) - covered.k) :]]


@given(st.permutations(["x in (0, 9)", "x between 0 and 9", "x = 0 or x > 4 and x <= 9", "x in (0, 5, 9)"]))
def test_of_filters_with_the_same_hull_the_filters_themselves_tell_who_is_above(texts):
    order = Order()
    for number, text in enumerate(texts):
        order.add(number, parse_filter(text))
    sorted_texts = [texts[number] for number in order.top_down(np.arange(len(texts))).tolist()]
    assert sorted_texts[0] == "x between 0 and 9"
    assert sorted_texts.index("x = 0 or x > 4 and x <= 9") < sorted_texts.index("x in (0, 5, 9)")
    assert sorted_texts[-1] == "x in (0, 9)"


def test_mistakes_are_named():
    covered = CoverSet(Cover.ANCESTOR, 2)
    covered.add(1, parse_filter("x < 9"))
    with pytest.raises(DuplicateIdError, match="subscription 1 in the covering order already"):
        covered.add(1, parse_filter("x < 9"))
    with pytest.raises(UnknownIdError, match="no subscription 2"):
        covered.remove(2)
    for k in (0, "a", 1.5, True):
        with pytest.raises(InvalidValueError, match=f"k: {k!r} is not a whole number of at least 1"):
            CoverSet(Cover.ANCESTOR, k)
    with pytest.raises(InvalidValueError, match="cover: 'RegularCover' is not a Cover"):
        CoverSet("RegularCover")
    for number in (-1, True, 1.5, "1"):
        with pytest.raises(InvalidValueError, match="is not a whole number of at least 0"):
            CoverSet(Cover.ANCESTOR).add(number, parse_filter("x < 9"))
    with pytest.raises(InvalidValueError, match="score of subscription 2: nan"):
        covered.add(2, parse_filter("x < 8"), math.nan)
    assert len(covered) == 1
