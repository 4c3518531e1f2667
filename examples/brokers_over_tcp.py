"""Brokers as processes that speak TCP: a subscriber at one, a publisher at the other, and one of them is killed.

Run it with the Python of the environment: `.venv/bin/python examples/brokers_over_tcp.py`.

A connection begins with a line that names its link; every other line is a message, or what a broker says to a client.
Nothing here proves who calls, nothing is encrypted, and what is delivered to a client that is away is lost.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import numpy as np

from rankcast import Event, Subscriber, Subscription, parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.cloudevents import event_to_json
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver, Effect, Listed, Rejected, Send
from rankcast.overlay.messages import (
    MAX_PACKET_BYTES,
    Advertise,
    ClientMessage,
    Publish,
    Renew,
    Subscribe,
    encoded,
)

HOST = "127.0.0.1"
LEASE = timedelta(seconds=30)
SETTINGS = Settings(heartbeat=timedelta(seconds=0.5), link_lease=timedelta(seconds=3), lease=LEASE)
PAUSE = 0.2  # seconds until somebody who has lost a connection calls again
MAX_BEHIND = 4 * MAX_PACKET_BYTES  # bytes that wait for one who reads too slowly; beyond, the connection ends
LOST = (OSError, ValueError)  # ValueError: a line that is too long, or a name that is no text
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

Kill = Callable[[], Awaitable[None]]


def now() -> datetime:
    """Return the time of this process."""
    return datetime.now(UTC)  # noqa: TID251 (who runs a broker has the clock)


async def call(name: str, port: int, talk: Talk) -> None:
    """Talk over a connection under a name; when it is lost, or nobody is there, call again, for ever."""
    while True:
        with suppress(*LOST):
            reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_PACKET_BYTES)
            writer.write(name.encode() + b"\n")
            try:
                await talk(reader, writer)
            finally:
                writer.close()
        await asyncio.sleep(PAUSE)


class Server:
    """Runs one broker: its connections, its clock, and what it wants done."""

    def __init__(self, broker: Broker, neighbours: dict[str, int | None]) -> None:
        self.broker = broker
        self.neighbours = neighbours  # and the port at which each is called; those without one call us
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self.timer: asyncio.TimerHandle | None = None

    async def run(self, listening: socket.socket) -> None:
        """Serve until the standard input ends: with the process that started this one, if not before."""
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
        serving: list[object] = [await asyncio.start_server(self.accept, sock=listening, limit=MAX_PACKET_BYTES)]
        for link, port in self.neighbours.items():
            if port is not None:
                serving.append(asyncio.create_task(call(self.broker.name, port, partial(self.talk, link))))
        await ended.wait()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let somebody in under the name in the first line."""
        with suppress(*LOST):
            link = (await reader.readline()).decode().strip()
            await self.talk(link, reader, writer)
        writer.close()

    async def talk(self, link: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand in what comes over a link until it ends; a newer connection takes the place of an older one."""
        if link in self.writers:
            self.writers[link].transport.abort()
        self.writers[link] = writer
        if link in self.neighbours:  # now, for its first message would be taken for a client's
            self.do(self.broker.connect(link, now()))
        try:
            while line := await reader.readline():
                self.do(self.broker.receive(line, link, now()))
        finally:
            if self.writers.get(link) is writer:
                del self.writers[link]
                if link in self.neighbours:
                    self.do(self.broker.disconnect(link, now()))

    def do(self, effects: Iterable[Effect]) -> None:
        """Do what the broker wants done, and wake it when it has something to do by itself."""
        for effect in effects:
            match effect:
                case Send(link, message):
                    self.write(link, encoded(message))
                case Deliver(link):
                    self.write(link, as_json(effect))
                case Listed(link, _, entries):
                    self.write(link, b"[" + b",".join(map(as_json, entries)) + b"]")
                case Rejected(link, reason, detail) if link not in self.neighbours:
                    self.write(link, json.dumps({"rejected": reason.value, "detail": detail}).encode())
        if self.timer is not None:
            self.timer.cancel()
        if (due := self.broker.next_instant) is not None:
            wait = max(0.0, (due - now()).total_seconds())
            self.timer = asyncio.get_running_loop().call_later(wait, lambda: self.do(self.broker.tick(now())))

    def write(self, link: str, line: bytes) -> None:
        """Write a line to whoever is there under a name."""
        writer = self.writers.get(link)
        if writer is not None:
            writer.write(line + b"\n")
            if writer.transport.get_write_buffer_size() > MAX_BEHIND:
                writer.transport.abort()


def as_json(one: Deliver) -> bytes:
    """Return a delivery as this program writes it: rankcast has no message for it."""
    return json.dumps({"subscriber": one.subscriber, "rank": one.rank, "event": event_to_json(one.event)}).encode()


class Client:
    """Speaks to one broker under one name; whenever it comes, it says `first` what it wants to have there."""

    def __init__(self, name: str, port: int, first: ClientMessage) -> None:
        self.first = first
        self.heard: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self.writer: asyncio.StreamWriter | None = None
        self.tasks = [asyncio.create_task(call(name, port, self.talk)), asyncio.create_task(self.renew())]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak and hear until the connection ends."""
        self.writer = writer
        self.say(self.first)
        while line := await reader.readline():
            self.heard.put_nowait(json.loads(line))

    async def renew(self) -> None:
        """Say that it is still there, well before its lease ends."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            self.say(Renew())

    def say(self, message: ClientMessage) -> None:
        """Say something; if the connection is lost, nobody hears it."""
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(encoded(message) + b"\n")


async def start(name: str, incarnation: int, listening: socket.socket, **neighbours: int | None) -> Kill:
    """Start the process of a broker; return what kills it."""
    about = json.dumps([name, incarnation, listening.fileno(), neighbours])
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, about, stdin=asyncio.subprocess.PIPE, pass_fds=[listening.fileno()]
    )

    async def kill() -> None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    return kill


async def publish_until_heard(agency: Client, ana: Client, numbers: Iterator[int]) -> None:
    """Publish one flat after the other until Ana hears of one of these: routes need a moment to be there."""
    new: set[object] = set()
    while True:
        flat = Event(f"{next(numbers)}", "/flats", data={"city": "Porto", "rent": 700})
        new.add(flat.id)
        agency.say(Publish("flats", flat))
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE):
                match await ana.heard.get():
                    case {"event": {"id": number, "data": data}, "rank": rank} if number in new:
                        print(f"Ana got {data}, rank {rank}")
                        return
                    case {"rejected": reason, "detail": detail}:
                        raise RuntimeError(f"{reason}: {detail}")


async def main() -> None:
    """Show two brokers, of which one is killed and comes back with nothing."""
    async with AsyncExitStack() as at_the_end, asyncio.timeout(60):
        # The sockets stay open here: a broker that starts again is called at the same port.
        porto, lisbon = (at_the_end.enter_context(socket.create_server((HOST, 0))) for _ in range(2))
        porto_port, lisbon_port = (one.getsockname()[1] for one in (porto, lisbon))
        at_the_end.push_async_callback(await start("porto", 1, porto, lisbon=None))
        kill_lisbon = await start("lisbon", 1, lisbon, porto=porto_port)
        at_the_end.push_async_callback(kill_lisbon)

        wanted = Subscription("cheap", parse_filter("city = 'Porto' and rent < 900"), rank=0.9)
        ana = Client("ana's phone", lisbon_port, Subscribe(Subscriber("ana", (wanted,))))
        agency = Client("agency", porto_port, Advertise(Advertisement("flats", "/flats", parse_filter("rent > 0"))))
        numbers = count(1)
        await publish_until_heard(agency, ana, numbers)

        await kill_lisbon()
        print("Ana's broker was killed; it starts again with nothing, as incarnation 2")
        at_the_end.push_async_callback(await start("lisbon", 2, lisbon, porto=porto_port))
        await publish_until_heard(agency, ana, numbers)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        name, incarnation, listening, neighbours = json.loads(sys.argv[1])
        broker = Broker(name, SETTINGS, np.random.default_rng(), incarnation=incarnation)
        with suppress(KeyboardInterrupt):
            asyncio.run(Server(broker, neighbours).run(socket.socket(fileno=listening)))
    else:
        asyncio.run(main())
