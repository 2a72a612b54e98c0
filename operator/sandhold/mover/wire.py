"""Frames of the in-pod protocol (PROTOCOL.md section 3): what goes over every connection of keeper, mover and operator.

Both sides of the operator's connection use this module, so it knows nothing of stores, tokens or settings. It sets no
deadlines: how long a silence is bearable differs from connection to connection and is the caller's to say.
"""

import asyncio
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from sandhold.errors import SandholdError, UnavailableError

LIMIT_JSON = 64 * 1024
LIMIT_DATA = 256 * 1024
LIMIT_HELLO = 8 * 1024
"""What a peer that has not proved itself may say."""

PING_AFTER_SECONDS = 20.0
HANG_UP_AFTER_SECONDS = 60.0
PROTOCOL_VERSION = 1

_HEAD = 5

Message = dict[str, Any]


class Kind(StrEnum):
    """What a frame carries."""

    JSON = "J"
    DATA = "D"
    END = "E"


_LIMITS = {ord("J"): (Kind.JSON, LIMIT_JSON), ord("D"): (Kind.DATA, LIMIT_DATA), ord("E"): (Kind.END, 0)}


class FrameError(SandholdError):
    """The peer broke the protocol: there is no way to go on with this connection."""


class PeerGoneError(UnavailableError):
    """The peer hung up, between two frames or within one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came."""

    kind: Kind
    payload: bytes

    def message(self) -> Message:
        """The JSON object that this frame carries; any other frame is a breach."""
        if self.kind is not Kind.JSON:
            raise FrameError(f"a frame of kind {self.kind} came where a JSON message was due")
        return parse_message(self.payload)


def parse_message(payload: bytes) -> Message:
    """A JSON object, or FrameError; hostile nesting, constants that JSON lacks and other texts are refused."""
    try:
        message = json.loads(payload.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError("a JSON frame does not hold valid JSON in UTF-8") from error
    if not isinstance(message, dict):
        raise FrameError("a JSON frame must hold an object")
    return message


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def encode(kind: Kind, payload: bytes = b"") -> bytes:
    """A whole frame as bytes."""
    limit = _LIMITS[ord(kind)][1]
    if len(payload) > limit:
        raise FrameError(f"a frame of kind {kind} would hold {len(payload)} bytes; at most {limit} are allowed")
    return len(payload).to_bytes(4, "big") + kind.encode() + payload


def encode_message(message: Message) -> bytes:
    """A message as a whole frame."""
    try:
        payload = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise FrameError("a message cannot be written as JSON in UTF-8") from error
    return encode(Kind.JSON, payload)


async def read_frame(reader: asyncio.StreamReader, limit: int | None = None) -> Frame:
    """The next frame. `limit` lowers what a JSON frame may hold; the length is judged before anything is read."""
    try:
        head = await reader.readexactly(_HEAD)
        length = int.from_bytes(head[:4], "big")
        known = _LIMITS.get(head[4])
        if known is None:
            raise FrameError(f"a frame of unknown kind {head[4]:#04x}")
        kind, allowed = known
        if limit is not None:
            allowed = min(allowed, limit)
        if length > allowed:
            raise FrameError(f"a frame of kind {kind} announces {length} bytes; at most {allowed} are allowed")
        payload = await reader.readexactly(length) if length else b""
    except (asyncio.IncompleteReadError, OSError) as error:
        raise PeerGoneError("the peer closed the connection") from error
    return Frame(kind, payload)


async def read_message(reader: asyncio.StreamReader, limit: int | None = None) -> Message:
    """The next frame, which must be a JSON object."""
    return (await read_frame(reader, limit)).message()


async def write_json(writer: asyncio.StreamWriter, message: Message) -> None:
    """Send a message, and wait until the transport has room again."""
    await _send(writer, encode_message(message))


async def write_data(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    """Send bytes of the current part, at most LIMIT_DATA of them."""
    await _send(writer, encode(Kind.DATA, chunk))


async def write_end(writer: asyncio.StreamWriter) -> None:
    """End the current part."""
    await _send(writer, encode(Kind.END))


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    if writer.is_closing():
        raise PeerGoneError("the peer closed the connection")
    try:
        writer.write(frame)
        await writer.drain()
    except (OSError, RuntimeError) as error:
        # uvloop raises RuntimeError where asyncio has ConnectionResetError for a transport that is closed already.
        raise PeerGoneError("the peer closed the connection") from error
