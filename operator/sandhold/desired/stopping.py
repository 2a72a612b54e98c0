"""The first pass of a stop: say so, and tell the agent to end. What follows is `stop.py`'s business."""

from collections.abc import Mapping

from sandhold.api.session import StopReason
from sandhold.desired import conditions, lifecycle, orders, size_guard, status
from sandhold.desired.patience import WAIT_SECONDS
from sandhold.desired.plan import Event, Order, Plan
from sandhold.desired.seen import Trouble
from sandhold.desired.situation import Situation
from sandhold.reasons import Refusal

_SENTENCES: Mapping[str, str] = {
    "Deleted": "The session was deleted.",
    "TtlExpired": "The session's time limit is over.",
    "NodeCordoned": "The session's node is cordoned: it goes on by itself as soon as a node can take its pod.",
}
ENDED_SECONDS = orders.END_GRACE_SECONDS + 5
"""After so long an agent that was told to end has ended, whatever its hints say."""


def begin_stop(situation: Situation, reason: StopReason, refusal: Refusal | None = None) -> Plan:
    """Persist that the session stops and why, and order the agent's end."""
    why = stop_cause(situation, reason, refusal)
    new = status.stopping(situation, reason, why, refusal=refusal)
    is_wanted = refusal is None and reason != "WorkspaceFull"
    event = Event("Normal" if is_wanted else "Warning", "Stopping" if is_wanted else why.reason, why.message)
    events = (event,) if new is not None else ()
    return Plan(calls=end_calls(situation), status=new, events=events, wake_after=WAIT_SECONDS)


def end_calls(situation: Situation) -> tuple[Order, ...]:
    """The order to end the agent, where somebody can take it. Afterwards a keeper opens no gate any more."""
    pod = situation.pod
    return (orders.end_order(pod.uid),) if pod is not None and situation.is_connected else ()


def stop_cause(situation: Situation, reason: StopReason, refusal: Refusal | None = None) -> Trouble:
    """Why the session stops, for `Ready`: it stays there until the session starts again."""
    if refusal is not None:
        return Trouble(refusal.reason, conditions.sentences(refusal.message, refusal.action))
    match reason:
        case "AgentExited":
            return _agent_exit(situation)
        case "WorkspaceFull":
            return size_guard.stop_trouble(situation)
        case "Deleted" | "TtlExpired" | "NodeCordoned":
            return Trouble(reason, _SENTENCES[reason])
        case _:
            return Trouble("Suspended", "The session was told to stop by spec.operatingMode.")


def _agent_exit(situation: Situation) -> Trouble:
    if lifecycle.has_left(situation):
        return Trouble(
            "AgentFailed",
            "The agent was ended because the pod's keeper was made to start again in its place (another image, a newer "
            "kubelet). Set a new value of the annotation sandhold.dev/retry on the session to start it again.",
        )
    code = situation.report.agent_exit_code
    if code == 0:
        return Trouble("Finished", "The agent ended by itself with exit code 0.")
    words = f": {situation.report.agent_message.rstrip('.')}" if situation.report.agent_message else ""
    return Trouble(
        "AgentFailed", f"The agent ended by itself with exit code {'unknown' if code is None else code}{words}."
    )
