"""The worked examples of preference-aware delivery with diversity: Figures 2.2 to 3.4, 4.1 and 5.1 to 5.3, Table 4.1.

Where only the text of a figure says what is in it, times and ranks are some for which all it says holds.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from msgspec import structs

import rankcast as rc
from rankcast.covering.topk.poset import Poset
from rankcast.overlay.broker_choice import best_broker, fit
from rankcast.ranking.diversity import diverse_best, list_diversity, most_diverse
from rankcast.testing.conformance import Case, check
from rule_builders import deliveries, holds

BIG_FISH = {
    "title": "Big Fish",
    "director": "T. Burton",
    "release_date": datetime(2004, 2, 13, tzinfo=UTC),
    "genre": "drama",
    "oscars": 0,
}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("director = 'T. Burton' and release_date > time '2003-01-01'", True),
        ("director = 'T. Burton' and release_date > time '2004-02-13'", False),
        ("director = 'T. Burton' and oscars > 0", False),
        ("director = 'T. Burton' and length > 0", False),
        ("director suffix 'Burton' and title contains 'Fish' and title prefix 'Big'", True),
    ],
)
def test_figure_2_2_an_event_and_a_subscription_that_covers_it(text, answer):
    assert holds(text, **BIG_FISH) is answer


def got_ranks(hub, **attributes):
    return [note.rank for note in hub.publish(attributes)]


def test_figure_2_3_preferences_by_numbers():
    hub = rc.Hub()
    drama = {"director = 'T. Burton' and genre = 'drama'": 0.8, "director = 'S. Spielberg' and genre = 'drama'": 0.6}
    hub.subscribe("ana", drama)
    assert got_ranks(hub, **BIG_FISH) == [0.8]
    assert got_ranks(hub, director="S. Spielberg", genre="drama") == [0.6]
    assert got_ranks(hub, director="S. Spielberg", genre="horror") == []


def test_figures_2_4_and_2_5_preferences_by_priorities_get_one_over_their_level():
    hub = rc.Hub()
    order = ["1 before 2", "1 before 3", "2 before 4", "3 before 4"]
    hub.subscribe("ana", [f"x = {at}" for at in range(5)], priorities=order)
    assert [got_ranks(hub, x=at) for at in range(5)] == [[1], [1 / 2], [1 / 2], [1 / 3], [1]]


@pytest.mark.parametrize(("most_specific", "rank"), [(False, 0.9), (True, 0.8)])
def test_section_2_3_the_more_specific_of_two_preferences_may_take_the_place_of_the_other(most_specific, rank):
    hub = rc.Hub()
    hub.subscribe(
        "ana",
        {"genre = 'drama'": 0.9, "genre = 'drama' and director = 'T. Burton'": 0.8},
        most_specific=most_specific,
    )
    assert got_ranks(hub, **BIG_FISH) == [rank]


DAY = datetime(2009, 7, 7, tzinfo=UTC)  # a day on which 140 minutes, counted from 1970, end at 20:00 and 22:20


def clock(text):
    hours, minutes = map(int, text.split(":"))
    return DAY + timedelta(hours=hours, minutes=minutes)


def john(policy, **settings):
    """John, who wants films by the text of their ranks."""
    ranks = (0.9, 0.8, 0.7, 0.6, 0.5)
    owned = (rc.Subscription(f"{rank}", rc.parse_filter(f"genre = '{rank}'"), rank) for rank in ranks)
    return rc.Subscriber("john", tuple(owned), policy, **settings)


def films(*rows, expire):
    """Events e1, e2, ...: (time, rank, showing)."""
    return [
        rc.Event(f"e{number}", "/s", time=clock(time), expires=clock(showing) if expire else None, data={"genre": rank})
        for number, (time, rank, showing) in enumerate(rows, start=1)
    ]


EVENING = (
    ("20:00", "0.9", "22:10"),
    ("20:10", "0.8", "22:00"),
    ("20:40", "0.9", "23:30"),
    ("21:30", "0.7", "23:10"),
    ("21:50", "0.6", "23:20"),
    ("22:40", "0.6", "23:00"),
)


@pytest.mark.parametrize(
    ("expire", "delivered", "listed"),
    [
        pytest.param(False, ["e1", "e2", "e3"], {"e3", "e1"}, id="figure 3.1, nothing expires"),
        pytest.param(True, ["e1", "e2", "e3", "e6"], {"e3", "e6"}, id="figure 3.2, until the film begins"),
    ],
)
def test_figures_3_1_and_3_2_the_top_2_as_they_come_and_at_22_55(engine, expire, delivered, listed):
    events, who = tuple(films(*EVENING, expire=expire)), john(rc.Continuous(2))
    assert [one.event.id for one in deliveries(engine, who, *events)] == delivered
    last = rc.Event("unwanted", "/s", time=clock("22:55"))
    case = Case((structs.replace(who, notify=rc.OnDemand()),), (*events, last), reads=(clock("22:55"),))
    check(engine, case)
    assert {one.event.id for one in engine.deliveries(case)} == listed


@pytest.mark.parametrize(
    ("minutes", "end", "delivered"), [(30, "20:30", ["e1", "e2"]), (140, "22:20", ["e3", "e4"])], ids=str
)
def test_section_3_2_the_top_2_depend_on_the_length_of_the_period(engine, minutes, end, delivered):
    who = john(rc.Periodic(2, timedelta(minutes=minutes)))
    found = deliveries(engine, who, *films(*EVENING, expire=True))
    assert [one.event.id for one in found if one.time == clock(end)] == delivered


HOUR = (
    ("20:05", "0.9", ""),
    ("20:15", "0.6", ""),
    ("20:25", "0.8", ""),
    ("20:35", "0.5", ""),
    ("20:45", "0.7", ""),
    ("20:55", "0.7", ""),
)


def test_figure_3_3_the_best_of_every_half_hour(engine):
    """e3 is better than e6 and not delivered; e5 is as good as e6, and older."""
    found = deliveries(engine, john(rc.Periodic(1, timedelta(minutes=30))), *films(*HOUR, expire=False))
    assert [(one.time, one.event.id) for one in found] == [(clock("20:30"), "e1"), (clock("21:00"), "e6")]


def test_figure_3_4_the_best_of_every_three(engine):
    """The paper's first window is the first full one; partial windows are evaluated here, so e1 comes at once."""
    found = deliveries(engine, john(rc.Sliding(1, 3)), *films(*HOUR, expire=False))
    assert [(one.time, one.event.id) for one in found] == [
        (clock("20:05"), "e1"),
        (clock("20:35"), "e3"),
        (clock("20:55"), "e6"),
    ]


