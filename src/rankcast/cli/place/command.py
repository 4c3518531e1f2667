"""`rankcast place`: which broker serves which subscriber, by one algorithm or several, compared by the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from rankcast.cli.output.files import check_outputs
from rankcast.cli.output.streams import complain, write_json
from rankcast.cli.output.terminal import console, progress, shown_amount, table
from rankcast.cli.place.pictures import draw_results, picture_files
from rankcast.model.errors import (
    InvalidFileError,
    InvalidPartsError,
    InvalidValueError,
    PlacementError,
    Problem,
    counted,
    shown,
)
from rankcast.model.events import Event
from rankcast.placement.algorithms import FEWEST_MOVES, MOVES_PER_SUBSCRIBER, Algorithm, place
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.named.plan import plan_of
from rankcast.placement.named.problem import (
    NamedDemand,
    NamedProblem,
    check_magnitudes,
    deployed_demand,
    listed_demand,
    named_problem,
)
from rankcast.placement.problem.audit import Audit, Rule, verify
from rankcast.placement.problem.boxes import corners, hull
from rankcast.placement.problem.problem import TOLERANCE, Latency, Placement, PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.filter_assignment import Yardstick, yardstick_of
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.search import anneal_within, exchange
from rankcast.placement.tree_design import design_tree, most_children, starting_point
from rankcast.placement.warming import warm_up
from rankcast.samples.placement import DELAY, Workload, placement_problem
from rankcast.storage.document_schema import refuse
from rankcast.storage.documents import Document
from rankcast.storage.events.files import read_events
from rankcast.storage.placement_files import load_placement_problem, save_placement_plan
from rankcast.storage.subscribers.files import load_subscribers

DEFAULT = (Algorithm.GREEDY_OFFLINE, Algorithm.LOCAL_SEARCH)
"""What runs when nothing is asked for: the quick one, and the best one."""

SAVES_NOTHING = 0.99
"""The share of all events into all brokers from which on a plan is said to save nothing."""

SHOWN = 5
"""Notes on the problem, and limits that the best plan breaks."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What `rankcast place` was asked for beside the problem: where the plan and pictures go, and how to search.

    `degree` asks for a designed tree, too, in which nobody has more children. With `seconds`, local search goes on for
    so long instead of a number of moves. Files that exist are replaced only with `overwrite`.
    """

    out: Path | None = None
    plots: Path | None = None
    seed: int = 0
    moves: int | None = None
    degree: int | None = None
    seconds: float | None = None
    overwrite: bool = False

    def useless_with(self, algorithms: Sequence[Algorithm]) -> str | None:
        """Return which wish would have no effect with some algorithms, if one would."""
        if self.degree is not None and self.seconds is not None:
            return "--seconds does not say how long --design goes on; expected --moves instead"
        told = "--seconds" if self.seconds is not None else "--moves" if self.moves is not None else None
        if told is None or self.degree is not None or Algorithm.LOCAL_SEARCH in algorithms:
            return None
        return f"{told} says how long local search goes on, which is not asked for; expected --algorithm local-search"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What one algorithm made, what it is worth, and how long it took, without compiling; None: with another one.

    `too_wide` is the degree that was asked for, where the tree has more children somewhere. `of_yardstick` is how many
    times the traffic of the linear programme goes into the brokers at the top of the tree, where that says something.
    """

    label: str
    named: NamedProblem
    placement: Placement
    audit: Audit
    seconds: float | None
    too_wide: int | None
    of_yardstick: float | None = None

    @property
    def order(self) -> tuple[bool, int, float]:
        """Less is better: a tree as it was asked for, the fewest broken limits, then the least traffic."""
        return self.too_wide is not None, len(self.audit.violations), self.audit.bandwidth


def checked_algorithms(names: Sequence[str]) -> tuple[Algorithm, ...]:
    """Return the algorithms that were named, each once."""
    known = {algorithm.value: algorithm for algorithm in Algorithm}
    for name in names:
        if name not in known and name != "all":
            raise InvalidValueError(f"--algorithm: there is no {shown(name)}; expected {', '.join(known)} or all")
    if "all" in names:
        return tuple(Algorithm)
    return tuple(known[name] for name in dict.fromkeys(names)) or DEFAULT


