"""An archive whose SandboxSnapshot cannot be written: what is said of it, when it is tried again, what waits for it.

The archive is stored and verified, so stops end, lost pods are replaced and sessions start without its entry. Only the
end of a deleted session waits: nothing else in the cluster would name the archive (docs/design/0017). What an entry
says and when there should be one is decided in `indexing.py`.
"""

from collections.abc import Mapping
from typing import Any

from sandhold.desired import archiving, conditions, indexing, loss
from sandhold.desired.indexing import UNRECORDED
from sandhold.desired.patience import LONGEST_WAIT, REFUSED_SECONDS
from sandhold.desired.plan import Event
from sandhold.desired.seen import TRIED_AGAIN, Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.world import Absent, Manifest, Present, RefusedRecord
from sandhold.reasons import SNAPSHOTTED

_ACTION = (
    "Free or raise the quota, or mend the policy, webhook or right that the answer names"
    f"{TRIED_AGAIN}. Only the deletion of the session waits for it."
)


def trouble(situation: Situation) -> Trouble | None:
    """Why the newest archive has no entry; None while it has one, and until a try was refused.

    What an earlier operator process was told stands in status, and holds until this one is told something.
    """
    said = conditions.find(situation.status.conditions, SNAPSHOTTED)
    told = Trouble(said.reason, said.message) if said is not None and said.reason == UNRECORDED else None
    if situation.world.namespace_terminating:
        return None
    if situation.history is None:
        return None if isinstance(situation.world.history, Absent) or _is_named(situation) else told
    archive = indexing.newest(situation)
    if archive is None or _has_entry(situation, archive):
        return None
    refused = indexing.refusal(situation)
    return Trouble(UNRECORDED, _message(archive, refused)) if refused is not None else told


def retry_in(situation: Situation) -> float:
    """Seconds until a refused entry is tried again, 0 when it is due: the longer it fails, the rarer."""
    refused = indexing.refusal(situation)
    if refused is None:
        return 0.0
    failing = (refused.at - refused.since).total_seconds()
    delay = min(max(failing / 4, REFUSED_SECONDS), LONGEST_WAIT)
    return max(delay - situation.seconds_since(refused.at), 0.0)


def wake(situation: Situation) -> float | None:
    """When a pass that did not try has to be made again for this alone."""
    if trouble(situation) is None:
        return None
    return retry_in(situation) or REFUSED_SECONDS


def hold(situation: Situation) -> Trouble | None:
    """Why a deleted session stays until its newest archive has an entry; None when it may go."""
    if situation.discards or situation.world.namespace_terminating or isinstance(situation.world.history, Absent):
        return None
    is_left = indexing.names_unrecorded(situation.status)
    if (situation.keeps_archives is False) if situation.is_underway else not is_left:
        return None
    if situation.history is None:
        is_owed = not situation.is_underway and not _is_named(situation)
        return (trouble(situation) or archiving.history_trouble(situation)) if is_owed else None
    archive = indexing.newest(situation)
    if archive is None or _has_entry(situation, archive):
        return None
    if not isinstance(situation.world.snapshots, Present):
        return Trouble("SnapshotsUnknown", "It is not known which SandboxSnapshots there are.")
    return indexing.index_trouble(situation) or trouble(situation) or _not_tried(archive)


def warning(situation: Situation, new: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """The Event of an entry that cannot be written, once: with the status that says so first."""
    said = conditions.newly_said(situation.status.conditions, new, SNAPSHOTTED, UNRECORDED)
    return tuple(Event("Warning", UNRECORDED, message) for message in said)


def _message(archive: Manifest, refused: RefusedRecord) -> str:
    stored = (
        f"Archive {loss.numbered(archive)} of the workspace is stored and verified, but has no entry in the cluster"
    )
    return conditions.sentences(f"{stored}: {refused.why}", _ACTION)


def _not_tried(archive: Manifest) -> Trouble:
    message = (
        f"Archive {loss.numbered(archive)} of the workspace is stored and verified, and its entry is not made yet."
    )
    return Trouble(UNRECORDED, message)


def _has_entry(situation: Situation, archive: Manifest) -> bool:
    """Whether an entry names this archive of its epoch, or a newer one."""
    entry = situation.indexed.get(archive.epoch)
    return entry is not None and entry.sequence >= archive.sequence


def _is_named(situation: Situation) -> bool:
    """The same of the archive that status names, for when the store does not say what it holds."""
    snapshot = situation.status.snapshot
    entry = situation.indexed.get(snapshot.epoch) if snapshot is not None else None
    return snapshot is None or (entry is not None and entry.sequence >= snapshot.sequence)
