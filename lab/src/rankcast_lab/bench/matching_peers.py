"""What a Python user would otherwise pick: DuckDB and Polars, each in two formulations, on one thread.

- wide: a table with two columns (low, high) per attribute; an event passes a subscription when all attributes do.
- long: a table of constraints joined by attribute with the events' attributes; a subscription matches an event when as
  many of its constraints hold as it has.

Which one is faster depends on the work, so both are tried and the faster one is measured. Attributes
that a subscription does not constrain get a range that holds everything, MISSING too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from rankcast.arrays import Array
from rankcast_lab.bench.comparing import Matches
from rankcast_lab.bench.matching_engines import Engine
from rankcast_lab.bench.matching_work import MISSING, Work
from rankcast_lab.bench.memory import MEGABYTE
from rankcast_lab.bench.timing import best_of, count_within, timed

TRIED_SECONDS = 1.0
"""About how long each formulation is tried: on few events, planning the query would decide."""

Matcher: TypeAlias = Callable[[int], Matches]


def duckdb_engine(work: Work) -> Engine:
    """Return DuckDB with the work in its tables."""
    wide, long = _wide(work), _long(work)
    connection = duckdb.connect(config={"threads": 1})

    def load() -> None:
        tables = {"subscriptions": wide, "constraints": long, "events": _events(work), "attributes": _attributes(work)}
        for name, table in tables.items():
            connection.register("arriving", table)
            connection.execute(f"create table {name} as select * from arriving")
            connection.unregister("arriving")
        connection.execute("create table needed as select id, count(*) as needed from constraints group by id")

    held = " and ".join(f"value{at} between low{at} and high{at}" for at in range(work.attributes))

    def by_wide(count: int) -> Matches:
        chosen = f"(select * from events where event < {count})"
        return _found(connection.sql(f"select event, id from {chosen} join subscriptions on {held}"), count)

    def by_long(count: int) -> Matches:
        query = f"""
            select event, id from (
                select event, id, count(*) as holding
                from attributes join constraints using (attribute)
                where event < {count} and value between low and high
                group by event, id
            ) join needed using (id) where holding = needed
        """
        return _found(connection.sql(query), count)

    def _found(relation: Any, count: int) -> Matches:
        return _matches(relation.to_arrow_table(), count)

    return _faster("duckdb", len(work.events), load, by_wide, by_long, {"wide": wide, "long": long})


def polars_engine(work: Work) -> Engine:
    """Return Polars with the work in its frames."""
    # Polars reads this once, when it is imported.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars  # noqa: PLC0415 (only now, for the line above)

    wide, long = _wide(work), _long(work)
    frames: dict[str, Any] = {}

    def load() -> None:
        frames["subscriptions"] = polars.from_arrow(wide)
        frames["constraints"] = polars.from_arrow(long).lazy()  # type: ignore[union-attr]  # tables become frames
        frames["attributes"] = polars.from_arrow(_attributes(work)).lazy()  # type: ignore[union-attr]
        frames["needed"] = frames["constraints"].group_by("id").len("needed").collect().lazy()

    def by_wide(count: int) -> Matches:
        """One scan per event: Polars has no join on many ranges that would be faster."""
        found, sizes = [], np.zeros(count + 1, np.int64)
        for event in range(count):
            holds = [
                polars.lit(value).is_between(polars.col(f"low{at}"), polars.col(f"high{at}"))
                for at, value in enumerate(work.events[event].tolist())
            ]
            found.append(frames["subscriptions"].lazy().filter(*holds).select("id").collect()["id"].to_numpy())
            sizes[event + 1] = len(found[-1])
        return Matches(np.cumsum(sizes), np.concatenate(found))

    def by_long(count: int) -> Matches:
        holding = (
            frames["attributes"]
            .filter(polars.col("event") < count)
            .join(frames["constraints"], on="attribute")
            .filter(polars.col("value").is_between(polars.col("low"), polars.col("high")))
            .group_by("event", "id")
            .len("holding")
        )
        matching = holding.join(frames["needed"], on="id").filter(polars.col("holding") == polars.col("needed"))
        return _matches(matching.select("event", "id").collect().to_arrow(), count)

    engine = _faster("polars", len(work.events), load, by_wide, by_long, {"wide": wide, "long": long})
    threads = polars.thread_pool_size()
    if threads == 1:
        return engine
    note = f"{engine.note}; {threads} threads, because it was imported before"
    return replace(engine, note=note)


def _faster(
    name: str, events: int, load: Callable[[], None], by_wide: Matcher, by_long: Matcher, tables: dict[str, pa.Table]
) -> Engine:
    """Return the faster of two formulations; its memory is that of the table it reads."""
    seconds, _ = timed(load)
    forms = {"wide": by_wide, "long": by_long}
    tried = {}
    for form, match in forms.items():
        count = count_within(TRIED_SECONDS, match, events)
        tried[form] = best_of(2, partial(match, count)) / count
    form = min(tried, key=lambda form: tried[form])
    other = max(tried.values()) / tried[form]
    note = f"{name}: the {form} formulation, {other:.1f} times as fast as the other"
    return Engine(name, forms[form], seconds, tables[form].nbytes / MEGABYTE, slow=True, note=note)


def _wide(work: Work) -> pa.Table:
    low = np.full((work.attributes, work.subscriptions), MISSING, np.int32)
    high = np.full((work.attributes, work.subscriptions), np.iinfo(np.int32).max, np.int32)
    low[work.attribute, work.subscription] = work.low
    high[work.attribute, work.subscription] = work.high
    columns: dict[str, Array] = {"id": np.arange(work.subscriptions, dtype=np.int32)}
    for at in range(work.attributes):
        columns |= {f"low{at}": low[at], f"high{at}": high[at]}
    return pa.table(columns)


def _long(work: Work) -> pa.Table:
    return pa.table({"id": work.subscription, "attribute": work.attribute, "low": work.low, "high": work.high})


def _events(work: Work) -> pa.Table:
    columns = {f"value{at}": np.ascontiguousarray(work.events[:, at]) for at in range(work.attributes)}
    return pa.table({"event": np.arange(len(work.events), dtype=np.int32), **columns})


def _attributes(work: Work) -> pa.Table:
    event, attribute = np.nonzero(work.events != MISSING)
    columns = {"event": event, "attribute": attribute, "value": work.events[event, attribute]}
    return pa.table({name: column.astype(np.int32) for name, column in columns.items()})


def _matches(pairs: pa.Table, count: int) -> Matches:
    return Matches.from_pairs(pairs["event"].to_numpy(), pairs["id"].to_numpy(), count)
