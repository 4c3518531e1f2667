"""What `rankcast bench hub` measures, as a program that runs under any version of rankcast.

    python -P hub_measuring.py CASE SCALE FOLDER

It makes CASE ready at SCALE (1 is the full size), writes a line, and then for each line it reads measures once and
writes the value. So two versions can be measured in turn, each made ready once. FOLDER has the files that
`rankcast match` is run on.

It uses what rankcast offers to everybody, and tries for what older versions lack; it imports nothing of `rankcast_lab`.
Times are CPU time, in seconds.
"""

from __future__ import annotations

import gc
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from time import process_time, sleep
from typing import Any

import rankcast as rc
from rankcast.model.subscriptions import SubscriptionId

Once = Callable[[], float]

MATCHES = 150
"""About how many subscribers of `publish` an event is for."""

NUMPY = "import numpy"
START = """
import rankcast as rc
hub = rc.Hub()
hub.subscribe("ana", "city = 'Porto' and rent < 900")
assert len(hub.publish({"city": "Porto", "rent": 700})) == 1
"""


def main() -> None:
    """Measure as often as asked."""
    case, scale, folder = sys.argv[1:]
    once = CASES[case](float(scale), Path(folder))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        sys.stdout.write(f"{once()}\n")
        sys.stdout.flush()


def sized(full: int, scale: float, least: int = 100) -> int:
    """Return a full size at a scale."""
    return max(round(full * scale), min(least, full))


def per_call(call: Callable[[Any], object], values: Iterator[Any], count: int) -> Once:
    """Measure calls with ever new values, so many at a time, after as many that are not measured."""

    def once() -> float:
        taken = list(islice(values, count))
        begun = process_time()
        for one in taken:
            call(one)
        return (process_time() - begun) / count

    once()
    settle()
    once()
    return once


def settle() -> None:
    """Wait until this process has nothing left to do in the background, such as loading kernels and merging."""
    while True:
        begun = process_time()
        sleep(0.3)
        if process_time() - begun < 0.01:
            return


def subscribe_all(hub: rc.Hub, wanted: Mapping[str, Any], deliver: Any) -> None:
    """Subscribe many, by one call where there is one."""
    many = getattr(hub, "subscribe_many", None)
    if many is not None:
        many(wanted, deliver=deliver)
        return
    for name, subscriptions in wanted.items():
        hub.subscribe(name, subscriptions, deliver=deliver)


def publish(full: int) -> Callable[[float, Path], Once]:
    """`Hub.publish` with so many subscribers, of which an event matches some 150."""

    def ready(scale: float, _: Path) -> Once:
        hub, events = hub_of_topics(sized(full, scale), rc.Sliding(5, 100))
        return per_call(hub.publish, events, 200)

    return ready


def hub_of_topics(count: int, deliver: Any) -> tuple[rc.Hub, Iterator[dict[str, Any]]]:
    """Return a hub with so many subscribers, and events of which each matches some 150 of them, or all."""
    hub, draw, topics = rc.Hub(), random.Random(1), max(1, round(count * 0.3 / MATCHES))
    subscribe_all(hub, {f"s{at}": topic_and_price(draw, topics) for at in range(count)}, deliver)
    events = ({**event_of(draw, topics), "size": draw.random(), "seller": f"n{at % 100}"} for at in range(10**9))
    return hub, events


def against_plain(policy: Callable[[], Any], plain: Callable[[], Any]) -> Callable[[float, Path], Once]:
    """`Hub.publish` as in `publish`, with a policy in times of another one, event by event in turn."""

    def ready(scale: float, _: Path) -> Once:
        count = sized(10_000, scale)
        return in_turn(hub_of_topics(count, policy()), hub_of_topics(count, plain()), 200)

    return ready


