"""Films and subscriptions as the thesis on PrefSIENA generates them, and the table of movies a user may bring."""

import gzip

import numpy as np
import pytest

from rankcast.language.printer import format_filter
from rankcast.matching.naive import matches
from rankcast.model.errors import InvalidFileError
from rankcast.model.events import Event
from rankcast_lab.workloads.preferences import (
    CONSTRAINED,
    MPAA,
    Constants,
    Film,
    Popularity,
    SubscriptionGenerator,
    film_batch,
    generated_films,
    preferential,
)
from rankcast_lab.workloads.preferences_table import NEEDED, read_films

FILMS = [
    Film("One", 1990, 90, 6.0, 10, "PG", "comedy/drama"),
    Film("Two", 2000, 90, 8.0, 500, None, "drama"),
    Film("Three", 2000, 120, None, None, "R", None),
]
HEADER = ",".join((*NEEDED[:6], "budget", *NEEDED[6:]))


@pytest.fixture
def table(tmp_path):
    def write(*lines, name="movies.csv", pack=False):
        path = tmp_path / name
        text = "\n".join((HEADER, *lines)).encode()
        path.write_bytes(gzip.compress(text) if pack else text)
        return path

    return write


def drawn(constants, count=400, films=FILMS):
    return SubscriptionGenerator(Popularity.of(films), constants).filters(count, np.random.default_rng(1))


def test_an_event_has_what_is_known_of_a_film():
    assert FILMS[2].attributes() == {"title": "Three", "year": 2000, "length": 120, "mpaa": "R"}
    assert film_batch(FILMS).column("genre").to_pylist() == ["comedy/drama", "drama", None]


def test_popular_values_are_those_that_many_films_have():
    popularity = Popularity.of(FILMS)
    assert popularity.popular["year"] == (2000, 1990)
    assert popularity.popular["genre"] == ("drama", "comedy")
    assert popularity.popular["mpaa"] == MPAA
    assert popularity.ranges["votes"] == (10, 500)


@pytest.mark.parametrize("constants", Constants)
def test_a_subscription_constrains_one_to_six_attributes(constants):
    names = [sorted(name for name, _ in wanted.conjunctions[0]) for wanted in drawn(constants) if wanted.conjunctions]
    assert {len(one) for one in names} == {1, 2, 3, 4, 5, 6}
    assert set().union(*names) == set(CONSTRAINED)


def test_operators_follow_zipfs_law_in_the_order_greater_less_equal():
    texts = " and ".join(format_filter(wanted) for wanted in drawn(Constants.UNIFORM, 2_000))
    shares = [texts.count(f"length {operator} ") for operator in (">", "<", "=")]
    assert [share / sum(shares) for share in shares] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.05)


def test_uniform_constants_are_uniform_and_those_of_zipf_prefer_the_popular():
    films = generated_films(1)[:3000]

    def ratings(constants):
        texts = [format_filter(wanted) for wanted in drawn(constants, 1_500, films)]
        return [sum(f"mpaa = '{name}'" in text for text in texts) for name in MPAA]

    even, skewed = ratings(Constants.UNIFORM), ratings(Constants.ZIPF)
    assert max(even) < 1.4 * min(even)
    assert skewed == sorted(skewed, reverse=True)
    assert skewed[0] > 3 * skewed[3]


def test_a_subscription_to_a_genre_finds_films_of_several_genres():
    comedies = [wanted for wanted in drawn(Constants.UNIFORM) if format_filter(wanted) == "genre contains 'comedy'"]
    fan = preferential("fan", comedies[:1], [0.7])
    events = [Event(film.title, "films", "film", data=film.attributes()) for film in FILMS]
    assert [matches(fan.subscriptions[0], event) for event in events] == [True, False, False]
    assert fan.subscriptions[0].rank == 0.7


@pytest.mark.parametrize("pack", [False, True])
def test_a_table_is_read_packed_or_not(table, pack):
    path = table("One,1990,90,6.0,10,PG,5000,0,0,1,0,1,0,0", '"A, B",2000,90,,NA,,,0,0,0,0,0,0,0', pack=pack)
    assert read_films(path) == [FILMS[0], Film("A, B", 2000, 90, None, None, None, None)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("One,MCMXC,90,6.0,10,PG,,0,0,1,0,0,0,0", r"movies\.csv:2: year: 'MCMXC' is not a number"),
        ("One,1990", r"movies\.csv:2: 2 cells; expected 14"),
    ],
)
def test_a_bad_line_is_named(table, line, message):
    with pytest.raises(InvalidFileError, match=message):
        read_films(table(line))


def test_another_file_is_refused(tmp_path, table):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    for path, message in (
        (other, "the header has no column title"),
        (table(), "has no films"),
        (tmp_path / "nowhere.csv", "cannot be read"),
    ):
        with pytest.raises(InvalidFileError, match=message):
            read_films(path)


def test_the_same_seed_gives_the_same_films_and_subscriptions():
    assert generated_films(2) == generated_films(2) != generated_films(3)
    assert drawn(Constants.ZIPF, 20) == drawn(Constants.ZIPF, 20)
