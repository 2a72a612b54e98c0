"""PURE: stored objects as our kinds, and the indices by which the cache finds what belongs together.

An object that cannot be read as its kind (written by a newer version, or by hand past the schema) is never guessed at:
the pass gets what is certain about it and a refusal that says which field is wrong.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from sandhold import names
from sandhold.api.meta import ObjectMeta
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxReference, SandboxSession, SandboxSessionSpec, SandboxSessionStatus
from sandhold.cluster.cache import Index
from sandhold.cluster.installation import slice_service
from sandhold.cluster.kinds import ACCOUNT, ENDPOINT_SLICE, POD, POLICY, SANDBOX, SESSION, SNAPSHOT
from sandhold.desired.sighting import owner_in
from sandhold.desired.world import KubeObject
from sandhold.reasons import Refusal, RefusalCode, refuse


def read_session(raw: KubeObject) -> tuple[SandboxSession, Refusal | None]:
    """A SandboxSession, and why it could not be read whole."""
    try:
        return SandboxSession.model_validate(raw), None
    except ValidationError as error:
        metadata = ObjectMeta.model_validate(raw["metadata"])
        reference = SandboxReference.model_construct(name=_sandbox_name(raw))
        spec = SandboxSessionSpec.model_construct(sandbox_ref=reference)
        session = SandboxSession.model_construct(metadata=metadata, spec=spec, status=_status(raw))
        return session, refuse(RefusalCode.SPEC_REFUSED, f"SandboxSession {metadata.name}: {_first(error)}")


def read_sandbox(raw: KubeObject) -> AgentSandbox | str:
    """An AgentSandbox, or why it cannot be read."""
    try:
        return AgentSandbox.model_validate(raw)
    except ValidationError as error:
        return f"AgentSandbox {raw['metadata']['name']} cannot be read: {_first(error)}"


def _status(raw: KubeObject) -> SandboxSessionStatus:
    """What of a status can be read, field by field: one word of another version must not hide slot and archive."""
    written: Any = raw.get("status")
    readable = {}
    for name, value in written.items() if isinstance(written, Mapping) else ():
        with suppress(ValidationError):
            SandboxSessionStatus.model_validate({name: value})
            readable[name] = value
    return SandboxSessionStatus.model_validate(readable)


def _first(error: ValidationError) -> str:
    """The first fault: its path and the sentence, never the value."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def labels_of(obj: KubeObject) -> Mapping[str, str]:
    """An object's labels; empty where it has none."""
    return obj["metadata"].get("labels") or {}


def owner_of(obj: KubeObject) -> tuple[str, str, str, str] | None:
    """Kind, namespace, name and UID of whom an object of ours was made for."""
    owner = owner_in(obj)
    return None if owner is None else (owner.kind, owner.namespace, owner.name, owner.uid)


def _sandbox_name(raw: KubeObject) -> str:
    spec: Any = raw.get("spec")
    reference = spec.get("sandboxRef") if isinstance(spec, Mapping) else None
    return str(reference.get("name", "")) if isinstance(reference, Mapping) else ""


def sandbox_of(raw_session: KubeObject) -> str:
    """`namespace/name` of the AgentSandbox that a session names."""
    return f"{raw_session['metadata'].get('namespace', '')}/{_sandbox_name(raw_session)}"


def _by_session(obj: KubeObject) -> tuple[str, ...]:
    """With its namespace: a label is anybody's to write, and a session's pods are beside it."""
    uid = labels_of(obj).get(names.LABEL_SESSION_UID)
    return (f"{obj['metadata'].get('namespace', '')}/{uid}",) if uid else ()


def _by_sandbox_label(obj: KubeObject) -> tuple[str, ...]:
    label = labels_of(obj).get(names.LABEL_SANDBOX)
    return (f"{obj['metadata'].get('namespace', '')}/{label}",) if label else ()


def _by_uid(obj: KubeObject) -> tuple[str, ...]:
    return (obj["metadata"].get("uid", ""),)


def _by_session_name(obj: KubeObject) -> tuple[str, ...]:
    spec: Any = obj.get("spec")
    reference = spec.get("sessionRef") if isinstance(spec, Mapping) else None
    name = reference.get("name") if isinstance(reference, Mapping) else None
    return (f"{obj['metadata'].get('namespace', '')}/{name}",) if name else ()


INDICES: Mapping[str, Mapping[str, Index]] = {
    POD: {"session": _by_session, "sandbox": _by_sandbox_label, "uid": _by_uid},
    POLICY: {"sandbox": _by_sandbox_label},
    ACCOUNT: {"sandbox": _by_sandbox_label},
    SESSION: {"sandbox": lambda raw: (sandbox_of(raw),), "uid": _by_uid},
    SANDBOX: {"label": lambda raw: (_labelled(raw),)},
    SNAPSHOT: {"session": _by_session_name},
    ENDPOINT_SLICE: {"service": slice_service},
}


def _labelled(raw_sandbox: KubeObject) -> str:
    """`namespace/value of LABEL_SANDBOX` that objects made for this AgentSandbox carry."""
    metadata = raw_sandbox["metadata"]
    return f"{metadata.get('namespace', '')}/{names.label_value(metadata['name'])}"
