"""A stop, from a running agent to a session at rest or gone: end the agent, archive, index, delete the pod, let go.

The pod goes only when nothing can be lost with it: its gate was never opened, its final archive is what the store
lists, no archive was wanted, or a person asked for it to go. Every failure keeps pod and finalizer, says why, and tries
again; a time limit makes it louder, never more destructive. A SandboxSnapshot that cannot be written keeps only the
finalizer.
"""

from sandhold import names
from sandhold.api.session import SessionPhase, StopReason
from sandhold.desired import archiving, checkpoints, claims, conditions, indexing, loss, recording, status
from sandhold.desired.conditions import Claim, no, unknown
from sandhold.desired.patience import UNKNOWN_SECONDS, WAIT_SECONDS
from sandhold.desired.plan import Delete, Event, Plan
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import OVERDUE_SECONDS, SETTLE_SECONDS, Situation, gate_may_be_open
from sandhold.desired.stopping import ENDED_SECONDS, begin_stop, end_calls, stop_cause
from sandhold.reasons import READY, REFUSALS, SNAPSHOTTED, RefusalCode

DELETE_GRACE_SECONDS = 2
HURRY_SECONDS = 10
"""A discarded pod that would go on for longer is deleted once more, with less grace."""
SILENCE_SECONDS = 15


def plan_stop(situation: Situation, reason: StopReason) -> Plan:
    """The next stage of a stop."""
    if situation.pods is None:
        return Plan(wake_after=UNKNOWN_SECONDS)
    if not situation.pods:
        return _finish(situation, reason)
    if situation.pod is None:
        return _clear(situation, reason, situation.pods)
    return _with_pod(situation, reason, situation.pod)


def _with_pod(situation: Situation, reason: StopReason, pod: SeenPod) -> Plan:
    cause = _harmless(situation, pod)
    if _is_going(situation, pod, cause):
        return _await_end(situation, reason, pod)
    if cause is not None:
        return _let_go(situation, reason, pod, cause)
    if situation.status.phase != "Stopping":
        return begin_stop(situation, reason)
    if situation.final_archive is not None:
        foreign = indexing.index_trouble(situation)
        if foreign is not None:
            return _hold(situation, reason, foreign)
        writes = indexing.index_writes(situation)
        return Plan(writes=writes, events=_archived_event(situation) if writes else (), wake_after=WAIT_SECONDS)
    return _archive(situation, reason, pod)


def _is_going(situation: Situation, pod: SeenPod, cause: str | None) -> bool:
    """Whether the pod's end has only to be waited for.

    One that somebody else deleted, with a grace for an archive that nobody wants any more, is deleted once more.
    """
    overdue = pod.overdue_for(situation.now)
    if pod.deletion is None or (situation.discards and overdue < -HURRY_SECONDS):
        return False
    return cause is not None or overdue > OVERDUE_SECONDS


def _harmless(situation: Situation, pod: SeenPod) -> str | None:
    """Why the pod may go without losing anything; None while it may not."""
    if pod.is_dead:
        return "its containers have ended for good"
    if situation.discards:
        return f"annotation {names.ANNOTATION_DISCARD}=true"
    if situation.keeps_archives is False:
        return "the AgentSandbox keeps no archives"
    if situation.final_archive is not None:
        number = loss.numbered(situation.final_archive)
        may_go = indexing.is_indexed(situation) or recording.trouble(situation) is not None
        return f"archive {number} is stored and verified" if may_go else None
    return None if gate_may_be_open(situation) else "its gate was never opened"


def _let_go(situation: Situation, reason: StopReason, pod: SeenPod, cause: str) -> Plan:
    delete = Delete(pod.reference, pod.uid, cause, DELETE_GRACE_SECONDS)
    events: tuple[Event, ...] = ()
    if situation.discards and situation.final_archive is None:
        message = f"The workspace goes without an archive, as the annotation asks; {loss.recovery_point(situation)}."
        events = (Event("Warning", "WorkspaceDiscarded", message),)
    if situation.is_deleted or situation.status.phase == "Stopping":
        return Plan(writes=(delete,), events=events, wake_after=UNKNOWN_SECONDS)
    begun = begin_stop(situation, reason)
    return Plan(writes=(delete,), status=begun.status, events=(*begun.events, *events), wake_after=UNKNOWN_SECONDS)


