"""The claims that several phases of a session share, and the one rule about `Snapshotted` that stops hang on."""

from collections.abc import Iterable

from sandhold.desired import conditions, recording
from sandhold.desired.conditions import Claim, no, unknown, yes
from sandhold.desired.indexing import UNRECORDED
from sandhold.desired.seen import Trouble
from sandhold.desired.situation import Situation
from sandhold.reasons import ADMITTED, READY, SNAPSHOTTED, STALLED

AT_WORK = "The operator is at work."
_PENDING = "This has not been looked at yet."


def snapshotted(situation: Situation) -> Claim:
    """What `Snapshotted` says while no stop is under way: never False, so that a stop is where it becomes so."""
    trouble = recording.trouble(situation)
    if trouble is not None:
        return yes(SNAPSHOTTED, trouble.reason, trouble.message)
    before = conditions.find(situation.status.conditions, SNAPSHOTTED)
    stands = before is not None and before.status != "False" and before.reason != UNRECORDED
    if situation.is_underway and before is not None and stands:
        return Claim(before.type, before.status, before.reason, before.message)
    if situation.keeps_archives is False:
        return unknown(SNAPSHOTTED, "NotRequested", "The AgentSandbox keeps no archives (spec.snapshot.onStop: false).")
    if situation.content is not None:
        return stored(is_final=situation.content.final)
    return unknown(SNAPSHOTTED, "Pending", "There was no stop yet whose workspace could be archived.")


def stored(*, is_final: bool) -> Claim:
    """What a start would get is stored: the archive of a stop, or a checkpoint of a workspace that went on."""
    if is_final:
        return yes(SNAPSHOTTED, "Stored", "The workspace of the last stop is stored and verified.")
    message = "The last checkpoint of the running workspace is stored and verified; status.snapshot names it."
    return yes(SNAPSHOTTED, "Checkpointed", message)


def recorded(situation: Situation, claim: Claim) -> Claim:
    """What is said of the last stop, and besides whether what it stored has its entry in the cluster."""
    trouble = recording.hold(situation) if situation.is_deleted else recording.trouble(situation)
    if trouble is not None and (claim.status == "True" or situation.is_deleted):
        return Claim(claim.type, claim.status, trouble.reason, trouble.message)
    if trouble is not None or claim.reason != UNRECORDED or claim.status != "True":
        return claim
    snapshot, content = situation.status.snapshot, situation.content
    entry = situation.indexed.get(snapshot.epoch) if snapshot is not None else None
    if entry is not None:
        return stored(is_final=entry.is_final)
    return stored(is_final=content.final) if content is not None else claim


def stalled_stop(situation: Situation) -> Claim:
    """Whether a stop takes longer than its time limit."""
    sandbox = situation.sandbox
    limit = sandbox.spec.lifecycle.stop_timeout_seconds if sandbox is not None else 600
    if situation.stopping_since is not None and situation.seconds_since(situation.stopping_since) >= limit:
        return yes(
            STALLED,
            "StopTimeout",
            "The stop takes longer than lifecycle.stopTimeoutSeconds; it goes on and nothing is discarded. The "
            "condition Snapshotted says what it waits for.",
        )
    return no(STALLED, "Progressing", AT_WORK)


def admitted(tier: str, runtime_class: str) -> Claim:
    """On which tier the session was let in."""
    return yes(ADMITTED, "Admitted", f"Tier {tier} with RuntimeClass {runtime_class}.")


def pending(name: str) -> Claim:
    """Nothing can be said yet."""
    return unknown(name, "Pending", _PENDING)


def carried(situation: Situation, *types: str) -> list[Claim]:
    """Claims that stay as they are."""
    found = ((name, conditions.find(situation.status.conditions, name)) for name in types)
    return [
        Claim(name, before.status, before.reason, before.message) if before is not None else pending(name)
        for name, before in found
    ]


def with_trouble(said: Iterable[Claim], about: str, trouble: Trouble) -> list[Claim]:
    """The claims, with the one that is in trouble saying so. `Snapshotted` is never one of these."""
    if about == READY:
        return list(said)
    return [*(claim for claim in said if claim.type != about), no(about, trouble.reason, trouble.message)]
