"""`rankcast place`: which broker serves which subscriber, by one algorithm or several, compared by the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from rankcast.cli.place_files import Named, measured, read_problem
from rankcast.cli.place_plan import plan_of
from rankcast.cli.streams import write_json
from rankcast.cli.terminal import console, progress, table
from rankcast.model.errors import InvalidValueError, shown
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.audit import Audit, verify
from rankcast.placement.solution import Placement
from rankcast.storage.placement_plans import save_placement_plan

DEFAULT = (Algorithm.GREEDY_OFFLINE, Algorithm.LOCAL_SEARCH)
"""What runs when nothing is asked for: the quick one, and the best one."""

SHOWN = 5
"""Notes on the problem, and limits that the best plan breaks."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What one algorithm made, what it is worth, and how long it took, compiling included."""

    algorithm: Algorithm
    placement: Placement
    audit: Audit
    seconds: float


def checked_algorithms(names: Sequence[str]) -> tuple[Algorithm, ...]:
    """Return the algorithms that were named, each once."""
    known = {one.value: one for one in Algorithm}
    for name in names:
        if name not in known and name != "all":
            raise InvalidValueError(f"--algorithm: there is no {shown(name)}; expected {', '.join(known)} or all")
    if "all" in names:
        return tuple(Algorithm)
    return tuple(known[name] for name in dict.fromkeys(names)) or DEFAULT


def place_file(
    file: Path, algorithms: Sequence[Algorithm], out: Path | None, seed: int, moves: int | None, *, as_json: bool
) -> int:
    """Run the command; return 1 when no algorithm keeps every limit."""
    named = read_problem(file)
    results = []
    with progress("placing", total=len(algorithms), quiet=as_json) as bar:
        for algorithm in bar.over(algorithms):
            began = perf_counter()
            made = place(named.problem, algorithm, np.random.default_rng(seed), moves)
            results.append(Result(algorithm, made, verify(named.problem, made), perf_counter() - began))
    best = min(results, key=lambda one: (len(one.audit.violations), one.audit.bandwidth))
    if out is not None:
        save_placement_plan(out, plan_of(named, best.algorithm.value, best.placement, best.audit))
    if as_json:
        documents = [{"algorithm": one.algorithm.value, **measured(one.audit)} for one in results]
        write_json({"best": best.algorithm.value, "algorithms": documents, "notes": list(named.notes)})
    else:
        _show(named, results, best, out)
    return 0 if best.audit.is_feasible else 1


def _show(named: Named, results: Sequence[Result], best: Result, out: Path | None) -> None:
    problem = named.problem
    columns = {
        "Algorithm": "left",
        "Traffic": "right",
        "Load factor": "right",
        "RMS delay": "right",
        "Seconds": "right",
        "Limits": "rest",
    }
    rows = [
        (
            one.algorithm.value,
            f"{one.audit.bandwidth:,.6g}",
            f"{one.audit.load_factor:.2f}",
            f"{one.audit.rms_delay:.2f}",
            f"{one.seconds:.1f}",
            "kept" if one.audit.is_feasible else f"broken: {', '.join(sorted(r.value for r in one.audit.broken()))}",
        )
        for one in results
    ]
    shown_on = console()
    title = f"{len(problem):,} subscribers on {len(problem.tree.leaves):,} leaves of {len(problem.tree):,} brokers"
    shown_on.print(table(title, columns, rows))
    for message in (*named.notes[:SHOWN], *(violation.message for violation in best.audit.violations[:SHOWN])):
        shown_on.print(message)
    if len(named.notes) > SHOWN:
        shown_on.print(f"{len(named.notes) - SHOWN:,} more notes; --json has all of them")
    if out is not None:
        shown_on.print(f"{out}: the plan of {best.algorithm.value}")
