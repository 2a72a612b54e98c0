"""Every outcome of a pass becomes the right delay, and none ends a worker."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandhold.cluster.apply import Outcome
from sandhold.cluster.cache import Cache
from sandhold.desired.plan import Event
from sandhold.desired.world import KubeObject
from sandhold.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from sandhold.handlers.workers import MOST_IN_A_ROW, PERSON_SECONDS, Workers
from sandhold.workqueue import Key, WorkQueue

KEY = Key("SandboxSession", "a", "one")
OBJECT: dict[str, Any] = {
    "apiVersion": "sandhold.dev/v1alpha1",
    "kind": "SandboxSession",
    "metadata": {"namespace": "a", "name": "one", "uid": "u", "resourceVersion": "1"},
}


@dataclass
class Bench:
    """Workers on a reconciler that does what a test says."""

    passes: Callable[[], Outcome]
    now: float = 100.0
    told: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(clock=lambda: self.now)
        self.cache = Cache()
        self.cache.put(OBJECT)
        self.workers = Workers(self.queue, self, self.cache, self)  # type: ignore[arg-type]

    async def reconcile(self, _: Key) -> Outcome:
        return self.passes()

    async def record(self, _subject: KubeObject, events: list[Event], _now: object) -> None:
        self.told += events

    async def once(self) -> None:
        self.queue.add(KEY)
        await self.workers.work_once()

    @property
    def delay(self) -> float | None:
        """Seconds until the key comes again: 0 at once, None never."""
        if self.queue.depth:
            return 0.0
        due = self.queue._due.get(KEY)
        return None if due is None else due - self.now


def raising(error: BaseException) -> Callable[[], Outcome]:
    def fail() -> Outcome:
        raise error

    return fail


async def test_a_settled_pass_rests_or_wakes_when_it_said() -> None:
    bench = Bench(Outcome)
    await bench.once()
    assert bench.delay is None
    bench.passes = lambda: Outcome(wake_after=7.0)
    await bench.once()
    assert bench.delay == pytest.approx(7.0)
    bench.queue.close()


async def test_a_pass_that_changed_something_is_followed_at_once() -> None:
    bench = Bench(lambda: Outcome(again=True, wake_after=7.0))
    await bench.once()
    assert bench.delay == 0


async def test_a_plan_that_never_settles_is_slowed_down() -> None:
    bench = Bench(lambda: Outcome(again=True))
    for _ in range(MOST_IN_A_ROW):
        await bench.once()
        assert bench.delay == 0
    await bench.once()
    assert bench.delay is not None
    assert bench.delay >= PERSON_SECONDS
    bench.queue.close()


@pytest.mark.parametrize("error", [ConflictError("moved on"), NotFoundError("gone")])
async def test_a_world_that_moved_on_is_looked_at_again_soon(error: Exception) -> None:
    bench = Bench(raising(error))
    await bench.once()
    assert bench.delay is not None
    assert bench.delay < 0.1
    bench.queue.close()


async def test_a_server_that_asks_for_time_gets_it() -> None:
    bench = Bench(raising(UnavailableError("busy", retry_after=30.0)))
    await bench.once()
    assert bench.delay == pytest.approx(30.0)
    bench.queue.close()


@pytest.mark.parametrize("error", [ForbiddenError("no right"), InvalidError("no sense")])
async def test_what_needs_a_person_is_said_to_people(error: Exception) -> None:
    bench = Bench(raising(error))
    await bench.once()
    assert bench.delay is not None
    assert bench.delay >= PERSON_SECONDS
    assert [(e.type, e.message) for e in bench.told] == [("Warning", str(error))]
    bench.queue.close()


async def test_a_defect_is_logged_whole_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(raising(ZeroDivisionError("a defect")))
    with caplog.at_level(logging.CRITICAL):
        await bench.once()
    assert caplog.records[0].exc_info is not None
    assert bench.delay is not None
    bench.passes = Outcome
    await bench.once()
    assert bench.delay is None
    bench.queue.close()


async def test_a_good_pass_starts_the_back_off_anew() -> None:
    bench = Bench(raising(ConflictError("moved on")))
    for _ in range(8):
        await bench.once()
    slow = bench.delay
    bench.passes = Outcome
    await bench.once()
    bench.passes = raising(ConflictError("moved on"))
    await bench.once()
    assert slow is not None
    assert bench.delay is not None
    assert bench.delay < slow / 4
    bench.queue.close()
