"""What a stream's checkpoint has of subscribers that change: their versions, and which micro-batch had which.

A version is a folder: who the subscribers are and when, what their delivery queues do, what came too late. It is
written under another name, brought to the disk and then renamed, so a folder with a version's name is whole and never
changes. `changes.parquet` is what the stateful stage needs: for each queue whose subscriber is not simply always there,
each instant at which the queue begins or gets another policy (`policy` is its document) or ends (null), and how what it
holds is ranked from then on.

Spark repeats a micro-batch whose result may not have arrived, after a crash or when a task fails. Repeated with other
subscribers it would give another result, so the version is pinned by the number of the batch, in a file beside Spark's
own checkpoint: of several writers the first wins, and everybody else uses what it says. A pin is whole or not there.
Cost: a pin is one small file, one fsync; asking for one is one read.

All files are on a file system that driver and workers share (one machine's disk, NFS).
"""

from __future__ import annotations

import json
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.delivery.stream.handovers import PLAIN, Handover
from rankcast.delivery.stream.queue_changes import stated_from, stated_text
from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import Policy
from rankcast.model.subscriptions import SubscriberId
from rankcast.spark.subscribers.timelines import Period, Timeline
from rankcast.storage.text_files import invalid_file, unreadable
from rankcast.storage.writing import create, replacing, sync

FORMAT = 3
VERSION_DIGITS, PIN_DIGITS = 8, 10
ABOUT, TIMELINES, CHANGES, AUDIENCE = "version.json", "timelines.parquet", "changes.parquet", "audience"

