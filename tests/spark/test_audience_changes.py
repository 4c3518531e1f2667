"""An audience that was changed, step by step, does what one does that is made at once."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.matching.index import Index
from rankcast.model.policies import Continuous, Sliding
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.ranking.batch_table import COSINE, NONE
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers, QueueKey
from rankcast.spark.matching.subscriber_changes import AudienceCompiler
from rankcast.testing.strategies import events, subscribers


def described(audience: CompiledSubscribers, number: int) -> tuple:
    """Everything that is known of a subscription, by names instead of numbers."""
    ranking, table = audience.ranking, audience.ranking.table
    queue, profile = int(table.queue[number]), int(table.profile[number])
    name = audience.queues.names_of(queue)[audience.position[number]]
    wider = table.general[table.general_start[number] : table.general_end[number]].tolist()
    return (
        audience.queues.keys[queue],
        name,
        float(table.rank[number]),
        float(table.weight[number]),
        int(table.refresh[number]),
        int(table.rank_by[profile]),
        tuple(table.half_life[profile].tolist()),
        tuple(sorted(audience.queues.names_of(queue)[audience.position[one]] for one in wider)),
        _function(ranking, int(table.relevance[number])),
    )


def _function(ranking, function: int) -> tuple:
    table = ranking.table
    if function == NONE:
        return ()
    parts = slice(int(table.part_start[function]), int(table.part_start[function + 1]))
    names = ranking.vectors if table.kind[function] == COSINE else ranking.numbers
    columns = [names[column] for column in table.part_column[parts].tolist()]
    numbers = [tuple(column[parts].tolist()) for column in (table.part_value, table.part_scale, table.part_weight)]
    return (int(table.kind[function]), float(table.reach[function]), tuple(columns), *numbers)


def satisfied(audience: CompiledSubscribers, event) -> list[tuple]:
    return sorted(described(audience, number) for number in audience.reader.match_one(event.attributes).tolist())


everyone = st.lists(subscribers(), max_size=4, unique_by=lambda one: one.id)


@given(st.lists(everyone, min_size=1, max_size=4), st.lists(events(), max_size=5), st.sets(st.integers(0, 3)))
@settings(max_examples=25)
def test_a_changed_audience_is_the_audience_of_those_who_are_there(
    tmp_path_factory, steps: list[list[Subscriber]], published: list, reloads: set[int]
) -> None:
    compiler = AudienceCompiler()
    audience, there = None, {}
    numbers: dict[QueueKey, int] = {}
    for at, step in enumerate(steps):
        wanted = {one.id: one for one in step}
        changed = {name: () for name in there if name not in wanted}
        changed |= {name: (one,) for name, one in wanted.items() if there.get(name) != one}
        audience, there = compiler.compiled(audience, changed), wanted
        if at in reloads:
            folder = tmp_path_factory.mktemp("saved")
            audience.save(folder)
            audience = compiler.loaded(folder)
        found = {key: audience.queue_number(key) for key in audience.queues.keys}
        assert numbers.items() <= found.items()
        numbers = found
    fresh = CompiledSubscribers.of(there.values())
    for event in published:
        assert satisfied(audience, event) == satisfied(fresh, event)
    assert len(audience) == len(fresh)


BEST = Continuous(1)


def ana(rent: int, name: str, policy=BEST) -> Subscriber:
    return Subscriber("ana", (Subscription(name, parse_filter(f"rent < {rent}")),), policy)


def test_names_within_a_queue_keep_their_positions() -> None:
    compiler = AudienceCompiler()
    audience = compiler.compiled(None, {"ana": (ana(500, "cheap"),)})
    audience = compiler.compiled(audience, {"ana": (ana(900, "dear"),)})
    assert audience.queues.names_of(0) == ["cheap", "dear"]
    (number,) = audience.reader.match_one({"rent": 100}).tolist()
    assert audience.position[number] == 1


def test_the_policies_that_a_queue_may_get_later_are_known() -> None:
    compiler = AudienceCompiler()
    periods = (ana(500, "a"), ana(500, "a", Sliding(1, 2)))
    audience = compiler.compiled(None, {"ana": periods})
    assert audience.queues.policies_of(0, 1) == [Continuous(1)]
    assert set(audience.queues.policies) == {Continuous(1), Sliding(1, 2)}
    audience = compiler.compiled(audience, {"ana": (ana(500, "a", Sliding(1, 3)),)})
    assert audience.queues.policies_of(0, 1) == [Continuous(1)]
    assert Sliding(1, 3) in audience.queues.policies


def test_only_what_changes_enters_the_index(monkeypatch) -> None:
    compiler = AudienceCompiler()
    many = {f"s{at}": (Subscriber(f"s{at}", ana(at, "a").subscriptions),) for at in range(50)}
    audience = compiler.compiled(None, many)
    added: list[int] = []
    original = Index.add
    monkeypatch.setattr(Index, "add", lambda self, entry: (added.append(entry.number), original(self, entry)))
    audience = compiler.compiled(audience, {"s7": (), "s9": (Subscriber("s9", ana(3, "b").subscriptions),)})
    assert added == [50]
    assert len(audience) == 49
    assert np.array_equal(audience.reader.match_one({"rent": 48}), np.array([49]))


def test_a_saved_audience_of_a_version_is_verified(tmp_path: Path) -> None:
    compiler = AudienceCompiler()
    compiler.compiled(None, {"ana": (ana(500, "a"),)}).save(tmp_path)
    assert compiler.loaded(tmp_path).queues.keys == [QueueKey("ana")]
    assert compiler.policies(ana(1, "a")) == {None: Continuous(1)}
