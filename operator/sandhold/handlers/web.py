"""/livez, /readyz and /metrics over HTTP. It answers what others judged and measured, and takes nothing in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sandhold.probes import Health


@asynccontextmanager
async def serving(
    health: Health, refresh: Callable[[], None], health_port: int, metrics_port: int
) -> AsyncIterator[None]:
    """Serve the probes and the metrics for as long as the context lasts; `refresh` runs before each answer."""
    probes = web.Application()
    probes.router.add_get("/livez", _answering(health.dead))
    probes.router.add_get("/readyz", _answering(health.unready))
    measured = web.Application()
    measured.router.add_get("/metrics", _measuring(refresh))
    runners = [web.AppRunner(app, access_log=None) for app in (probes, measured)]
    try:
        for runner, port in zip(runners, (health_port, metrics_port), strict=True):
            await runner.setup()
            await web.TCPSite(runner, port=port, shutdown_timeout=0.1).start()
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


def _answering(problems: Callable[[], list[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        found = problems()
        return web.Response(text="\n".join(found) or "ok", status=503 if found else 200)

    return answer


def _measuring(refresh: Callable[[], None]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        refresh()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
