"""Whose an object is: the labels and annotations that we put on what we make, and the claims that are read from them.

An object counts as ours only when the installation id, the owner with its UID and the name that we would have given
all agree. One label alone, or a name alone, never suffices: anybody may write those.
"""

from collections.abc import Mapping
from typing import Any

from sandhold import names
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject


def metadata_of(document: KubeObject) -> Mapping[str, Any]:
    """The metadata of a raw object."""
    found = document.get("metadata")
    return found if isinstance(found, Mapping) else {}


def uid_of(document: KubeObject) -> str:
    """The UID of a raw object; empty before the API server gave one."""
    return str(metadata_of(document).get("uid", ""))


def reference_to(document: KubeObject, api_version: str, kind: str) -> Reference:
    """A reference to a raw object whose kind the caller knows."""
    metadata = metadata_of(document)
    return Reference(api_version, kind, str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def sandbox_object(sandbox: AgentSandbox) -> str:
    """Name of the NetworkPolicy and of the ServiceAccount of an AgentSandbox."""
    return names.sandbox_object_name(sandbox.metadata.name, sandbox.metadata.uid)


def sandbox_owner(sandbox: AgentSandbox) -> str:
    """Value of ANNOTATION_OWNER on what an AgentSandbox owns."""
    meta = sandbox.metadata
    return names.owner_value("AgentSandbox", meta.namespace, meta.name, meta.uid)


def session_owner(session: SandboxSession) -> str:
    """Value of ANNOTATION_OWNER on what a SandboxSession owns."""
    meta = session.metadata
    return names.owner_value("SandboxSession", meta.namespace, meta.name, meta.uid)


def sandbox_child(installation_id: str, sandbox: AgentSandbox) -> dict[str, Any]:
    """Metadata of each object that is made for an AgentSandbox: one name, whose they are, and for whom."""
    return {
        "name": sandbox_object(sandbox),
        "namespace": sandbox.metadata.namespace,
        "labels": sandbox_labels(installation_id, sandbox),
        "annotations": {names.ANNOTATION_OWNER: sandbox_owner(sandbox)},
    }


def sandbox_selector(installation_id: str, sandbox: AgentSandbox) -> dict[str, str]:
    """Labels that the pods of this very AgentSandbox carry, and no successor's of its name."""
    labels = sandbox_labels(installation_id, sandbox)
    return {key: labels[key] for key in (names.LABEL_INSTALLATION, names.LABEL_SANDBOX_UID)}


def sandbox_labels(installation_id: str, sandbox: AgentSandbox) -> dict[str, str]:
    """Labels of the NetworkPolicy and the ServiceAccount of an AgentSandbox."""
    return {
        names.LABEL_INSTALLATION: installation_id,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_SANDBOX: names.label_value(sandbox.metadata.name),
        names.LABEL_SANDBOX_UID: sandbox.metadata.uid,
    }


def pod_labels(installation_id: str, sandbox: AgentSandbox, session: SandboxSession) -> dict[str, str]:
    """Labels of a session's pod."""
    return {
        **sandbox_labels(installation_id, sandbox),
        names.LABEL_KIND: names.KIND_AGENT,
        names.LABEL_SESSION_UID: session.metadata.uid,
    }


def pod_epoch(pod: KubeObject, session: SandboxSession) -> int | None:
    """The epoch that a pod was made for, believed only when its name was made from it; else None."""
    metadata = metadata_of(pod)
    text = str((metadata.get("annotations") or {}).get(names.ANNOTATION_EPOCH, ""))
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 10):
        return None
    epoch = int(text)
    expected = names.pod_name(session.metadata.name, session.metadata.uid, epoch)
    return epoch if metadata.get("name") == expected else None


def is_pod_of(pod: KubeObject, installation_id: str, session: SandboxSession) -> bool:
    """Whether a pod was made by this installation for this very session."""
    labels = metadata_of(pod).get("labels") or {}
    annotations = metadata_of(pod).get("annotations") or {}
    return (
        labels.get(names.LABEL_INSTALLATION) == installation_id
        and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
        and labels.get(names.LABEL_SESSION_UID) == session.metadata.uid
        and annotations.get(names.ANNOTATION_OWNER) == session_owner(session)
        and metadata_of(pod).get("namespace") == session.metadata.namespace
        and pod_epoch(pod, session) is not None
    )


def belongs_to_sandbox(document: KubeObject, installation_id: str, sandbox: AgentSandbox) -> bool:
    """Whether a policy or an account was made by this installation for this very AgentSandbox."""
    labels = metadata_of(document).get("labels") or {}
    annotations = metadata_of(document).get("annotations") or {}
    return (
        labels.get(names.LABEL_INSTALLATION) == installation_id
        and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
        and labels.get(names.LABEL_SANDBOX_UID) == sandbox.metadata.uid
        and annotations.get(names.ANNOTATION_OWNER) == sandbox_owner(sandbox)
        and metadata_of(document).get("name") == sandbox_object(sandbox)
        and metadata_of(document).get("namespace") == sandbox.metadata.namespace
    )
