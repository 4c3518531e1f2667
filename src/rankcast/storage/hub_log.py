"""The file of a durable hub: a log of its inputs and a snapshot of its state, in one SQLite database.

Tables: `inputs` (every input since the snapshot, numbered without gaps), `snapshots` (at most one, the
state after the input whose number it has) and `about` (what the file says of itself). Nothing here knows what an input
or a state means: bodies are texts and bytes.

- SQLite's own write-ahead journal makes each append a whole: after a crash it is there or it is not. With `Sync.FULL`
  an append has reached the disk when it returns. With `Sync.NORMAL` it has reached the operating system: it survives
  the end of the process however violent, but a power failure may take the last appends with it, never one in between.
- The file is locked while it is open; a second opening, from this process or another, is refused.
- Every row has a checksum. A file that is damaged, of another program or of a newer format raises InvalidFileError and
  is left as it is. A write that fails raises HubLogError and leaves the file as it was; after an
  error of the disk itself, only opening the file again can tell, so it is closed.

Cost: an append is one insert, about 20 microseconds and, with FULL, one fsync.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from rankcast.model.errors import InvalidFileError, RankcastError
from rankcast.storage.text_files import invalid_file

FORMAT = 4
"""The formats before were never released."""

APPLICATION = int.from_bytes(b"Rkct", "big")
"""SQLite's mark of whose file it is, at a fixed place in its first page."""

_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE inputs (number INTEGER PRIMARY KEY, open TEXT NOT NULL, body TEXT NOT NULL,"
    " checksum INTEGER NOT NULL)",
    "CREATE TABLE snapshots (number INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


class Sync(Enum):
    """When an append counts as written: once it is on the disk, or once the operating system has it."""

    FULL = "full"
    NORMAL = "normal"


class HubLogError(RankcastError):
    """A durable hub cannot write its log, or is closed. The call that raised it changed nothing in the hub."""


class Row(NamedTuple):
    """One input; `open` are earlier inputs that were not settled yet."""

    number: int
    open: tuple[int, ...]
    body: str


class LoggedState(NamedTuple):
    """The state after the input of this number."""

    number: int
    body: bytes


@dataclass(slots=True)
class HubLog:
    """An open log. Calls must not overlap; they may come from any thread."""

    path: Path
    about: Mapping[str, str]
    _connection: sqlite3.Connection
    is_open: bool = True

    @staticmethod
    def open(path: str | os.PathLike[str], *, about: Mapping[str, str], sync: Sync = Sync.FULL) -> HubLog:
        """Open a log, or make a new one that says `about` of itself."""
        path = Path(path).absolute()
        _check_place(path)
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, ValueError) as error:  # a ValueError: a NUL character in the name
            raise invalid_file(str(path), None, f"cannot be opened: {error}") from None
        try:
            with _reading(path):
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                _check_owner(path, connection)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {sync.value}")
                return HubLog(path, _begin(path, connection, about), connection)
        except InvalidFileError:
            connection.close()
            raise

    def snapshot(self) -> LoggedState | None:
        """Return the snapshot, if there is one."""
        with _reading(self.path):
            found = self._connection.execute("SELECT number, body, checksum FROM snapshots").fetchall()
        if not found:
            return None
        number, body, checksum = found[-1]
        if not isinstance(body, bytes) or zlib.crc32(body, number & 0xFFFFFFFF) != checksum:
            raise self._damage(f"the snapshot after input {number} is not what was written")
        return LoggedState(number, body)

    def rows(self, after: int) -> Iterator[Row]:
        """Give the inputs after a number, in order."""
        with _reading(self.path):
            cursor = self._connection.execute(
                "SELECT number, open, body, checksum FROM inputs WHERE number > ? ORDER BY number", (after,)
            )
            for expected, (*stored, checksum) in enumerate(cursor, start=after + 1):
                if stored[0] != expected:
                    raise self._damage(f"input {expected} is missing")
                if _checksum(stored) != checksum:
                    raise self._damage(f"input {expected} is not what was written")
                number, unsettled, body = stored
                yield Row(number, tuple(map(int, unsettled.split())), body)

    def append(self, rows: Iterable[Row]) -> None:
        """Write inputs, all of them or none."""
        stored = [(row.number, " ".join(map(str, row.open)), row.body) for row in rows]
        values = [(*row, _checksum(row)) for row in stored]
        with self._writing():
            self._connection.executemany("INSERT INTO inputs VALUES (?, ?, ?, ?)", values)

    def restate(self, name: str, value: str) -> None:
        """Let the file say something else of itself."""
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
        self.about = {**self.about, name: value}

    def replace(self, snapshot: LoggedState) -> None:
        """Write a snapshot, and drop the older one and the inputs that it contains."""
        checksum = zlib.crc32(snapshot.body, snapshot.number & 0xFFFFFFFF)
        with self._writing():
            self._connection.execute("DELETE FROM snapshots")
            self._connection.execute("DELETE FROM inputs WHERE number <= ?", (snapshot.number,))
            self._connection.execute("INSERT INTO snapshots VALUES (?, ?, ?)", (*snapshot, checksum))

    def close(self) -> None:
        """Close the file and unlock it; a second time does nothing."""
        self.is_open = False
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            outcome = "nothing was changed"
            if _primary(error) == sqlite3.SQLITE_IOERR:  # it may have reached the disk all the same
                self.close()
                outcome = "the hub is closed, and opening it again shows whether this was written"
            raise HubLogError(f"{self.path}: cannot be written: {error}; {outcome}") from None

    def _undo(self) -> None:
        """Take back what a failed write began; SQLite has done so itself after some errors."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.ProgrammingError:  # closed: there is nothing to take back
            return

    def _damage(self, problem: str) -> InvalidFileError:
        return invalid_file(str(self.path), None, f"is damaged: {problem}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say what is wrong with the file where SQLite cannot read it."""
    try:
        yield
    except sqlite3.Error as error:
        raise invalid_file(str(path), None, _reason(error)) from None
    except UnicodeDecodeError as error:  # of a message of SQLite's own, about names that are no text
        raise invalid_file(str(path), None, f"is damaged: {error}") from None


