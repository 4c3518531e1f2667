"""Runs every kernel of the package once, so that it is compiled, or loaded, before there is any event."""

from __future__ import annotations

import numpy as np

from rankcast.compiling.arguments import KernelArguments
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.relevance import Closeness, Cosine, Relevance, Target
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.ranking.batch import EVENT_ARRAYS, Features, RankingTable, rank_batch, rank_event, relevant_events


def warm_up() -> None:
    """Rank one event by each kind of function."""
    functions: tuple[Relevance, ...] = (Closeness((Target("x", 0.0),)), Cosine("v", (1.0,)))
    everything = Filter.of(Constant(True))
    wanted = [
        Subscription(SubscriptionId(str(at)), everything, relevance=function) for at, function in enumerate(functions)
    ]
    ranking = RankingTable.of([Subscriber(SubscriberId("1"), tuple(wanted))], [0, 0])
    starts = np.array([0, 1])
    features = Features.of(ranking, 1, {"x": np.zeros(1)}, {"v": (starts, np.ones(1))})
    rank_batch(ranking, np.array([0, 2]), np.arange(2), np.zeros(1, np.int64), np.ones(1, np.int64), features)
    relevant_events(ranking.table, features, 1)
    arrays = {name: np.zeros((4, abs(wide)) if wide else 4, kind) for name, (kind, wide) in EVENT_ARRAYS.items()}
    rows = np.zeros((4, 1), np.int64)
    rank_event(KernelArguments.of(EVENT_ARRAYS, arrays).addresses, np.zeros(0, np.int64), 0, 0, 0, rows)
