"""Whether this process is alive and whether it is ready, judged from what its loops did lately. It serves nothing.

Alive: the event loop turns, every loop was heard of when it said it would be, lists are taken, and while we are active
waiting keys are taken. Ready: the cache is filled, and this process holds the election Lease or is able to take it. A
loop that fails and tries again is heard of, so an API server that is away for minutes makes nobody dead; a process that
can take no list at all for much longer is started anew, in case the fault is its own.
"""

import asyncio
import time
from collections.abc import Callable, Collection

from sandhold import metrics
from sandhold.cluster.cache import Cache
from sandhold.heartbeats import Heartbeats
from sandhold.workqueue import WorkQueue

BEAT_SECONDS = 1.0
MOST_LAG_SECONDS = 20.0
MOST_WAIT_SECONDS = 180.0
MOST_LISTS_MISSED = 4


class Health:
    """The judgement. `beat` runs for as long as the process does."""

    def __init__(  # noqa: PLR0913 - everything that is judged
        self,
        *,
        cache: Cache,
        queue: WorkQueue,
        heartbeats: Heartbeats,
        kinds: Collection[str],
        list_seconds: float,
        is_able: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._heartbeats = heartbeats
        self._kinds = kinds
        self._list_seconds = list_seconds
        self._is_able = is_able
        self._clock = clock
        self._beaten = clock()
        self._active_since: float | None = None

    def activate(self) -> None:
        """From now on passes are made here. What a standby's queue holds was waiting for that."""
        self._active_since = self._clock()

    async def beat(self) -> None:
        """Measure how late the loop wakes us."""
        while True:
            before = self._clock()
            await asyncio.sleep(BEAT_SECONDS)
            self._beaten = self._clock()
            metrics.LOOP_LAG.set(max(0.0, self._beaten - before - BEAT_SECONDS))

    def dead(self) -> list[str]:
        """Why this process should be started anew; empty while it lives."""
        reasons = self._heartbeats.late()
        if (late := self._clock() - self._beaten) > MOST_LAG_SECONDS:
            reasons.append(f"the event loop did not turn for {late:.0f} s")
        if self._active_since is not None:
            stalled = min(self._queue.stalled, self._clock() - self._active_since)
            if stalled > MOST_WAIT_SECONDS:
                reasons.append(f"no worker took a waiting key for {stalled:.0f} s")
        longest = MOST_LISTS_MISSED * self._list_seconds + 60
        ages = {kind: self._cache.list_age(kind) for kind in self._kinds if self._cache.is_listed(kind)}
        late_kinds = {kind: age for kind, age in ages.items() if age > longest}
        return [*reasons, *(f"{kind} objects were not listed for {age:.0f} s" for kind, age in late_kinds.items())]

    def unready(self) -> list[str]:
        """What is still missing; empty when the process could act."""
        missing = [f"{kind} objects were not listed yet" for kind in self._kinds if not self._cache.is_listed(kind)]
        if not missing and not self._is_able():
            missing.append("the election Lease is not held, and could not be read lately")
        return missing
