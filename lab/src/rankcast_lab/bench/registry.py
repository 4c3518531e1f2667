"""The benches by name. A new bench is one module with a function from its settings to a report, and one line here.

Modules are named, not imported: listing benches must not load numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from rankcast.model.errors import UnknownIdError, shown
from rankcast_lab.bench.report import Report

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
    "matching": "rankcast_lab.bench.matching",
    "matching-latency": "rankcast_lab.bench.matching_latency",
    "matching-churn": "rankcast_lab.bench.matching_churn",
    "matching-threads": "rankcast_lab.bench.matching_threads",
    "matching-cold": "rankcast_lab.bench.matching_cold",
    "delivery": "rankcast_lab.bench.delivery",
    "diversity": "rankcast_lab.bench.diversity",
    "topkw": "rankcast_lab.bench.topkw",
    "covering": "rankcast_lab.bench.covering",
    "overlay": "rankcast_lab.bench.overlay",
    "placement": "rankcast_lab.bench.placement",
    "placement-spark": "rankcast_lab.bench.placement_spark",
    "spark": "rankcast_lab.bench.spark",
}
"""Modules by the name of their bench; each has a function `run`."""


def bench_named(name: str) -> Bench:
    """Return a bench by its name."""
    module = BENCHES.get(name)
    if module is None:
        raise UnknownIdError(f"there is no bench {shown(name)}; expected one of {', '.join(BENCHES)}")
    return cast("Bench", import_module(module).run)
