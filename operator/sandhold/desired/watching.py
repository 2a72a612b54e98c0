"""A pod that is there: compared, brought to an open gate, kept running, and rescued when somebody else deletes it.

Until the gate may be open a pod can be thrown away for anything that is wrong with it. Afterwards it holds work, and
only an orderly stop may end it: what is refused then goes through `stopping.begin_stop`.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sandhold.api.session import StopReason
from sandhold.backends.admit import Admission
from sandhold.desired import (
    archiving,
    checkpoints,
    gate,
    lifecycle,
    loss,
    recording,
    seen,
    size_guard,
    standing,
    status,
    stopping,
    walls,
)
from sandhold.desired.difference import is_outdated, pod_differences
from sandhold.desired.patience import SILENCE_SECONDS, UNKNOWN_SECONDS, WAIT_SECONDS, earliest, first_of
from sandhold.desired.plan import Delete, Order, Plan
from sandhold.desired.pod import sandbox_pod
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation, gate_may_be_open
from sandhold.reasons import POD_READY, READY, Refusal, RefusalCode, refuse

_MOST_NAMED = 3


def plan_watch(situation: Situation, pod: SeenPod) -> Plan:
    """What the pod needs now."""
    return standing.with_standing_orders(situation, pod, _watch(situation, pod))


def _watch(situation: Situation, pod: SeenPod) -> Plan:
    if pod.deletion is not None:
        return _rescue(situation, pod)
    report = situation.report
    if report.opened and report.opened == report.challenge:
        return _run(situation, pod)
    if situation.status.phase == "Ready" and (situation.keeper is None or situation.keeper.report is None):
        return Plan(wake_after=first_of([_until_expiry(situation)]))
    return _throw_away(situation, pod) or _give_up(situation, pod) or _approach(situation, pod)


def _run(situation: Situation, pod: SeenPod) -> Plan:
    """The gate is open for the init that runs now."""
    is_new = situation.status.phase != "Ready"
    if situation.report.agent_state != "Running" or (is_new and not situation.is_connected):
        return _give_up(situation, pod) or Plan(wake_after=WAIT_SECONDS)
    if pod.address is None or pod.node is None:
        return Plan(wake_after=WAIT_SECONDS)
    started = situation.status.started_at or situation.now
    expiry = lifecycle.expires_at(situation, started)
    recovery = situation.status.recovery if not is_new else _recovery(situation)
    new = status.running(situation, pod, started_at=started, expires_at=expiry, recovery=recovery)
    writes = checkpoints.entry_tries(situation, new)
    told = (*checkpoints.failure(situation, new), *recording.warning(situation, new))
    events = (*size_guard.rise(situation, new), *told)
    until_expiry = None if expiry is None else max(situation.seconds_until(expiry), 0.1)
    wake = earliest(until_expiry, recording.wake(situation))
    return Plan(writes=writes, status=new, events=events, wake_after=wake)


def _recovery(situation: Situation) -> str:
    """Where the workspace came from. Only the operator knows that it replaces a lost pod's."""
    found = situation.report.marker_recovery or "Initialized"
    return "Repaired" if found == "Restored" and situation.status.started_at is not None else found


def _throw_away(situation: Situation, pod: SeenPod) -> Plan | None:
    """A pod whose gate was never opened, and that is not, or no longer, what is wanted."""
    if gate_may_be_open(situation):
        return None
    asked = _asked(situation)
    if asked is None:
        return Plan(wake_after=WAIT_SECONDS)
    if isinstance(asked, Refusal):
        delete = Delete(pod.reference, pod.uid, f"refused before it ran: {asked.code}")
        new = status.turned_away(situation, asked)
        return Plan(writes=(delete,), status=new, events=loss.warning(asked, new))
    if _began_with_something_else(situation):
        cause = "a newer archive of the workspace than the one it was restored from was stored since"
        return Plan(writes=(Delete(pod.reference, pod.uid, cause),), wake_after=WAIT_SECONDS)
    return _compare(situation, pod, asked)


