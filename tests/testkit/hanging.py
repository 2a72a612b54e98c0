"""Loops that are hung where they could hang: something that never answers, and the time until it was asked."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any


class Hanging:
    """Something that a loop awaits and that never answers; `reached` once it was called."""

    def __init__(self) -> None:
        self._called = asyncio.Event()

    async def __call__(self, *_: Any, **__: Any) -> Any:
        self._called.set()
        await asyncio.Event().wait()

    async def reached(self) -> None:
        """Wait until it was called."""
        async with asyncio.timeout(10):
            await self._called.wait()


@contextmanager
def running(work: Awaitable[None]) -> Iterator[asyncio.Future[None]]:
    """A loop that runs until the end of the block."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()


async def turns() -> None:
    """Tasks that were made begin, down to the tasks that those make."""
    for _ in range(5):
        await asyncio.sleep(0)