def _archive(situation: Situation, reason: StopReason, pod: SeenPod) -> Plan:
    """End the agent, then archive; what is in the way is said."""
    elapsed = situation.seconds_since(situation.stopping_since)
    trouble = archiving.archive_trouble(situation)
    if trouble is None and not situation.is_connected:
        if elapsed < SILENCE_SECONDS:
            return Plan(wake_after=WAIT_SECONDS)
        trouble = Trouble(
            "KeeperSilent",
            "The keeper does not answer, so nothing can be archived: check the movers' Deployment and Service, and "
            "the pod's node. The pod stays.",
        )
    if situation.is_connected and not situation.report.opened and situation.status.pod_uid != pod.uid:
        calls, wake = end_calls(situation), max(SETTLE_SECONDS - elapsed, 0.1)
    elif not archiving.is_still(situation, pod) and not _grace_is_over(situation, elapsed):
        calls, wake = end_calls(situation), WAIT_SECONDS
    else:
        calls = archiving.archive_calls(situation, pod, elapsed)
        wake = max(archiving.retry_in(situation, elapsed), WAIT_SECONDS)
    if trouble is None:
        return Plan(calls=calls, status=_stopping(situation, reason, None), wake_after=wake)
    held = _hold(situation, reason, trouble)
    return Plan(calls=calls, status=held.status, events=held.events, wake_after=wake)


def _grace_is_over(situation: Situation, elapsed: float) -> bool:
    """Whether the agent was told to end so long ago that none of it is left, whatever its hints say.

    The order is repeated in every pass until then, and only one that somebody could take counts.
    """
    since = situation.keeper.connected_since if situation.keeper is not None else None
    told = min(elapsed, situation.seconds_since(since)) if since is not None else 0.0
    return told >= ENDED_SECONDS


def _await_end(situation: Situation, reason: StopReason, pod: SeenPod) -> Plan:
    """Deleted, and nothing left to do but to see it gone."""
    if pod.overdue_for(situation.now) <= OVERDUE_SECONDS:
        return Plan(wake_after=UNKNOWN_SECONDS)
    explained = REFUSALS[RefusalCode.DESTROY_UNCONFIRMED]
    return _hold(situation, reason, Trouble("DestroyUnconfirmed", f"{explained.sentence} {explained.action}"))


def _clear(situation: Situation, reason: StopReason, pods: tuple[SeenPod, ...]) -> Plan:
    """Only pods of other epochs are left. Their archives could never become the head; they still go one by one.

    A session at rest waits for none of them; one that is deleted waits for those whose kubelet may still answer. A pod
    that is stuck on a lost node is fenced by its epoch, and is an orphan afterwards.
    """
    patience = OVERDUE_SECONDS if situation.is_deleted else None
    if all(_is_left_behind(pod, situation, patience) for pod in pods):
        return _finish(situation, reason)
    causes = {pod.uid: _stale_cause(situation, pod) for pod in pods if pod.deletion is None}
    writes = tuple(
        Delete(pod.reference, pod.uid, cause, DELETE_GRACE_SECONDS)
        for pod in pods
        if (cause := causes.get(pod.uid)) is not None
    )
    if None not in causes.values():
        return Plan(writes=writes, wake_after=UNKNOWN_SECONDS)
    explained = REFUSALS[RefusalCode.STALE_GENERATION]
    held = _hold(situation, reason, Trouble("StaleGeneration", f"{explained.sentence} {explained.action}"))
    return Plan(writes=writes, status=held.status, events=held.events, wake_after=held.wake_after)


def _is_left_behind(pod: SeenPod, situation: Situation, patience: int | None) -> bool:
    """Whether somebody deleted the pod, and so long ago that its grace is over by more than the patience."""
    return pod.deletion is not None and (patience is None or pod.overdue_for(situation.now) > patience)


def _stale_cause(situation: Situation, pod: SeenPod) -> str | None:
    if pod.is_dead:
        return "its containers have ended for good"
    if situation.discards or situation.keeps_archives is False:
        return "no archive is wanted"
    entry = situation.indexed.get(pod.epoch)
    if entry is not None and entry.is_final:
        return "its archive is stored and verified"
    return None


def _finish(situation: Situation, reason: StopReason) -> Plan:
    """No pod any more: say what became of the workspace, and let go of the session when it was deleted."""
    why = _kept_cause(situation, reason)
    fate = _fate(situation)
    if fate is None:
        trouble = archiving.history_trouble(situation)
        return _hold(situation, reason, trouble or Trouble("SnapshotStoreUnavailable", "The store is not known."))
    is_owed = situation.is_underway or indexing.names_unrecorded(situation.status)
    unindexed = checkpoints.entry_writes(situation) if is_owed else ()
    if unindexed and recording.trouble(situation) is None:
        # The pod went before its last archive had its entry: what is stored is told, whatever becomes of the session.
        return Plan(writes=unindexed, wake_after=WAIT_SECONDS)
    is_lost = fate.reason == "PodLost" and situation.is_underway
    lost = (Event("Warning", "WorkspaceLost", fate.message),) if is_lost else ()
    if situation.is_deleted:
        return _depart(situation, reason, lost)
    stopped = _kept_reason(situation, reason)
    phase = _phase_of(stopped, why)
    changes = {"refusal": situation.status.refusal if stopped in ("Refused", "StartTimeout") else None}
    new = status.at_rest(situation, phase, stopped, why, fate, **changes)
    if new is None:
        return Plan(writes=unindexed, wake_after=recording.wake(situation))
    is_news = situation.is_underway or phase != situation.status.phase
    done = (Event("Normal" if phase != "Failed" else "Warning", why.reason, why.message),) if is_news else ()
    return Plan(status=new, events=(*lost, *done, *recording.warning(situation, new)))


