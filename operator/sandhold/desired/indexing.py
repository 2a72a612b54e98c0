"""The index of what was archived: the SandboxSnapshot of an epoch's newest archive, and where a lost pod goes on from.

An entry follows the store, never the other way: what decides is the manifest that a mover verified. Nothing here
archives or deletes.
"""

from sandhold import names
from sandhold.api.session import SnapshotState
from sandhold.desired import ownership
from sandhold.desired.plan import Create, WriteStatus
from sandhold.desired.seen import Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.snapshot import Archived, Entry, snapshot_writes
from sandhold.desired.world import KubeObject, Manifest, Present


def index_writes(situation: Situation) -> tuple[Create | WriteStatus, ...]:
    """What brings the SandboxSnapshot of this epoch to its newest archive, where that is wanted and may be made."""
    manifest, store = situation.epoch_archive, situation.store
    if manifest is None or store is None or is_indexed(situation) or situation.world.namespace_terminating:
        return ()
    entry = situation.indexed.get(situation.epoch)
    if entry is not None and entry.sequence > manifest.sequence:
        return ()  # Archives are never taken back: somebody else's business, and a start refuses it.
    archived = Archived(situation.world.installation.id, situation.slot, store, manifest)
    return snapshot_writes(situation.session, archived, situation.now, _entry_of(situation, manifest))


def index_trouble(situation: Situation) -> Trouble | None:
    """Whether somebody else's object has the name of this epoch's entry, or the entry is ahead of the store."""
    manifest = situation.epoch_archive
    found = _entry_of(situation, manifest) if manifest is not None else None
    if manifest is None or found is None:
        return None
    metadata = ownership.metadata_of(found)
    labels = metadata.get("labels") or {}
    ours = {names.LABEL_INSTALLATION: situation.world.installation.id, names.LABEL_SLOT: situation.slot}
    if ours.items() <= labels.items():
        return _ahead(situation.indexed.get(situation.epoch), manifest)
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
    """Whether this epoch's newest archive has its entry, or can have none because its namespace is going."""
    manifest = situation.epoch_archive
    if situation.world.namespace_terminating:
        return True
    return manifest is not None and _names(situation.indexed.get(situation.epoch), manifest)


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
    said, manifest = situation.status.snapshot, situation.epoch_archive
    if manifest is None or not (is_indexed(situation) or index_trouble(situation) is not None):
        return said
    is_newer = said is None or (said.epoch, said.sequence) <= (manifest.epoch, manifest.sequence)
    return snapshot_state(situation, manifest) if is_newer else said


def _names(entry: Entry | None, manifest: Manifest) -> bool:
    """By its number alone, which tells an archive of an epoch: CRDs of an older version drop the rest."""
    return entry is not None and entry.sequence == manifest.sequence


def _entry_of(situation: Situation, manifest: Manifest) -> KubeObject | None:
    """The object that has the name of an epoch's entry, whoever made it."""
    seen = situation.world.snapshots
    name = names.snapshot_name(situation.session.metadata.name, situation.slot, manifest.epoch)
    documents = seen.value if isinstance(seen, Present) else ()
    return next((each for each in documents if ownership.metadata_of(each).get("name") == name), None)
