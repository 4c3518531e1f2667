"""The studies by name. A new study is one module with a function `run` from settings to an outcome, and one line here.

Modules are named, not imported: listing studies must not load numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias, cast

from rankcast.model.errors import UnknownIdError, shown
from rankcast.studies.findings import Outcome, Settings

Study: TypeAlias = Callable[[Settings], Outcome]

STUDIES: Mapping[str, str] = {
    "preferences": "rankcast.studies.preferences",
    "diversity": "rankcast.studies.diversity",
    "topkw-deliveries": "rankcast.studies.topkw_deliveries",
    "topkw-queue": "rankcast.studies.topkw_queue",
    "topkw-speed": "rankcast.studies.topkw_speed",
    "topkw-grid": "rankcast.studies.topkw_grid",
    "topkw-correlated": "rankcast.studies.topkw_correlated",
    "covering-top-k": "rankcast.studies.covering_top_k",
    "covering-group": "rankcast.studies.covering_group",
    "covering-matching": "rankcast.studies.covering_matching",
    "overlay-covering": "rankcast.studies.overlay_covering",
    "fairness": "rankcast.studies.fairness",
    "overlay-latency": "rankcast.studies.overlay_latency",
    "placement-one-level": "rankcast.studies.placement_one_level",
    "placement-multi-level": "rankcast.studies.placement_multi_level",
    "placement-scale": "rankcast.studies.placement_scale",
    "placement-parameters": "rankcast.studies.placement_parameters",
    "placement-dynamic": "rankcast.studies.placement_dynamic",
}


def study_named(name: str) -> Study:
    """Return a study by its name."""
    module = STUDIES.get(name)
    if module is None:
        raise UnknownIdError(f"there is no study {shown(name)}; expected one of {', '.join(STUDIES)}")
    return cast("Study", import_module(module).run)