def _depart(situation: Situation, reason: StopReason, lost: tuple[Event, ...]) -> Plan:
    """Let go of a deleted session, unless it is the last object that names an archive: its entry comes first."""
    held = recording.hold(situation)
    if held is None:
        return Plan(events=lost, finalizer_remove=names.FINALIZER_WORKSPACE if situation.has_finalizer else None)
    new = _stopping(situation, reason, held) if situation.is_underway else status.unchanged(situation)
    if new is not None:
        return Plan(status=new, events=recording.warning(situation, new), wake_after=UNKNOWN_SECONDS)
    return Plan(writes=checkpoints.entry_writes(situation), wake_after=recording.wake(situation) or UNKNOWN_SECONDS)


def _fate(situation: Situation) -> Claim | None:
    """What became of the workspace; None while that cannot be told and a wait may tell."""
    before = conditions.find(situation.status.conditions, SNAPSHOTTED)
    if not situation.is_underway and before is not None:
        return claims.recorded(situation, Claim(before.type, before.status, before.reason, before.message))
    if situation.is_underway and indexing.is_archived(situation):
        return claims.recorded(situation, claims.stored(is_final=True))
    if situation.is_underway and situation.discards:
        return no(SNAPSHOTTED, "Discarded", "The workspace was given up on a person's order.")
    if situation.keeps_archives is False:
        return unknown(SNAPSHOTTED, "NotRequested", "The AgentSandbox keeps no archives (spec.snapshot.onStop: false).")
    return _fate_of_a_lost_pod(situation)


def _fate_of_a_lost_pod(situation: Situation) -> Claim | None:
    is_known = situation.history is not None
    if not is_known and situation.is_underway:
        return None  # Status may name no pod and there was one: a start that waits for the store clears it.
    if is_known and situation.is_underway and gate_may_be_open(situation):
        message = f"The pod was gone before its workspace was archived; {loss.recovery_point(situation)}."
        return no(SNAPSHOTTED, "PodLost", message)
    if situation.content is not None:
        return claims.recorded(situation, claims.stored(is_final=situation.content.final))
    return unknown(SNAPSHOTTED, "Pending", "There was no stop yet whose workspace could be archived.")


def _phase_of(reason: StopReason, why: Trouble) -> SessionPhase:
    if reason in ("Refused", "StartTimeout"):
        return "Failed"
    if reason == "AgentExited":
        return "Finished" if why.reason == "Finished" else "Failed"
    return "Suspended"


def _kept_reason(situation: Situation, reason: StopReason) -> StopReason:
    """The reason that the stop began with, however many more there are by now."""
    is_begun = situation.status.phase == "Stopping" and situation.status.stop_reason is not None
    return situation.status.stop_reason or reason if is_begun else reason


def _kept_cause(situation: Situation, reason: StopReason) -> Trouble:
    ready = conditions.find(situation.status.conditions, READY)
    if situation.status.phase == "Stopping" and ready is not None:
        return Trouble(ready.reason, ready.message)
    return stop_cause(situation, reason)


def _hold(situation: Situation, reason: StopReason, trouble: Trouble) -> Plan:
    """Say what the stop waits for."""
    new = _stopping(situation, reason, trouble)
    events = (Event("Warning", "ArchiveFailed", trouble.message),) if new is not None else ()
    return Plan(status=new, events=events, wake_after=UNKNOWN_SECONDS)


def _stopping(situation: Situation, reason: StopReason, trouble: Trouble | None) -> status.Status | None:
    kept, why = _kept_reason(situation, reason), _kept_cause(situation, reason)
    before = conditions.find(situation.status.conditions, SNAPSHOTTED)
    if trouble is None and before is not None and situation.report.archive_state == "Running":
        # What held the last attempt up stands until this one has come to an end.
        trouble = Trouble(before.reason, before.message)
    return status.stopping(situation, kept, why, hold=trouble)


def _archived_event(situation: Situation) -> tuple[Event, ...]:
    number = loss.numbered(situation.final_archive)
    return (Event("Normal", "Archived", f"Archive {number} of the workspace is stored and verified."),)