def in_turn(
    measured: tuple[rc.Hub, Iterator[dict[str, Any]]], plain: tuple[rc.Hub, Iterator[dict[str, Any]]], count: int
) -> Once:
    """Measure publications to one hub in times of those to another, the two in turn."""

    def once() -> float:
        spent = [0.0, 0.0]
        for _ in range(10):
            for at, (hub, events) in enumerate((measured, plain)):
                taken = list(islice(events, count // 10))
                begun = process_time()
                for event in taken:
                    hub.publish(event)
                spent[at] += process_time() - begun
        return spent[0] / spent[1]

    once()
    settle()
    for _ in range(3):
        once()
    return once


BERLIN = "Europe/Berlin"


def one_cap() -> Any:
    """Return a policy with a cap that follows a calendar."""
    return rc.Sliding(5, 100, at_most=(rc.Cap(5, rc.Every("day", at="08:00", zone=BERLIN)),))


def two_caps() -> Any:
    """Return a policy with two caps, one of which counts by seller."""
    return rc.Sliding(5, 100, at_most=(rc.Cap(5, rc.Every("day")), rc.Cap(1, rc.Every("week"), per="seller")))


def best_ten(scale: float, _: Path) -> Once:
    """Publish to the 10 best of 10,000 subscribers who all match, in times of publishing to 100 who all match."""

    def everybody(count: int) -> tuple[rc.Hub, Iterator[dict[str, Any]]]:
        hub, draw = rc.Hub(), random.Random(1)
        wanted = {f"s{at}": {f"price >= {draw.randrange(50)}": draw.random()} for at in range(count)}
        subscribe_all(hub, wanted, rc.Sliding(5, 100))
        return hub, ({"price": draw.uniform(60, 100)} for _ in range(10**9))

    chosen, plain = everybody(sized(10_000, scale)), everybody(100)
    chosen[0].advertise("best", k=10, ranking="preference")
    return in_turn(chosen, plain, 200)


def topic_and_price(draw: random.Random, topics: int) -> str:
    """Return a filter that accepts three tenths of the events of a topic."""
    low = draw.randrange(0, 700)
    return f"topic = 't{draw.randrange(topics)}' and price between {low} and {low + 300}"


def event_of(draw: random.Random, topics: int) -> dict[str, Any]:
    """Return an event of a topic."""
    return {"topic": f"t{draw.randrange(topics)}", "price": draw.uniform(0, 1000)}


def hub_of_users(scale: float) -> tuple[rc.Hub, int]:
    """Return a hub in which every event has one match, and how many users there are."""
    hub, count = rc.Hub(), sized(1_000, scale)
    subscribe_all(hub, {f"s{at}": f"user = 'u{at}'" for at in range(count)}, rc.Sliding(5, 100))
    return hub, count


def fixed(scale: float, _: Path) -> Once:
    """Publish a dict of ten attributes that one subscriber matches."""
    (hub, count), draw = hub_of_users(scale), random.Random(1)
    others = {f"text{at}": "some words" for at in range(3)} | {f"number{at}": at for at in range(3)}
    more = others | {"flag": True, "share": 0.5}
    events = ({"user": f"u{draw.randrange(count)}", "price": draw.random(), **more} for _ in range(10**9))
    return per_call(hub.publish, events, 5_000)


def one_match(scale: float, _: Path) -> Once:
    """Publish an event that is made already and that one subscriber matches."""
    (hub, count), draw = hub_of_users(scale), random.Random(1)
    events = (rc.Event.of({"user": f"u{draw.randrange(count)}"}, id=str(at), source="/bench") for at in range(10**9))
    return per_call(hub.publish, events, 5_000)


def match_one(scale: float, _: Path) -> Once:
    """Match a dict of 30 strings with the index, one per call."""
    from rankcast.matching.index import Entry, Index  # noqa: PLC0415 (other cases do not need it)

    draw = random.Random(1)
    texts = [
        " and ".join(f"a{at:02} = 'w{draw.randrange(50)}'" for at in draw.sample(range(30), 2))
        for _ in range(sized(10_000, scale))
    ]
    index = Index([Entry.of(number, rc.parse_filter(text)) for number, text in enumerate(texts)])
    reader: Any = getattr(index, "reader", lambda: index)()
    events = ({f"a{at:02}": f"w{draw.randrange(50)}" for at in range(30)} for _ in range(10**9))
    return per_call(reader.match_one, events, 10_000)


def wanting(text: str, **ideal: float) -> rc.Subscription:
    """Return a subscription to what a filter accepts, the nearer to an ideal point the better."""
    near = rc.IdealPoint(tuple(rc.Target(name, at) for name, at in ideal.items()))
    return rc.Subscription(SubscriptionId("1"), rc.parse_filter(text), relevance=near)


def ideal_points(scale: float, _: Path) -> Once:
    """Publish to four ideal points without a filter, each with the best of a window of 20,000 events, filled before."""
    hub, window, draw = rc.Hub(), sized(20_000, scale), random.Random(1)
    for at in range(4):
        hub.subscribe(f"s{at}", [wanting("true", x=draw.random(), y=draw.random())], deliver=rc.TopKWindow(10, window))
    events = ({"x": draw.random(), "y": draw.random()} for _ in range(10**9))
    for event in islice(events, window):
        hub.publish(event)
    return per_call(hub.publish, events, 5_000)


def subscribing(full: int, subscribe: Callable[[rc.Hub, Mapping[str, str]], None]) -> Callable[[float, Path], Once]:
    """Subscribe so many text filters to a new hub; the time is that of one."""

    def ready(scale: float, _: Path) -> Once:
        count, draw = sized(full, scale), random.Random(1)
        wanted = {f"s{at}": topic_and_price(draw, 200) for at in range(count)}

        def once() -> float:
            hub = rc.Hub()
            begun = process_time()
            subscribe(hub, wanted)
            return (process_time() - begun) / count

        subscribe(rc.Hub(), dict(islice(wanted.items(), 100)))
        return once

    return ready


def subscribe_each(hub: rc.Hub, wanted: Mapping[str, str]) -> None:
    """Subscribe one by one."""
    for name, text in wanted.items():
        hub.subscribe(name, text, deliver=rc.Sliding(5, 100))


def match_files(_: float, folder: Path) -> Once:
    """Run `rankcast match` on files, in a new process."""
    command = [Path(sys.executable).parent / "rankcast", "match", folder / "events.jsonl"]
    once = child_seconds([*map(str, command), "--subscribers", str(folder / "people.yaml"), "--json"])
    once()
    return once


def child_seconds(command: list[str], **environment: str) -> Once:
    """Measure a command as a process of its own."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return once


def start_warm(_: float, __: Path) -> Once:
    """Start a process that serves its first event, in times of one that imports numpy."""
    first, numpy = child_seconds([sys.executable, "-c", START]), child_seconds([sys.executable, "-c", NUMPY])
    first()
    return lambda: first() / numpy()


def start_cold(_: float, __: Path) -> Once:
    """Do so as after an installation: a copy of the package, of which no kernel has been compiled anywhere."""
    numpy = child_seconds([sys.executable, "-c", NUMPY])

    def once() -> float:
        with tempfile.TemporaryDirectory(prefix="rankcast-bench-") as name:
            copy = Path(name) / "rankcast"
            shutil.copytree(Path(rc.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
            subprocess.run([sys.executable, "-m", "compileall", "-q", copy], check=True)  # as an installer does
            first = child_seconds([sys.executable, "-c", START], PYTHONPATH=name, NUMBA_CACHE_DIR=f"{name}/kernels")
            return first() / numpy()

    return once


def memory(policy: Callable[[int, int], Any]) -> Callable[[float, Path], Once]:
    """Return the bytes per queue of windows of 20,000 events that all match, beyond those of empty queues."""

    def ready(scale: float, _: Path) -> Once:
        count, window, draw = sized(100_000, scale), 20_000, random.Random(1)

        def once() -> float:
            hub = rc.Hub()
            for at in range(count):
                hub.subscribe(f"s{at}", [wanting("x >= 0", x=draw.random())], deliver=policy(10, window))
            hub.publish({"x": -1.0})
            settle()  # kernels take memory too, and would be loaded later on
            hub.publish({"x": -1.0})
            empty = resident()
            for _ in range(window):
                hub.publish({"x": draw.random()})
            return (resident() - empty) / count

        return once

    return ready


def shard_memory(policy: Callable[[int, int], Any]) -> Callable[[float, Path], Once]:
    """Return the bytes per queue of a shard of Spark's state, in memory, filled in the same way."""

    def ready(scale: float, _: Path) -> Once:
        import numpy as np  # noqa: PLC0415 (other cases do not need these)

        from rankcast.delivery.stream.batches import MatchBatch  # noqa: PLC0415
        from rankcast.delivery.stream.event_tables import EventTable, Ragged  # noqa: PLC0415
        from rankcast.delivery.stream.shards import Shard  # noqa: PLC0415
        from rankcast.model.times import NEVER  # noqa: PLC0415

        count, window, chunk = sized(100_000, scale), 20_000, 20
        rows, draw = chunk * count, np.random.default_rng(1)
        queue, event = np.tile(np.arange(count, dtype=np.int32), chunk), np.repeat(np.arange(chunk), count)
        never, matched = np.full(rows, NEVER), np.zeros(rows, np.int32)

        def take(shard: Any, first: int) -> None:
            names = Ragged.of_texts([str(at) for at in range(first, first + chunk)])
            events = EventTable.of(np.arange(first, first + chunk), Ragged.of_texts(["/bench"] * chunk), names)
            shard.take(MatchBatch(events, queue, event, draw.random(rows), never, matched))
            shard.advance(first + chunk)

        def once() -> float:
            take(Shard.of([policy(10, window)] * count), 0)  # which loads kernels
            shard = Shard.of([policy(10, window)] * count)
            empty = resident()
            for first in range(0, window, chunk):
                take(shard, first)
            return (resident() - empty) / count

        return once

    return ready


def resident() -> int:
    """Return how many bytes of memory this process has."""
    gc.collect()
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


CASES: Mapping[str, Callable[[float, Path], Once]] = {
    "publish-10k": publish(10_000),
    "publish-100k": publish(100_000),
    "publish-cap": against_plain(one_cap, lambda: rc.Sliding(5, 100)),
    "publish-caps": against_plain(two_caps, lambda: rc.Sliding(5, 100)),
    "publish-calendar": against_plain(
        lambda: rc.Periodic(5, rc.Every("hour")), lambda: rc.Periodic(5, timedelta(hours=1))
    ),
    "best-ten": best_ten,
    "fixed": fixed,
    "one-match": one_match,
    "match-one": match_one,
    "ideal-points": ideal_points,
    "subscribe-many": subscribing(100_000, lambda hub, wanted: subscribe_all(hub, wanted, rc.Sliding(5, 100))),
    "subscribe": subscribing(20_000, subscribe_each),
    "match": match_files,
    "start-cold": start_cold,
    "start-warm": start_warm,
    "memory-topkw": memory(rc.TopKWindow),
    "memory-sliding": memory(rc.Sliding),
    "memory-shard-topkw": shard_memory(rc.TopKWindow),
    "memory-shard-sliding": shard_memory(rc.Sliding),
}


if __name__ == "__main__":
    main()
