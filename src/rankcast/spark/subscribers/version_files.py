"""One version of the subscribers in a folder: who they are and when, what their delivery queues do, what came too late.

A folder is written under another name, brought to the disk and then renamed, so a folder with a version's name is whole
and never changes. `changes.parquet` is what the stateful stage needs: for each queue whose subscriber is not simply
always there, each instant at which the queue begins or gets another policy (`policy` is its document) or ends (null),
and how what it holds is ranked from then on.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import ALL_MATCHES, Policy
from rankcast.model.subscriptions import SubscriberId
from rankcast.spark.subscribers.timelines import Period, Timeline
from rankcast.storage.subscribers.settings import policy_from_document, policy_to_document
from rankcast.storage.text_files import invalid_file
from rankcast.storage.writing import replacing

FORMAT = 1
DIGITS = 8
ABOUT, TIMELINES, CHANGES, AUDIENCE = "version.json", "timelines.parquet", "changes.parquet", "audience"

_TIMELINES = pa.schema([("id", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("document", pa.string())])
_CHANGES = pa.schema([("queue", pa.int64()), ("time", pa.int64()), ("policy", pa.string()), ("ranking", pa.string())])


class VersionChange(NamedTuple):
    """From `time` on a queue has this policy; without one it is gone, with everything it holds.

    `ranking` says how what it holds is ranked from then on (`Reranking`); empty: as it is.
    """

    queue: int
    time: int
    policy: Policy | None
    ranking: str = ""


class LateChange(NamedTuple):
    """A change of a subscriber that states an instant which events had passed already, and when it happens instead."""

    subscriber: str
    stated: int
    effective: int


@dataclass(frozen=True, slots=True)
class About:
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
        return self.root / f"{number:0{DIGITS}d}"

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
            pq.write_table(_timeline_table(timelines), made / TIMELINES)
            pq.write_table(_change_table(changes), made / CHANGES)
            save_audience(made / AUDIENCE)
            with replacing(made / ABOUT) as stream:
                stream.write(_about_text(about).encode("ascii"))
            _sync(made / TIMELINES, made / CHANGES, made)
            made.rename(target)
            _sync(self.root)
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
            late = tuple(LateChange(*one) for one in found["late"])
            return About(found["number"], found["base"], found["batch"], found["frontier"], found["mark"], late)
        except OSError:
            raise self.missing(number) from None
        except (ValueError, LookupError, TypeError):
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
            VersionChange(queue, time, _policy(text), ranking)
            for queue, time, text, ranking in zip(*columns, strict=True)
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


def _timeline_table(timelines: Mapping[SubscriberId, Timeline]) -> pa.Table:
    rows = [(name, *period) for name, periods in timelines.items() for period in periods]
    return _table(rows, _TIMELINES)


def _change_table(changes: Iterable[VersionChange]) -> pa.Table:
    rows = [(change.queue, change.time, _policy_text(change.policy), change.ranking) for change in changes]
    return _table(rows, _CHANGES)


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


_ALL = "{}"
"""The text of the policy that needs no words."""


def _policy_text(policy: Policy | None) -> str | None:
    if policy is None:
        return None
    return json.dumps(policy_to_document(policy) or {}, sort_keys=True)


def _policy(text: str | None) -> Policy | None:
    if text is None:
        return None
    return ALL_MATCHES if text == _ALL else policy_from_document(json.loads(text))


def _about_text(about: About) -> str:
    return json.dumps(
        {
            "format": FORMAT,
            "number": about.number,
            "base": about.base,
            "batch": about.batch,
            "frontier": about.frontier,
            "mark": about.mark,
            "late": about.late,
        },
        indent=1,
    )


def _sync(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
