"""The sandbox pod of one epoch: the agent behind the gate, the keeper beside it, and nothing that either may misuse.

Builds what to ask for, and the part that is patched when a mover moves. How the stored pod is compared with this is
`difference.py`'s business; what a pod's status says is `seen.py`'s.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandhold import names
from sandhold.api.quantity import quantity_bytes
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.backends.admit import Admission
from sandhold.desired import environment, ownership, runtime, volumes
from sandhold.desired.world import KubeObject

SHORTEST_GRACE = 30
LONGEST_GRACE = 600
SLOW_BYTES = 32 << 20
"""What a keeper stores in a second when the store is slow."""

_CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
_KEEPER_MEMORY_REQUEST = "16Mi"
_KEEPER_MEMORY_LIMIT = "256Mi"


@dataclass(frozen=True, slots=True)
class PodMaterial:
    """What a pod is made from beside its session and AgentSandbox. All of it is known, or there is no pod."""

    installation_id: str
    admission: Admission
    account_uid: str
    keeper_image: str
    keeper_image_pull_policy: str
    mover_address: str
    mover_ca: str


def sandbox_pod(material: PodMaterial, sandbox: AgentSandbox, session: SandboxSession, epoch: int) -> dict[str, Any]:
    """The pod as it is POSTed."""
    meta = session.metadata
    metadata: dict[str, Any] = {
        "name": names.pod_name(meta.name, meta.uid, epoch),
        "namespace": meta.namespace,
        "labels": ownership.pod_labels(material.installation_id, sandbox, session),
        "annotations": {names.ANNOTATION_OWNER: ownership.session_owner(session), names.ANNOTATION_EPOCH: str(epoch)},
        "ownerReferences": [_controller(sandbox, material.account_uid)],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(material, sandbox, session)}
    metadata["annotations"][names.ANNOTATION_INTENT] = intent_of(document)
    metadata["annotations"] |= mover_annotations(material.mover_address, material.mover_ca)
    return document


def grace_seconds(sandbox: AgentSandbox) -> int:
    """Grace of a pod that somebody else deletes: what its keeper has for the last archive.

    Half a minute to end the agent and to find a mover, and as long as a slow store takes for `workspace.size`; never
    more than what a drain can be made to wait for. Nobody waits longer than the keeper needs.
    """
    size = quantity_bytes(sandbox.spec.workspace.size)
    return min(SHORTEST_GRACE + math.ceil(size / SLOW_BYTES), LONGEST_GRACE)


def intent_of(document: Mapping[str, Any]) -> str:
    """Digest of a pod as asked for, without what may change while it runs."""
    return names.short_hash(json.dumps(document, sort_keys=True, separators=(",", ":")), length=32)


def mover_annotations(address: str, ca: str) -> dict[str, str]:
    """Where the keeper finds home. Patched when it changes; the keeper's files follow."""
    return {names.ANNOTATION_MOVER_ADDRESS: address, names.ANNOTATION_MOVER_CA: ca}


def mover_patch(stored: KubeObject, address: str, ca: str) -> dict[str, Any] | None:
    """The part of a pod to apply when a mover moved or the CA changed; None while the pod says where they are."""
    metadata = ownership.metadata_of(stored)
    labels, present = metadata.get("labels") or {}, metadata.get("annotations") or {}
    wanted = mover_annotations(address, ca)
    if all(present.get(key) == value for key, value in wanted.items()):
        return None
    kept = (names.LABEL_INSTALLATION, names.LABEL_SANDBOX, names.LABEL_SESSION_UID)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata.get("name"),
            "namespace": metadata.get("namespace"),
            "labels": {key: labels[key] for key in kept if key in labels},
            "annotations": wanted,
        },
    }