_TIMELINES = pa.schema([("id", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("document", pa.string())])
_CHANGES = pa.schema(
    [
        ("queue", pa.int64()),
        ("time", pa.int64()),
        ("policy", pa.string()),
        ("ranking", pa.string()),
        ("handover", pa.string()),
    ]
)


class VersionChange(NamedTuple):
    """From `time` on a queue has this policy; without one it is gone, with everything it holds.

    `ranking` says how what it holds is ranked from then on (`Reranking`); empty: as it is.
    """

    queue: int
    time: int
    policy: Policy | None
    ranking: str = ""
    handover: Handover = PLAIN


class LateChange(NamedTuple):
    """A change of a subscriber that states an instant which events had passed already, and when it happens instead."""

    subscriber: str
    stated: int
    effective: int


class About(msgspec.Struct, frozen=True):
    """What a version says of itself; `mark` is that of the table's content, `batch` the first that may use it."""

    number: int
    base: int | None
    batch: int
    frontier: int
    mark: str
    late: tuple[LateChange, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """Where the versions of a store are."""

    root: Path

    def path(self, number: int) -> Path:
        """Return the folder of a version."""
        return self.root / f"{number:0{VERSION_DIGITS}d}"

    def audience(self, number: int) -> Path:
        """Return where the compiled subscribers of a version are."""
        return self.path(number) / AUDIENCE

    def numbers(self) -> list[int]:
        """Return the versions that are there, in order."""
        if not self.root.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.root.iterdir() if entry.name.isdigit())

    def save(
        self,
        about: About,
        timelines: Mapping[SubscriberId, Timeline],
        changes: Iterable[VersionChange],
        save_audience: Callable[[Path], None],
    ) -> None:
        """Write a version, all of it or nothing."""
        target = self.path(about.number)
        made = self.root / f".{target.name}.{secrets.token_hex(8)}"
        try:
            made.mkdir(parents=True)
            periods = [(name, *period) for name, line in timelines.items() for period in line]
            pq.write_table(_table(periods, _TIMELINES), made / TIMELINES)
            listed = [
                (queue, time, stated_text(policy, Policy, None), ranking, stated_text(handover, Handover, PLAIN))
                for queue, time, policy, ranking, handover in changes
            ]
            pq.write_table(_table(listed, _CHANGES), made / CHANGES)
            save_audience(made / AUDIENCE)
            with replacing(made / ABOUT) as stream:
                text = json.dumps({"format": FORMAT, **msgspec.structs.asdict(about)}, indent=1)
                stream.write(text.encode("ascii"))
            for written in (made / TIMELINES, made / CHANGES, made):
                sync(written)
            made.rename(target)
            sync(self.root)
        except OSError as error:
            raise invalid_file(str(target), None, f"cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def about(self, number: int) -> About:
        """Return what a version says of itself."""
        file = self.path(number) / ABOUT
        try:
            found: Any = json.loads(file.read_text("ascii"))
            if found["format"] != FORMAT:
                raise invalid_file(str(file), None, f"format {found['format']!r} is unknown; expected {FORMAT}")
            return msgspec.convert(found, About)
        except OSError:
            raise self.missing(number) from None
        except (ValueError, LookupError, TypeError, msgspec.ValidationError):
            raise invalid_file(str(file), None, "is damaged: expected what a version says of itself") from None

    def timelines(self, number: int) -> dict[SubscriberId, Timeline]:
        """Return who the subscribers of a version are."""
        found: dict[SubscriberId, list[Period]] = {}
        table = self._read(number, TIMELINES, _TIMELINES)
        for name, *period in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found.setdefault(name, []).append(Period(*period))
        return {name: tuple(periods) for name, periods in found.items()}

    def changes(self, number: int) -> list[VersionChange]:
        """Return what happens to the delivery queues of a version, in order of time for each queue."""
        table = self._read(number, CHANGES, _CHANGES)
        columns = (column.to_pylist() for column in table.columns)
        return [
            VersionChange(
                queue, time, stated_from(policy, Policy, None), ranking, stated_from(handover, Handover, PLAIN)
            )
            for queue, time, policy, ranking, handover in zip(*columns, strict=True)
        ]

    def remove(self, number: int) -> None:
        """Remove a version; a reader that has mapped its arrays keeps them until it is done."""
        shutil.rmtree(self.path(number), ignore_errors=True)

    def missing(self, number: int) -> InvalidFileError:
        """Return the error for a version that is not there."""
        return invalid_file(
            str(self.path(number)),
            None,
            f"version {number} of the subscribers is not there, or not whole, but a micro-batch needs it; "
            "bring the folder back from a copy, or start with a new checkpoint",
        )

    def _read(self, number: int, name: str, schema: pa.Schema) -> pa.Table:
        file = self.path(number) / name
        try:
            table = pq.read_table(file, partitioning=None)
        except FileNotFoundError:
            raise self.missing(number) from None
        except (OSError, pa.ArrowException) as error:
            raise invalid_file(str(file), None, f"is damaged: {str(error).partition(chr(10))[0]}") from None
        if not table.schema.equals(schema):
            raise invalid_file(str(file), None, f"is damaged: expected the columns {', '.join(schema.names)}")
        return table


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


"""The text of the policy that needs no words."""


class Pin(NamedTuple):
    """The version of a batch, and the first instant that no event had reached when it began."""

    batch: int
    version: int
    frontier: int


class Pins:
    """The pins in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pin(self, wanted: Pin) -> Pin:
        """Decide the version of a batch; return what is decided, by this call or by an earlier one."""
        target = self._file(wanted.batch)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            create(
                target, _pin_text(wanted).encode("ascii")
            )  # if another attempt or driver was quicker, its pin stands
        except OSError as error:
            raise invalid_file(str(target), None, f"cannot be written: {error.strerror or error}") from None
        return _pin(target, wanted.batch)

    def of(self, batch: int) -> Pin | None:
        """Return the pin of a batch; None when nothing has been decided."""
        file = self._file(batch)
        return _pin(file, batch) if file.exists() else None

    def newest_before(self, batch: int) -> Pin | None:
        """Return the pin of the last batch before this one that has any."""
        earlier = max((number for number in self._batches() if number < batch), default=None)
        return None if earlier is None else self.of(earlier)

    def forget_before(self, batch: int) -> None:
        """Remove the pins of earlier batches."""
        for number in list(self._batches()):
            if number < batch:
                self._file(number).unlink(missing_ok=True)

    def versions(self) -> set[int]:
        """Return every version that is pinned."""
        return {pin.version for number in self._batches() if (pin := self.of(number)) is not None}

    def _batches(self) -> Iterator[int]:
        if self.folder.is_dir():
            yield from (int(file.name) for file in self.folder.iterdir() if file.name.isdigit())

    def _file(self, batch: int) -> Path:
        return self.folder / f"{batch:0{PIN_DIGITS}d}"


def _pin_text(pin: Pin) -> str:
    body = json.dumps(pin._asdict(), sort_keys=True)
    return json.dumps({**pin._asdict(), "checksum": zlib.crc32(body.encode("ascii"))}, sort_keys=True)


def _pin(file: Path, batch: int) -> Pin:
    try:
        text = file.read_text("ascii")
    except OSError as error:
        raise unreadable(file, error) from None
    except UnicodeDecodeError:
        raise _damaged_pin(file) from None
    try:
        found: Any = json.loads(text)
        pin = Pin(found["batch"], found["version"], found["frontier"])
    except (ValueError, LookupError, TypeError):
        raise _damaged_pin(file) from None
    if text != _pin_text(pin) or pin.batch != batch:
        raise _damaged_pin(file)
    return pin


def _damaged_pin(file: Path) -> InvalidFileError:
    return invalid_file(
        str(file),
        None,
        "is damaged: expected the version of the subscribers that this micro-batch was matched with; "
        "bring the file back from a copy of the checkpoint",
    )
