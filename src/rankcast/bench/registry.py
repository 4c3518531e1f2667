"""The benches by name. A new bench is one module with a function from its settings to a report, and one line here.

Modules are named, not imported: listing benches must not load numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from rankcast.bench.report import Report
from rankcast.model.errors import RankcastError, UnknownIdError, shown

Say = Callable[[str], None]
"""Takes a word on what is being done now."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run measures. A bench uses what concerns it; empty means its own default."""

    workloads: tuple[str, ...] = ()
    subscriptions: tuple[int, ...] = ()
    events: int | None = None
    seed: int = 1
    peers: bool = True
    say: Say = field(default=lambda _: None, compare=False)


Bench = Callable[[Settings], Report]

BENCHES: Mapping[str, str] = {
    "matching": "rankcast.bench.matching",
    "matching-latency": "rankcast.bench.matching_latency",
    "matching-churn": "rankcast.bench.matching_churn",
    "matching-threads": "rankcast.bench.matching_threads",
    "matching-cold": "rankcast.bench.matching_cold",
    "delivery": "rankcast.bench.delivery",
    "diversity": "rankcast.bench.diversity",
    "topkw": "rankcast.bench.topkw",
    "covering": "rankcast.bench.covering",
    "overlay": "rankcast.bench.overlay",
    "placement": "rankcast.bench.placement",
    "placement-spark": "rankcast.bench.placement_spark",
    "spark": "rankcast.bench.spark",
}
"""Modules by the name of their bench; each has a function `run`."""


def bench_named(name: str) -> Bench:
    """Return a bench by its name."""
    module = BENCHES.get(name)
    if module is None:
        raise UnknownIdError(f"there is no bench {shown(name)}; expected one of {', '.join(BENCHES)}")
    return cast("Bench", import_module(module).run)


class MissingExtraError(RankcastError):
    """A package that only benches or plots need is not installed."""

    def __init__(self, package: str, extra: str, instead: str = "") -> None:
        hint = f", or {instead}" if instead else ""
        super().__init__(f"{package} is not installed: pip install 'rankcast[{extra}]'{hint}")
