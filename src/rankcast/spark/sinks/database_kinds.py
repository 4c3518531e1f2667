"""SQLite and PostgreSQL, as far as a sink needs them: tables, upserts, and one transaction per batch.

`connector(url)` gives a function that opens a connection: a context manager whose block is one transaction, committed
at its end and undone by any error. SQLite has times as RFC 3339 texts and lists as JSON.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampType,
)

from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.times import format_time

RUNS = "rankcast_queries"
"""The table that says which run writes a query's rows."""


class DatabaseError(RankcastError):
    """A database cannot be reached, or refuses what it is given."""


class Database(Protocol):
    """What the sink needs of one kind of database, inside one transaction."""

    def create(self, table: str, columns: Mapping[str, DataType], key: Sequence[str]) -> None:
        """Make a table unless it is there, and the columns that it lacks."""

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows; one whose key is there replaces it."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows."""

    def remove(self, table: str, query: str, batch: int) -> None:
        """Remove the rows of one batch of a query."""

    def run_of(self, query: str) -> str | None:
        """Return the run that writes a query's rows."""


Connect: TypeAlias = Callable[[], AbstractContextManager[Database]]


def without_password(url: str) -> str:
    """Return a URL as it may be shown.

    >>> without_password("postgresql://ana:secret@db.example/flats")
    'postgresql://ana@db.example/flats'
    """
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))


def is_database(url: str) -> bool:
    """Whether an output is a database rather than a folder."""
    return urlsplit(url).scheme in _KINDS


def connector(url: str) -> Connect:
    """Return what opens a connection; raise InvalidValueError when the URL is that of no database known here."""
    scheme = urlsplit(url).scheme
    if scheme not in _KINDS:
        raise InvalidValueError(
            f"{without_password(url)!r} is not a database; expected sqlite:///FILE or postgresql://..."
        )
    return _KINDS[scheme](url)


def _quoted(*names: str) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _create_statement(table: str, columns: Mapping[str, str], key: Sequence[str]) -> str:
    declared = [f"{_quoted(name)} {kind}{' NOT NULL' if name in key else ''}" for name, kind in columns.items()]
    declared += [f"PRIMARY KEY ({_quoted(*key)})"] if key else []
    return f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ({', '.join(declared)})"


def _conflict_clause(columns: Sequence[str], key: Sequence[str]) -> str:
    changed = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in columns if name not in key)
    return f"ON CONFLICT ({_quoted(*key)}) DO UPDATE SET {changed}"


_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def _sqlite_type(kind: DataType) -> str:
    if isinstance(kind, (*_INTEGERS, BooleanType)):
        return "INTEGER"
    return "REAL" if isinstance(kind, FloatType | DoubleType) else "TEXT"


class Sqlite:
    """A SQLite file, inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def create(self, table: str, columns: Mapping[str, DataType], key: Sequence[str]) -> None:
        """Make a table unless it is there, and the columns that it lacks."""
        kinds = {name: _sqlite_type(kind) for name, kind in columns.items()}
        self._connection.execute(_create_statement(table, kinds, key))
        present = {row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")}
        for name in kinds.keys() - present:
            self._connection.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {_quoted(name)} {kinds[name]}")

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows; one whose key is there replaces it."""
        self._insert(table, columns, rows, _conflict_clause(columns, key))

    def insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows."""
        self._insert(table, columns, rows, "")

    def _insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]], clause: str) -> None:
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {_quoted(table)} ({_quoted(*columns)}) VALUES ({places}) {clause}"
        self._connection.executemany(statement, (tuple(map(_for_sqlite, row)) for row in rows))

    def remove(self, table: str, query: str, batch: int) -> None:
        """Remove the rows of one batch of a query."""
        self._connection.execute(f"DELETE FROM {_quoted(table)} WHERE query = ? AND batch = ?", (query, batch))

    def run_of(self, query: str) -> str | None:
        """Return the run that writes a query's rows."""
        found = self._connection.execute(f"SELECT run FROM {RUNS} WHERE query = ?", (query,)).fetchone()
        return None if found is None else str(found[0])