def _check_owner(path: Path, connection: sqlite3.Connection) -> None:
    """Raise unless the file is a hub's, of a format that can be read, or empty; change nothing."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (application or tables):
        raise invalid_file(str(path), None, "is a database of another program, not the log of a hub")
    if tables and version != FORMAT:
        raise invalid_file(str(path), None, f"has format {version}; this rankcast reads {FORMAT}")


def _begin(path: Path, connection: sqlite3.Connection, about: Mapping[str, str]) -> dict[str, str]:
    """Lock the file; make its tables if it is new and check it if it is not; return what it says of itself."""
    connection.execute("BEGIN EXCLUSIVE")
    _check_owner(path, connection)
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        for statement in _TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    connection.execute("COMMIT")
    problems = connection.execute("PRAGMA quick_check(1)").fetchall()
    if problems != [("ok",)]:
        raise invalid_file(str(path), None, f"is damaged: {' '.join(problems[0][0].split())}")
    return dict(connection.execute("SELECT name, value FROM about").fetchall())


def _primary(error: sqlite3.Error) -> int:
    """Return the kind of an error, without SQLite's finer distinctions; 0 for an error of the Python module."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _check_place(path: Path) -> None:
    """Raise where no file can be; SQLite would not say why."""
    if path.is_dir():
        raise invalid_file(str(path), None, "cannot be opened: it is a folder; expected a file")
    if not path.parent.is_dir():
        raise invalid_file(str(path), None, f"cannot be opened: there is no folder {path.parent}")


def _reason(error: sqlite3.Error) -> str:
    match _primary(error):
        case sqlite3.SQLITE_BUSY:
            return "is in use: another hub has it open"
        case sqlite3.SQLITE_NOTADB:
            return "is not the log of a hub"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return f"cannot be opened: {error}"
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_FULL:
            return f"cannot be read or written: {error}"
    return f"is damaged: {error}"


def _checksum(values: Iterable[object]) -> int:
    return zlib.crc32("\0".join(map(str, values)).encode())
