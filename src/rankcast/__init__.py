"""rankcast: ranked content-based publish/subscribe.

Publishers publish typed events; subscribers say which events interest them and how much, and each gets only the best.
`Hub` is the engine in one process:

>>> import rankcast as rc
>>> hub = rc.Hub()
>>> ana = hub.subscribe("ana", {"city = 'Porto' and rent < 900": 0.9, rc.attr("rooms") >= 3: 0.6})
>>> [note.rank for note in hub.publish({"city": "Porto", "rent": 1100, "rooms": 4})]
[0.6]
"""

from rankcast.hub import CallbackError, Hub, Notification, Outcome
from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_filter
from rankcast.model.cloudevents import event_from_json, event_to_json
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.expressions import all_of, any_of, attr
from rankcast.model.filters import Filter
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.model.values import ValueType

__all__ = [
    "AllMatches",
    "CallbackError",
    "Continuous",
    "Event",
    "Filter",
    "Hub",
    "Notification",
    "Outcome",
    "Periodic",
    "Priority",
    "RankBy",
    "RankcastError",
    "Schema",
    "Sliding",
    "Subscriber",
    "Subscription",
    "TopKWindow",
    "ValueType",
    "all_of",
    "any_of",
    "attr",
    "event_from_json",
    "event_to_json",
    "format_filter",
    "parse_filter",
]