def _began_with_something_else(situation: Situation) -> bool:
    """Whether a start now would get another archive than this pod did: a pod that was given up stored its own late."""
    report, content = situation.report, situation.content
    if situation.history is None or report.workspace_state != "Ready" or report.marker_epoch != situation.epoch:
        return False
    return report.marker_source != (None if content is None else (content.epoch, content.sequence))


def _compare(situation: Situation, pod: SeenPod, asked: dict[str, Any]) -> Plan | None:
    if is_outdated(asked, pod.document):
        cause = "made from an older spec, and its gate was never opened"
        return Plan(writes=(Delete(pod.reference, pod.uid, cause),), wake_after=WAIT_SECONDS)
    differences = pod_differences(asked, pod.document)
    if not differences:
        return None
    message = f"The pod differs from the one that was asked for: {'; '.join(differences[:_MOST_NAMED])}"
    return _refuse(situation, pod, "Refused", (POD_READY, refuse(RefusalCode.POD_ALTERED, message)))


def _give_up(situation: Situation, pod: SeenPod) -> Plan | None:
    """A start that took too long. A session that was Ready before is not starting."""
    if situation.sandbox is None or situation.status.phase != "Starting":
        return None
    limit = situation.sandbox.spec.lifecycle.start_timeout_seconds
    if situation.seconds_since(pod.created) < limit:
        return None
    why = status.explanation(situation)
    message = f"The session was not Ready within lifecycle.startTimeoutSeconds ({limit} s){why}"
    return _refuse(situation, pod, "StartTimeout", (READY, refuse(RefusalCode.START_TIMEOUT, message)))


def _refuse(situation: Situation, pod: SeenPod, reason: StopReason, about: tuple[str, Refusal]) -> Plan:
    """Refuse for good: without a trace while the gate was never opened, through an orderly stop otherwise."""
    name, refusal = about
    if gate_may_be_open(situation):
        return stopping.begin_stop(situation, reason, refusal)
    new = status.failed(situation, reason, refusal, name)
    delete = Delete(pod.reference, pod.uid, f"refused before it ran: {refusal.code}")
    return Plan(writes=(delete,), status=new, events=loss.warning(refusal, new))


def _approach(situation: Situation, pod: SeenPod) -> Plan:
    """On the way to an open gate: what holds the pod up, else the next step."""
    was_ready = situation.status.phase == "Ready"
    trouble = seen.pod_trouble(pod.document)
    if not situation.is_connected:
        trouble = trouble or _silence(situation, pod)
        about = (POD_READY, trouble) if trouble is not None else None
        return _on_the_way(situation, pod, gate.Step(trouble=about), was_ready=was_ready)
    if situation.sandbox is None:
        return Plan(wake_after=UNKNOWN_SECONDS)
    if situation.head_epoch > situation.epoch:
        message = "The store holds a newer epoch of this workspace than this pod's"
        return _refuse(situation, pod, "Refused", (READY, refuse(RefusalCode.STALE_GENERATION, message)))
    step = gate.next_step(situation, pod, situation.sandbox)
    if step.refusal is not None:
        return _refuse(situation, pod, "Refused", step.refusal)
    if step.trouble is None and trouble is not None:
        # The keeper is at home, and waits for an agent's container that the kubelet cannot start.
        step = replace(step, trouble=(POD_READY, trouble))
    return _on_the_way(situation, pod, step, was_ready=was_ready)


def _on_the_way(situation: Situation, pod: SeenPod, step: gate.Step, *, was_ready: bool) -> Plan:
    if was_ready:
        restarted = Trouble("AgentRestarting", "Init started again; the agent follows when walls and runtime are seen.")
        new = status.interrupted(situation, step.trouble[1] if step.trouble is not None else restarted)
    else:
        new = status.starting(situation, step.trouble)
    wake = first_of([step.wake_after, _until_given_up(situation, pod), _until_silent(situation, pod)])
    return Plan(calls=step.calls, status=new, wake_after=wake)


