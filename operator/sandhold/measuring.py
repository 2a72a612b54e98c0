"""What finished passes tell about starts, stops, refusals and bytes: observed state in, metrics out.

Every moment is one that a pass saw anyway (its world, its outcome), so measuring costs no request and no write. What is
remembered between passes is bounded and may be lost: a start that this process did not see begin is not measured.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client import Counter

from sandhold import metrics
from sandhold.api.meta import Condition
from sandhold.api.session import REST
from sandhold.cluster.apply import Outcome
from sandhold.cluster.memory import Recent
from sandhold.desired.plan import Plan
from sandhold.desired.world import Manifest, Present, SandboxWorld, SessionWorld
from sandhold.reasons import ACCEPTED, SNAPSHOTTED, RefusalCode, camel_case, known_code

_CODES = {camel_case(code): str(code) for code in RefusalCode}


@dataclass(slots=True)
class _Start:
    since: float
    posted: float | None = None
    home: float | None = None


@dataclass(slots=True)
class _Stop:
    since: float
    archived: bool = False


class Measured:
    """Told of every pass that went through; keeps what belongs to starts and stops under way."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: Recent[str, _Start] = Recent()
        self._stops: Recent[str, _Stop] = Recent()

    def session(self, world: SessionWorld, plan: Plan, outcome: Outcome, began: float) -> None:
        """A pass over a session was made; `began` is when, on this clock."""
        before, after = world.session.status, _after(plan, outcome)
        phase = before.phase if after is None else after.get("phase")
        uid, tier = world.session.metadata.uid, _tier(world, after)
        if after is not None:
            self._count(world, after, tier)
        if phase == "Starting" and before.phase != "Starting":
            self._starts.put(uid, _Start(began))
        start, stop = self._starts.get(uid), self._stops.get(uid)
        if start is not None:
            self._follow_start(start, world, outcome, tier)
            if phase != "Starting":
                self._starts.pop(uid)
                self._end_start(start, tier, is_ready=phase == "Ready")
        if phase == "Stopping" and stop is None:
            stop = _Stop(began if before.phase != "Stopping" else self._stopping_since(world, began))
            self._stops.put(uid, stop)
        if stop is not None:
            is_gone = phase in REST or plan.finalizer_remove is not None
            self._follow_stop(stop, world, tier, is_gone=is_gone)
            if is_gone or phase != "Stopping":
                self._stops.pop(uid)

    def sandbox(self, world: SandboxWorld, plan: Plan, outcome: Outcome) -> None:
        """A pass over an AgentSandbox was made."""
        after = _after(plan, outcome)
        if after is None:
            return
        known = {each.type: each for each in world.sandbox.status.conditions}
        for condition in after.get("conditions") or ():
            code, was = _CODES.get(condition.get("reason", "")), known.get(ACCEPTED)
            is_new = was is None or was.reason != condition.get("reason")
            if condition.get("type") == ACCEPTED and condition.get("status") == "False" and code and is_new:
                metrics.REFUSALS.labels("AgentSandbox", code).inc()

    def _count(self, world: SessionWorld, after: Mapping[str, Any], tier: str) -> None:
        """What a written status says for the first time."""
        before, phase = world.session.status, after.get("phase")
        code = (after.get("refusal") or {}).get("code")
        if code and (before.refusal is None or before.refusal.code != code):
            metrics.REFUSALS.labels("SandboxSession", known_code(code) or "other").inc()
        if phase and phase != before.phase:
            metrics.TRANSITIONS.labels(phase).inc()
        metrics.PODS_LOST.inc(max(0, (after.get("restarts") or 0) - (before.restarts or 0)))
        if phase == "Ready" and before.phase != "Ready":
            metrics.STARTED.labels(tier, after.get("recovery") or "Initialized").inc()
            _count_restored(world, after)
        if "Stopping" not in (phase, before.phase):
            _count_recovery_point(world, after)

    def _follow_start(self, start: _Start, world: SessionWorld, outcome: Outcome, tier: str) -> None:
        if outcome.posted_at is not None:
            start.posted, start.home = outcome.posted_at, None
            if outcome.seen_to_post_ms is not None:
                start.since = min(start.since, start.posted - outcome.seen_to_post_ms / 1000)
            metrics.START_SECONDS.labels("post", tier).observe(max(0.0, start.posted - start.since))
        elif start.posted is not None and start.home is None:
            start.home = self._home_since(world, start.posted)
            if start.home is not None:
                metrics.START_SECONDS.labels("home", tier).observe(start.home - start.posted)

    def _end_start(self, start: _Start, tier: str, *, is_ready: bool) -> None:
        if is_ready and start.posted is not None:
            now = self._clock()
            if start.home is not None:
                metrics.START_SECONDS.labels("gate", tier).observe(now - start.home)
            metrics.START_SECONDS.labels("total", tier).observe(now - start.since)

    def _home_since(self, world: SessionWorld, posted: float) -> float | None:
        """When the keeper of this start's pod was first heard of, on our clock."""
        now = self._clock()
        since = [
            now - (world.now - keeper.connected_since).total_seconds()
            for keeper in world.keepers.values()
            if keeper.connected and keeper.connected_since is not None
        ]
        # A keeper of an earlier pod was home before this pod was posted.
        return min((moment for moment in since if moment >= posted), default=None)

    def _stopping_since(self, world: SessionWorld, began: float) -> float:
        """When a stop began that an earlier process began: to the second, which is what the status keeps."""
        begun = _transition(world.session.status.conditions, SNAPSHOTTED)
        return began if begun is None else began - max(0.0, (world.now - begun).total_seconds())

    def _follow_stop(self, stop: _Stop, world: SessionWorld, tier: str, *, is_gone: bool) -> None:
        elapsed = self._clock() - stop.since
        manifest = _final_archive(world) if not stop.archived else None
        if manifest is not None:
            stop.archived = True
            _count_archive(manifest)
            metrics.STOP_SECONDS.labels("archived", tier).observe(elapsed)
        if is_gone:
            metrics.STOP_SECONDS.labels("gone", tier).observe(elapsed)


