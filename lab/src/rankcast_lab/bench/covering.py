"""Covering, part by part: top-k covering kept incrementally, one filter against many, the poset, group cover.

Each part adds its rows to one report; `workloads` names the parts that are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankcast.model.errors import UnknownIdError, shown
from rankcast_lab.bench import covering_group, covering_poset, covering_relations, covering_top_k
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Report

PARTS: Mapping[str, Callable[[Settings, Report], None]] = {
    "top-k": covering_top_k.measure,
    "relations": covering_relations.measure,
    "poset": covering_poset.measure,
    "group": covering_group.measure,
}

QUICK_SUBSCRIPTIONS, QUICK_GRIDS = 2_000, 2_000


def run(settings: Settings) -> Report:
    """Measure the parts that are named, or all."""
    for name in settings.workloads:
        if name not in PARTS:
            raise UnknownIdError(f"there is no part {shown(name)} of covering; expected one of {', '.join(PARTS)}")
    report = Report("covering")
    for name in dict.fromkeys(settings.workloads) or PARTS:
        PARTS[name](settings, report)
    return report
