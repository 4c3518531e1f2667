"""How an audience gets to the workers: by a folder that they see, or with the task.

On one machine, or with a shared disk, workers map the folder that the driver has written. A worker that does not see
the folder asks Spark for the bytes of its file, once per host, and writes them to a folder of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from rankcast.delivery.stream.handovers import Handover
from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import Policy
from rankcast.spark.matching.compiled_subscribers import FILE, KIND, VERSION, CompiledSubscribers, loaded
from rankcast.storage.index_files import load_arrays
from rankcast.storage.writing import replacing


class AudienceSource(Protocol):
    """Knows, on a worker, which audience the running task has to use."""

    @property
    def keeps_contents(self) -> bool:
        """Whether the contents of events are kept as long as queues hold them, so that they can be ranked again."""

    def current(self) -> tuple[int, CompiledSubscribers]:
        """Return the version of the subscribers, and the audience."""

    def policies(self, shard: int, shards: int) -> tuple[int, list[Policy]]:
        """Return the policies with which the queues of a shard begin, and the version of that."""

    def handovers(self, shard: int, shards: int) -> list[Handover]:
        """Return how the queues of a shard are handed over when they begin."""

    def changes(self, shards: int) -> tuple[int, dict[int, list[QueueChange]]] | None:
        """Return from when on the queues of each shard change, and how; None when there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class SavedAudience:
    """An audience in a folder that never changes; `content` holds its bytes for hosts that do not see the folder.

    Its version is a fingerprint of its queues: a stream that is restarted with other ones is refused by the shards.
    """

    folder: str
    mark: str
    content: Any = field(default=None, repr=False)
    version: int = 0
    keeps_contents: ClassVar[bool] = False

    def current(self) -> tuple[int, CompiledSubscribers]:
        """Return the version of the subscribers, and the audience."""
        folder = Path(self.folder)
        if self.content is not None and _mark(folder) != self.mark:
            folder = _unpacked(self.content.value, self.mark)
        return self.version, loaded(folder)

    def policies(self, shard: int, shards: int) -> tuple[int, list[Policy]]:
        """Return the policies of the queues of a shard, and the version of the subscribers."""
        version, audience = self.current()
        return version, audience.queues.policies_of(shard, shards)

    def handovers(self, shard: int, shards: int) -> list[Handover]:
        """Return how the queues of a shard are handed over."""
        return self.current()[1].queues.handovers_of(shard, shards)

    def changes(self, shards: int) -> tuple[int, dict[int, list[QueueChange]]] | None:
        """Return None: these subscribers stay what they are."""
        return None


def shipped(audience: CompiledSubscribers, spark: SparkSession, folder: Path | None = None) -> SavedAudience:
    """Save an audience where workers find it: in `folder`, or in one that goes away with this process."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="rankcast-audience-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    audience.save(folder)
    content = None
    if not str(spark.sparkContext.master).startswith("local"):
        content = spark.sparkContext.broadcast((folder / FILE).read_bytes())
    return SavedAudience(str(folder), _mark(folder), content, audience.queues.fingerprint)


def source_of(audience: CompiledSubscribers | AudienceSource, spark: SparkSession) -> AudienceSource:
    """Return what tasks get an audience from."""
    return shipped(audience, spark) if isinstance(audience, CompiledSubscribers) else audience


def give_back() -> None:
    """Free what nothing refers to, and return unused memory to the system: some tens of milliseconds.

    Compiling many subscribers leaves the driver with twice what it needs afterwards. What is freed stays with the
    allocators: Arrow's pool, and the heap of the C library, which glibc gives back only when it is asked to
    (`malloc_trim`). Other C libraries have no such call, and need none.
    """
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _mark(folder: Path) -> str:
    """Return what tells one saved audience from another; empty when there is none."""
    try:
        return str(load_arrays(folder / FILE, KIND, VERSION, verify=False).metadata.get("mark", ""))
    except InvalidFileError:
        return ""


def _unpacked(content: bytes, mark: str) -> Path:
    """Write an audience once per host; whoever comes second waits for the first."""
    target = Path(tempfile.gettempdir()) / f"rankcast-audience-{os.getuid()}-{mark}"
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _mark(target) != mark:
            target.mkdir(exist_ok=True)
            with replacing(target / FILE) as stream:
                stream.write(content)
    return target
