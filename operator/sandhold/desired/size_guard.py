"""How full a workspace is: what its keeper is to guard, and what the level that it reports comes to.

The keeper measures, freezes and checkpoints by itself; the operator tells it the sizes, says what happens, and stops
the session before the kubelet would evict the pod. The sizes are those of the pod's own volume: an AgentSandbox that
was changed since does not change what the kubelet evicts at.
"""

from collections.abc import Mapping
from typing import Any

from sandhold.api.quantity import is_quantity, quantity_bytes
from sandhold.desired import conditions, volumes
from sandhold.desired.conditions import Claim, yes
from sandhold.desired.plan import Event
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.world import Guard
from sandhold.reasons import WORKSPACE_READY

REASON = "WorkspaceFull"
_FULL = frozenset({"Full", "Critical"})


def wanted_guard(situation: Situation, pod: SeenPod) -> Guard | None:
    """What the keeper of a pod shall guard, as its report would say it; None while that is not known."""
    sandbox, limit = situation.sandbox, _limit(pod)
    if sandbox is None or limit is None:
        return None
    interval = sandbox.spec.snapshot.interval_seconds if situation.keeps_archives else 0
    level = situation.report.guard.level if situation.report.guard is not None else "Normal"
    return Guard(level, limit // volumes.LIMIT_FACTOR, limit, interval)


def is_critical(situation: Situation) -> bool:
    """Whether the workspace is so near its hard limit that the session must stop, in a pod that nobody is deleting."""
    report, pod = situation.report, situation.pod
    is_current = bool(report.opened) and pod is not None and pod.deletion is None and not pod.is_dead
    return is_current and report.guard is not None and report.guard.level == "Critical"


def stop_trouble(situation: Situation) -> Trouble:
    """Why a session stops that filled its workspace, and what a person does about it."""
    name = situation.session.spec.sandbox_ref.name
    return Trouble(
        REASON,
        f"The workspace was about to outgrow its volume, which holds twice workspace.size of AgentSandbox {name}, so "
        "the session was stopped in order before its pod was evicted. Raise workspace.size, then set a new value of "
        "the annotation sandhold.dev/retry on the session.",
    )


def workspace_claim(situation: Situation, verified: Claim) -> Claim:
    """`WorkspaceReady` of a running session: whole, and said so when it holds more than it is meant to.

    A keeper that has not said since its start how full it is changes nothing of what was said before.
    """
    guard = situation.report.guard
    before = conditions.find(situation.status.conditions, WORKSPACE_READY)
    was_full = before is not None and before.status == "True" and before.reason == REASON
    is_full = was_full if guard is None else guard.level in _FULL
    if not is_full:
        return verified
    message = (
        f"The workspace is whole and holds more than workspace.size of AgentSandbox "
        f"{situation.session.spec.sandbox_ref.name}: at nearly twice that the session is stopped. Remove files, or "
        "raise workspace.size for the next start."
    )
    return yes(WORKSPACE_READY, REASON, message)


def rise(situation: Situation, new: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """The Event of a workspace that became too full, once: with the status that says so first."""
    said = conditions.newly_said(situation.status.conditions, new, WORKSPACE_READY, REASON)
    return tuple(Event("Warning", REASON, message) for message in said)


def _limit(pod: SeenPod) -> int | None:
    """Where the kubelet evicts the pod, as its own volume says."""
    for volume in (pod.document.get("spec") or {}).get("volumes") or ():
        if volume.get("name") == volumes.WORKSPACE:
            size = (volume.get("emptyDir") or {}).get("sizeLimit")
            return quantity_bytes(str(size)) if isinstance(size, str | int) and is_quantity(str(size)) else None
    return None
