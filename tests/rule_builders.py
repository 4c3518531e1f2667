"""Short ways to say what the tests of the rules need: times, candidates, streams, filters."""

from datetime import UTC, datetime, timedelta

from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.language.parser import parse_filter
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.overlay.routing.strategies import Strategy
from rankcast.testing.conformance import Case, HubEngine, check
from rankcast.testing.overlay_engine import OverlayEngine
from spark.stages import InProcess

ENGINES = {
    "hub-steps": HubEngine(kernels=False),
    "hub-kernels": HubEngine(kernels=True),
    "overlay": OverlayEngine(Strategy.REGULAR_COVER, 3),
    "spark-stages": InProcess(shards=2, size=3),
}

START = datetime(2026, 1, 1, tzinfo=UTC)


def seconds(number):
    return timedelta(seconds=number)


def at(number):
    """Return an instant, so many seconds after the start."""
    return START + seconds(number)


def event(name, time=None, expires=None, source="/s", **attributes):
    """Return an event; its times are seconds after the start."""
    times = (None if one is None else at(one) for one in (time, expires))
    return Event(name, source, "rule.test", *times, data=attributes)


def candidate(time, score, expires=None, name=None, **content):
    """Return a matching event of one queue; its times are seconds after the start."""
    identity = Identity("/s", f"{time}" if name is None else name)
    return Candidate(
        identity, at(time), score, None if expires is None else at(expires), tuple(sorted(content.items()))
    )


def delivered_by_match(policy, candidates):
    """Return the ids that are delivered at each arrival, every one an instant of its own."""
    queue, rounds = new_queue(policy), []
    for arriving in candidates:
        queue, delivered = step(queue, arriving, arriving.time)
        rounds.append(names_of(delivered))
    return rounds


def after(policy, candidates):
    """Return the queue of a policy after arrivals, every one an instant of its own."""
    queue = new_queue(policy)
    for arriving in candidates:
        queue, _ = step(queue, arriving, arriving.time)
    return queue


def names_of(delivered):
    """Return the ids of what is delivered, in order."""
    return [one.candidate.identity.id for one in delivered]


def timeline(policy, candidates):
    """Return (second, id) of everything that is delivered until the end of time; equal times are one instant."""
    queue, found = new_queue(policy), []
    for arriving in candidates:
        queue, delivered = step(queue, arriving, arriving.time, closed=False)
        found += delivered
    found += finished(queue)[1]
    return [((one.time - START).total_seconds(), one.candidate.identity.id) for one in found]


def graded(policy, **settings):
    """Return a subscriber who wants everything, the larger x (0 to 10) the better."""
    wanted = [Subscription(str(x), parse_filter(f"x = {x}"), x / 10) for x in range(11)]
    rest = Subscription("rest", parse_filter("not exists x"))
    return Subscriber("ana", (*wanted, rest), policy, **settings)


def handed(engine, who, *events):
    """Return the ids of what a subscriber is handed, in its order; every engine agrees with the literal definition."""
    return [one.event.id for one in deliveries(engine, who, *events)]


def handed_at(engine, who, *events):
    """Return (second, id) of what a subscriber is handed: each when it is, in a digest or at once."""
    return [
        (((one.digest or one.time) - START).total_seconds(), one.event.id) for one in deliveries(engine, who, *events)
    ]


def deliveries(engine, who, *events):
    """Return what a subscriber is handed, in its order, of an engine that agrees with the literal definition."""
    case = Case((who,), events)
    check(engine, case)
    times = {one.identity: one.time for one in events}
    return sorted(
        engine.deliveries(case),
        key=lambda one: (one.digest or one.time, one.time, -one.rank, START - times[one.event], one.event),
    )


def played(engine, policy, candidates):
    """Return (second, id) of all that an engine hands over of candidates, whose scores are ranks of subscriptions."""
    ranks = sorted({one.score for one in candidates})
    owned = (Subscription(str(rank), parse_filter(f"score = {rank!r}"), rank) for rank in ranks)
    arriving = (
        Event(one.identity.id, one.identity.source, time=one.time, expires=one.expires, data={"score": one.score})
        for one in candidates
    )
    return handed_at(engine, Subscriber("ana", tuple(owned), policy), *arriving)


def rounds(engine, policy, candidates):
    """Return the ids that an engine hands over at each arrival, every one an instant of its own."""
    found = played(engine, policy, candidates)
    return [[name for second, name in found if at(second) == one.time] for one in candidates]


def holds(text, **attributes):
    """Return whether a filter matches attributes: as the oracle and the index say, which have to agree."""
    wanted = parse_filter(text)
    seen = event("1", **attributes).attributes
    answer = evaluate(wanted.expression, seen) is True
    index = Index([Entry.of(7, wanted)]).reader()
    assert (index.match_one(seen).tolist() == [7]) == answer, "the index disagrees with the oracle"
    return answer
