"""Match sets compared: engines may find subscriptions in any order, but must find the same ones, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast_lab.bench.report import Comparison


@dataclass(frozen=True, slots=True)
class Matches:
    """The subscriptions of event i are numbers[offsets[i]:offsets[i+1]], in any order."""

    offsets: Array
    numbers: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, event: int) -> Array:
        """Return the subscriptions of one event in ascending order."""
        return np.sort(self.numbers[self.offsets[event] : self.offsets[event + 1]])

    @staticmethod
    def from_pairs(events: Array, numbers: Array, count: int) -> Matches:
        """Return the matches of pairs (event, subscription) in any order."""
        order = np.argsort(events, kind="stable")
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(events, minlength=count), out=offsets[1:])
        return Matches(offsets, numbers[order])


def compare(case: str, reference: str, found: Mapping[str, Matches]) -> Iterator[Comparison]:
    """Compare every engine with the reference, on the events that both have seen."""
    truth = found[reference]
    for engine, matches in found.items():
        if engine == reference:
            continue
        events = min(len(truth), len(matches))
        difference = next((text for event in range(events) if (text := _difference(truth, matches, event))), "")
        yield Comparison(case, engine, reference, events, equal=not difference and events > 0, difference=difference)


def _difference(truth: Matches, matches: Matches, event: int) -> str:
    expected, found = truth.of(event), matches.of(event)
    if np.array_equal(expected, found):
        return ""
    missed, extra = np.setdiff1d(expected, found), np.setdiff1d(found, expected)
    twice = len(found) - len(np.unique(found))
    parts = [
        f"{name} {len(some):,} ({some[0]}, ...)" for name, some in (("missed", missed), ("added", extra)) if len(some)
    ]
    if twice:
        parts.append(f"{twice:,} found more than once")
    return f"event {event}: {', '.join(parts)} of {len(expected):,}"


def gathered(found: Iterable[Array]) -> Matches:
    """Return the matches of events that were matched one by one."""
    lists = list(found)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(own) for own in lists], out=offsets[1:])
    return Matches(offsets, np.concatenate([np.zeros(0, np.int64), *lists]))
