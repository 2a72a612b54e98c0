"""The volumes of a sandbox pod, who mounts which, and the disk limit that follows from their sizes.

The kubelet evicts a pod, with a second of grace, when an emptyDir outgrows its own limit or when everything together
outgrows the containers' limits. So the workspace's hard limit is twice what it is meant to hold, and the keeper's
container limit adds every volume up: the sum can never be reached before a single volume's own limit.
"""

from typing import Any

from sandhold import names
from sandhold.api.quantity import quantity_bytes
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.workspace import ConfigMapEntry, Entry, SecretEntry
from sandhold.desired import environment
from sandhold.reasons import Refusal, RefusalCode, refuse

GATE = "gate"
HINTS = "hints"
PRIVATE = "keeper"
WORKSPACE = "workspace"
HOME = "home"
TEMPORARY = "tmp"
TOKEN = "token"  # noqa: S105 - the name of a volume
PODINFO = "podinfo"

PATH_WORKSPACE_OF_KEEPER = "/run/sandhold/workspace"
TOKEN_SECONDS = 3600
MOVER_ADDRESS_FILE = "mover-address"
MOVER_CA_FILE = "mover-ca"

LIMIT_FACTOR = 2
"""The hard limit of the workspace volume is so many times what it is meant to hold."""
_MEBIBYTE = 1 << 20
_SMALL_BYTES = 64 * _MEBIBYTE
_HINTS_BYTES = 4 * _MEBIBYTE
_SCRATCH_BYTES = 2048 * _MEBIBYTE
_LOGS_BYTES = 256 * _MEBIBYTE
_CONFIG_MAP_BYTES = 2 * _MEBIBYTE
"""A ConfigMap holds at most 1 MiB, and the kubelet has two versions on the disk while it changes one for the other."""
_SOURCE_MODE = 0o440
"""Files of a source belong to root and the pod's group: the keeper may read them, nobody may change them."""


def workspace_bytes(sandbox: AgentSandbox) -> int:
    """Hard limit of the workspace volume."""
    return LIMIT_FACTOR * quantity_bytes(sandbox.spec.workspace.size)


def _scratch_bytes(sandbox: AgentSandbox) -> int:
    """Home and /tmp each: an agent that unpacks its workspace's worth of packages there must not be evicted for it."""
    return max(_SCRATCH_BYTES, workspace_bytes(sandbox))


def keeper_disk_bytes(sandbox: AgentSandbox) -> int:
    """The keeper's ephemeral-storage limit: every volume's limit together, and the logs of both containers."""
    own = 2 * _SMALL_BYTES + _HINTS_BYTES + _LOGS_BYTES
    # Secrets are held in memory.
    config_maps = sum(isinstance(source, ConfigMapEntry) for source in _sources(sandbox).values())
    return workspace_bytes(sandbox) + 2 * _scratch_bytes(sandbox) + own + config_maps * _CONFIG_MAP_BYTES


def source_name(entry: Entry) -> str | None:
    """The folder, below the keeper's folder of sources, that an entry is copied from; None when its content is its own.

    Made from what it is a copy of, never from its place in the list: a pod that was made from an older list cannot show
    one source under the name of another.
    """
    source = entry.source
    if source is None:
        return None
    return names.short_hash(source.kind, source.name, source.key or "")


def _sources(sandbox: AgentSandbox) -> dict[str, ConfigMapEntry | SecretEntry]:
    """Every source once, by the name of its folder."""
    found = {}
    for entry in sandbox.spec.workspace.entries:
        name = source_name(entry)
        if name is not None and entry.source is not None:
            found[name] = entry.source
    return found


