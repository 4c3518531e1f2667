"""`rankcast cover`: what the subscriptions of a file reduce to when covered ones are not forwarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from rankcast.cli.cover.picture import draw_file
from rankcast.cli.output.streams import Problems, complain, write_json
from rankcast.cli.output.terminal import Progress, console, progress, table
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, counted, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.storage.subscribers.files import SubscriberFile, load_subscribers

STRATEGIES = {
    "regular": "RegularCover",
    "rank": "RankCoverK",
    "ancestor": "AncestorCoverK",
    "pairwise": "group cover, pairwise",
    "exact": "group cover, exact",
    "probabilistic": "group cover, probabilistic",
}
"""What is shown for each strategy that can be asked for."""

BY_TOP_K = {"regular": Cover.REGULAR, "rank": Cover.RANK, "ancestor": Cover.ANCESTOR}
KERNEL_FILTERS = (
    "x < 4 and y < 4",
    "x < 4 and y >= 4",
    "x >= 4 and y < 4",
    "x >= 4 and y >= 4",
    "x between 2 and 6 and y between 2 and 6",
)
"""Covered together, so that every kernel has work."""

SHOWN_SUPPORT = 4
"""Names of those that cover one, in a line."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What one strategy leaves: who is covered, and by which forwarded ones.

    `exhausted` counts checks that were given up.
    """

    strategy: str
    k: int | None
    total: int
    covered: dict[int, tuple[int, ...]]
    exhausted: int
    seconds: float

    @property
    def forwarded(self) -> int:
        """How many are forwarded."""
        return self.total - len(self.covered)

    @property
    def share(self) -> float:
        """The forwarded share in percent."""
        return 100 * self.forwarded / self.total if self.total else 0.0

    @property
    def title(self) -> str:
        """The strategy as people read it."""
        return STRATEGIES[self.strategy] + (f", k={self.k}" if self.k is not None else "")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command was asked for."""

    file: Path
    strategies: tuple[str, ...]
    k: int
    details: bool
    limit: int
    as_json: bool
    plot: Path | None
    attributes: tuple[str, str] | None


def cover_file(asked: Asked) -> int:
    """Run the command and return its exit code."""
    loaded = load_subscribers(asked.file)
    problems = Problems(loaded.problems)
    problems.close()
    names, filters = _subscriptions(loaded)
    _compile_kernels(asked.strategies)
    total = len(filters) * len(asked.strategies)
    with progress("covering", total=total, quiet=asked.as_json) as bar:
        found = [reduced(strategy, filters, loaded.schema, asked.k, bar) for strategy in asked.strategies]
    if asked.plot is not None:
        with progress("drawing", quiet=asked.as_json):
            draw_file(asked.plot, found, names, filters, loaded.schema, asked.attributes)
    if asked.as_json:
        write_json(_document(asked, found, names))
    else:
        _show(asked, found, names, loaded)
    return 1 if problems.errors else 0


def checked_strategies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies that were named, each once, or all when none was."""
    for name in names:
        if name not in STRATEGIES:
            raise InvalidValueError(f"--strategy: there is no {shown(name)}; expected one of {', '.join(STRATEGIES)}")
    return tuple(dict.fromkeys(names)) or tuple(STRATEGIES)


def checked_attributes(text: str | None) -> tuple[str, str] | None:
    """Return the two attributes of a picture."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise InvalidValueError(f"--attributes: {shown(text)} is not two different names; expected such as rent,rooms")
    return names[0], names[1]


def _subscriptions(loaded: SubscriberFile) -> tuple[list[str], list[Filter]]:
    """Return all subscriptions: their names, `subscriber/subscription`, and their filters."""
    own = [(subscriber.id, one) for subscriber in loaded.subscribers for one in subscriber.subscriptions]
    return [f"{subscriber}/{one.id}" for subscriber, one in own], [one.filter for _, one in own]


def _compile_kernels(strategies: Sequence[str]) -> None:
    """Cover a little, before anything is timed: compiling for this machine takes seconds, the first time only."""
    filters = [parse_filter(text) for text in KERNEL_FILTERS]
    with progress("compiling") as bar:
        for strategy in strategies:
            reduced(strategy, filters, None, 1, bar)


