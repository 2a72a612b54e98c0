"""The loop of sweeps: it goes on whatever a sweep meets, says that it lives, and ends when it is told to."""

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from sandhold.cluster.recorder import Recorder
from sandhold.errors import UnavailableError
from sandhold.handlers.sweeper import LONGEST_SWEEP_SECONDS, Sweeper, SweepReport
from sandhold.settings import OperatorSettings
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster

QUICK = OperatorSettings(namespace="home", keeper_image="keeper:1").model_copy(update={"sweep_interval_seconds": 0.001})


class Scripted(Sweeper):
    """Its sweeps do what a test says, the last of it again and again."""

    def __init__(self, *script: BaseException | None, settings: OperatorSettings = QUICK) -> None:
        door = FakeCluster(FakeClock())
        super().__init__(
            door=door,
            recorder=Recorder(door, "operator-1"),
            settings=settings,
            installation_id=lambda: "demo",
            leads=lambda: True,
            clock=lambda: datetime.now(UTC),
        )
        self._script = list(script)
        self.dry: list[bool] = []
        self.enough = asyncio.Event()

    async def sweep_once(self, *, dry_run: bool = False) -> SweepReport:
        """As the script says."""
        self.dry.append(dry_run)
        if len(self.dry) > len(self._script):
            self.enough.set()
            return await super().sweep_once(dry_run=dry_run)
        error = self._script[len(self.dry) - 1]
        if error is not None:
            raise error
        return await super().sweep_once(dry_run=dry_run)


async def run_until_enough(sweeper: Scripted) -> list[float]:
    beats: list[float] = []
    running = asyncio.create_task(sweeper.run(beats.append))
    await asyncio.wait_for(sweeper.enough.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return beats


async def test_no_error_of_a_sweep_ends_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    sweeper = Scripted(UnavailableError("no answer"), TimeoutError(), ValueError("a defect"), None)
    beats = await run_until_enough(sweeper)
    assert len(beats) >= 5
    assert min(beats) > LONGEST_SWEEP_SECONDS, "a sweep may take that long before its loop is called late"
    levels = [record.levelno for record in caplog.records if record.name == "sandhold.handlers.sweeper"]
    assert levels == [logging.WARNING, logging.WARNING, logging.CRITICAL]


async def test_an_operator_that_only_reports_makes_dry_sweeps() -> None:
    sweeper = Scripted(settings=QUICK.model_copy(update={"sweep_dry_run": True}))
    await run_until_enough(sweeper)
    assert set(sweeper.dry) == {True}
