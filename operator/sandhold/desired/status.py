"""What a session's status says in each phase: one function a phase, so that all fields of a phase stand together.

A status that says what the present one says is None, and nothing is written. While a start goes well its status does
not change between the first pass and `Ready`: progress is the keeper's business, trouble is the status's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sandhold.api.session import REST, RefusalState, SessionPhase, Slot, StopReason
from sandhold.backends.admit import Admission
from sandhold.desired import checkpoints, claims, conditions, indexing, size_guard
from sandhold.desired.conditions import Claim, no, refused, yes
from sandhold.desired.seen import TRIED_AGAIN, SeenPod, Trouble
from sandhold.desired.situation import Situation, retry_of
from sandhold.reasons import (
    ADMITTED,
    EGRESS_VERIFIED,
    POD_READY,
    READY,
    RECONCILING,
    RUNTIME_VERIFIED,
    SNAPSHOTTED,
    STALLED,
    WORKSPACE_READY,
    Refusal,
)

Status = Mapping[str, Any]
_OF_THE_POD = (POD_READY, RUNTIME_VERIFIED, EGRESS_VERIFIED, WORKSPACE_READY)
_NO_POD: Mapping[str, Any] = {"pod_name": None, "pod_uid": None, "pod_ip": None, "node_name": None}
_STARTING = "The session is on its way to Ready."
_SETTLED = "There is nothing to do."


def new_start(situation: Situation, tier: str, runtime_class: str, epoch: int) -> Status | None:
    """A start from rest: a new epoch, and nothing left of the run before it. One that only moves is the same run."""
    is_moving = situation.status.stop_reason == "NodeCordoned"
    fresh = {
        "archives_on_stop": situation.sandbox.spec.snapshot.on_stop if situation.sandbox is not None else None,
        "tier": tier,
        "runtime_class_name": runtime_class,
        "recovery": None,
        "restarts": None,
        "started_at": situation.status.started_at if is_moving else None,
        "expires_at": None,
        "observed_retry": retry_of(situation.session),
    }
    return _starting(situation, None, **_new_epoch(situation, epoch), **fresh)


def restart(situation: Situation, epoch: int, restarts: int | None) -> Status | None:
    """A start in place of a pod that was lost, or on another tier than before: the time limit goes on."""
    admission, status = situation.admission, situation.status
    tier, runtime_class = status.tier or "", status.runtime_class_name or ""
    if isinstance(admission, Admission):
        tier, runtime_class = admission.tier, admission.runtime_class
    pinned = {"tier": tier, "runtime_class_name": runtime_class, "restarts": restarts}
    if situation.keeps_archives is not None:
        pinned["archives_on_stop"] = situation.keeps_archives
    return _starting(situation, None, **_new_epoch(situation, epoch), **pinned)


def held_up(situation: Situation, refusal: Refusal, about: str) -> Status | None:
    """A start under way that cannot get further until somebody removes the cause; then it goes on by itself."""
    said = [
        refused(READY, refusal),
        no(RECONCILING, refusal.reason, "Nothing can be done before the cause is gone."),
        yes(STALLED, refusal.reason, refusal.action),
        *claims.carried(situation, *(name for name in (ADMITTED, *_OF_THE_POD) if name != about)),
        *([refused(about, refusal)] if about != READY else []),
        claims.snapshotted(situation),
    ]
    return _next(situation, "Starting", said, refusal=_refusal_state(refusal), **_NO_POD)


def says(situation: Situation, refusal: Refusal) -> bool:
    """Whether status already tells of this very refusal."""
    return situation.status.refusal == _refusal_state(refusal)


def starting(situation: Situation, trouble: tuple[str, Trouble] | None = None) -> Status | None:
    """A start under way: constant while it goes well; else the condition that is in trouble, and why."""
    return _starting(situation, trouble)


def waiting(situation: Situation, about: str, trouble: Trouble) -> Status | None:
    """A start from rest that cannot begin yet. Its epoch is not taken, so what stopped it the last time stays."""
    said = [
        no(READY, trouble.reason, trouble.message),
        yes(RECONCILING, "Starting", _STARTING),
        no(STALLED, "Progressing", claims.AT_WORK),
        *claims.carried(situation, ADMITTED, *_OF_THE_POD),
        claims.snapshotted(situation),
    ]
    return _next(situation, "Starting", claims.with_trouble(said, about, trouble), refusal=None)


def turned_away(situation: Situation, refusal: Refusal, about: str = ADMITTED) -> Status | None:
    """A start that is refused as things are. It is tried again by itself when they change."""
    at_rest = situation.status.phase in REST
    phase: SessionPhase = situation.status.phase if at_rest and situation.status.phase is not None else "Failed"
    said = [
        refused(READY, refusal),
        no(RECONCILING, refusal.reason, "Nothing can be done before the cause is gone."),
        yes(STALLED, refusal.reason, refusal.action),
        *(claims.pending(name) for name in (ADMITTED, *_OF_THE_POD) if name != about),
        *([refused(about, refusal)] if about != READY else []),
        claims.snapshotted(situation),
    ]
    return _next(situation, phase, said, refusal=_refusal_state(refusal), **_NO_POD)


def running(situation: Situation, pod: SeenPod, **changes: Any) -> Status | None:
    """The agent runs."""
    status = situation.status
    recovery = changes.get("recovery") or "Initialized"
    said = [
        yes(READY, "Running", "The agent runs, or idles for exec."),
        no(RECONCILING, "Settled", _SETTLED),
        no(STALLED, "Settled", _SETTLED),
        claims.admitted(status.tier or "", status.runtime_class_name or ""),
        yes(POD_READY, "Running", "The pod runs and its keeper called home."),
        yes(RUNTIME_VERIFIED, "Verified", f"The pod runs under RuntimeClass {status.runtime_class_name}, as promised."),
        yes(EGRESS_VERIFIED, "Verified", "The walls were seen to hold from inside the pod."),
        size_guard.workspace_claim(
            situation, yes(WORKSPACE_READY, "Verified", f"The workspace is whole. How it came to be: {recovery}.")
        ),
        checkpoints.snapshotted(situation),
    ]
    changes["snapshot"] = indexing.recovery_state(situation)
    place = {"pod_name": pod.name, "pod_uid": pod.uid, "pod_ip": pod.address, "node_name": pod.node}
    return _next(situation, "Ready", said, refusal=None, **{**place, **changes})


def interrupted(situation: Situation, trouble: Trouble) -> Status | None:
    """A running session whose agent does not run at the moment; the pod and its content are there."""
    said = [
        no(READY, trouble.reason, trouble.message),
        yes(RECONCILING, trouble.reason, claims.AT_WORK),
        no(STALLED, "Progressing", claims.AT_WORK),
        *claims.carried(situation, ADMITTED, POD_READY, WORKSPACE_READY),
        claims.pending(RUNTIME_VERIFIED),
        claims.pending(EGRESS_VERIFIED),
        checkpoints.snapshotted(situation),
    ]
    recovery = indexing.recovery_state(situation)
    return _next(situation, situation.status.phase or "Starting", said, snapshot=recovery)


def stopping(
    situation: Situation, reason: StopReason, why: Trouble, hold: Trouble | None = None, refusal: Refusal | None = None
) -> Status | None:
    """A stop under way. `why` it stops stays what it was when the stop began; `hold` is what it waits for."""
    waits = hold or Trouble("Stopping", "The workspace of this stop is not archived yet.")
    said = [
        no(READY, why.reason, why.message),
        yes(RECONCILING, "Stopping", "The session is on its way to a stop."),
        claims.stalled_stop(situation),
        *claims.carried(situation, ADMITTED, *_OF_THE_POD),
        no(SNAPSHOTTED, waits.reason, waits.message),
    ]
    changes: dict[str, Any] = {"stop_reason": reason}
    if situation.status.phase != "Stopping":
        changes["observed_retry"] = retry_of(situation.session)
        changes["refusal"] = _refusal_state(refusal) if refusal is not None else None
        if situation.pod is not None and situation.report.opened:
            # Kept from here on, whatever becomes of its keeper and of the store that its fence is in: it holds work.
            changes |= {"pod_name": situation.pod.name, "pod_uid": situation.pod.uid}
    return _next(situation, "Stopping", said, **changes)


def at_rest(
    situation: Situation, phase: SessionPhase, reason: StopReason, why: Trouble, snapshotted: Claim, **changes: Any
) -> Status | None:
    """Stopped: no pod, and what became of the workspace."""
    is_refused = changes.get("refusal") is not None
    said = [
        no(READY, why.reason, why.message),
        no(RECONCILING, "Settled", _SETTLED),
        yes(STALLED, why.reason, why.message) if is_refused else no(STALLED, "Settled", _SETTLED),
        *claims.carried(situation, ADMITTED),
        no(POD_READY, why.reason, "There is no pod."),
        *(claims.pending(name) for name in (RUNTIME_VERIFIED, EGRESS_VERIFIED, WORKSPACE_READY)),
        snapshotted,
    ]
    if situation.is_underway and situation.epoch_archive is not None:
        changes["snapshot"] = indexing.snapshot_state(situation, situation.epoch_archive)
    else:
        changes["snapshot"] = indexing.named_state(situation)
    over = {"stop_reason": reason, "expires_at": None, "archives_on_stop": None}
    return _next(situation, phase, said, **{**over, **_NO_POD, **changes})


def failed(situation: Situation, reason: StopReason, refusal: Refusal, about: str) -> Status | None:
    """Given up before the agent ran: nothing of the workspace was touched. It starts again on request."""
    said = [
        refused(READY, refusal),
        no(RECONCILING, "Settled", _SETTLED),
        yes(STALLED, refusal.reason, refusal.action),
        *claims.carried(situation, *(name for name in (ADMITTED, *_OF_THE_POD) if name != about)),
        *([refused(about, refusal)] if about != READY else []),
        claims.snapshotted(situation),
    ]
    retry = retry_of(situation.session)
    changes = {"stop_reason": reason, "refusal": _refusal_state(refusal), "observed_retry": retry, "expires_at": None}
    changes["archives_on_stop"] = None
    return _next(situation, "Failed", said, **changes, **_NO_POD)


def _starting(situation: Situation, trouble: tuple[str, Trouble] | None, **changes: Any) -> Status | None:
    tier = changes.get("tier", situation.status.tier) or ""
    runtime_class = changes.get("runtime_class_name", situation.status.runtime_class_name) or ""
    said = [
        no(READY, "Starting", _STARTING),
        yes(RECONCILING, "Starting", _STARTING),
        no(STALLED, "Progressing", claims.AT_WORK),
        claims.admitted(tier, runtime_class),
        *(claims.pending(name) for name in _OF_THE_POD),
        claims.snapshotted(situation),
    ]
    if trouble is not None:
        about, what = trouble
        said = claims.with_trouble([no(READY, what.reason, what.message), *said[1:]], about, what)
    return _next(situation, "Starting", said, **{"refusal": None, **_NO_POD, **changes})


def _new_epoch(situation: Situation, epoch: int) -> dict[str, Any]:
    content = situation.content
    changes: dict[str, Any] = {"slot": Slot(key=situation.slot, epoch=epoch), "stop_reason": None}
    if content is not None:
        changes["snapshot"] = indexing.snapshot_state(situation, content)
    return changes


def _refusal_state(refusal: Refusal) -> RefusalState:
    return RefusalState(
        code=refusal.code,
        message=conditions.printable(refusal.message),
        action=conditions.printable(refusal.action, 1000),
    )


def _next(situation: Situation, phase: SessionPhase, said: Iterable[Claim], **changes: Any) -> Status | None:
    generation = situation.session.metadata.generation
    settled = conditions.settle(situation.status.conditions, said, generation, situation.now)
    update = {"observed_generation": generation, "phase": phase, "conditions": settled, **changes}
    wanted = situation.status.model_copy(update=update).wire()
    return None if wanted == situation.status.wire() else wanted


def explanation(situation: Situation) -> str:
    """What a start was waiting for, as the end of a sentence; empty when status did not say.

    That it is tried again by itself was true while it waited, and is not any more.
    """
    ready = conditions.find(situation.status.conditions, READY)
    if ready is None or ready.reason == "Starting":
        return ""
    return f": {ready.message.rstrip('.').removesuffix(TRIED_AGAIN)}"


def unchanged(situation: Situation) -> Status | None:
    """A session at rest: what status says stands, for the present generation too. An entry may be made only now."""
    said = [Claim(one.type, one.status, one.reason, one.message) for one in situation.status.conditions]
    settled = [claims.recorded(situation, claim) if claim.type == SNAPSHOTTED else claim for claim in said]
    recovery = indexing.named_state(situation)
    return _next(situation, situation.status.phase or "Suspended", settled, snapshot=recovery)
