"""The road from keepers to a mover: a TCP proxy that counts what travels on each connection and can hold it up.

It stands where the movers' Service stands in a cluster: keepers dial it, and tests say which mover is behind it now.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["up", "down"]
"""From the keeper to the mover, or back."""
_PIECE = 64 * 1024
_RECORDED = 1024 * 1024


@dataclass(eq=False)
class Stop:
    """A place on the road: beyond so many bytes of one connection nothing passes until it is lifted."""

    direction: Direction
    after: int
    _reached: asyncio.Event = field(default_factory=asyncio.Event)
    _lifted: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self, seconds: float = 60) -> None:
        """Wait until some connection is held up here."""
        async with asyncio.timeout(seconds):
            await self._reached.wait()

    def lift(self) -> None:
        """Let everything pass from now on."""
        self._lifted.set()

    async def pass_by(self, passed: int) -> None:
        """A connection on which so many bytes have passed wants to go on."""
        if passed >= self.after and not self._lifted.is_set():
            self._reached.set()
            await self._lifted.wait()

    def room(self, passed: int) -> int:
        """How many bytes may pass before it has to be asked again."""
        return _PIECE if self._lifted.is_set() else max(1, self.after - passed)


class MoverRoad:
    """The road."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.sent_up: list[bytearray] = []
        """What each connection has sent towards the mover, at most the first MiB: bytes as they are on the wire."""
        self._stops: list[Stop] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def stop_after(self, direction: Direction, count: int) -> Stop:
        """Hold every connection up that passes more than so many bytes, those that are open included."""
        stop = Stop(direction, count)
        self._stops.append(stop)
        return stop

    def lead_to(self, target: int) -> None:
        """Lead to another mover from now on: what is under way to the one before is lost, and nothing is held up."""
        self._target = target
        self.cut()
        for stop in self._stops:
            stop.lift()

    def cut(self) -> None:
        """End every connection, with all that is in it."""
        for task in tuple(self._tasks):
            task.cancel()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["MoverRoad"]:
        """Open for as long as the context lasts."""
        server = await asyncio.start_server(self._arrive, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            return  # the mover is down, or the test is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond, back = await asyncio.open_connection("127.0.0.1", self._target)
        pumps = {
            asyncio.create_task(self._pump(reader, back, "up")),
            asyncio.create_task(self._pump(beyond, writer, "down")),
        }
        try:
            # The end of either direction is the end of both: nothing of ours closes only one.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            back.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        passed, seen = 0, bytearray()
        if direction == "up":
            self.sent_up.append(seen)
        while True:
            stops = [stop for stop in self._stops if stop.direction == direction]
            piece = await reader.read(min([_PIECE, *(stop.room(passed) for stop in stops)]))
            if not piece:
                return
            for stop in self._stops:
                if stop.direction == direction:
                    await stop.pass_by(passed)
            seen += piece[: max(0, _RECORDED - passed)]
            passed += len(piece)
            writer.write(piece)
            await writer.drain()
