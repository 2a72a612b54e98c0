"""Lists: the first ones, which make the cache mean something, and the periodic ones, which find what no watch told.

A list that differs from the cache is routed like events are. Two lists that differ, with no event of that kind between
them, mean a watch that only looks alive: `WatchFailedError`, and the process starts anew.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping

from sandhold import metrics
from sandhold.cluster.cache import Cache
from sandhold.cluster.door import Door
from sandhold.errors import SandholdError
from sandhold.handlers.pump import WatchedKind, WatchFailedError
from sandhold.handlers.routing import Router
from sandhold.heartbeats import Heartbeats

FIRST_RETRY_SECONDS = 2.0
AFTER_START_SECONDS = 3.0
AFTER_LIBRARY_LIST_SECONDS = 1.0
PROOF_SECONDS = 30.0
LIST_SECONDS = 180.0
"""One list, of many pages, ends by itself sooner than this."""
_log = logging.getLogger(__name__)


class Relister:
    """Takes the lists of every watched kind."""

    def __init__(  # noqa: PLR0913 - what is listed, how often, and who hears of it
        self,
        door: Door,
        cache: Cache,
        router: Router,
        kinds: Collection[WatchedKind],
        every: float,
        *,
        heartbeats: Heartbeats | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._heartbeats = heartbeats or Heartbeats(clock)
        self._clock = clock
        self._door = door
        self._cache = cache
        self._router = router
        self._kinds = {kind.resource.kind: kind for kind in kinds}
        self._every = every
        self._asked: dict[str, asyncio.Event] = {kind: asyncio.Event() for kind in self._kinds}
        self._events: dict[str, int] = dict.fromkeys(self._kinds, 0)
        self._heard: dict[str, float] = dict.fromkeys(self._kinds, clock())
        self._suspected: dict[str, int] = {}
        router.on_relisted = self.ask
        router.on_event = self.heard

    async def sync(self) -> None:
        """List every kind once; a kind that cannot be listed yet is tried until it can."""
        await asyncio.gather(*(self._sync_kind(kind) for kind in self._kinds))

    async def run(self) -> None:
        """List on and on, until cancelled or a watch is found mute."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                group.create_task(self._run_kind(kind), name=f"relist {kind}")

    def ask(self, kind: str) -> None:
        """The watch library lost its place: what vanished meanwhile it will not tell."""
        self._asked[kind].set()

    def heard(self, kind: str) -> None:
        """A watch of that kind delivered something."""
        self._events[kind] += 1
        self._heard[kind] = self._clock()

    def silences(self) -> Mapping[str, float]:
        """For how long each watch has delivered nothing."""
        now = self._clock()
        return {kind: now - heard for kind, heard in self._heard.items()}

    async def list_once(self, kind: str) -> int:
        """List a kind, and say how much differed; the cache has told the router of it."""
        watched = self._kinds[kind]
        try:
            items, version = await self._door.list(watched.resource.api_version, kind, None, watched.selector)
        except SandholdError:
            metrics.RELISTS.labels(kind, "failed").inc()
            raise
        differences = len(self._cache.replace_all(kind, items, version))
        metrics.RELISTS.labels(kind, "differed" if differences else "same").inc()
        return differences

    async def _sync_kind(self, kind: str) -> None:
        while True:
            try:
                await self.list_once(kind)
            except SandholdError as error:
                _log.warning("the first list failed", extra={"kind": kind, "error": str(error)})
                await asyncio.sleep(FIRST_RETRY_SECONDS)
            else:
                return

    async def _run_kind(self, kind: str) -> None:
        # The library's first list and ours are not the same moment: what vanished between them is found here.
        delay = AFTER_START_SECONDS
        beat = self._heartbeats.loop(f"lists {kind}", LIST_SECONDS)
        while True:
            beat(delay + LIST_SECONDS)
            try:
                await asyncio.wait_for(self._asked[kind].wait(), delay)
                await asyncio.sleep(AFTER_LIBRARY_LIST_SECONDS)
            except TimeoutError:
                pass
            self._asked[kind].clear()
            delay = self._every * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
            try:
                differences = await self.list_once(kind)
            except SandholdError as error:
                _log.warning("a list failed", extra={"kind": kind, "error": str(error)})
                delay = min(delay, PROOF_SECONDS)
                continue
            if self.weigh(kind, differences):
                delay = min(delay, PROOF_SECONDS)

    def weigh(self, kind: str, differences: int) -> bool:
        """Whether another list should follow soon; raises when a watch is proved mute.

        Suspicion falls on a watch when a list differed, and lasts until it says anything.
        """
        suspected = self._suspected.get(kind) == self._events[kind]
        if not differences:
            return False
        metrics.MISSED.labels(kind).inc(differences)
        _log.info("a list found what no watch had told", extra={"kind": kind, "differences": differences})
        if suspected:
            raise WatchFailedError(f"the watch of {kind} is mute: two lists differed and no event came between")
        self._suspected[kind] = self._events[kind]
        return True
