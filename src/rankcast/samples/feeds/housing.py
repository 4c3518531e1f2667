"""Flats to let in a dozen Iberian cities: rent follows city, district, size and furniture.

An advert comes every ten minutes of the day. A third is let by its owner and has no `agency`; about half expire, most
of them within a month and bargains sooner. `floor`, `pets`, `furnished`, `size_m2` and `description` are
missing in some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from rankcast.model.expressions import Constraint, Expression, Operator, any_of, attr
from rankcast.samples.feeds.common import (
    BLOCK,
    Block,
    BlockDraw,
    Columns,
    Draw,
    Feed,
    Floats,
    Pulse,
    Wish,
    picks,
    schema,
    with_gaps,
)

SCHEMA = schema(
    "city:string,district:string,rent:int,rooms:int,size_m2:float,floor:int,furnished:bool,pets:bool,agency:string,"
    "reference:string,available:time,posted:time,description:string",
    required="city,rent,rooms,reference",
)

# Adverts every ten minutes: few at night, most between ten in the morning and ten at night.
PULSE = Pulse(gap=600.0, day=((0, 0), (0.02, 6), (0.2, 10), (0.7, 18), (0.95, 22), (1, 24)))


@dataclass(frozen=True, slots=True)
class City:
    """A city: how many adverts it has, euro per square metre, and its districts from dear to cheap."""

    name: str
    code: str
    weight: float
    price: float
    districts: tuple[str, ...]


CITIES = (
    City("Lisboa", "PT-LIS", 20, 18.5, ("Chiado", "Alfama", "Estrela", "Arroios", "Marvila", "Benfica")),
    City("Porto", "PT-OPO", 16, 14.5, ("Foz", "Ribeira", "Cedofeita", "Bonfim", "Paranhos", "Campanhã")),
    City("Madrid", "ES-MAD", 18, 17.5, ("Salamanca", "Retiro", "Lavapiés", "Tetuán", "Usera", "Vallecas")),
    City("Barcelona", "ES-BCN", 15, 19.0, ("Eixample", "Gràcia", "Poblenou", "Sants", "Horta", "Nou Barris")),
    City("Valencia", "ES-VLC", 8, 12.5, ("Ciutat Vella", "Ruzafa", "Benimaclet", "Patraix")),
    City("Sevilla", "ES-SVQ", 6, 11.5, ("Santa Cruz", "Triana", "Nervión", "Macarena")),
    City("Bilbao", "ES-BIO", 4, 13.5, ("Abando", "Deusto", "Indautxu", "Rekalde")),
    City("Braga", "PT-BRG", 4, 9.5, ("Centro", "Maximinos", "Gualtar", "Nogueira")),
    City("Coimbra", "PT-CBR", 4, 9.0, ("Baixa", "Celas", "Solum", "Eiras")),
    City("Málaga", "ES-AGP", 5, 13.0, ("Malagueta", "Soho", "Teatinos", "Carretera de Cádiz")),
    City("Aveiro", "PT-AVE", 2, 10.0, ("Beira-Mar", "Glória", "Esgueira")),
    City("Vigo", "ES-VGO", 2, 9.5, ("Bouzas", "Casco Vello", "Teis")),
)
CITY_WEIGHTS = [city.weight for city in CITIES]
AGENCIES = ("Casa Nova", "Habitat Sul", "Lar & Mar", "Meridiano", "Sol Homes", "Terra Firme", "Vila Homes")
LOOKS = ("Sunny", "Quiet", "Bright", "Renovated", "Cosy", "Spacious", "Charming", "Modern", "Top-floor", "Old-town")
PLACES = ("near the metro", "by the river", "close to the university", "next to the park", "in a side street")
FEATURES = ("balcony", "lift", "garden", "garage", "terrace", "fibre internet", "river view", "air conditioning")
CLOSINGS = ("No agents.", "Long lease preferred.", "Students welcome.", "Ready to move in.", "Ask for a visit.", "")

FURNISHED = Constraint("furnished", Operator.EQ, (True,))
PETS = Constraint("pets", Operator.EQ, (True,))


@dataclass(frozen=True, slots=True)
class Homes:
    """What hangs together in the flats of one block."""

    districts: list[str]
    sizes: Floats
    rooms: list[int]
    furnished: list[bool]
    rents: list[int]


def _begin(_seed: int) -> BlockDraw:
    return _block


def _block(random: np.random.Generator, times: Sequence[datetime], first: int) -> Block:
    """Draw adverts."""
    cities = [CITIES[index] for index in picks(random, CITY_WEIGHTS).tolist()]
    homes = _homes(random, cities)
    columns = {**_columns(random, cities, homes, first), **_times(random, times)}
    return Block(_expiries(random, times, cities, homes), columns)


def _homes(random: np.random.Generator, cities: Sequence[City]) -> Homes:
    prices = np.array([city.price for city in cities])
    many = np.array([len(city.districts) for city in cities])
    places = (random.random(BLOCK) * many).astype(np.int64)
    # From the dearest district to the cheapest, the price falls from 1.35 to 0.75 of the city's.
    factors = 1.35 - 0.6 * places / (many - 1)
    sizes = np.clip(random.lognormal(np.log(68), 0.42, BLOCK), 14, 320).round(1)
    rooms = np.clip(np.rint(sizes / 27 + random.normal(0, 0.5, BLOCK)), 1, 7).astype(np.int64)
    furnished = random.random(BLOCK) < 0.42
    rents = prices * factors * _worth(sizes) * np.where(furnished, 1.12, 1.0) * random.lognormal(0, 0.12, BLOCK)
    return Homes(
        [city.districts[place] for city, place in zip(cities, places.tolist(), strict=True)],
        sizes,
        rooms.tolist(),
        furnished.tolist(),
        (np.rint(rents / 5).astype(np.int64) * 5).tolist(),
    )


def _worth(sizes: Floats) -> Floats:
    """Return the square metres that count for the rent: those of small flats cost more."""
    worth: Floats = sizes * (68 / sizes) ** 0.25
    return worth


def _columns(random: np.random.Generator, cities: Sequence[City], homes: Homes, first: int) -> Columns:
    agencies = [AGENCIES[index] for index in random.integers(0, len(AGENCIES), BLOCK).tolist()]
    words = random.integers(0, 2**20, (BLOCK, 4)).tolist()
    return {
        "city": [city.name for city in cities],
        "district": with_gaps(random, homes.districts, 0.05),
        "rent": homes.rents,
        "rooms": homes.rooms,
        "size_m2": with_gaps(random, homes.sizes.tolist(), 0.04),
        "floor": with_gaps(random, np.minimum(random.geometric(0.3, BLOCK) - 1, 18).tolist(), 0.1),
        "furnished": with_gaps(random, homes.furnished, 0.06),
        "pets": with_gaps(random, (random.random(BLOCK) < 0.35).tolist(), 0.25),
        "agency": with_gaps(random, agencies, 0.35),
        "reference": [f"{city.code}-{number:06d}" for number, city in enumerate(cities, start=first)],
        "description": with_gaps(random, [_description(*pair) for pair in zip(homes.rooms, words, strict=True)], 0.05),
    }


def _times(random: np.random.Generator, times: Sequence[datetime]) -> Columns:
    """Return when each flat is free, at midnight, and when its advert was written, some minutes before it came out."""
    free = [time.replace(hour=0, minute=0, second=0, microsecond=0) for time in times]
    days, ages = random.integers(0, 90, BLOCK).tolist(), random.integers(5, 900, BLOCK).tolist()
    available = [time + timedelta(days=wait) for time, wait in zip(free, days, strict=True)]
    posted = [time - timedelta(seconds=age) for time, age in zip(times, ages, strict=True)]
    return {"available": with_gaps(random, available, 0.3), "posted": posted}


def _expiries(
    random: np.random.Generator, times: Sequence[datetime], cities: Sequence[City], homes: Homes
) -> list[datetime | None]:
    """Return when each advert goes: after two weeks on average, sooner for a bargain, never for some."""
    usual = np.array([city.price for city in cities]) * _worth(homes.sizes)
    days = np.clip(random.exponential(14, BLOCK) * (homes.rents / usual) ** 2, 0.5, 45)
    ends = [time + timedelta(minutes=round(wait * 1_440)) for time, wait in zip(times, days.tolist(), strict=True)]
    return with_gaps(random, ends, 0.45)


def _description(rooms: int, words: Sequence[int]) -> str:
    look, place, feature, closing = words
    first, second = feature % len(FEATURES), (feature // 8 + feature + 1) % len(FEATURES)
    extras = FEATURES[first] if first == second else f"{FEATURES[first]}, {FEATURES[second]}"
    kind = "studio" if rooms == 1 else f"{rooms}-room flat"
    return f"{LOOKS[look % 10]} {kind} {PLACES[place % 5]}, {extras}. {CLOSINGS[closing % 6]}".rstrip()


def _city(draw: Draw) -> City:
    return draw.one(CITIES, CITY_WEIGHTS)


def _rent(city: City, size: float) -> int:
    """Return a round rent that a flat of this size has in a city."""
    return max(100, round(city.price * float(_worth(np.array(size))) / 50) * 50)


def _in(city: City) -> Expression:
    return attr("city") == city.name


def _student(draw: Draw, _: datetime) -> list[Wish]:
    city = _city(draw)
    most = _rent(city, draw.whole(40, 65))
    found = [
        Wish("near campus", _in(city) & attr("description").contains("university") & (attr("rent") <= most)),
        Wish("cheap", _in(city) & (attr("rent") < most) & FURNISHED),
        Wish("shared", _in(city) & (attr("rooms") >= 3) & (attr("rent") <= 2 * most)),
    ]
    return found[: draw.whole(2, 3)]


def _couple(draw: Draw, _: datetime) -> list[Wish]:
    city = _city(draw)
    low, high = _rent(city, draw.whole(35, 50)), _rent(city, draw.whole(75, 120))
    nice = draw.several(city.districts, 2)
    wanted = _in(city) & attr("rent").between(low, high)
    return [
        Wish("dream", wanted & attr("district").is_in(*nice) & attr("description").contains(draw.one(FEATURES))),
        Wish("district", wanted & attr("district").is_in(*nice)),
        Wish("fallback", wanted & (attr("rooms") >= 2) & ~attr("description").like("%side street%")),
    ][: draw.whole(2, 3)]


def _family(draw: Draw, _: datetime) -> list[Wish]:
    city = _city(draw)
    most = _rent(city, draw.whole(110, 170))
    rooms, size = draw.whole(2, 4), draw.whole(75, 110, 5)
    home = _in(city) & (attr("rooms") >= rooms) & (attr("rent") <= most)
    green = any_of(attr("description").contains("garden"), attr("description").contains("park"))
    return [
        Wish("green", home & green),
        Wish("large", home & (attr("size_m2") > size)),
        Wish("low floor", home & (attr("floor") <= 2) & (attr("district") != city.districts[-1])),
        Wish("any home", home),
    ][: draw.whole(2, 4)]


def _pet_owner(draw: Draw, _: datetime) -> list[Wish]:
    city = _city(draw)
    most = _rent(city, draw.whole(70, 120))
    pets = _in(city) & PETS & (attr("rent") <= most)
    unknown = _in(city) & ~attr("pets").exists() & (attr("rent") <= most * 4 // 5)
    return [
        Wish("garden", pets & attr("description").like("%garden%")),
        Wish("pets allowed", pets),
        Wish("ask", unknown),
    ]


def _newcomer(draw: Draw, start: datetime) -> list[Wish]:
    city = _city(draw)
    others = draw.several([other.name for other in CITIES if other is not city], 2)
    soon = start + timedelta(days=draw.whole(14, 60))
    most = _rent(city, draw.whole(60, 100))
    ready = FURNISHED & (attr("rent") <= most)
    return [
        Wish("first choice", _in(city) & ready & (attr("available") <= soon)),
        Wish("furnished", _in(city) & ready),
        Wish("elsewhere", attr("city").is_in(*others) & ready & (attr("rent") >= most // 2)),
    ]


def _bargain_hunter(draw: Draw, _: datetime) -> list[Wish]:
    city = _city(draw)
    country = city.code[:3]
    cheap = attr("rent") < _rent(city, draw.whole(45, 65))
    return [
        Wish("steal", attr("reference").prefix(city.code) & cheap & (attr("size_m2") >= 45)),
        Wish("owner only", _in(city) & ~attr("agency").exists() & (attr("rent") < _rent(city, draw.whole(60, 100)))),
        Wish("same agent", attr("reference").prefix(country) & attr("agency").suffix("Homes") & cheap),
        Wish("no offices", _in(city) & cheap & ~attr("agency").is_in(*draw.several(AGENCIES, 3))),
    ][: draw.whole(2, 4)]


FLATS = Feed(
    "flats",
    "flats to let in Iberian cities, one every ten minutes",
    "flat.offered",
    SCHEMA,
    PULSE,
    timedelta(days=7),
    _begin,
    {_student: 25, _couple: 20, _family: 20, _pet_owner: 10, _newcomer: 10, _bargain_hunter: 15},
)
