"""Subscribers that change while a stream runs: the two ends of `versions`, on the driver and in tasks.

    subscribers = ChangingSubscribers(FolderTable("subscribers/"), checkpoint="checkpoint", lateness=...)
    subscribers.prepare(batch)            # on the driver, at the beginning of foreachBatch
    subscribers.source.current()          # in a task: the version that is pinned to its batch

Versions lie in the stream's own checkpoint, under `STORE`: a copy of the checkpoint is a copy of everything. The folder
must be one that driver and workers see.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlparse

from pyspark import TaskContext

from rankcast.delivery.stream.handovers import Handover
from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.errors import InvalidFileError, RankcastError, shown
from rankcast.model.policies import Policy
from rankcast.model.schema import Schema
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers, loaded
from rankcast.spark.metrics import SubscriberUpdates
from rankcast.spark.subscribers.tables import FolderTable, SubscriberTable
from rankcast.spark.subscribers.version_files import Pin, Pins, VersionFolder
from rankcast.spark.subscribers.versions import Versions
from rankcast.storage.text_files import invalid_file, unreadable

STORE = "subscribers"
"""The folder of a checkpoint that has the versions of its subscribers."""

BATCH_PROPERTY = "streaming.sql.batchId"
"""What Spark tells the tasks of a micro-batch; nothing in a static query."""


class UnpinnedBatchError(RankcastError):
    """A task asked for the version of a batch for which none was decided."""


@dataclass(frozen=True, slots=True)
class PinnedAudience:
    """An audience by the micro-batch of the running task."""

    store: str
    keeps_contents: ClassVar[bool] = True

    def current(self) -> tuple[int, CompiledSubscribers]:
        """Return the version that is pinned to the task's batch, and its audience."""
        pin = self._pin()
        folder = VersionFolder(Path(self.store) / "versions")
        try:
            return pin.version, loaded(folder.audience(pin.version))
        except InvalidFileError:
            if folder.path(pin.version).is_dir():
                raise
            raise folder.missing(pin.version) from None

    def changes(self, shards: int) -> tuple[int, dict[int, list[QueueChange]]] | None:
        """Return what the task's batch has to tell the shards: from when on, and what each has to do from then on.

        None, once events have come since the version was made: a batch without any has no tasks that could tell, so
        being the first batch of a version is not enough. Shards ignore what they were told before. Every shard gets its
        list, be it empty, because what an earlier version planned for that time no longer counts.
        """
        pin = self._pin()
        folder = VersionFolder(Path(self.store) / "versions")
        about = folder.about(pin.version)
        if about.frontier != pin.frontier:
            return None
        found: dict[int, list[QueueChange]] = {shard: [] for shard in range(shards)}
        for change in folder.changes(pin.version):
            found[change.queue % shards].append(QueueChange(change.queue // shards, *change[1:]))
        return about.frontier, found

    def policies(self, shard: int, shards: int) -> tuple[int, list[Policy]]:
        """Return the policies with which the queues of a shard begin, as of version 0: before any change was told.

        Queues are only added to and keep the policy that they began with, so that any version gives a shard whose state
        is brought back from all that it was ever told the same beginning.
        """
        return 0, self.current()[1].queues.policies_of(shard, shards)

    def handovers(self, shard: int, shards: int) -> list[Handover]:
        """Return how the queues of a shard are handed over when they begin, as of version 0."""
        return self.current()[1].queues.handovers_of(shard, shards)

    def _pin(self) -> Pin:
        batch = batch_of_task()
        if batch is None:
            raise UnpinnedBatchError(
                f"{self.store}: subscribers that change while a stream runs need a stream; this query is static"
            )
        pin = Pins(Path(self.store) / "pins").of(batch)
        if pin is None:
            raise UnpinnedBatchError(
                f"{self.store}: no version of the subscribers was decided for micro-batch {batch}; "
                "ChangingSubscribers.prepare has to be called with its number at the beginning of foreachBatch"
            )
        return pin


class ChangingSubscribers:
    """The subscribers of one stream, polled from a table before each micro-batch."""

    def __init__(
        self,
        table: SubscriberTable | str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        *,
        lateness: timedelta = timedelta(0),
        schema: Schema | None = None,
    ) -> None:
        self._checkpoint = local_path(checkpoint)
        if isinstance(table, str | os.PathLike):
            table = FolderTable(table)
        self._versions = Versions(table, self._checkpoint / STORE, lateness=lateness, schema=schema)

    @property
    def source(self) -> PinnedAudience:
        """What tasks get their audience from."""
        return PinnedAudience(str(self._versions.store))

    @property
    def counts(self) -> SubscriberUpdates:
        """What became of updates so far."""
        return self._versions.counts

    def updates(self) -> SubscriberUpdates:
        """Return what became of updates so far, for `Metrics.follow`."""
        return self.counts

    def prepare(self, batch: int) -> Pin:
        """Decide the version of a micro-batch that is about to be computed."""
        return self._versions.prepare(batch, watermark_of_batch(self._checkpoint, batch))


def local_path(address: str | os.PathLike[str]) -> Path:
    """Return the path of a folder on a file system that is mounted here; an address of any other is refused."""
    text = os.fspath(address)
    parts = urlparse(text)
    if parts.scheme not in ("", "file"):
        raise invalid_file(
            text,
            None,
            f"subscribers that change need a checkpoint on a file system that is mounted on every machine, not "
            f"{shown(parts.scheme)}",
        )
    return Path(unquote(parts.path) if parts.scheme else text).absolute()


def batch_of_task() -> int | None:
    """Return the micro-batch that the running task belongs to; None in a static query, and outside tasks."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    return None if found is None else int(found)


def watermark_of_batch(checkpoint: Path, batch: int) -> int | None:
    """Return the watermark, in milliseconds, that Spark wrote down for a batch; None before there was any event."""
    file = checkpoint / "offsets" / str(batch)
    try:
        lines = file.read_text("utf-8").splitlines()
        found: Any = json.loads(lines[1])["batchWatermarkMs"]
    except OSError as error:
        raise unreadable(file, error) from None
    except (ValueError, LookupError, TypeError) as error:
        raise invalid_file(str(file), None, f"is damaged or no offset log of Spark: {error!r}") from None
    if not isinstance(found, int):
        raise invalid_file(str(file), None, f"batchWatermarkMs: {shown(found)} is not a whole number")
    return found or None
