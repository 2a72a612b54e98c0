"""One life of the operator over the fakes: the real parts, as the program puts them together, stepped by a test.

The program's own loops (watches, workers, timers) are replaced by calls that make one step: a test decides when.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

from sandhold.backends.model import Backends
from sandhold.cluster.apply import Outcome
from sandhold.cluster.certificates import Authority
from sandhold.errors import SandholdError
from sandhold.handlers.assembly import assemble
from sandhold.settings import OperatorSettings
from sandhold.workqueue import Key
from testkit.clock import START, FakeClock
from testkit.fake_cluster import FakeCluster, selects
from testkit.fake_home import FakeHome
from testkit.object_store import Document


class OperatorProcess:
    """Lists, hears, makes passes. Whatever it remembers dies with it."""

    def __init__(
        self,
        cluster: FakeCluster,
        home: FakeHome,
        clock: FakeClock,
        *,
        backends: Callable[[], Backends],
        settings: OperatorSettings,
        authority: Authority,
    ) -> None:
        self.passes = 0
        self.errors: list[str] = []
        self.defects: list[BaseException] = []
        self.parts = assemble(
            door=cluster,
            movers=home,
            settings=settings,
            backends=backends,
            authority=authority,
            clock=clock,
            monotonic=clock.monotonic,
        )
        # The same jitter in every run, or runs could not be compared.
        self.parts.queue._random = random.Random(0)  # noqa: S311
        self._reconcile = self.parts.reconciler.reconcile
        self.parts.workers._reconciler = self  # type: ignore[assignment]

    async def reconcile(self, key: Key) -> Outcome:
        """One pass, with a note of what it raised; the worker does with it what it always does."""
        self.passes += 1
        try:
            return await self._reconcile(key)
        except SandholdError as error:
            self.errors.append(f"{key.kind} {key.name}: {type(error).__name__}: {error}")
            raise
        except Exception as error:
            self.defects.append(error)
            raise

    def end(self) -> None:
        """The process is gone."""
        self.parts.queue.close()

    async def start(self) -> None:
        """The first lists; what they hold is looked at."""
        await self.list_everything()

    async def list_everything(self) -> None:
        """A relist of every kind: whatever no watch told is routed like an event."""
        await self.parts.facts.refresh()
        for watched in self.parts.kinds:
            await self.parts.relister.list_once(watched.resource.kind)

    def hear(self, event: str, document: Document) -> None:
        """An event of the API server, if one of the watches selects its object."""
        for watched in self.parts.kinds:
            labels = document["metadata"].get("labels", {})
            if watched.resource.kind == document["kind"] and selects(watched.selector, labels):
                if event == "DELETED":
                    self.parts.router.deleted(document)
                else:
                    self.parts.router.changed(document, is_listed=False)

    @property
    def next_wake(self) -> datetime | None:
        """When a delayed key is due."""
        due = min(self.parts.queue._due.values(), default=None)
        return None if due is None else START + timedelta(seconds=due)

    async def step(self) -> bool:
        """One pass, if one is due."""
        self.parts.queue.wake()
        if not self.parts.queue.depth:
            return False
        await self.parts.workers.work_once()
        return True
