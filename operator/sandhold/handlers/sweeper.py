"""The sweep for orphans, again and again while this process leads. What it remembers of one is for the next alone.

A sweep that fails breaks the row: what was an orphan before it has to be seen twice again.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from sandhold import logs, metrics
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import POD
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.sweep import Collected, Collector, survey
from sandhold.desired.orphans import Outcome
from sandhold.desired.plan import Event, Reference
from sandhold.desired.sweeping import Seen, SweepLimits, SweepPlan, Verdict, leave_until, plan_sweep
from sandhold.desired.world import Keeper
from sandhold.errors import SandholdError
from sandhold.settings import OperatorSettings

LONGEST_SWEEP_SECONDS = 300.0
_QUIET = frozenset({Outcome.OWNED, Outcome.ENDING})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """One sweep: what was planned, and what became of it."""

    plan: SweepPlan
    collected: tuple[Collected, ...] = ()


class Sweeper:
    """Sweeps one installation."""

    def __init__(  # noqa: PLR0913 - everything that a sweep is made of
        self,
        *,
        door: Door,
        recorder: Recorder,
        settings: OperatorSettings,
        installation_id: Callable[[], str],
        leads: Callable[[], bool],
        keepers: Callable[[], Mapping[str, Keeper]] = dict,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door = door
        self._recorder = recorder
        self._settings = settings
        self._installation_id = installation_id
        self._collector = Collector(door, recorder, leads)
        self._keepers = keepers
        self._clock = clock
        self._monotonic = monotonic
        self._seen: Mapping[str, Seen] = {}
        self._told: Mapping[str, Outcome] = {}

    async def run(self, beat: Callable[[float], None] = lambda _: None) -> None:
        """Sweep until cancelled. No error ends it: the next sweep begins from nothing. `beat` is its sign of life."""
        while True:
            pause = self._settings.sweep_interval_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
            beat(pause + 2 * LONGEST_SWEEP_SECONDS)
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(LONGEST_SWEEP_SECONDS):
                    await self.sweep_once(dry_run=self._settings.sweep_dry_run)
            except (SandholdError, TimeoutError) as error:
                _log.warning("a sweep did not come to its end", extra={"error": str(error) or type(error).__name__})
            except Exception:  # noqa: BLE001 - a defect in the sweep must not end the operator
                _log.critical("a sweep failed by a defect of ours", exc_info=True)

    async def sweep_once(self, *, dry_run: bool = False) -> SweepReport:
        """One sweep. A dry one deletes nothing and is like any other in all that it reads, decides and remembers."""
        before, self._seen = self._seen, {}
        installation_id = self._installation_id()
        seen = replace(await survey(self._door, installation_id), leave_until=leave_until(self._keepers()))
        limits = SweepLimits(self._settings.sweep_grace_seconds, self._settings.sweep_breaker_share)
        now = self._clock()
        plan = plan_sweep(seen, before, limits, now, self._monotonic())
        self._seen = plan.seen
        self._tell(plan, is_dry=dry_run)
        if plan.stopped is not None:
            await self._tell_stop(plan.stopped, now)
        done = [] if dry_run else [await self._collect(verdict, installation_id, now) for verdict in plan.collect]
        self._count(plan, done)
        return SweepReport(plan, tuple(done))

    async def _collect(self, verdict: Verdict, installation_id: str, now: datetime) -> Collected:
        one = await self._collector.collect(verdict, installation_id, now)
        with _about(verdict):
            _log.warning("an orphan", extra={**_evidence(verdict), "outcome": one.result, "said": one.message})
        return one

    def _tell(self, plan: SweepPlan, *, is_dry: bool) -> None:
        """Everything remarkable once, when it becomes so; a sweep that changes nothing is silent."""
        remarkable = {each.sighting.uid: each for each in plan.verdicts if each.outcome not in _QUIET}
        for uid, verdict in remarkable.items():
            if self._told.get(uid) is not verdict.outcome:
                with _about(verdict):
                    _log.info("judged by a sweep", extra={**_evidence(verdict), "dry_run": is_dry})
        self._told = {uid: verdict.outcome for uid, verdict in remarkable.items()}
        for kind, why in plan.unread.items():
            _log.warning("a sweep could not list a kind", extra={"kind": kind, "error": why})

    async def _tell_stop(self, why: str, now: datetime) -> None:
        """Where people look: the operator's own pod, when it runs in one."""
        message = (
            f"The sweep was stopped: {why}. Look with `sandhold sweep --dry-run`. When these are leftovers indeed, "
            "raise operator.sweep.breakerShare of the chart until they are gone."
        )
        _log.error("a sweep was stopped", extra={"why": why})
        own = Reference("v1", POD, self._settings.namespace, self._settings.pod_name)
        try:
            pod = await self._door.get(own)
        except SandholdError as error:
            _log.warning("the operator's own pod could not be read", extra={"error": str(error)})
        else:
            await self._recorder.record({**pod, "apiVersion": "v1", "kind": POD}, [_stop_event(message)], now)

    def _count(self, plan: SweepPlan, done: Sequence[Collected]) -> None:
        results = {one.verdict.sighting.uid: one.result for one in done}
        for verdict in plan.verdicts:
            sighting = verdict.sighting
            is_held = plan.stopped is not None and verdict.outcome is Outcome.COLLECT
            outcome = results.get(sighting.uid) or ("Stopped" if is_held else str(verdict.outcome))
            metrics.SWEEP_OBJECTS.labels(sighting.reference.kind, outcome).inc()
        metrics.SWEEP_BREAKER_OPEN.set(plan.stopped is not None)
        if not plan.unread:
            metrics.SWEEP_LAST_SUCCESS.set(self._clock().timestamp())


def _stop_event(message: str) -> Event:
    return Event("Warning", "SweepStopped", message)


def _about(verdict: Verdict) -> AbstractContextManager[None]:
    """What log lines within are about."""
    reference = verdict.sighting.reference
    return logs.about(kind=reference.kind, namespace=reference.namespace, name=reference.name, uid=verdict.sighting.uid)


def _evidence(verdict: Verdict) -> dict[str, object]:
    return {"outcome": str(verdict.outcome), "owner": str(verdict.sighting.owner), "why": verdict.message}
