"""Which version of the subscribers a micro-batch was matched with: decided once, and the same for every replay.

Spark repeats a micro-batch whose result may not have arrived, after a crash or when a task fails. Repeated with other
subscribers it would give another result, so the version is pinned by the number of the batch, in a file beside Spark's
own checkpoint: of several writers the first wins, and everybody else uses what it says. A pin is whole or not there.

Tasks ask for their pin by the batch that Spark says they belong to. Files are on a file system that driver and workers
share (one machine's disk, NFS). Cost: a pin is one small file, one fsync; asking for one is one read.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import TaskContext

from rankcast.model.errors import InvalidFileError, RankcastError, shown
from rankcast.storage.text_files import invalid_file, unreadable
from rankcast.storage.writing import replacing

BATCH_PROPERTY = "streaming.sql.batchId"
"""What Spark tells the tasks of a micro-batch; nothing in a static query."""

DIGITS = 10


class Pin(NamedTuple):
    """The version of a batch, and the first instant that no event had reached when it began."""

    batch: int
    version: int
    frontier: int


class UnpinnedBatchError(RankcastError):
    """A task asked for the version of a batch for which none was decided."""


class Pins:
    """The pins in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pin(self, wanted: Pin) -> Pin:
        """Decide the version of a batch; return what is decided, by this call or by an earlier one."""
        target = self._file(wanted.batch)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = self.folder / f".{target.name}.{secrets.token_hex(8)}"
            with replacing(temporary) as stream:
                stream.write(_text(wanted).encode("ascii"))
            try:
                os.link(temporary, target)
            except FileExistsError:
                pass  # an earlier attempt, or another driver, was quicker: what it decided stands
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise invalid_file(str(target), None, f"cannot be written: {error.strerror or error}") from None
        return _read(target, wanted.batch)

    def of(self, batch: int) -> Pin | None:
        """Return the pin of a batch; None when nothing has been decided."""
        file = self._file(batch)
        return _read(file, batch) if file.exists() else None

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
        return self.folder / f"{batch:0{DIGITS}d}"


def _text(pin: Pin) -> str:
    body = json.dumps(pin._asdict(), sort_keys=True)
    return json.dumps({**pin._asdict(), "checksum": zlib.crc32(body.encode("ascii"))}, sort_keys=True)


def _read(file: Path, batch: int) -> Pin:
    try:
        text = file.read_text("ascii")
    except OSError as error:
        raise unreadable(file, error) from None
    except UnicodeDecodeError:
        raise _damaged(file) from None
    try:
        found: Any = json.loads(text)
        pin = Pin(found["batch"], found["version"], found["frontier"])
    except (ValueError, LookupError, TypeError):
        raise _damaged(file) from None
    if text != _text(pin) or pin.batch != batch:
        raise _damaged(file)
    return pin


def _damaged(file: Path) -> InvalidFileError:
    return invalid_file(
        str(file),
        None,
        "is damaged: expected the version of the subscribers that this micro-batch was matched with; "
        "bring the file back from a copy of the checkpoint",
    )


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
