"""Getting the workspace of an epoch into the store: which archive to order, when to try again, what holds it up.

Used by a stop and by a pod that somebody else deletes. Nothing here deletes anything: it only says how far an archive
has come, and `Situation.final_archive` alone says that it is there.
"""

from datetime import datetime

from sandhold import names
from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import conditions, orders, ownership
from sandhold.desired.plan import Create, Order, WriteStatus
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.snapshot import Archived, snapshot_writes
from sandhold.desired.world import Absent, Present, StoreTrouble, Unknown
from sandhold.reasons import REFUSALS, RefusalCode, camel_case

SHORTEST_DELAY = 2.0
LONGEST_DELAY = 30.0
DYING_SECONDS = 3
"""Init ends its agent within a second when the pod is deleted."""
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
    """The order for this epoch's final archive; none while one runs, rests after a failure, or cannot be given."""
    sandbox, report = situation.sandbox, situation.report
    store = situation.store
    if sandbox is None or store is None or situation.history is None or not situation.is_connected:
        return ()
    is_stale = report.archive_state == "Stored" and situation.head_epoch > situation.epoch
    unseen_for = min(max(UNSEEN_SECONDS, elapsed / 2), LONGEST_UNSEEN)
    is_unseen = report.archive_state == "Stored" and situation.seconds_since(_reported(situation)) < unseen_for
    rests = report.archive_state == "Failed" and retry_in(situation, elapsed) > 0
    if report.archive_state == "Running" or is_stale or is_unseen or rests:
        return ()
    return (_archive_order(situation, pod, sandbox, store),)


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
    if report.archive_state == "Failed":
        return _trouble(report.archive_code or RefusalCode.MANIFEST_PRODUCER_FAILED, report.archive_message)
    return None


def index_writes(situation: Situation) -> tuple[Create | WriteStatus, ...]:
    """The SandboxSnapshot of this epoch's final archive, where it is missing and may be made."""
    manifest, store = situation.final_archive, situation.store
    if manifest is None or store is None or is_indexed(situation) or situation.world.namespace_terminating:
        return ()
    archived = Archived(situation.world.installation.id, situation.slot, store, manifest)
    return snapshot_writes(situation.session, archived, situation.now)


def index_trouble(situation: Situation) -> Trouble | None:
    """Whether somebody else's object has the name of the final archive's entry."""
    manifest, seen = situation.final_archive, situation.world.snapshots
    if manifest is None or not isinstance(seen, Present):
        return None
    name = names.snapshot_name(situation.session.metadata.name, situation.slot, manifest.epoch, manifest.sequence)
    for document in seen.value:
        metadata = ownership.metadata_of(document)
        labels = metadata.get("labels") or {}
        ours = {names.LABEL_INSTALLATION: situation.world.installation.id, names.LABEL_SLOT: situation.slot}
        if metadata.get("name") == name and not ours.items() <= labels.items():
            message = f"SandboxSnapshot {name} exists, and this operator did not make it: remove or rename it."
            return Trouble("ForeignObject", message)
    return None


def is_indexed(situation: Situation) -> bool:
    """Whether the final archive has its SandboxSnapshot, or can have none because its namespace is going."""
    manifest = situation.final_archive
    if situation.world.namespace_terminating:
        return True
    return manifest is not None and (manifest.epoch, manifest.sequence) in situation.indexed


def is_archived(situation: Situation) -> bool:
    """Whether the final archive is known, by the store or by the index: enough once the pod is gone anyway."""
    return situation.final_archive is not None or any(epoch == situation.epoch for epoch, _ in situation.indexed)


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
    """The number after the last one of this epoch. A failed attempt keeps its number, unless the store has it."""
    head = situation.history.head if situation.history is not None else None
    last = head.sequence if head is not None and head.epoch == situation.epoch else 0
    report = situation.report
    stored = report.archive_sequence if report.archive_state == "Stored" and report.archive_sequence else 0
    return max(last, stored) + 1


def _reported(situation: Situation) -> datetime | None:
    return situation.keeper.reported_at if situation.keeper is not None else None


def _trouble(code: str, message: str) -> Trouble:
    """A refusal's words as trouble: what happened, then what to do."""
    known = REFUSALS.get(RefusalCode(code)) if code in set(RefusalCode) else None
    action = known.action if known is not None else "It is tried again by itself."
    return Trouble(camel_case(code), conditions.sentences(message or "It failed without a message", action))