def _rescue(situation: Situation, pod: SeenPod) -> Plan:
    """Somebody else deletes the pod: what its grace leaves is used for the archive; then another pod follows."""
    if not gate_may_be_open(situation):
        return _deleted_while_shut(situation, pod)
    going = Trouble("PodTerminating", "Somebody deleted the pod; another one follows when it is gone.")
    new = status.interrupted(situation, going)
    calls = _last_calls(situation, pod)
    # The entry waits: one that cannot be written (a quota, a policy) would keep the orders from being given.
    writes = checkpoints.entry_tries(situation, new) if not calls else ()
    return Plan(writes=writes, calls=calls, status=new, wake_after=WAIT_SECONDS)


def _last_calls(situation: Situation, pod: SeenPod) -> tuple[Order, ...]:
    """What still has to be asked of a keeper whose pod is deleted. One with a final grant archives by itself.

    One that shows no sign of it has a kubelet that is not there: nobody ended the agent, and nobody will.
    """
    elapsed = pod.deleted_for(situation.now)
    if situation.keeps_archives is False or situation.final_archive is not None:
        return ()
    if archiving.holds_final_grant(situation) and not archiving.is_quiet(situation):
        if elapsed < archiving.LEAVING_SECONDS:
            return ()
        if elapsed < archiving.LEAVING_SECONDS + stopping.ENDED_SECONDS and not situation.report.archive_is_final:
            return stopping.end_calls(situation)
    return archiving.archive_calls(situation, pod, elapsed) if archiving.is_still(situation, pod) else ()


def _deleted_while_shut(situation: Situation, pod: SeenPod) -> Plan:
    """A pod that nobody ran in. One that we threw away is waited for; one that somebody deletes counts as lost."""
    asked = _asked(situation)
    if not isinstance(asked, Mapping) or is_outdated(asked, pod.document):
        return Plan(wake_after=UNKNOWN_SECONDS)
    restarts = lifecycle.restarts_in_a_row(situation)
    if restarts > lifecycle.MOST_RESTARTS:
        refusal = loss.too_many_losses()
        new = status.failed(situation, "Refused", refusal, POD_READY)
        return Plan(status=new, events=loss.warning(refusal, new))
    return Plan(status=status.restart(situation, situation.next_epoch, restarts))


def _asked(situation: Situation) -> dict[str, Any] | Refusal | None:
    """The pod as it would be asked for now, why there would be none, or None while that is not known."""
    sandbox, admission = situation.sandbox, situation.admission
    if sandbox is None or not isinstance(admission, Admission):
        return admission if isinstance(admission, Refusal) else None
    material = walls.pod_material(situation, sandbox, admission)
    if isinstance(material, Trouble):
        return None
    return sandbox_pod(material, sandbox, situation.session, situation.epoch)


def _silence(situation: Situation, pod: SeenPod) -> Trouble | None:
    since = _silent_since(situation, pod)
    if since is None or situation.seconds_since(since) < SILENCE_SECONDS:
        return None
    return Trouble(
        "KeeperSilent",
        "The keeper runs and has not called home: check the movers' Deployment and Service, and that pods reach them.",
    )


def _until_silent(situation: Situation, pod: SeenPod) -> float | None:
    since = _silent_since(situation, pod)
    return None if since is None or situation.is_connected else SILENCE_SECONDS - situation.seconds_since(since)


def _silent_since(situation: Situation, pod: SeenPod) -> datetime | None:
    """Since when at the most a keeper has said nothing: its container's start, or its last report."""
    since = seen.keeper_since(pod.document)
    reported = situation.keeper.reported_at if situation.keeper is not None else None
    return max(since, reported) if since is not None and reported is not None else since


def _until_given_up(situation: Situation, pod: SeenPod) -> float | None:
    if situation.sandbox is None or pod.created is None or situation.status.phase != "Starting":
        return None
    return situation.sandbox.spec.lifecycle.start_timeout_seconds - situation.seconds_since(pod.created)


def _until_expiry(situation: Situation) -> float | None:
    expiry = lifecycle.expires_at(situation)
    return None if expiry is None else situation.seconds_until(expiry)
