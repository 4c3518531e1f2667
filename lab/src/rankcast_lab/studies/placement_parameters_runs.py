"""What parameters do to placement: one problem, one parameter varied at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.audit import Audit, verify
from rankcast.placement.filter_assignment import Sampling
from rankcast.placement.filter_candidates import Products, superinterests
from rankcast.placement.flow import feasible_factor
from rankcast.placement.problem import Latency, Problem, limits_of_delay
from rankcast.placement.slp import placed_by_programme
from rankcast.placement.tree import BrokerTree
from rankcast.samples.placement import DELAY, Network, Workload, network, problem_on
from rankcast_lab.engines.greedy_eviction import Again, greedy_with_eviction
from rankcast_lab.studies.findings import Say

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


def _problem(drawn: Network, size: Size, seed: int) -> Problem:
    tree = BrokerTree.star(drawn.publisher, drawn.positions)
    random = np.random.default_rng([seed, 1])
    return problem_on(WORKLOAD, size.subscribers, drawn, tree, random, DELAY, *WORKLOAD.betas)


def _by_all(problem: Problem, seed: int, names: tuple[str, ...]) -> Iterator[tuple[str, Audit]]:
    algorithms = {
        GREEDY_ONLINE: Algorithm.GREEDY_ONLINE,
        GREEDY: Algorithm.GREEDY_OFFLINE,
        PROGRAMME: Algorithm.PROGRAMME,
        SEARCH: Algorithm.LOCAL_SEARCH,
    }
    for name in names:
        made = place(problem, algorithms[name], np.random.default_rng([seed, 2]), MOVES_PER_SUBSCRIBER * len(problem))
        yield name, verify(problem, made)


def _relaxed(problem: Problem) -> Problem:
    """Return a problem with load limits that can be kept: last hops leave sites with few brokers."""
    least = feasible_factor(problem) * 1.05
    return replace(problem, beta=max(problem.beta, least), beta_max=max(problem.beta_max, least * CAP))


def _typical(drawn: Network, distribution: tuple[int, ...], size: Size, seed: int) -> Problem:
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


def _factors(problem: Problem, seed: int) -> dict[str, float]:
    """Return the load factors of Balance, of the nearest broker for everybody, and of the programme in between."""
    found = {}
    for name, algorithm in (("Balance", Algorithm.BALANCE), ("Closest-b", Algorithm.CLOSEST_WITHOUT_BALANCE)):
        found[name] = verify(problem, place(problem, algorithm, np.random.default_rng(seed))).load_factor
    capped = replace(problem, beta=max(1.0, found["Balance"]), beta_max=max(1.0, found["Balance"]) * CAP)
    found[PROGRAMME] = _programmed(capped, seed, Sampling()).load_factor
    return found


def _programmed(problem: Problem, seed: int, sampling: Sampling) -> Audit:
    return verify(problem, placed_by_programme(problem, np.random.default_rng([seed, 2]), sampling).placement)


def _candidate_boxes(problem: Problem, per_broker: int, seed: int) -> int:
    """Return how many products of intervals there are over superinterests of all demands."""
    pairs = np.unique(np.column_stack([problem.interest_of, problem.site_of]), axis=0)
    parts = problem.interests.hulls[pairs[:, 0]]
    count = per_broker * len(problem.tree)
    supers = superinterests(parts, problem.sites[pairs[:, 1]], count, np.random.default_rng(seed))
    return int(Products.of(supers).counts.prod())


def _evict(problem: Problem, seed: int, found: Sweeps) -> None:
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
