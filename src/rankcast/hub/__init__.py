"""The embedded engine: subscribe, publish and explain in one process.

`hub` is the hub itself, `results` what it answers with and `conversions` what it accepts for subscriptions. Calls
become commands, which change the `core`; subscribers and queues are in `rankcast.serving`; `durable` writes commands
down. `estimate` tells what a subscriber would have got of past events.
"""

from typing import TYPE_CHECKING

from rankcast.lazily import loading

if TYPE_CHECKING:
    from rankcast.hub.hub import Hub as Hub
    from rankcast.hub.hub import utc_now as utc_now
    from rankcast.hub.results import CallbackError as CallbackError
    from rankcast.hub.results import Estimate as Estimate
    from rankcast.hub.results import Estimated as Estimated
    from rankcast.hub.results import Late as Late
    from rankcast.hub.results import Outcome as Outcome
    from rankcast.hub.results import Published as Published
    from rankcast.hub.results import RejectedEvent as RejectedEvent
    from rankcast.hub.results import Verdict as Verdict
    from rankcast.serving.results import Match as Match
    from rankcast.serving.results import Notification as Notification
    from rankcast.serving.results import Withheld as Withheld
    from rankcast.storage.hub_log import HubLogError as HubLogError
    from rankcast.storage.hub_log import Sync as Sync

__getattr__, __dir__, __all__ = loading(
    __name__,
    {
        "rankcast.hub.hub": ("Hub", "utc_now"),
        "rankcast.hub.results": (
            "CallbackError",
            "Estimate",
            "Estimated",
            "Late",
            "Outcome",
            "Published",
            "RejectedEvent",
            "Verdict",
        ),
        "rankcast.serving.results": ("Match", "Notification", "Withheld"),
        "rankcast.storage.hub_log": ("HubLogError", "Sync"),
    },
)
