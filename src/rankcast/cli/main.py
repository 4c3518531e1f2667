"""The commands and their options.

This module imports nothing heavy, so that `rankcast --help` answers at once: a command imports its work when it runs.
Exit codes: 0 success, 1 something is wrong with the input, 2 wrong usage, 130 interrupted, 141 the reader of standard
output went away.
"""

# ruff: noqa: PLC0415 (imports inside functions are the point here)

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rankcast.cli.output.streams import complain, complain_of, make_streams_safe
from rankcast.model.errors import InvalidFileError, RankcastError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

INTERRUPTED = 130
READER_GONE = 141

COMMANDS_GROUP = "rankcast.commands"
"""The entry point group of commands from other distributions."""

LAB_COMMANDS, LAB_INSTALL = ("bench", "study"), "pip install ./lab"
"""The commands of `lab/`, which an installed wheel is without."""


YOUNG_OBJECTS = 50_000
"""New objects between two looks for garbage: a command makes many that stay, and at 700 looks were 5% of its time."""

atexit.register(gc.freeze)  # what is left goes with the process; to look through it once more takes up to 0.3 seconds


class GuardedGroup(TyperGroup):
    """The commands, with every expected failure turned into one message and an exit code.

    Other distributions add commands by entry points, a Typer app each. These are looked up for a name that is no
    command here, and for the list of all: no other command pays for them.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *sorted(_added_commands())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        if (command := super().get_command(ctx, cmd_name)) is not None:
            return command
        if (added := _added_commands().get(cmd_name)) is not None:
            return typer.main.get_command(added.load())
        if cmd_name in LAB_COMMANDS:
            complain(
                f"`rankcast {cmd_name}` is not installed: it is in the repository of rankcast; there: {LAB_INSTALL}"
            )
            raise typer.Exit(2)
        return None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Take a command line, and end the process."""
        make_streams_safe()
        try:
            return super().main(*args, **extra)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # of a help page, which has its own ways of printing
                _forget_standard_output()
                raise SystemExit(READER_GONE) from None
            raise

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the command line; `--help` and `--version` print here."""
        with _guard():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        gc.set_threshold(YOUNG_OBJECTS)
        with _guard():
            return super().invoke(ctx)


@contextmanager
def _guard() -> Iterator[None]:
    """Turn expected failures into a message and an exit code, those of writing the last output included."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except InvalidFileError as error:
        complain_of(error.problems)
        raise typer.Exit(1) from None
    except RankcastError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    except BrokenPipeError:
        _forget_standard_output()
        raise typer.Exit(READER_GONE) from None
    except OSError as error:
        if error.filename is None:
            _forget_standard_output()  # if that is what failed, to write the rest would fail again
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _forget_standard_output() -> None:
    """Let the interpreter's last flush go nowhere: nobody reads standard output any more, or it takes no more."""
    with suppress(OSError):
        sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _added_commands() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {command.name: command for command in entry_points(group=COMMANDS_GROUP)}


app = typer.Typer(
    name="rankcast",
    cls=GuardedGroup,
    help="Ranked content-based publish/subscribe: each subscriber gets only the best k events.",
    epilog="Start with: rankcast demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def file_option(help: str, *names: str) -> Any:  # noqa: A002 (as typer calls it)
    """Declare an option that names a file."""
    return typer.Option(*names, metavar="FILE", help=help)


def picture_option(of: str) -> Any:
    """Declare the option that draws something; a picture that could not be saved is told before any work."""
    return typer.Option(metavar="FILE", help=f"Draw {of} (.png, .svg, .pdf).", callback=_checked_picture)


def seed_option(of: str) -> Any:
    """Declare the seed of what is drawn at random."""
    return typer.Option(min=0, help=f"The same seed gives the same {of}.")


def rows_option(of: str) -> Any:
    """Declare how many rows of something are shown."""
    return typer.Option(min=0, help=f"Rows of {of}.")


def _checked_picture(path: Path | None) -> Path | None:
    if path is not None:
        from rankcast.plotting import check_plot

        check_plot(path)
    return path


SubscriberFile = Annotated[Path, file_option("Subscriber file (.yaml or .json).", "--subscribers", "-s")]
AdvertisementFile = Annotated[
    Path | None, file_option("More advertisements: for how many subscribers events are.", "--advertisements", "-a")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of text.")]
Arrival = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="When events without a time arrived; the start if not told.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")]
AsOneDocument = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def _arrival(now: str | None) -> datetime:
    from rankcast.hub import utc_now
    from rankcast.model.times import parse_time

    return utc_now() if now is None else parse_time(now)


