"""Alive and ready, judged; each loop of the operator is hung in turn, and the probe turns."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandhold.cluster.cache import Cache
from sandhold.cluster.election import TURN_SECONDS, Election
from sandhold.cluster.kinds import RESOURCES
from sandhold.cluster.movers import MATCH_SECONDS, MoverConnections
from sandhold.errors import UnavailableError
from sandhold.handlers import relist
from sandhold.handlers.pump import WatchedKind
from sandhold.handlers.relist import Relister
from sandhold.handlers.workers import ENDING_SECONDS, PASS_SECONDS, Workers
from sandhold.heartbeats import Heartbeats
from sandhold.probes import MOST_LAG_SECONDS, MOST_WAIT_SECONDS, Health
from sandhold.workqueue import Key, WorkQueue
from testkit.hanging import Hanging, running, turns

KINDS = ("Pod", "SandboxSession")
KEY = Key("SandboxSession", "a", "one")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A judge, and the clock that it and the loops go by."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cache = Cache(clock=self.clock)
        self.queue = WorkQueue(clock=self.clock)
        self.heartbeats = Heartbeats(self.clock)
        self.is_able = True
        self.health = Health(
            cache=self.cache,
            queue=self.queue,
            heartbeats=self.heartbeats,
            kinds=KINDS,
            list_seconds=300,
            is_able=lambda: self.is_able,
            clock=self.clock,
        )

    def beat(self) -> None:
        self.health._beaten = self.clock()

    def after(self, seconds: float) -> list[str]:
        """What is dead so much later, the event loop apart."""
        self.clock.now += seconds
        self.beat()
        return self.health.dead()


def test_ready_is_when_every_kind_was_listed() -> None:
    bench = Bench()
    assert bench.health.unready() == [f"{kind} objects were not listed yet" for kind in KINDS]
    bench.cache.replace_all("Pod", [], "1")
    assert bench.health.unready() == ["SandboxSession objects were not listed yet"]
    bench.cache.replace_all("SandboxSession", [], "1")
    assert bench.health.unready() == []


def test_one_who_can_neither_lead_nor_stand_by_is_not_ready() -> None:
    bench = Bench()
    for kind in KINDS:
        bench.cache.replace_all(kind, [], "1")
    bench.is_able = False
    assert "election Lease" in bench.health.unready()[0]


def test_a_loop_that_does_not_turn_is_dead() -> None:
    bench = Bench()
    assert bench.health.dead() == []
    bench.clock.now += MOST_LAG_SECONDS + 1
    assert "event loop" in bench.health.dead()[0]


def test_lists_that_stop_are_deadly() -> None:
    bench = Bench()
    bench.cache.replace_all("Pod", [], "1")
    assert "Pod objects were not listed" in bench.after(1300)[0]


async def test_keys_that_nobody_takes_are_deadly_only_for_the_active_one() -> None:
    bench = Bench()
    bench.queue.add(Key("SandboxSession", "a", "one"))
    bench.queue.add(Key("SandboxSession", "a", "two"))
    assert bench.after(3600) == [], "a standby takes none"
    bench.health.activate()
    assert bench.after(MOST_WAIT_SECONDS - 1) == [], "what waited before the activation waited for it"
    assert "no worker" in bench.after(2)[0]
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


# Each loop, hung where it could hang.


async def test_a_worker_that_hangs_in_a_pass_turns_the_probe_and_one_without_work_does_not() -> None:
    bench, hanging = Bench(), Hanging()
    workers = Workers(bench.queue, Calling(hanging), bench.cache, Calling(hanging), heartbeats=bench.heartbeats)  # type: ignore[arg-type]
    with running(workers.run(2)):
        await turns()
        assert bench.after(1_000) == [], "no work, no sign of life, no fault"
        bench.queue.add(KEY)
        await hanging.reached()
        assert bench.after(PASS_SECONDS + ENDING_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `workers 0`")


async def test_a_list_that_hangs_turns_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relist, "AFTER_START_SECONDS", 0.0)
    bench, hanging = Bench(), Hanging()
    kind = WatchedKind(RESOURCES["Pod"])
    relister = Relister(Calling(hanging), bench.cache, Routing(), (kind,), 300, heartbeats=bench.heartbeats)  # type: ignore[arg-type]
    with running(relister.run()):
        await hanging.reached()
        assert bench.after(relist.LIST_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `lists Pod`")


@pytest.mark.parametrize("is_leader", [True, False])
async def test_an_election_that_hangs_turns_the_probe(*, is_leader: bool) -> None:
    bench, hanging = Bench(), Hanging()
    election = Election(Calling(hanging), "system", "one", 1.0, bench.clock, heartbeats=bench.heartbeats)  # type: ignore[arg-type]
    assert bench.after(10_000) == [], "before it begins nobody waits for it"
    if is_leader:
        election._held, election._renewed = {"spec": {}, "metadata": {}}, bench.clock.now + 10_000
        election._renew_once = hanging  # type: ignore[method-assign]
    with running(election.hold() if is_leader else election.acquire()):
        await hanging.reached()
        assert bench.after(TURN_SECONDS - 1) == []
        [said] = bench.after(3)
        assert said.startswith("loop `election`")


async def test_links_that_do_not_end_turn_the_probe() -> None:
    bench, hanging = Bench(), Hanging()
    movers = MoverConnections(Calling(hanging), heartbeats=bench.heartbeats)  # type: ignore[arg-type]
    movers._match_links = hanging  # type: ignore[method-assign]
    with running(movers.run()):
        await turns()
        assert bench.after(10_000) == [], "nothing changes for as long as it likes"
        movers.set_endpoints(["10.0.0.1:7444"])
        await hanging.reached()
        assert bench.after(MATCH_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `movers`")


async def test_a_link_that_hangs_in_a_dial_turns_the_probe_and_one_that_is_given_up_does_not() -> None:
    bench, hanging = Bench(), Hanging()
    movers = MoverConnections(Calling(hanging), heartbeats=bench.heartbeats)  # type: ignore[arg-type]
    movers.set_endpoints(["10.0.0.1:7444"])
    with running(movers.run()), pytest.MonkeyPatch.context() as patch:
        # A dial has a limit of its own; what could hang is what nobody thought of.
        patch.setattr("sandhold.cluster.mover_link.MoverLink._run", hanging)
        await hanging.reached()
        assert bench.after(99) == []
        [said] = bench.after(2)
        assert said.startswith("loop `movers 10.0.0.1:7444`")
        movers.set_endpoints([])
        async with asyncio.timeout(5):
            while bench.heartbeats.late():  # noqa: ASYNC110 - a task's end, seen from outside
                await asyncio.sleep(0.01)


class Holding:
    """An API server where another one holds the Lease, while it answers."""

    answers = True

    async def get(self, _: object) -> dict[str, Any]:
        if not self.answers:
            raise UnavailableError("away")
        return {
            "metadata": {"resourceVersion": "1"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 100_000},
        }


async def test_a_standby_is_able_while_it_reads_the_lease() -> None:
    clock, door = Clock(), Holding()
    election = Election(door, "system", "one", 15, clock)  # type: ignore[arg-type]
    assert not election.is_able, "nothing is known yet"
    assert not await election.try_acquire()
    assert election.is_able
    assert not election.is_held
    door.answers = False
    clock.now += 70
    with pytest.raises(UnavailableError):
        await election.try_acquire()
    assert election.is_able, "a short outage takes nothing away"
    clock.now += 10
    assert not election.is_able


class Calling:
    """Whatever is asked of it, the same function answers."""

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self._function = function

    def __getattr__(self, _: str) -> Callable[..., Awaitable[Any]]:
        return self._function


class Routing:
    """What a relister sets on a router."""

    on_relisted: Callable[[str], None]
    on_event: Callable[[str], None]
