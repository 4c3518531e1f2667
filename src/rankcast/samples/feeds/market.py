"""Trades of a stock market: a few milliseconds apart in trading hours, prices that walk at random.

Symbols follow Zipf's law and have a sector, a price level and a volatility; prices of a sector move together. `size` is
mostly round lots with a heavy tail. `side` is missing where the exchange does not publish it, `condition` for regular
trades; trades on lit venues expire after seconds, when their price says nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from rankcast.model.expressions import Constraint, Operator, attr
from rankcast.model.values import Value
from rankcast.samples.feeds.common import (
    BLOCK,
    Block,
    BlockDraw,
    Draw,
    Feed,
    Floats,
    Pulse,
    Stream,
    Wish,
    generator,
    picks,
    schema,
    zipf,
)

NAME = "trades"

SCHEMA = schema(
    "symbol:string,sector:string,price:float,size:int,notional:float,change:float,side:string,venue:string,lit:bool,"
    "condition:string,sequence:int,executed:time",
    required="symbol,price,size,venue,sequence",
)

# 20 ms apart; busy after the opening at 8:00 and before the close at 16:30, quiet at noon; no trades at weekends.
PULSE = Pulse(
    gap=0.02,
    day=((0, 8), (0.22, 9), (0.5, 11.5), (0.6, 13.5), (0.8, 15.5), (1, 16.5)),
    workdays=True,
    tick=timedelta(milliseconds=1),
)
SECTORS = ("energy", "finance", "health", "industry", "materials", "media", "retail", "technology", "utilities")
SYMBOLS = 150
VENUES = ("XLIS", "XPAR", "XAMS", "BATE", "CHIX", "TRQX", "DARK1", "DARK2")
VENUE_WEIGHTS = (14, 20, 16, 16, 14, 8, 7, 5)
CONDITIONS = (None, "opening", "late report", "odd lot", "block", "average price")
CONDITION_WEIGHTS = (85, 1, 2, 7, 2, 3)


@dataclass(frozen=True, slots=True)
class Market:
    """The listed shares of one seed: names, sectors, yesterday's closing prices, volatilities, gaps since."""

    symbols: tuple[str, ...]
    sectors: tuple[int, ...]
    close: Floats
    volatility: Floats
    gap: Floats


def market(seed: int) -> Market:
    """Return the shares that a seed's trades are in, the most traded first."""
    draw = Draw(generator(seed, NAME, Stream.CATALOGUE))
    names = _symbols(draw)
    sectors = tuple(draw.whole(0, len(SECTORS) - 1) for _ in names)
    close = np.exp(draw.generator.normal(3.4, 0.9, len(names)))
    volatility = draw.generator.lognormal(np.log(6e-4), 0.4, len(names))
    gap = draw.generator.normal(0, 0.008, len(names))
    return Market(names, sectors, close, volatility, gap)


def _symbols(draw: Draw) -> tuple[str, ...]:
    """Return distinct tickers of three or four letters; some companies have two classes of shares."""
    names: dict[str, None] = {}
    while len(names) < SYMBOLS:
        letters = draw.whole(3, 4)
        name = "".join(draw.one("ABCDEFGHILMNOPRSTVX") for _ in range(letters))
        for share in (".A", ".B") if draw.chance(0.08) else ("",):
            names[name + share] = None
    return tuple(names)[:SYMBOLS]


def _begin(seed: int) -> BlockDraw:
    listed = market(seed)
    weights = zipf(len(listed.symbols), 0.9)
    moved = listed.gap.copy()  # log of the price over yesterday's close, per share

    def draw(random: np.random.Generator, times: Sequence[datetime], first: int) -> Block:
        """Draw trades."""
        shares = picks(random, weights)
        changes = _walk(random, listed, moved, shares)
        prices = np.maximum(0.01, (listed.close[shares] * np.exp(changes)).round(2))
        columns = _columns(random, times, [listed.symbols[share] for share in shares.tolist()], prices)
        columns["sector"] = [SECTORS[listed.sectors[share]] for share in shares.tolist()]
        columns["change"] = (np.expm1(changes) * 100).round(3).tolist()
        columns["sequence"] = range(first, first + BLOCK)
        return Block(_expiries(random, times, columns["lit"]), columns)

    return draw


def _columns(
    random: np.random.Generator, times: Sequence[datetime], symbols: Sequence[str], prices: Floats
) -> dict[str, Sequence[Value | None]]:
    venues = [VENUES[venue] for venue in picks(random, VENUE_WEIGHTS).tolist()]
    lit = [not venue.startswith("DARK") for venue in venues]
    sides = [("buy", "sell", None)[side] for side in picks(random, (44, 44, 12)).tolist()]
    sizes = _sizes(random, prices)
    delays = random.integers(0, 40, BLOCK).tolist()
    return {
        "symbol": symbols,
        "price": prices.tolist(),
        "size": sizes.tolist(),
        "notional": (prices * sizes).round(2).tolist(),
        "side": [side if public else None for side, public in zip(sides, lit, strict=True)],
        "venue": venues,
        "lit": lit,
        "condition": [CONDITIONS[condition] for condition in picks(random, CONDITION_WEIGHTS).tolist()],
        "executed": [time - timedelta(milliseconds=delay) for time, delay in zip(times, delays, strict=True)],
    }


