"""`rankcast bench NAME`: measure engines side by side, and show what is promised and what holds here."""

# ruff: noqa: PLC0415 (a command imports its work when it runs)

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rankcast_lab.bench.registry import Say, Settings
    from rankcast_lab.bench.report import Report

bench_app = typer.Typer(
    name="bench",
    help="Measure engines side by side on this machine, with their answers compared.",
    epilog="Example: rankcast bench matching --workload W1 --subscriptions 100000",
    no_args_is_help=True,
)

Sizes = Annotated[
    list[int] | None,
    typer.Option("--subscriptions", "-n", min=1, metavar="N", help="How many subscriptions; may be repeated."),
]
Size = Annotated[int | None, typer.Option("--subscriptions", "-n", min=1, metavar="N", help="How many subscriptions.")]
Events = Annotated[int | None, typer.Option("--events", "-e", min=1, metavar="N", help="How many events.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same work.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

PLOTTED_SIZES = (10_000, 100_000, 1_000_000)


@bench_app.command(epilog="Example: rankcast bench matching --workload W2 --subscriptions 100000 --no-peers")
def matching(
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", metavar="W1|W2|W3|W-lists", help="The work; may be repeated."),
    ] = None,
    subscriptions: Sizes = None,
    events: Events = None,
    seed: Seed = 1,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Measure DuckDB and Polars as well.")] = True,
    required: Annotated[
        bool, typer.Option("--required", help="Measure the six cases that something is promised about.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a plot of cost against subscriptions: .png, .svg or .pdf."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Find the subscriptions that events match: the index, brute force, the limit, DuckDB, Polars.

    One thread, CPU time, best of several repeats. The limit is a kernel that only ANDs one bitset row per attribute of
    the event. With --plot and without --subscriptions, the sizes are 10,000, 100,000 and 1,000,000. The exit code is 1
    when two engines disagree on the matches of an event.
    """
    from rankcast.plotting import check_plot
    from rankcast_lab.bench.matching import DEFAULT_SUBSCRIPTIONS, DEFAULT_WORKLOADS, REQUIRED_CASES, run_cases
    from rankcast_lab.bench.matching_lists import NAME as LISTS
    from rankcast_lab.bench.matching_work import case_name, workload_named
    from rankcast_lab.bench.plotting import plot_costs

    if required and (workload or subscriptions):
        raise typer.BadParameter("--required names its own workloads and subscriptions")
    if plot is not None:
        check_plot(plot)
    sizes = tuple(subscriptions or ()) or (PLOTTED_SIZES if plot is not None else DEFAULT_SUBSCRIPTIONS)
    workloads = [
        name if name == LISTS else workload_named(name).value for name in dict.fromkeys(workload or DEFAULT_WORKLOADS)
    ]
    cases = REQUIRED_CASES if required else [(name, size) for name in workloads for size in dict.fromkeys(sizes)]
    with _settings(seed=seed, events=events, peers=peers, quiet=json) as settings:
        report = run_cases(cases, settings)
    if plot is not None:
        panels: dict[str, dict[str, int]] = {}
        for name, size in cases:
            panels.setdefault(name, {})[case_name(name, size)] = size
        plot_costs(plot, report.rows, panels)
    _finish(report, as_json=json)


@bench_app.command("matching-latency", epilog="Example: rankcast bench matching-latency --subscriptions 100000")
def matching_latency(subscriptions: Size = None, events: Events = None, seed: Seed = 1, json: AsJson = False) -> None:
    """Match one event per call, encoded before or as a plain dict of 20 attributes, against events in batches."""
    _run("matching-latency", subscriptions, events, seed, as_json=json)


@bench_app.command("matching-churn", epilog="Example: rankcast bench matching-churn --events 100000")
def matching_churn(
    subscriptions: Size = None,
    events: Annotated[
        int | None, typer.Option("--events", "-e", min=1, metavar="N", help="How many subscriptions come and go.")
    ] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Add and remove subscriptions while a reader goes on matching: cost of a change, and what the reader feels."""
    _run("matching-churn", subscriptions, events, seed, as_json=json)


@bench_app.command("matching-threads", epilog="Example: rankcast bench matching-threads")
def matching_threads(subscriptions: Size = None, events: Events = None, seed: Seed = 1, json: AsJson = False) -> None:
    """Match with two threads over one index, against one thread."""
    _run("matching-threads", subscriptions, events, seed, as_json=json)


@bench_app.command("matching-cold", epilog="Example: rankcast bench matching-cold")
def matching_cold(subscriptions: Size = None, events: Events = None, seed: Seed = 1, json: AsJson = False) -> None:
    """Start a new process that loads a saved index and matches its first event."""
    _run("matching-cold", subscriptions, events, seed, as_json=json)


@bench_app.command(epilog="Example: rankcast bench topkw --quick")
def topkw(
    subscriptions: Size = None,
    events: Events = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer subscriptions and events; promises nothing.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Deliver the exact top k of a window of 20,000 events to many ideal points, against plain passes over distances.

    One thread, CPU time. The limit is the fastest of three kernels that evaluate every distance and do nothing else.
    """
    from rankcast_lab.bench.topkw import QUICK_EVENTS, QUICK_SUBSCRIPTIONS

    if quick:
        subscriptions, events = subscriptions or QUICK_SUBSCRIPTIONS, events or QUICK_EVENTS
    _run("topkw", subscriptions, events, seed, as_json=json)


@bench_app.command(epilog="Example: rankcast bench delivery --queues 100000 --json")
def delivery(
    queues: Annotated[int | None, typer.Option("--queues", "-q", min=1, metavar="N", help="How many queues.")] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", "-r", min=1, metavar="N", help="How many rows of each queue in a batch.")
    ] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Deliver to many queues at once, by every policy with k=10 and a window of 100, against the step functions."""
    _run("delivery", queues, rows, seed, as_json=json)


@bench_app.command(epilog="Example: rankcast bench diversity --json")
def diversity(
    queues: Annotated[int | None, typer.Option("--queues", "-q", min=1, metavar="N", help="How many queues.")] = None,
    events: Annotated[
        int | None, typer.Option("--events", "-e", min=1, metavar="N", help="How many events are selected from.")
    ] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Select the 20 best diverse events of 1,000, and deliver to many queues that diversify, against plain code."""
    _run("diversity", queues, events, seed, as_json=json)


@bench_app.command(epilog="Example: rankcast bench covering --part top-k")
def covering(
    part: Annotated[
        list[str] | None,
        typer.Option("--part", "-p", metavar="top-k|relations|poset|group", help="What to measure; may be repeated."),
    ] = None,
    subscriptions: Size = None,
    grids: Annotated[
        int | None, typer.Option("--grids", "-g", min=1, metavar="N", help="How many grids group cover is tried on.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes; promises little.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Keep covering sets and a poset while subscriptions come and go, relate one filter to many, decide group cover.

    One thread, CPU time, against working everything out again and against plain loops; answers are compared.
    """
    from rankcast_lab.bench.covering import QUICK_GRIDS, QUICK_SUBSCRIPTIONS, run

    if quick:
        subscriptions, grids = subscriptions or QUICK_SUBSCRIPTIONS, grids or QUICK_GRIDS
    sizes = (subscriptions,) if subscriptions else ()
    with _settings(seed=seed, events=grids, subscriptions=sizes, workloads=tuple(part or ()), quiet=json) as settings:
        report = run(settings)
    _finish(report, as_json=json)


@bench_app.command(epilog="Example: rankcast bench overlay --subscriptions 10000 --json")
def overlay(
    subscriptions: Size = None,
    events: Events = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer subscriptions and events.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Publish through sixty simulated brokers by every routing strategy, against one broker that has everything.

    One thread, CPU time of all brokers together. What is delivered is compared with what all subscriptions say.
    """
    from rankcast_lab.bench.overlay import QUICK_EVENTS, QUICK_SUBSCRIPTIONS

    if quick:
        subscriptions, events = subscriptions or QUICK_SUBSCRIPTIONS, events or QUICK_EVENTS
    _run("overlay", subscriptions, events, seed, as_json=json)


@bench_app.command(epilog="Example: rankcast bench placement --workload 3 --quick")
def placement(
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", metavar="1-LL|1-LH|1-HL|1-HH|2|3", help="The work; may be repeated."),
    ] = None,
    subscribers: Annotated[
        int | None, typer.Option("--subscribers", "-n", min=1, metavar="N", help="How many subscribers.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer subscribers; promises nothing.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Give subscribers to 100 brokers by every algorithm; bandwidth, load, delay and time, with each plan audited.

    One thread, CPU time. The exit code is 1 when a plan breaks a limit that its algorithm promises to keep.
    """
    from rankcast_lab.bench import placement as work

    sizes = (subscribers,) if subscribers else ()
    with _settings(seed=seed, events=None, subscriptions=sizes, workloads=tuple(workload or ()), quiet=json) as found:
        report = work.run(work.quick(found) if quick else found)
    _finish(report, as_json=json)


@bench_app.command("placement-spark", epilog="Example: rankcast bench placement-spark --quick")
def placement_spark(
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", metavar="1-LL|1-LH|1-HL|1-HH|2|3|own", help="The work; may be repeated."),
    ] = None,
    subscriptions: Size = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer subscribers; promises nothing.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Give two million subscribers to 100 brokers by linear programming, on Spark with two cores and on one machine.

    Wall clock and CPU time by stage, and memory. The exit code is 1 when the two do not find the same.
    """
    from rankcast_lab.bench import placement_spark as work

    sizes = (subscriptions,) if subscriptions else ()
    with _settings(seed=seed, events=None, subscriptions=sizes, workloads=tuple(workload or ()), quiet=json) as found:
        report = work.run(work.quick(found) if quick else found)
    _finish(report, as_json=json)


@bench_app.command(epilog="Example: rankcast bench spark --quick")
def spark(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes; promises nothing.")] = False,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Run the pipeline on Spark with two cores, against the same kernels in a plain process and against Spark SQL.

    Wall clock, Parquet to Parquet, without the start of the session and the first batch. What they deliver is compared.
    """
    from rankcast_lab.bench.spark import FULL, QUICK, run_sizes

    with _settings(seed=seed, events=None, quiet=json) as settings:
        report = run_sizes(QUICK if quick else FULL, settings)
    _finish(report, as_json=json)


@bench_app.command(epilog="Example: rankcast bench hub --against 6ff0991 --case fixed --case one-match --json")
def hub(
    against: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="Measure this commit, too, in turn; it is set up in .bench.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", "-c", metavar="NAME", help="What to measure; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes; promises nothing.")] = False,
    scale: Annotated[
        float | None, typer.Option(min=1e-4, max=1, help="Share of the full sizes: 1 unless told, 0.02 with --quick.")
    ] = None,
    runs: Annotated[int, typer.Option(min=5, help="How often each is measured.")] = 5,
    json: AsJson = False,
) -> None:
    """Publish and subscribe in a hub, match, start: now and, with --against, before, as medians of CPU time.

    The memory of queues is measured only by name (memory-topkw, memory-sliding) and at full scale takes very long.
    """
    from rankcast.cli.output.streams import write_json
    from rankcast.cli.output.terminal import console, table
    from rankcast_lab.bench.hub import QUICK_SCALE, HubSettings, run, to_json

    with told(quiet=json) as say:
        scale = scale or (QUICK_SCALE if quick else 1.0)
        settings = HubSettings(tuple(case or ()), against, scale, runs, say)
        rows = run(settings)
    if json:
        write_json(to_json(rows, settings))
        return
    names = ("Before", "Now", "Unit", "Now / before")
    columns = {"Case": "left", **dict.fromkeys(names, "right"), "Required": "left", "Holds": "left"}
    verdicts = {True: "yes", False: "NO", None: "-"}
    cells = (
        (
            row.case,
            *map(_number, (row.before, row.now)),
            row.unit,
            _number(row.ratio),
            row.required,
            verdicts[row.holds],
        )
        for row in rows
    )
    console().print(table("Hub" if against is None else f"Hub, against {against}", columns, cells))


@bench_app.command(
    epilog="Example: rankcast bench against 6ff0991 delivery --queues 5000",
    context_settings={"ignore_unknown_options": True},
)
def against(
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit to compare with, set up in .bench.")],
    bench: Annotated[list[str], typer.Argument(metavar="NAME [OPTIONS]", help="A bench, and what it is given.")],
    runs: Annotated[int, typer.Option(min=1, help="How often each version runs the bench.")] = 5,
    json: AsJson = False,
) -> None:
    """Run a bench of this version and of another commit in turn, and show how much faster each row is now.

    Costs are medians; the speed is the median of cost before / cost now over pairs of runs, with its extremes.
    """
    from rankcast.cli.output.streams import write_json
    from rankcast.cli.output.terminal import console, table
    from rankcast_lab.bench.against import run

    with told(quiet=json) as say:
        report = run(bench, commit, runs, say)
    if json:
        write_json(report.to_json())
        return
    columns = {"Case": "left", "Engine": "left"} | dict.fromkeys(("Before", "Now", "Speed", "From", "To"), "right")
    cells = (
        (row.case, row.engine, *map(_number, (row.before, row.now, row.speed, row.slowest, row.fastest)))
        for row in report.rows
    )
    console().print(table(f"{' '.join(bench)}: µs per event, against {commit}", columns, cells))
    if report.alone:
        console().print(f"Only one version has: {', '.join(report.alone)}")


def _run(name: str, subscriptions: int | None, events: int | None, seed: int, *, as_json: bool) -> None:
    from rankcast_lab.bench.registry import bench_named

    sizes = (subscriptions,) if subscriptions else ()
    with _settings(seed=seed, events=events, subscriptions=sizes, quiet=as_json) as settings:
        report = bench_named(name)(settings)
    _finish(report, as_json=as_json)


@contextmanager
def _settings(
    *,
    seed: int,
    events: int | None,
    subscriptions: tuple[int, ...] = (),
    workloads: tuple[str, ...] = (),
    peers: bool = True,
    quiet: bool,
) -> Iterator[Settings]:
    """Give the settings of a run; on a terminal, standard error tells what is being done."""
    from rankcast_lab.bench.registry import Settings

    with told(quiet=quiet) as say:
        yield Settings(workloads, subscriptions, events, seed, peers, say)


@contextmanager
def told(*, quiet: bool) -> Iterator[Say]:
    """Give a function that takes a word on what is being done; a terminal's standard error shows it."""
    import sys

    from rankcast.cli.output.terminal import console

    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    with console(sys.stderr).status("starting") as status:
        yield status.update


def _finish(report: Report, *, as_json: bool) -> None:
    """Show a report; answers that differ are an error."""
    from rankcast.cli.output.streams import complain, write_json

    if as_json:
        write_json(report.to_json())
    else:
        _show(report)
    for comparison in report.comparisons:
        if not comparison.equal:
            complain(f"{comparison.case}: {comparison.engine} is wrong: {comparison.difference or 'nothing compared'}")
    raise typer.Exit(0 if report.is_correct else 1)


def _show(report: Report) -> None:
    from rankcast.cli.output.terminal import console, table

    shown = console()
    right = "right"
    if report.rows:
        headings = ("Case", "Engine", "µs/event", "x limit", "faster than brute", "build s", "MB", "matches")
        cells = list(_cost_cells(report))
        kept = [at for at in range(len(headings)) if any(row[at] != "-" for row in cells)]
        columns = {headings[at]: right if at > 1 else "left" for at in kept}
        shown.print(table("Cost", columns, [[row[at] for at in kept] for row in cells]))
    if report.figures:
        figures = [(one.case, one.quantity, f"{_number(one.value)} {one.unit}") for one in report.figures]
        shown.print(table("Figures", {"Case": "left", "Quantity": "left", "Value": right}, figures))
    if report.requirements:
        columns = {"Quantity": "left", "Required": "left", "Measured": right, "Holds": "left"}
        required = [
            (one.quantity, one.required, _number(one.measured), "yes" if one.holds else "NO")
            for one in report.requirements
        ]
        shown.print(table("Required", columns, required))
    for note in report.notes:
        shown.print(note)
    if report.comparisons:
        agreed = sum(one.equal for one in report.comparisons)
        least = min(one.events for one in report.comparisons)
        shown.print(
            f"Answers compared: {agreed} of {len(report.comparisons)} equal, on at least {least:,} events each."
        )


def _cost_cells(report: Report) -> Iterable[tuple[str, ...]]:
    for row in report.rows:
        limit = report.ratio(row.case, row.engine, "limit")
        brute = report.ratio(row.case, "brute-force", row.engine)
        quantities = (row.microseconds_per_event, limit, brute, row.build_seconds, row.megabytes, row.matches_per_event)
        yield (row.case, row.engine, *map(_number, quantities))


def _number(value: float | None) -> str:
    """Return a number with three significant digits, or a dash.

    >>> [_number(value) for value in (0.01234, 1.5, 29.71, 1234.5, None)]
    ['0.0123', '1.50', '29.7', '1,234', '-']
    """
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}"