def _after(plan: Plan, outcome: Outcome) -> Mapping[str, Any] | None:
    """The status that the pass wrote; None when it wrote none."""
    return plan.status if outcome.wrote_status else None


def _tier(world: SessionWorld, after: Mapping[str, Any] | None) -> str:
    """A status can be written by others too: only a name that the backends file has becomes a label."""
    tier = (after or {}).get("tier") or world.session.status.tier
    return tier if tier in world.installation.backends.tiers else "other"


def _transition(conditions: tuple[Condition, ...], kind: str) -> datetime | None:
    return next((each.last_transition_time for each in conditions if each.type == kind), None)


def _final_archive(world: SessionWorld) -> Manifest | None:
    content = world.history.value.content if isinstance(world.history, Present) else None
    slot = world.session.status.slot
    is_this = content is not None and slot is not None and content.epoch == slot.epoch and content.final
    return content if is_this else None


def _manifests(world: SessionWorld) -> Mapping[tuple[int, int], Manifest]:
    """The archives that the store was heard to hold in this pass."""
    history = world.history.value if isinstance(world.history, Present) else None
    known = (history.head, history.content) if history is not None else ()
    return {(each.epoch, each.sequence): each for each in known if each is not None and each.kind == "Archive"}


def _count_recovery_point(world: SessionWorld, after: Mapping[str, Any]) -> None:
    """An archive of this epoch that status names for the first time; that of a stop is counted when it is seen."""
    point, before, slot = after.get("snapshot") or {}, world.session.status.snapshot, world.session.status.slot
    number = (point.get("epoch", -1), point.get("sequence", -1))
    is_new = before is None or number != (before.epoch, before.sequence)
    # What a start restores stays or becomes its recovery point as well, and is not made by it.
    is_made_now = slot is not None and number[0] == slot.epoch
    manifest = _manifests(world).get(number) if is_new and is_made_now else None
    if manifest is not None:
        _count_archive(manifest)


def _count_archive(manifest: Manifest) -> None:
    metrics.ARCHIVES.labels("final" if manifest.final else "checkpoint").inc()
    _add(metrics.ARCHIVED_BYTES, manifest)


def _count_restored(world: SessionWorld, after: Mapping[str, Any]) -> None:
    reports = [keeper.report for keeper in world.keepers.values() if keeper.report is not None]
    sources = {report.marker_source for report in reports if report.marker_source is not None}
    if after.get("recovery") in ("Restored", "Repaired"):
        for manifest in (each for number, each in _manifests(world).items() if number in sources):
            _add(metrics.RESTORED_BYTES, manifest)


def _add(counter: Counter, manifest: Manifest) -> None:
    counter.labels("content").inc(manifest.bytes)
    counter.labels("stored").inc(manifest.stored_bytes)
