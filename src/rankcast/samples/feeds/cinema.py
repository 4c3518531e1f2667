"""Showings announced by cinemas: films from one catalogue, popular ones again and again.

The catalogue is drawn from the seed: directors with a home genre, lengths and ratings that follow genre and director,
votes that follow age and rating. A showing is announced every two minutes and expires when it begins. `rating` and
`votes` are missing for films that are too new, `mpaa` for films before 1968 and some others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np

from rankcast.model.expressions import Constraint, Expression, Operator, any_of, attr
from rankcast.samples.feeds.common import (
    BLOCK,
    Block,
    BlockDraw,
    Columns,
    Draw,
    Feed,
    Pulse,
    Stream,
    Wish,
    generator,
    picks,
    schema,
    with_gaps,
    zipf,
)

NAME = "movies"

SCHEMA = schema(
    "title:string,year:int,length:int,rating:float,votes:int,mpaa:string,genre:string,director:string,language:string,"
    "colour:bool,cinema:string,showing:time,price:float",
    required="title,year,genre,cinema,showing",
)

# Programmes are announced in office hours.
PULSE = Pulse(gap=120.0, day=((0, 8), (0.3, 11), (0.55, 14), (1, 20)))
CATALOGUE_SIZE = 2_000
NEWEST = 2025


@dataclass(frozen=True, slots=True)
class Genre:
    """A genre: how common it is, its usual length in minutes, its usual rating and its weights over MPAA."""

    name: str
    weight: float
    length: float
    rating: float
    mpaa: tuple[float, ...]


MPAA = ("G", "PG", "PG-13", "R", "NC-17")
GENRES = (
    Genre("drama", 26, 115, 6.9, (2, 12, 36, 49, 1)),
    Genre("comedy", 20, 100, 6.3, (5, 25, 40, 30, 0)),
    Genre("action", 12, 118, 6.2, (0, 6, 54, 40, 0)),
    Genre("thriller", 9, 108, 6.4, (0, 2, 33, 64, 1)),
    Genre("horror", 8, 95, 5.6, (0, 1, 20, 77, 2)),
    Genre("animation", 6, 90, 6.8, (45, 48, 6, 1, 0)),
    Genre("documentary", 6, 92, 7.3, (12, 40, 33, 15, 0)),
    Genre("science fiction", 5, 116, 6.3, (2, 12, 58, 28, 0)),
    Genre("war", 4, 124, 7.0, (0, 10, 38, 52, 0)),
    Genre("western", 2, 108, 6.7, (4, 40, 20, 36, 0)),
    Genre("musical", 2, 112, 6.6, (25, 40, 30, 5, 0)),
)
GENRE_WEIGHTS = [genre.weight for genre in GENRES]
FIRST = ("Agnes", "Bela", "Chiara", "Dario", "Edith", "Fritz", "Greta", "Hiro", "Ida", "Jacques", "Kira", "Lars")
LAST = (
    "Almeida",
    "Brandt",
    "Castel",
    "Dvorak",
    "Egger",
    "Fontaine",
    "Giraldi",
    "Holm",
    "Ito",
    "Jansen",
    "Kovacs",
    "Lund",
)
DIRECTORS = tuple(f"{first} {last}" for last in LAST for first in FIRST)
ADJECTIVES = ("Last", "Silent", "Crimson", "Hidden", "Broken", "Endless", "Golden", "Forgotten", "Burning", "Little")
NOUNS = ("Harbour", "Winter", "Stranger", "Garden", "Letter", "Empire", "Mirror", "Train", "Kingdom", "Night", "Road")
SHAPES = (
    "The {a} {n}",
    "{a} {n}",
    "A {a} {n}",
    "{n} of the {a} {m}",
    "The {n} and the {m}",
    "{n}",
    "Return to the {n}",
)
LANGUAGES = ("English", "French", "Portuguese", "Japanese", "German", "Italian")
CINEMAS = ("Alvorada", "Batalha", "Capitol", "Eldorado", "Filmhaus", "Lumière", "Odeon", "Rex", "Rivoli", "Trindade")


@dataclass(frozen=True, slots=True)
class Film:
    """One film of the catalogue; None is an attribute that is not known."""

    title: str
    year: int
    length: int
    rating: float | None
    votes: int | None
    mpaa: str | None
    genre: str
    director: str
    language: str
    colour: bool | None


FILM_ATTRIBUTES = tuple(field.name for field in fields(Film))


@lru_cache(maxsize=4)  # drawing it takes a tenth of a second, more than some feeds are long
def catalogue(seed: int) -> tuple[Film, ...]:
    """Return the films that a seed's showings are drawn from, the most popular first."""
    draw = Draw(generator(seed, NAME, Stream.CATALOGUE))
    home = [_genre(draw) for _ in DIRECTORS]
    talent = [draw.normal(0, 0.5) for _ in DIRECTORS]
    productivity = zipf(len(DIRECTORS), 0.6).tolist()
    return tuple(_film(draw, home, talent, productivity) for _ in range(CATALOGUE_SIZE))


