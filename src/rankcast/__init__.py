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
    from rankcast.hub import CallbackError as CallbackError
    from rankcast.hub import Hub as Hub
    from rankcast.hub import HubLogError as HubLogError
    from rankcast.hub import Late as Late
    from rankcast.hub import Match as Match
    from rankcast.hub import Notification as Notification
    from rankcast.hub import Outcome as Outcome
    from rankcast.hub import Verdict as Verdict
    from rankcast.language.parser import parse_filter as parse_filter
    from rankcast.language.printer import format_filter as format_filter
    from rankcast.model.advertisements import Advertisement as Advertisement
    from rankcast.model.advertisements import AudienceRanking as AudienceRanking
    from rankcast.model.advertisements import Scoring as Scoring
    from rankcast.model.advertisements import Ties as Ties
    from rankcast.model.cloudevents import event_from_json as event_from_json
    from rankcast.model.cloudevents import event_to_json as event_to_json
    from rankcast.model.errors import DuplicateIdError as DuplicateIdError
    from rankcast.model.errors import FilterError as FilterError
    from rankcast.model.errors import FilterSyntaxError as FilterSyntaxError
    from rankcast.model.errors import FilterTooLargeError as FilterTooLargeError
    from rankcast.model.errors import FilterTypeError as FilterTypeError
    from rankcast.model.errors import InvalidEventError as InvalidEventError
    from rankcast.model.errors import InvalidFileError as InvalidFileError
    from rankcast.model.errors import InvalidMessageError as InvalidMessageError
    from rankcast.model.errors import InvalidSubscriptionError as InvalidSubscriptionError
    from rankcast.model.errors import InvalidValueError as InvalidValueError
    from rankcast.model.errors import PlacementError as PlacementError
    from rankcast.model.errors import PriorityCycleError as PriorityCycleError
    from rankcast.model.errors import Problem as Problem
    from rankcast.model.errors import RankcastError as RankcastError
    from rankcast.model.errors import UnknownAttributeError as UnknownAttributeError
    from rankcast.model.errors import UnknownIdError as UnknownIdError
    from rankcast.model.events import Event as Event
    from rankcast.model.expressions import all_of as all_of
    from rankcast.model.expressions import any_of as any_of
    from rankcast.model.expressions import attr as attr
    from rankcast.model.filters import Filter as Filter
    from rankcast.model.periods import Every as Every
    from rankcast.model.policies import AllMatches as AllMatches
    from rankcast.model.policies import AtOnce as AtOnce
    from rankcast.model.policies import Bounded as Bounded
    from rankcast.model.policies import Cap as Cap
    from rankcast.model.policies import Continuous as Continuous
    from rankcast.model.policies import Digest as Digest
    from rankcast.model.policies import Diversity as Diversity
    from rankcast.model.policies import OnDemand as OnDemand
    from rankcast.model.policies import Periodic as Periodic
    from rankcast.model.policies import Sliding as Sliding
    from rankcast.model.policies import TieRule as TieRule
    from rankcast.model.policies import TopKWindow as TopKWindow
    from rankcast.model.relevance import Closeness as Closeness
    from rankcast.model.relevance import Cosine as Cosine
    from rankcast.model.relevance import Decay as Decay
    from rankcast.model.relevance import IdealPoint as IdealPoint
    from rankcast.model.relevance import Target as Target
    from rankcast.model.schema import Schema as Schema
    from rankcast.model.subscriptions import Priority as Priority
    from rankcast.model.subscriptions import RankBy as RankBy
    from rankcast.model.subscriptions import Subscriber as Subscriber
    from rankcast.model.subscriptions import Subscription as Subscription
    from rankcast.model.values import ValueType as ValueType
    from rankcast.storage.subscribers.files import load_subscribers as load_subscribers
    from rankcast.version import __version__ as __version__

__getattr__, __dir__, __all__ = loading(
    __name__,
    {
        "rankcast.hub": ("CallbackError", "Hub", "HubLogError", "Late", "Match", "Notification", "Outcome", "Verdict"),
        "rankcast.language.parser": ("parse_filter",),
        "rankcast.language.printer": ("format_filter",),
        "rankcast.model.advertisements": ("Advertisement", "AudienceRanking", "Scoring", "Ties"),
        "rankcast.model.cloudevents": ("event_from_json", "event_to_json"),
        "rankcast.model.errors": (
            "DuplicateIdError",
            "FilterError",
            "FilterSyntaxError",
            "FilterTooLargeError",
            "FilterTypeError",
            "InvalidEventError",
            "InvalidFileError",
            "InvalidMessageError",
            "InvalidSubscriptionError",
            "InvalidValueError",
            "PlacementError",
            "PriorityCycleError",
            "Problem",
            "RankcastError",
            "UnknownAttributeError",
            "UnknownIdError",
        ),
        "rankcast.model.events": ("Event",),
        "rankcast.model.expressions": ("all_of", "any_of", "attr"),
        "rankcast.model.filters": ("Filter",),
        "rankcast.model.periods": ("Every",),
        "rankcast.model.policies": (
            "AllMatches",
            "AtOnce",
            "Bounded",
            "Cap",
            "Continuous",
            "Diversity",
            "Digest",
            "OnDemand",
            "Periodic",
            "Sliding",
            "TieRule",
            "TopKWindow",
        ),
        "rankcast.model.relevance": ("Closeness", "Cosine", "Decay", "IdealPoint", "Target"),
        "rankcast.model.schema": ("Schema",),
        "rankcast.model.subscriptions": ("Priority", "RankBy", "Subscriber", "Subscription"),
        "rankcast.model.values": ("ValueType",),
        "rankcast.storage.subscribers.files": ("load_subscribers",),
        "rankcast.version": ("__version__",),
    },
)
