"""`rankcast simulate`: an overlay of brokers in simulated time, what it sends and what it delivers.

With subscribers and events of one's own, what each subscriber gets is held against what one hub delivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from rankcast.cli.output.streams import Problems, complain, printable, write_json
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.replay import Replay, compile_kernels, shown_delay, shown_delivery
from rankcast.cli.simulate.files import load_simulation
from rankcast.cli.simulate.picture import draw_network, knowledge
from rankcast.hub import Notification
from rankcast.model.advertisements import Scoring, Ties
from rankcast.model.errors import counted
from rankcast.overlay.simulation.plan import (
    DrawnLoad,
    GivenLoad,
    GivenRun,
    Received,
    SimulationPlan,
    SimulationRun,
    run_of,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What subscribers of their own got beside what one hub delivers, and how many subscriptions brokers would be told
    if none were hidden."""

    load: GivenLoad
    received: Counter[Received]
    by_hub: Counter[Received]
    told_without_cover: int

    @property
    def missing(self) -> int:
        """How many deliveries of the hub nobody got."""
        return (self.by_hub - self.received).total()

    @property
    def more(self) -> int:
        """How many deliveries the hub would not have made."""
        return (self.received - self.by_hub).total()


def simulate_file(file: Path, plot: Path | None, now: datetime, *, limit: int, as_json: bool) -> int:
    """Run the command and return its exit code."""
    problems = Problems()
    loaded = load_simulation(file, now, problems)
    problems.close()
    plan, run = loaded.plan, run_of(loaded.plan)

    def watch(doing: str, numbers: range) -> Iterator[int]:
        with progress(doing, total=len(numbers), quiet=as_json) as bar:
            yield from bar.over(numbers)

    run.go(watch)
    compared = _compared(run, plan.load) if isinstance(run, GivenRun) and isinstance(plan.load, GivenLoad) else None
    if plot is not None:
        draw_network(plot, plan.topology, plan.load.publishers, knowledge(run.overlay, loaded.places))
    if as_json:
        write_json(_document(run, compared, plot))
    else:
        _show(run, compared, plot, limit)
    return 1 if problems.errors else 0


def _compared(run: GivenRun, load: GivenLoad) -> Comparison:
    """Let one hub serve the same subscribers."""
    subscribers = [subscriber for _, subscriber in load.subscribers]
    compile_kernels(subscribers)
    hub = Replay(subscribers, None, advertisements=[held for _, held in load.advertised], tallied=False)
    found = Counter[Received]()

    def count(delivered: list[Notification]) -> None:
        found.update((told.subscriber, told.subscription, told.event.identity) for told in delivered)

    for _, event in load.given:
        count(hub.publish(event).delivered)
    count(hub.finish())
    run.expected = found.total()
    return Comparison(load, run.received, found, run.told_without_cover())


def _show(run: SimulationRun, compared: Comparison | None, plot: Path | None, limit: int) -> None:
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
    if compared is not None:
        page.print(table("Links, by events over them", _LINK_COLUMNS, _link_rows(run)[:limit]))
        page.print()
        page.print(table("Subscribers, by what they got", _SUBSCRIBER_COLUMNS, _subscriber_rows(compared)[:limit]))
        page.print()
    kinds = sorted(measures.messages, key=lambda kind: (-measures.messages[kind], kind))
    sent = [(kind, f"{measures.messages[kind]:,}", f"{measures.bytes[kind]:,}") for kind in kinds]
    page.print(table("Messages between them", {"Kind": "left", "Number": "right", "Bytes": "right"}, sent))
    page.print()
    page.print(f"{_routing(plan)}: {counted(len(plan.topology.brokers), 'broker')}, seed {plan.seed}")
    if down := _down(run):
        page.print(f"down at the end: {', '.join(map(printable, down))}")
    for publisher in dict.fromkeys(plan.load.publishers):
        if publisher in sizes:
            known = overlay.received(publisher)
            share = 100 * known / run.present if run.present else 0.0
            page.print(f"{publisher} was told {known:,} of {counted(run.present, 'subscription')} ({share:.2f}%)")
    if compared is not None:
        _show_savings(run, compared)
    page.print(
        f"{counted(plan.load.events, 'event')} published, {counted(measures.delivered, 'delivery', 'deliveries')}"
        + (_missing(run) if compared is None else _compared_words(run, compared))
    )
    if measures.delivered:
        half, most = (_shown_seconds(measures.latency(part)) for part in (0.5, 0.99))
        ways = counted(max(measures.hops), "link")
        page.print(f"half of them within {half}, 99% within {most}, over at most {ways}")
    if plot is not None:
        complain(f"wrote {plot}")


_LINK_COLUMNS = {"From": "left", "To": "left", "Events": "right", "Messages": "right"}
_SUBSCRIBER_COLUMNS = {"Subscriber": "wrap", "Broker": "left", "Delivery": "wrap", "Got": "right", "One hub": "right"}


