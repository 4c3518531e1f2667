"""What is hidden from a neighbour is what the definition says, whatever has come and gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.covering.relation import covers
from rankcast.covering.topk.order import Ranking
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import FAIRNESS, NO_SCHEMA, Advertisement, AudienceRanking, Scoring, Ties
from rankcast.model.relevance import Closeness, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.model.values import ValueType
from rankcast.overlay.messages import Advertise, Interest
from rankcast.overlay.routing import forward_sets
from rankcast.overlay.routing.forward_sets import ForwardSet, ScoreOrder, proof_of
from rankcast.overlay.routing.strategies import Strategy

EVERYTHING = parse_filter("true")
FILTERS = {(low, high): parse_filter(f"x between {low} and {high}") for low in range(6) for high in range(low, 6)}
COUNTING = (Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K, Strategy.ANCESTOR_FAIR_K)


def advertise(k=None, ranking=FAIRNESS, schema=NO_SCHEMA):
    return Advertise(Advertisement("a", "/a", EVERYTHING, schema, k, ranking))


def interest(name, wanted, score=1.0, relevance=None):
    return Interest(SubscriptionKey(name, "1"), wanted, score, relevance)


@st.composite
def histories(draw):
    """Interests that come, and places of those that go in between."""
    steps = st.tuples(
        st.sampled_from(sorted(FILTERS)),
        st.sampled_from([0.2, 0.7]),
        st.text("abc", min_size=1, max_size=3),
        st.booleans(),
    )
    return draw(st.lists(steps, max_size=25))


def replay(held, history):
    """Give the living interests by number after each step, having checked that changes tell what is forwarded."""
    living, told = {}, set()
    for number, (bounds, score, name, goes) in enumerate(history):
        change = held.add(number, living.setdefault(number, interest(name, FILTERS[bounds], score)))
        changes = [change]
        if goes:
            gone = sorted(living)[len(living) // 2]
            del living[gone]
            changes.append(held.remove(gone))
        for change in changes:
            told = (told | set(change.forward)) - set(change.withdraw)
        assert told == set(held.forwarded)
        assert told <= living.keys()
        yield living


def outranks(ranking, one, other):
    """Whether a numbered interest is above another: for equals of a random order the number decides."""
    (first, above), (second, below) = one, other
    if covers(above.filter, below.filter) is not True:
        return False
    if proof_of(ranking) is Ranking.AGNOSTIC:
        return covers(below.filter, above.filter) is not True or first < second
    scores = [0.0 if ranking.scoring is Scoring.NONE else held.score for held in (above, below)]
    tie = (above.key, first) < (below.key, second) if ranking.ties is Ties.BY_ID else False
    return scores[0] > scores[1] or (scores[0] == scores[1] and tie)


RANKINGS = [
    AudienceRanking(),
    AudienceRanking(Scoring.NONE, Ties.BY_ID),
    AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID),
    AudienceRanking(Scoring.PREFERENCE, Ties.FAIR),
]


@pytest.fixture(params=["roomy", "cramped"])
def room(request, monkeypatch):
    """Sets that are seldom made anew, and such that are all the time."""
    if request.param == "cramped":
        monkeypatch.setattr(forward_sets, "SPARE_NUMBERS", 0)
        monkeypatch.setattr(forward_sets, "HIGHEST", 64)
        monkeypatch.setattr(forward_sets, "STEP", 4)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.scoring.value}-{one.ties.value}")
def test_with_k_hidden_are_those_that_k_others_cover_and_outrank(ranking):
    @given(histories(), st.integers(1, 3))
    def check(history, k):
        held = ForwardSet(Strategy.ANCESTOR_COVER_K, advertise(k, ranking))
        for living in replay(held, history):
            owners = {
                this[0]: {
                    one[1].key.subscriber
                    for one in living.items()
                    if one[0] != this[0] and outranks(ranking, one, this)
                }
                for this in living.items()
            }
            assert set(held.forwarded) == {
                number
                for number, above in owners.items()
                if living[number].key.subscriber not in above and len(above) < k
            }

    check()


@pytest.mark.usefixtures("room")
@given(history=histories(), k=st.integers(1, 3), ranking=st.sampled_from(RANKINGS))
def test_by_chains_hidden_are_those_below_a_chain_of_k(history, k, ranking):
    held = ForwardSet(Strategy.RANK_COVER_K, advertise(k, ranking))
    for living in replay(held, history):
        above = {
            this[0]: [one[0] for one in living.items() if one[0] != this[0] and outranks(ranking, one, this)]
            for this in living.items()
        }
        depths = {}  # of those that are forwarded
        for number in sorted(living, key=lambda number: len(above[number])):
            chain = [other for other in above[number] if other in depths]
            owners = {living[other].key.subscriber for other in chain}
            depth = 1 + max((depths[other] for other in chain), default=0)
            if depth <= k and living[number].key.subscriber not in owners:
                depths[number] = depth
        assert set(held.forwarded) == depths.keys()


@pytest.mark.usefixtures("room")
@given(
    history=histories(), strategy=st.sampled_from([Strategy.REGULAR_COVER, Strategy.EXACT_FAIR, Strategy.GROUP_COVER])
)
def test_without_k_the_forwarded_accept_what_all_accept_and_hide_what_one_covers(history, strategy):
    held = ForwardSet(strategy, advertise())
    for living in replay(held, history):
        for x in range(6):
            wanted = [number for number, one in living.items() if one.filter.accepts({"x": x})]
            assert bool(wanted) == any(number in held.forwarded for number in wanted)
        for number in held.forwarded:
            others = [living[one].filter for one in held.forwarded if one != number]
            assert not any(covers(other, living[number].filter) for other in others)


@given(history=histories())
def test_without_covering_everything_is_forwarded(history):
    for living in replay(held := ForwardSet(Strategy.REGULAR_K, advertise(2)), history):
        assert set(held.forwarded) == living.keys()


@pytest.mark.usefixtures("room")
@given(history=histories(), looks=st.lists(st.booleans(), min_size=25, max_size=25))
def test_who_hides_others_is_known_at_once_and_who_no_longer_does_when_asked(history, looks):
    held = ForwardSet(Strategy.EXACT_FAIR, advertise(2))
    noted = set()
    for living, is_looked_at in zip(replay(held, history), looks, strict=False):
        noted = (noted | set(held.new_hiding())) & held.forwarded
        hidden = [one for one in living.items() if one[0] not in held.forwarded]
        hiding = {
            number
            for number in held.forwarded
            if any(outranks(FAIRNESS, (number, living[number]), below) for below in hidden)
        }
        assert hiding <= {number for number in held.forwarded if held.hides(number)} <= noted
        if is_looked_at:
            noted -= set(held.forget_hiding())
            assert hiding == {number for number in held.forwarded if held.hides(number)} <= noted


@pytest.mark.usefixtures("room")
@given(history=histories(), k=st.integers(1, 3))
def test_split_weights_add_up_to_all_who_are_hidden_each_once(history, k):
    held = ForwardSet(Strategy.ANCESTOR_FAIR_K, advertise(k))
    for living in replay(held, history):
        own = {number: 1.0 + number % 3 for number in living}
        for number, weight in own.items():
            held.weigh(number, weight)
        weights = held.split_weights(sorted(held.forwarded))
        hidden = {one for one in living.items() if one[0] not in held.forwarded}
        new = {
            one[1].key.subscriber
            for one in hidden
            if not any(
                other[1].key.subscriber == one[1].key.subscriber and outranks(FAIRNESS, other, one)
                for other in living.items()
                if other[0] in held.forwarded
            )
        }
        assert sum(weights) == pytest.approx(sum(own.values()) - len(hidden) + len(new))


def test_the_papers_weights_count_a_hidden_one_for_each_above_it():
    held = ForwardSet(Strategy.ANCESTOR_FAIR_K, advertise(2))
    sources = {0: "left", 1: "right", 2: "right", 3: "left"}
    for number, bounds in enumerate([(0, 5), (0, 4), (1, 3), (5, 5)]):
        held.add(number, interest(f"s{number}", FILTERS[bounds]))
    weights = {one: held.descendants_weight(one, sources.__getitem__) for one in held.forwarded}
    assert weights == {0: 3.0, 1: 1.0, 3: 1.0}  # 2 is below 0 and 1, but came together with 1, which counts it already
    own = {one: held.descendants_weight(one, lambda _: None) for one in held.forwarded}
    assert own == {0: 4.0, 1: 2.0, 3: 1.0}


@pytest.mark.parametrize("strategy", COUNTING)
def test_what_a_relevance_function_narrows_is_forwarded_and_hides_nobody(strategy):
    held = ForwardSet(strategy, advertise(1))
    near = Closeness([Target("x", 3)])
    assert held.add(0, interest("near", FILTERS[0, 5], relevance=near)).forward == (0,)
    assert held.add(1, interest("inside", FILTERS[1, 2])).forward == (1,)
    assert held.add(2, interest("near too", FILTERS[1, 1], relevance=near)).forward == (2,)
    assert held.remove(0).withdraw == (0,)


def test_what_does_not_fit_the_schema_is_forwarded_and_hides_nobody():
    schema = Schema({"x": ValueType.INT}, frozenset({"x"}))
    held = ForwardSet(Strategy.REGULAR_COVER, advertise(schema=schema))
    held.add(0, interest("other", parse_filter("other = 1 or x >= 0")))
    assert held.add(1, interest("text", parse_filter("x = 'many'"))).forward == (1,)
    assert held.add(2, interest("plain", parse_filter("x >= 3"))).forward == (2,)
    assert held.add(3, interest("whole", parse_filter("x > 2 and x < 9"))).forward == ()


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 30)), unique=True, max_size=30))
def test_labels_put_better_scores_first_and_of_equals_the_smaller_key(scored):
    ranked = [(-score, (str(key), "1"), 0) for score, key in scored]
    order = ScoreOrder()
    assert all(order.add(one) for one in ranked)
    assert sorted(ranked) == sorted(ranked, key=lambda one: -order.label(one))
    assert sorted(ranked) == sorted(ranked, key=lambda one: -ScoreOrder(ranked).label(one))
