"""The commands and their options.

This module imports nothing heavy, so that `rankcast --help` answers at once: a command imports its work when it runs.
Exit codes: 0 success, 1 something is wrong with the input, 2 wrong usage, 130 interrupted, 141 the reader of standard
output went away.
"""

# ruff: noqa: PLC0415 (imports inside functions are the point here)

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rankcast.cli.bench import bench_app
from rankcast.cli.streams import complain, make_streams_safe
from rankcast.cli.study import study
from rankcast.model.errors import RankcastError

INTERRUPTED = 130
READER_GONE = 141


class GuardedGroup(TyperGroup):
    """The commands, with every expected failure turned into one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        make_streams_safe()
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except RankcastError as error:
            complain(str(error))
            raise typer.Exit(1) from None
        except BrokenPipeError:
            _forget_standard_output()
            raise typer.Exit(READER_GONE) from None
        except OSError as error:
            complain(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        return result


def _forget_standard_output() -> None:
    """Let the interpreter's last flush go nowhere: nobody reads standard output any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


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
app.add_typer(bench_app, name="bench")
app.command(epilog="Example: rankcast study topkw-deliveries --quick --out studies")(study)

SubscriberFile = Annotated[
    Path, typer.Option("--subscribers", "-s", metavar="FILE", help="Subscriber file (.yaml or .json).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of text.")]


def _version_text() -> str:
    from importlib.metadata import version as installed

    return installed("rankcast")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"rankcast {_version_text()}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Take the options that belong to no command."""


@app.command(epilog="Example: rankcast match flats.jsonl --subscribers people.yaml")
def match(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Event file: .jsonl, .csv or .parquet.")],
    subscribers: SubscriberFile,
    json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the notifications to FILE as JSON lines.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of each table.")] = 15,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="How much later than others events may come, such as 15m.")
    ] = "0s",
) -> None:
    """Publish the events of a file and show who gets what.

    Prints how many events matched and were delivered for each subscriber, with their mean ranks, and the first
    notifications. With --json, prints one line per notification and nothing else. Problems in the files go to standard
    error with file and line; the good rest is used, and the exit code is then 1.

    Events are published at their own times. Those that come out of order are put in order if they are no later than
    --lateness; the others are counted and change nothing.
    """
    from rankcast.cli.match import match_file
    from rankcast.storage.durations import parse_duration

    allowed = parse_duration(lateness)
    raise typer.Exit(match_file(events, subscribers, as_json=json, out=out, limit=limit, lateness=allowed))


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
    json: AsJson = False,
) -> None:
    """Tell why a subscriber gets an event or does not.

    FILE#ID names the event of a file by its id; FILE#3 is its third event, unless 3 is an id. The events before it are
    published first, so that the verdict is that of `rankcast match`.
    """
    from rankcast.cli.explain import explain_event

    raise typer.Exit(explain_event(event, subscribers, subscriber, subscription, as_json=json))


@app.command(epilog="Example: rankcast generate flats --events 1000 --seed 1 --out flats.jsonl")
def generate(
    feed: Annotated[str, typer.Argument(metavar="FEED", help="flats, movies or trades.")],
    events: Annotated[int, typer.Option("--events", "-n", min=0, help="How many events.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same feed.")] = 0,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help=".jsonl, .csv or .parquet; - is standard output.")
    ] = "-",
    subscribers: Annotated[int, typer.Option(min=0, help="How many subscribers.")] = 0,
    subscribers_out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Subscriber file to write: .yaml or .json.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the feed starts, such as 2026-03-01T09:00:00Z.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written where as JSON.")] = False,
) -> None:
    """Write a realistic feed of events and, if asked, subscribers that follow it."""
    from rankcast.cli.generate import generate_feed

    if (subscribers > 0) != (subscribers_out is not None):
        raise typer.BadParameter("--subscribers and --subscribers-out go together")
    generate_feed(feed, events, seed, out, subscribers, subscribers_out, start, as_json=json)


@app.command(epilog="Example: rankcast check people.yaml flats.jsonl")
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Subscriber and event files.")],
    json: AsJson = False,
) -> None:
    """Report every problem in subscriber and event files, with line numbers.

    Events are checked against the schema of the subscriber file, when exactly one is given and it declares one. The
    exit code is 1 when there are errors, 0 when there are none or only warnings.
    """
    from rankcast.cli.check import check_files

    raise typer.Exit(check_files(files, as_json=json))


@app.command(epilog="Example: rankcast demo")
def demo(
    events: Annotated[int, typer.Option("--events", "-n", min=1, help="How many adverts to publish.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same demo.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the notifications of the named subscribers.")] = False,
) -> None:
    """Show on a generated feed what subscribers get, and why."""
    from rankcast.cli.demo import run_demo

    run_demo(events, seed, as_json=json)


@app.command(epilog="Example: rankcast version --json")
def version(json: AsJson = False) -> None:
    """Show the version."""
    from rankcast.cli.streams import write_json

    if json:
        write_json({"name": "rankcast", "version": _version_text()})
    else:
        typer.echo(f"rankcast {_version_text()}")
