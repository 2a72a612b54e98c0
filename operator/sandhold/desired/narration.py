"""PURE: a plan in words, one sentence a step, in the order in which the steps would be made.

For people who ask what the operator would do now. Programs read the plan itself.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sandhold.desired.plan import Apply, Call, Create, Delete, Fence, Plan, Write, WriteStatus
from sandhold.desired.world import KubeObject


def steps(plan: Plan, status: Mapping[str, Any]) -> tuple[str, ...]:
    """What the plan does to an object with this status; empty when nothing would be changed."""
    said = []
    if plan.finalizer_add is not None:
        said.append(f"Put the finalizer {plan.finalizer_add} on it, so that it does not go before it may.")
    said += [_write(write) for write in plan.writes]
    said += [_call(call) for call in plan.calls]
    if plan.status is not None:
        said.append(_status(status, plan.status))
    said += [f"Write the Event {event.reason} ({event.type}): {event.message}" for event in plan.events]
    if plan.finalizer_remove is not None:
        said.append(f"Take the finalizer {plan.finalizer_remove} off it, so that it may go.")
    return tuple(said)


def _write(write: Write) -> str:
    match write:
        case Create(document):
            return f"Create {_named(document)}."
        case Apply(document):
            return f"Bring {_named(document)} to what it should be."
        case Delete(reference, _, cause, grace):
            within = "" if grace is None else f" with {grace} s of grace"
            return f"Delete {reference.kind} {reference.namespace}/{reference.name}{within}, because {cause}."
        case WriteStatus(reference, _):
            return f"Write the status of {reference.kind} {reference.namespace}/{reference.name}."


def _named(document: KubeObject) -> str:
    metadata = document["metadata"]
    return f"{document['kind']} {metadata.get('namespace', '')}/{metadata['name']}".replace(" /", " ")


def _call(call: Call) -> str:
    if isinstance(call, Fence):
        parent = "an empty workspace" if call.parent is None else f"archive {call.parent[0]}-{call.parent[1]}"
        return f"Have a mover write the fence of epoch {call.epoch}, which starts from {parent}."
    said = _ORDERS.get(call.verb)
    return said(call.arguments) if said is not None else f"Give the keeper the order {call.verb}."


def _prepare(arguments: Mapping[str, Any]) -> str:
    source = arguments.get("source")
    if not source:
        return "Have the keeper prepare a new workspace and try the walls."
    return f"Have the keeper restore archive {source['epoch']}-{source['sequence']} and try the walls."


def _entries(arguments: Mapping[str, Any]) -> str:
    part, count = arguments.get("index", 0) + 1, arguments.get("count", 1)
    return f"Send the keeper part {part} of {count} of the workspace's entries."


def _open(_: Mapping[str, Any]) -> str:
    return "Open the gate: the agent starts."


def _end(arguments: Mapping[str, Any]) -> str:
    return f"Have the agent ended: SIGTERM, and SIGKILL after {arguments.get('graceSeconds', 0)} s."


def _archive(arguments: Mapping[str, Any]) -> str:
    kind = "final archive" if arguments.get("final") else "archive"
    return f"Have the keeper send the {kind} of the workspace to the store."


def _keep(arguments: Mapping[str, Any]) -> str:
    kind = "final archive" if arguments.get("final") else "checkpoints"
    return f"Renew the keeper's standing grant for {kind}."


def _guard(arguments: Mapping[str, Any]) -> str:
    interval = arguments.get("intervalSeconds")
    often = f"a checkpoint every {interval} s" if interval else "no periodic checkpoints"
    return f"Tell the keeper the workspace's size limits, and {often}."


_ORDERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "entries": _entries,
    "prepare": _prepare,
    "open": _open,
    "end": _end,
    "archive": _archive,
    "keep": _keep,
    "guard": _guard,
}


def _status(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What becomes different, in words: the phase, and the conditions that say something else than before."""
    changes = []
    if before.get("phase") != after.get("phase"):
        changes.append(f"phase {before.get('phase') or 'none'} becomes {after.get('phase')}")
    old = {one["type"]: one for one in before.get("conditions") or ()}
    for one in after.get("conditions") or ():
        was = old.get(one["type"], {})
        if (was.get("status"), was.get("reason")) != (one["status"], one["reason"]):
            changes.append(f"{one['type']} becomes {one['status']} ({one['reason']})")
    fields = sorted(
        key
        for key in {*before, *after} - {"phase", "conditions", "observedGeneration"}
        if before.get(key) != after.get(key)
    )
    if fields:
        changes.append(f"{', '.join(fields)} {'changes' if len(fields) == 1 else 'change'}")
    return f"Write status: {'; '.join(changes) or 'messages and generations'}."
