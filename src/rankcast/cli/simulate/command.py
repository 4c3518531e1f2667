"""`rankcast simulate`: an overlay of brokers in simulated time, what it sends and what it delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rankcast.cli.output.streams import complain, printable, write_json
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.simulate.picture import draw_network, knowledge
from rankcast.model.errors import InvalidPartsError, counted
from rankcast.overlay.messages import Scoring, Ties
from rankcast.overlay.simulation.plan import SimulationPlan, SimulationRun, simulation_plan
from rankcast.storage.document_schema import refuse
from rankcast.storage.documents import load_document
from rankcast.storage.durations import parse_duration


def simulate_file(file: Path, plot: Path | None, *, limit: int, as_json: bool) -> int:
    """Run the command and return its exit code."""
    plan = _load_plan(file)
    run = SimulationRun(plan)

    def watch(doing: str, numbers: range) -> Iterator[int]:
        with progress(doing, total=len(numbers), quiet=as_json) as bar:
            yield from bar.over(numbers)

    run.go(watch)
    if plot is not None:
        draw_network(plot, plan.topology, plan.publishers, knowledge(run.overlay))
    if as_json:
        write_json(_document(run, plot))
    else:
        _show(run, plot, limit)
    return 0


def _load_plan(file: Path) -> SimulationPlan:
    """Read a file; raise InvalidFileError, with the line, when something is wrong with it."""
    document = load_document(file)
    try:
        return simulation_plan(document.value, parse_duration)
    except InvalidPartsError as error:
        refuse(document, error.parts)
        raise


def _show(run: SimulationRun, plot: Path | None, limit: int) -> None:
    plan, overlay = run.plan, run.overlay
    page, measures = console(), overlay.measures
    sizes = overlay.table_sizes()
    columns = {"Broker": "left", "Knows": "right", "Own": "right", "Messages in": "right"}
    busiest = sorted(sizes, key=lambda name: (-sizes[name], name))[:limit]
    rows = [
        (name, f"{sizes[name]:,}", f"{sizes[name] - overlay.received(name):,}", f"{measures.handled[name]:,}")
        for name in busiest
    ]
    page.print(table("Brokers, by what they know", columns, rows))
    page.print()
    kinds = sorted(measures.messages, key=lambda kind: (-measures.messages[kind], kind))
    sent = [(kind, f"{measures.messages[kind]:,}", f"{measures.bytes[kind]:,}") for kind in kinds]
    page.print(table("Messages between them", {"Kind": "left", "Number": "right", "Bytes": "right"}, sent))
    page.print()
    page.print(f"{_routing(plan)}: {counted(len(plan.topology.brokers), 'broker')}, seed {plan.seed}")
    if down := _down(run):
        page.print(f"down at the end: {', '.join(map(printable, down))}")
    for publisher in dict.fromkeys(plan.publishers):
        if publisher in sizes:
            known = overlay.received(publisher)
            share = 100 * known / run.present if run.present else 0.0
            page.print(f"{publisher} was told {known:,} of {counted(run.present, 'subscription')} ({share:.2f}%)")
    page.print(
        f"{counted(plan.publications, 'event')} published, {counted(measures.delivered, 'delivery', 'deliveries')}"
        + _missing(run)
    )
    if measures.delivered:
        half, most = (f"{1000 * measures.latency(part):.1f}" for part in (0.5, 0.99))
        ways = counted(max(measures.hops), "link")
        page.print(f"half of them within {half} ms, 99% within {most} ms, over at most {ways}")
    if plot is not None:
        complain(f"wrote {plot}")


def _routing(plan: SimulationPlan) -> str:
    """Return how events are routed, and to whom when they are for k."""
    if plan.k is None:
        return plan.strategy.value
    by = "at random" if plan.ranking.ties is Ties.FAIR else "by id"
    if plan.ranking.scoring is not Scoring.NONE:
        by = f"by {plan.ranking.scoring.value}"
    return f"{plan.strategy.value}, k={plan.k} {by}"


def _down(run: SimulationRun) -> list[str]:
    """Return the brokers that have crashed and not come back."""
    return [name for name in run.plan.topology.brokers if name not in run.overlay.brokers]


def _missing(run: SimulationRun) -> str:
    """Return how many deliveries one central matcher would have made, where the brokers made fewer, and why."""
    if run.overlay.measures.delivered == run.expected:
        return ""
    if not run.plan.failures:
        return f" of {run.expected:,}"
    # With a k others get what somebody beyond a failure should have got, as long as there are enough.
    why = "failures cost the rest" if run.plan.k is None else "through failures nobody got the rest"
    return f" of {run.expected:,}; {why}"


def _document(run: SimulationRun, plot: Path | None) -> dict[str, object]:
    plan, overlay, measures = run.plan, run.overlay, run.overlay.measures
    work = overlay.matching_work()
    return {
        "strategy": plan.strategy.value,
        "k": plan.k,
        "ranking": {"scoring": plan.ranking.scoring.value, "ties": plan.ranking.ties.value},
        "seed": plan.seed,
        "subscribers": plan.subscribers,
        "publications": plan.publications,
        "publishers": {
            name: {"told": overlay.received(name) if name in overlay.brokers else None} for name in plan.publishers
        },
        "brokers": {
            name: {
                "knows": size,
                "own": size - overlay.received(name),
                "messages": measures.handled[name],
                "searched": work[name][0],
                "found": work[name][1],
            }
            for name, size in overlay.table_sizes().items()
        },
        "down": _down(run),
        "links": [
            {"from": way[0], "to": way[1], "messages": measures.over_links[way], "events": measures.events_over[way]}
            for link in plan.topology.links
            for way in ((link.one, link.other), (link.other, link.one))
        ],
        "messages": dict(sorted(measures.messages.items())),
        "bytes": dict(sorted(measures.bytes.items())),
        "rejected": dict(sorted(measures.rejected.items())),
        "deliveries": measures.delivered,
        "expected_deliveries": run.expected,
        "deliveries_per_subscription": _tally(Counter(measures.deliveries.values())),
        "hops": _tally(measures.hops),
        "latency_seconds": {str(part): measures.latency(part) for part in (0.5, 0.9, 0.99)},
        "plot": None if plot is None else str(plot),
    }


def _tally(counts: Counter[int]) -> dict[str, int]:
    return {str(number): times for number, times in sorted(counts.items())}
