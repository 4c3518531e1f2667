"""What a Spark user would write without rankcast: a join on range conditions, then window functions.

Filters are a wide table with the ends of a range on every attribute, the whole domain where a filter asks nothing. That
is faster than a test for null on each attribute. An event is delivered the first time that it is among the k best of
the last `window` matching ones, as the sliding policy says: the better rank first and, of equal ranks, the newer event.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankcast.model.policies import Sliding

FORMULATION = """
WITH matches AS (
  SELECT f.subscriber, e.id, e.time, max(f.rank) AS rank
  FROM events e JOIN filters f
    ON {conditions}
  GROUP BY f.subscriber, e.id, e.time
),
evaluations AS (
  SELECT subscriber, time AS now,
         slice(sort_array(collect_list(struct(rank, time, id)) OVER (
           PARTITION BY subscriber ORDER BY time ROWS BETWEEN {preceding} PRECEDING AND CURRENT ROW
         ), false), 1, {k}) AS best
  FROM matches
),
shown AS (
  SELECT subscriber, now, explode(best) AS one FROM evaluations
)
SELECT subscriber, one.id AS id, one.rank AS rank, min(now) AS delivered
FROM shown
GROUP BY subscriber, one.id, one.rank
"""
"""Sliding top k over the tables `events` and `filters`."""


def formulation(attributes: Sequence[str], policy: Sliding) -> str:
    """Return the query for events with these attributes.

    >>> text = formulation(["a", "b"], Sliding(3, 20))
    >>> "e.a BETWEEN f.low_a AND f.high_a" in text, "ROWS BETWEEN 19 PRECEDING" in text
    (True, True)
    """
    conditions = "\n   AND ".join(f"e.{name} BETWEEN f.low_{name} AND f.high_{name}" for name in attributes)
    return FORMULATION.format(conditions=conditions, preceding=policy.window - 1, k=policy.k)
