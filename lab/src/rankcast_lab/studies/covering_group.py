"""Group cover: scenarios 1.a to 2.c and the comparison with pairwise cover, with the exact search beside the paper's.

Paper: probabilistic subsumption checking in content-based publish/subscribe, section 6.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from rankcast_lab.studies import covering_group_comparison as comparison
from rankcast_lab.studies import covering_group_scenarios as scenarios
from rankcast_lab.studies.covering_group_comparison import Growth
from rankcast_lab.studies.covering_group_pictures import draw_growth, draw_scenarios
from rankcast_lab.studies.covering_group_scenarios import DELTAS, Chain, Extreme, Redundant
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Settings

SHOWN_ROWS = (100, 310)
SHOWN_GAPS = (0.005, 0.01, 0.02, 0.03)


def run(settings: Settings) -> Outcome:
    """Measure the scenarios and the comparison."""
    generator = np.random.default_rng(settings.seed)
    redundant = scenarios.redundant_covers(settings, generator)
    quick = scenarios.settled_quickly(settings, generator)
    tried = scenarios.points_of_non_covers(settings, generator)
    extreme = scenarios.extreme_non_covers(settings, generator)
    sound = scenarios.sound_false_covers(settings, generator)
    chain = scenarios.simulated_chain(settings, generator)
    growths = comparison.growths(settings)
    return Outcome(
        "covering-group",
        "Group cover",
        (
            *_quick_findings(quick, tried),
            *_redundant_findings(redundant),
            *_extreme_findings(extreme, sound),
            _chain_finding(chain),
            *_comparison_findings(growths, compared=not settings.quick),
        ),
        (
            "The paper assumes a closed schema: every event has every attribute. So does this page, but for the rows "
            "called open, where attributes may be missing: there a subscription can be covered only by those that name "
            "none but its own attributes. In the comparison that hardly matters, because ranges seldom fill a whole "
            "attribute together. In scenarios 1.a to 2.c the tested subscription names all attributes, and the two are "
            "the same.",
            "The printed estimate of the open share is not a bound: two rows may leave a slit between them that is "
            "smaller than any distance from the sides of the tested box. So a random yes is wrong far more often than "
            "delta says, and the sound estimate needs so many points that it is of little use. The exact search is "
            "never wrong, and its work is bounded.",
            "The paper does not say in detail how subscriptions of the comparison are drawn. With the reading here "
            "narrow ranges give its figures for m=10 and wide ones those for m=20; for m=15, which is published to be "
            "like m=10, neither does. A subscription that names only a few popular attributes covers very much, and "
            "when the first of them comes is chance: shares of two seeds differ by several points (their deviation is "
            "in the table).",
            "Proposition 4 is printed as conditional on a wrong answer, under which a subscription goes nowhere; it "
            "holds without the condition.",
        ),
        partial(draw_scenarios, redundant=redundant, extreme=extreme),
        size=(13.0, 9.0),
        further=(
            Picture(
                "growth",
                "Active subscriptions, pairwise and group cover",
                partial(draw_growth, growths=growths),
                (13, 9),
            ),
        ),
    )


def _quick_findings(quick: dict[str, float], tried: float) -> list[Finding]:
    said = {"1.a": "a row covers it alone", "2.a": "the minimised set is empty", "2.b": "the minimised set is empty"}
    rows = [
        Finding(f"{name}: {what}, share of runs", "always" if name != "2.b" else "mostly", share, share > 0.99)
        for (name, what), share in zip(said.items(), quick.values(), strict=True)
    ]
    return [*rows, Finding("2.b: points tried, largest mean", "below 0.5", tried, tried < 0.5)]


def _redundant_findings(redundant: list[Redundant]) -> list[Finding]:
    rows = []
    for attributes in scenarios.ATTRIBUTES:
        own = [one for one in redundant if one.attributes == attributes]
        least, most = (100 * of(one.removed for one in own) for of in (min, max))
        name = f"1.b, m={attributes}"
        text = f"{least:.0f} to {most:.0f}"
        rows.append(Finding(f"{name}: redundant rows removed, %", "80 to 100", text, round(least) >= 79))
        for one in own:
            if one.rows in SHOWN_ROWS:
                text = f"{one.before:.1f} / {one.after:.1f} / {one.sound_after:.1f}"
                much = one.after < one.before - 2
                quantity = f"{name}, k={one.rows}: log10 of d, before / after / sound"
                rows.append(Finding(quantity, "much less", text, much))
    hundred = next(one for one in redundant if (one.attributes, one.rows) == (10, 100))
    rows.append(Finding("1.b, m=10, k=100: log10 of d after", "below 5", hundred.after, hundred.after < 5))
    wrong = sum(one.wrong for one in redundant)
    rows.append(Finding("1.b: covers that the exact search did not find", None, wrong, wrong == 0))
    return rows


def _extreme_findings(extreme: list[Extreme], sound: tuple[int, int, float]) -> list[Finding]:
    rows = []
    for one in (one for one in extreme if one.gap in SHOWN_GAPS):
        for delta, false in zip(DELTAS, one.false_covers, strict=True):
            name = f"2.c, gap {one.gap:.1%}, delta {delta:g}: false covers of {one.runs:,}"
            allowed = one.runs * delta
            rows.append(Finding(name, f"at most {allowed:.2g}", false, _may_be(false, allowed)))
    wide = sum(sum(one.false_covers[1:]) for one in extreme if one.gap > 0.01)
    rows.append(Finding("2.c, gaps above 1%, delta up to 1e-6: false covers", 0, wide, wide == 0))
    loose = max(one.false_covers[0] / one.runs for one in extreme if one.gap >= 0.02)
    rows.append(Finding("2.c, gaps from 2%, delta 1e-3: share of false covers", "quite low", loose, loose < 0.01))
    spread = max(max(one.guesses) / min(one.guesses) for one in extreme)
    rows.append(Finding("2.c: points tried, largest / smallest by delta", "similar", spread, spread < 1.5))
    false, runs, needed = sound
    quantity = f"2.c, gap 0.5%, delta 0.001, sound estimate: false covers of {runs:,}"
    allowed = runs * DELTAS[0]
    rows.append(Finding(quantity, f"at most {allowed:.2g}", false, _may_be(false, allowed)))
    rows.append(Finding("2.c, gap 0.5%, delta 0.001, sound estimate: mean of d", None, needed, None))
    wrong = sum(one.exact_wrong for one in extreme)
    rows.append(Finding("2.c: wrong answers of the exact search", None, wrong, wrong == 0))
    slowest, fastest = (of(one.exact_microseconds for one in extreme) for of in (max, min))
    rows.append(Finding("2.c: µs of the exact search", None, f"{fastest:.0f} to {slowest:.0f}", None))
    return rows


def _may_be(count: int, expected: float) -> bool:
    """Whether a count may well be that of rare events of which so many are expected."""
    return count <= expected + 3 * math.sqrt(expected) + 1


def _chain_finding(chain: Chain) -> Finding:
    margin = 3.5 * (chain.expected * (1 - chain.expected) / chain.runs) ** 0.5
    quantity = "Proposition 4: publication found along 10 brokers, simulated"
    return Finding.near(quantity, chain.expected, chain.simulated, margin)


PUBLISHED: dict[tuple[int, str], tuple[str, float, float]] = {
    (10, "pairwise"): ("about 15", 12, 18),
    (10, "group"): ("below 10", 0, 10),
    (15, "pairwise"): ("about 15", 12, 18),
    (15, "group"): ("below 10", 0, 10),
    (20, "pairwise"): ("below 50", 0, 50),
    (20, "group"): ("about 33", 28, 38),
}
"""Active shares in percent, as the paper says them, and between what they hold."""


def _comparison_findings(growths: list[Growth], *, compared: bool) -> list[Finding]:
    rows = []
    for one in growths:
        name = f"comparison, {one.ranges}, m={one.attributes}"
        for way in comparison.WAYS:
            said, least, most = PUBLISHED.get((one.attributes, way), (None, 0, 0))
            share = one.share(way)
            holds = least <= share <= most if compared and said is not None else None
            rows.append(Finding(f"{name}: {way}, active %", said, share, holds))
        spread = " / ".join(f"{one.spread[way]:.1f}" for way in comparison.WAYS)
        rows.append(Finding(f"{name}: deviation over seeds", None, spread, None))
        thousand = one.marks.index(1_000) if 1_000 in one.marks else None
        if thousand is not None:
            ratios = [one.ratio("group", at) for at in (thousand, -1)]
            holds = 70 <= ratios[0] <= 80
            rows.append(Finding(f"{name}: group / pairwise at 1,000, %", "70 to 80", ratios[0], holds))
            rows.append(Finding(f"{name}: group / pairwise at the end, %", "less", ratios[1], ratios[1] < ratios[0]))
    beaten = all(one.ratio("group") < 100 for one in growths)
    rows.append(
        Finding("comparison: group cover has fewer active in every row", "yes", "yes" if beaten else "no", beaten)
    )
    exhausted = sum(one.exhausted for one in growths)
    rows.append(Finding("comparison: budgets of 100,000 rows used up", None, exhausted, exhausted == 0))
    return rows
