"""Where blocking work runs: a bounded pool of threads, and clean-ups that outlive the connection they are for."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Threads:
    """A pool of threads. What waits for it is bounded by its callers: transfers and requests are counted."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="mover")
        self._cleanups: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it in a thread. A caller that is cancelled does not stop the thread: calls to stores end by themselves."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: context.run(work, *args, **kwargs))

    def clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it even if the caller is cancelled meanwhile."""
        task = asyncio.create_task(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleaned)

    async def close(self, seconds: float) -> None:
        """Wait for clean-ups, so long and no longer."""
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=seconds)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cleaned(self, task: asyncio.Task[None]) -> None:
        self._cleanups.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a clean-up failed", exc_info=error)
