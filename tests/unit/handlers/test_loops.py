"""The operator's own loops: each is hung where it could hang, and the probe turns; while one only waits it does not."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandhold import metrics
from sandhold.backends.load import BackendsInForce
from sandhold.cluster.certificates import make_authority, new_key
from sandhold.cluster.movers import MoverConnections
from sandhold.errors import UnavailableError
from sandhold.handlers import loops, sweeper
from sandhold.handlers.assembly import assemble, utc_now
from sandhold.handlers.loops import Operator
from sandhold.heartbeats import Beat, Heartbeats
from sandhold.probes import Health
from sandhold.settings import OperatorSettings
from testkit import worlds
from testkit.hanging import Hanging, running, turns

SETTINGS = OperatorSettings(namespace="system", keeper_image="keeper:1")
RELOADED = "the new backends file is not in force"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Away:
    """An API server or a mover that is away, and says so at once."""

    def __getattr__(self, _: str) -> Callable[..., Awaitable[Any]]:
        async def answer(*_: Any, **__: Any) -> Any:
            raise UnavailableError("away")

        return answer


class Bench:
    """An operator that runs none of its loops yet, and the clock that its signs of life go by."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.path = path
        self.write("demo")
        self.backends = BackendsInForce(path, "unused")
        authority = make_authority(utc_now(), new_key(), Ed25519PrivateKey.generate())
        away: Any = Away()
        movers = MoverConnections(away.dial)
        self.parts = assemble(
            door=away,
            movers=movers,
            settings=SETTINGS,
            backends=self.backends.current,
            authority=authority,
            heartbeats=Heartbeats(self.clock),
        )
        self.operator = Operator(
            door=away,
            movers=movers,
            parts=self.parts,
            pump=away,
            settings=SETTINGS,
            backends=self.backends,
            authority=authority,
            election=away,
        )
        self.health = Health(
            cache=self.parts.cache,
            queue=self.parts.queue,
            heartbeats=self.parts.heartbeats,
            kinds=(),
            list_seconds=300,
            is_able=lambda: True,
            clock=self.clock,
        )

    def write(self, installation_id: str) -> None:
        self.path.write_text(yaml.safe_dump({**worlds.BACKENDS, "installation_id": installation_id}))

    def after(self, seconds: float) -> list[str]:
        """What is dead so much later, the event loop apart."""
        self.clock.now += seconds
        self.health._beaten = self.clock()
        return self.health.dead()

    def beat(self, name: str) -> Beat:
        return self.parts.heartbeats._beats[name]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "backends.yaml")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what a loop leaves behind is no event
            await asyncio.sleep(0.01)


async def test_facts_that_are_read_without_end_turn_the_probe(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "FACTS_SECONDS", 0.0)
    hanging = Hanging()
    monkeypatch.setattr(bench.parts.facts, "refresh", hanging)
    with running(bench.operator._follow_facts()):
        await hanging.reached()
        assert bench.after(loops.ENDING_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `facts`")


async def test_a_backends_file_that_is_read_without_end_turns_the_probe(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that does not answer holds a thread, which nothing can end: the process has to."""
    monkeypatch.setattr(loops, "RELOAD_SECONDS", 0.0)
    began, released = threading.Event(), threading.Event()

    def read() -> None:
        began.set()
        assert released.wait(30)
        raise UnavailableError("released")

    monkeypatch.setattr(bench.backends, "reload", read)
    try:
        with running(bench.operator._follow_backends()):
            await until(began.is_set)
            assert bench.after(loops.ENDING_SECONDS - 1) == []
            [said] = bench.after(2)
            assert said.startswith("loop `backends`")
    finally:
        released.set()


async def test_a_certificate_that_is_made_without_end_turns_the_probe(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    monkeypatch.setattr(loops, "ensure_mover_tls", hanging)
    with running(bench.operator._renew_mover_tls()):
        await hanging.reached()
        assert bench.after(loops.ENDING_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `certificate`")


async def test_a_sweep_that_is_not_to_be_ended_turns_the_probe(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep has a limit; what could hang is what does not heed it."""
    hanging = Hanging()
    monkeypatch.setattr(bench.parts.sweeper, "_settings", SETTINGS.model_copy(update={"sweep_interval_seconds": 0.0}))
    monkeypatch.setattr(bench.parts.sweeper, "sweep_once", hanging)
    with running(bench.operator._sweep()):
        await hanging.reached()
        assert bench.after(2 * sweeper.LONGEST_SWEEP_SECONDS - 1) == []
        [said] = bench.after(2)
        assert said.startswith("loop `sweep`")


@pytest.mark.parametrize(
    ("loop", "name", "pause"),
    [
        ("_follow_facts", "facts", loops.FACTS_SECONDS),
        ("_follow_backends", "backends", loops.RELOAD_SECONDS),
        ("_renew_mover_tls", "certificate", loops.RENEWAL_SECONDS),
        ("_sweep", "sweep", SETTINGS.sweep_interval_seconds * 0.9),
    ],
)
async def test_a_loop_that_waits_for_its_next_turn_does_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, loop: str, name: str, pause: float
) -> None:
    async def ensured(*_: object) -> None:
        return

    monkeypatch.setattr(loops, "ensure_mover_tls", ensured)
    with running(getattr(bench.operator, loop)()):
        await turns()
        assert bench.beat(name).age == 0, "it begins with a sign of life"
        assert bench.after(pause) == []
        assert bench.after(loops.ENDING_SECONDS - 1) == [], "the turn itself may take its time"
        assert bench.after(3_600)[0].startswith(f"loop `{name}`"), "but not for ever"


@pytest.mark.parametrize(
    ("loop", "name", "constant"),
    [
        ("_follow_facts", "facts", "FACTS_SECONDS"),
        ("_follow_backends", "backends", "RELOAD_SECONDS"),
        ("_renew_mover_tls", "certificate", "FACTS_SECONDS"),
    ],
)
async def test_a_loop_whose_every_turn_fails_is_heard_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, loop: str, name: str, constant: str
) -> None:
    """An API server that is away, and a file that is wrong: a new process would change nothing."""
    monkeypatch.setattr(loops, constant, 0.01)
    bench.path.write_text("nonsense: true")
    with running(getattr(bench.operator, loop)()) as task:
        await until(lambda: name in bench.parts.heartbeats.ages())
        bench.clock.now += 10_000
        await until(lambda: bench.beat(name).age == 0)
        assert not task.done()
    assert bench.after(0) == []


async def test_a_new_installation_id_is_refused_told_once_and_leaves_the_old_one_in_force(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is watched is chosen by the id that was there at the start."""
    monkeypatch.setattr(loops, "RELOAD_SECONDS", 0.01)
    woken: list[object] = []
    monkeypatch.setattr(bench.parts.router, "wake_all", woken.append)
    bench.write("other")
    with running(bench.operator._follow_backends()):
        await until(lambda: bench.backends.problems != ())
        await until(lambda: metrics.BACKENDS_STALE._value.get() == 1)
        bench.clock.now += 100
        await until(lambda: bench.beat("backends").age == 0)
        assert bench.backends.current().installation_id == "demo"
        assert bench.parts.facts.current().id == "demo"
        bench.write("demo")
        await until(lambda: metrics.BACKENDS_STALE._value.get() == 0)
    assert woken == []
    [told] = [record.problems for record in caplog.records if record.message == RELOADED]  # type: ignore[attr-defined]
    assert told.startswith("installation_id: is other, and this process began with demo")
    assert "put demo back" in told
    assert "restart" in told
