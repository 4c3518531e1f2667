"""rankcast: ranked content-based publish/subscribe.

Publishers publish typed events; subscribers say which events interest them and how much, and each gets only the best.
`Hub` is the engine in one process:

>>> import rankcast as rc
>>> hub = rc.Hub()
>>> ana = hub.subscribe("ana", {"city = 'Porto' and rent < 900": 0.9, rc.attr("rooms") >= 3: 0.6})
>>> [note.rank for note in hub.publish({"city": "Porto", "rent": 1100, "rooms": 4})]
[0.6]

Names are loaded when they are first used, so that `import rankcast` costs nothing that is not needed.
"""

from typing import TYPE_CHECKING

from rankcast.lazily import loading

if TYPE_CHECKING:
    from rankcast.hub import CallbackError, Hub, Notification, Outcome, Verdict
    from rankcast.language.parser import parse_filter
    from rankcast.language.printer import format_filter
    from rankcast.model.cloudevents import event_from_json, event_to_json
    from rankcast.model.errors import RankcastError
    from rankcast.model.events import Event
    from rankcast.model.expressions import all_of, any_of, attr
    from rankcast.model.filters import Filter
    from rankcast.model.policies import (
        AllMatches,
        AtOnce,
        Continuous,
        Diversity,
        Gathered,
        OnDemand,
        Periodic,
        Sliding,
        TopKWindow,
    )
    from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
    from rankcast.model.schema import Schema
    from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
    from rankcast.model.values import ValueType

__all__ = [
    "AllMatches",
    "AtOnce",
    "CallbackError",
    "Closeness",
    "Continuous",
    "Cosine",
    "Decay",
    "Diversity",
    "Event",
    "Filter",
    "Gathered",
    "Hub",
    "IdealPoint",
    "Notification",
    "OnDemand",
    "Outcome",
    "Periodic",
    "Priority",
    "RankBy",
    "RankcastError",
    "Schema",
    "Sliding",
    "Subscriber",
    "Subscription",
    "Target",
    "TopKWindow",
    "ValueType",
    "Verdict",
    "all_of",
    "any_of",
    "attr",
    "event_from_json",
    "event_to_json",
    "format_filter",
    "parse_filter",
]

__getattr__, __dir__ = loading(
    __name__,
    {
        "rankcast.hub": ("CallbackError", "Hub", "Notification", "Outcome", "Verdict"),
        "rankcast.language.parser": ("parse_filter",),
        "rankcast.language.printer": ("format_filter",),
        "rankcast.model.cloudevents": ("event_from_json", "event_to_json"),
        "rankcast.model.errors": ("RankcastError",),
        "rankcast.model.events": ("Event",),
        "rankcast.model.expressions": ("all_of", "any_of", "attr"),
        "rankcast.model.filters": ("Filter",),
        "rankcast.model.policies": (
            "AllMatches",
            "AtOnce",
            "Continuous",
            "Diversity",
            "Gathered",
            "OnDemand",
            "Periodic",
            "Sliding",
            "TopKWindow",
        ),
        "rankcast.model.relevance": ("Closeness", "Cosine", "Decay", "IdealPoint", "Target"),
        "rankcast.model.schema": ("Schema",),
        "rankcast.model.subscriptions": ("Priority", "RankBy", "Subscriber", "Subscription"),
        "rankcast.model.values": ("ValueType",),
    },
)
