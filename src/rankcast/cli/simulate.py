"""`rankcast simulate`: an overlay of brokers in simulated time, what it sends and what it delivers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rankcast.cli.simulate_file import load_plan
from rankcast.cli.simulate_picture import draw_network
from rankcast.cli.simulate_run import Run
from rankcast.cli.streams import complain, counted, write_json
from rankcast.cli.terminal import console, table


def simulate_file(file: Path, plot: Path | None, *, limit: int, as_json: bool) -> int:
    """Run the command and return its exit code."""
    plan = load_plan(file)
    run = Run(plan)
    run.go(quiet=as_json)
    if plot is not None:
        draw_network(plot, run.overlay, plan.publishers)
    if as_json:
        write_json(_document(run, plot))
    else:
        _show(run, plot, limit)
    return 0


def _show(run: Run, plot: Path | None, limit: int) -> None:
    plan, overlay = run.plan, run.overlay
    on, measures = console(), overlay.measures
    sizes = overlay.table_sizes()
    columns = {"Broker": "left", "Knows": "right", "Own": "right", "Messages in": "right"}
    busiest = sorted(sizes, key=lambda name: (-sizes[name], name))[:limit]
    rows = [
        (name, f"{sizes[name]:,}", f"{sizes[name] - overlay.received(name):,}", f"{measures.handled[name]:,}")
        for name in busiest
    ]
    on.print(table("Brokers, by what they know", columns, rows))
    on.print()
    kinds = sorted(measures.messages, key=lambda kind: (-measures.messages[kind], kind))
    sent = [(kind, f"{measures.messages[kind]:,}", f"{measures.bytes[kind]:,}") for kind in kinds]
    on.print(table("Messages between them", {"Kind": "left", "Number": "right", "Bytes": "right"}, sent))
    on.print()
    on.print(f"{plan.strategy.value}{'' if plan.k is None else f', k={plan.k}'}: {counted(len(sizes), 'broker')}")
    for publisher in dict.fromkeys(plan.publishers):
        if publisher in sizes:
            known = overlay.received(publisher)
            share = 100 * known / run.present if run.present else 0.0
            on.print(f"{publisher} was told {known:,} of {counted(run.present, 'subscription')} ({share:.2f}%)")
    on.print(
        f"{counted(plan.publications, 'event')} published, {counted(measures.delivered, 'delivery', 'deliveries')}"
        + (f" of {run.expected:,}; failures cost the rest" if measures.delivered != run.expected else "")
    )
    if measures.delivered:
        half, most = (f"{1000 * measures.latency(part):.1f}" for part in (0.5, 0.99))
        on.print(f"half of them within {half} ms, 99% within {most} ms, over at most {max(measures.hops)} links")
    if plot is not None:
        complain(f"wrote {plot}")


def _document(run: Run, plot: Path | None) -> dict[str, object]:
    plan, overlay, measures = run.plan, run.overlay, run.overlay.measures
    work = overlay.matching_work()
    return {
        "strategy": plan.strategy.value,
        "k": plan.k,
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
        "messages": dict(sorted(measures.messages.items())),
        "bytes": dict(sorted(measures.bytes.items())),
        "rejected": dict(sorted(measures.rejected.items())),
        "deliveries": measures.delivered,
        "expected_deliveries": run.expected,
        "deliveries_per_subscription": {
            str(count): times for count, times in sorted(Counter(measures.deliveries.values()).items())
        },
        "hops": {str(hops): count for hops, count in sorted(measures.hops.items())},
        "latency_seconds": {str(part): measures.latency(part) for part in (0.5, 0.9, 0.99)},
        "plot": None if plot is None else str(plot),
    }
