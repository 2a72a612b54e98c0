"""A proxy before a real S3 server that does what networks and look-alikes do: late, stale, damaged and cut answers.

Plain HTTP on loopback on both sides; what is signed passes unchanged. Rules are asked for every request, in order, and
the first that gives an answer decides; where none does, the server's own answer passes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from yarl import URL

from testkit.s3_server import S3Server


@dataclass(frozen=True)
class Request:
    """What a client wants."""

    method: str
    key: str
    """Without the bucket; empty for a listing."""
    query: str


@dataclass(frozen=True)
class Answer:
    """What it gets."""

    status: int
    headers: dict[str, str]
    body: bytes
    promised: int | None = None
    """The length that it is said to have, where that is another one."""


Ask = Callable[[], Awaitable[Answer]]
"""Sends the request on and returns the server's answer."""
Rule = Callable[[Request, Ask], Awaitable[Answer | None]]

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class StoreProxy:
    """Add rules and take them away at any time."""

    def __init__(self, s3: S3Server) -> None:
        self._s3 = s3
        self._runner: web.AppRunner | None = None
        self.rules: list[Rule] = []
        self.bucket = s3.bucket
        self.endpoint = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["StoreProxy"]:
        """Serve for as long as the context lasts."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._forward)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = Request(
            request.method,
            request.match_info["path"].partition("/")[2],
            request.query_string,
        )

        async def ask() -> Answer:
            url = URL(self._s3.endpoint + request.raw_path, encoded=True)
            headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP - {"date"}}
            async with self._session.request(request.method, url, headers=headers, data=body) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                length = answer.headers.get("Content-Length")
                promised = int(length) if request.method == "HEAD" and length else None
                return Answer(answer.status, kept, await answer.read(), promised)

        for rule in tuple(self.rules):
            if (found := await rule(asked, ask)) is not None:
                return await _send(request, found)
        return await _send(request, await ask())


async def _send(request: web.Request, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    length = answer.promised if answer.promised is not None else len(answer.body)
    if answer.status != 204:
        response.content_length = length
    await response.prepare(request)
    if request.method != "HEAD":
        await response.write(answer.body)
        if length != len(answer.body) and request.transport is not None:
            request.transport.close()  # as a network cuts it
    return response
