"""Section 2 of the rules, rule 7: neighbouring brokers agree, or both refuse, with the reason."""

import pytest

from broker_bench import TERMS, Bench, flats, sent
from rankcast.overlay.effects import Reason
from rankcast.overlay.messages import Connect, Reset, Session, Synced, Terms
from rankcast.overlay.routing.strategies import Strategy, Weighing


@pytest.mark.parametrize(
    ("others", "difference"),
    [
        (Terms(Strategy.FLOODING, Weighing.SPLIT), "strategy RegularCover here and Flooding there"),
        (Terms(Strategy.REGULAR_COVER, Weighing.DESCENDANTS), "weighing split here and descendants there"),
        (Terms(Strategy.REGULAR_COVER, Weighing.SPLIT, rules=2), "rules 1 here and 2 there"),
    ],
)
def test_a_neighbour_on_other_terms_is_refused_with_the_reason_and_told_nothing_until_it_agrees(others, difference):
    bench = Bench()
    (refused,) = bench.broker.handle(Connect(Session(2, 1), others), "left", bench.now)
    assert (refused.link, refused.reason) == ("left", Reason.DISAGREEMENT)
    assert refused.detail == f"neighbours need the same terms: {difference}"
    assert {link for link, _ in sent(bench.say(flats(), "agency"))} == {"right"}
    told = sent(bench.broker.handle(Connect(Session(2, 2), TERMS), "left", bench.now))
    assert [message for link, message in told if link == "left"] == [Reset(), flats(), Synced()]


def test_brokers_of_two_strategies_refuse_each_other():
    covering, flooding = Bench(), Bench(Strategy.FLOODING)
    for own, other in ((covering, flooding), (flooding, covering)):
        (refused,) = own.broker.handle(Connect(Session(9, 1), other.broker.terms), "left", own.now)
        assert refused.reason is Reason.DISAGREEMENT
