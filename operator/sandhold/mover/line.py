"""One connection of the protocol: frames in and out with deadlines, and the state that its life-signs need."""

import asyncio
import time
from typing import Any

from sandhold.mover import wire
from sandhold.mover.wire import Frame, Message

# What an idle connection may hold in user space, each way.
BUFFER = 32 * 1024
_PING = wire.encode_message({"type": "ping"})


class Line:
    """A connection. Several tasks may send; one reads."""

    __slots__ = ("_reader", "_writer", "last_sent")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.last_sent = time.monotonic()

    async def receive(self, seconds: float = wire.HANG_UP_AFTER_SECONDS, limit: int | None = None) -> Frame:
        """The next frame; a peer that is silent for so long counts as gone."""
        try:
            async with asyncio.timeout(seconds):
                return await wire.read_frame(self._reader, limit)
        except TimeoutError as error:
            raise wire.PeerGoneError(f"the peer said nothing for {seconds:g} s") from error

    async def say(self, message: Message, seconds: float = wire.HANG_UP_AFTER_SECONDS) -> None:
        """Send a message; a peer that takes nothing for so long counts as gone."""
        await self._within(seconds, wire.write_json(self._writer, message))

    async def send(self, chunk: bytes, seconds: float = wire.HANG_UP_AFTER_SECONDS) -> None:
        """Send bytes of a part, in as many frames as they need."""
        view = memoryview(chunk)
        for start in range(0, len(chunk), wire.LIMIT_DATA):
            piece = bytes(view[start : start + wire.LIMIT_DATA])
            await self._within(seconds, wire.write_data(self._writer, piece))

    async def end_part(self, seconds: float = wire.HANG_UP_AFTER_SECONDS) -> None:
        """Say that the part is whole."""
        await self._within(seconds, wire.write_end(self._writer))

    async def linger(self, seconds: float) -> None:
        """Read and drop what the peer still sends, so that no reset overtakes our last word. Bounded."""
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(wire.LIMIT_DATA):
                    pass
        except (TimeoutError, OSError):
            return

    def ping(self) -> None:
        """Give a sign of life without waiting; a peer that has long taken nothing is let go."""
        transport = self._writer.transport
        if transport.get_write_buffer_size() > wire.LIMIT_DATA:
            transport.abort()
        elif not transport.is_closing():
            self._writer.write(_PING)
            self.last_sent = time.monotonic()

    def peer(self) -> Any:
        """The TLS object, for the peer's certificate."""
        return self._writer.get_extra_info("ssl_object")

    def close(self) -> None:
        """Hang up politely."""
        self._writer.close()

    def abort(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()

    async def _within(self, seconds: float, sending: Any) -> None:
        try:
            async with asyncio.timeout(seconds):
                await sending
        except TimeoutError as error:
            raise wire.PeerGoneError(f"the peer took nothing for {seconds:g} s") from error
        self.last_sent = time.monotonic()
