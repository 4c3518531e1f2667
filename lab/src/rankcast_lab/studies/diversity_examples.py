"""The two worked examples of the thesis: the trace of Figure 4.1, and the windows of section 4.2.

Section 4.2 shows that two events can be new in one window. It looks at full windows only; sliding delivery looks at
partial ones too, so the same four events are delivered one at a time, e2 before the first window is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.diverse_selection import diverse_selection
from rankcast.delivery.policies import new_queue
from rankcast.delivery.queues import step
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity
from rankcast.model.policies import Sliding
from rankcast.model.values import Value
from rankcast_lab.studies.findings import Finding

GENRES = ("comedy", "drama", "drama", "drama", "horror", "sci-fi")
RANKS = (0.9, 0.75, 0.75, 0.75, 0.65, 0.6)
TRACE = (
    {2: 0.875, 3: 0.875, 4: 0.875, 5: 0.825, 6: 0.8},
    {3: 0.625, 4: 0.625, 5: 0.825, 6: 0.8},
    {3: 0.708, 4: 0.708, 6: 0.8},
)
"""The published divranks by event in the rounds after the first."""

FILMS = (("horror", "Burton"), ("horror", "Hitchcock"), ("drama", "Spielberg"), ("drama", "Tarantino"))
FILM_RANKS = (0.9, 0.85, 0.8, 0.9)
HALF = Diversity(sigma=0.5)

Content = tuple[tuple[str, Value], ...]


def trace() -> list[dict[int, float]]:
    """Return the divranks of Figure 4.1 by event, round after round, from the definition of a mean distance."""
    events = [{"genre": genre} for genre in GENRES]
    rounds = []
    selected = diverse_selection([tuple(event.items()) for event in events], RANKS, 4, HALF)
    for count in range(1, len(selected)):
        before = selected[:count]
        rounds.append(
            {
                at + 1: HALF.sigma * RANKS[at]
                + (1 - HALF.sigma) * sum(HALF.distance(events[at], events[one]) for one in before) / count
                for at in range(len(events))
                if at not in before
            }
        )
    return rounds


def selection() -> list[int]:
    """Return the events of Figure 4.1 that are selected, in order."""
    contents: list[Content] = [(("genre", genre),) for genre in GENRES]
    return [at + 1 for at in diverse_selection(contents, RANKS, 4, HALF)]


def window(first: int) -> list[int]:
    """Return the two events of section 4.2 that are selected from the window of three that begins with one."""
    contents = [_film(event) for event in range(first, first + 3)]
    return [first + at for at in diverse_selection(contents, FILM_RANKS[first - 1 : first + 2], 2, HALF)]


def slid() -> list[list[int]]:
    """Return what sliding delivery makes of the four events, match by match."""
    queue, found = new_queue(Sliding(k=2, window=3, diversity=HALF)), []
    for event, rank in enumerate(FILM_RANKS, start=1):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=event)
        queue, delivered = step(queue, Candidate(Identity("films", str(event)), now, rank, content=_film(event)), now)
        found.append([int(one.candidate.identity.id) for one in delivered])
    return found


def findings() -> list[Finding]:
    """Compare with the published examples."""
    rows = [
        Finding(f"Figure 4.1: divranks, round {number}", _numbers(published), _numbers(ours), _close(published, ours))
        for number, (published, ours) in enumerate(zip(TRACE, trace(), strict=True), start=2)
    ]
    first, second = window(1), window(2)
    new = sorted(set(second) - set(first))
    return [
        *rows,
        Finding("Figure 4.1: selected", "e1 e2 e5 e6", _events(selection()), selection() == [1, 2, 5, 6]),
        Finding("section 4.2: first window", "e1 e3", _events(first), first == [1, 3]),
        Finding("section 4.2: second window", "e4 e2", _events(second), second == [4, 2]),
        Finding("section 4.2: new in the second window", "e2 e4", _events(new), new == [2, 4]),
        Finding("section 4.2: sliding delivery, match by match", None, " / ".join(map(_events, slid())), None),
    ]


def _film(event: int) -> Content:
    genre, director = FILMS[event - 1]
    return (("director", director), ("genre", genre))


def _numbers(divranks: dict[int, float]) -> str:
    return " ".join(f"{divrank:.3f}"[1:] for divrank in divranks.values())


def _close(published: dict[int, float], ours: dict[int, float]) -> bool:
    return published.keys() == ours.keys() and all(abs(published[at] - ours[at]) < 0.0005 for at in published)


def _events(events: Sequence[int]) -> str:
    return " ".join(f"e{event}" for event in events) or "-"
