"""Statuses of sessions as the operator writes them: for tests of programs that read them and nothing else."""

from typing import Any

SINCE = "2026-11-30T10:00:00Z"


def condition(name: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    """One condition."""
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message or f"{reason}.",
        "lastTransitionTime": SINCE,
        "observedGeneration": 1,
    }


def ready(generation: int = 1, **more: Any) -> dict[str, Any]:
    """The agent runs."""
    return {
        "observedGeneration": generation,
        "phase": "Ready",
        "podName": "quill-0123456789-3",
        "podIP": "192.0.2.7",
        "nodeName": "node-a",
        "tier": "gvisor",
        "runtimeClassName": "gvisor",
        "recovery": "Restored",
        "slot": {"key": "0" * 64, "epoch": 3},
        "snapshot": {"epoch": 2, "sequence": 1, "key": "some/key", "digest": "d", "name": "quill-0000000000-2"},
        "startedAt": SINCE,
        "expiresAt": "2099-01-01T00:00:00Z",
        "conditions": [
            condition("Ready", "True", "Running", "The agent runs, or idles for exec."),
            condition("Reconciling", "False", "Settled"),
            condition("Stalled", "False", "Settled"),
            condition("Snapshotted", "True", "Stored"),
        ],
    } | more


def starting(**more: Any) -> dict[str, Any]:
    """On its way."""
    return {
        "observedGeneration": 1,
        "phase": "Starting",
        "conditions": [
            condition("Ready", "False", "Starting", "The session is on its way to Ready."),
            condition("Reconciling", "True", "Starting"),
            condition("Stalled", "False", "Progressing"),
            condition("PodReady", "Unknown", "Pending"),
        ],
    } | more


def stopping(generation: int, message: str = "The workspace of this stop is not archived yet.") -> dict[str, Any]:
    """A stop under way."""
    return {
        "observedGeneration": generation,
        "phase": "Stopping",
        "stopReason": "Requested",
        "conditions": [
            condition("Ready", "False", "Suspended", "The session was told to stop by spec.operatingMode."),
            condition("Reconciling", "True", "Stopping"),
            condition("Stalled", "False", "Progressing"),
            condition("Snapshotted", "False", "Stopping", message),
        ],
    }


def at_rest(generation: int, reason: str = "Requested", phase: str = "Suspended", **more: Any) -> dict[str, Any]:
    """Stopped, its workspace safe."""
    return {
        "observedGeneration": generation,
        "phase": phase,
        "stopReason": reason,
        "podName": None,
        "snapshot": {"epoch": 3, "sequence": 2, "key": "some/key", "digest": "d", "name": "quill-0000000000-3"},
        "conditions": [
            condition("Ready", "False", "Suspended", "The session was told to stop by spec.operatingMode."),
            condition("Reconciling", "False", "Settled"),
            condition("Stalled", "False", "Settled"),
            condition("Snapshotted", "True", "Stored"),
        ],
    } | more


def refused(generation: int, **more: Any) -> dict[str, Any]:
    """Turned away before anything existed."""
    message = "spec.sandboxRef.name is coder, and there is no such AgentSandbox"
    return {
        "observedGeneration": generation,
        "phase": "Failed",
        "refusal": {"code": "sandbox_unavailable", "message": message, "action": "Create the AgentSandbox."},
        "conditions": [
            condition("Ready", "False", "SandboxUnavailable", message),
            condition("Reconciling", "False", "SandboxUnavailable"),
            condition("Stalled", "True", "SandboxUnavailable", "Create the AgentSandbox."),
            condition("Admitted", "False", "SandboxUnavailable", message),
        ],
    } | more
