"""The updatable index: subscriptions by number, matched and updated at the same time.

An index begins with few subscriptions in plain Python (`entries.Few`), so that a new program has matched its first
events before a compiler is loaded. When it holds more than that, or is told to, it goes over to kernels
(`compiled_index`): these are loaded and the subscriptions compiled in a job, and what changed meanwhile is caught up
with when it is done. Answers are the same before and after.

Everything that takes long is a job for the `run` that an index was given, such as the `submit` of an executor with one
thread: neither readers nor writers wait for it. Without a `run` the writer does jobs at once, the same way every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rankcast.arrays import Array
from rankcast.matching.entries import Entry, Few, FewSnapshot, check_once
from rankcast.model.errors import DuplicateIdError, UnknownIdError
from rankcast.model.values import AttributeValue

if TYPE_CHECKING:
    import pyarrow as pa

    from rankcast.matching.segments.compiled_index import CompiledIndex, Snapshot
    from rankcast.matching.segments.compiled_reader import CompiledReader
    from rankcast.matching.segments.segment import Segment

__all__ = ["Entry", "Index", "Job", "Reader", "Run"]

FEW = 128
"""Subscriptions that are matched in plain Python: some 50 microseconds per event at most, while kernels take 10 and as
long to load as a million subscriptions take to be evaluated."""

DELTA = 1024
"""Subscriptions that the kernels look at one by one, which costs an event up to some 5 microseconds. Fewer would be
merged more often, and merges are what readers notice most."""

Job: TypeAlias = Callable[[], object]
Run: TypeAlias = Callable[[Job], object]


class Index:
    """Subscriptions by number.

    A number may be used again after its removal. Readers that still work on an older snapshot know it as what it was.

    >>> from rankcast.model.expressions import attr
    >>> from rankcast.model.filters import Filter
    >>> index = Index([Entry.of(1, Filter.of(attr("rent") < 900))])
    >>> index.add(Entry.of(2, Filter.of(attr("rooms") > 2)))
    >>> index.remove(1)
    >>> index.reader().match_one({"rent": 700, "rooms": 3})
    array([2])
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        segments: Sequence[Segment] = (),
        run: Run | None = None,
        few: int = FEW,
        delta: int = DELTA,
    ) -> None:
        self._lock = threading.Lock()
        self._run, self._few_limit, self._delta_limit = run or _at_once, few, delta
        self._is_loading = False
        self._compiled: CompiledIndex | None = None
        entries = tuple(entries)
        if segments or not few or len(entries) > few:
            self._compiled = self._compile(entries, segments, 0)
            return
        self._few = Few()
        for entry in entries:
            if entry.number in self._few:
                raise DuplicateIdError("a subscription number is used twice")
            self._few.add(entry)
        self._snapshot = FewSnapshot(self._few, len(self._few), 0)

    @property
    def snapshot(self) -> FewSnapshot | Snapshot:
        """What the index holds now: another one after every update, never changed."""
        compiled = self._compiled
        return self._snapshot if compiled is None else compiled.snapshot

    def reader(self) -> Reader:
        """Return a reader for one thread."""
        return Reader(self)

    def __len__(self) -> int:
        return len(self.snapshot)

    def __contains__(self, number: int) -> bool:
        with self._lock:
            return number in (self._few if self._compiled is None else self._compiled)

    def add(self, entry: Entry) -> None:
        """Add a subscription; raises DuplicateIdError when its number is taken."""
        self.add_many((entry,))

    def add_many(self, entries: Sequence[Entry]) -> None:
        """Add subscriptions, all or none; raises DuplicateIdError when a number is taken.

        Many cost less together than one by one.
        """
        with self._lock:
            compiled, is_due = self._compiled, False
            if compiled is None:
                check_once(entries)
                for entry in entries:
                    if entry.number in self._few:
                        raise DuplicateIdError(f"subscription number {entry.number} is taken")
                for entry in entries:
                    self._few.add(entry)
                self._publish()
                is_due = not self._is_loading and len(self._few) - self._few.dead > self._few_limit
                self._is_loading = self._is_loading or is_due
        if compiled is not None:
            compiled.add_many(entries)
        elif is_due:
            self._have_loaded()

    def remove(self, number: int) -> None:
        """Remove a subscription; raises UnknownIdError when there is none."""
        with self._lock:
            compiled = self._compiled
            if compiled is None:
                if number not in self._few:
                    raise UnknownIdError(f"there is no subscription number {number}")
                self._few.remove(number, self._snapshot.sequence + 1)
                self._publish()
        if compiled is not None:
            compiled.remove(number)

    def _publish(self) -> None:
        """Show an update to readers; forget the dead when they are the most."""
        few, sequence = self._few, self._snapshot.sequence + 1
        if not self._is_loading and 2 * few.dead > len(few) + self._few_limit:
            few = self._few = Few(few.living(len(few), sequence))
        self._snapshot = FewSnapshot(few, len(few), sequence)

    def use_kernels(self) -> CompiledIndex:
        """Go over to kernels now, whatever the number of subscriptions; return what holds them."""
        return self._compiled or self._load()

    def _have_loaded(self) -> None:
        try:
            self._run(self._load)
        except BaseException:  # such as an executor that was shut down: the next update tries again
            self._is_loading = False
            raise

    def _load(self) -> CompiledIndex:
        """Go over to kernels: compile what there is, then catch up with what has changed since."""
        with self._lock:
            if self._compiled is not None:
                return self._compiled
            self._is_loading = True  # so that the few stay where they are
            before = self._snapshot
        made = self._compile(before.delta, (), before.sequence)
        _load_kernels(made)
        with self._lock:
            if self._compiled is None:
                was = {entry.number: entry for entry in before.delta}
                now = {entry.number: entry for entry in self._snapshot.delta}
                for number in [number for number, entry in was.items() if now.get(number) is not entry]:
                    made.remove(number)
                made.add_many([entry for number, entry in now.items() if was.get(number) is not entry])
                self._compiled = made
                self._few = Few()
                self._snapshot = FewSnapshot(self._few, 0, 0)
            return self._compiled

    def _compile(self, entries: Iterable[Entry], segments: Sequence[Segment], sequence: int) -> CompiledIndex:
        from rankcast.matching.segments.compiled_index import CompiledIndex  # noqa: PLC0415  # it loads a compiler

        run, delta = self._run, self._delta_limit
        return CompiledIndex(entries, segments=segments, run=run, delta=delta, sequence=sequence)


