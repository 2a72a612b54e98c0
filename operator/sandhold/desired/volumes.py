"""The volumes of a sandbox pod, who mounts which, and the disk limit that follows from their sizes.

The kubelet evicts a pod, with a second of grace, when an emptyDir outgrows its own limit or when everything together
outgrows the containers' limits. So the workspace's hard limit is twice what it is meant to hold, and the keeper's
container limit adds every volume up: the sum can never be reached before a single volume's own limit.
"""

from typing import Any

from sandhold import names
from sandhold.api.quantity import quantity_bytes
from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import environment

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

_MEBIBYTE = 1 << 20
_SMALL_BYTES = 64 * _MEBIBYTE
_HINTS_BYTES = 4 * _MEBIBYTE
_SCRATCH_BYTES = 2048 * _MEBIBYTE
_LOGS_BYTES = 256 * _MEBIBYTE


def workspace_bytes(sandbox: AgentSandbox) -> int:
    """Hard limit of the workspace volume."""
    return 2 * quantity_bytes(sandbox.spec.workspace.size)


def _scratch_bytes(sandbox: AgentSandbox) -> int:
    """Home and /tmp each: an agent that unpacks its workspace's worth of packages there must not be evicted for it."""
    return max(_SCRATCH_BYTES, workspace_bytes(sandbox))


def keeper_disk_bytes(sandbox: AgentSandbox) -> int:
    """The keeper's ephemeral-storage limit: every volume's limit together, and the logs of both containers."""
    return workspace_bytes(sandbox) + 2 * _scratch_bytes(sandbox) + 2 * _SMALL_BYTES + _HINTS_BYTES + _LOGS_BYTES


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


def keeper_mounts() -> list[dict[str, Any]]:
    """What the keeper sees."""
    return [
        {"name": GATE, "mountPath": names.PATH_GATE},
        {"name": HINTS, "mountPath": names.PATH_HINTS},
        {"name": PRIVATE, "mountPath": names.PATH_KEEPER_PRIVATE},
        {"name": WORKSPACE, "mountPath": PATH_WORKSPACE_OF_KEEPER},
        {"name": TOKEN, "mountPath": names.PATH_KEEPER_TOKEN, "readOnly": True},
        {"name": PODINFO, "mountPath": names.PATH_KEEPER_PODINFO, "readOnly": True},
    ]


def _empty(name: str, limit: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"sizeLimit": str(limit)}}


def _token() -> dict[str, Any]:
    return {"audience": names.TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}


def _podinfo() -> list[dict[str, Any]]:
    """Where home is, as files that follow the pod's annotations."""
    pairs = ((MOVER_ADDRESS_FILE, names.ANNOTATION_MOVER_ADDRESS), (MOVER_CA_FILE, names.ANNOTATION_MOVER_CA))
    return [
        {"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in pairs
    ]