def test_section_4_2_the_second_window_delivers_two_events(engine):
    """e1 to e4, after one more film: partial windows are evaluated here, and it keeps e2 back until then."""
    rows = [
        ("Spielberg", "drama", 0.8),
        ("Burton", "horror", 0.9),
        ("Hitchcock", "horror", 0.85),
        ("Spielberg", "drama", 0.8),
        ("Tarantino", "drama", 0.9),
    ]
    attributes = {"director": 1, "genre": 1}
    owned = [rc.Subscription(f"{rank}", rc.parse_filter(f"rank = {rank}"), rank) for rank in (0.8, 0.85, 0.9)]
    who = rc.Subscriber("ana", tuple(owned), rc.Sliding(2, 3, rc.Diversity(weights=attributes)))
    events = [
        rc.Event(f"e{at}", "/s", time=DAY + timedelta(hours=at), data={"director": name, "genre": genre, "rank": rank})
        for at, (name, genre, rank) in enumerate(rows)
    ]
    rounds = {}
    for one in deliveries(engine, who, *events):
        rounds.setdefault(one.time.hour, set()).add(one.event.id)
    assert rounds == {0: {"e0"}, 1: {"e1"}, 3: {"e3"}, 4: {"e4", "e2"}}


GENRES = ("comedy", "drama", "drama", "drama", "horror", "sci-fi")
RANKS = (0.9, 0.75, 0.75, 0.75, 0.65, 0.6)
TRACE = (
    {1: 0.875, 2: 0.875, 3: 0.875, 4: 0.825, 5: 0.8},
    {2: 0.625, 3: 0.625, 4: 0.825, 5: 0.8},
    {2: 0.708, 3: 0.708, 5: 0.8},
)


def unlike(genre, other):
    return rc.Diversity().distance({"genre": genre}, {"genre": other})


def test_figure_4_1_the_trace():
    """The figure heads its columns with distances; the numbers are divranks. Of equals the older is taken."""
    selected = diverse_best(GENRES, RANKS, 4, 0.5, unlike)
    assert selected == [0, 1, 4, 5]
    for count, published in enumerate(TRACE, start=1):
        before = selected[:count]
        divranks = {
            at: 0.5 * RANKS[at] + 0.5 * sum(unlike(GENRES[at], GENRES[one]) for one in before) / count
            for at in range(6)
            if at not in before
        }
        assert divranks == pytest.approx(published, abs=0.0005)
        assert selected[count] == min(at for at, divrank in divranks.items() if divrank == max(divranks.values()))


def test_figure_4_1_what_is_delivered(engine):
    ranked = sorted(set(zip(GENRES, RANKS, strict=True)))
    owned = (rc.Subscription(genre, rc.parse_filter(f"genre = '{genre}'"), rank) for genre, rank in ranked)
    period = rc.Periodic(4, timedelta(hours=1), rc.Diversity(0.5, {"genre": 1}))
    who = rc.Subscriber("ana", tuple(owned), period)
    events = [
        rc.Event(f"e{at}", "/s", time=DAY + timedelta(minutes=at), data={"genre": genre})
        for at, genre in enumerate(GENRES, start=1)
    ]
    assert {one.event.id for one in deliveries(engine, who, *events)} == {"e1", "e2", "e5", "e6"}