def place_file(file: Path, algorithms: Sequence[Algorithm], wishes: Wishes, *, as_json: bool) -> int:
    """Run the command; return 1 when no algorithm keeps every limit."""
    document = load_placement_problem(
        file, [latency.value for latency in Latency], [workload.value for workload in Workload]
    )
    pictures = [] if wishes.plots is None else picture_files(wishes.plots)
    written = [("--out", wishes.out), *(("--plots", path) for path in pictures)]
    check_outputs(written, [file, *_named_files(document)], overwrite=wishes.overwrite)
    named = read_problem(document)
    if wishes.degree is not None:  # rather now than after a long search
        starting_point(named.problem, wishes.degree, np.random.default_rng(wishes.seed))
    with progress("compiling, once per installation", quiet=as_json):
        warm_up(dict.fromkeys((*algorithms, *(DEFAULT if wishes.degree is not None else ()))))
    results = [_place(named, algorithm, wishes, quiet=as_json) for algorithm in algorithms]
    if wishes.degree is not None:
        results.extend(_design(named, wishes.degree, wishes, quiet=as_json))
    with progress("yardstick", quiet=as_json):
        yardstick = yardstick_of(named.problem, np.random.default_rng(wishes.seed))
    results = [_measured(result, named, yardstick) for result in results]
    best = min(results, key=lambda result: result.order)
    if wishes.out is not None:
        plan = plan_of(best.named, best.label, best.placement, best.audit)
        save_placement_plan(wishes.out, plan.document())
    if wishes.plots is not None:
        draw_results(wishes.plots, results, best)
    if as_json:
        documents = [_document(result) for result in results]
        about = {"attributes": list(named.attributes), "notes": [*named.notes, *_remarks(best)]}
        shown_files = {} if wishes.plots is None else {"plots": list(map(str, pictures))}
        write_json(
            {"best": best.label, "algorithms": documents, "yardstick": asdict(yardstick), **about, **shown_files}
        )
    else:
        _show(named, results, best, yardstick)
        if wishes.out is not None:
            complain(f"wrote {wishes.out}: the plan of {best.label}")
        for picture in pictures:
            complain(f"wrote {picture}")
    return 0 if best.audit.is_feasible else 1


def _named_files(document: Document) -> list[Path]:
    """Return the files that a problem file names."""
    value, folder = document.value, Path(document.file).parent
    return [folder / value[name] for name in ("subscribers", "events") if isinstance(value.get(name), str)]


def read_problem(document: Document) -> NamedProblem:
    """Return the problem of a problem file; raise InvalidFileError with everything that is wrong with it."""
    value = document.value
    try:
        if "workload" in value:
            return _drawn(value)
        check_magnitudes(value)
        is_deployed = isinstance(value["subscribers"], str)
        return named_problem(
            value, _deployed(value, Path(document.file).parent) if is_deployed else listed_demand(value), DELAY
        )
    except InvalidPartsError as error:
        refuse(document, error.parts)
        raise
    except (PlacementError, InvalidValueError) as error:
        raise InvalidFileError([Problem(document.file, None, str(error))]) from None


def _drawn(value: Mapping[str, Any]) -> NamedProblem:
    random = np.random.default_rng(value.get("seed", 0))
    made = placement_problem(
        Workload(value["workload"]), value["subscribers"], value["brokers"], random, value.get("delay", DELAY)
    )
    names = tuple(f"broker {number}" for number in range(len(made.tree)))
    low, high = corners(hull(made.interests.sides))
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return NamedProblem(made, names, {f"x{axis}": ends for axis, ends in enumerate(ranges, 1)})


def _deployed(value: Mapping[str, Any], folder: Path) -> NamedDemand:
    """Return the subscribers of the file that a problem file names, and how the events of the other one are spread."""
    loaded = load_subscribers(folder / value["subscribers"])
    remarks = [str(problem) for problem in loaded.problems]
    events = _events(folder / value["events"], remarks) if "events" in value else None
    return deployed_demand(value, loaded.subscribers, events, remarks)


def _events(path: Path, remarks: list[str]) -> Iterator[Event]:
    for event in read_events(path):
        if isinstance(event, Problem):
            remarks.append(str(event))
        else:
            yield event


def _place(named: NamedProblem, algorithm: Algorithm, wishes: Wishes, *, quiet: bool) -> Result:
    began = perf_counter()
    is_search = algorithm is Algorithm.LOCAL_SEARCH
    with progress(algorithm.value, total=100 if is_search else None, quiet=quiet) as bar:
        random = np.random.default_rng(wishes.seed)

        def tell(share: float, _: float) -> None:
            bar.reach(round(100 * share))

        if is_search and wishes.seconds is not None:
            most = wishes.seconds
            start = greedy_offline(named.problem)
            made = anneal_within(named.problem, start, random, lambda: (perf_counter() - began) / most, tell)
            made = exchange(named.problem, made, random)
        else:
            made = place(named.problem, algorithm, random, wishes.moves, tell)
    return _audit(algorithm.value, named, made, perf_counter() - began, wishes.degree)


def _audit(label: str, named: NamedProblem, made: Placement, seconds: float | None, degree: int | None) -> Result:
    is_too_wide = degree is not None and most_children(named.problem.tree)[1] > degree
    return Result(label, named, made, verify(named.problem, made), seconds, degree if is_too_wide else None)