def _link_rows(run: SimulationRun) -> list[tuple[str, ...]]:
    """Return what went over each link in each direction, the busiest first."""
    over, events = run.overlay.measures.over_links, run.overlay.measures.events_over
    ways = sorted(over, key=lambda way: (-events[way], -over[way], way))
    return [(*way, f"{events[way]:,}", f"{over[way]:,}") for way in ways]


def _subscriber_rows(compared: Comparison) -> list[tuple[str, ...]]:
    """Return what each subscriber got, those with most first."""
    got, by_hub = _by_subscriber(compared.received), _by_subscriber(compared.by_hub)
    everybody = sorted(compared.load.subscribers, key=lambda held: (-got[held[1].id], held[1].id))
    return [
        (held.id, broker, shown_delivery(held), f"{got[held.id]:,}", f"{by_hub[held.id]:,}")
        for broker, held in everybody
    ]


def _by_subscriber(received: Counter[Received]) -> Counter[str]:
    found = Counter[str]()
    for (subscriber, _, _), count in received.items():
        found[subscriber] += count
    return found


def _show_savings(run: SimulationRun, compared: Comparison) -> None:
    """Say what brokers need not know, and which way events need not go."""
    told, all_told = _told(run), compared.told_without_cover
    share = f" ({told / all_told:.1%})" if all_told else ""
    console().print(f"brokers were told {told:,} of {counted(all_told, 'subscription')} that RegularK tells{share}")
    over, flooded = run.overlay.measures.events_over.total(), len(run.plan.topology.links) * compared.load.events
    share = f" ({over / flooded:.1%})" if flooded else ""
    console().print(f"events went over links {over:,} times of {flooded:,} with Flooding{share}")


def _told(run: SimulationRun) -> int:
    """Return how many subscriptions all brokers were told by others."""
    return sum(map(run.overlay.received, run.overlay.brokers))


def _compared_words(run: SimulationRun, compared: Comparison) -> str:
    """Return how the deliveries differ from those of one hub."""
    if not compared.missing and not compared.more:
        return ", as by one hub"
    return f"; one hub makes {run.expected:,}: {compared.missing:,} missing, {compared.more:,} others"


def _shown_seconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 10 else shown_delay(timedelta(seconds=seconds))


def _routing(plan: SimulationPlan) -> str:
    """Return how events are routed, and to whom when they are for k."""
    load = plan.load
    if not isinstance(load, DrawnLoad) or load.k is None:
        return plan.strategy.value
    by = "at random" if load.ranking.ties is Ties.FAIR else "by id"
    if load.ranking.scoring is not Scoring.NONE:
        by = f"by {load.ranking.scoring.value}"
    return f"{plan.strategy.value}, k={load.k} {by}"


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
    why = (
        "failures cost the rest"
        if not isinstance(run.plan.load, DrawnLoad) or run.plan.load.k is None
        else "through failures nobody got the rest"
    )
    return f" of {run.expected:,}; {why}"


def _document(run: SimulationRun, compared: Comparison | None, plot: Path | None) -> dict[str, object]:
    plan, overlay, measures = run.plan, run.overlay, run.overlay.measures
    work = overlay.matching_work()
    return {
        "strategy": plan.strategy.value,
        **(_drawn_document(plan.load) if isinstance(plan.load, DrawnLoad) else {}),
        "seed": plan.seed,
        "publications": plan.load.events,
        "publishers": {
            name: {"told": overlay.received(name) if name in overlay.brokers else None} for name in plan.load.publishers
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
        **({} if compared is None else _compared_document(run, compared)),
        "deliveries_per_subscription": _tally(Counter(measures.deliveries.values())),
        "hops": _tally(measures.hops),
        "latency_seconds": {str(part): measures.latency(part) for part in (0.5, 0.9, 0.99)},
        "plot": None if plot is None else str(plot),
    }


def _drawn_document(load: DrawnLoad) -> dict[str, object]:
    ranking = {"scoring": load.ranking.scoring.value, "ties": load.ranking.ties.value}
    return {"k": load.k, "ranking": ranking, "subscribers": load.subscribers}


def _compared_document(run: SimulationRun, compared: Comparison) -> dict[str, object]:
    got, by_hub = _by_subscriber(compared.received), _by_subscriber(compared.by_hub)
    return {
        "missing": compared.missing,
        "others": compared.more,
        "told": _told(run),
        "told_without_cover": compared.told_without_cover,
        "subscribers": {
            held.id: {"broker": broker, "deliveries": got[held.id], "by_one_hub": by_hub[held.id]}
            for broker, held in compared.load.subscribers
        },
    }


def _tally(counts: Counter[int]) -> dict[str, int]:
    return {str(number): times for number, times in sorted(counts.items())}
