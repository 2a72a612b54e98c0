"""A command in a container, over the channel protocol of the API server (v5, or v4 of older ones) on a websocket.

Each message is one byte, the channel, and what belongs to it: 0 input, 1 output, 2 errors, 3 how it ended, 4 the size
of the terminal; 255 followed by a channel's number closes that channel (v5 alone). It knows nothing of terminals.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from sandhold.cli.api import Api
from sandhold.cli.failures import Asked, CliError, ExitCode

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
CLOSING_SECONDS = 5.0
_INPUT, _OUTPUT, _ERRORS, _END, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
Sink = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed, and where."""

    namespace: str
    pod: str
    container: str
    words: tuple[str, ...]
    has_terminal: bool = False


@dataclass(frozen=True, slots=True)
class Streams:
    """Where output goes and input comes from. `sizes` are columns and lines of a terminal."""

    output: Sink
    errors: Sink
    input: AsyncIterator[bytes] | None = None
    sizes: AsyncIterator[tuple[int, int]] | None = None


async def execute(api: Api, command: Command, streams: Streams) -> int:
    """Run it to its end; its exit code."""
    asked = Asked("create", "pods/exec", "Pod", command.namespace, command.pod)
    query = [("command", word) for word in command.words]
    query += [("container", command.container), ("stdout", "true")]
    query += [("stderr", "false"), ("tty", "true")] if command.has_terminal else [("stderr", "true")]
    query += [("stdin", "true")] if streams.input is not None else []
    path = f"/api/v1/namespaces/{command.namespace}/pods/{command.pod}/exec"
    async with api.websocket(asked, path, query, PROTOCOLS) as socket:
        return await _run(socket, streams, asked)


async def _run(socket: aiohttp.ClientWebSocketResponse, streams: Streams, asked: Asked) -> int:
    senders = [asyncio.create_task(_send_input(socket, streams.input))] if streams.input is not None else []
    if streams.sizes is not None:
        senders.append(asyncio.create_task(_send_sizes(socket, streams.sizes)))
    try:
        end = await _receive(socket, streams)
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _broken(asked) from error
    finally:
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
    if end is None:
        raise _broken(asked)
    return exit_code(end, asked)


async def _receive(socket: aiohttp.ClientWebSocketResponse, streams: Streams) -> Mapping[str, Any] | None:
    """Pass on what comes until the server closes; how the command ended, if that was said.

    Output may come after the word about the end: whoever proxies copies both side by side.
    """
    end: Mapping[str, Any] | None = None
    while True:
        try:
            message = await socket.receive(timeout=CLOSING_SECONDS if end is not None else None)
        except TimeoutError:
            return end
        if message.type is aiohttp.WSMsgType.ERROR:
            raise aiohttp.ClientConnectionError(str(socket.exception()))
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            return end
        data = message.data.encode() if isinstance(message.data, str) else message.data
        channel, content = (data[0], data[1:]) if data else (_CLOSE, b"")
        if channel == _OUTPUT and content:
            await streams.output(content)
        elif channel == _ERRORS and content:
            await streams.errors(content)
        elif channel == _END and content:
            end = _document(content)


async def _send_input(socket: aiohttp.ClientWebSocketResponse, source: AsyncIterator[bytes]) -> None:
    """What ends input ends it over there, too; v4 has no word for that."""
    async for part in source:
        await socket.send_bytes(bytes((_INPUT,)) + part)
    if socket.protocol == PROTOCOLS[0]:
        await socket.send_bytes(bytes((_CLOSE, _INPUT)))


async def _send_sizes(socket: aiohttp.ClientWebSocketResponse, sizes: AsyncIterator[tuple[int, int]]) -> None:
    async for columns, lines in sizes:
        size = json.dumps({"Width": columns, "Height": lines}).encode()
        await socket.send_bytes(bytes((_SIZE,)) + size)


def exit_code(end: Mapping[str, Any], asked: Asked) -> int:
    """The exit code that a Status of the end names."""
    if end.get("status") == "Success":
        return 0
    details = end.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, Mapping) and cause.get("reason") == "ExitCode":
            try:
                return int(str(cause.get("message")))
            except ValueError:
                break
    said = " ".join(str(end.get("message") or "no reason given").split())[:400]
    step = "check that the program is in the image of the AgentSandbox: sandhold exec SESSION -- ls /bin"
    raise CliError(f"{asked}: the command was not run: {said}", step, ExitCode.NOT_EXECUTED)


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    return document if isinstance(document, Mapping) else {"message": content.decode(errors="replace")}


def _broken(asked: Asked) -> CliError:
    return CliError(
        f"{asked}: the connection ended before the command did, so its exit code is not known",
        "see whether the pod is still there: sandhold session ls",
        ExitCode.NOT_EXECUTED,
    )
