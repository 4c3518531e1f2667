r"""Hypothesis strategies for values, events, filters, schemas, subscriptions and subscribers.

Everything is drawn from small shared pools most of the time and from the whole range of its type some of the time.
Events and filters therefore meet: the same attribute names, equal end points, hits, near misses; and the edges are all
visited: the ends of int64, integers around 2**53, -0.0, infinities, subnormals, empty strings, NUL, characters beyond
16 bits, the neighbours of the surrogates, the first and the last time.

>>> from hypothesis import given
>>> from rankcast.matching.naive import evaluate
>>> @given(filters(), attributes())
... def check_normal_form(wanted, found):
...     assert wanted.accepts(found) == (evaluate(wanted.expression, found) is True)
>>> check_normal_form()
"""

from rankcast.testing.strategies.event_draws import conforming_events, events
from rankcast.testing.strategies.filter_draws import constraints, expressions, filters, like_texts, schemas
from rankcast.testing.strategies.pools import (
    ATTRIBUTES,
    COMMON,
    EDGES,
    attribute_names,
    attributes,
    constants,
    times,
    values,
)
from rankcast.testing.strategies.subscriber_draws import (
    VECTOR,
    diversities,
    notified_subscribers,
    policies,
    policies_with,
    relevances,
    subscribers,
    subscriptions,
    vectors,
)

__all__ = [
    "ATTRIBUTES",
    "COMMON",
    "EDGES",
    "VECTOR",
    "attribute_names",
    "attributes",
    "conforming_events",
    "constants",
    "constraints",
    "diversities",
    "events",
    "expressions",
    "filters",
    "like_texts",
    "notified_subscribers",
    "policies",
    "policies_with",
    "relevances",
    "schemas",
    "subscribers",
    "subscriptions",
    "times",
    "values",
    "vectors",
]
