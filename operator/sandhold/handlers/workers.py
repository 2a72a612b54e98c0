"""Workers: take a key, make a pass, and say when to look again. Here every error of a pass becomes a delay.

No error ends a worker. One that nobody expects (a defect of ours) is logged with its traceback and retried like any
other, so that one odd object cannot stop the rest.
"""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from sandhold import logs, metrics
from sandhold.cluster.cache import Cache
from sandhold.cluster.memory import Recent
from sandhold.cluster.recorder import Recorder
from sandhold.desired.plan import Event
from sandhold.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    SandholdError,
    UnavailableError,
)
from sandhold.heartbeats import Beat, Heartbeats
from sandhold.reconcile import Reconciler
from sandhold.workqueue import Key, WorkQueue

PASS_SECONDS = 120.0
ENDING_SECONDS = 60.0
"""A pass whose time is over is ended within this, or its worker counts as hung."""
PERSON_SECONDS = 5.0
"""What needs a person or a right is not tried more often than this."""
MOST_IN_A_ROW = 25
_log = logging.getLogger(__name__)


class Workers:
    """A fixed number of them, on one queue."""

    def __init__(
        self,
        queue: WorkQueue,
        reconciler: Reconciler,
        cache: Cache,
        recorder: Recorder,
        *,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeats = heartbeats or Heartbeats()
        self._boot = secrets.token_hex(3)
        self._passes = itertools.count(1)
        self._queue = queue
        self._reconciler = reconciler
        self._cache = cache
        self._recorder = recorder
        self._in_a_row: Recent[Key, int] = Recent()

    async def run(self, count: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                beat = self._heartbeats.loop(f"workers {number}", PASS_SECONDS + ENDING_SECONDS)
                group.create_task(self._work(beat), name=f"worker {number}")

    async def _work(self, beat: Beat) -> None:
        while True:
            beat.rest()
            await self.work_once(beat)

    async def work_once(self, taken: Callable[[], None] = lambda: None) -> Key:
        """Take the next key and make one pass over it; everything logged meanwhile says which pass, over what."""
        key = await self._queue.get()
        taken()
        started, outcome = time.monotonic(), "cancelled"
        try:
            with logs.about(**self._about(key)):
                outcome = await self._pass(key)
        finally:
            self._queue.done(key)
            metrics.RECONCILE_SECONDS.labels(key.kind, outcome).observe(time.monotonic() - started)
        return key

    def _about(self, key: Key) -> dict[str, object]:
        subject = self._cache.get(key.kind, key.namespace, key.name)
        return {
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": subject["metadata"].get("uid") if subject is not None else None,
            "pass": f"{self._boot}-{next(self._passes)}",
        }

    async def _pass(self, key: Key) -> str:
        """One pass; says in a word what became of it."""
        try:
            async with asyncio.timeout(PASS_SECONDS):
                outcome = await self._reconciler.reconcile(key)
        except (ConflictError, NotFoundError) as error:
            self._retry(key, "conflict", error, logging.DEBUG)
            return "conflict"
        except UnavailableError as error:
            self._retry(key, "unavailable", error, logging.WARNING, error.retry_after or 0.0)
            return "unavailable"
        except (ForbiddenError, InvalidError) as error:
            self._retry(key, "refused", error, logging.ERROR, PERSON_SECONDS)
            await self._tell(key, error)
            return "refused"
        except TimeoutError as error:
            self._retry(key, "timeout", error, logging.ERROR, PERSON_SECONDS)
            return "timeout"
        except Exception as error:  # noqa: BLE001 - a defect in one pass must not stop the others
            self._retry(key, "defect", error, logging.CRITICAL, PERSON_SECONDS)
            return "defect"
        self._queue.forget(key)
        if outcome.again and not self._is_restless(key):
            self._queue.add(key)
        elif outcome.again:
            self._retry(key, "restless", None, logging.ERROR, PERSON_SECONDS)
        elif outcome.wake_after is not None:
            self._queue.add_after(key, outcome.wake_after)
        if not outcome.again:
            self._in_a_row.pop(key)
        return "changed" if outcome.again else "settled"

    def _is_restless(self, key: Key) -> bool:
        """Whether pass after pass changed something: a plan that never settles would load the API server for ever."""
        count = (self._in_a_row.get(key) or 0) + 1
        self._in_a_row.put(key, count)
        return count > MOST_IN_A_ROW

    def _retry(self, key: Key, what: str, error: BaseException | None, level: int, at_least: float = 0.0) -> None:
        delay = self._queue.add_failed(key, at_least)
        _log.log(
            level,
            "pass failed",
            extra={
                "outcome": what,
                "error": str(error),
                "retry_in": round(delay, 2),
            },
            exc_info=error if level == logging.CRITICAL else None,
        )

    async def _tell(self, key: Key, error: SandholdError) -> None:
        """What the API server refuses is somebody's to mend: it belongs where people look."""
        subject = self._cache.get(key.kind, key.namespace, key.name)
        if subject is not None:
            event = Event("Warning", "RequestRefused", str(error))
            await self._recorder.record(subject, [event], datetime.now(UTC))
