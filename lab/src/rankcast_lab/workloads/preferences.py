"""Films and preferential subscriptions as the thesis on PrefSIENA generates them.

Events are films drawn uniformly from a table. A subscriber has some subscriptions with a preference rank uniform in
[0, 1]; each constrains a random number of the attributes year, length, rating, votes, mpaa and genre. Numbers are
compared by >, < or =, whose probabilities follow Zipf's law in this order. There are two generators for the constants:

- uniform: every text is as likely as another; numbers are uniform between the smallest and the largest of the table.
- zipf: the values of an attribute are ordered by popularity and the i-th is drawn with a probability like 1/i.
  Popular values of numbers and genres are those that many films have; for mpaa it is PG, PG-13, R, NC-17.

A film may have several genres: they are one text, and a subscription to a genre asks whether the text contains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rankcast.model.expressions import Expression, all_of, attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.values import Value
from rankcast.samples.feeds.cinema import catalogue
from rankcast.samples.feeds.common import zipf

NUMBERS = ("year", "length", "rating", "votes")
MPAA = ("PG", "PG-13", "R", "NC-17")
"""From the most to the least popular, as the thesis has them."""

CONSTRAINED = (*NUMBERS, "mpaa", "genre")
OPERATORS = (">", "<", "=")
RANK_DIGITS = 2
"""To which ranks are rounded: people state them so, and equal ranks are equal."""

CATALOGUES = 5
"""How many of the generated catalogues of cinemas, of 2,000 films each, make up a table."""

Number: TypeAlias = int | float


class Film(NamedTuple):
    """One film; None is what is not known. `genre` holds all its genres, in the order of the alphabet."""

    title: str
    year: int
    length: int
    rating: float | None
    votes: int | None
    mpaa: str | None
    genre: str | None

    def attributes(self) -> dict[str, Value]:
        """Return what is known, as an event has it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Constants(Enum):
    """How the constants of subscriptions are drawn."""

    UNIFORM = "uniform"
    ZIPF = "zipf"


def generated_films(seed: int) -> list[Film]:
    """Return the films of some generated catalogues, for want of a table."""
    found = (film for number in range(CATALOGUES) for film in catalogue(seed * CATALOGUES + number))
    return [Film(film.title, film.year, film.length, film.rating, film.votes, film.mpaa, film.genre) for film in found]


def film_batch(films: Sequence[Film]) -> pa.RecordBatch:
    """Return films as columns."""
    return pa.RecordBatch.from_pydict({name: [getattr(film, name) for film in films] for name in Film._fields})


@dataclass(frozen=True, slots=True)
class Popularity:
    """What the generators know of a table: per attribute the smallest and the largest number, and popular values."""

    ranges: Mapping[str, tuple[Number, Number]]
    popular: Mapping[str, tuple[Value, ...]]

    @staticmethod
    def of(films: Sequence[Film]) -> Popularity:
        """Look at a table."""
        columns = {name: [value for film in films if (value := getattr(film, name)) is not None] for name in NUMBERS}
        genres = [genre for film in films if film.genre for genre in film.genre.split("/")]
        popular = {name: _by_frequency(values) for name, values in {**columns, "genre": genres}.items()}
        ranges = {name: (min(values), max(values)) for name, values in columns.items()}
        return Popularity(ranges, {**popular, "mpaa": MPAA})


def _by_frequency(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the different values, the most frequent first, equals in their own order."""
    counts = Counter(values)
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))


@dataclass(frozen=True, slots=True)
class SubscriptionGenerator:
    """Draws subscriptions by one of the two ways."""

    popularity: Popularity
    constants: Constants

    def filters(self, count: int, random: np.random.Generator) -> list[Filter]:
        """Return the filters of so many subscriptions, drawn independently."""
        return [Filter.of(self._expression(random)) for _ in range(count)]

    def _expression(self, random: np.random.Generator) -> Expression:
        chosen = random.choice(len(CONSTRAINED), random.integers(1, len(CONSTRAINED) + 1), replace=False)
        return all_of(*(self._constraint(CONSTRAINED[at], random) for at in sorted(chosen.tolist())))

    def _constraint(self, name: str, random: np.random.Generator) -> Expression:
        value = self._constant(name, random)
        if name == "genre":
            return attr(name).contains(str(value))
        if name == "mpaa":
            return attr(name) == value
        operator = OPERATORS[_zipf_place(len(OPERATORS), random)]
        if operator == "=":
            return attr(name) == value
        return attr(name) > value if operator == ">" else attr(name) < value

    def _constant(self, name: str, random: np.random.Generator) -> Value:
        if self.constants is Constants.ZIPF:
            popular = self.popularity.popular[name]
            return popular[_zipf_place(len(popular), random)]
        if name not in self.popularity.ranges:
            values = self.popularity.popular[name]
            return values[int(random.integers(len(values)))]
        low, high = self.popularity.ranges[name]
        number = float(random.uniform(low, high))
        return round(number, 1) if name == "rating" else round(number)


def preferential(name: str, filters: Sequence[Filter], ranks: Iterable[float]) -> Subscriber:
    """Return a subscriber with these filters and the preference ranks that belong to them."""
    pairs = enumerate(zip(filters, ranks, strict=True), start=1)
    owned = (Subscription(SubscriptionId(str(number)), wanted, float(rank)) for number, (wanted, rank) in pairs)
    return Subscriber(SubscriberId(name), tuple(owned))


def _zipf_place(count: int, random: np.random.Generator) -> int:
    bounds = np.cumsum(zipf(count, 1.0))
    return int(np.searchsorted(bounds, random.random() * bounds[-1], side="right"))
