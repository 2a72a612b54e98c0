"""Checkpoints of a running workspace, as the operator sees them: stored ones are indexed and named, failed ones told.

Making them is the keeper's business. A stored one costs a status of its SandboxSnapshot and one of the session, an
unchanged workspace costs nothing. None of them ever counts as the archive of a stop.
"""

from collections.abc import Mapping
from typing import Any

from sandhold.desired import claims, conditions, indexing, recording
from sandhold.desired.conditions import Claim, unknown, yes
from sandhold.desired.plan import Create, Event, WriteStatus
from sandhold.desired.situation import Situation
from sandhold.desired.world import Present
from sandhold.reasons import SNAPSHOTTED, explained

STORED = "Checkpointed"
FAILED = "CheckpointFailed"


def entry_writes(situation: Situation) -> tuple[Create | WriteStatus, ...]:
    """The entry of the newest archive, where one can be made without waiting for anybody."""
    if not isinstance(situation.world.snapshots, Present) or indexing.index_trouble(situation) is not None:
        return ()
    return indexing.index_writes(situation) if recording.retry_in(situation) == 0 else ()


def entry_tries(situation: Situation, new: Mapping[str, Any] | None) -> tuple[Create | WriteStatus, ...]:
    """The same beside a new status. One that was refused is told first and then tried again, in a pass of its own."""
    return entry_writes(situation) if new is None or recording.trouble(situation) is None else ()


def snapshotted(situation: Situation) -> Claim:
    """What `Snapshotted` says while the session runs: never False, which only a stop may say."""
    before = conditions.find(situation.status.conditions, SNAPSHOTTED)
    report = situation.report
    if before is None or before.status == "False" or not report.opened or situation.history is None:
        return claims.snapshotted(situation)
    if report.archive_state == "Failed" and not report.archive_is_final:
        return _failed(situation)
    if report.archive_state == "Running" or recording.trouble(situation) is not None:
        return claims.snapshotted(situation)
    point = indexing.recovery_state(situation)
    if point is not None and point.epoch == situation.epoch:
        return claims.stored(is_final=situation.final_archive is not None)
    if before.reason in (STORED, FAILED) and situation.content is not None:
        return claims.stored(is_final=situation.content.final)
    return claims.snapshotted(situation)


def _failed(situation: Situation) -> Claim:
    """In our own words alone: a keeper's change with every attempt."""
    code = situation.report.archive_code
    known = explained(code)
    why = conditions.sentences(known.sentence, known.action) if known is not None else "The pod's keeper says no more."
    message = f"The last checkpoint could not be stored; the session runs on and it is tried again. {why}"
    return yes(SNAPSHOTTED, FAILED, message) if situation.content is not None else unknown(SNAPSHOTTED, FAILED, message)


def failure(situation: Situation, new: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """The Event of a checkpoint that could not be stored, once: with the status that says so first."""
    said = conditions.newly_said(situation.status.conditions, new, SNAPSHOTTED, FAILED)
    return tuple(Event("Warning", FAILED, message) for message in said)
