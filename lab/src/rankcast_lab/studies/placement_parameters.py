"""What the parameters of subscriber assignment do: Figures 11b to 15 and Table 3 of the paper, on a smaller problem.

The figures are pictures without numbers, so what is held against the measurements is what the text says of them. A
statement that something falls holds when its last value is below its first.
Paper: subscriber assignment for wide-area content-based publish/subscribe, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.problem.audit import Audit, verify
from rankcast.placement.problem.problem import Latency, PlacementProblem, limits_of_delay
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.filter_assignment import Sampling
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.programme.linear_programme import Products, superinterests
from rankcast.placement.programme.slp import place_by_programme
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast.samples.placement import DELAY, Network, Workload, network, problem_on
from rankcast_lab.engines.greedy_eviction import Again, greedy_with_eviction
from rankcast_lab.studies.findings import Finding, Outcome, Say, Settings

# Runs

WORKLOAD = Workload.TOPICS_HH
"""The one that the paper varies parameters on."""

GREEDY_ONLINE, GREEDY, PROGRAMME, SEARCH = "Gr", "Gr*", "SLP1", "local search"
BOXES = (1, 2, 3, 4, 6)
DELAYS = (0.1, 0.2, 0.3, 0.5, 1.0)
DISTRIBUTIONS = ((4, 1, 4), (1, 1, 1), (1, 4, 1), (8, 1, 2))
LOAD_SAMPLES = (1, 3, 10, 30)
SUPERINTERESTS = (1, 2, 5, 10)
CAP = 1.5
"""With other broker distributions loads may be so many times as high as they have to be."""

BROKER_DRAWS = 9
"""Draws of broker sites for each distribution, of which the median is taken: one alone may be any."""

STEPS_PER_SUBSCRIBER = 20
"""How often a subscriber is placed on average before greedy placement with eviction gives up."""

MOVES_PER_SUBSCRIBER = 5


@dataclass(frozen=True, slots=True)
class Size:
    """How many subscribers and brokers there are."""

    subscribers: int
    brokers: int


@dataclass(slots=True)
class Sweeps:
    """What was measured, by parameter and algorithm."""

    traffic_by_boxes: dict[int, dict[str, float]] = field(default_factory=dict)
    candidates_by_delay: dict[float, float] = field(default_factory=dict)
    traffic_by_delay: dict[float, dict[str, float]] = field(default_factory=dict)
    factors: dict[tuple[int, ...], dict[str, float]] = field(default_factory=dict)
    factor_by_sample: dict[int, float] = field(default_factory=dict)
    traffic_by_supers: dict[int, float] = field(default_factory=dict)
    boxes_by_supers: dict[int, int] = field(default_factory=dict)
    last_hop: dict[Latency, dict[str, float]] = field(default_factory=dict)
    homeless: dict[str, int] = field(default_factory=dict)
    overloads: dict[str, float] = field(default_factory=dict)
    least_factor: float = 0.0


def swept(size: Size, seed: int, say: Say) -> Sweeps:
    """Vary all parameters."""
    drawn = network(size.brokers, np.random.default_rng(seed))
    problem = _problem(drawn, size, seed)
    found = Sweeps()
    for most in BOXES:
        say(f"alpha {most}")
        changed = replace(problem, alpha=most)
        found.traffic_by_boxes[most] = {
            name: audit.bandwidth for name, audit in _by_all(changed, seed, (GREEDY_ONLINE, GREEDY, PROGRAMME, SEARCH))
        }
    for delay in DELAYS:
        say(f"delay {delay}")
        changed = replace(problem, limits=limits_of_delay(problem.tree, problem.sites, delay))
        found.candidates_by_delay[delay] = float(changed.candidates[changed.site_of].mean())
        found.traffic_by_delay[delay] = {
            name: audit.bandwidth for name, audit in _by_all(changed, seed, (GREEDY, SEARCH))
        }
    for latency in Latency:
        say(f"latency limits on the {latency.value}")
        changed = replace(problem, limits=limits_of_delay(problem.tree, problem.sites, DELAY, latency), latency=latency)
        relaxed = _relaxed(changed)
        found.last_hop[latency] = {
            name: audit.bandwidth for name, audit in _by_all(relaxed, seed, (GREEDY, SEARCH))
        } | {"candidates": float(changed.candidates[changed.site_of].mean()), "least load": feasible_factor(changed)}
    for distribution in DISTRIBUTIONS:
        say(f"brokers {':'.join(map(str, distribution))}")
        found.factors[distribution] = _factors(_typical(drawn, distribution, size, seed), seed)
    for count in LOAD_SAMPLES:
        say(f"a load sample of {count} per broker")
        found.factor_by_sample[count] = _programmed(problem, seed, Sampling(load_sample=count)).load_factor
    for count in SUPERINTERESTS:
        say(f"{count} superinterests per broker")
        found.traffic_by_supers[count] = _programmed(problem, seed, Sampling(superinterests=count)).bandwidth
        found.boxes_by_supers[count] = _candidate_boxes(problem, count, seed)
    say("greedy with eviction")
    _evict(problem, seed, found)
    return found


def _problem(drawn: Network, size: Size, seed: int) -> PlacementProblem:
    tree = BrokerTree.star(drawn.publisher, drawn.positions)
    random = np.random.default_rng([seed, 1])
    return problem_on(WORKLOAD, size.subscribers, drawn, tree, random, DELAY, *WORKLOAD.betas)


def _by_all(problem: PlacementProblem, seed: int, names: tuple[str, ...]) -> Iterator[tuple[str, Audit]]:
    algorithms = {
        GREEDY_ONLINE: Algorithm.GREEDY_ONLINE,
        GREEDY: Algorithm.GREEDY_OFFLINE,
        PROGRAMME: Algorithm.PROGRAMME,
        SEARCH: Algorithm.LOCAL_SEARCH,
    }
    for name in names:
        made = place(problem, algorithms[name], np.random.default_rng([seed, 2]), MOVES_PER_SUBSCRIBER * len(problem))
        yield name, verify(problem, made)


def _relaxed(problem: PlacementProblem) -> PlacementProblem:
    """Return a problem with load limits that can be kept: last hops leave sites with few brokers."""
    least = feasible_factor(problem) * 1.05
    return replace(problem, beta=max(problem.beta, least), beta_max=max(problem.beta_max, least * CAP))


def _typical(drawn: Network, distribution: tuple[int, ...], size: Size, seed: int) -> PlacementProblem:
    """Return the problem, of several with brokers at other sites, whose least possible load factor is the median."""
    random = np.random.default_rng([seed, 3])
    problems = [
        _problem(_with_brokers(drawn, distribution, size.brokers, random), size, seed) for _ in range(BROKER_DRAWS)
    ]
    return sorted(problems, key=feasible_factor)[BROKER_DRAWS // 2]


def _with_brokers(drawn: Network, distribution: tuple[int, ...], brokers: int, random: np.random.Generator) -> Network:
    """Return the network with its brokers at other sites, so many in each region."""
    shares = np.array(distribution) / sum(distribution)
    counts = np.floor(shares * brokers).astype(int)
    counts[0] += brokers - counts.sum()
    sites = [np.flatnonzero(drawn.regions == region) for region in range(len(counts))]
    chosen = [random.choice(own, min(count, len(own)), replace=False) for own, count in zip(sites, counts, strict=True)]
    return replace(drawn, brokers=np.concatenate(chosen))


def _factors(problem: PlacementProblem, seed: int) -> dict[str, float]:
    """Return the load factors of Balance, of the nearest broker for everybody, and of the programme in between."""
    found = {}
    for name, algorithm in (("Balance", Algorithm.BALANCE), ("Closest-b", Algorithm.CLOSEST_WITHOUT_BALANCE)):
        found[name] = verify(problem, place(problem, algorithm, np.random.default_rng(seed))).load_factor
    capped = replace(problem, beta=max(1.0, found["Balance"]), beta_max=max(1.0, found["Balance"]) * CAP)
    found[PROGRAMME] = _programmed(capped, seed, Sampling()).load_factor
    return found


def _programmed(problem: PlacementProblem, seed: int, sampling: Sampling) -> Audit:
    return verify(problem, place_by_programme(problem, np.random.default_rng([seed, 2]), sampling).placement)


def _candidate_boxes(problem: PlacementProblem, per_broker: int, seed: int) -> int:
    """Return how many products of intervals there are over superinterests of all demands."""
    pairs = np.unique(np.column_stack([problem.interest_of, problem.site_of]), axis=0)
    parts = problem.interests.hulls[pairs[:, 0]]
    count = per_broker * len(problem.tree)
    supers = superinterests(parts, problem.sites[pairs[:, 1]], count, np.random.default_rng(seed))
    return int(Products.of(supers).counts.prod())


def _evict(problem: PlacementProblem, seed: int, found: Sweeps) -> None:
    """Run greedy placement with eviction, beside the one without."""
    found.least_factor = feasible_factor(problem)
    online = verify(problem, place(problem, Algorithm.GREEDY_ONLINE, np.random.default_rng(seed)))
    found.overloads[GREEDY_ONLINE] = online.load_factor
    for again in Again:
        steps = STEPS_PER_SUBSCRIBER * len(problem)
        made = greedy_with_eviction(problem, np.random.default_rng([seed, 4]), again, steps)
        name = f"{GREEDY_ONLINE}, evicted {again.value}"
        found.homeless[name] = made.homeless
        found.overloads[name] = verify(problem, made.placement).load_factor


# Pictures

LOOKS: Mapping[str, tuple[str, str]] = {
    GREEDY_ONLINE: (ORANGE, "s"),
    GREEDY: (GREEN, "^"),
    PROGRAMME: (RED, "D"),
    SEARCH: (BLUE, "o"),
    "Balance": (BLACK, "v"),
    "Closest-b": (PURPLE, "P"),
}


def draw_sweeps(figure: Any, found: Sweeps) -> None:
    """Draw all panels."""
    panels = figure.subplots(2, 3)
    _lines(panels[0, 0], found.traffic_by_boxes, "Boxes of a filter", "alpha", "traffic")
    _lines(panels[0, 1], found.traffic_by_delay, "Maximum delay", "delay", "traffic")
    beside = panels[0, 1].twinx()
    shares = found.candidates_by_delay
    beside.plot(list(shares), [100 * share for share in shares.values()], color="#9A9A9A", linestyle=":")
    beside.set_ylabel("candidate brokers, % (dotted)", color="#6A6A6A")
    beside.set_ylim(bottom=0)
    beside.spines[["top"]].set_visible(False)
    _bars(panels[0, 2], found)
    samples = found.factor_by_sample
    panels[1, 0].plot(list(samples), list(samples.values()), color=RED, marker="D")
    for bound, colour in zip(WORKLOAD.betas, (ORANGE, BLACK), strict=True):
        panels[1, 0].axhline(bound, color=colour, linestyle="--", linewidth=1)
    _even_ticks(panels[1, 0], list(samples))
    tidy(panels[1, 0], "Load sample; dashed: limits", "|Sb| / |B|", "load factor of SLP1")
    supers = found.traffic_by_supers
    panels[1, 1].plot(list(supers), list(supers.values()), color=RED, marker="D")
    panels[1, 1].set_ylim(0, 1.1 * max(supers.values()))
    panels[1, 1].yaxis.set_major_formatter("{x:,.0f}")
    tidy(panels[1, 1], "Superinterests", "superinterests / |B|", "traffic of SLP1")
    _evictions(panels[1, 2], found)


def _lines(panel: Any, by: Mapping[Any, Mapping[str, float]], title: str, across: str, up: str) -> None:
    for name in next(iter(by.values())):
        colour, marker = LOOKS[name]
        panel.plot(list(by), [traffic[name] for traffic in by.values()], color=colour, marker=marker, label=name)
    panel.set_ylim(bottom=0)
    panel.legend(fontsize=8, frameon=False, loc="upper center")
    panel.yaxis.set_major_formatter("{x:,.0f}")
    tidy(panel, title, across, up)


def _bars(panel: Any, found: Sweeps) -> None:
    names = list(next(iter(found.factors.values())))
    for at, name in enumerate(names):
        places = [place + 0.25 * (at - 1) for place in range(len(found.factors))]
        heights = [factors[name] for factors in found.factors.values()]
        panel.bar(places, heights, 0.22, color=LOOKS[name][0], label=name)
    panel.set_xticks(range(len(found.factors)), [":".join(map(str, key)) for key in found.factors])
    panel.legend(fontsize=8, frameon=False)
    tidy(panel, "Brokers by region; subscribers 4:1:4", "brokers", "load factor")


def _evictions(panel: Any, found: Sweeps) -> None:
    names = list(found.overloads)
    panel.barh(range(len(names)), [found.overloads[name] for name in names], 0.5, color=ORANGE)
    panel.axvline(WORKLOAD.betas[1], color=BLACK, linestyle="--", linewidth=1, label="limit")
    panel.axvline(found.least_factor, color=BLUE, linestyle=":", linewidth=1.5, label="least possible")
    panel.set_yticks(range(len(names)), names)
    panel.set_xlim(0, 1.5 * max(found.overloads.values()))
    panel.legend(fontsize=8, frameon=False, loc="upper right")
    tidy(panel, "Greedy with eviction", "load factor", "")


def _even_ticks(panel: Any, numbers: Sequence[int]) -> None:
    panel.set_xscale("log")
    panel.set_xticks(numbers, [str(number) for number in numbers])
    panel.minorticks_off()


# The study

FULL, QUICK = Size(2000, 40), Size(200, 16)
CANDIDATES, CANDIDATES_MARGIN = 0.17, 0.03
"""The published share of candidate brokers at a delay of 0.3."""


def run(settings: Settings) -> Outcome:
    """Vary every parameter on one problem."""
    size = QUICK if settings.quick else FULL
    found = swept(size, settings.seed, settings.say)
    return Outcome(
        "placement-parameters",
        "Placement: what parameters do",
        tuple(findings(found, compared=not settings.quick)),
        remarks(size),
        lambda figure: draw_sweeps(figure, found),
        size=(14.0, 7.2),
    )


def findings(found: Sweeps, *, compared: bool) -> Iterator[Finding]:
    """Yield all rows; a quick run judges nothing."""
    for one in (
        *_boxes(found),
        *_delays(found),
        *_brokers(found),
        *_programmes(found),
        *_hops(found),
        *_evicted(found),
    ):
        yield one if compared else Finding(one.quantity, one.published, one.measured, None)


def _boxes(found: Sweeps) -> Iterator[Finding]:
    by = found.traffic_by_boxes
    least, most = min(by), max(by)
    for name in (PROGRAMME, GREEDY_ONLINE, GREEDY, SEARCH):
        said = "falls" if name != SEARCH else None
        for alpha, traffic in by.items():
            yield Finding(f"traffic of {name}, alpha {alpha}", None, traffic[name], None)
        ratio = by[most][name] / by[least][name]
        holds = None if said is None else ratio < 1
        yield Finding(f"traffic of {name}, alpha {most} over {least}", said, ratio, holds)
    for name in (PROGRAMME, GREEDY_ONLINE, GREEDY):
        early, late = by[1][name] - by[3][name], by[3][name] - by[most][name]
        text = f"1 to 3 saves {early:,.0f}, 3 to {most} saves {late:,.0f}"
        yield Finding(f"{name}: more than 3 boxes help little", "diminishing", text, late < early)
    ratios = {alpha: by[alpha][PROGRAMME] / by[alpha][GREEDY] for alpha in (1, 3)}
    text = f"{ratios[1]:.2f} at 1, {ratios[3]:.2f} at 3"
    yield Finding("SLP1 over Gr*: worse at low alpha", "more vulnerable", text, ratios[1] > ratios[3])


def _delays(found: Sweeps) -> Iterator[Finding]:
    shares = found.candidates_by_delay
    for delay, share in shares.items():
        if delay == 0.3:
            yield Finding.near(f"share of candidate brokers, delay {delay}", CANDIDATES, share, CANDIDATES_MARGIN)
        else:
            yield Finding(f"share of candidate brokers, delay {delay}", None, share, None)
    by = found.traffic_by_delay
    for name in (GREEDY, SEARCH):
        for delay, traffic in by.items():
            yield Finding(f"traffic of {name}, delay {delay}", None, traffic[name], None)
        ratio = by[max(by)][name] / by[min(by)][name]
        said = "falls" if name == GREEDY else None
        yield Finding(
            f"traffic of {name}, delay {max(by)} over {min(by)}", said, ratio, None if said is None else ratio < 1
        )


def _brokers(found: Sweeps) -> Iterator[Finding]:
    alike = (4, 1, 4)
    for distribution, factors in found.factors.items():
        named = ":".join(map(str, distribution))
        for name, factor in factors.items():
            yield Finding(f"load factor of {name}, brokers {named}", None, factor, None)
        text = ", ".join(f"{factors[name]:.2f}" for name in ("Balance", PROGRAMME, "Closest-b"))
        between = factors["Balance"] <= factors[PROGRAMME] * (1 + 1e-9) and factors[PROGRAMME] <= factors["Closest-b"]
        yield Finding(f"SLP1 between Balance and Closest-b, brokers {named}", "in between", text, between)
    own = found.factors[alike]["Balance"]
    yield Finding("Balance, brokers as subscribers", "approximately 1", own, own <= 1.1)
    others = {key: factors["Balance"] for key, factors in found.factors.items() if key not in (alike, (1, 4, 1))}
    text = ", ".join(f"{factor:.2f}" for factor in others.values())
    yield Finding("Balance, brokers unlike subscribers", "larger", text, all(one > own for one in others.values()))
    near, apart = (found.factors[key]["Balance"] for key in ((1, 4, 1), (8, 1, 2)))
    text = f"{near:.2f}, elsewhere {apart:.2f}"
    yield Finding("Balance, more brokers near the publisher", "improved", text, near < apart)


def _programmes(found: Sweeps) -> Iterator[Finding]:
    beta_max = WORKLOAD.betas[1]
    for count, factor in found.factor_by_sample.items():
        said = f"at most {beta_max:g}" if count >= 10 else None
        yield Finding(f"load factor, |Sb| = {count}|B|", said, factor, None if said is None else factor <= beta_max)
    traffic = found.traffic_by_supers
    for count, value in traffic.items():
        yield Finding(f"traffic of SLP1, {count}|B| superinterests", None, value, None)
    least, most = min(traffic), max(traffic)
    ratio = traffic[most] / traffic[least]
    yield Finding(f"traffic of SLP1, {most}|B| over {least}|B| superinterests", "gradually falls", ratio, ratio < 1)
    boxes = found.boxes_by_supers
    for count, number in boxes.items():
        yield Finding(f"candidate boxes, {count}|B| superinterests", None, number, None)
    yield Finding(
        "candidate boxes grow with superinterests", "grow", boxes[most] / boxes[least], boxes[most] > boxes[least]
    )


def _hops(found: Sweeps) -> Iterator[Finding]:
    for latency in Latency:
        for name, value in found.last_hop[latency].items():
            what = name if name in ("candidates", "least load") else f"traffic of {name}"
            yield Finding(f"limits on the {latency.value}: {what}", None, value, None)


def _evicted(found: Sweeps) -> Iterator[Finding]:
    beta_max = WORKLOAD.betas[1]
    yield Finding("least load factor that is possible", None, found.least_factor, None)
    for name, factor in found.overloads.items():
        yield Finding(f"{name}: load factor", f"above {beta_max:g}", factor, factor > beta_max)
    for name, homeless in found.homeless.items():
        yield Finding(f"{name}: subscribers without a place", "some", homeless, homeless > 0)


def remarks(size: Size) -> tuple[str, ...]:
    """Return what has to be known to read the rows."""
    return (
        f"Workload {WORKLOAD.value}, {size.subscribers:,} subscribers on {size.brokers} brokers of one level, where "
        "the paper has 100,000 on 100: relations can be compared, numbers cannot. One problem from one seed; the paper "
        "averages five runs.",
        "The network is drawn until a sixth of the brokers are candidates at a delay of 0.3 and load can be balanced, "
        "so these two rows cannot fail by much at 100 brokers; with fewer brokers a larger share is taken.",
        f"Broker sites of a distribution are drawn {BROKER_DRAWS} times, and the draw with the median load factor of "
        "Balance is taken. A first run with a single draw had an outlier of 4.1 for 4:1:4. Closest-b heeds no latency "
        "limits, so that it can have less load than Balance, which does.",
        "Limits on the last hop: the paper says that its approach extends to them and measures nothing. Here the last "
        "hop may be a share of 0.3 longer than to the nearest broker, which leaves few candidates; load limits are "
        "relaxed to what can be kept.",
        "Greedy placement with eviction takes one subscriber at random out of one full candidate, and gives up after "
        f"{STEPS_PER_SUBSCRIBER} placements per subscriber; the paper does not say how many are taken out.",
    )
