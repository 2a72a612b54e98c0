"""Alive and ready, judged."""

import asyncio

from sandhold.cluster.cache import Cache
from sandhold.probes import MOST_LAG_SECONDS, MOST_WAIT_SECONDS, Health
from sandhold.workqueue import Key, WorkQueue

KINDS = ("Pod", "SandboxSession")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    def __init__(self) -> None:
        self.clock = Clock()
        self.cache = Cache(clock=self.clock)
        self.queue = WorkQueue(clock=self.clock)
        self.health = Health(self.cache, self.queue, KINDS, 300, self.clock)

    def beat(self) -> None:
        self.health._beaten = self.clock()


def test_ready_is_when_every_kind_was_listed() -> None:
    bench = Bench()
    assert bench.health.unready() == [f"{kind} objects were not listed yet" for kind in KINDS]
    bench.cache.replace_all("Pod", [], "1")
    assert bench.health.unready() == ["SandboxSession objects were not listed yet"]
    bench.cache.replace_all("SandboxSession", [], "1")
    assert bench.health.unready() == []


def test_a_loop_that_does_not_turn_is_dead() -> None:
    bench = Bench()
    assert bench.health.dead() == []
    bench.clock.now += MOST_LAG_SECONDS + 1
    assert "event loop" in bench.health.dead()[0]


def test_lists_that_stop_are_deadly() -> None:
    bench = Bench()
    bench.cache.replace_all("Pod", [], "1")
    bench.clock.now += 1300
    bench.beat()
    assert "Pod objects were not listed" in bench.health.dead()[0]


async def test_keys_that_nobody_takes_are_deadly_only_for_the_active_one() -> None:
    bench = Bench()
    bench.queue.add(Key("SandboxSession", "a", "one"))
    bench.queue.add(Key("SandboxSession", "a", "two"))
    bench.clock.now += 3600
    bench.beat()
    assert bench.health.dead() == [], "a standby takes none"
    bench.health.activate()
    bench.clock.now += MOST_WAIT_SECONDS - 1
    bench.beat()
    assert bench.health.dead() == [], "what waited before the activation waited for it"
    bench.clock.now += 2
    bench.beat()
    assert "no worker" in bench.health.dead()[0]
    await bench.queue.get()
    assert bench.health.dead() == [], "a long line that moves is no stall"


async def test_the_heart_beats() -> None:
    bench = Bench()
    bench.health._beaten = 0
    beating = asyncio.create_task(bench.health.beat())
    async with asyncio.timeout(5):
        while bench.health._beaten == 0:  # noqa: ASYNC110 - a loop that publishes a number, no event
            await asyncio.sleep(0.05)
    beating.cancel()
