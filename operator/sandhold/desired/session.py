"""What a SandboxSession needs now: the table of contents of its life.

Each decision has a page of its own: `lifecycle.py` says whether it shall run, `start.py` and `watching.py` bring it to
Ready, `stop.py` brings it to rest without losing anything.
"""

from dataclasses import replace

from sandhold import names
from sandhold.desired import checkpoints, conditions, indexing, lifecycle, recording, status
from sandhold.desired.patience import LONGEST_WAIT, earliest
from sandhold.desired.plan import Apply, Delete, Event, Plan
from sandhold.desired.pod import mover_patch
from sandhold.desired.situation import Situation, read_situation
from sandhold.desired.start import plan_start
from sandhold.desired.stop import plan_stop
from sandhold.desired.world import Present, SessionWorld
from sandhold.reasons import ADMITTED, Refusal, RefusalCode, refuse


def plan_session(world: SessionWorld) -> Plan:
    """Decide, and keep the pod's keeper told where home is."""
    situation = read_situation(world)
    return _in_touch(situation, _held(situation, _decide(situation, world.invalid or _slot_refusal(situation))))


def _decide(situation: Situation, invalid: Refusal | None) -> Plan:
    if situation.is_deleted and not situation.has_finalizer:
        return Plan()
    if invalid is not None and not situation.is_deleted:
        return _unreadable(situation, invalid)
    reason = lifecycle.stop_reason(situation)
    if reason is not None:
        return plan_stop(situation, reason)
    if lifecycle.is_at_rest(situation):
        return _rest(situation)
    return plan_start(situation)


def _rest(situation: Situation) -> Plan:
    """Nothing is wanted, but for the entry of an archive that could not be written before."""
    new = status.unchanged(situation)
    writes = checkpoints.entry_tries(situation, new) if indexing.names_unrecorded(situation.status) else ()
    wake = earliest(lifecycle.until_expiry(situation), recording.wake(situation))
    return Plan(writes=writes, status=new, events=recording.warning(situation, new), wake_after=wake)


def _unreadable(situation: Situation, refusal: Refusal) -> Plan:
    """The stored object cannot be read as a session. What runs is left alone, and so is a status that may be hidden."""
    if situation.pods != () or situation.epoch > 0:
        # No status can say it, so the Event says all.
        message = conditions.sentences(refusal.message, refusal.action)
        return Plan(events=(Event("Warning", refusal.reason, message),), wake_after=LONGEST_WAIT)
    new = status.turned_away(situation, refusal, ADMITTED)
    return Plan(status=new, events=(Event("Warning", refusal.reason, refusal.message),) if new is not None else ())


def _slot_refusal(situation: Situation) -> Refusal | None:
    """A status that names another slot than this session's: another version's, another installation's, or forged."""
    named = situation.status.slot
    if named is None or named.key == situation.slot:
        return None
    message = (
        f"status.slot.key of SandboxSession {situation.session.metadata.name} is not {situation.slot}, which is the "
        "slot that this operator gives it: nothing is done with the session"
    )
    action = "Put back the installation_id or the version that wrote it, or correct a status that a person wrote."
    return refuse(RefusalCode.SPEC_REFUSED, message, action)


def _held(situation: Situation, plan: Plan) -> Plan:
    """The finalizer back on a session that may have work: a replace by somebody who knows nothing of it drops it.

    Without it the next deletion would take the session before its archive.
    """
    if situation.has_finalizer or situation.is_deleted or not situation.is_underway:
        return plan
    return replace(plan, finalizer_add=names.FINALIZER_WORKSPACE)


def _in_touch(situation: Situation, plan: Plan) -> Plan:
    """The mover's address and CA on the pod, where they changed and the pod stays."""
    pod, installation = situation.pod, situation.world.installation
    if pod is None or pod.deletion is not None or pod.is_dead:
        return plan
    if any(isinstance(write, Delete) and write.uid == pod.uid for write in plan.writes):
        return plan
    match installation.mover_address, installation.mover_ca:
        case Present(address), Present(ca):
            patch = mover_patch(pod.document, address, ca)
            return plan if patch is None else replace(plan, writes=(Apply(patch), *plan.writes))
    return plan
