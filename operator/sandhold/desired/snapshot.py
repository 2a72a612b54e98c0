"""The SandboxSnapshot of an epoch: an index entry of the store, made from a verified manifest and read back.

One an epoch: it names the newest archive of it, and its sequence rises with each checkpoint. Nothing owns it, so
neither a session's end nor a lost etcd takes an archive's entry along by accident.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from sandhold import names
from sandhold.api.meta import Condition, moment
from sandhold.api.session import SandboxSession
from sandhold.api.snapshot import SandboxSnapshotStatus, SessionReference
from sandhold.desired import conditions, ownership
from sandhold.desired.plan import Create, Reference, WriteStatus
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


@dataclass(frozen=True, slots=True)
class Entry:
    """What a SandboxSnapshot says of an epoch's newest archive."""

    name: str
    epoch: int
    sequence: int
    is_final: bool


def snapshot_writes(
    session: SandboxSession, archived: Archived, now: datetime, before: KubeObject | None = None
) -> tuple[Create | WriteStatus, ...]:
    """Make the entry, unless it is there, and say that it is verified, which the manifest proves that was read back."""
    meta = session.metadata
    name = names.snapshot_name(meta.name, archived.slot, archived.manifest.epoch)
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
    say = WriteStatus(reference, _status(archived, now, before).wire())
    return (Create(document), say) if before is None else (say,)


def entries(snapshots: Iterable[KubeObject], slot: str) -> Mapping[int, Entry]:
    """The newest verified archive of each epoch of a slot, as far as entries tell."""
    found: dict[int, Entry] = {}
    for document in snapshots:
        entry = _entry(document, slot)
        if entry is not None and (entry.epoch not in found or entry.sequence > found[entry.epoch].sequence):
            found[entry.epoch] = entry
    return found


def _entry(document: KubeObject, slot: str) -> Entry | None:
    metadata, status = ownership.metadata_of(document), document.get("status") or {}
    epoch, sequence = status.get("epoch"), status.get("sequence")
    is_of_slot = (metadata.get("labels") or {}).get(names.LABEL_SLOT) == slot
    if not is_of_slot or status.get("phase") != "Ready" or not isinstance(epoch, int) or not isinstance(sequence, int):
        return None
    return Entry(str(metadata.get("name", "")), epoch, sequence, is_final=status.get("final") is True)


def _labels(session: SandboxSession, archived: Archived) -> dict[str, str]:
    return {
        names.LABEL_INSTALLATION: archived.installation_id,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_SESSION_UID: session.metadata.uid,
        names.LABEL_SLOT: archived.slot,
    }


def _status(archived: Archived, now: datetime, before: KubeObject | None) -> SandboxSnapshotStatus:
    claim = conditions.yes(READY, "Stored", "The archive is stored and verified.")
    manifest = archived.manifest
    return SandboxSnapshotStatus(
        observed_generation=1,
        phase="Ready",
        conditions=conditions.settle(_conditions(before), (claim,), 1, now),
        store=archived.store,
        key=manifest.key,
        digest=manifest.digest,
        bytes=manifest.bytes,
        stored_bytes=manifest.stored_bytes,
        files=manifest.files,
        epoch=manifest.epoch,
        sequence=manifest.sequence,
        final=manifest.final,
        created_at=moment(manifest.created_at),
        verified_at=now,
    )


def _conditions(document: KubeObject | None) -> tuple[Condition, ...]:
    """The conditions that an entry has, for their times; none where somebody wrote something else there."""
    try:
        return SandboxSnapshotStatus.model_validate((document or {}).get("status") or {}).conditions
    except ValidationError:
        return ()
