"""Events of a DataFrame: which columns are the envelope, which are attributes, and what makes a row no event.

Columns become attributes as in event files: those with an envelope's name (`id`, `source`, `type`, `time`, `subject`,
`expirytime`) are the envelope, all others the payload, fields of structs under dotted names. Other columns can take the
envelope's places (`EventColumns(id="order_no", time="created")`); they are then seen under the envelope's name. Whole
numbers as ids become texts. An event without a source has `default_source`, one without an id is known by a digest of
its content, and one without a time has that of its arrival: in a stream its micro-batch's, which Spark keeps, else
`now`.

- bool, whole numbers, floats, strings, timestamps, dates are values. Timestamps without a zone are UTC. Decimals become
  whole numbers when they have no fraction digits, else the nearest floats. Null and NaN are missing attributes.
- Arrays of these are lists; those of numbers are vectors for relevance functions, too.
- `payload` names a column with a JSON object, as text or VARIANT, whose keys are payload attributes beside the columns.
- `document` names a column with whole events as JSON text: CloudEvents, or plain objects with the envelope's names.
- Columns of any other type (binaries, maps, intervals, arrays of arrays or structs) are no attributes.

Columns whose names begin with `rankcast_` are the pipeline's own: those of `rankcast.spark.sources.event_values`, and
END.

What an event asks for is no attribute: `k` names a column with the number of subscribers that it is for, if that is
less than is advertised, and `advertisement` one with the advertisement that it belongs to, if its source has several.

A row that is no event (broken JSON, a time after the year 9999, not the declared type of the schema, not what its
source advertises) is rejected with the reason and the row as JSON. It never stops anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql import types as T  # noqa: N812

from rankcast.model.advertisements import Advertisement, Advertisements
from rankcast.model.errors import InvalidEventError, shown
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.spark.sources.event_reader import EventReader, Leaf
from rankcast.spark.sources.event_values import ORIGINAL, REASON
from rankcast.storage.events.rows import event_of_row

DEFAULT_SOURCE = "/events"

_TEXTS = (T.StringType, T.VarcharType, T.CharType)
_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType, *_TEXTS)
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NUMBERS = (*_WHOLE, T.FloatType, T.DoubleType, T.DecimalType)
_ATTRIBUTES = (T.BooleanType, *_NUMBERS, *_TIMES)

_PLACES = ("id", "source", "time", "expirytime")
"""The envelope names that other columns may stand for."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Where the parts of an event are found; see the module."""

    id: str = "id"
    source: str = "source"
    time: str = "time"
    expires: str = "expirytime"
    payload: str | None = None
    document: str | None = None
    default_source: str = DEFAULT_SOURCE
    k: str | None = None
    advertisement: str | None = None

    def __post_init__(self) -> None:
        if self.payload is not None and self.document is not None:
            raise InvalidEventError("columns: `payload` and `document` cannot both be given: a document has its own")
        if not self.default_source:
            raise InvalidEventError(f"columns: default_source: {shown(self.default_source)} is not a non-empty text")

    @property
    def places(self) -> dict[str, str]:
        """The column in each of the envelope's places."""
        return dict(zip(_PLACES, (self.id, self.source, self.time, self.expires), strict=True))


def prepared(
    events: DataFrame,
    columns: EventColumns | None = None,
    schema: Schema | None = None,
    *,
    carry: Sequence[str] = (),
    keep: Sequence[str] = (),
    now: datetime | None = None,
    advertisements: Iterable[Advertisement] = (),
) -> tuple[DataFrame, EventReader]:
    """Return the events as the reader takes them, and the reader; raise InvalidEventError for a DataFrame without any.

    `carry` names columns that notifications get beside the event's identity; they travel as one JSON text.
    Those to `keep` stay beside the others, under names that begin with KEPT. `now` is when events of a static DataFrame
    arrived that have no time: the time of the call, unless told. `advertisements` say which events are admitted, and
    whom they are for; events of other sources are for everybody.
    """
    advertised = Advertisements(advertisements).under(schema).all
    columns = columns or EventColumns()
    found = {field.name: field.dataType for field in events.schema.fields}
    if len(found) < len(events.columns):
        twice = next(name for name in events.columns if events.columns.count(name) > 1)
        raise InvalidEventError(f"the events have the column {shown(twice)} twice")
    for role, wanted_names in (("carry", carry), ("keep", keep)):
        for name in wanted_names:
            _check_there(found, name, role)
    projected = _document_columns(found, columns) if columns.document else _event_columns(found, columns)
    leaves = () if columns.document else tuple(_leaves(found, columns, [name for name, _ in projected]))
    for role, asked, kinds in (("k", columns.k, _WHOLE), ("advertisement", columns.advertisement, _TEXTS)):
        if asked is not None:
            _check_there(found, asked, role)
            if not isinstance(found[asked], kinds):
                expected = "a whole number" if kinds is _WHOLE else "a string"
                message = f"{role}: the column {shown(asked)} is {found[asked].simpleString()}; expected {expected}"
                raise InvalidEventError(message)
            projected.append((asked, F.col(f"`{asked}`")))
    projected += [(name, F.col(f"`{name}`")) for name in _MARKS if name in found]
    projected += [(KEPT + name, F.col(f"`{name}`")) for name in keep]
    if ARRIVAL not in found:
        at = F.current_timestamp() if events.isStreaming else F.lit(now or datetime.now(UTC))  # noqa: TID251 (Spark's side)
        projected.append((ARRIVAL, at))
    if carry:
        projected.append((CARRIED, carried_json(carry)))
    reader = EventReader(
        names=tuple(name for name, _ in projected),
        leaves=leaves,
        places=tuple(columns.places.items()),
        payload=columns.payload,
        document=columns.document,
        default_source=columns.default_source,
        schema=schema,
        carried=CARRIED if carry else None,
        arrival=ARRIVAL,
        advertisements=advertised,
        k_column=columns.k,
        advertisement_column=columns.advertisement,
    )
    # Spark hands columns to Python by names that must have no dots; the reader knows what they are really called.
    return events.select(*[column.alias(f"c{at}") for at, (_, column) in enumerate(projected)]), reader


