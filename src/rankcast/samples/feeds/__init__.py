"""Realistic feeds of events with matching subscribers: `flats`, `movies` and `trades`.

A feed is endless and streams. Its n-th event and its n-th subscriber depend on the seed and on n alone, so a longer
feed begins with exactly the shorter one. Attributes are correlated as in life (rent follows city, district and size),
some are missing now and then, and some events expire. Subscribers have a few subscriptions each, with preference ranks,
"a before b" priorities or neither, and filters that use the whole language; an event matches a few percent of all
subscriptions. Cost: about 30 microseconds for an event, 700 for a subscriber.

>>> [event.attributes["city"] for event in flats.events(3, seed=1)]
['Madrid', 'Porto', 'Madrid']
"""

from __future__ import annotations

from collections.abc import Mapping

from rankcast.model.errors import UnknownIdError, shown
from rankcast.samples.feeds.cinema import MOVIES as movies  # noqa: N811
from rankcast.samples.feeds.common import DEFAULT_START, Feed
from rankcast.samples.feeds.housing import FLATS as flats  # noqa: N811 (feeds read as values: flats.events(...))
from rankcast.samples.feeds.market import TRADES as trades  # noqa: N811

__all__ = ["DEFAULT_START", "FEEDS", "Feed", "feed_named", "flats", "movies", "trades"]

FEEDS: Mapping[str, Feed] = {feed.name: feed for feed in (flats, movies, trades)}


def feed_named(name: str) -> Feed:
    """Return a feed by its name."""
    found = FEEDS.get(name)
    if found is None:
        raise UnknownIdError(f"there is no feed {shown(name)}; expected one of {', '.join(FEEDS)}")
    return found
