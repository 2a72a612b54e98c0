"""A start as far as its pod: admitted, with an epoch of its own, behind walls that were seen; and anew after a loss.

A stage asks for one thing and waits until it is seen in the world. What becomes of the pod once it is there is
`watching.py`'s business.
"""

from dataclasses import replace
from typing import Any

from sandhold import names
from sandhold.desired import archiving, checkpoints, lifecycle, loss, recording, status, walls, watching
from sandhold.desired.patience import REFUSED_SECONDS, UNKNOWN_SECONDS, WAIT_SECONDS, earliest, is_patient
from sandhold.desired.placement import is_gone
from sandhold.desired.plan import Create, Delete, Event, Plan
from sandhold.desired.pod import sandbox_pod
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation, gate_may_be_open
from sandhold.desired.world import Absent, Present, Unknown
from sandhold.reasons import ADMITTED, POD_READY, WORKSPACE_READY, Refusal, RefusalCode, refuse

RECHECK_SECONDS = 60.0


def plan_start(situation: Situation) -> Plan:
    """The next stage of a start, or what keeps a running session running."""
    if situation.pods is None:
        return Plan(wake_after=UNKNOWN_SECONDS)
    return _with_entry(situation, _stage(situation))


def _with_entry(situation: Situation, plan: Plan) -> Plan:
    """The entry that an earlier archive was left without, where there is nothing to do but to wait for something."""
    if plan.writes or plan.calls or plan.status is not None or recording.trouble(situation) is None:
        return plan
    wake = earliest(plan.wake_after, recording.wake(situation))
    return replace(plan, writes=checkpoints.entry_writes(situation), wake_after=wake)


def _stage(situation: Situation) -> Plan:
    if not situation.is_underway:
        return _from_rest(situation)
    if situation.pod is None or is_gone(situation, situation.pod):
        return _without_pod(situation)
    return watching.plan_watch(situation, situation.pod)


def _from_rest(situation: Situation) -> Plan:
    """Admit, learn what the slot holds, take an epoch: the finalizer and the first status, in one pass."""
    admission = situation.admission
    if isinstance(admission, Unknown):
        trouble = Trouble("ClusterUnknown", f"Whether the session may start is not known: {admission.why}")
        return Plan(status=status.waiting(situation, ADMITTED, trouble), wake_after=UNKNOWN_SECONDS)
    if isinstance(admission, Refusal):
        return _turn_away(situation, admission, ADMITTED)
    refusal = loss.history_refusal(situation)
    if refusal is not None:
        return _turn_away(situation, refusal, WORKSPACE_READY)
    unknown = archiving.history_trouble(situation)
    if unknown is not None:
        return Plan(status=status.waiting(situation, WORKSPACE_READY, unknown), wake_after=UNKNOWN_SECONDS)
    return Plan(
        finalizer_add=None if situation.has_finalizer else names.FINALIZER_WORKSPACE,
        status=status.new_start(situation, admission.tier, admission.runtime_class, situation.next_epoch),
    )


def _turn_away(situation: Situation, refusal: Refusal, about: str) -> Plan:
    new = status.turned_away(situation, refusal, about)
    return Plan(status=new, events=loss.warning(refusal, new), wake_after=RECHECK_SECONDS)


def _without_pod(situation: Situation) -> Plan:
    """No pod of this epoch: the first one is made; a lost one is replaced under a new epoch, never under the old."""
    refusal = loss.history_refusal(situation)
    if refusal is not None:
        return _hold_up(situation, WORKSPACE_READY, refusal)
    unknown = archiving.history_trouble(situation)
    if unknown is not None:
        new = status.starting(situation, (WORKSPACE_READY, unknown))
        return Plan(status=new, wake_after=UNKNOWN_SECONDS)
    was_taken = situation.world.posted_epoch == situation.epoch
    if situation.pod is not None or was_taken or situation.is_fenced or gate_may_be_open(situation):
        return _replace(situation)
    others = [pod for pod in situation.pods or () if not is_gone(situation, pod)]
    return _behind(situation, others[0]) if others else _create(situation)