def _controller(sandbox: AgentSandbox, account_uid: str) -> dict[str, Any]:
    """The service account owns the pod: an owner that a drain accepts, and whose deletion we decide on.

    Never a custom object of a user's: its foreground deletion would take the pod before the archive.
    """
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "name": ownership.sandbox_object(sandbox),
        "uid": account_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _spec(material: PodMaterial, sandbox: AgentSandbox, session: SandboxSession) -> dict[str, Any]:
    spec: dict[str, Any] = {
        **runtime.runtime_demands(material.admission.runtime_class),
        "serviceAccountName": ownership.sandbox_object(sandbox),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": grace_seconds(sandbox),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": sandbox.spec.run_as_user,
            "runAsGroup": sandbox.spec.run_as_group,
            "fsGroup": sandbox.spec.run_as_group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_keeper(material, sandbox)],
        "containers": [_agent(material, sandbox, session)],
        "volumes": volumes.pod_volumes(sandbox),
    }
    return spec | _placement(sandbox)


def _placement(sandbox: AgentSandbox) -> dict[str, Any]:
    placement = sandbox.spec.pod
    secrets = [{"name": item.name} for item in sandbox.spec.image_pull_secrets]
    parts: dict[str, Any] = {"imagePullSecrets": secrets}
    if placement is not None:
        parts["nodeSelector"] = dict(placement.node_selector)
        parts["tolerations"] = [item.wire() for item in placement.tolerations]
    return {key: part for key, part in parts.items() if part}


def _keeper(material: PodMaterial, sandbox: AgentSandbox) -> dict[str, Any]:
    """The keeper as a native sidecar. Its hooks take milliseconds: while `postStart` blocks there is no IP and no wall.

    `preStop` runs at the beginning of the pod's end, beside the agent's SIGTERM: what the grace holds is the archive's.
    """
    disk = volumes.keeper_disk_bytes(sandbox)
    install = [names.PATH_KEEPER_BINARY, "install", names.PATH_INIT]
    leave = [names.PATH_KEEPER_BINARY, "leave"]
    return {
        "name": names.KEEPER_CONTAINER,
        "image": material.keeper_image,
        "imagePullPolicy": material.keeper_image_pull_policy,
        "command": [names.PATH_KEEPER_BINARY, "keeper"],
        "restartPolicy": "Always",
        "lifecycle": {"postStart": {"exec": {"command": install}}, "preStop": {"exec": {"command": leave}}},
        "resources": {
            "requests": {"cpu": "10m", "memory": _KEEPER_MEMORY_REQUEST, "ephemeral-storage": "64Mi"},
            "limits": {"memory": _KEEPER_MEMORY_LIMIT, "ephemeral-storage": str(disk)},
        },
        "securityContext": _security(),
        "volumeMounts": volumes.keeper_mounts(sandbox),
    }


def _agent(material: PodMaterial, sandbox: AgentSandbox, session: SandboxSession) -> dict[str, Any]:
    """The agent behind the gate.

    The working folder is the mount path, which exists before the workspace does: the runtime would make any deeper one,
    as root, inside the volume that is to be filled. Init goes deeper by itself.
    """
    spec = sandbox.spec
    container: dict[str, Any] = {
        "name": names.AGENT_CONTAINER,
        "image": material.admission.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": [names.PATH_INIT],
        "workingDir": spec.workspace.mount_path,
        "env": environment.container_environment(environment.agent_environment(spec.env, session.spec.env)),
        "ports": [{"name": item.name, "containerPort": item.port, "protocol": item.protocol} for item in spec.ports],
        "resources": {key: dict(amounts) for key, amounts in material.admission.resources.items()},
        "readinessProbe": {
            "exec": {"command": [names.PATH_INIT, "ready"]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 1,
        },
        "securityContext": _security(),
        "volumeMounts": volumes.agent_mounts(sandbox),
    }
    return {key: part for key, part in container.items() if part not in (None, [], {})}


def _security() -> dict[str, Any]:
    return {**_CONTAINER_SECURITY, "capabilities": {"drop": ["ALL"]}}