def _design(named: NamedProblem, degree: int, wishes: Wishes, *, quiet: bool) -> tuple[Result, Result]:
    """Choose another tree, too; the given one with as long a search is there to compare."""
    began = perf_counter()
    moves = max(FEWEST_MOVES, MOVES_PER_SUBSCRIBER * len(named.problem)) if wishes.moves is None else wishes.moves
    with progress("designed tree", quiet=quiet):
        made = design_tree(named.problem, degree, np.random.default_rng(wishes.seed), moves)
    seconds = perf_counter() - began
    return (
        _audit("given tree", named, made.given, None, degree),
        _audit("designed tree", replace(named, problem=made.problem), made.placement, seconds, degree),
    )


def _measured(result: Result, named: NamedProblem, yardstick: Yardstick) -> Result:
    """Return a result with how it compares to the yardstick, which is about one tree."""
    if result.named is not named or yardstick.objective <= 0:
        return result
    top = result.audit.bandwidths[named.problem.tree.children(PUBLISHER)].sum()
    return replace(result, of_yardstick=float(top / yardstick.objective))


def _document(result: Result) -> dict[str, object]:
    audit = result.audit
    return {
        "algorithm": result.label,
        "traffic": audit.bandwidth,
        "brokers_per_event": audit.bandwidth / result.named.everything,
        "of_yardstick": result.of_yardstick,
        "load_factor": audit.load_factor,
        "rms_delay": audit.rms_delay,
        "violations": [violation.message for violation in audit.violations],
        "most_children": most_children(result.named.problem.tree)[1],
        "seconds": result.seconds,
    }


def _limits(result: Result) -> str:
    """Return which limits a result keeps; a load that is allowed but more than wanted is said, too."""
    wide = "" if result.too_wide is None else f"; more than {counted(result.too_wide, 'child', 'children')}"
    if not result.audit.is_feasible:
        return f"broken: {', '.join(sorted(rule.value for rule in result.audit.broken()))}{wide}"
    beta = result.named.problem.beta
    return f"kept; load above {beta:g}{wide}" if result.audit.load_factor > beta * (1 + TOLERANCE) else f"kept{wide}"


def _remarks(best: Result) -> list[str]:
    """Return whether the best plan saves anything, and whether a load limit that it breaks could be kept at all."""
    problem = best.named.problem
    remarks = []
    if best.audit.bandwidth >= SAVES_NOTHING * len(problem.tree) * best.named.everything:
        remarks.append(
            "every event goes into every broker: placement cannot help; narrower interests, a higher alpha (boxes per "
            "filter), a higher beta_max or looser latency limits may"
        )
    if Rule.LOAD not in best.audit.broken():
        return remarks
    return [*remarks, _load_remark(problem)]


def _load_remark(problem: PlacementProblem) -> str:
    """Return whether a load limit that is broken could be kept at all: a flow tells that exactly."""
    least = feasible_factor(problem)
    if least > problem.beta_max * (1 + TOLERANCE):
        return f"no placement keeps the load limit: within latency limits the least load factor is {least:.3g}"
    return f"a load factor of {least:.3g} can be had: local-search and programme keep the load limit"


def _show(named: NamedProblem, results: Sequence[Result], best: Result, yardstick: Yardstick) -> None:
    problem = named.problem
    columns = {
        "Algorithm": "left",
        "Traffic": "right",
        "Load factor": "right",
        "RMS delay": "right",
        "Seconds": "right",
        "Limits": "wrap",
    }
    rows = [
        (
            result.label,
            shown_amount(result.audit.bandwidth),
            f"{result.audit.load_factor:.2f}",
            f"{result.audit.rms_delay:.2f}",
            "" if result.seconds is None else f"{result.seconds:.1f}",
            _limits(result),
        )
        for result in results
    ]
    shown_on = console()
    leaves, brokers = counted(len(problem.tree.leaves), "leaf", "leaves"), counted(len(problem.tree), "broker")
    title = f"{counted(len(problem), 'subscriber')} on {leaves} of {brokers}"
    shown_on.print(table(title, columns, rows))
    shown_on.print(f"every event into one broker: a traffic of {shown_amount(named.everything)}")
    each = f"{best.label}: each event goes into {best.audit.bandwidth / named.everything:.2f} brokers on average"
    if best.of_yardstick is not None:
        each += (
            f"; into those at the top go {best.of_yardstick:.2f} times the traffic of a linear programme on "
            f"{yardstick.sample:,} of {counted(yardstick.demands, 'demand')}"
        )
    shown_on.print(each, soft_wrap=True)
    for message in (*named.notes[:SHOWN], *(violation.message for violation in best.audit.violations[:SHOWN])):
        shown_on.print(message)
    for remark in _remarks(best):
        shown_on.print(remark)
    if len(named.notes) > SHOWN:
        shown_on.print(f"{counted(len(named.notes) - SHOWN, 'more note')}; --json has all of them")
