"""The embedded engine: subscribe, publish and explain in one process.

`engine` is the hub itself, `results` what it answers with and `inputs` what it accepts for subscriptions. Calls become
`commands`, which change the `core`; subscribers and queues are in `rankcast.serving`; `durable` writes commands down,
`background` does what takes long, and `explaining` tells what an event would mean.
"""

from typing import TYPE_CHECKING

from rankcast.lazily import loading

if TYPE_CHECKING:
    from rankcast.hub.engine import Hub, utc_now
    from rankcast.hub.results import (
        CallbackError,
        Late,
        Match,
        Notification,
        Outcome,
        Published,
        RejectedEvent,
        Verdict,
    )
    from rankcast.storage.hub_log import HubLogError, Sync

__all__ = [
    "CallbackError",
    "Hub",
    "HubLogError",
    "Late",
    "Match",
    "Notification",
    "Outcome",
    "Published",
    "RejectedEvent",
    "Sync",
    "Verdict",
    "utc_now",
]

__getattr__, __dir__ = loading(
    __name__,
    {
        "rankcast.hub.engine": ("Hub", "utc_now"),
        "rankcast.hub.results": (
            "CallbackError",
            "Late",
            "Match",
            "Notification",
            "Outcome",
            "Published",
            "RejectedEvent",
            "Verdict",
        ),
        "rankcast.storage.hub_log": ("HubLogError", "Sync"),
    },
)
