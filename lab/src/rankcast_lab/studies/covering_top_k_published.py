"""What the paper on top-k covering reports of Figure 5, in percent of the subscriptions."""

from __future__ import annotations

from collections.abc import Mapping

from rankcast_lab.studies.covering_top_k_runs import Widths

REGULAR: Mapping[int, float] = {10_000: 1.47, 50_000: 0.69}
REGULAR_BY_WIDTHS: Mapping[Widths, float] = {(0.1, 0.6): 1.22, (0.3, 0.4): 3.08}
ANCESTOR_AT_MOST: Mapping[int, float] = {10_000: 6.03, 50_000: 2.5}
ANCESTOR_BY_SELECTIVITY: Mapping[float, float] = {0.001: 5.76, 0.1: 66.7}
ANCESTOR_BY_WIDTHS: Mapping[Widths, float] = {(0.1, 0.6): 40.33, (0.3, 0.4): 82.05, (0.5, 0.6): 69.59}
RANK: Mapping[int, float] = {10_000: 84.71, 50_000: 60.53}
EVERYTHING: Mapping[int, int] = {10_000: 19, 50_000: 27}
"""The k from which RankCoverK forwards everything."""

RETAINED = 81.0
"""The part of RegularCover's covering that is left at k = 1%."""

STABLE = 0.4
"""Points by which shares differ with the number of subscriptions."""
