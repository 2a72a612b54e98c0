"""What one pass wants: a value that says everything and does nothing.

`cluster/apply.py` carries it out in this order: finalizer put on, `writes` in their order, `calls` in their order,
`status`, `events` (only when the status write, if any, succeeded), finalizer taken off. The first failure ends the pass.
A plan that wants what the world already has is carried out without a request.

The YAML form (`to_yaml`) has a fixed order of keys: golden files, debug logs and the `plan` command all use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """An order to the keeper of a pod (operator/keeper/PROTOCOL.md 4.2). The apply layer signs `grant`, if one is given."""

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