def _expiries(
    random: np.random.Generator, times: Sequence[datetime], lit: Sequence[Value | None]
) -> list[datetime | None]:
    lives = random.integers(5, 30, BLOCK).tolist()
    ends = [time + timedelta(seconds=life) for time, life in zip(times, lives, strict=True)]
    return [end if public else None for end, public in zip(ends, lit, strict=True)]


def _walk(random: np.random.Generator, listed: Market, moved: Floats, shares: NDArray[np.int64]) -> Floats:
    """Return the log change since yesterday's close at each trade, and leave in `moved` where the block ended.

    Each block moves whole sectors a little; each trade moves its own share by its volatility.
    """
    moved += random.normal(0, 4e-4, len(SECTORS))[list(listed.sectors)]
    steps = random.normal(0, 1, len(shares)) * listed.volatility[shares]
    changes = np.empty(len(shares))
    for at, (share, step) in enumerate(zip(shares.tolist(), steps.tolist(), strict=True)):
        moved[share] += step
        changes[at] = moved[share]
    return changes


def _sizes(random: np.random.Generator, prices: Floats) -> NDArray[np.int64]:
    """Return sizes with a heavy tail, smaller for dear shares, three quarters of them in round lots of 50."""
    raw = np.maximum(1, random.lognormal(np.log(9_000), 1.2, len(prices)) / prices)
    lots = np.maximum(50, np.rint(raw / 50) * 50)
    return np.where(random.random(len(prices)) < 0.75, lots, np.ceil(raw)).astype(np.int64)


def _sector_watcher(draw: Draw, _: datetime) -> list[Wish]:
    sector = attr("sector") == draw.one(SECTORS)
    large = draw.whole(20_000, 60_000, 5_000)
    return [
        Wish("large", sector & (attr("notional") >= large)),
        Wish("falling", sector & (attr("change") < -0.5) & (attr("side") == "sell")),
        Wish("rising", sector & (attr("change") > 0.5) & (attr("side") != "sell")),
    ][: draw.whole(2, 3)]


def _stock_picker(draw: Draw, _: datetime) -> list[Wish]:
    letters = draw.several("ABCDEFGHILMNOPRSTVX", 3)
    low = draw.whole(5, 60)
    return [
        Wish("watch list", attr("symbol").prefix(letters[0]) & attr("price").between(low, low * 2)),
        Wish("second list", attr("symbol").prefix(letters[1]) & (attr("size") >= draw.whole(200, 800, 100))),
        Wish("class a", attr("symbol").suffix(".A") & Constraint("lit", Operator.EQ, (True,))),
        Wish("spelling", attr("symbol").like(f"_{letters[2]}%") & ~attr("symbol").contains(".")),
    ][: draw.whole(2, 4)]


def _compliance(draw: Draw, start: datetime) -> list[Wish]:
    sectors = draw.several(SECTORS, 2)
    early = start + timedelta(seconds=draw.whole(5, 60))
    return [
        Wish("blocks", attr("condition").is_in("block", "average price") & attr("sector").is_in(*sectors)),
        Wish("late", attr("condition").contains("late") & ~attr("side").exists()),
        Wish("start of day", (attr("executed") < early) & (attr("notional") > draw.whole(60_000, 120_000, 10_000))),
    ]


def _dark_pool_watcher(draw: Draw, _: datetime) -> list[Wish]:
    dark = attr("venue").prefix("DARK")
    sector = draw.one(SECTORS)
    return [
        Wish("big in the dark", dark & (attr("notional") > draw.whole(15_000, 40_000, 5_000))),
        Wish("dark sector", dark & (attr("sector") == sector)),
        Wish("off book", (dark | attr("condition").exists()) & (attr("sector") == sector) & (attr("size") > 300)),
    ][: draw.whole(2, 3)]


def _arbitrageur(draw: Draw, _: datetime) -> list[Wish]:
    home, other = draw.several(VENUES[:6], 2)
    move = draw.whole(3, 12) / 10
    regular = ~attr("condition").exists() & attr("side").exists()
    jumped = ~attr("change").between(-move, move)
    return [
        Wish("jump at home", (attr("venue") == home) & jumped & regular),
        Wish("jump elsewhere", attr("venue").is_in(other) & jumped & (attr("size") <= draw.whole(100, 400, 50))),
        Wish("penny shares", (attr("price") <= draw.whole(8, 15)) & (attr("venue") != home) & (attr("size") > 1_500)),
    ][: draw.whole(2, 3)]


TRADES = Feed(
    NAME,
    "trades of a stock market, milliseconds apart",
    "trade.executed",
    SCHEMA,
    PULSE,
    timedelta(seconds=15),
    _begin,
    {_sector_watcher: 30, _stock_picker: 25, _compliance: 15, _dark_pool_watcher: 15, _arbitrageur: 15},
)
