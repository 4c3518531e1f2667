"""`rankcast place`: which broker serves which subscriber, by one algorithm or several, compared by the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from rankcast.cli.place_files import Named, measured, read_problem
from rankcast.cli.place_pictures import Drawn, draw_results
from rankcast.cli.place_plan import plan_of
from rankcast.cli.streams import counted, write_json
from rankcast.cli.terminal import console, progress, table
from rankcast.model.errors import InvalidValueError, shown
from rankcast.placement.algorithms import FEWEST_MOVES, MOVES_PER_SUBSCRIBER, Algorithm, place
from rankcast.placement.audit import Audit, verify
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.local_search import improved_within
from rankcast.placement.problem import TOLERANCE
from rankcast.placement.solution import Placement
from rankcast.placement.tree_design import designed
from rankcast.placement.warming import warm_up
from rankcast.storage.placement_plans import save_placement_plan

DEFAULT = (Algorithm.GREEDY_OFFLINE, Algorithm.LOCAL_SEARCH)
"""What runs when nothing is asked for: the quick one, and the best one."""

SHOWN = 5
"""Notes on the problem, and limits that the best plan breaks."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What `rankcast place` was asked for beside the problem: where the plan and pictures go, and how to search.

    `degree` asks for a designed tree, too, in which nobody has more children. With `seconds`, local search goes on for
    so long instead of a number of moves.
    """

    out: Path | None = None
    plots: Path | None = None
    seed: int = 0
    moves: int | None = None
    degree: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What one algorithm made, what it is worth, and how long it took, without compiling."""

    label: str
    named: Named
    placement: Placement
    audit: Audit
    seconds: float

    @property
    def order(self) -> tuple[int, float]:
        """Less is better: the fewest broken limits, then the least traffic."""
        return len(self.audit.violations), self.audit.bandwidth


def checked_algorithms(names: Sequence[str]) -> tuple[Algorithm, ...]:
    """Return the algorithms that were named, each once."""
    known = {one.value: one for one in Algorithm}
    for name in names:
        if name not in known and name != "all":
            raise InvalidValueError(f"--algorithm: there is no {shown(name)}; expected {', '.join(known)} or all")
    if "all" in names:
        return tuple(Algorithm)
    return tuple(known[name] for name in dict.fromkeys(names)) or DEFAULT


def place_file(file: Path, algorithms: Sequence[Algorithm], wishes: Wishes, *, as_json: bool) -> int:
    """Run the command; return 1 when no algorithm keeps every limit."""
    named = read_problem(file)
    with progress("compiling, once per installation", quiet=as_json):
        warm_up(dict.fromkeys((*algorithms, *(DEFAULT if wishes.degree is not None else ()))))
    results = [_placed(named, algorithm, wishes, quiet=as_json) for algorithm in algorithms]
    if wishes.degree is not None:
        results.append(_designed(named, wishes.degree, wishes, quiet=as_json))
    best = min(results, key=lambda one: one.order)
    if wishes.out is not None:
        save_placement_plan(wishes.out, plan_of(best.named, best.label, best.placement, best.audit))
    pictures = [] if wishes.plots is None else _draw(wishes.plots, results, best)
    if as_json:
        documents = [{"algorithm": one.label, **measured(one.audit), "seconds": one.seconds} for one in results]
        shown_files = {} if wishes.plots is None else {"plots": list(map(str, pictures))}
        write_json({"best": best.label, "algorithms": documents, "notes": list(named.notes), **shown_files})
    else:
        _show(named, results, best, wishes.out)
        for picture in pictures:
            console().print(f"wrote {picture}")
    return 0 if best.audit.is_feasible else 1


def _placed(named: Named, algorithm: Algorithm, wishes: Wishes, *, quiet: bool) -> Result:
    began = perf_counter()
    is_search = algorithm is Algorithm.LOCAL_SEARCH
    with progress(algorithm.value, total=100 if is_search else None, quiet=quiet) as bar:
        random = np.random.default_rng(wishes.seed)

        def tell(share: float, _: float) -> None:
            bar.reach(round(100 * share))

        if is_search and wishes.seconds is not None:
            most = wishes.seconds
            start = greedy_offline(named.problem)
            made = improved_within(named.problem, start, random, lambda: (perf_counter() - began) / most, tell)
        else:
            made = place(named.problem, algorithm, random, wishes.moves, tell)
    return Result(algorithm.value, named, made, verify(named.problem, made), perf_counter() - began)


def _designed(named: Named, degree: int, wishes: Wishes, *, quiet: bool) -> Result:
    """Choose another tree, too."""
    began = perf_counter()
    moves = max(FEWEST_MOVES, MOVES_PER_SUBSCRIBER * len(named.problem)) if wishes.moves is None else wishes.moves
    with progress("designed tree", quiet=quiet):
        made = designed(named.problem, degree, np.random.default_rng(wishes.seed), moves)
    audit = verify(made.problem, made.placement)
    return Result("designed tree", replace(named, problem=made.problem), made.placement, audit, perf_counter() - began)


def _limits(one: Result) -> str:
    """Return which limits a result keeps; a load that is allowed but more than wanted is said, too."""
    if not one.audit.is_feasible:
        return f"broken: {', '.join(sorted(rule.value for rule in one.audit.broken()))}"
    beta = one.named.problem.beta
    return f"kept; load above {beta:g}" if one.audit.load_factor > beta * (1 + TOLERANCE) else "kept"


def _draw(folder: Path, results: Sequence[Result], best: Result) -> list[Path]:
    drawn = [Drawn(one.label, one.named.problem, one.placement, one.audit) for one in results]
    chosen = drawn[[one is best for one in results].index(True)]
    return draw_results(folder, drawn, chosen, best.named.brokers, best.named.attributes)


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
            one.label,
            f"{one.audit.bandwidth:,.6g}",
            f"{one.audit.load_factor:.2f}",
            f"{one.audit.rms_delay:.2f}",
            f"{one.seconds:.1f}",
            _limits(one),
        )
        for one in results
    ]
    shown_on = console()
    leaves, brokers = counted(len(problem.tree.leaves), "leaf", "leaves"), counted(len(problem.tree), "broker")
    title = f"{counted(len(problem), 'subscriber')} on {leaves} of {brokers}"
    shown_on.print(table(title, columns, rows))
    for message in (*named.notes[:SHOWN], *(violation.message for violation in best.audit.violations[:SHOWN])):
        shown_on.print(message)
    if len(named.notes) > SHOWN:
        shown_on.print(f"{len(named.notes) - SHOWN:,} more notes; --json has all of them")
    if out is not None:
        shown_on.print(f"{out}: the plan of {best.label}")
