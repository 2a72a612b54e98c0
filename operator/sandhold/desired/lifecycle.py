"""Shall a session run, stop, rest or start again: the decisions about its life, without how any of it is done.

      (new) ──► Starting ──► Ready ──► Stopping ──► Suspended     on request, or by its time limit
                   │  ▲         │                ├► Finished      the agent ended with exit code 0
                   │  └─────────┘                └► Failed        it ended otherwise, or was refused while it ran
                   │   pod lost
                   └► Failed                                      given up before the agent ran

From rest a session starts again when `operatingMode` goes from Suspended to Running, or when the retry annotation has
a new value; one that left a cordoned node, by itself when a node can take it. A refusal before anything exists is no
rest: it is looked at anew at every change.
"""

from datetime import datetime, timedelta

from sandhold.api.session import REST, SandboxSession, StopReason
from sandhold.desired import conditions, indexing, placement, size_guard
from sandhold.desired.situation import Situation, retry_of
from sandhold.reasons import POD_READY, SNAPSHOTTED

MOST_RESTARTS = 5
EXIT_SECONDS = 1.5
LEFT_SECONDS = 60
"""A keeper that left so long ago, in a pod that nobody deletes, was only made to start again in its place."""
STABLE_SECONDS = 600
"""A pod that was Ready for so long is no failure in a row."""


def stop_reason(situation: Situation) -> StopReason | None:
    """Why the session shall stop or is stopping; None when it may run."""
    status = situation.status
    if situation.is_deleted:
        return "Deleted"
    if status.phase == "Stopping":
        return status.stop_reason or "Requested"
    if situation.session.spec.operating_mode == "Suspended":
        return "Requested"
    if is_moving(situation) and is_expired(situation):
        return "TtlExpired"
    return _end_of_run(situation) if situation.is_underway else None


def _end_of_run(situation: Situation) -> StopReason | None:
    if is_expired(situation):
        return "TtlExpired"
    if size_guard.is_critical(situation):
        return "WorkspaceFull"
    if agent_ended(situation):
        return "AgentExited"
    return "NodeCordoned" if placement.must_leave(situation) else None


def is_at_rest(situation: Situation) -> bool:
    """Whether the session is stopped and nothing asks for a start."""
    status = situation.status
    if status.phase not in REST or status.stop_reason in (None, "Requested") or _is_retried(situation.session):
        return False
    return not (is_moving(situation) and placement.can_be_placed(situation))


def is_moving(situation: Situation) -> bool:
    """Whether the session rests only because of its node: its next start goes on with the same run."""
    return situation.status.phase in REST and situation.status.stop_reason == "NodeCordoned"


def is_expired(situation: Situation) -> bool:
    """Whether its time limit is over. It goes on while a session has no node."""
    limit = expires_at(situation)
    return limit is not None and situation.now >= limit


def agent_ended(situation: Situation) -> bool:
    """Whether the agent ended by itself, in a pod that nobody is deleting.

    A deleted pod's agent ends too, and its keeper may be heard before the pod's watch: so a moment is waited.
    """
    report, pod = situation.report, situation.pod
    if pod is None or pod.deletion is not None or not report.opened:
        return False
    if has_left(situation):
        return _lasts(situation, LEFT_SECONDS)
    return report.opened == report.challenge and report.agent_state == "Ended" and _lasts(situation, EXIT_SECONDS)


def has_left(situation: Situation) -> bool:
    """Whether the keeper of a running session leaves: it ends every agent from then on, and opens no gate.

    Nobody told it to archive for good, or an init that never got its word has ended. It does so when its pod goes;
    where nobody deletes the pod, its container alone was made to start again.
    """
    report = situation.report
    return report.archive_is_final or (report.agent_state == "Ended" and report.challenge != report.opened)


def _lasts(situation: Situation, seconds: float) -> bool:
    """Whether the keeper has said nothing else for so long, and archives nothing at the moment."""
    if situation.report.archive_is_final and situation.report.archive_state == "Running":
        return False
    reported = situation.keeper.reported_at if situation.keeper is not None else None
    return reported is None or situation.seconds_since(reported) >= seconds


def time_limit(situation: Situation) -> int | None:
    """The session's own limit, else its sandbox's, else the installation's."""
    sandbox = situation.sandbox
    of_sandbox = sandbox.spec.lifecycle.ttl_seconds if sandbox is not None else None
    return situation.session.spec.ttl_seconds or of_sandbox or situation.world.installation.backends.sandbox_ttl_seconds


def expires_at(situation: Situation, started: datetime | None = None) -> datetime | None:
    """When the time limit suspends the session. While the sandbox cannot be read, what status says stands."""
    begin = started or situation.status.started_at
    if begin is None:
        return None
    if situation.sandbox is None and situation.session.spec.ttl_seconds is None:
        return situation.status.expires_at
    limit = time_limit(situation)
    return begin + timedelta(seconds=limit) if limit is not None else None


def until_expiry(situation: Situation) -> float | None:
    """In how many seconds the time limit ends a run that only waits for a node."""
    limit = expires_at(situation) if is_moving(situation) else None
    return max(situation.seconds_until(limit), 0.1) if limit is not None else None


def restarts_in_a_row(situation: Situation) -> int:
    """How many pods were lost in a row, this one included: a long good time begins a new row."""
    ready = conditions.find(situation.status.conditions, POD_READY)
    was_ready = ready is not None and ready.status == "True"
    if ready is not None and was_ready and situation.seconds_since(ready.last_transition_time) >= STABLE_SECONDS:
        return 1
    return (situation.status.restarts or 0) + 1


def stays_at_rest(session: SandboxSession) -> bool:
    """Whether nothing that the store holds can matter to a session that has no pod.

    It is at rest, has said what became of its workspace, and nothing asks for a start. An archive that status names
    without a SandboxSnapshot still needs one.
    """
    status = session.status
    is_told = conditions.find(status.conditions, SNAPSHOTTED) is not None
    if status.phase not in REST or status.stop_reason is None or not is_told or indexing.names_unrecorded(status):
        return False
    if session.metadata.deletion_timestamp is not None or session.spec.operating_mode == "Suspended":
        return True
    return status.stop_reason not in ("Requested", "NodeCordoned") and not _is_retried(session)


def _is_retried(session: SandboxSession) -> bool:
    retry = retry_of(session)
    return retry is not None and retry != session.status.observed_retry
