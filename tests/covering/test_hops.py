"""Per hop = global: a chain of brokers sends to the publisher what one broker that has everything would send."""

from hypothesis import given
from hypothesis import strategies as st

from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import Ranking
from rankcast.language.parser import parse_filter

TEXTS = st.builds(
    lambda low, width, bottom: f"x between {low} and {low + width} and y >= {bottom}",
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 2),
) | st.sampled_from(["x < 4", "x > 2", "x in (0, 4)", "x between 0 and 4", "true", "y = 1 or x = 2", "s contains 'a'"])
SCORES = st.sampled_from([0.0, 0.5, 1.0])


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
    texts=st.lists(TEXTS, min_size=1, max_size=12),
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
        chain.add(broker, number, parse_filter(text), data.draw(SCORES))
        chain.check()
    for number in sorted(chain.known):
        chain.remove(number)
        chain.check()
    assert [len(one) for one in chain.sets] == [0] * brokers
