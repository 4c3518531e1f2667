"""After a warm-up nothing is compiled, or even loaded, by what engines usually do."""

import subprocess
import sys

import pytest

AFTER_WARMING_UP = """
from rankcast.compiling import dispatchers, readiness
for package in {packages}:
    readiness.warm_up(package)
known = set(dispatchers.callable_now)
{work}
new = set(dispatchers.callable_now) - known
assert not new, new
"""

HUB = """
from datetime import timedelta
import rankcast as rc
hub = rc.Hub()
diverse = rc.Diversity(0.5, {"city": 1.0})
policies = [
    rc.AllMatches(), rc.Continuous(2), rc.Periodic(2, timedelta(seconds=1), diverse), rc.Sliding(2, 5),
    rc.Sliding(2, 40, diverse), rc.TopKWindow(2, timedelta(minutes=1)), rc.TopKWindow(2, 40, rc.Diversity()),
]
for number, policy in enumerate(policies):
    wanted = {"rent < 900 and city = 'Porto'": 0.5, "name like 'a%'": 0.1, "rent >= 100": 1.0}
    hub.subscribe(f"s{number}", wanted, deliver=policy)
for number in range(40):
    near = rc.Subscription("1", rc.Filter.of(rc.all_of()), relevance=rc.Closeness((rc.Target("rent", number),)))
    hub.subscribe(f"d{number}", [near], deliver=rc.TopKWindow(2, 10) if number % 2 else rc.Sliding(2, 10))
for number in range(60):
    hub.publish({"rent": number * 20, "city": "Porto" if number % 2 else "Faro", "name": "anna", "rooms": 1.5})
hub.unsubscribe("s1")
hub.publish({"rent": 300, "city": "Porto"})
"""

COVERING = """
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.group.cover import ActiveSet
from rankcast.language.parser import parse_filter
covers, active = CoverSet(Cover.ANCESTOR, 2), ActiveSet()
for number in range(30):
    wanted = parse_filter(f"x >= {number} and y < {3 * number} or name = 'a'")
    covers.add(number, wanted)
    active.add(number, wanted)
"""

SPARK = """
import numpy as np
import pyarrow as pa
from rankcast.spark.sources.event_reader import EventReader, Leaf
from rankcast.spark.sources.events import DEFAULT_SOURCE, EventColumns
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.shards import Shard
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.policies import Sliding, TopKWindow
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import UnfilteredRanks, chunks_of
from rankcast.spark.matching.stage import matched_pieces
from rankcast.spark.delivery.unpacked_rows import notification_rows
name, *_ = ATTRIBUTES = ("a", "b")
people = [
    Subscriber(str(at), (Subscription("1", parse_filter(f"{name} > {at}")),), deliver=TopKWindow(2, 3 + at))
    for at in range(9)
]
reader = EventReader(
    names=("id", "source", "time", *ATTRIBUTES),
    leaves=tuple(Leaf(one, (one,), is_vector=False) for one in ATTRIBUTES),
    places=tuple(EventColumns().places.items()),
    payload=None,
    document=None,
    default_source=DEFAULT_SOURCE,
    schema=None,
    carried=None,
    advertisements=(Advertisement("s", "s", k=2),),
)
audience, rows = CompiledSubscribers.of(people), 40
batch = pa.RecordBatch.from_pydict({
    "id": [str(at) for at in range(rows)],
    "source": ["s"] * rows,
    "time": pa.array(range(rows), pa.timestamp("us", "UTC")),
    **{one: pa.array(np.arange(rows, dtype=float)) for one in ATTRIBUTES},
})
shard = Shard.of(audience.queues.policies_of(0, 1))
for piece in matched_pieces(iter([batch]), reader, audience, apart=True):
    apart = UnfilteredRanks(piece.features, piece.events.expires)
    table = piece.events.table(audience.queues.wanted_content)
    for packed in chunks_of(table, piece.rows, audience, 0, 1, 0, apart=apart):
        shard.take(MatchBatch.from_bytes(packed.chunk.to_bytes()))
shard = Shard.from_bytes(shard.to_bytes())
assert len(notification_rows(shard.finish(), 0, 1, audience))
"""


@pytest.mark.parametrize(
    ("packages", "work"),
    [
        (("matching", "ranking", "delivery"), HUB),
        (("covering",), COVERING),
        (("ranking", "delivery", "spark"), SPARK),
    ],
    ids=["hub", "covering", "spark"],
)
def test_nothing_is_left_to_compile(packages, work):
    code = AFTER_WARMING_UP.format(packages=packages, work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