def _version_text() -> str:
    from rankcast.version import __version__

    return __version__


def _versions_text() -> str:
    from rankcast.model.periods import TZDATA_VERSION

    return f"rankcast {_version_text()} (zones of tzdata {TZDATA_VERSION})"


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(_versions_text())
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Take the options that belong to no command."""


EventFile = Annotated[
    str, typer.Argument(metavar="EVENTS", help="Event file (.jsonl, .csv, .parquet), or a folder of them.")
]


@app.command(epilog="Example: rankcast match flats.jsonl --subscribers people.yaml")
def match(
    events: EventFile,
    subscribers: SubscriberFile,
    advertisements: AdvertisementFile = None,
    json: AsJson = False,
    out: Annotated[Path | None, file_option("Write the notifications to FILE as JSON lines.", "--out", "-o")] = None,
    overwrite: Overwrite = False,
    limit: Annotated[int, rows_option("each table")] = 15,
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Take events as they come, but none later than others by more than this."
        ),
    ] = None,
    now: Arrival = None,
) -> None:
    """Publish the events of a file and show who gets what.

    Prints how many events matched and were delivered for each subscriber, with their mean ranks, and the first
    notifications. With --json, prints one line per notification and nothing else. Problems in the files go to standard
    error with file and line; the good rest is used, and the exit code is then 1.

    Events are published at their own times and in their order, whatever the order of lines and files. With --lateness
    they are taken as they come: those that are later than it are counted and change nothing.
    """
    from rankcast.cli.match import match_file
    from rankcast.cli.output.files import check_outputs
    from rankcast.storage.durations import parse_duration

    allowed = None if lateness is None else parse_duration(lateness)
    at = _arrival(now)
    files = events, subscribers, advertisements
    check_outputs([("--out", out)], files, overwrite=overwrite)
    raise typer.Exit(match_file(*files, as_json=json, out=out, limit=limit, lateness=allowed, now=at))


@app.command(epilog="Example: rankcast run --events flats.jsonl --subscribers people.yaml --out matched")
def run(
    events: Annotated[
        str,
        typer.Option(
            "--events", "-e", metavar="PATH", help="Folder, file or pattern; kafka://host:9092/topic; rate://10."
        ),
    ],
    subscribers: Annotated[
        Path, file_option("Subscriber file; for a stream also a folder that changes.", "--subscribers", "-s")
    ],
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="PATH", help="Folder; sqlite:///FILE; postgresql://...; - shows them."),
    ],
    advertisements: AdvertisementFile = None,
    stream: Annotated[bool, typer.Option("--stream", help="Go on with what comes later, until Ctrl-C.")] = False,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stream what is there, and end; run again for what came since.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="With --available-now: there is no more; complete open windows.")
    ] = False,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where a stream is resumed from; by default in the output folder.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master, such as local[4] or spark://host:7077.")
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        str | None, typer.Option(metavar="jsonl|csv|parquet", help="Format of the events, if no suffix tells it.")
    ] = None,
    write: Annotated[str, typer.Option(metavar="parquet|json", help="Format of an output folder.")] = "parquet",
    lateness: Annotated[str, typer.Option(metavar="TIME", help="How late events may come, such as 5m.")] = "0s",
    carry: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Attribute that notifications get too; may be repeated.")
    ] = None,
    query: Annotated[str, typer.Option(metavar="NAME", help="Names the rows of this run in a database.")] = "rankcast",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of Spark's source; may be repeated.")
    ] = None,
    metrics: Annotated[Path | None, file_option("Append one line of JSON per batch to FILE.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch and nothing else.")] = False,
    now: Arrival = None,
) -> None:
    """Publish events on Spark and write who gets what: a whole input at once, or a stream.

    Writes notifications, late events and rejected rows, each exactly once: to folders of Parquet or JSON below --out,
    or to tables of a database. A stream that was stopped goes on where it stopped when the same command is run again.
    Rows that are no events are written to `rejected` with the reason; the exit code is 0 nevertheless.

    What the subscriber file or --advertisements advertise holds as in `rankcast match`: an event of a source with a k
    reaches its k best subscribers, the same ones; one that is not what its source advertises is rejected.
    """
    from rankcast.cli.output.files import check_outputs
    from rankcast.cli.run import Run, run_pipeline
    from rankcast.storage.durations import parse_duration
    from rankcast.storage.events.files import EventFormat

    if now is not None and (stream or available_now):
        raise typer.BadParameter("--now: in a stream, events without a time have that of their micro-batch")
    formats = {known.value: known for known in EventFormat}
    if format is not None and format not in formats:
        raise typer.BadParameter(f"--format {format}: expected one of {', '.join(formats)}")
    if finish and not available_now:
        raise typer.BadParameter("--finish goes with --available-now: a stream that goes on has no end")
    check_outputs([("--metrics", metrics)], [events, subscribers], overwrite=True)  # which is appended to
    pairs = [text.partition("=") for text in option or ()]
    if any(not equals for _, equals, _ in pairs):
        raise typer.BadParameter("--option: expected KEY=VALUE, such as maxFilesPerTrigger=10")
    asked = Run(
        events=events,
        subscribers=subscribers,
        out=out,
        stream=stream or available_now,
        checkpoint=checkpoint,
        master=master,
        format=formats[format] if format is not None else None,
        written=write,
        lateness=parse_duration(lateness),
        available_now=available_now,
        finish=finish,
        metrics=metrics,
        query=query,
        carry=tuple(carry or ()),
        options={key: value for key, _, value in pairs},
        as_json=json,
        now=_arrival(now),
        advertisements=advertisements,
    )
    raise typer.Exit(run_pipeline(asked))


@app.command(epilog="Example: rankcast explain 'flats.jsonl#flat-17' --subscribers people.yaml --subscriber ana-1")
def explain(
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="A file with one event, FILE#ID, FILE#NUMBER, or inline JSON.")
    ],
    subscribers: SubscriberFile,
    subscriber: Annotated[str, typer.Option("--subscriber", "-i", metavar="ID", help="The subscriber.")],
    subscription: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this subscription of the subscriber.")
    ] = None,
    advertisements: AdvertisementFile = None,
    json: AsJson = False,
    now: Arrival = None,
) -> None:
    """Tell why a subscriber gets an event or does not.

    FILE#ID names the event of a file by its id; FILE#3 is its third event, unless 3 is an id. The events that come
    before it in time are published first, so that the verdict is that of `rankcast match`.
    """
    from rankcast.cli.explain import explain_event

    at = _arrival(now)
    raise typer.Exit(explain_event(event, subscribers, subscriber, subscription, advertisements, as_json=json, now=at))


@app.command(epilog="Example: rankcast estimate flats.jsonl --subscribers people.yaml --subscriber ana-1 --k 1 --k 20")
def estimate(
    events: EventFile,
    subscribers: SubscriberFile,
    subscriber: Annotated[
        str | None, typer.Option("--subscriber", "-i", metavar="ID", help="The subscriber, if the file has several.")
    ] = None,
    k: Annotated[list[int] | None, typer.Option(min=0, help="Another k to try; may be repeated.")] = None,
    filter: Annotated[  # noqa: A002 (the option's name)
        list[str] | None, typer.Option("--filter", metavar="TEXT", help="Another filter to try; may be repeated.")
    ] = None,
    at_most: Annotated[
        list[str] | None,
        typer.Option(metavar="CAP", help="Another cap to try, such as 5/day or 1/7d/company; may be repeated."),
    ] = None,
    json: AsOneDocument = False,
    now: Arrival = None,
) -> None:
    """Tell how much a subscription would bring: what a subscriber would have got of past events.

    Beside the subscriber as it is there are variants of it: with half and twice its k, or those of --k, without its
    caps, with each --at-most instead, without each of its subscriptions, and with each --filter in place of them all.
    """
    from rankcast.cli.estimate import estimate_subscriber

    tried = k or (), filter or (), at_most or ()
    found = estimate_subscriber(events, subscribers, subscriber, *tried, as_json=json, now=_arrival(now))
    raise typer.Exit(found)


@app.command(epilog="Example: rankcast generate flats --events 1000 --seed 1 --out flats.jsonl")
def generate(
    feed: Annotated[str, typer.Argument(metavar="FEED", help="flats, movies or trades.")],
    events: Annotated[int, typer.Option("--events", "-n", min=0, help="How many events.")] = 1000,
    seed: Annotated[int, seed_option("feed")] = 0,
    out: Annotated[str, file_option(".jsonl, .csv or .parquet; - is standard output.", "--out", "-o")] = "-",
    subscribers: Annotated[int, typer.Option(min=0, help="How many subscribers.")] = 0,
    subscribers_out: Annotated[Path | None, file_option("Subscriber file to write: .yaml or .json.")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the feed starts, such as 2026-03-01T09:00:00Z.")
    ] = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was written where as JSON.")] = False,
) -> None:
    """Write a realistic feed of events and, if asked, subscribers that follow it."""
    from rankcast.cli.generate import generate_feed
    from rankcast.cli.output.files import check_outputs

    if (subscribers > 0) != (subscribers_out is not None):
        raise typer.BadParameter("--subscribers and --subscribers-out go together")
    check_outputs([("--out", out), ("--subscribers-out", subscribers_out)], overwrite=overwrite)
    generate_feed(feed, events, seed, out, subscribers, subscribers_out, start, as_json=json)


@app.command(epilog="Example: rankcast check people.yaml flats.jsonl")
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Subscriber and event files, or folders of them.")],
    json: AsJson = False,
) -> None:
    """Report every problem in subscriber and event files, with line numbers.

    Events are checked against the schema of the subscriber file, when exactly one is given and it declares one. The
    exit code is 1 when there are errors, 0 when there are none or only warnings.
    """
    from rankcast.cli.check import check_files

    raise typer.Exit(check_files(files, as_json=json))


@app.command(epilog="Example: rankcast cover people.yaml --plot cover.png")
def cover(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Subscriber file (.yaml or .json).")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="regular, rank, ancestor, pairwise, exact or probabilistic; may be repeated. All."
        ),
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="How many above a subscription hide it, for rank and ancestor.")] = 2,
    budget: Annotated[
        int, typer.Option(min=0, help="Work allowed for a check, in rows looked at, for exact.")
    ] = 100_000,
    delta: Annotated[float, typer.Option(help="Allowed probability of a wrong answer, for probabilistic.")] = 1e-6,
    details: Annotated[bool, typer.Option("--details", help="Show which subscription is covered by which.")] = False,
    limit: Annotated[int, rows_option("each table of --details")] = 15,
    plot: Annotated[Path | None, picture_option("rectangles over two attributes")] = None,
    overwrite: Overwrite = False,
    attributes: Annotated[
        str | None, typer.Option(metavar="A,B", help="The two attributes of the picture; else those named most often.")
    ] = None,
    json: AsOneDocument = False,
) -> None:
    """Report what the subscriptions of a file reduce to when those that others cover are not forwarded.

    A broker that forwards subscriptions towards publishers can keep back what others cover. Top-k covering keeps those
    that the k best need; group cover keeps back also what several cover together. The schema of the file counts: an
    attribute that it does not require may be missing from events.
    """
    from rankcast.cli.cover import checked_attributes, checked_strategies, cover_file
    from rankcast.cli.output.files import check_outputs
    from rankcast.covering.group.cover import Checking

    check_outputs([("--plot", plot)], [file], overwrite=overwrite)
    strategies, pair = checked_strategies(strategy or ()), checked_attributes(attributes)
    group, shown = Checking(budget=budget, delta=delta), limit if details else None
    raise typer.Exit(cover_file(file, strategies, k, group, plot, pair, details=shown, as_json=json))


PLACEMENTS = (
    "greedy-online",
    "greedy-offline",
    "greedy-without-latency",
    "closest-without-balance",
    "closest",
    "balance",
    "programme",
    "local-search",
)
"""The names of `placement.algorithms.Algorithm`, which is not imported for a help page."""


@app.command(epilog="Example: rankcast place problem.yaml --algorithm greedy-offline --out plan.json")
def place(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Problem file (.yaml or .json).")],
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(PLACEMENTS)}, or all of them; may be repeated. Unless told: greedy-offline and "
            "local-search.",
        ),
    ] = None,
    out: Annotated[Path | None, file_option("Write the best plan there, as JSON.")] = None,
    seed: Annotated[int, seed_option("plan")] = 0,
    moves: Annotated[
        int | None, typer.Option(min=1, help="Moves of local search: 10 per subscriber, at least 20000, unless told.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.001, help="Let local search go on for so long instead; no seed gives that result again."),
    ] = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw the results and the best plan there.")] = None,
    overwrite: Overwrite = False,
    design: Annotated[
        int | None, typer.Option(metavar="DEGREE", min=2, help="Try a tree of at most so many children, too.")
    ] = None,
    json: AsOneDocument = False,
) -> None:
    """Decide which broker serves which subscriber: little traffic, short ways, balanced load.

    Every result is audited from scratch. The best one is that which breaks the fewest limits and has the least traffic;
    the exit code is 1 when even that breaks one.
    """
    from rankcast.cli.place.command import Wishes, checked_algorithms, place_file
    from rankcast.plotting import figure_class

    if plots is not None:
        figure_class()  # rather now than after a long search
    if moves is not None and seconds is not None:
        raise typer.BadParameter("--moves and --seconds both say how long to search; expected one of them")
    wishes, algorithms = (
        Wishes(out, plots, seed, moves, design, seconds, overwrite),
        checked_algorithms(algorithm or ()),
    )
    if useless := wishes.useless_with(algorithms):
        raise typer.BadParameter(useless)
    raise typer.Exit(place_file(file, algorithms, wishes, as_json=json))


@app.command(epilog="Example: rankcast simulate network.yaml --plot network.svg")
def simulate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The network and its load (.yaml or .json).")
    ] = None,
    plan: Annotated[Path | None, file_option("Simulate the plan of `rankcast place --out` instead.")] = None,
    publications: Annotated[
        int | None, typer.Option(min=1, help="How many events to publish, with --plan: 10000 unless told.")
    ] = None,
    seed: Annotated[int | None, seed_option("events, with --plan: 1 unless told")] = None,
    plot: Annotated[Path | None, picture_option("the network with its loads")] = None,
    overwrite: Overwrite = False,
    limit: Annotated[int, rows_option("each table")] = 10,
    now: Arrival = None,
    json: AsOneDocument = False,
) -> None:
    """Simulate a network of brokers: what it sends, what each broker must know, and what is delivered.

    The file names a topology and a routing strategy; then how many subscribers there are and how many events are
    published, or the files of both, as for `rankcast match`, and where everybody is. With --plan, a placement runs
    instead, and the traffic into each broker is held against the planned one; the exit code is 1 when they differ by
    more than chance explains.
    """
    from rankcast.cli.output.files import check_outputs
    from rankcast.cli.simulate.command import simulate_file

    if plan is not None and now is not None:
        raise typer.BadParameter("--now goes with the file of a network; with --plan events are drawn")
    check_outputs([("--plot", plot)], [file, plan], overwrite=overwrite)
    if plan is not None and file is None:
        from rankcast.cli.simulate.plan import simulate_plan

        events, drawn = publications or 10_000, 1 if seed is None else seed
        raise typer.Exit(simulate_plan(plan, events, drawn, plot, limit=limit, as_json=json))
    if plan is not None or file is None:
        raise typer.BadParameter("expected either the file of a network or --plan FILE")
    if publications is not None or seed is not None:
        raise typer.BadParameter("--publications and --seed go with --plan; the file of a network says both itself")
    raise typer.Exit(simulate_file(file, plot, _arrival(now), limit=limit, as_json=json))


@app.command(epilog="Example: rankcast demo --small")
def demo(
    small: Annotated[bool, typer.Option("--small", help="Show a small one, without Spark.")] = False,
    events: Annotated[
        int | None,
        typer.Option("--events", "-n", min=1, help="How many adverts to publish: 100000, or 3000 with --small."),
    ] = None,
    subscribers: Annotated[int, typer.Option(min=6, help="How many subscribers there are, on Spark.")] = 2000,
    seed: Annotated[int, seed_option("demo")] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where pictures go, on Spark.")] = Path("out"),
    overwrite: Overwrite = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary or, with --small, what the named people got.")
    ] = False,
) -> None:
    """Show on a generated feed what subscribers get, and why: on Spark, with pictures of what each policy does."""
    from rankcast.cli.demo import EVENTS, SMALL_EVENTS, run_small_demo, run_spark_demo

    if small:
        run_small_demo(events or SMALL_EVENTS, seed, as_json=json)
    else:
        run_spark_demo(events or EVENTS, subscribers, seed, out, overwrite=overwrite, as_json=json)


@app.command("warm-up", epilog="Example: rankcast warm-up matching delivery")
def warm_up(
    packages: Annotated[
        list[str] | None, typer.Argument(metavar="[PACKAGE]", help="Packages whose kernels are wanted; all by default.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compile all kernels ahead of time, for an image or a cluster.

    Compiled kernels are kept beside the installed package, or where NUMBA_CACHE_DIR says, and found there by every
    process, also when the folder is read-only by then. They are good for processors of the same model; elsewhere they
    are compiled again when they are first needed. Prints what was compiled and where it is.
    """
    from rankcast.cli.warm_up import warm_packages

    raise typer.Exit(warm_packages(packages or [], as_json=json))


@app.command(epilog="Example: rankcast version --json")
def version(json: AsJson = False) -> None:
    """Show the version, and that of the time zones."""
    from rankcast.cli.output.streams import write_json
    from rankcast.model.periods import TZDATA_VERSION

    if json:
        write_json({"name": "rankcast", "version": _version_text(), "tzdata": TZDATA_VERSION})
    else:
        typer.echo(_versions_text())
