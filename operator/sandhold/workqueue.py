"""The queue between events and passes: keyed, de-duplicated, serial per key, fair across namespaces, bounded.

A key that is added while it is being worked on is handed out once more afterwards, however often it was added.
Namespaces take turns, so that one with a thousand sessions does not hold up one with a single session. It knows
nothing of what a key stands for, runs nothing, and keeps nothing across restarts: the world is observed anew.
"""

import asyncio
import heapq
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from sandhold import metrics
from sandhold.errors import SandholdError

MOST_KEYS = 200_000
FIRST_DELAY = 0.02
LONGEST_DELAY = 60.0
DOUBLINGS = 16


class Key(NamedTuple):
    """One object of ours that passes are made over."""

    kind: str
    namespace: str
    name: str


class QueueFullError(SandholdError):
    """More keys than objects can reasonably exist: something adds keys that it makes up."""


class WorkQueue:
    """One event loop, any number of workers. `clock` is monotonic and only ever moved by time itself."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, limit: int = MOST_KEYS, rng: random.Random | None = None
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._random = rng or random.Random()  # noqa: S311 - jitter
        self._turns: OrderedDict[str, deque[Key]] = OrderedDict()
        self._since: dict[Key, float] = {}
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._work = asyncio.Event()
        self._taken = clock()

    def add(self, key: Key) -> None:
        """Have a pass made over a key, soon."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._since:
            if len(self._since) >= self._limit:
                raise QueueFullError(f"the work queue holds {self._limit} keys; {key} does not fit")
            self._since[key] = self._clock()
            self._turns.setdefault(key.namespace, deque()).append(key)
            self._work.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have a pass made over a key after a while; of several such wishes the earliest holds."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        if key not in self._due and len(self._due) >= self._limit:
            raise QueueFullError(f"the work queue holds {self._limit} delayed keys; {key} does not fit")
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        self._forget_outdated()
        self._arm()

    def add_failed(self, key: Key, at_least: float = 0.0) -> float:
        """Have a pass made again after a failure: later each time, jittered. Returns the delay."""
        failures = self._failures[key] = min(self._failures.get(key, 0) + 1, DOUBLINGS)
        backoff = min(FIRST_DELAY * 2.0 ** (failures - 1), LONGEST_DELAY)
        delay = max(backoff * self._random.uniform(0.5, 1.0), at_least)
        metrics.RETRIES.labels(key.kind).inc()
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """The last pass went well: the next failure starts the back-off anew."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key. Whoever takes it says `done` afterwards; until then nobody else gets it."""
        while True:
            key = self._take()
            if key is not None:
                return key
            self._work.clear()
            await self._work.wait()

    def done(self, key: Key) -> None:
        """The pass has ended, well or not."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._since)

    @property
    def delayed(self) -> int:
        """Keys whose time is still to come."""
        return len(self._due)

    @property
    def oldest(self) -> float:
        """How long the key that waits longest has waited."""
        heads = [self._since[keys[0]] for keys in self._turns.values()]
        return self._clock() - min(heads) if heads else 0.0

    @property
    def stalled(self) -> float:
        """How long keys have waited without any being taken."""
        return min(self.oldest, self._clock() - self._taken)

    def close(self) -> None:
        """Stop the timer; what waits is dropped."""
        if self._timer is not None:
            self._timer.cancel()

    def _take(self) -> Key | None:
        if not self._turns:
            return None
        namespace, keys = next(iter(self._turns.items()))
        key = keys.popleft()
        if keys:
            self._turns.move_to_end(namespace)
            self._work.set()
        else:
            del self._turns[namespace]
        if self._turns:
            self._work.set()
        self._taken = self._clock()
        metrics.QUEUE_WAIT.labels(key.kind).observe(max(0.0, self._taken - self._since.pop(key)))
        # The pass that begins now decides anew when to look again.
        self._due.pop(key, None)
        self._working.add(key)
        return key

    def _forget_outdated(self) -> None:
        """Entries that an earlier wish or a pass has overtaken stay in the heap; they may not become the most of it."""
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._due):
            self._heap = [(due, key) for key, due in self._due.items()]
            heapq.heapify(self._heap)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            delay = max(0.0, self._heap[0][0] - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def wake(self) -> None:
        """Move every delayed key whose time has come into its turn (the timer does this)."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._arm()
