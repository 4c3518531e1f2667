"""Group cover: scenarios 1.a to 2.c and the comparison with pairwise cover, with the exact search beside the paper's.

Paper: probabilistic subsumption checking in content-based publish/subscribe, section 6.

Scenarios 1.a to 2.c of group cover: one tested box and the rows that cover it, or do not. Every tested box constrains
all attributes, so that open and closed schemas are the same here. Points are drawn uniformly from the tested box in
values, as in the paper; d is worked out with the printed estimate of the open share, and with the sound one beside it.

The comparison of group cover with pairwise cover: how active sets grow, in closed and in open schemas. Pairwise
covering does not depend on the schema here: a range on an attribute that the other subscription does not name never
covers it, whether the attribute may be missing or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, TypeAlias

import numpy as np

from rankcast.covering.group.conflicts import (
    ConflictTable,
    CoverReason,
    Estimate,
    MinimisedRows,
    exact_cover,
    minimised_cover_set,
    open_share,
    points_needed,
    quick_decision,
    random_cover,
)
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.plotting import BLUE, GREEN, ORANGE, RED, tidy
from rankcast_lab.engines.chains import chain_probability, held_back
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Settings
from rankcast_lab.workloads.group_cover import (
    NARROW,
    WIDE,
    CoverCase,
    comparison,
    extreme_non_cover,
    no_intersection,
    non_cover,
    pairwise_cover,
    redundant_cover,
)

# Scenarios

SCENARIO_ATTRIBUTES = (10, 15, 20)
ROWS = tuple(range(10, 311, 30))
DELTA = 1e-10
DELTAS = (1e-3, 1e-6, 1e-10)
GAPS = tuple(round(0.005 * step, 3) for step in range(1, 10))
EXTREME_ROWS, EXTREME_ATTRIBUTES = 50, 5
BUDGET, PROBES = 100_000, 100
CHAIN_BROKERS, CHAIN_PUBLISHED, CHAIN_GAP, CHAIN_DELTA = 10, 0.1, 0.005, 0.1

Draw: TypeAlias = Callable[[np.random.Generator, int, int], CoverCase]


@dataclass(frozen=True, slots=True)
class Redundant:
    """Scenario 1.b for one m and k, means over runs: share of redundant rows removed, and log10 of d."""

    attributes: int
    rows: int
    removed: float
    before: float
    after: float
    sound_after: float
    wrong: int


@dataclass(frozen=True, slots=True)
class Extreme:
    """Scenario 2.c for one gap: false covers and mean points tried by delta; wrong answers and time of the search."""

    gap: float
    runs: int
    false_covers: tuple[int, ...]
    guesses: tuple[float, ...]
    exact_wrong: int
    exact_microseconds: float


@dataclass(frozen=True, slots=True)
class Chain:
    """Proposition 4: the chance of finding a publication as worked out, and as a simulation found it."""

    expected: float
    simulated: float
    runs: int


def table_of(case: CoverCase) -> ConflictTable:
    """Return the conflict table of a case."""
    return ConflictTable.closed(case.tested.lows[0], case.tested.highs[0], case.rows.lows, case.rows.highs)


def redundant_covers(settings: Settings, generator: np.random.Generator) -> list[Redundant]:
    """Measure scenario 1.b."""
    runs = 20 if settings.quick else 300
    found = []
    for attributes in SCENARIO_ATTRIBUTES:
        for rows in ROWS:
            settings.say(f"redundant covering, m={attributes}, k={rows}")
            found.append(_redundant(generator, attributes, rows, runs))
    return found


def _redundant(generator: np.random.Generator, attributes: int, rows: int, runs: int) -> Redundant:
    sums, wrong = np.zeros(4), 0
    for _ in range(runs):
        case = redundant_cover(generator, rows, attributes)
        table = table_of(case)
        kept = minimised_cover_set(table)
        before = points_needed(open_share(table, np.arange(rows), Estimate.PRINTED), DELTA)
        after, sound = (points_needed(open_share(table, kept.kept, one), DELTA) for one in reversed(Estimate))
        removed = 1 - case.redundant[kept.kept].sum() / case.redundant.sum()
        sums += (removed, math.log10(before), math.log10(after), math.log10(sound))
        wrong += not exact_cover(table, BUDGET, PROBES, generator, kept).covered
    removed, before, after, sound = (sums / runs).tolist()
    return Redundant(attributes, rows, removed, before, after, sound, wrong)


def settled_quickly(settings: Settings, generator: np.random.Generator) -> dict[str, float]:
    """Return which share of scenarios 1.a, 2.a and 2.b needs no points: a single cover, or no rows left."""
    runs = 5 if settings.quick else 50
    scenarios: dict[str, tuple[Draw, bool]] = {
        "1.a": (pairwise_cover, True),
        "2.a": (no_intersection, False),
        "2.b": (non_cover, False),
    }
    shares = {}
    for name, (draw, covered) in scenarios.items():
        settings.say(f"scenario {name}")
        tables = [table_of(draw(generator, rows, m)) for m in SCENARIO_ATTRIBUTES for rows in ROWS for _ in range(runs)]
        settled = [quick_decision(table) for table in tables]
        reason = CoverReason.ONE_COVERS if covered else CoverReason.ROWS_LEFT
        shares[name] = sum(one is not None and one.reason is reason for one in settled) / len(settled)
    return shares


def points_of_non_covers(settings: Settings, generator: np.random.Generator) -> float:
    """Return the largest mean number of points tried in scenario 2.b, over all m and k."""
    runs = 5 if settings.quick else 100
    means = []
    for attributes in SCENARIO_ATTRIBUTES:
        for rows in ROWS:
            settings.say(f"non-cover, m={attributes}, k={rows}")
            tables = (table_of(non_cover(generator, rows, attributes)) for _ in range(runs))
            tried = [random_cover(table, DELTA, generator, Estimate.PRINTED).points for table in tables]
            means.append(sum(tried) / runs)
    return max(means)


def extreme_non_covers(settings: Settings, generator: np.random.Generator) -> list[Extreme]:
    """Measure scenario 2.c."""
    runs = 100 if settings.quick else 3_000
    found = []
    for gap in GAPS:
        settings.say(f"extreme non-cover, gap {gap:.1%}")
        false_covers, guesses = np.zeros(len(DELTAS), np.int64), np.zeros(len(DELTAS))
        wrong, seconds = 0, 0.0
        for _ in range(runs):
            table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, gap))
            for at, delta in enumerate(DELTAS):
                answer = random_cover(table, delta, generator, Estimate.PRINTED)
                false_covers[at] += answer.covered
                guesses[at] += answer.points / runs
            start = process_time()
            exact = exact_cover(table, BUDGET, PROBES, generator)
            seconds += process_time() - start
            wrong += exact.covered or exact.point is None
        false, tried = tuple(false_covers.tolist()), tuple(guesses.tolist())
        found.append(Extreme(gap, runs, false, tried, wrong, 1e6 * seconds / runs))
    return found


def sound_false_covers(settings: Settings, generator: np.random.Generator) -> tuple[int, int, float]:
    """Return false covers with the sound estimate at the smallest gap and largest delta, of how many, and mean d."""
    runs, false, needed = 50 if settings.quick else 1_000, 0, 0.0
    settings.say("extreme non-cover, sound estimate")
    for _ in range(runs):
        table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, GAPS[0]))
        kept = minimised_cover_set(table)
        needed += points_needed(open_share(table, kept.kept), DELTAS[0]) / runs
        false += random_cover(table, DELTAS[0], generator, Estimate.SOUND, kept).covered
    return false, runs, needed


def simulated_chain(settings: Settings, generator: np.random.Generator) -> Chain:
    """Send one subscription along chains of brokers, each of which tests it with points of its own."""
    runs = 300 if settings.quick else 5_000
    settings.say("a chain of brokers")
    table = table_of(extreme_non_cover(generator, EXTREME_ROWS, EXTREME_ATTRIBUTES, CHAIN_GAP))
    rows = MinimisedRows(np.arange(len(table)), len(table))
    points = math.ceil(points_needed(open_share(table, rows.kept, Estimate.PRINTED), CHAIN_DELTA))
    found = 0
    for _ in range(runs):
        for _broker in range(CHAIN_BROKERS):
            if generator.random() < CHAIN_PUBLISHED:
                found += 1
                break
            if random_cover(table, CHAIN_DELTA, generator, Estimate.PRINTED, rows).covered:
                break
    expected = chain_probability(CHAIN_BROKERS, CHAIN_PUBLISHED, held_back(CHAIN_GAP, points))
    return Chain(expected, found / runs, runs)


# Comparison


ATTRIBUTES = (10, 15, 20)
RANGES = {"narrow": NARROW, "wide": WIDE}
SUBSCRIPTIONS, QUICK_SUBSCRIPTIONS = 5_000, 600
SEEDS = 3
MARKS = 20
"""Places along a curve."""

WAYS = ("pairwise", "group", "group, open")


@dataclass(frozen=True, slots=True)
class Growth:
    """How many are active after so many have come, by way: means over seeds; `spread` is the deviation at the end."""

    ranges: str
    attributes: int
    marks: tuple[int, ...]
    active: dict[str, tuple[float, ...]]
    spread: dict[str, float]
    exhausted: int

    def share(self, way: str) -> float:
        """Return the active share at the end, in percent."""
        return 100 * self.active[way][-1] / self.marks[-1]

    def ratio(self, way: str, mark: int = -1) -> float:
        """Return the size of an active set as a share of the pairwise one, in percent."""
        return 100 * self.active[way][mark] / self.active["pairwise"][mark]


def growths_of(settings: Settings) -> list[Growth]:
    """Measure all curves."""
    return [_growth(settings, name, attributes) for name in RANGES for attributes in ATTRIBUTES]


def _growth(settings: Settings, name: str, attributes: int) -> Growth:
    count = QUICK_SUBSCRIPTIONS if settings.quick else SUBSCRIPTIONS
    marks = tuple(count * (at + 1) // MARKS for at in range(MARKS))
    sizes: dict[str, list[list[int]]] = {way: [] for way in WAYS}
    exhausted = 0
    for seed in range(settings.seed, settings.seed + (1 if settings.quick else SEEDS)):
        drawn = comparison(np.random.default_rng(seed), count, attributes, RANGES[name])
        filters = drawn.filters()
        for way in WAYS:
            settings.say(f"comparison, {name} ranges, m={attributes}, {way}, seed {seed}")
            checking = Checking(GroupStrategy.PAIRWISE) if way == "pairwise" else Checking()
            schema = drawn.schema(closed=way != "group, open")
            found, used_up = grown(filters, marks, checking, schema)
            sizes[way].append(found)
            exhausted += used_up
    means = {way: tuple(np.mean(found, axis=0).tolist()) for way, found in sizes.items()}
    spread = {way: float(100 * np.std([one[-1] for one in found]) / count) for way, found in sizes.items()}
    return Growth(name, attributes, marks, means, spread, exhausted)


def grown(filters: list[Filter], marks: tuple[int, ...], checking: Checking, schema: Schema) -> tuple[list[int], int]:
    """Return the size of the active set whenever so many have come, and how many budgets were used up."""
    kept, found, due = ActiveSet(checking, schema), [], set(marks)
    for number, wanted in enumerate(filters, start=1):
        kept.add(number, wanted)
        if number in due:
            found.append(len(kept.active))
    return found, kept.exhausted


# Pictures

COLOURS = dict(zip(ATTRIBUTES, (BLUE, GREEN, RED), strict=True))
MARKERS = dict(zip(ATTRIBUTES, "os^", strict=True))
STYLES = {"pairwise": "--", "group": "-", "group, open": ":"}


def draw_scenarios(figure: Any, redundant: list[Redundant], extreme: list[Extreme]) -> None:
    """Draw what the minimised set removes, d before and after it, and random answers against the gap."""
    (removed, needed), (guesses, false) = figure.subplots(2, 2)
    _draw_removed(removed, redundant)
    _draw_needed(needed, redundant)
    _draw_guesses(guesses, extreme)
    _draw_false(false, extreme)


def _draw_removed(panel: Any, redundant: list[Redundant]) -> None:
    for attributes in ATTRIBUTES:
        own = [one for one in redundant if one.attributes == attributes]
        across, up = [one.rows for one in own], [100 * one.removed for one in own]
        panel.plot(across, up, "-", color=COLOURS[attributes], marker=MARKERS[attributes], label=f"m = {attributes}")
    panel.axhline(80, color="#888888", linestyle="--", linewidth=1)
    panel.annotate("published: 80 to 100%", (10, 80), xytext=(0, -12), textcoords="offset points", color="#666666")
    panel.set_ylim(70, 101.5)
    tidy(panel, "1.b: redundant rows that the minimised set leaves out", "rows k", "percent")
    panel.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.02))


def _draw_needed(panel: Any, redundant: list[Redundant]) -> None:
    for attributes in ATTRIBUTES:
        own = [one for one in redundant if one.attributes == attributes]
        across = [one.rows for one in own]
        colour, marker = COLOURS[attributes], MARKERS[attributes]
        panel.plot(across, [one.before for one in own], "--", color=colour, marker=marker, markersize=4, alpha=0.6)
        panel.plot(across, [one.after for one in own], "-", color=colour, marker=marker)
    panel.plot([], [], "--", color="#444444", label="all rows")
    panel.plot([], [], "-", color="#444444", label="minimised set")
    panel.set_ylim(0, 20)
    tidy(panel, "1.b: points d that delta = 1e-10 asks for (printed estimate)", "rows k", "log10 of d")
    panel.legend(frameon=False, ncols=2, loc="upper left")


def _draw_guesses(panel: Any, extreme: list[Extreme]) -> None:
    across = [100 * one.gap for one in extreme]
    for at, (delta, colour, marker) in enumerate(zip(DELTAS, (RED, ORANGE, BLUE), "^so", strict=True)):
        up = [one.guesses[at] for one in extreme]
        panel.plot(across, up, "-", color=colour, marker=marker, label=f"delta = {delta:g}")
    panel.plot(across, [100 / gap for gap in across], ":", color="#666666", label="1 / gap")
    panel.set_ylim(0)
    tidy(panel, "2.c: random points tried until a witness is found", "gap, percent of the width", "points, mean")
    panel.legend(frameon=False)


def _draw_false(panel: Any, extreme: list[Extreme]) -> None:
    across = [100 * one.gap for one in extreme]
    for at, (delta, colour, marker) in enumerate(zip(DELTAS, (RED, ORANGE, BLUE), "^so", strict=True)):
        up = [one.false_covers[at] for one in extreme]
        panel.plot(across, up, "-", color=colour, marker=marker, label=f"random, delta = {delta:g}")
    panel.plot(across, [one.exact_wrong for one in extreme], "--", color=GREEN, marker="x", label="exact search")
    panel.axhline(extreme[0].runs * DELTAS[0], color="#888888", linestyle=":", linewidth=1, label="allowed by 1e-3")
    panel.set_yscale("symlog", linthresh=1)
    panel.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    panel.set_ylim(-0.15, 2 * max(1, *(max(one.false_covers) for one in extreme)))
    title = f"2.c: wrong covers in {extreme[0].runs:,} runs (printed estimate)"
    tidy(panel, title, "gap, percent of the width", "wrong answers")
    panel.legend(frameon=False)


def draw_growth(figure: Any, growths: list[Growth]) -> None:
    """Draw active sets as they grow, and their sizes as shares of the pairwise one."""
    panels = figure.subplots(2, len(RANGES))
    for at, (name, ranges) in enumerate(RANGES.items()):
        own = [one for one in growths if one.ranges == name]
        what = f"{name} ranges (width {ranges.mean:g} ± {ranges.deviation:g})"
        _draw_sizes(panels[0][at], own, what)
        _draw_ratios(panels[1][at], own, what)


def _draw_sizes(panel: Any, growths: list[Growth], what: str) -> None:
    for one in growths:
        for way, style in STYLES.items():
            panel.plot(one.marks, one.active[way], style, color=COLOURS[one.attributes], linewidth=1.8)
        place = (one.marks[-1], one.active["pairwise"][-1])
        panel.annotate(
            f"m={one.attributes}", place, xytext=(4, -4), textcoords="offset points", color=COLOURS[one.attributes]
        )
    for way, style in STYLES.items():
        panel.plot([], [], style, color="#444444", label=way)
    panel.set_xlim(0, growths[0].marks[-1] * 1.08)
    panel.set_ylim(0)
    tidy(panel, f"Active subscriptions, {what}", "subscriptions so far", "active")
    panel.legend(frameon=False, loc="upper left")


def _draw_ratios(panel: Any, growths: list[Growth], what: str) -> None:
    for one in growths:
        for way in ("group", "group, open"):
            up = [one.ratio(way, at) for at in range(len(one.marks))]
            closed = way == "group"
            label = f"m = {one.attributes}" if closed else None
            marker = MARKERS[one.attributes] if closed else None
            panel.plot(
                one.marks, up, STYLES[way], color=COLOURS[one.attributes], marker=marker, markersize=4, label=label
            )
    panel.plot([], [], ":", color="#444444", label="open schema")
    panel.set_xlim(0, growths[0].marks[-1] * 1.08)
    panel.set_ylim(0, 104)
    tidy(panel, f"Group / pairwise, {what}", "subscriptions so far", "percent")
    panel.legend(frameon=False, loc="lower left", ncols=2)


# The study

SHOWN_ROWS = (100, 310)
SHOWN_GAPS = (0.005, 0.01, 0.02, 0.03)


def run(settings: Settings) -> Outcome:
    """Measure the scenarios and the comparison."""
    generator = np.random.default_rng(settings.seed)
    redundant = redundant_covers(settings, generator)
    quick = settled_quickly(settings, generator)
    tried = points_of_non_covers(settings, generator)
    extreme = extreme_non_covers(settings, generator)
    sound = sound_false_covers(settings, generator)
    chain = simulated_chain(settings, generator)
    growths = growths_of(settings)
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
    for attributes in SCENARIO_ATTRIBUTES:
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
        for way in WAYS:
            said, least, most = PUBLISHED.get((one.attributes, way), (None, 0, 0))
            share = one.share(way)
            holds = least <= share <= most if compared and said is not None else None
            rows.append(Finding(f"{name}: {way}, active %", said, share, holds))
        spread = " / ".join(f"{one.spread[way]:.1f}" for way in WAYS)
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
