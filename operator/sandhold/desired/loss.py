"""What may have been lost, and what must not be started over: comparing what is known of a slot with what is stored."""

from collections.abc import Mapping
from typing import Any

from sandhold.desired.lifecycle import MOST_RESTARTS
from sandhold.desired.plan import Event
from sandhold.desired.situation import Situation
from sandhold.desired.world import Manifest, StoreTrouble
from sandhold.reasons import Refusal, RefusalCode, known_code, refuse


def history_refusal(situation: Situation) -> Refusal | None:
    """Why a start would not get the workspace that it should: an archive that is damaged or not there any more."""
    history = situation.world.history
    if isinstance(history, StoreTrouble):
        if history.retryable:
            return None
        known = known_code(history.code) or RefusalCode.INVALID_SNAPSHOT
        return refuse(known, history.message or "The last archive of the workspace cannot be used")
    if situation.history is None:
        return None
    entries = [(entry.epoch, entry.sequence) for entry in situation.indexed.values()]
    newest = max([*entries, *_of_status(situation)], default=None)
    content = situation.content
    if newest is None or (content is not None and (content.epoch, content.sequence) >= newest):
        return None
    return refuse(
        RefusalCode.MANIFEST_MISSING,
        f"Archive {newest[0]}-{newest[1]} of the workspace is known to exist, and the newest one in the store is: "
        f"{numbered(content)}",
    )


def too_many_losses() -> Refusal:
    """Why a session is not tried for ever."""
    message = f"More than {MOST_RESTARTS} pods in a row were lost while the session was to run"
    return refuse(RefusalCode.SANDBOX_CREATE_FAILED, message)


def warning(refusal: Refusal, new: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """The Event of a refusal, once: with the status that tells of it first."""
    return (Event("Warning", refusal.reason, refusal.message),) if new is not None else ()


def recovery_point(situation: Situation) -> str:
    """Where the workspace can be had from, in words."""
    content = situation.content
    if content is None:
        return "no archive of the workspace exists"
    if situation.final_archive is not None:
        return f"its workspace is stored whole in archive {numbered(content)}"
    if situation.epoch_archive is not None:
        return f"its last checkpoint is {numbered(content)}, made at {content.created_at}"
    return f"the last archive is {numbered(content)}"


def numbered(manifest: Manifest | None) -> str:
    """An archive as people name it: epoch and sequence."""
    return "none" if manifest is None else f"{manifest.epoch}-{manifest.sequence}"


def _of_status(situation: Situation) -> tuple[tuple[int, int], ...]:
    snapshot = situation.status.snapshot
    return () if snapshot is None else ((snapshot.epoch, snapshot.sequence),)
