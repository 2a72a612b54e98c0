"""PURE: where an object is, what it waits for and what a person can do, from the object and the operator's answer.

The answer may be missing: then status alone speaks, which says less while a start or a stop goes well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sandhold.api.meta import moment, time_text
from sandhold.api.sandbox import Lifecycle
from sandhold.api.session import REST
from sandhold.cli.reading import (
    archive_of,
    condition_of,
    conditions_of,
    numbered,
    phase_of,
    pod_of,
    refusal_of,
    spec_of,
    status_of,
)
from sandhold.cli.shapes import ConditionShape, ExplanationShape, LimitShape
from sandhold.desired.indexing import UNRECORDED
from sandhold.reasons import READY, RECONCILING, SNAPSHOTTED, STALLED

Object = Mapping[str, Any]
_DEFAULTS = Lifecycle()
_SIGNS = frozenset({STALLED, RECONCILING})
"""Conditions that are as wished when they are False."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the operator answered, or why it did not."""

    answer: Mapping[str, Any] | None
    note: str | None = None

    @property
    def steps(self) -> list[str] | None:
        """What it would do."""
        return None if self.answer is None else [str(step) for step in self.answer.get("steps") or ()]

    @property
    def wake_after(self) -> float | None:
        """When it looks again."""
        wake = (self.answer or {}).get("wakeAfterSeconds")
        return float(wake) if isinstance(wake, int | float) else None

    @property
    def observed(self) -> Mapping[str, Any]:
        """What it knew."""
        found = (self.answer or {}).get("observed")
        return found if isinstance(found, Mapping) else {}


def explain_session(raw: Object, sandbox: Object | None, told: Told) -> ExplanationShape:
    """A SandboxSession."""
    metadata, phase = raw["metadata"], phase_of(raw)
    wished = "Deleted" if "deletionTimestamp" in metadata else str(spec_of(raw).get("operatingMode") or "Running")
    return ExplanationShape(
        kind="SandboxSession",
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        phase=phase,
        wished=wished,
        summary=_summary(raw, phase, wished),
        waits_for=_waits_for(raw, phase, told.observed),
        conditions=_amiss(raw, phase),
        refusal=refusal_of(raw),
        next_steps=told.steps,
        wake_after_seconds=told.wake_after,
        source="status" if told.answer is None else "operator",
        note=told.note,
        recovery_point=archive_of(raw),
        pod=pod_of(raw),
        limits=_limits(raw, sandbox, phase),
    )


def explain_sandbox(raw: Object, told: Told) -> ExplanationShape:
    """An AgentSandbox."""
    metadata = raw["metadata"]
    ready = condition_of(raw, READY)
    is_deleted = "deletionTimestamp" in metadata
    summary = "The operator has not looked at it yet."
    if is_deleted:
        summary = "It was deleted, and goes when no session and no pod needs its walls any more."
    elif ready is not None:
        summary = "It takes sessions." if ready.status == "True" else f"It takes no sessions: {ready.message}"
    return ExplanationShape(
        kind="AgentSandbox",
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        phase=None,
        wished="Deleted" if is_deleted else "Accepted, its walls in place",
        summary=summary,
        waits_for=None if ready is None or ready.status == "True" else ready.message,
        conditions=[one for one in conditions_of(raw) if one.status == "False" and one.type not in _SIGNS]
        + [one for one in conditions_of(raw) if one.status == "True" and one.type in _SIGNS],
        refusal=None,
        next_steps=told.steps,
        wake_after_seconds=told.wake_after,
        source="status" if told.answer is None else "operator",
        note=told.note,
        recovery_point=None,
        pod=None,
        limits=[],
    )


_SUMMARIES: Mapping[str | None, str] = {
    None: "The operator has not looked at it yet.",
    "Ready": "Its agent runs, or idles for exec, behind walls that were seen to hold.",
    "Starting": "It is on its way to Ready.",
    "Stopping": "It is being stopped; its pod goes when its workspace is safe.",
}


def _summary(raw: Object, phase: Any, wished: str) -> str:
    ready = condition_of(raw, READY)
    why = ready.message if ready is not None and phase in (*REST, "Stopping") else ""
    said = _SUMMARIES.get(phase, "It is at rest.")
    if phase == "Failed" and status_of(raw).get("stopReason") is None:
        said = "It was not started, and is tried again by itself when the cause is gone."
    elif phase in REST and wished == "Running":
        said = "It is at rest, and stays so until somebody resumes it."
    return f"{said} {why}".rstrip()


def _waits_for(raw: Object, phase: Any, observed: Mapping[str, Any]) -> str | None:
    """What stands between it and where it goes, from the most telling source."""
    refusal, ready, archived = refusal_of(raw), condition_of(raw, READY), condition_of(raw, SNAPSHOTTED)
    if refusal is not None:
        return refusal.message
    if phase == "Stopping":
        return archived.message if archived is not None else None
    if phase in REST or (ready is not None and ready.status == "True"):
        return None
    if ready is not None and ready.reason != "Starting":
        return ready.message
    return _on_the_way(observed) or "the operator"


