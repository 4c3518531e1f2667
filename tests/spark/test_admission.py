"""Events under advertisements: what is decided by column is what `Advertisements.admit` says of each event."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, Advertisements
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.spark.sources.admission import MOST
from rankcast.spark.sources.event_reader import ColumnEvents, EventReader, Leaf

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACES = st.sampled_from(["true", "rent > 2", "rent <= 2", "city = 'Porto' and rent < 4", "source = '/a'"])
SCHEMAS = st.sampled_from(
    [
        Schema(),
        Schema({"rent": ValueType.INT}, frozenset({"rent"})),
        Schema({"city": ValueType.STRING}, frozenset({"city", "source"})),
        Schema({"rent": ValueType.FLOAT}),
        Schema({"rent": ValueType.STRING}),
    ]
)
ADVERTISED = st.lists(
    st.builds(
        Advertisement,
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from(["/a", "/b"]),
        SPACES.map(parse_filter),
        SCHEMAS,
        st.sampled_from([None, 1, 3, 1 << 70]),
    ),
    max_size=3,
    unique_by=lambda advertisement: advertisement.id,
).map(tuple)
ROW = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "source")),
        ("time", pa.timestamp("us", "UTC")),
        *(("rent", pa.int64()), ("city", pa.string()), ("asks", pa.int32()), ("belongs", pa.string())),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "source": st.sampled_from(["/a", "/b", "/c"]),
            "rent": st.none() | st.integers(0, 5),
            "city": st.sampled_from([None, "Porto", "Faro"]),
            "asks": st.none() | st.none() | st.integers(-1, 4),
            "belongs": st.none() | st.none() | st.sampled_from(["one", "two", "four"]),
        }
    ),
    max_size=8,
).map(lambda rows: [{"id": str(at), "time": NOON, **row} for at, row in enumerate(rows)])
NO_EVENT = {**dict.fromkeys(ROW.names), "id": "", "time": NOON}


def _admitted(advertised, row):
    data = {name: row[name] for name in ("rent", "city") if row[name] is not None}
    event = Event(row["id"], row["source"], time=NOON, data=data)
    try:
        return Advertisements(advertised).admit(event, row["asks"], row["belongs"])
    except RankcastError as error:
        return str(error)


@given(ADVERTISED, ROWS, st.booleans())
def test_columns_are_admitted_as_events_are(advertised, rows, starts_with_none):
    reader = EventReader(
        names=tuple(ROW.names),
        leaves=(Leaf("rent", ("rent",), False), Leaf("city", ("city",), False)),
        places=tuple((name, name) for name in ("id", "source", "time", "expirytime")),
        payload=None,
        document=None,
        default_source="/none",
        schema=None,
        carried=None,
        advertisements=advertised,
        k_column="asks",
        advertisement_column="belongs",
    )
    found, rejected = reader.read(pa.RecordBatch.from_pylist([NO_EVENT] * starts_with_none + rows, ROW))
    expected = [_admitted(advertised, row) for row in rows]
    good = [(at, one) for at, one in enumerate(expected, start=starts_with_none) if not isinstance(one, str)]
    assert [one.reason for one in rejected][starts_with_none:] == [one for one in expected if isinstance(one, str)]
    assert found.rows.tolist() == [at for at, _ in good]
    assert found.audiences.k.tolist() == [-1 if one.audience is None else min(one.audience.k, MOST) for _, one in good]
    ids = [*(own.id for own in advertised), None]
    assert [ids[at] for at in found.audiences.advertisement.tolist()] == [one.advertisement for _, one in good]
    events = found.events() if isinstance(found, ColumnEvents) else found._events
    assert list(map(_typed, events)) == [_typed(one.event) for _, one in good]


def _typed(event):
    return {name: (type(value), value) for name, value in event.attributes.items()}