class Reader:
    """Matches events, in plain Python or by kernels, whichever the index has come to."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._compiled: CompiledReader | None = None

    def match_one(
        self, attributes: Mapping[str, AttributeValue], snapshot: FewSnapshot | Snapshot | None = None
    ) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order.

        Unless an older snapshot is given, the newest one is used.
        """
        if snapshot is None:
            snapshot = self._index.snapshot
        if isinstance(snapshot, FewSnapshot):
            return snapshot.matching(attributes)
        return (self._compiled or self._by_kernels()).match_one(attributes, snapshot)

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]].

        Columns are always matched by kernels.
        """
        return (self._compiled or self._by_kernels()).match_batch(batch, self._index.use_kernels().snapshot)

    def _by_kernels(self) -> CompiledReader:
        from rankcast.matching.segments.compiled_reader import CompiledReader  # noqa: PLC0415  # it loads a compiler

        self._compiled = CompiledReader()
        return self._compiled


def _load_kernels(compiled: CompiledIndex) -> None:
    """Match nothing once, so that no event waits for kernels to be loaded or compiled."""
    from rankcast.matching.segments.compiled_reader import CompiledReader  # noqa: PLC0415  # it loads a compiler

    CompiledReader().match_one({}, compiled.snapshot)


def _at_once(job: Job) -> None:
    job()