def _on_the_way(observed: Mapping[str, Any]) -> str | None:
    """How far a start is that goes well, which status does not tell."""
    return next(_ahead(observed), None) if observed else None


def _ahead(observed: Mapping[str, Any]) -> Iterator[str]:
    """What is still ahead, the first thing first."""
    if observed.get("sandbox") != "present":
        yield f"its AgentSandbox ({observed.get('sandbox')})"
    if observed.get("networkPolicy") != "present":
        yield f"the NetworkPolicy of its AgentSandbox ({observed.get('networkPolicy')})"
    pods, keepers = observed.get("pods"), observed.get("keepers")
    if not isinstance(pods, list):
        yield f"its pods to be read ({pods})"
    elif not pods:
        yield f"its pod to be created; the store says: {observed.get('store')}"
    known = keepers.values() if isinstance(keepers, Mapping) else ()
    keeper = next((one for one in known if isinstance(one, Mapping) and one.get("connected")), None)
    if keeper is None:
        yield "the keeper of its pod to call home"
    elif keeper.get("workspace") != "Ready":
        yield f"the workspace to be prepared (it is {keeper.get('workspace')})"
    elif not keeper.get("gateOpen"):
        yield "evidence that the walls hold and the runtime is the promised one"


def _amiss(raw: Object, phase: Any) -> list[ConditionShape]:
    """The conditions that are not as wished where the session is. At rest there is no pod, and none is wished."""
    is_amiss = _is_amiss_at_rest if phase in REST else _is_amiss
    return [one for one in conditions_of(raw) if is_amiss(one) and _counts(one, phase)]


def _is_amiss(one: ConditionShape) -> bool:
    return one.status != ("False" if one.type in _SIGNS else "True") or _is_unrecorded(one)


def _is_amiss_at_rest(one: ConditionShape) -> bool:
    return (one.type, one.status) in {(STALLED, "True"), (SNAPSHOTTED, "False")} or _is_unrecorded(one)


def _is_unrecorded(one: ConditionShape) -> bool:
    """The work is safe, and something is to be done all the same."""
    return one.type == SNAPSHOTTED and one.reason == UNRECORDED


def _counts(one: ConditionShape, phase: Any) -> bool:
    """That there was no stop yet is no fault of a session that runs."""
    return not (one.type == SNAPSHOTTED and one.status == "Unknown" and phase != "Stopping")


def _limits(raw: Object, sandbox: Object | None, phase: Any) -> list[LimitShape]:
    status = status_of(raw)
    lifecycle = spec_of(sandbox).get("lifecycle") if sandbox is not None else None
    lifecycle = lifecycle if isinstance(lifecycle, Mapping) else {}
    limits = []
    if status.get("expiresAt") and phase not in REST:
        limits.append(LimitShape(limit="ttlSeconds", at=str(status["expiresAt"]), then="it is suspended, archived"))
    if phase == "Starting":
        seconds = lifecycle.get("startTimeoutSeconds", _DEFAULTS.start_timeout_seconds)
        then = f"a start of more than {seconds} s is given up; nothing of the workspace is touched"
        limits.append(LimitShape(limit="lifecycle.startTimeoutSeconds", at=None, then=then))
    if phase == "Stopping":
        archived = condition_of(raw, SNAPSHOTTED)
        seconds = lifecycle.get("stopTimeoutSeconds", _DEFAULTS.stop_timeout_seconds)
        began = moment(archived.since) if archived is not None else None
        at = None if began is None else time_text(began + timedelta(seconds=seconds))
        then = "Stalled becomes True; the stop goes on and nothing is discarded"
        limits.append(LimitShape(limit="lifecycle.stopTimeoutSeconds", at=at, then=then))
    return limits


def conditions_in_words(shape: ExplanationShape) -> list[tuple[str, str]]:
    """The conditions, with what each says; a sentence that stands above already is not said again.

    One cause often holds several of them up, and every one of them tells it.
    """
    said, lines = [shape.summary, shape.waits_for or ""], []
    for one in shape.conditions:
        is_new = not any(one.message in before for before in said)
        lines.append((one.type, f"{one.status} ({one.reason}){f': {one.message}' if is_new else ''}"))
        said.append(one.message)
    return lines


def waits_for_in_words(shape: ExplanationShape) -> str | None:
    """What it waits for; no second time when the summary has just said so."""
    return "what is said above" if shape.waits_for and shape.waits_for in shape.summary else shape.waits_for


def advice(shape: ExplanationShape) -> str | None:
    """What a person can do, if there is something to do."""
    place = f"{shape.name} -n {shape.namespace}"
    if shape.refusal is not None and shape.refusal.action:
        return shape.refusal.action
    if shape.kind == "SandboxSession" and shape.phase in REST and shape.wished == "Running":
        return f"sandhold session resume {place}"
    stalled = next((one for one in shape.conditions if one.type == STALLED), None)
    if stalled is not None:
        return stalled.message
    return None


def recovery(shape: ExplanationShape) -> str:
    """The recovery point in words."""
    point = shape.recovery_point
    if point is None:
        return "none yet: no archive of the workspace exists"
    return f"archive {numbered(point)}{f' (SandboxSnapshot {point.name})' if point.name else ''}"
