"""`rankcast simulate`: an overlay of brokers in simulated time, what it sends and what it delivers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankcast.cli.simulate_file import Plan, advertisement_of, load_plan
from rankcast.cli.simulate_picture import draw_network
from rankcast.cli.streams import complain, counted, write_json
from rankcast.cli.terminal import console, progress, table
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise
from rankcast.overlay.simulate import Simulation
from rankcast.workloads.covering import ranges


def simulate_file(file: Path, plot: Path | None, *, limit: int, as_json: bool) -> int:
    """Run the command and return its exit code."""
    plan = load_plan(file)
    overlay = simulated(plan, quiet=as_json)
    if plot is not None:
        draw_network(plot, overlay, plan.publisher)
    if as_json:
        write_json(_document(plan, overlay, plot))
    else:
        _show(plan, overlay, plot, limit)
    return 0


def simulated(plan: Plan, *, quiet: bool = False) -> Simulation:
    """Let subscribers join all edges alike, publish, and return the overlay when everything has arrived."""
    overlay = Simulation(plan.topology, Settings(plan.strategy), seed=plan.seed)
    advertisement = advertisement_of(plan)
    overlay.advertise(plan.publisher, Advertise(advertisement, plan.ranking))
    overlay.settle()
    random = np.random.default_rng([plan.seed, 2])
    edges = plan.topology.edges
    filters = ranges(plan.subscribers, random, plan.widths).filters()
    with progress("subscribing", total=len(filters), quiet=quiet) as bar:
        for number, wanted in enumerate(bar.over(filters)):
            subscription = Subscription(SubscriptionId("1"), wanted, rank=float(random.random()))
            overlay.subscribe(edges[number % len(edges)], Subscriber(SubscriberId(f"s{number}"), (subscription,)))
            overlay.settle()
    with progress("publishing", total=plan.publications, quiet=quiet) as bar:
        for number in bar.over(range(plan.publications)):
            event = Event(str(number), advertisement.source, data={"a0": float(random.random())})
            overlay.publish(plan.publisher, advertisement.id, event)
            overlay.settle()
    return overlay


def _show(plan: Plan, overlay: Simulation, plot: Path | None, limit: int) -> None:
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
    known = overlay.received(plan.publisher)
    share = 100 * known / plan.subscribers if plan.subscribers else 0.0
    on.print(f"{plan.strategy.value}{'' if plan.k is None else f', k={plan.k}'}: {counted(len(sizes), 'broker')}")
    on.print(f"{plan.publisher} was told {known:,} of {counted(plan.subscribers, 'subscription')} ({share:.2f}%)")
    on.print(
        f"{counted(plan.publications, 'event')} published, {counted(measures.delivered, 'delivery', 'deliveries')}"
    )
    if measures.delivered:
        half, most = (f"{1000 * measures.latency(part):.1f}" for part in (0.5, 0.99))
        on.print(f"half of them within {half} ms, 99% within {most} ms, over at most {max(measures.hops)} links")
    if plot is not None:
        complain(f"wrote {plot}")


def _document(plan: Plan, overlay: Simulation, plot: Path | None) -> dict[str, object]:
    measures = overlay.measures
    return {
        "strategy": plan.strategy.value,
        "k": plan.k,
        "subscribers": plan.subscribers,
        "publications": plan.publications,
        "publisher": plan.publisher,
        "told_to_publisher": overlay.received(plan.publisher),
        "brokers": {
            name: {"knows": size, "own": size - overlay.received(name), "messages": measures.handled[name]}
            for name, size in overlay.table_sizes().items()
        },
        "messages": dict(sorted(measures.messages.items())),
        "bytes": dict(sorted(measures.bytes.items())),
        "deliveries": measures.delivered,
        "hops": {str(hops): count for hops, count in sorted(measures.hops.items())},
        "latency_seconds": {str(part): measures.latency(part) for part in (0.5, 0.9, 0.99)},
        "plot": None if plot is None else str(plot),
    }