def _film(draw: Draw, home: list[Genre], talent: list[float], productivity: list[float]) -> Film:
    who = draw.one(range(len(DIRECTORS)), productivity)
    genre = home[who] if draw.chance(0.7) else _genre(draw)
    year = NEWEST - min(100, int(draw.generator.exponential(16)))
    rating = round(min(9.6, max(1.2, draw.normal(genre.rating + talent[who], 0.8))), 1)
    votes = int(draw.generator.lognormal(6.5 + 0.6 * (rating - 6), 1.4)) + 5
    new = year == NEWEST and draw.chance(0.6)
    rated = year >= 1968 and draw.chance(0.85)
    shape, adjective, nouns = draw.one(SHAPES), draw.one(ADJECTIVES), draw.several(NOUNS, 2)
    return Film(
        title=shape.format(a=adjective, n=nouns[0], m=nouns[1]),
        year=year,
        length=max(45, round(draw.normal(genre.length, 14))),
        rating=None if new else rating,
        votes=None if new else votes,
        mpaa=draw.one(MPAA, genre.mpaa) if rated else None,
        genre=genre.name,
        director=DIRECTORS[who],
        language=draw.one(LANGUAGES, (60, 12, 9, 7, 6, 6)),
        colour=None if draw.chance(0.05) else year >= 1955 or draw.chance(0.25),
    )


def _begin(seed: int) -> BlockDraw:
    films = catalogue(seed)
    popularity = zipf(len(films), 0.8)

    def draw(random: np.random.Generator, times: Sequence[datetime], _first: int) -> Block:
        """Draw showings."""
        shown = [films[index] for index in picks(random, popularity).tolist()]
        showings = _showings(random, times)
        columns: Columns = {
            **{name: [getattr(film, name) for film in shown] for name in FILM_ATTRIBUTES},
            "cinema": [CINEMAS[index] for index in picks(random, zipf(len(CINEMAS), 0.7)).tolist()],
            "showing": showings,
            "price": with_gaps(random, (np.rint(random.normal(17, 3.6, BLOCK).clip(6, 32)) / 2).tolist(), 0.08),
        }
        return Block(showings, columns)

    return draw


def _showings(random: np.random.Generator, times: Sequence[datetime]) -> list[datetime]:
    """Return when each film is shown: on one of the next ten evenings, after the day's last announcement."""
    days, slots = random.integers(0, 10, BLOCK).tolist(), random.integers(0, 4, BLOCK).tolist()
    return [
        time.replace(hour=20, minute=30, second=0, microsecond=0) + timedelta(days=day, minutes=45 * slot)
        for time, day, slot in zip(times, days, slots, strict=True)
    ]


