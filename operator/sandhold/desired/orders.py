"""Orders to a keeper (operator/keeper/PROTOCOL.md 4.2) and the payloads of the grants that go with them.

Every order may be given twice: doing one again changes nothing. Grants are signed by whoever carries the plan out.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandhold.api.quantity import quantity_bytes
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.api.workspace import Entry
from sandhold.desired import environment, volumes
from sandhold.desired.evidence import Probe
from sandhold.desired.plan import Order
from sandhold.desired.world import Guard, Manifest

PART_BYTES = 24 * 1024
"""Bytes of one part of the entries, before base64 makes 32 KiB of them."""
GRANT_SECONDS = 3600
KEPT_SECONDS = 24 * 3600
"""Life of a standing grant: an operator that is away for less does not cost a checkpoint."""
UNLIMITED_BYTES = 1 << 50
UNLIMITED_FILES = 100_000_000
END_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """Which pod may do something with which slot: what every grant of a pass has in common."""

    installation_id: str
    pod_uid: str
    slot: str
    epoch: int
    store: str
    now: datetime


def entries_document(entries: Sequence[Entry]) -> bytes:
    """The entries as the JSON list that travels."""
    return json.dumps([_entry(entry) for entry in entries], separators=(",", ":"), ensure_ascii=False).encode()


def entries_orders(pod_uid: str, document: bytes) -> tuple[Order, ...]:
    """The document in parts, each of which says where it belongs."""
    parts = [document[start : start + PART_BYTES] for start in range(0, len(document), PART_BYTES)]
    digest = hashlib.sha256(document).hexdigest()
    return tuple(
        Order(
            pod_uid,
            "entries",
            {"digest": digest, "index": index, "count": len(parts), "data": base64.b64encode(part).decode()},
        )
        for index, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class Preparation:
    """How a workspace comes to be: from which archive, with which entries, and what to dial for evidence."""

    slot: str
    epoch: int
    source: Manifest | None
    entries: bytes
    writes_entries: bool
    probes: tuple[Probe, ...]


def prepare_order(pod_uid: str, preparation: Preparation, grant: dict[str, Any] | None) -> Order:
    """Fill the workspace, then collect evidence."""
    source = preparation.source
    return Order(
        pod_uid,
        "prepare",
        {
            "slot": preparation.slot,
            "epoch": preparation.epoch,
            "source": None if source is None else {"epoch": source.epoch, "sequence": source.sequence},
            "entriesDigest": hashlib.sha256(preparation.entries).hexdigest(),
            "writeEntries": preparation.writes_entries,
            "probes": [{"name": item.name, "address": item.address, "port": item.port} for item in preparation.probes],
        },
        grant,
    )


def open_order(pod_uid: str, challenge: str, sandbox: AgentSandbox, session: SandboxSession) -> Order:
    """The word to init: what to start, with which environment, where."""
    spec = sandbox.spec
    word = {
        "argv": [*spec.command, *spec.args],
        "env": environment.agent_environment(spec.env, session.spec.env),
        "workingDir": spec.working_dir or spec.workspace.mount_path,
    }
    return Order(pod_uid, "open", {"challenge": challenge, "word": word})


def end_order(pod_uid: str) -> Order:
    """End the agent; the container and the workspace stay."""
    return Order(pod_uid, "end", {"graceSeconds": END_GRACE_SECONDS})


def archive_order(pod_uid: str, sequence: int, grant: dict[str, Any]) -> Order:
    """Archive the workspace for good: nothing of this epoch comes after it.

    The limit that the grant sets is told to the keeper too, which then stops early instead of at the mover's word.
    """
    arguments = {"sequence": sequence, "final": True, "maxBytes": _told_limit(grant)}
    return Order(pod_uid, "archive", arguments, grant)


def keep_order(pod_uid: str, grant: dict[str, Any]) -> Order:
    """A standing grant, for checkpoints or for the archive of a pod that somebody else deletes."""
    arguments = {"final": grant["final"], "expires": grant["expires"], "maxBytes": _told_limit(grant)}
    return Order(pod_uid, "keep", arguments, grant)


def guard_order(pod_uid: str, guard: Guard) -> Order:
    """How large the workspace may grow, and how often a changed one is archived."""
    sizes = {"sizeBytes": guard.size_bytes, "limitBytes": guard.limit_bytes}
    return Order(pod_uid, "guard", {**sizes, "intervalSeconds": guard.interval_seconds})


def restore_grant(holder: Holder, source: Manifest, sandbox: AgentSandbox) -> dict[str, Any]:
    """What lets a pod fetch one archive. A limit lowered since it was made does not make it unreadable."""
    most_bytes, most_files = _limits(sandbox)
    return {
        **_grant(holder, "restore"),
        "source": {"epoch": source.epoch, "sequence": source.sequence},
        "maxBytes": max(most_bytes, source.bytes),
        "maxFiles": max(most_files, source.files),
    }


def archive_grant(holder: Holder, sequence: int, sandbox: AgentSandbox) -> dict[str, Any]:
    """What lets a pod store one archive."""
    most_bytes, most_files = _limits(sandbox)
    numbers = {"sequence": sequence, "final": True}
    return {**_grant(holder, "archive"), **numbers, "maxBytes": most_bytes, "maxFiles": most_files}


def standing_grant(holder: Holder, sandbox: AgentSandbox, *, final: bool) -> dict[str, Any]:
    """What lets a pod archive by itself. The mover numbers what it stores with it."""
    most_bytes, most_files = _limits(sandbox)
    limits = {"sequence": 1, "final": final, "maxBytes": most_bytes, "maxFiles": most_files}
    return {**_grant(holder, "archive", KEPT_SECONDS), **limits}


def _told_limit(grant: dict[str, Any]) -> int:
    """The limit of a grant for the keeper, to which it is opaque; 0 for none."""
    limit: int = grant["maxBytes"]
    return limit if limit < UNLIMITED_BYTES else 0


def _grant(holder: Holder, verb: str, seconds: int = GRANT_SECONDS) -> dict[str, Any]:
    return {
        "v": 1,
        "installation": holder.installation_id,
        "podUid": holder.pod_uid,
        "slot": holder.slot,
        "epoch": holder.epoch,
        "verb": verb,
        "store": holder.store,
        "expires": int(holder.now.timestamp()) + seconds,
    }


def _limits(sandbox: AgentSandbox) -> tuple[int, int]:
    policy = sandbox.spec.snapshot
    most_bytes = UNLIMITED_BYTES if policy.max_bytes is None else quantity_bytes(policy.max_bytes)
    return most_bytes, UNLIMITED_FILES if policy.max_files is None else policy.max_files


def _entry(entry: Entry) -> dict[str, Any]:
    """One entry as it travels. The content of a source does not: the keeper alone sees it."""
    kind, more = _content(entry)
    if entry.is_ephemeral:
        more["ephemeral"] = True
    return {"path": entry.path, "kind": kind, "mode": entry.effective_mode, **more}


def _content(entry: Entry) -> tuple[str, dict[str, Any]]:
    source = entry.source
    if source is not None:
        how = {"folderMode": entry.folder_mode} if source.key is None else {"key": source.key}
        return "Copy", {"source": volumes.source_name(entry), **how}
    if entry.file is None:
        return "Directory", {}
    return "File", {"content": base64.b64encode(entry.file.content.encode()).decode()}
