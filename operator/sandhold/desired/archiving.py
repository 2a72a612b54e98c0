"""Getting the workspace of an epoch into the store: which archive to order, when to try again, what holds it up.

Used by a stop and by a pod that somebody else deletes. Nothing here deletes anything: it only says how far an archive
has come, and `Situation.final_archive` alone says that it is there. What a keeper says of a checkpoint is none of it.
"""

from datetime import datetime

from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import conditions, orders
from sandhold.desired.plan import Order
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.world import Absent, Present, StoreTrouble, Unknown
from sandhold.reasons import RefusalCode, camel_case, explained

SHORTEST_DELAY = 2.0
LONGEST_DELAY = 30.0
DYING_SECONDS = 3
"""Init ends its agent within a second when the pod is deleted."""
LEAVING_SECONDS = 10
"""A keeper that holds a final grant has begun to archive so long after its pod was deleted, or its kubelet is dead."""
UNSEEN_SECONDS = 10.0
LONGEST_UNSEEN = 300.0
"""A stored archive that the store still does not list after a while is made again: the workspace is still there."""


def retry_in(situation: Situation, elapsed: float) -> float:
    """Seconds until a keeper's failed attempt is repeated, 0 when it is due: the longer it fails, the rarer."""
    delay = min(max(elapsed / 4, SHORTEST_DELAY), LONGEST_DELAY)
    reported = situation.keeper.reported_at if situation.keeper is not None else None
    return max(delay - situation.seconds_since(reported), 0.0) if reported is not None else 0.0


def is_quiet(situation: Situation) -> bool:
    """Whether no agent runs in the pod: it ended, or init waits at the gate and was never given this start's word."""
    report = situation.report
    return report.agent_state == "Ended" or (
        report.agent_state == "Waiting" and bool(report.challenge) and report.challenge != report.opened
    )


def is_still(situation: Situation, pod: SeenPod) -> bool:
    """Whether nothing of the agent writes any more: it is quiet, or its pod was deleted and init had time to end it."""
    return is_quiet(situation) or pod.deleted_for(situation.now) >= DYING_SECONDS


def archive_calls(situation: Situation, pod: SeenPod, elapsed: float) -> tuple[Order, ...]:
    """The order for this epoch's final archive; none while one runs, rests after a failure, or cannot be given.

    A keeper whose pod is deleted archives by itself when it can. A checkpoint that runs is no reason to wait: the order
    comes after it.
    """
    sandbox, report = situation.sandbox, situation.report
    store = situation.store
    if sandbox is None or store is None or situation.history is None or not situation.is_connected:
        return ()
    state = report.archive_state if report.archive_is_final else ""
    is_stale = state == "Stored" and situation.head_epoch > situation.epoch
    unseen_for = min(max(UNSEEN_SECONDS, elapsed / 2), LONGEST_UNSEEN)
    is_unseen = state == "Stored" and situation.seconds_since(_reported(situation)) < unseen_for
    rests = state == "Failed" and retry_in(situation, elapsed) > 0
    if state == "Running" or is_stale or is_unseen or rests or leaves_by_itself(situation, pod):
        return ()
    return (_archive_order(situation, pod, sandbox, store),)


def leaves_by_itself(situation: Situation, pod: SeenPod) -> bool:
    """Whether the keeper of a deleted pod is about to archive for good without being told."""
    is_leaving = pod.deletion is not None and pod.deleted_for(situation.now) < LEAVING_SECONDS
    return is_leaving and holds_final_grant(situation)


def holds_final_grant(situation: Situation) -> bool:
    """Whether the keeper can archive for good by itself when its pod is deleted."""
    kept = situation.report.kept
    return kept is not None and kept.final > situation.now.timestamp()


def archive_trouble(situation: Situation) -> Trouble | None:
    """Why the archive is not there, if that is anything but a matter of moments."""
    history, report = situation.world.history, situation.report
    if isinstance(history, StoreTrouble):
        return _trouble(history.code, history.message)
    if isinstance(history, Unknown):
        return Trouble("SnapshotStoreUnavailable", f"What the store holds is not known: {history.why}")
    if situation.head_epoch > situation.epoch:
        return _trouble(
            RefusalCode.STALE_GENERATION, "The store holds a newer epoch of this workspace than this pod's."
        )
    if report.archive_state == "Failed" and report.archive_is_final:
        return _trouble(report.archive_code or RefusalCode.MANIFEST_PRODUCER_FAILED, report.archive_message)
    return None


def history_trouble(situation: Situation) -> Trouble | None:
    """Why what the slot holds is not known, when that will pass by itself."""
    match situation.world.history:
        case Unknown(why):
            return Trouble("SnapshotStoreUnavailable", f"What the store holds of the workspace is not known: {why}")
        case StoreTrouble(code, message, True):
            return _trouble(code, message)
    match situation.world.snapshots:
        case Unknown(why):
            return Trouble("SnapshotsUnknown", f"It is not known which SandboxSnapshots there are: {why}")
        case Absent() | Present():
            return None


def holder_of(situation: Situation, pod: SeenPod, store: str) -> orders.Holder:
    """Whom a grant of this pass is for."""
    return orders.Holder(
        installation_id=situation.world.installation.id,
        pod_uid=pod.uid,
        slot=situation.slot,
        epoch=situation.epoch,
        store=store,
        now=situation.now,
    )


def _archive_order(situation: Situation, pod: SeenPod, sandbox: AgentSandbox, store: str) -> Order:
    holder = holder_of(situation, pod, store)
    sequence = _next_sequence(situation)
    return orders.archive_order(pod.uid, sequence, orders.archive_grant(holder, sequence, sandbox))


def _next_sequence(situation: Situation) -> int:
    """The lowest number that the archive may get: above every one of this epoch that anybody knows.

    The mover gives the number. What is known here counts beside what the store lists, so that an archive in another
    store than the checkpoints before it is still the newest.
    """
    head = situation.history.head if situation.history is not None else None
    entry, said, report = situation.indexed.get(situation.epoch), situation.status.snapshot, situation.report
    known = [
        head.sequence if head is not None and head.epoch == situation.epoch else 0,
        entry.sequence if entry is not None else 0,
        said.sequence if said is not None and said.epoch == situation.epoch else 0,
        report.archive_sequence or 0 if report.archive_state == "Stored" else 0,
    ]
    return max(known) + 1


def _reported(situation: Situation) -> datetime | None:
    return situation.keeper.reported_at if situation.keeper is not None else None


def _trouble(code: str, message: str) -> Trouble:
    """A refusal's words as trouble: what happened, then what to do."""
    known = explained(code)
    action = known.action if known is not None else "It is tried again by itself."
    return Trouble(camel_case(code), conditions.sentences(message or "It failed without a message", action))
