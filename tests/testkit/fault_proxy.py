"""A proxy before a real API server that does to watches what networks and servers do: errors and cuts.

Plain HTTP on loopback in front, the server's TLS behind. Everything but watches passes unchanged.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web


class FaultProxy:
    """Forwards requests; `inject` acts on one open watch, `cut` on all."""

    def __init__(self, upstream: str, token: str) -> None:
        self._upstream = upstream
        self._token = token
        self._watches: dict[web.StreamResponse, tuple[str, asyncio.Task[None] | None]] = {}
        self.lists = 0
        self.swallows = False
        """While set, what watches say is lost."""
        self.swallowed = b""
        self.port = 0

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    async def inject(self, code: int, plural: str) -> None:
        """An ERROR event in an open watch of one kind."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "injected"}
        line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
        watch = next(each for each, (path, _) in self._watches.items() if path.endswith(plural))
        await watch.write(line)

    def cut(self) -> None:
        """End every open watch in the middle of whatever it says."""
        for _, task in self._watches.values():
            if task is not None:
                task.cancel()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FaultProxy"]:
        """Serve for as long as the context lasts."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._forward)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            try:
                yield self
            finally:
                self.cut()
                await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"}
        headers |= {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        is_watch = request.query.get("watch") == "true"
        self.lists += request.method == "GET" and not is_watch
        async with self._session.request(
            request.method,
            f"{self._upstream}{request.path_qs}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            if not is_watch:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            self._watches[response] = (request.path, asyncio.current_task())
            try:
                async for chunk in answer.content.iter_any():
                    if self.swallows:
                        self.swallowed += chunk
                    else:
                        await response.write(chunk)
            finally:
                self._watches.pop(response, None)
            return response
