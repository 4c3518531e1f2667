"""Live shards in memory that the Python workers of a host share, each valid for one token only.

What a shard is lies in Spark's state: a snapshot and a log (`state`). To read that again for every micro-batch would
cost more than the delivery, so the live shard is kept as well. Spark gives a partition to any of its Python workers,
and so the large part of it, the arena of the queues, is a file in shared memory that workers map and change in place.

The rules that make this safe:

- A live shard has the token that its last user wrote into Spark's state. It is used only if Spark's state still has
  that token; otherwise it belongs to an attempt that was not committed, or is out of date, and is thrown away.
- Whoever uses it first takes away its token, and gives it the new one when everything is written. What a crash leaves
  behind has no token, and is never used.
- One user at a time: a lock on the shard's folder is held from `taken` to `kept` or `dropped`, so that an attempt that
  Spark gave up but that still runs is never in the same memory as the next one. The lock goes with its process.

Folders are named after the query. `clean` removes those that no process uses any more, whichever query they were of and
however it ended: whenever a pipeline is made, and when a worker begins with another query. Without enough shared memory
the folder for temporary files is used, and without room there nothing is kept: slower, and as right as before.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.engine.layout import LINE
from rankcast.delivery.engine.queue_table import Live
from rankcast.delivery.stream.shards import Shard

PREFIX = "rankcast-live-"
SHARED_MEMORY = Path("/dev/shm")

_HEAD, _REST, _LINES, _LOCK, _IN_USE = "head", "rest", "lines", "lock", "in-use"
_HELD: dict[str, IO[Any]] = {}
"""Folders that this process uses: open files whose locks say so."""


def base_folder() -> Path:
    """Return where live shards are kept: in shared memory if there is any."""
    is_usable = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
    return SHARED_MEMORY if is_usable else Path(tempfile.gettempdir())


def query_folder(query: str, base: Path | None = None) -> Path:
    """Return the folder of a query, made and marked as in use by this process."""
    folder = (base or base_folder()) / f"{PREFIX}{os.getuid()}-{query}"
    if str(folder) not in _HELD:
        clean(folder.parent)
        while (mark := _marked(folder)) is None:
            pass
        _HELD[str(folder)] = mark
    return folder


def _marked(folder: Path) -> IO[Any] | None:
    """Make a folder and mark it as in use; None when somebody who cleaned up was quicker."""
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        mark = (folder / _IN_USE).open("a")
    except FileNotFoundError:
        return None
    fcntl.flock(mark, fcntl.LOCK_SH)
    try:
        is_there = os.path.samestat(os.fstat(mark.fileno()), (folder / _IN_USE).stat())
    except FileNotFoundError:
        is_there = False
    if is_there:
        return mark
    mark.close()
    return None


def clean(base: Path | None = None) -> int:
    """Remove the folders of this user that no process uses; return how many there were."""
    removed = 0
    for folder in (base or base_folder()).glob(f"{PREFIX}{os.getuid()}-*"):
        with suppress(OSError), (folder / _IN_USE).open("a") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an OSError when it is in use
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


@dataclass
class LiveShard:
    """The live memory of one shard, locked for one user; `taken` and `kept` are the two ends of its use."""

    folder: Path
    _arena: Array | None = None
    """What is mapped for the shard that was taken or kept last, from the file `_arena_name`."""
    _arena_name: str = ""

    def taken(self, token: bytes) -> Shard | None:
        """Return the live shard if its token is this one. It has no token from now on."""
        head = self.folder / _HEAD
        try:
            about = json.loads(head.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        head.unlink()
        if not token or about.get("token") != token.hex():
            return None
        lines = np.fromfile(self.folder / _LINES, np.int64).reshape(-1, len(LINE))
        settings = np.array(about["settings"], np.int64)
        self._arena_name, self._arena = about["arena"], _mapped(self.folder / about["arena"])
        live = Live(lines, self._arena, about["used"], settings, about["calendars"].encode())
        return Shard.from_live(live, (self.folder / _REST).read_bytes())

    def kept(self, shard: Shard, token: bytes) -> None:
        """Keep a shard under a token; where there is no room nothing is kept."""
        try:
            self._write(shard, token)
        except OSError:
            self.dropped()

    def dropped(self) -> None:
        """Keep nothing."""
        for file in self.folder.iterdir():
            if file.name != _LOCK:
                file.unlink(missing_ok=True)

    def _write(self, shard: Shard, token: bytes) -> None:
        live, rest = shard.to_live()
        if self._arena is None or not np.may_share_memory(live.arena, self._arena):
            self._arena_name = f"arena-{token.hex()}"
            self._arena = _allocated(self.folder / self._arena_name, len(live.arena))
            shard.move_to(self._arena)
            for file in self.folder.glob("arena-*"):
                if file.name != self._arena_name:
                    file.unlink()
        (self.folder / _LINES).write_bytes(live.queues.tobytes())
        (self.folder / _REST).write_bytes(rest)
        about = {"token": token.hex(), "arena": self._arena_name, "used": live.used}
        about |= {"settings": live.settings.tolist(), "calendars": live.calendars.decode()}
        (self.folder / "head.new").write_text(json.dumps(about))
        (self.folder / "head.new").rename(self.folder / _HEAD)


@contextmanager
def live_shard(folder: Path, shard: int) -> Iterator[LiveShard]:
    """Give the live memory of a shard to one user, who waits for the one before."""
    own = folder / f"shard-{shard}"
    own.mkdir(mode=0o700, exist_ok=True)
    with (own / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield LiveShard(own)


def _mapped(path: Path) -> Array:
    """Return the words of a file as an array that changes the file, and does not own its memory: it grows elsewhere."""
    if not path.stat().st_size:
        return np.zeros(0, np.int64)[:]
    return np.asarray(np.memmap(path, np.int64, "r+"))


def _allocated(path: Path, words: int) -> Array:
    """Return a new file of so many words, mapped. Its room is taken now: a mapping without room kills its process."""
    with path.open("wb") as file:
        if words:
            os.posix_fallocate(file.fileno(), 0, 8 * words)
    return _mapped(path)
