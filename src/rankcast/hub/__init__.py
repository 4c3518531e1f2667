"""The embedded engine: subscribe, publish and explain in one process.

`engine` is the hub itself, `results` what it answers with and `inputs` what it accepts for subscriptions. Calls become
`commands`, which change the `core`; `members` is what that keeps for each subscriber; `durable` writes commands down
and `explaining` tells what an event would mean.
"""

from rankcast.hub.engine import Hub, utc_now
from rankcast.hub.results import CallbackError, Late, Match, Notification, Outcome, Verdict
from rankcast.storage.hub_log import HubLogError, Sync

__all__ = [
    "CallbackError",
    "Hub",
    "HubLogError",
    "Late",
    "Match",
    "Notification",
    "Outcome",
    "Sync",
    "Verdict",
    "utc_now",
]