def reduced(strategy: str, filters: Sequence[Filter], schema: Schema | None, k: int, bar: Progress) -> Reduction:
    """Work out what a strategy leaves of some filters."""
    started = perf_counter()
    is_top_k = strategy in BY_TOP_K
    made: CoverSet | ActiveSet = (
        CoverSet(BY_TOP_K[strategy], k, schema=schema)
        if is_top_k
        else ActiveSet(Checking(GroupStrategy(strategy)), schema)
    )
    for number, wanted in enumerate(bar.over(filters)):
        made.add(number, wanted)
    if isinstance(made, CoverSet):
        covered, exhausted = {number: made.hiding(number) for number in made.hidden.tolist()}, 0
    else:
        covered, exhausted = {number: made.support(number) for number in made.passive}, made.exhausted
    named = k if strategy in ("rank", "ancestor") else None
    return Reduction(strategy, named, len(filters), covered, exhausted, perf_counter() - started)


def _document(asked: Asked, found: Sequence[Reduction], names: Sequence[str]) -> dict[str, object]:
    return {
        "file": str(asked.file),
        "subscriptions": len(names),
        "strategies": [
            {
                "strategy": one.strategy,
                "k": one.k,
                "forwarded": one.forwarded,
                "covered": len(one.covered),
                "forwarded_percent": round(one.share, 3),
                "given_up": one.exhausted,
                "seconds": round(one.seconds, 6),
                "covered_by": {
                    names[number]: [names[other] for other in others] for number, others in one.covered.items()
                },
            }
            for one in found
        ],
        "plot": None if asked.plot is None else str(asked.plot),
    }


def _show(asked: Asked, found: Sequence[Reduction], names: Sequence[str], loaded: SubscriberFile) -> None:
    on = console()
    columns = {"Strategy": "left", "Forwarded": "right", "Covered": "right", "Forwarded %": "right", "Seconds": "right"}
    rows = [
        (one.title, f"{one.forwarded:,}", f"{len(one.covered):,}", f"{one.share:.1f}", f"{one.seconds:.2f}")
        for one in found
    ]
    on.print(table("What must be forwarded", columns, rows))
    on.print()
    if asked.details:
        for one in found:
            _show_covered(one, names, asked.limit)
    on.print(f"{counted(len(names), 'subscription')} of {counted(len(loaded.subscribers), 'subscriber')}")
    for note in _notes(found, loaded):
        on.print(note)
    if asked.plot is not None:
        complain(f"wrote {asked.plot}")


def _show_covered(one: Reduction, names: Sequence[str], limit: int) -> None:
    on = console()
    rows = [(names[number], _named(others, names)) for number, others in list(one.covered.items())[:limit]]
    if rows:
        on.print(table(one.title, {"Covered": "left", "By": "rest"}, rows))
    else:
        on.print(f"{one.title}: nothing is covered")
    if len(one.covered) > limit:
        on.print(f"... and {len(one.covered) - limit:,} more; --limit sets how many are shown")
    on.print()


def _named(others: Sequence[int], names: Sequence[str]) -> str:
    if not others:
        return "nobody: no event can match it"
    first = ", ".join(names[other] for other in others[:SHOWN_SUPPORT])
    return first if len(others) <= SHOWN_SUPPORT else f"{first} and {len(others) - SHOWN_SUPPORT} more"


def _notes(found: Sequence[Reduction], loaded: SubscriberFile) -> list[str]:
    """Return what a reader of the figures should know."""
    notes = []
    timed = sum(
        one.active_from is not None or one.active_until is not None
        for subscriber in loaded.subscribers
        for one in subscriber.subscriptions
    )
    if timed:
        notes.append(f"{counted(timed, 'subscription')} active for some time only: times are not looked at here")
    given_up = sum(one.exhausted for one in found)
    if given_up:
        notes.append(f"{counted(given_up, 'check')} given up for want of work allowed, and forwarded: always safe")
    if any(one.strategy == "probabilistic" for one in found):
        notes.append("probabilistic answers may be wrong; the others never are")
    return notes
