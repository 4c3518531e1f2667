"""A publisher that is going to be killed: it publishes events and writes a line for each call that returned."""

import json
import sys
from datetime import UTC, datetime, timedelta

from rankcast.hub import Hub
from rankcast.model.events import Event
from rankcast.model.policies import Continuous, Periodic, Sliding, TopKWindow

START = datetime(2026, 1, 1, tzinfo=UTC)
RANKS = {"x >= 0": 0.2, "x >= 3": 0.4, "x >= 5": 0.6, "x = 6": 1.0}
POLICIES = {
    "sliding": Sliding(k=1, window=4),
    "continuous": Continuous(k=2),
    "periodic": Periodic(k=2, period=timedelta(seconds=7)),
    "topkw": TopKWindow(k=1, window=timedelta(seconds=5)),
}


def subscribe(hub):
    """Subscribe whoever is not there yet."""
    known = {subscriber.id for subscriber in hub.subscribers}
    for name, policy in POLICIES.items():
        if name not in known:
            hub.subscribe(name, RANKS, deliver=policy)


def allowed(lateness):
    """Return the lateness of a hub from a number of seconds, or from the text None."""
    return None if lateness == "None" else timedelta(seconds=int(lateness))


def publish(hub, number):
    """Publish the event of a number, which is always the same one; some are older than those before."""
    now = START + timedelta(seconds=number)
    time = now - timedelta(seconds=number % 5 if number % 13 else 8)
    expires = time + timedelta(seconds=3) if number % 4 == 0 else None
    return hub.publish(
        Event(str(number), "/flats", time=time, expires=expires, data={"x": number * number % 7, "at": now}), now=now
    )


def plain(notifications):
    """Return notifications as JSON holds them."""
    return [[note.subscriber, note.event.id, note.rank, *note.matched, str(note.time)] for note in notifications]


def tell(line):
    """Write a line at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main():
    """Open the hub of a path and publish the events from a number to another."""
    path, sync, lateness, first, end = sys.argv[1:]
    hub = Hub(path=path, sync=sync, snapshot_every=25, lateness=allowed(lateness))
    tell({"recovered": plain(hub.recovered)})
    subscribe(hub)
    for number in range(int(first), int(end)):
        notifications = plain(publish(hub, number))
        tell({"published": number, "notifications": notifications})


if __name__ == "__main__":
    main()
