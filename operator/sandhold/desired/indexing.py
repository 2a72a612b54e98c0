"""The index of what was archived: the SandboxSnapshot of an epoch's newest archive, and where a lost pod goes on from.

An entry follows the store, never the other way: what decides is the manifest that a mover verified. Nothing here
archives or deletes. What goes on without an entry, and what waits for it, is `recording.py`'s business.
"""

from sandhold import names
from sandhold.api.session import SandboxSessionStatus, SnapshotState
from sandhold.desired import conditions, ownership
from sandhold.desired.patience import PATIENCE_SECONDS
from sandhold.desired.plan import Create, WriteStatus
from sandhold.desired.seen import Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.snapshot import Archived, Entry, snapshot_writes
from sandhold.desired.world import KubeObject, Manifest, Present, RefusedRecord
from sandhold.reasons import SNAPSHOTTED

UNRECORDED = "Unrecorded"
"""The reason of `Snapshotted` while an archive is stored and its entry cannot be written."""


def newest(situation: Situation) -> Manifest | None:
    """The archive whose entry is looked after: this epoch's, or before it has one, what an earlier one left without."""
    archive, content = situation.epoch_archive, situation.content
    if archive is not None or content is None or content.kind != "Archive":
        return archive
    said, refused = conditions.find(situation.status.conditions, SNAPSHOTTED), situation.world.record_refused
    is_told = said is not None and said.reason == UNRECORDED
    is_refused = refused is not None and refused.name == entry_name(situation, content)
    return content if is_told or is_refused or _is_left(situation, content) else None


def refusal(situation: Situation) -> RefusedRecord | None:
    """Why the newest archive cannot have its entry: somebody said no, or nobody has answered for a while."""
    archive, refused = newest(situation), situation.world.record_refused
    if archive is None or refused is None or refused.name != entry_name(situation, archive) or is_indexed(situation):
        return None
    is_lasting = refused.is_an_answer or situation.seconds_since(refused.since) >= PATIENCE_SECONDS
    return refused if is_lasting else None


def names_unrecorded(status: SandboxSessionStatus) -> bool:
    """Whether a status names an archive that had no entry when it was named."""
    return status.snapshot is not None and status.snapshot.name is None


def _is_left(situation: Situation, content: Manifest) -> bool:
    """Whether a session that stops or rests names an archive without an entry.

    One that starts or runs may name an older one whose entry somebody took away.
    """
    named = situation.status.snapshot
    if named is None or not names_unrecorded(situation.status) or situation.status.phase in ("Starting", "Ready"):
        return False
    return (named.epoch, named.sequence) == (content.epoch, content.sequence)


def entry_name(situation: Situation, manifest: Manifest) -> str:
    """Name of the SandboxSnapshot of an archive's epoch."""
    return names.snapshot_name(situation.session.metadata.name, situation.slot, manifest.epoch)


def index_writes(situation: Situation) -> tuple[Create | WriteStatus, ...]:
    """What brings the SandboxSnapshot of the newest archive's epoch to it, where that is wanted and may be made."""
    manifest, store = newest(situation), situation.store
    if manifest is None or store is None or is_indexed(situation) or situation.world.namespace_terminating:
        return ()
    entry = situation.indexed.get(manifest.epoch)
    if entry is not None and entry.sequence > manifest.sequence:
        return ()  # Archives are never taken back: somebody else's business, and a start refuses it.
    archived = Archived(situation.world.installation.id, situation.slot, store, manifest)
    return snapshot_writes(situation.session, archived, situation.now, _entry_of(situation, manifest))


def index_trouble(situation: Situation) -> Trouble | None:
    """Whether somebody else's object has the name of the entry, or the entry is ahead of the store."""
    manifest = newest(situation)
    found = _entry_of(situation, manifest) if manifest is not None else None
    if manifest is None or found is None:
        return None
    metadata = ownership.metadata_of(found)
    labels = metadata.get("labels") or {}
    ours = {names.LABEL_INSTALLATION: situation.world.installation.id, names.LABEL_SLOT: situation.slot}
    if ours.items() <= labels.items():
        return _ahead(situation.indexed.get(manifest.epoch), manifest)
    message = f"SandboxSnapshot {metadata.get('name')} exists, and this operator did not make it: remove or rename it."
    return Trouble("ForeignObject", message)


def _ahead(entry: Entry | None, manifest: Manifest) -> Trouble | None:
    if entry is None or entry.sequence <= manifest.sequence:
        return None
    message = (
        f"SandboxSnapshot {entry.name} names archive {entry.epoch}-{entry.sequence}, and the newest one of its epoch "
        f"in the store is {manifest.epoch}-{manifest.sequence}: bring that archive back, or delete the SandboxSnapshot."
    )
    return Trouble("ManifestMissing", message)


def is_indexed(situation: Situation) -> bool:
    """Whether the newest archive has its entry, or can have none because its namespace is going."""
    manifest = newest(situation)
    if situation.world.namespace_terminating:
        return True
    return manifest is not None and _names(situation.indexed.get(manifest.epoch), manifest)


def is_archived(situation: Situation) -> bool:
    """Whether the final archive is known, by the store or by the index: enough once the pod is gone anyway."""
    entry = situation.indexed.get(situation.epoch)
    return situation.final_archive is not None or (entry is not None and entry.is_final)


def snapshot_state(situation: Situation, manifest: Manifest) -> SnapshotState:
    """An archive as status names it, with its entry if that is there."""
    entry = situation.indexed.get(manifest.epoch)
    return SnapshotState(
        epoch=manifest.epoch,
        sequence=manifest.sequence,
        key=manifest.key,
        digest=manifest.digest,
        name=entry.name if entry is not None and _names(entry, manifest) else None,
    )


def recovery_state(situation: Situation) -> SnapshotState | None:
    """What status says that a lost pod goes on from.

    It follows the newest archive once that has its entry, so that it is written once for each; where it can have none,
    at once.
    """
    said, manifest = situation.status.snapshot, newest(situation)
    if manifest is None:
        return named_state(situation)
    if not (is_indexed(situation) or index_trouble(situation) is not None or refusal(situation) is not None):
        return said
    is_newer = said is None or (said.epoch, said.sequence) <= (manifest.epoch, manifest.sequence)
    return snapshot_state(situation, manifest) if is_newer else said


def named_state(situation: Situation) -> SnapshotState | None:
    """The archive that status names, with the name of its entry where that was made since."""
    said = situation.status.snapshot
    entry = situation.indexed.get(said.epoch) if said is not None else None
    if said is None or said.name is not None or entry is None or entry.sequence != said.sequence:
        return said
    return said.model_copy(update={"name": entry.name})


def _names(entry: Entry | None, manifest: Manifest) -> bool:
    """By its number alone, which tells an archive of an epoch: CRDs of an older version drop the rest."""
    return entry is not None and entry.sequence == manifest.sequence


def _entry_of(situation: Situation, manifest: Manifest) -> KubeObject | None:
    """The object that has the name of an epoch's entry, whoever made it."""
    seen = situation.world.snapshots
    name = entry_name(situation, manifest)
    documents = seen.value if isinstance(seen, Present) else ()
    return next((each for each in documents if ownership.metadata_of(each).get("name") == name), None)
