"""Who follows the feed of flats in the demo: people with wishes that can be read aloud, and many others.

The small demo has PEOPLE, and others as the feed draws them; that on Spark has NAMED, and thousands of others with one
of six policies each. These get their policies in turn, so that each policy serves the same kind of people and the
policies can be compared. Ranks are those of the best matching wish, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs

from rankcast.language.parser import parse_filter
from rankcast.model.policies import ALL_MATCHES, Continuous, Diversity, Periodic, Policy, Sliding, TopKWindow
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.samples.feeds import flats


@dataclass(frozen=True, slots=True)
class Person:
    """Who it is, what the wishes are (with ranks or with priorities), and what is to be delivered."""

    name: str
    story: str
    wishes: dict[str, tuple[str, float | None]]
    deliver: Policy = ALL_MATCHES
    priorities: tuple[tuple[str, str], ...] = ()

    def subscriber(self, schema: Schema) -> Subscriber:
        """Return the subscriber that this person is."""
        return Subscriber(
            SubscriberId(self.name),
            tuple(
                Subscription(SubscriptionId(name), parse_filter(text, schema), rank)
                for name, (text, rank) in self.wishes.items()
            ),
            deliver=self.deliver,
            priorities=tuple(Priority(SubscriptionId(a), SubscriptionId(b)) for a, b in self.priorities),
        )


ANA = Person(
    "ana",
    "wants a flat in Porto, best at a fair rent",
    {
        "fair": ("city = 'Porto' and rent between 500 and 900", 0.9),
        "large": ("city = 'Porto' and rooms >= 3", 0.6),
    },
    Sliding(k=3, window=100),
)
BRUNO_CITY = "Coimbra"
BRUNO = Person(
    "bruno",
    "studies in Coimbra and wants to hear of everything he can afford",
    {
        "campus": (f"city = '{BRUNO_CITY}' and rent < 600 and description contains 'university'", 1.0),
        "cheap": (f"city = '{BRUNO_CITY}' and rent < 500", 0.7),
    },
)
PEOPLE = (
    ANA,
    BRUNO,
    Person(
        "carla",
        "has a dog: a garden matters more than a low rent",
        {
            "garden": ("city in ('Lisboa', 'Porto') and pets = true and description contains 'garden'", None),
            "dog": ("city in ('Lisboa', 'Porto') and pets = true and rent <= 1200", None),
            "ask": ("city in ('Lisboa', 'Porto') and not exists pets and rent <= 900", None),
        },
        Sliding(k=2, window=50),
        (("garden", "dog"), ("dog", "ask")),
    ),
    Person(
        "diego",
        "moves to Barcelona with his family",
        {
            "dream": ("city = 'Barcelona' and rooms >= 4 and (floor <= 1 or description contains 'lift')", 1.0),
            "space": ("city = 'Barcelona' and size_m2 > 90 and rent < 2200", 0.8),
            "home": ("city = 'Barcelona' and rooms >= 3", 0.4),
        },
        Sliding(k=5, window=200),
    ),
    Person(
        "elena",
        "starts a job in Madrid in April and travels light",
        {
            "ready": ("city = 'Madrid' and furnished = true and available <= time '2025-04-01'", None),
            "near": ("city = 'Madrid' and district in ('Retiro', 'Salamanca') and rent < 1500", None),
        },
        Continuous(k=5),
        (("ready", "near"),),
    ),
    Person(
        "fritz",
        "hunts bargains all over Portugal, but not from agents",
        {
            "steal": ("reference prefix 'PT-' and not exists agency and rent < 700 and size_m2 >= 60", 1.0),
            "nice": ("reference like 'PT-___-%' and not exists agency and rent < 800", 0.5),
        },
        Sliding(k=3, window=100),
    ),
)

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
