"""PURE: objects as the API server holds them, into the shapes that commands show.

Lenient on purpose: an object of a newer or an older version is shown as far as it can be read.
"""

from collections.abc import Mapping
from typing import Any

from sandhold.cli.shapes import (
    ArchiveShape,
    ConditionShape,
    PodShape,
    RefusalShape,
    SessionShape,
    SnapshotShape,
)
from sandhold.reasons import READY, explained

Object = Mapping[str, Any]


def status_of(raw: Object) -> Mapping[str, Any]:
    """An object's status; empty where it has none."""
    return _mapping(raw.get("status"))


def spec_of(raw: Object) -> Mapping[str, Any]:
    """An object's spec."""
    return _mapping(raw.get("spec"))


def phase_of(raw: Object) -> str | None:
    """Where a session is."""
    return _text(status_of(raw).get("phase"))


def conditions_of(raw: Object) -> list[ConditionShape]:
    """All conditions of an object."""
    found = status_of(raw).get("conditions")
    return [
        ConditionShape(
            type=str(one.get("type", "")),
            status=str(one.get("status", "")),
            reason=str(one.get("reason", "")),
            message=str(one.get("message", "")),
            since=_text(one.get("lastTransitionTime")),
        )
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, Mapping)
    ]


def condition_of(raw: Object, name: str) -> ConditionShape | None:
    """One condition of an object."""
    return next((one for one in conditions_of(raw) if one.type == name), None)


def refusal_of(raw: Object) -> RefusalShape | None:
    """The refusal in a session's status, with what its code means."""
    refusal = _mapping(status_of(raw).get("refusal"))
    if not refusal:
        return None
    code = str(refusal.get("code", ""))
    known = explained(code)
    return RefusalShape(
        code=code,
        message=str(refusal.get("message", "")),
        meaning=known.sentence if known is not None else None,
        action=str(refusal.get("action") or (known.action if known is not None else "")),
    )


def pod_of(raw: Object) -> PodShape | None:
    """The pod that a session's status names."""
    status = status_of(raw)
    name = _text(status.get("podName"))
    if name is None:
        return None
    return PodShape(name=name, ip=_text(status.get("podIP")), node=_text(status.get("nodeName")))


def archive_of(raw: Object) -> ArchiveShape | None:
    """The recovery point that a session's status names."""
    snapshot = _mapping(status_of(raw).get("snapshot"))
    if not snapshot:
        return None
    return ArchiveShape(
        epoch=_whole(snapshot.get("epoch")),
        sequence=_whole(snapshot.get("sequence")),
        name=_text(snapshot.get("name")),
        key=_text(snapshot.get("key")),
    )


def session_shape(raw: Object) -> SessionShape:
    """A SandboxSession."""
    metadata, spec, status = _mapping(raw.get("metadata")), spec_of(raw), status_of(raw)
    ready = condition_of(raw, READY)
    return SessionShape(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        sandbox=str(_mapping(spec.get("sandboxRef")).get("name", "")),
        operating_mode=str(spec.get("operatingMode") or "Running"),
        phase=phase_of(raw),
        ready=ready is not None and ready.status == "True",
        reason=ready.reason if ready is not None else None,
        message=ready.message if ready is not None else None,
        deleting="deletionTimestamp" in metadata,
        tier=_text(status.get("tier")),
        runtime_class=_text(status.get("runtimeClassName")),
        recovery=_text(status.get("recovery")),
        restarts=_whole(status.get("restarts")) or 0,
        stop_reason=_text(status.get("stopReason")),
        refusal=refusal_of(raw),
        pod=pod_of(raw),
        snapshot=archive_of(raw),
        created_at=_text(metadata.get("creationTimestamp")),
        started_at=_text(status.get("startedAt")),
        expires_at=_text(status.get("expiresAt")),
        conditions=conditions_of(raw),
    )


def snapshot_shape(raw: Object) -> SnapshotShape:
    """A SandboxSnapshot."""
    metadata, spec, status = _mapping(raw.get("metadata")), spec_of(raw), status_of(raw)
    final = status.get("final")
    return SnapshotShape(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        session=str(_mapping(spec.get("sessionRef")).get("name", "")),
        phase=_text(status.get("phase")),
        final=final if isinstance(final, bool) else None,
        epoch=_whole(status.get("epoch")),
        sequence=_whole(status.get("sequence")),
        files=_whole(status.get("files")),
        bytes=_whole(status.get("bytes")),
        stored_bytes=_whole(status.get("storedBytes")),
        store=_text(status.get("store")),
        key=_text(status.get("key")),
        digest=_text(status.get("digest")),
        created_at=_text(status.get("createdAt")),
        verified_at=_text(status.get("verifiedAt")),
    )


def numbered(archive: ArchiveShape | None) -> str:
    """An archive as people name it: epoch and sequence."""
    return "" if archive is None else f"{archive.epoch}-{archive.sequence}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
