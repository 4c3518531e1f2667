"""When does one filter contain another, and when do many contain one together?

`relation` answers for two filters. The rest answers for many at once, as boxes of integer ranges: `lines` gives the
places of an attribute integer labels, `boxes` turns filters into boxes, `rows` keeps them as arrays. On that stand two
branches. Top-k covering: `order` tells who is above whom, `topk` which subscriptions must be forwarded, `poset` is the
graph of all of them; `specificity` finds those of many that contain others. Group cover: `conflicts` has the tables and
decisions of the paper by name, `group` asks them for filters, `active` keeps active and passive subscriptions. What
begins with `kernels_` is compiled.

Names are loaded when they are first used: two filters can be compared without compiling anything.
"""

from typing import TYPE_CHECKING

from rankcast.lazily import loading

if TYPE_CHECKING:
    from rankcast.covering.group.active import ActiveSet
    from rankcast.covering.group.conflicts import (
        ConflictTable,
        CoverReason,
        Decision,
        Estimate,
        MinimisedRows,
        covered_rows,
        covering_row,
        exact_cover,
        has_open_part,
        minimised_cover_set,
        open_share,
        points_needed,
        quick_decision,
        random_cover,
    )
    from rankcast.covering.group.cover import Answer, Checking, GroupStrategy, Union
    from rankcast.covering.relation import Relation, covers
    from rankcast.covering.topk.cover_set import Change, Cover, CoverSet
    from rankcast.covering.topk.order import BoxColumns, Order, Ranking
    from rankcast.covering.topk.poset import Poset

__all__ = [
    "ActiveSet",
    "Answer",
    "BoxColumns",
    "Change",
    "Checking",
    "ConflictTable",
    "Cover",
    "CoverReason",
    "CoverSet",
    "Decision",
    "Estimate",
    "GroupStrategy",
    "MinimisedRows",
    "Order",
    "Poset",
    "Ranking",
    "Relation",
    "Union",
    "covered_rows",
    "covering_row",
    "covers",
    "exact_cover",
    "has_open_part",
    "minimised_cover_set",
    "open_share",
    "points_needed",
    "quick_decision",
    "random_cover",
]

__getattr__, __dir__ = loading(
    __name__,
    {
        "rankcast.covering.group.active": ("ActiveSet",),
        "rankcast.covering.group.conflicts": (
            "ConflictTable",
            "Decision",
            "Estimate",
            "MinimisedRows",
            "CoverReason",
            "covered_rows",
            "covering_row",
            "exact_cover",
            "has_open_part",
            "minimised_cover_set",
            "open_share",
            "points_needed",
            "quick_decision",
            "random_cover",
        ),
        "rankcast.covering.group.cover": ("Answer", "Checking", "GroupStrategy", "Union"),
        "rankcast.covering.topk.order": ("BoxColumns", "Order", "Ranking"),
        "rankcast.covering.topk.poset": ("Poset",),
        "rankcast.covering.relation": ("Relation", "covers"),
        "rankcast.covering.topk.cover_set": ("Change", "Cover", "CoverSet"),
    },
)