def sources_refusal(sandbox: AgentSandbox, operator_namespace: str) -> Refusal | None:
    """Why the sources may not be mounted: in our own namespace Secrets hold the keys of the whole installation.

    Elsewhere whoever may make an AgentSandbox may read the namespace's Secrets through it, as with pods.
    """
    if sandbox.metadata.namespace != operator_namespace:
        return None
    for place, entry in enumerate(sandbox.spec.workspace.entries):
        if entry.secret is not None:
            message = (
                f"spec.workspace.entries[{place}].secret of AgentSandbox {sandbox.metadata.name}: no Secret of the "
                f"operator's own namespace {operator_namespace} is shown to an agent"
            )
            return refuse(RefusalCode.SPEC_REFUSED, message, "Keep AgentSandboxes in namespaces of their own.")
    return None


def pod_volumes(sandbox: AgentSandbox) -> list[dict[str, Any]]:
    """Every volume of the pod."""
    return [
        _empty(GATE, _SMALL_BYTES),
        _empty(HINTS, _HINTS_BYTES),
        _empty(PRIVATE, _SMALL_BYTES),
        _empty(WORKSPACE, workspace_bytes(sandbox)),
        _empty(HOME, _scratch_bytes(sandbox)),
        _empty(TEMPORARY, _scratch_bytes(sandbox)),
        {"name": TOKEN, "projected": {"sources": [{"serviceAccountToken": _token()}]}},
        {"name": PODINFO, "downwardAPI": {"items": _podinfo()}},
        *(_source(name, source) for name, source in _sources(sandbox).items()),
    ]


def agent_mounts(sandbox: AgentSandbox) -> list[dict[str, Any]]:
    """What the agent sees: the gate read-only, and nothing of the keeper's."""
    return [
        {"name": GATE, "mountPath": names.PATH_GATE, "readOnly": True},
        {"name": HINTS, "mountPath": names.PATH_HINTS},
        {"name": WORKSPACE, "mountPath": sandbox.spec.workspace.mount_path},
        {"name": HOME, "mountPath": environment.HOME},
        {"name": TEMPORARY, "mountPath": environment.TEMPORARY},
    ]


def keeper_mounts(sandbox: AgentSandbox) -> list[dict[str, Any]]:
    """What the keeper sees. The sources of entries are mounted nowhere else: the agent gets copies in the workspace."""
    return [
        {"name": GATE, "mountPath": names.PATH_GATE},
        {"name": HINTS, "mountPath": names.PATH_HINTS},
        {"name": PRIVATE, "mountPath": names.PATH_KEEPER_PRIVATE},
        {"name": WORKSPACE, "mountPath": PATH_WORKSPACE_OF_KEEPER},
        {"name": TOKEN, "mountPath": names.PATH_KEEPER_TOKEN, "readOnly": True},
        {"name": PODINFO, "mountPath": names.PATH_KEEPER_PODINFO, "readOnly": True},
        *(
            {"name": _volume(name), "mountPath": f"{names.PATH_KEEPER_SOURCES}/{name}", "readOnly": True}
            for name in _sources(sandbox)
        ),
    ]


def _empty(name: str, limit: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"sizeLimit": str(limit)}}


def _volume(source_name: str) -> str:
    return f"source-{source_name}"


def _source(name: str, source: ConfigMapEntry | SecretEntry) -> dict[str, Any]:
    """Optional, so that one that is missing hangs no pod: the keeper waits for it, and says so.

    Only the key that is asked for is mounted.
    """
    how: dict[str, Any] = {"optional": True, "defaultMode": _SOURCE_MODE}
    if source.key is not None:
        how["items"] = [{"key": source.key, "path": source.key}]
    if isinstance(source, ConfigMapEntry):
        return {"name": _volume(name), "configMap": {"name": source.name, **how}}
    return {"name": _volume(name), "secret": {"secretName": source.name, **how}}


def _token() -> dict[str, Any]:
    return {"audience": names.TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}


def _podinfo() -> list[dict[str, Any]]:
    """Where home is, as files that follow the pod's annotations."""
    pairs = ((MOVER_ADDRESS_FILE, names.ANNOTATION_MOVER_ADDRESS), (MOVER_CA_FILE, names.ANNOTATION_MOVER_CA))
    return [
        {"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in pairs
    ]