def _behind(situation: Situation, other: SeenPod) -> Plan:
    """One pod at a time, also where none of them was ever opened. The end of the other one wakes the session."""
    new = None
    if other.deletion is None and not is_patient(situation):
        message = (
            f"Pod {other.name} of epoch {other.epoch} is still there, and this start is epoch {situation.epoch}. "
            "Deleting that pod has its keeper archive what is in it; the session then goes on by itself."
        )
        new = status.starting(situation, (POD_READY, Trouble("OtherPodPresent", message)))
    return Plan(status=new, wake_after=UNKNOWN_SECONDS)


def _replace(situation: Situation) -> Plan:
    was_open = gate_may_be_open(situation)
    restarts = lifecycle.restarts_in_a_row(situation)
    dead = situation.pod
    is_left = dead is not None and dead.is_dead and dead.deletion is None
    cause = "its containers have ended for good"
    bury = (Delete(dead.reference, dead.uid, cause),) if dead is not None and is_left else ()
    if restarts > lifecycle.MOST_RESTARTS:
        new = status.failed(situation, "Refused", loss.too_many_losses(), POD_READY)
        return Plan(writes=bury, status=new, events=loss.warning(loss.too_many_losses(), new))
    new = status.restart(situation, situation.next_epoch, restarts)
    message = f"The pod is gone while the session was to run; {loss.recovery_point(situation)}."
    events = (Event("Warning", "PodLost", message),) if was_open else ()
    # The archive is what the next pod starts from. An entry that cannot be written is no reason to wait with that.
    entry = checkpoints.entry_writes(situation) if recording.trouble(situation) is None else ()
    return Plan(writes=(*entry, *bury), status=new, events=(*events, *recording.warning(situation, new)))


def _create(situation: Situation) -> Plan:
    """The pod, once its walls were seen."""
    admission, sandbox = situation.admission, situation.sandbox
    if isinstance(admission, Refusal):
        return _turn_away(situation, admission, ADMITTED)
    if isinstance(admission, Unknown) or sandbox is None:
        return Plan(wake_after=UNKNOWN_SECONDS)
    if (admission.tier, admission.runtime_class) != (situation.status.tier, situation.status.runtime_class_name):
        return Plan(status=status.restart(situation, situation.epoch, situation.status.restarts))
    if not isinstance(situation.world.squatter, Absent):
        return _name_is_taken(situation)
    material = walls.walls_trouble(situation, sandbox) or walls.pod_material(situation, sandbox, admission)
    if isinstance(material, Trouble):
        new = None if is_patient(situation) else status.starting(situation, (POD_READY, material))
        return Plan(status=new, wake_after=WAIT_SECONDS)
    return _post(situation, sandbox_pod(material, sandbox, situation.session, situation.epoch))


def _post(situation: Situation, pod: dict[str, Any]) -> Plan:
    """POST the pod. A refused POST is told first and then tried again: the pass that is refused tells nothing."""
    refusal = situation.world.create_refused
    if refusal is None:
        return Plan(writes=(Create(pod),), status=status.starting(situation), wake_after=UNKNOWN_SECONDS)
    if not status.says(situation, refusal):
        return _hold_up(situation, POD_READY, refusal)
    return Plan(writes=(Create(pod),), wake_after=REFUSED_SECONDS)


def _name_is_taken(situation: Situation) -> Plan:
    if not isinstance(situation.world.squatter, Present):
        return Plan(wake_after=UNKNOWN_SECONDS)
    name = names.pod_name(situation.session.metadata.name, situation.session.metadata.uid, situation.epoch)
    message = f"Pod {name} exists, and it is not this session's"
    action = "Remove or rename that object; the session goes on by itself."
    return _hold_up(situation, POD_READY, refuse(RefusalCode.FOREIGN_OBJECT, message, action))


def _hold_up(situation: Situation, about: str, refusal: Refusal) -> Plan:
    new = status.held_up(situation, refusal, about)
    return Plan(status=new, events=loss.warning(refusal, new), wake_after=REFUSED_SECONDS)
