"""Notifications, lists, late events and rejected rows in a database: SQLite or PostgreSQL.

All outputs of a batch go to the database in one transaction, so a reader sees a batch whole or not at all, and a batch
that is written again changes nothing: notifications are upserted on (query, queue, event), where the queue is
(subscriber, subscription) and the event (source, id); late events and rejected rows, which may repeat, replace those of
the same batch. Of a list that is read on demand the table has the current entries: a batch in which it has changed
replaces them. Several queries can share one database; `query` names them.

In a queue of a whole subscriber, `subscription` is the empty text: a part of a key cannot be null. The character NUL,
which PostgreSQL cannot hold, is written as its escape.

Rows pass through the driver, partition by partition: a transaction cannot be divided among workers.

SQLite and PostgreSQL, as far as a sink needs them: tables, upserts, and one transaction per batch.

`connector(url)` gives a function that opens a connection: a context manager whose block is one transaction, committed
at its end and undone by any error. SQLite has times as RFC 3339 texts and lists as JSON.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.times import format_time
from rankcast.spark.sinks.outputs import Batch, Output

QUEUE_AND_EVENT = ("query", "subscriber", "subscription", "source", "id")
"""The key of a notification."""


class DatabaseSink:
    """Tables in one database, of one query.

    `url` is `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user@host/name`.
    """

    def __init__(self, url: str, *, query: str = "rankcast") -> None:
        self._connect = connector(url)
        self.url = without_password(url)
        self.query = query
        self._made: set[Output] = set()

    def open(self, run: str) -> None:
        """Take the query's rows for a run; raise DatabaseError when another run writes them."""
        columns = {"query": T.StringType(), "run": T.StringType()}
        with self._connect() as database:
            database.create(RUNS, columns, ("query",))
            found = database.run_of(self.query)
            if found is None:
                database.insert(RUNS, tuple(columns), iter([(self.query, run)]))
        if found not in (None, run):
            raise DatabaseError(
                f"{self.url}: the rows of query {self.query!r} belong to another run; "
                "choose another name for the query, or resume with its checkpoint"
            )

    def write(self, batch: Batch) -> None:
        """Write all outputs of a batch in one transaction."""
        with self._connect() as database:
            for output in Output:
                self._write(database, output, batch)

    def _write(self, database: Database, output: Output, batch: Batch) -> None:
        table = batch.tables[output]
        types: dict[str, T.DataType] = {"query": T.StringType(), "batch": T.LongType()}
        types |= {field.name: field.dataType for field in table.schema.fields}
        key = QUEUE_AND_EVENT if output is Output.NOTIFICATIONS else ()
        if output not in self._made:
            database.create(output.table, types, key)
            self._made.add(output)
        if output in (Output.LATE, Output.REJECTED):
            database.remove(output.table, self.query, batch.number)
        if batch.size(output) == 0:
            return
        rows = self._rows(table, batch.number)
        if output is Output.LISTS:
            rows = self._current(database, table.columns, list(rows))
        if key:
            database.upsert(output.table, tuple(types), key, rows)
        else:
            database.insert(output.table, tuple(types), rows)

    def _current(self, database: Database, names: list[str], rows: list[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Remove the lists that have changed, and return the entries that they have now."""
        owner, place = 2 + names.index("subscriber"), 2 + names.index("place")
        for subscriber, subscription in {(row[owner], row[owner + 1]) for row in rows}:
            database.remove_list(Output.LISTS.table, self.query, subscriber, subscription)
        return (row for row in rows if row[place])

    def _rows(self, table: DataFrame, number: int) -> Iterator[Sequence[Any]]:
        queue = table.columns.index("subscription") if "subscription" in table.columns else None
        for row in table.toLocalIterator(prefetchPartitions=True):
            values = [_plain(value) for value in row]
            if queue is not None and values[queue] is None:
                values[queue] = ""
            yield (self.query, number, *values)

    def finish(self) -> None:
        """Need nothing: every batch was committed."""


def _plain(value: Any) -> Any:
    """Return a value as both databases take it; what they have no type for becomes JSON."""
    if isinstance(value, str):
        return value.replace("\x00", "\\u0000") if "\x00" in value else value
    if isinstance(value, datetime):
        return value.astimezone(UTC)  # Spark gives times in the zone of this process, without naming it
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if hasattr(value, "asDict"):
        return json.dumps(value.asDict(recursive=True), ensure_ascii=False, default=str)
    return value


RUNS = "rankcast_queries"
"""The table that says which run writes a query's rows."""


class DatabaseError(RankcastError):
    """A database cannot be reached, or refuses what it is given."""


_TYPES: Sequence[tuple[tuple[type[T.DataType], ...], str, str]] = (
    ((T.ByteType, T.ShortType, T.IntegerType, T.LongType), "INTEGER", "bigint"),
    ((T.BooleanType,), "INTEGER", "boolean"),
    ((T.FloatType, T.DoubleType), "REAL", "double precision"),
    ((T.TimestampType,), "TEXT", "timestamptz"),
)
"""Types of columns in SQLite and in PostgreSQL; all others are texts."""


class Database(ABC):
    """What the sink needs of one kind of database, inside one transaction."""

    place: ClassVar[str]
    """What stands for a value in a statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @abstractmethod
    def type_of(self, kind: T.DataType) -> str:
        """Return the type of a column."""

    def create(self, table: str, columns: Mapping[str, T.DataType], key: Sequence[str]) -> None:
        """Make a table unless it is there, and the columns that it lacks."""
        kinds = {name: self.type_of(kind) for name, kind in columns.items()}
        declared = [f"{_quoted(name)} {kind}{' NOT NULL' if name in key else ''}" for name, kind in kinds.items()]
        declared += [f"PRIMARY KEY ({_quoted(*key)})"] if key else []
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ({', '.join(declared)})")
        present = self._connection.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0").description
        for name in kinds.keys() - {column[0] for column in present}:
            self._connection.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {_quoted(name)} {kinds[name]}")

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows."""

    @abstractmethod
    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows; one whose key is there replaces it."""

    def remove(self, table: str, query: str, batch: int) -> None:
        """Remove the rows of one batch of a query."""
        condition = f"query = {self.place} AND batch = {self.place}"
        self._connection.execute(f"DELETE FROM {_quoted(table)} WHERE {condition}", (query, batch))

    def remove_list(self, table: str, query: str, subscriber: str, subscription: str) -> None:
        """Remove the entries of one list."""
        condition = " AND ".join(f"{name} = {self.place}" for name in ("query", "subscriber", "subscription"))
        self._connection.execute(f"DELETE FROM {_quoted(table)} WHERE {condition}", (query, subscriber, subscription))

    def run_of(self, query: str) -> str | None:
        """Return the run that writes a query's rows."""
        found = self._connection.execute(f"SELECT run FROM {RUNS} WHERE query = {self.place}", (query,)).fetchone()
        return None if found is None else str(found[0])


def _type_of(kind: T.DataType, column: int) -> str:
    return next((names[column] for types, *names in _TYPES if isinstance(kind, types)), "TEXT")


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


def _conflict_clause(columns: Sequence[str], key: Sequence[str]) -> str:
    changed = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in columns if name not in key)
    return f"ON CONFLICT ({_quoted(*key)}) DO UPDATE SET {changed}"


class Sqlite(Database):
    """A SQLite file."""

    place = "?"

    def type_of(self, kind: T.DataType) -> str:
        """Return the type of a column."""
        return _type_of(kind, 0)

    def insert(self, table: str, columns: Sequence[str], rows: Iterator[Sequence[Any]], clause: str = "") -> None:
        """Insert rows; a further clause says what to do with those whose key is there."""
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {_quoted(table)} ({_quoted(*columns)}) VALUES ({places}) {clause}"
        self._connection.executemany(statement, (tuple(map(_for_sqlite, row)) for row in rows))

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        """Insert rows; one whose key is there replaces it."""
        self.insert(table, columns, rows, _conflict_clause(columns, key))


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


class Postgres(Database):
    """A PostgreSQL database."""

    place = "%s"

    def type_of(self, kind: T.DataType) -> str:
        """Return the type of a column."""
        return f"{self.type_of(kind.elementType)}[]" if isinstance(kind, T.ArrayType) else _type_of(kind, 1)

    def create(self, table: str, columns: Mapping[str, T.DataType], key: Sequence[str]) -> None:
        """Make a table unless it is there, and the columns that it lacks."""
        # Two runs that start at once would both find no table, and one would fail: they take turns.
        self._connection.execute("SELECT pg_advisory_xact_lock(7262636173)")
        super().create(table, columns, key)

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
