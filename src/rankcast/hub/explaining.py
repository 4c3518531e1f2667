"""What an event would mean to a subscriber if it were published now: filters, rank, and the standing in each queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from rankcast.delivery.rules.forecast import ArrivalResult, Forecast
from rankcast.hub.core import Core
from rankcast.hub.results import Late, Outcome, Verdict
from rankcast.matching.explain import Explanation, explain
from rankcast.model.events import Event
from rankcast.model.policies import Gathered, Notify, OnDemand
from rankcast.serving.subscriber_state import ServedQueue, SubscriberState


def outcome(core: Core, state: SubscriberState, event: Event, now: datetime) -> Outcome:
    """Return the outcome for a subscriber's queue, with those of the queues of single subscriptions; change nothing."""
    explanations = tuple(explain(event, subscription) for subscription in state.subscriber.subscriptions)
    queues = core.serving.queues_of(state.subscriber.id).values()
    first, *others = (_queue_outcome(core, queue, event, explanations, now) for queue in queues)
    return replace(first, explanations=explanations, others=tuple(others))


def _queue_outcome(
    core: Core, queue: ServedQueue, event: Event, explanations: tuple[Explanation, ...], now: datetime
) -> Outcome:
    subscriber = queue.owner.subscriber
    wanted = tuple(at for at, _ in queue.owner.competing(queue.subscription) if explanations[at].matched)
    found = Outcome(subscriber.id, (), None, Verdict.NO_MATCH, subscription=queue.subscription, decay=subscriber.decay)
    ranked = queue.ranked(event, wanted) if wanted else None
    if ranked is None:
        return replace(found, verdict=Verdict.NO_RELEVANCE) if wanted else found
    late = core.lateness_of(event, now)
    unseen = _not_seen(core, queue, event, late, max(now, core.latest))
    if unseen is not None:
        return replace(found, rank=ranked.rank, verdict=unseen, late=late)
    ahead = core.serving.outlook(queue, event, ranked, max(now, core.latest))
    competitor = None if ahead.competitor is None else core.serving.match_of(queue, ahead.competitor)
    verdict = _verdict(ahead, subscriber.notify)
    return replace(found, rank=ranked.rank, verdict=verdict, outlook=ahead, competitor=competitor)


def _not_seen(core: Core, queue: ServedQueue, event: Event, late: Late | None, now: datetime) -> Verdict | None:
    """Return why a match that came now would not reach its queue now, or None when it would."""
    taken = event.time if core.goes_by_events and event.time is not None else now
    if core.is_known(event.identity) or core.serving.holds(queue, event.identity, taken):
        return Verdict.REPEATED
    if late is not None:
        return Verdict.LATE
    return Verdict.HELD if core.keeps_back else None


def _verdict(ahead: Forecast, notify: Notify) -> Verdict:
    """Return what becomes of an event for one who is notified in some way; a list to be read has the best k only."""
    fate = ahead.fate
    if isinstance(notify, OnDemand) and fate in (ArrivalResult.DELIVERED, ArrivalResult.WAITING):
        is_listed = ahead.k is None or (ahead.place is not None and ahead.place <= ahead.k)
        return Verdict.ON_DEMAND if is_listed else Verdict.OUTRANKED
    return Verdict.GATHERED if isinstance(notify, Gathered) and fate is ArrivalResult.DELIVERED else Verdict(fate.value)
