"""Who takes part in the demo on Spark: named people, and thousands of others with one of six policies each.

The others get their policies in turn, so that each policy serves the same kind of people and the policies can be
compared. Ranks are those of the best matching wish, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec import structs

from rankcast.cli.demo.people import PEOPLE, Person
from rankcast.model.diversity import Diversity
from rankcast.model.policies import ALL_MATCHES, Continuous, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.subscriptions import RankBy, Subscriber
from rankcast.samples.feeds import flats

TELLING = ("agency", "district", "furnished", "rooms")
"""The attributes by which flats are told apart where diversity is wanted, and where it is measured."""

DIVERSE = Diversity(sigma=0.3, weights=dict.fromkeys(TELLING, 1.0))

POLICIES: Mapping[str, Policy] = {
    "every match": ALL_MATCHES,
    "best 5 so far": Continuous(k=5),
    "best 5 of the last 100": Sliding(k=5, window=100),
    "diverse 5 of the last 100": Sliding(k=5, window=100, diversity=DIVERSE),
    "best 5 of any 7 days": TopKWindow(k=5, window=timedelta(days=7)),
    "best 5 every day": Periodic(k=5, period=timedelta(days=1)),
}
"""What the others want to get, by the name it has in tables and pictures."""

NAMED = (
    *PEOPLE,
    Person(
        "gita",
        "reads one mail a day about Valencia and would love a balcony",
        {
            "balcony": ("city = 'Valencia' and description contains 'balcony' and rent < 1100", 1.0),
            "cheap": ("city = 'Valencia' and rent < 900", 0.5),
        },
        Periodic(k=3, period=timedelta(days=1)),
    ),
    Person(
        "hugo",
        "does not know yet where in Lisboa he wants to live, and wants to see a bit of everything",
        {
            "good": ("city = 'Lisboa' and size_m2 >= 60 and rent < 1400", 0.9),
            "small": ("city = 'Lisboa' and rent < 1000", 0.6),
        },
        Sliding(k=3, window=100, diversity=DIVERSE),
    ),
)


def named_people() -> list[Subscriber]:
    """Return the people whose story is told."""
    return [person.subscriber(flats.schema) for person in NAMED]


def others(count: int, seed: int) -> list[Subscriber]:
    """Return everyone else; the n-th has the n-th policy, in turn."""
    policies = tuple(POLICIES.values())
    return [
        structs.replace(subscriber, deliver=policies[at % len(policies)], rank_by=RankBy.MAX)
        for at, subscriber in enumerate(flats.subscribers(count, seed))
    ]
