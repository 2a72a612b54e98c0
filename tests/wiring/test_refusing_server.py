"""The door before a server that refuses everything: each call asks once, and passes on how long to stay away."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from sandhold.cluster.client import KubeDoor
from sandhold.desired.plan import Reference
from sandhold.errors import ConflictError, ForbiddenError, SandholdError, UnavailableError
from testkit.object_store import Document

REFERENCE = Reference("v1", "Pod", "research", "quill")
POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "research", "name": "quill", "uid": "u", "resourceVersion": "1"},
}
CALLS: dict[str, Callable[[KubeDoor], Awaitable[object]]] = {
    "get": lambda door: door.get(REFERENCE),
    "list": lambda door: door.list("v1", "Pod"),
    "create": lambda door: door.create(POD),
    "apply": lambda door: door.apply(POD),
    "replace": lambda door: door.replace(POD),
    "patch": lambda door: door.json_patch(REFERENCE, [{"op": "add", "path": "/status", "value": {}}], "status"),
    "delete": lambda door: door.delete(REFERENCE, "u"),
}
KINDS: dict[int, type[SandholdError]] = {
    403: ForbiddenError, 409: ConflictError, 429: UnavailableError, 500: UnavailableError, 503: UnavailableError,
}  # fmt: skip


class RefusingServer:
    """Answers every request with one code."""

    def __init__(self) -> None:
        self.code = 500
        self.requests: list[str] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path}")
        body = {"kind": "Status", "message": "too much at once", "code": self.code}
        return web.json_response(body, status=self.code, headers={"Retry-After": "7"})


@pytest.fixture
async def server() -> AsyncIterator[RefusingServer]:
    made = RefusingServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("call", CALLS)
async def test_a_refused_call_is_made_once_and_told(server: RefusingServer, call: str, code: int) -> None:
    server.code = code
    door = KubeDoor(Configuration(host=f"http://127.0.0.1:{server.port}"))
    try:
        with pytest.raises(KINDS[code], match="too much at once") as caught:
            await CALLS[call](door)
    finally:
        await door.close()
    assert len(server.requests) == 1, "whether and when to ask again is the queue's business alone"
    if isinstance(caught.value, UnavailableError):
        assert caught.value.retry_after == 7