def _genre(draw: Draw) -> Genre:
    return draw.one(GENRES, GENRE_WEIGHTS)


def _genre_fan(draw: Draw, _: datetime) -> list[Wish]:
    genre = attr("genre") == _genre(draw).name
    good = round(draw.normal(7.0, 0.4), 1)
    return [
        Wish("acclaimed", genre & (attr("rating") >= good) & (attr("votes") > draw.whole(200, 1_000, 100))),
        Wish("recent", genre & (attr("year") >= NEWEST - draw.whole(2, 8))),
        Wish("short", genre & (attr("length") < draw.whole(85, 105, 5)) & (attr("language") == "English")),
    ][: draw.whole(2, 3)]


def _director_fan(draw: Draw, _: datetime) -> list[Wish]:
    weights = zipf(len(DIRECTORS), 0.6).tolist()
    loved = sorted({draw.one(DIRECTORS, weights) for _ in range(draw.whole(2, 5))})
    family = draw.one(LAST)
    return [
        Wish("favourite", attr("director") == draw.one(loved)),
        Wish("directors", attr("director").is_in(*loved) & (attr("mpaa") != "NC-17")),
        Wish("the family", attr("director").suffix(family) & ~(attr("genre") == "horror")),
    ][: draw.whole(2, 3)]


def _parent(draw: Draw, _: datetime) -> list[Wish]:
    suitable = attr("mpaa").is_in("G", "PG")
    return [
        Wish("cartoons", suitable & (attr("genre") == "animation") & (attr("length") <= draw.whole(85, 110, 5))),
        Wish("family", suitable & attr("genre").is_in("comedy", "musical", "documentary") & (attr("rating") > 6.5)),
        Wish("cheap", suitable & (attr("price") < draw.whole(5, 8)) & ~attr("title").contains("Night")),
    ][: draw.whole(2, 3)]


def _cineaste(draw: Draw, _: datetime) -> list[Wish]:
    decade = draw.whole(1930, 1980, 10)
    house = attr("cinema").is_in(*draw.several(CINEMAS, 3))
    foreign = attr("language").is_in(*draw.several(LANGUAGES[1:], 2))
    return [
        Wish("black and white", Constraint("colour", Operator.EQ, (False,)) & attr("rating").between(7, 10)),
        Wish("decade", attr("year").between(decade, decade + 14)),
        Wish("foreign", foreign & house & ~attr("genre").is_in("action", "horror")),
        Wish("unrated", ~attr("mpaa").exists() & house & (attr("year") > 1990)),
    ][: draw.whole(2, 4)]


def _local(draw: Draw, start: datetime) -> list[Wish]:
    here = attr("cinema") == draw.one(CINEMAS)
    until = start + timedelta(days=draw.whole(2, 14))
    genres: list[Expression] = [attr("genre") == _genre(draw).name for _ in range(2)]
    return [
        Wish("this week", here & any_of(*genres) & (attr("showing") < until)),
        Wish("round the corner", here & any_of(*genres, attr("rating") > 7.8)),
        Wish("premiere", here & ~attr("rating").exists()),
    ]


def _collector(draw: Draw, _: datetime) -> list[Wish]:
    word = draw.one(NOUNS)
    return [
        Wish("titles", attr("title").like(f"The % {word}") | attr("title").like(f"{word} of%")),
        Wish("sequels", attr("title").prefix("Return to") & (attr("votes") <= draw.whole(500, 3_000, 500))),
        Wish("long", (attr("length") >= draw.whole(130, 150, 5)) & (attr("rating") >= 6.5)),
    ]


MOVIES = Feed(
    NAME,
    "showings announced by cinemas, one every two minutes",
    "movie.showing",
    SCHEMA,
    PULSE,
    timedelta(days=3),
    _begin,
    {_genre_fan: 25, _director_fan: 20, _parent: 15, _cineaste: 15, _local: 15, _collector: 10},
)
