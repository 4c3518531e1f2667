"""When does one filter contain another, and when do many contain one together?

`relation` answers for two filters. The rest answers for many at once, as boxes of integer ranges: `lines` gives the
places of an attribute integer labels, `boxes` turns filters into boxes and keeps them as arrays. On that stand two
branches. Top-k covering (`topk`): `order` tells who is above whom, `cover_set` which subscriptions must be forwarded,
`poset` is the graph of all of them; `specificity` finds those of many that contain others. Group cover (`group`):
`conflicts` has the tables and decisions of the paper by name, `exact_search` their kernels, `cover` asks them for
filters, and keeps active and passive subscriptions.

Names are loaded when they are first used: two filters can be compared without compiling anything.
"""

from typing import TYPE_CHECKING

from rankcast.lazily import loading

if TYPE_CHECKING:
    from rankcast.covering.group.conflicts import ConflictTable as ConflictTable
    from rankcast.covering.group.conflicts import CoverReason as CoverReason
    from rankcast.covering.group.conflicts import Decision as Decision
    from rankcast.covering.group.conflicts import Estimate as Estimate
    from rankcast.covering.group.conflicts import MinimisedRows as MinimisedRows
    from rankcast.covering.group.conflicts import covered_rows as covered_rows
    from rankcast.covering.group.conflicts import covering_row as covering_row
    from rankcast.covering.group.conflicts import exact_cover as exact_cover
    from rankcast.covering.group.conflicts import has_open_part as has_open_part
    from rankcast.covering.group.conflicts import minimised_cover_set as minimised_cover_set
    from rankcast.covering.group.conflicts import open_share as open_share
    from rankcast.covering.group.conflicts import points_needed as points_needed
    from rankcast.covering.group.conflicts import quick_decision as quick_decision
    from rankcast.covering.group.conflicts import random_cover as random_cover
    from rankcast.covering.group.cover import ActiveSet as ActiveSet
    from rankcast.covering.group.cover import Answer as Answer
    from rankcast.covering.group.cover import Checking as Checking
    from rankcast.covering.group.cover import GroupStrategy as GroupStrategy
    from rankcast.covering.group.cover import Union as Union
    from rankcast.covering.relation import Relation as Relation
    from rankcast.covering.relation import covers as covers
    from rankcast.covering.topk.cover_set import Change as Change
    from rankcast.covering.topk.cover_set import Cover as Cover
    from rankcast.covering.topk.cover_set import CoverSet as CoverSet
    from rankcast.covering.topk.order import BoxColumns as BoxColumns
    from rankcast.covering.topk.order import Order as Order
    from rankcast.covering.topk.order import Ranking as Ranking
    from rankcast.covering.topk.poset import Poset as Poset

__getattr__, __dir__, __all__ = loading(
    __name__,
    {
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
        "rankcast.covering.group.cover": ("ActiveSet", "Answer", "Checking", "GroupStrategy", "Union"),
        "rankcast.covering.topk.order": ("BoxColumns", "Order", "Ranking"),
        "rankcast.covering.topk.poset": ("Poset",),
        "rankcast.covering.relation": ("Relation", "covers"),
        "rankcast.covering.topk.cover_set": ("Change", "Cover", "CoverSet"),
    },
)
