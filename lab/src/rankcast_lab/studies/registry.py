"""The studies by name. A new study is one module with a function `run` from settings to an outcome, and one line here.

Modules are named, not imported: listing studies must not load numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias, cast

from rankcast.model.errors import UnknownIdError, shown
from rankcast_lab.studies.findings import Outcome, Settings

Study: TypeAlias = Callable[[Settings], Outcome]

STUDIES: Mapping[str, str] = {
    "preferences": "rankcast_lab.studies.preferences",
    "diversity": "rankcast_lab.studies.diversity",
    "topkw-deliveries": "rankcast_lab.studies.topkw_deliveries",
    "topkw-queue": "rankcast_lab.studies.topkw_queue",
    "topkw-speed": "rankcast_lab.studies.topkw_speed",
    "topkw-grid": "rankcast_lab.studies.topkw_grid",
    "topkw-correlated": "rankcast_lab.studies.topkw_correlated",
    "covering-top-k": "rankcast_lab.studies.covering_top_k",
    "covering-group": "rankcast_lab.studies.covering_group",
    "covering-matching": "rankcast_lab.studies.covering_matching",
    "overlay-covering": "rankcast_lab.studies.overlay_covering",
    "fairness": "rankcast_lab.studies.fairness",
    "overlay-latency": "rankcast_lab.studies.overlay_latency",
    "placement-one-level": "rankcast_lab.studies.placement_one_level",
    "placement-multi-level": "rankcast_lab.studies.placement_multi_level",
    "placement-scale": "rankcast_lab.studies.placement_scale",
    "placement-parameters": "rankcast_lab.studies.placement_parameters",
    "placement-dynamic": "rankcast_lab.studies.placement_dynamic",
}


def study_named(name: str) -> Study:
    """Return a study by its name."""
    module = STUDIES.get(name)
    if module is None:
        raise UnknownIdError(f"there is no study {shown(name)}; expected one of {', '.join(STUDIES)}")
    return cast("Study", import_module(module).run)
