"""The SandboxSnapshot of an archive: an index entry of the store, made from a verified manifest and read back.

Nothing owns it, so neither a session's end nor a lost etcd takes an archive's entry along by accident.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sandhold import names
from sandhold.api.session import SandboxSession
from sandhold.api.snapshot import SandboxSnapshotStatus, SessionReference
from sandhold.desired import conditions, ownership
from sandhold.desired.plan import Create, Reference, WriteStatus
from sandhold.desired.seen import moment
from sandhold.desired.world import KubeObject, Manifest
from sandhold.reasons import READY

KIND = "SandboxSnapshot"


@dataclass(frozen=True, slots=True)
class Archived:
    """A verified archive, and where it is."""

    installation_id: str
    slot: str
    store: str
    manifest: Manifest


def snapshot_writes(session: SandboxSession, archived: Archived, now: datetime) -> tuple[Create, WriteStatus]:
    """Make the entry and say that it is verified, which the manifest that a mover read back proves."""
    meta = session.metadata
    name = entry_name(session, archived)
    document = {
        "apiVersion": names.API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": _labels(session, archived),
            "annotations": {names.ANNOTATION_OWNER: ownership.session_owner(session)},
        },
        "spec": {"sessionRef": SessionReference(name=meta.name, uid=meta.uid).wire()},
    }
    reference = Reference(names.API_VERSION, KIND, meta.namespace, name)
    return Create(document), WriteStatus(reference, _status(archived, now).wire())


def entry_name(session: SandboxSession, archived: Archived) -> str:
    """Name of the entry of an archive."""
    manifest = archived.manifest
    return names.snapshot_name(session.metadata.name, archived.slot, manifest.epoch, manifest.sequence)


def indexed(snapshots: Iterable[KubeObject], slot: str) -> dict[tuple[int, int], str]:
    """Epoch and sequence of every archive of a slot that an entry calls verified, with the entry's name."""
    found = {}
    for document in snapshots:
        metadata, status = ownership.metadata_of(document), document.get("status") or {}
        epoch, sequence = status.get("epoch"), status.get("sequence")
        is_of_slot = (metadata.get("labels") or {}).get(names.LABEL_SLOT) == slot
        if is_of_slot and status.get("phase") == "Ready" and isinstance(epoch, int) and isinstance(sequence, int):
            found[epoch, sequence] = str(metadata.get("name", ""))
    return found


def _labels(session: SandboxSession, archived: Archived) -> dict[str, str]:
    return {
        names.LABEL_INSTALLATION: archived.installation_id,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_SESSION_UID: session.metadata.uid,
        names.LABEL_SLOT: archived.slot,
    }


def _status(archived: Archived, now: datetime) -> SandboxSnapshotStatus:
    claim = conditions.yes(READY, "Stored", "The archive is stored and verified.")
    settled = conditions.settle((), (claim,), 1, now)
    manifest = archived.manifest
    return SandboxSnapshotStatus(
        observed_generation=1,
        phase="Ready",
        conditions=settled,
        store=archived.store,
        key=manifest.key,
        digest=manifest.digest,
        bytes=manifest.bytes,
        stored_bytes=manifest.stored_bytes,
        files=manifest.files,
        epoch=manifest.epoch,
        sequence=manifest.sequence,
        created_at=moment(manifest.created_at),
        verified_at=now,
    )
