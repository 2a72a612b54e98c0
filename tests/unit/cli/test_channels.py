"""The channel protocol where the cluster's own server does not go by itself: older versions, orders, broken ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from kubernetes_asyncio.client import Configuration

from sandhold.cli.api import Api
from sandhold.cli.channels import PROTOCOLS, Command, Streams, execute, exit_code
from sandhold.cli.connection import Connection
from sandhold.cli.failures import Asked, CliError, ExitCode

ASKED = Asked("create", "pods/exec", "Pod", "demo", "pod")
COMMAND = Command("demo", "pod", "agent", ("echo", "a b", "&c"))
OK = b'\x03{"status":"Success"}'
Script = Callable[[web.WebSocketResponse, web.Request], Coroutine[Any, Any, None]]


class Collected:
    def __init__(self) -> None:
        self.output = b""
        self.errors = b""

    async def take_output(self, part: bytes) -> None:
        self.output += part

    async def take_errors(self, part: bytes) -> None:
        self.errors += part


@asynccontextmanager
async def served(script: Script, protocols: tuple[str, ...] = PROTOCOLS) -> AsyncIterator[Api]:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        await script(socket, request)
        await socket.close()
        return socket

    application = web.Application()
    application.router.add_get("/api/v1/namespaces/demo/pods/pod/exec", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Api(Connection(configuration, "demo")) as api:
            yield api
    finally:
        await runner.cleanup()


async def run(script: Script, source: AsyncIterator[bytes] | None = None, **more: Any) -> tuple[int, Collected]:
    collected = Collected()
    async with served(script, **more) as api:
        streams = Streams(collected.take_output, collected.take_errors, source)
        return await asyncio.wait_for(execute(api, COMMAND, streams), 20), collected


async def parts(*content: bytes) -> AsyncGenerator[bytes, None]:
    for part in content:
        yield part


async def test_words_and_streams_are_asked_for_as_they_are() -> None:
    asked: dict[str, list[str]] = {}

    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        asked.update({key: request.query.getall(key) for key in request.query})
        await socket.send_bytes(OK)

    assert (await run(script))[0] == 0
    assert asked == {"command": ["echo", "a b", "&c"], "container": ["agent"], "stdout": ["true"], "stderr": ["true"]}


async def test_output_after_the_word_about_the_end_is_not_lost() -> None:
    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.send_bytes(b"\x01first ")
        await socket.send_bytes(OK)
        await socket.send_bytes(b"\x01last")
        await socket.send_bytes(b"\x02errors")

    code, collected = await run(script)
    assert (code, collected.output, collected.errors) == (0, b"first last", b"errors")


async def test_the_end_of_input_is_told_in_v5_and_cannot_be_in_v4() -> None:
    for protocol, wanted in ((PROTOCOLS[0], [b"\x00ab", b"\x00c", b"\xff\x00"]), (PROTOCOLS[1], [b"\x00ab", b"\x00c"])):
        came: list[bytes] = []

        async def script(socket: web.WebSocketResponse, _: web.Request, came: list[bytes] = came) -> None:
            async for message in socket:
                assert message.type is WSMsgType.BINARY
                came.append(message.data)
                if len(came) == len(wanted):  # noqa: B023 - used within its turn
                    break
            await socket.send_bytes(OK)

        assert (await run(script, parts(b"ab", b"c"), protocols=(protocol,)))[0] == 0
        assert came == wanted


async def test_input_that_nobody_reads_any_more_is_no_failure() -> None:
    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.receive()
        await socket.send_bytes(OK)

    assert (await run(script, endless()))[0] == 0


async def test_a_connection_that_ends_first_has_no_exit_code() -> None:
    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.send_bytes(b"\x01half")

    with pytest.raises(CliError, match="the connection ended before the command did") as caught:
        await run(script)
    assert caught.value.code is ExitCode.NOT_EXECUTED


async def test_an_upgrade_that_is_refused_is_told_in_the_servers_words() -> None:
    async def refuse(_: web.Request) -> web.Response:
        status = {"kind": "Status", "message": 'pods "pod" is forbidden: no right', "code": 403}
        return web.json_response(status, status=403)

    application = web.Application()
    application.router.add_get("/{path:.*}", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Api(Connection(configuration, "demo")) as api:
            with pytest.raises(CliError, match="no right") as caught:
                await execute(api, COMMAND, Streams(Collected().take_output, Collected().take_errors))
        assert caught.value.code is ExitCode.FORBIDDEN
        assert "kubectl auth can-i create pods/exec -n demo" in caught.value.next_step
    finally:
        await runner.cleanup()


def failure(**details: Any) -> dict[str, Any]:
    return {"status": "Failure", "message": "it said no", **details}


def test_exit_codes() -> None:
    causes = {"causes": [{"reason": "Other"}, {"reason": "ExitCode", "message": "42"}]}
    assert exit_code(failure(details=causes), ASKED) == 42
    assert exit_code(json.loads(OK[1:]), ASKED) == 0


@pytest.mark.parametrize(
    "end",
    [{}, failure(), failure(details="odd"), failure(details={"causes": [{"reason": "ExitCode", "message": "?"}]})],
)
def test_an_end_without_an_exit_code_is_a_failure_of_ours(end: dict[str, Any]) -> None:
    with pytest.raises(CliError) as caught:
        exit_code(end, ASKED)
    assert caught.value.code is ExitCode.NOT_EXECUTED
