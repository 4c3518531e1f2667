"""Of the matches of a batch, those of the subscribers whom each event is for: the k best, where its publisher says so.

All matches of an event are in one task, so the choice is made there, before anything is ranked for the chosen or sent
to them. It is that of the hub, by the same selector and the same draws (`ranking.audiences`): it depends on the event's
identity, the ranking and who matches, and neither on partitions and batches nor on repetitions. A chosen subscriber
keeps all its matches.

Cost: a sort of the matches; with relevance, these are ranked one by one first; with diversity the square of those of
each event, and a filter to be parsed for each.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.compiling import compiled
from rankcast.delivery.engine.contents import WantedContent
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Scoring, Ties
from rankcast.model.events import Identity
from rankcast.model.schema import Schema
from rankcast.ranking.audiences import diverse_scores, draws, event_number, select
from rankcast.ranking.batch import rank_batch
from rankcast.ranking.batch_table import NONE
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.sources.event_reader import EventBatch, EventReader

REMEMBERED = 1 << 14
"""Filters that a process keeps parsed, to compare them with others."""

parsed = lru_cache(maxsize=REMEMBERED)(parse_filter)


def chosen_matches(
    events: EventBatch, reader: EventReader, audience: CompiledSubscribers, offsets: Array, numbers: Array
) -> tuple[Array, Array]:
    """Return, of the subscriptions numbers[offsets[i]:offsets[i+1]] that event i satisfies, those of whom it is for."""
    if events.audiences is None or not (events.audiences.k >= 0).any():
        return offsets, numbers
    advertisement, k = events.audiences
    rankings = [own.ranking for own in reader.advertisements]
    places = np.array([*map(rankings.index, rankings), 0])[advertisement]
    event = np.repeat(np.arange(len(events)), np.diff(offsets))
    stays, people = (k < 0)[event], audience.person[numbers]
    for place in np.unique(places[k >= 0]).tolist():
        own, ranking = np.flatnonzero(((k >= 0) & (places == place))[event]), rankings[place]
        of, scored, scores = _scores(events, reader.schema, audience, ranking.scoring, event[own], numbers[own])
        order = person = audience.person[scored]
        if ranking.ties is Ties.FAIR:
            order = draws(_event_numbers(events, ranking.seed, of)[of], audience.draws[person])
        best = select(person, scores, order, k, of)
        keep_chosen(of[best], person[best], own, event, people, np.full(len(audience.draws), -1), stays)
    return starts_of(np.bincount(event[stays], minlength=len(events))), numbers[stays]


@compiled
def keep_chosen(best: Array, chosen: Array, own: Array, event: Array, person: Array, last: Array, stays: Array) -> None:
    """Note which of some matches are those of subscribers who were chosen for their events, both by event."""
    at = 0
    for match in own:
        while at < len(best) and best[at] <= event[match]:
            last[chosen[at]] = best[at]
            at += 1
        stays[match] = last[person[match]] == event[match]


def _event_numbers(events: EventBatch, seed: int, event: Array) -> Array:
    """Return the numbers of events for the draws by chance, of those that have matches."""
    table, found = events.table(WantedContent()), np.zeros(len(events), np.uint64)
    some = np.flatnonzero(np.bincount(event, minlength=len(events)))
    identities = map(Identity, table.source.taken(some).texts(), table.id.taken(some).texts())
    found[some] = [event_number(seed, identity) for identity in identities]
    return found


def _scores(
    events: EventBatch,
    schema: Schema | None,
    audience: CompiledSubscribers,
    scoring: Scoring,
    event: Array,
    numbers: Array,
) -> tuple[Array, Array, Array | None]:
    """Return the matches of subscriptions to which events are relevant, and what they score."""
    table = audience.ranking.table
    scores = table.rank[numbers]
    if (table.relevance[numbers] != NONE).any():
        offsets = starts_of(np.bincount(event, minlength=len(events)))
        given = (offsets, numbers, events.times, events.expires, events.features(audience.ranking))
        rows = rank_batch(audience.one_by_one, *given)
        event, numbers = rows.event, rows.queue
        scores = rows.rank if scoring is Scoring.RELEVANCE else table.rank[numbers]
    if scoring is Scoring.DIVERSITY:
        filters = [parsed(text, schema) for text in audience.filters.taken(numbers).texts()]
        ends = [0, *(np.flatnonzero(np.diff(event)) + 1).tolist(), len(event)]
        by_event = (diverse_scores(filters[start:end]) for start, end in pairwise(ends))
        return event, numbers, np.concatenate([np.zeros(0), *by_event])
    return event, numbers, None if scoring is Scoring.NONE else scores