CARRIED = "rankcast_carried"
"""The column of what is carried along, as JSON."""

END = "rankcast_end"
"""A column of bools: rows in which it is true are no events but say that nothing more is to come, in any partition."""

ARRIVAL = "rankcast_arrival"
"""The column of when a row arrived."""

KEPT = "rankcast_kept."
"""What the names of columns that are only kept begin with."""

_MARKS = (REASON, ORIGINAL, END, ARRIVAL)

_EXACT_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}


def carried_json(names: Sequence[str]) -> Column:
    """Return columns that are carried along, as their JSON."""
    return F.to_json(F.struct(*[F.col(f"`{name}`") for name in names]), _EXACT_JSON)


def carried_columns(payload: Column, schema: T.StructType) -> list[Column]:
    """Return the columns that were carried along, from their JSON."""
    parsed = F.from_json(payload, schema, {"timestampFormat": _EXACT_JSON["timestampFormat"]})
    return [parsed.getField(field.name).alias(field.name) for field in schema.fields]


def _check_there(found: dict[str, T.DataType], name: str, role: str) -> None:
    if name not in found:
        raise InvalidEventError(f"{role}: the events have no column {shown(name)}; they have {', '.join(found)}")


def _document_columns(found: dict[str, T.DataType], columns: EventColumns) -> list[tuple[str, Column]]:
    name = str(columns.document)
    _check_there(found, name, "document")
    return [(name, _json_text(name, found[name], "document"))]


def _json_text(name: str, kind: T.DataType, role: str) -> Column:
    if isinstance(kind, T.VariantType):  # two binaries in Python; Spark can write it as text
        return F.to_json(F.col(f"`{name}`"))
    if isinstance(kind, T.BinaryType):  # as Kafka has it
        return F.decode(F.col(f"`{name}`"), "UTF-8")
    if not isinstance(kind, _TEXTS):
        raise InvalidEventError(
            f"{role}: the column {shown(name)} is {kind.simpleString()}; expected JSON as string or variant"
        )
    return F.col(f"`{name}`")


def _event_columns(found: dict[str, T.DataType], columns: EventColumns) -> list[tuple[str, Column]]:
    usual = EventColumns().places
    for place, name in columns.places.items():
        if name != usual[place]:
            _check_there(found, name, place)
        _check_place(place, name, found)
    for name in ENVELOPE_TYPES.keys() - columns.places.keys() - {"specversion"}:
        _check_place(name, name, found)
    projected = []
    for name, kind in found.items():
        if name == columns.payload:
            projected.append((name, _json_text(name, kind, "payload")))
        elif name not in (*_MARKS, columns.k, columns.advertisement) and _is_usable(kind):
            projected.append((name, F.col(f"`{name}`")))
    if columns.payload is not None:
        _check_there(found, columns.payload, "payload")
    return projected


def _check_place(place: str, name: str, found: dict[str, T.DataType]) -> None:
    if name not in found:
        return
    kind = found[name]
    allowed: tuple[type[T.DataType], ...] = _TIMES if place in ("time", "expirytime") else _TEXTS
    if place == "id":
        allowed = (*_TEXTS, *_WHOLE)
    if not isinstance(kind, (*allowed, T.NullType)):
        expected = "a timestamp" if allowed is _TIMES else "a string or a whole number" if place == "id" else "a string"
        raise InvalidEventError(
            f"{place}: the column {shown(name)} is {kind.simpleString()}; expected {expected}: cast it, or rename it "
            "if it is no part of the envelope"
        )


def _is_usable(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_is_usable(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        kind = kind.elementType
    return isinstance(kind, (*_ATTRIBUTES, T.NullType))


def _is_vector(kind: T.DataType) -> bool:
    return isinstance(kind, T.ArrayType) and isinstance(kind.elementType, _NUMBERS)


def _leaves(found: dict[str, T.DataType], columns: EventColumns, names: list[str]) -> Iterator[Leaf]:
    """Return the attributes, by asking the rules for files how an event of such a row would show them."""
    samples: list[tuple[tuple[str, ...], bool]] = []
    stands_for = {name: place for place, name in columns.places.items() if name in found}
    row: dict[str, Any] = {}
    for name in names:
        if name == columns.payload:
            continue
        if name in stands_for or (name in ENVELOPE_TYPES and name not in _PLACES):
            continue
        sample = _sample((name,), found[name], samples)
        if sample != {}:
            row[f"data.{name}" if name in ENVELOPE_TYPES else name] = sample
    attributes = event_of_row({**row, "id": "1"}, source="1").attributes
    seen = {value: name for name, value in attributes.items() if isinstance(value, int)}
    for number, (path, is_vector) in enumerate(samples):
        yield Leaf(seen[number], path, is_vector)


def _sample(path: tuple[str, ...], kind: T.DataType, samples: list[tuple[tuple[str, ...], bool]]) -> Any:
    """Return a value of this type whose leaves are the numbers of the samples that stand for them."""
    if isinstance(kind, T.StructType):
        return {
            field.name: _sample((*path, field.name), field.dataType, samples)
            for field in kind.fields
            if _is_usable(field.dataType)
        }
    samples.append((path, _is_vector(kind)))
    return len(samples) - 1
