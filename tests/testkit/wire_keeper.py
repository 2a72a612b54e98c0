"""A keeper and an operator as small clients of the protocol, for what the real ones do not do on demand.

They speak through `sandhold.mover.wire`, as the mover does; that the real keeper speaks the same is asserted by the
tests that drive its binary.
"""

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sandhold.mover import wire
from sandhold.mover.wire import Kind, Message

_SECONDS = 30.0


class Peer:
    """One connection to a mover."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, message: Message) -> None:
        await wire.write_json(self.writer, message)

    async def hear(self) -> Message:
        """The next message that is no sign of life."""
        while True:
            message = (await self.frame()).message()
            if message["type"] not in {"ping", "wait"}:
                return message

    async def frame(self) -> wire.Frame:
        async with asyncio.timeout(_SECONDS):
            return await wire.read_frame(self.reader)

    async def send_part(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            for start in range(0, len(piece), wire.LIMIT_DATA):
                await wire.write_data(self.writer, piece[start : start + wire.LIMIT_DATA])
        await wire.write_end(self.writer)

    async def send_archive(self, layer: bytes, records: Sequence[dict[str, Any]], **fields: Any) -> None:
        """A whole archive, up to the keeper's last message."""
        await self.send_part([layer])
        await self.send_part([lines(records)])
        await self.say(done(layer, records, **fields))

    async def hear_part(self) -> bytes:
        content = bytearray()
        while (frame := await self.frame()).kind is not Kind.END:
            if frame.kind is Kind.JSON:
                raise PartEndedError(frame.message())
            content += frame.payload
        return bytes(content)

    async def is_hung_up_on(self) -> bool:
        """Whether the mover ends this connection, without another frame, soon."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self.reader.read(1) == b""
        except OSError:
            return True

    async def ask(self, verb: str, **arguments: Any) -> Message:
        """An operator's request; pushes that come before the answer are dropped."""
        await self.say({"type": "request", "id": 7, "verb": verb, **arguments})
        while (message := await self.hear())["type"] != "response":
            pass
        return message


class PartEndedError(Exception):
    """A message came instead of the rest of a part."""

    @property
    def message(self) -> Message:
        message: Message = self.args[0]
        return message


@asynccontextmanager
async def dialled(port: int, tls: ssl.SSLContext) -> AsyncIterator[Peer]:
    """A connection on which nothing was said yet."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname="sandhold-mover", limit=1 << 20
    )
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


def hello(purpose: str, token: str, grant: str = "") -> Message:
    """The first frame."""
    message: Message = {"type": "hello", "version": 1, "purpose": purpose, "token": token}
    return {**message, "grant": grant} if grant else message


def file_record(path: str, content: bytes, **fields: Any) -> dict[str, Any]:
    """The record of a small file."""
    digest = hashlib.sha256(content).hexdigest()
    return {
        "path": path,
        "type": "file",
        "mode": 0o644,
        "size": len(content),
        "mtimeNs": "1700000000123456789",
        "sha256": digest,
        **fields,
    }


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    """Records as they travel."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def done(layer: bytes, records: Sequence[dict[str, Any]], **fields: Any) -> Message:
    """The last message of an archive."""
    sizes = [record["size"] for record in records if record["type"] == "file"]
    return {
        "type": "done",
        "layerSha256": hashlib.sha256(layer).hexdigest(),
        "layerBytes": len(layer),
        "rawBytes": len(layer),
        "files": len(records),
        "bytes": sum(sizes),
        "skipped": 0,
        **fields,
    }


ONE_FILE = (file_record("f", b"x"),)
"""The records of a small archive, for who does not look at them."""