@pytest.mark.parametrize(
    ("q", "k", "published"),
    [
        (20, 2, (35.76, 71.88, 90.45)),
        (20, 4, (193.23, 330.69, 349.27)),
        (20, 8, (938.72, 1302.50)),
        (40, 2, (34.14, 74.86, 95.86)),
        (40, 4, (200.35, 353.78)),
        (40, 8, (944.63, 1427.09)),
    ],
)
def test_table_4_1_prints_the_sum_over_pairs_and_not_the_mean(q, k, published):
    """Random, greedy and best choices of k in q numbers up to 100; the best where trying all is quick."""

    def apart(number, other):
        return abs(number - other)

    generator = np.random.default_rng(2)
    pairs = k * (k - 1) / 2
    means = [[] for _ in published]
    for number in range(300):
        values = generator.uniform(0, 100, q).tolist()
        chosen = [
            generator.choice(values, k, replace=False).tolist(),
            [values[at] for at in diverse_best(values, [0.0] * q, k, 0.0, apart)],
        ]
        if len(published) > 2 and number < 20:
            chosen.append(most_diverse(values, k, apart))
        for mean, selected in zip(means, chosen, strict=False):
            mean.append(list_diversity(selected, apart))
    for mean, printed in zip(means, published, strict=True):
        assert pairs * np.mean(mean) == pytest.approx(printed, rel=0.08)
        assert np.mean(mean) < 100


FIGURE_5_1 = {
    "cinema = 'ster'": (0.5, None),
    "genre = 'drama' and starts > 2100": (0.7, None),
    "genre = 'comedy'": (0.7, None),
    "cinema = 'ster' and starts < 2000": (0.4, None),
    "cinema = 'ster' and genre = 'drama' and starts > 2100": (0.9, 0.6),
    "cinema = 'odeon' and genre = 'drama' and starts > 2100": (0.3, 0.9),
    "genre = 'comedy' and starts > 2300": (None, 0.8),
    "cinema = 'ster' and genre = 'drama' and starts > 2300": (None, 0.8),
}


def figure_5_2():
    poset = Poset()
    for text, ranks in FIGURE_5_1.items():
        for name, rank in zip(("john", "anna"), ranks, strict=True):
            if rank is not None:
                poset.add(name, rc.parse_filter(text), rank)
    return poset


def test_figure_5_2_the_graph_of_what_john_and_anna_want():
    poset, texts = figure_5_2(), list(FIGURE_5_1)
    nodes = [poset.find(rc.parse_filter(text)) for text in texts]
    children = {at: {nodes.index(child) for child in poset.children(node)} for at, node in enumerate(nodes)}
    assert children == {0: {3, 4}, 1: {4, 5}, 2: {6}, 4: {7}} | {leaf: set() for leaf in (3, 5, 6, 7)}
    assert {nodes.index(node) for node in poset.roots} == {0, 1, 2}
    for node, ranks in zip(nodes, FIGURE_5_1.values(), strict=True):
        stated = zip(("john", "anna"), ranks, strict=True)
        assert poset.members(node) == {name: rank for name, rank in stated if rank is not None}


def test_figure_5_2_what_lies_below_a_subscription_that_does_not_cover_an_event_is_not_looked_at():
    assert figure_5_2().walk({"cinema": "odeon", "genre": "comedy", "starts": 2200}).visited == 4  # three roots and one


@pytest.mark.parametrize(
    ("film", "ranks"),
    [
        (("ster", "drama", 2330), {"john": 0.9, "anna": 0.8}),
        (("ster", "drama", 2130), {"john": 0.9, "anna": 0.6}),
        (("odeon", "drama", 2130), {"john": 0.7, "anna": 0.9}),
        (("ster", "horror", 1900), {"john": 0.5}),
        (("odeon", "comedy", 2330), {"john": 0.7, "anna": 0.8}),
        (("odeon", "comedy", 2300), {"john": 0.7}),
    ],
)
def test_figure_5_1_the_rank_of_an_event_is_that_of_the_best_subscription(film, ranks):
    hub = rc.Hub()
    for at, name in enumerate(("john", "anna")):
        hub.subscribe(name, {text: stated[at] for text, stated in FIGURE_5_1.items() if stated[at] is not None})
    attributes = dict(zip(("cinema", "genre", "starts"), film, strict=True))
    assert {note.subscriber: note.rank for note in hub.publish(attributes)} == ranks


def test_figure_5_3_a_newcomer_joins_the_server_where_it_adds_no_root():
    servers = {"B": Poset(), "A": Poset()}
    servers["A"].add("x1", rc.parse_filter("genre = 'comedy'"), 0.9)
    servers["A"].add("x1", rc.parse_filter("genre = 'drama' and length > 100"), 0.6)
    servers["B"].add("x2", rc.parse_filter("genre = 'horror'"), 0.8)
    newcomer = [rc.parse_filter("genre = 'comedy' and length > 120")]
    assert [fit(servers[name], newcomer).new_roots for name in "AB"] == [0, 1]
    assert best_broker(servers, newcomer) == "A"