def _for_sqlite(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _sqlite(url: str) -> Connect:
    path = urlsplit(url).path.removeprefix("/")
    if not path or urlsplit(url).netloc:
        raise InvalidValueError(f"{url!r} names no file; expected sqlite:///relative.db or sqlite:////absolute.db")

    @contextmanager
    def connect() -> Iterator[Sqlite]:
        try:
            connection = sqlite3.connect(Path(path), timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise DatabaseError(f"{url}: {error}") from None
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield Sqlite(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise DatabaseError(f"{url}: {error}") from None
        finally:
            connection.close()  # without a commit, nothing happened

    return connect


_POSTGRES_TYPES: Sequence[tuple[type[DataType], str]] = (
    (BooleanType, "boolean"),
    (FloatType, "double precision"),
    (DoubleType, "double precision"),
    (TimestampType, "timestamptz"),
)


def _postgres_type(kind: DataType) -> str:
    if isinstance(kind, _INTEGERS):
        return "bigint"
    if isinstance(kind, ArrayType):
        return f"{_postgres_type(kind.elementType)}[]"
    return next((name for known, name in _POSTGRES_TYPES if isinstance(kind, known)), "text")


class Postgres:
    """A PostgreSQL database, inside a transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def create(self, table: str, columns: Mapping[str, DataType], key: Sequence[str]) -> None:
        """Make a table unless it is there, and the columns that it lacks."""
        # Two runs that start at once would both find no table, and one would fail: they take turns.
        self._connection.execute("SELECT pg_advisory_xact_lock(7262636173)")
        kinds = {name: _postgres_type(kind) for name, kind in columns.items()}
        self._connection.execute(_create_statement(table, kinds, key))
        for name, kind in kinds.items():
            self._connection.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN IF NOT EXISTS {_quoted(name)} {kind}")

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows by way of a temporary table; one whose key is there replaces it."""
        self._connection.execute(
            "CREATE TEMPORARY TABLE arriving ON COMMIT DROP "
            f"AS SELECT {_quoted(*columns)} FROM {_quoted(table)} LIMIT 0"
        )
        self.insert("arriving", columns, rows)
        self._connection.execute(
            f"INSERT INTO {_quoted(table)} ({_quoted(*columns)}) "
            f"SELECT DISTINCT ON ({_quoted(*key)}) {_quoted(*columns)} FROM arriving "
            f"ORDER BY {_quoted(*key)}, delivered DESC "
            f"{_conflict_clause(columns, key)}"
        )

    def insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows."""
        with self._connection.cursor().copy(f"COPY {_quoted(table)} ({_quoted(*columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def remove(self, table: str, query: str, batch: int) -> None:
        """Remove the rows of one batch of a query."""
        self._connection.execute(f"DELETE FROM {_quoted(table)} WHERE query = %s AND batch = %s", (query, batch))

    def run_of(self, query: str) -> str | None:
        """Return the run that writes a query's rows."""
        found = self._connection.execute(f"SELECT run FROM {RUNS} WHERE query = %s", (query,)).fetchone()
        return None if found is None else str(found[0])


def _postgres(url: str) -> Connect:
    try:
        import psycopg  # noqa: PLC0415 (an extra: only who writes to PostgreSQL needs it)
    except ImportError:
        raise DatabaseError("PostgreSQL needs psycopg: pip install 'rankcast[postgres]'") from None

    @contextmanager
    def connect() -> Iterator[Postgres]:
        try:
            with psycopg.connect(url) as connection:  # commits at the end of the block, and rolls back on an error
                yield Postgres(connection)
        except psycopg.Error as error:
            message = " ".join(str(error).split())
            raise DatabaseError(f"{without_password(url)}: {message}") from None

    return connect


_KINDS: Mapping[str, Callable[[str], Connect]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}
