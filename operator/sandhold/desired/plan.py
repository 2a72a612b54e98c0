"""What one pass wants: a value that says everything and does nothing.

`cluster/apply.py` carries it out in this order: finalizer put on, `writes` in their order, `calls` in their order,
`status`, `events` (only when the status write, if any, succeeded), finalizer taken off. The first failure ends the
pass. A plan that wants what the world already has is carried out without a request.

The YAML form (`to_yaml`) has a fixed order of keys: golden files, debug logs and the `plan` command all use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from sandhold.desired.world import KubeObject


@dataclass(frozen=True, slots=True)
class Reference:
    """One object of the API server."""

    api_version: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Create:
    """POST. An object of that name with our field manager's labels and the same session UID counts as success."""

    object: KubeObject


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply with our field manager; skipped while the intent and the object's version are unchanged."""

    object: KubeObject


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE with a UID precondition; `cause` is for the log and the Event. Gone already is success."""

    reference: Reference
    uid: str
    cause: str
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """The status of another object of ours (a SandboxSnapshot just created), as a whole."""

    reference: Reference
    status: Mapping[str, Any]


Write = Create | Apply | Delete | WriteStatus


@dataclass(frozen=True, slots=True)
class Order:
    """An order to the keeper of a pod (operator/keeper/PROTOCOL.md 4.2). The apply layer signs `grant`, if given."""

    pod_uid: str
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    grant: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence manifest of an epoch, written by a mover before the gate opens."""

    store: str
    slot: str
    epoch: int
    parent: tuple[int, int] | None
    pod_uid: str


Call = Order | Fence


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event on the object that the plan is for. `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one pass wants."""

    finalizer_add: str | None = None
    writes: tuple[Write, ...] = ()
    calls: tuple[Call, ...] = ()
    status: Mapping[str, Any] | None = None
    """The whole new status, or None to leave it: equal to the present one means no request."""
    events: tuple[Event, ...] = ()
    finalizer_remove: str | None = None
    wake_after: float | None = None
    """Seconds until this key must be looked at again even if nothing happens."""


def to_yaml(plan: Plan) -> str:
    """The plan as YAML for people and golden files: fixed order of keys, nothing that is not wanted, never anchors."""
    return as_yaml(to_parts(plan))


def as_yaml(document: Any) -> str:
    """Any plain document in the form that plans have."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def to_parts(plan: Plan) -> dict[str, Any]:
    """The plan as plain dictionaries and lists."""
    parts = {
        "finalizerAdd": plan.finalizer_add,
        "writes": [_write(write) for write in plan.writes],
        "calls": [_call(call) for call in plan.calls],
        "status": _plain(plan.status) if plan.status is not None else None,
        "events": [{"type": event.type, "reason": event.reason, "message": event.message} for event in plan.events],
        "finalizerRemove": plan.finalizer_remove,
        "wakeAfter": plan.wake_after,
    }
    return {key: part for key, part in parts.items() if part is not None and part != []}


class _Dumper(yaml.SafeDumper):
    """Writes a value that stands twice in a plan twice, since a reader of a golden file should not follow anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _plain(value: Any) -> Any:
    """Mappings and tuples of any kind as the dictionaries and lists that YAML knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _reference(reference: Reference) -> dict[str, Any]:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
    }


def _write(write: Write) -> dict[str, Any]:
    match write:
        case Create(document):
            return {"create": _plain(document)}
        case Apply(document):
            return {"apply": _plain(document)}
        case Delete(reference, uid, cause, grace):
            parts = {**_reference(reference), "uid": uid, "cause": cause}
            return {"delete": parts if grace is None else {**parts, "graceSeconds": grace}}
        case WriteStatus(reference, status):
            return {"writeStatus": {**_reference(reference), "status": _plain(status)}}


def _call(call: Call) -> dict[str, Any]:
    match call:
        case Order(pod_uid, verb, arguments, grant):
            parts = {"podUid": pod_uid, "verb": verb, "arguments": _plain(arguments)}
            return {"order": parts if grant is None else {**parts, "grant": _plain(grant)}}
        case Fence(store, slot, epoch, parent, pod_uid):
            source = None if parent is None else {"epoch": parent[0], "sequence": parent[1]}
            return {"fence": {"store": store, "slot": slot, "epoch": epoch, "parent": source, "podUid": pod_uid}}
