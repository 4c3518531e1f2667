"""What an event would mean to a subscriber if it were published now: filters, rank, and the standing in each queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from rankcast.delivery.outlook import Fate, Outlook
from rankcast.hub.core import Core
from rankcast.hub.members import Member, MemberQueue
from rankcast.hub.results import Late, Match, Outcome, Verdict
from rankcast.matching.explain import Explanation, explain
from rankcast.model.events import Event
from rankcast.model.notifying import Gathered, Notify, OnDemand


def outcome(core: Core, member: Member, event: Event, now: datetime) -> Outcome:
    """Return the outcome for a subscriber's queue, with those of the queues of single subscriptions; change nothing."""
    explanations = tuple(explain(event, subscription) for subscription in member.subscriber.subscriptions)
    first, *others = (_queue_outcome(core, queue, event, explanations, now) for queue in member.queues.values())
    return replace(first, explanations=explanations, others=tuple(others))


def _queue_outcome(
    core: Core, queue: MemberQueue, event: Event, explanations: tuple[Explanation, ...], now: datetime
) -> Outcome:
    name = queue.subscription
    satisfied = [one.subscription for one in explanations if one.matched]
    wanted = [one.id for one in satisfied if (one.deliver is None if name is None else one.id == name)]
    decay = queue.member.subscriber.decay
    found = Outcome(queue.member.subscriber.id, (), None, Verdict.NO_MATCH, subscription=name, decay=decay)
    match = queue.match(event, wanted)
    if match is None:
        return replace(found, verdict=Verdict.NO_RELEVANCE) if wanted else found
    late = core.lateness_of(event, now)
    unseen = _not_seen(core, queue, match, late)
    if unseen is not None:
        return replace(found, rank=match.rank, verdict=unseen, late=late)
    ahead = queue.outlook(match, max(now, core.latest))
    competitor = None if ahead.competitor is None else queue.matches.get(ahead.competitor.identity)
    verdict = _verdict(ahead, queue.member.subscriber.notify)
    return replace(found, rank=match.rank, verdict=verdict, outlook=ahead, competitor=competitor)


def _not_seen(core: Core, queue: MemberQueue, match: Match, late: Late | None) -> Verdict | None:
    """Return why a match that came now would not reach its queue now, or None when it would."""
    event = match.event
    if core.is_known(event.identity) or queue.holds(event.identity):
        return Verdict.REPEATED
    if late is not None:
        return Verdict.LATE
    return Verdict.HELD if core.keeps_back else None


def _verdict(ahead: Outlook, notify: Notify) -> Verdict:
    """Return what becomes of an event for one who is notified in some way; a list to be read has the best k only."""
    fate = ahead.fate
    if isinstance(notify, OnDemand) and fate in (Fate.DELIVERED, Fate.WAITING):
        is_listed = ahead.place is None or ahead.k is None or ahead.place <= ahead.k
        return Verdict.ON_DEMAND if is_listed else Verdict.OUTRANKED
    return Verdict.GATHERED if isinstance(notify, Gathered) and fate is Fate.DELIVERED else Verdict(fate.value)
