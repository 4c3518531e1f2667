"""How long does the bounded queue have to be? Figure 9 of the paper, and the correction of its length.

The paper takes the chance of being among the best k at the end of an event's life for the chance of ever being there.
Both are simulated here for events that arrive at a given position, in a window without bound: older and better events
leave at uniform times, newer and better ones come at a rate that follows from the position.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, RED, mark_numbers, tidy
from rankcast_lab.engines.topkw_dense_lengths import SIGMA, chance_at_end, last_position, queue_length
from rankcast_lab.studies.findings import Finding, Outcome, Settings

WINDOWS = (10_000, 100_000, 1_000_000, 1_000_000_000)
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
SIMULATED_K = 10
POSITIONS = (11, 13, 15, 17, 19, 21, 23)


def run(settings: Settings) -> Outcome:
    """Compute lengths for several windows, and simulate the two chances."""
    trials = 4_000 if settings.quick else 60_000
    settings.say("lengths")
    lengths = {window: [last_position(k, SIGMA, window) for k in KS] for window in WINDOWS}
    corrected = [queue_length(k) for k in KS]
    generator = np.random.default_rng(settings.seed)
    chances = []
    for position in POSITIONS:
        settings.say(f"simulating position {position}")
        chances.append(simulated(generator, position, SIMULATED_K, trials))
    return Outcome(
        "topkw-queue",
        "Length of the bounded queue",
        _findings(lengths, corrected, chances, trials),
        (
            f"Lengths for sigma = {SIGMA}. A position is that of an event in its window when it arrives; "
            f"the chances are simulated for k = {SIMULATED_K} with {trials:,} trials each.",
            "The length hardly depends on the window, as published. The chance of ever being among the best k is about "
            "twice that of being there at the end, which the published length is made from: the corrected length uses "
            "half of sigma and a window without bound.",
        ),
        lambda figure: _draw(figure, lengths, corrected, chances),
    )


def simulated(generator: np.random.Generator, position: int, k: int, trials: int) -> tuple[float, float]:
    """Return the chances that an event is among the best k at the end of its life, and ever after its arrival."""
    rates = generator.gamma(position, 1, trials)
    coming = generator.poisson(rates)
    at_end = ever = 0
    for newer in coming:
        times = np.concatenate([generator.random(position - 1), generator.random(newer)])
        moves = np.concatenate([np.full(position - 1, -1), np.full(newer, 1)])
        better = position - 1 + np.cumsum(moves[np.argsort(times)])
        at_end += newer < k
        ever += len(better) > 0 and better.min() < k
    return float(at_end / trials), float(ever / trials)


def _findings(
    lengths: dict[int, list[int]], corrected: list[int], chances: list[tuple[float, float]], trials: int
) -> tuple[Finding, ...]:
    small, large = lengths[WINDOWS[0]], lengths[WINDOWS[-1]]
    widest = max(after / before - 1 for before, after in zip(small, large, strict=True))
    tails = [length - k for k, length in zip(KS, large, strict=True)]
    growth = tails[-1] / tails[-2]
    position = POSITIONS[2]
    end, ever = chances[2]
    exact = chance_at_end(position, SIMULATED_K)
    noise = 4 * (exact / trials) ** 0.5
    return (
        Finding("largest growth of the length, m = 10^4 to 10^9", "almost none", f"{widest:.1%}", widest < 0.05),
        Finding("tail at k=2000 / tail at k=1000", "sub-linear: below 2", growth, growth < 2),
        Finding.near(f"chance at the end, position {position}, k={SIMULATED_K}", exact, end, noise),
        Finding(f"chance ever / at the end, position {position}", "1 (taken as equal)", ever / end, ever / end < 1.2),
        *(
            Finding(f"length for k={k}, published formula / corrected", None, f"{length} / {other}", None)
            for k, length, other in zip(KS, large, corrected, strict=True)
        ),
    )


def _draw(figure: Any, lengths: dict[int, list[int]], corrected: list[int], chances: list[tuple[float, float]]) -> None:
    left, right = figure.subplots(1, 2)
    for (window, found), colour, line in zip(
        lengths.items(), (GREEN, ORANGE, RED, BLUE), (":", "--", "-.", "-"), strict=True
    ):
        tails = [length - k for k, length in zip(KS, found, strict=True)]
        left.plot(
            KS, tails, line, color=colour, label=f"published formula, m = $10^{len(str(window)) - 1}$", linewidth=1.8
        )
    left.plot(KS, [length - k for k, length in zip(KS, corrected, strict=True)], "o", color=BLACK, label="corrected")
    left.set_xscale("log")
    left.set_yscale("log")
    mark_numbers(left.xaxis, [1, 10, 100, 1000])
    mark_numbers(left.yaxis, [5, 10, 20, 50, 100, 200])
    tidy(left, "Tail of the queue: its length beyond k", "k", "events")
    left.legend(frameon=False)
    formula = [chance_at_end(position, SIMULATED_K) for position in POSITIONS]
    right.plot(POSITIONS, formula, color=BLUE, label="at the end, formula")
    right.plot(POSITIONS, [2 * chance for chance in formula], "--", color=RED, label="twice the formula")
    right.plot(POSITIONS, [end for end, _ in chances], "o", color=BLUE, label="at the end, simulated")
    right.plot(POSITIONS, [ever for _, ever in chances], "s", color=RED, label="ever, simulated")
    right.set_yscale("log")
    tidy(right, f"Chance of being among the best {SIMULATED_K}", "position on arrival", "probability")
    right.legend(frameon=False)
