"""The local door of the operator: a unix socket in the pod's own /tmp where `sandhold-operator ask` puts its questions.

Nobody comes here from the network. Who may execute a command in this container may ask, and nobody else: the socket is
for its owner alone, and the caller's uid is checked again. One question a connection, one line of JSON; everything has
a bound. It knows nothing of what is asked. That it cannot be opened is said and does not stop the operator.
"""

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from sandhold.handlers.questions import refused

LONGEST_QUESTION = 4096
QUESTION_SECONDS = 5.0
ANSWER_SECONDS = 20.0
MOST_AT_ONCE = 4
_log = logging.getLogger(__name__)
Answerer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def question_door(path: Path, answerer: Answerer) -> AsyncIterator[None]:
    """Answer questions for as long as the context lasts."""
    door = _Door(answerer)
    try:
        server = await _listen(path, door)
    except OSError as error:
        _log.warning("the door for questions is not open", extra={"path": str(path), "error": str(error)})
        yield
        return
    try:
        yield
    finally:
        server.close()
        await door.end()
        _remove(path)


async def _listen(path: Path, door: "_Door") -> asyncio.Server:
    """A socket for our own user alone: until it listens nobody can connect, and by then it has its mode."""
    if await _is_served(path):
        raise FileExistsError(f"another process answers at {path}")
    return await asyncio.start_unix_server(door.serve, sock=_bound(path), limit=LONGEST_QUESTION)


def _bound(path: Path) -> socket.socket:
    _remove(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
    except OSError:
        listener.close()
        raise
    return listener


def _remove(path: Path) -> None:
    """What a killed process left is in the way, and what an ending one leaves is nobody's."""
    with suppress(FileNotFoundError):
        path.unlink()


async def _is_served(path: Path) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_unix_connection(str(path)), QUESTION_SECONDS)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


class _Door:
    """The connections of one door."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._open: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one question."""
        task = asyncio.current_task()
        is_welcome = len(self._open) < MOST_AT_ONCE
        if task is not None and is_welcome:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            answer = await self._answer(reader, writer) if is_welcome else refused("busy", "too many questions at once")
            writer.write(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), ANSWER_SECONDS)
        except (OSError, TimeoutError) as error:
            _log.debug("a question was given up by who asked it", extra={"error": str(error)})
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def end(self) -> None:
        """Whoever still waits for an answer gets none."""
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        if _uid_of(writer) != os.getuid():
            return refused("invalid", "only this container's own user may ask")
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\n"), QUESTION_SECONDS)
            question = json.loads(line)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError, RecursionError):
            return refused("invalid", f"a question is one line of JSON of at most {LONGEST_QUESTION} bytes")
        if not isinstance(question, dict):
            return refused("invalid", "a question is a JSON object")
        try:
            return await asyncio.wait_for(self._answerer(question), ANSWER_SECONDS)
        except TimeoutError:
            return refused("failed", f"no answer within {ANSWER_SECONDS:.0f} s")
        except Exception:  # noqa: BLE001 - who asks must never end the operator
            _log.exception("a question could not be answered")
            return refused("failed", "the operator met a defect while it answered; its log says which")


def _uid_of(writer: asyncio.StreamWriter) -> int:
    """The uid of who connected, as the kernel says it."""
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
