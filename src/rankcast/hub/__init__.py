"""The embedded engine: subscribe, publish and explain in one process.

`engine` is the hub itself, `results` what it answers with, `inputs` what it accepts for subscriptions and `members`
what it keeps for each subscriber.
"""

from rankcast.hub.engine import Hub, utc_now
from rankcast.hub.results import CallbackError, Match, Notification, Outcome, Verdict

__all__ = ["CallbackError", "Hub", "Match", "Notification", "Outcome", "Verdict", "utc_now"]
