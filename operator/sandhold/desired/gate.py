"""From a workspace that is empty to a gate that is open: prepare, judge the evidence, fence the epoch, give the word.

Only for a pod that was found to be what was asked for. Nothing here deletes: a verdict goes back as a refusal, and
whoever asked decides what becomes of the pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import archiving, conditions, evidence, orders, walls
from sandhold.desired.plan import Call, Fence, Order
from sandhold.desired.runtime import Runtime, runtime_of
from sandhold.desired.seen import SeenPod, Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.world import Evidence, Present, Unknown
from sandhold.reasons import (
    EGRESS_VERIFIED,
    RUNTIME_VERIFIED,
    WORKSPACE_READY,
    Refusal,
    RefusalCode,
    known_code,
    refuse,
)

_RETRYABLE = frozenset({"snapshot_store_unavailable"})
_SOURCE_MISSING = "EntrySourceMissing"
_ABOUT: Mapping[str, str] = {RefusalCode.RUNTIME_CLASS_MISMATCH: RUNTIME_VERIFIED}
EVIDENCE_SECONDS = 3.0
"""A keeper that has a workspace and no evidence after so long was not asked for any."""
_ORDER_SECONDS = 5.0
"""An order that shows no effect after so long is given again."""


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next on the way to an open gate: orders, something to wait for, or a refusal for good."""

    calls: tuple[Call, ...] = ()
    trouble: tuple[str, Trouble] | None = None
    refusal: tuple[str, Refusal] | None = None
    wake_after: float | None = None


def next_step(situation: Situation, pod: SeenPod, sandbox: AgentSandbox) -> Step:
    """The one thing to do now."""
    report = situation.report
    match report.workspace_state:
        case "Failed":
            return _failed(situation, pod, sandbox)
        case "Ready":
            return _judge(situation, pod, sandbox)
        case "Preparing":
            return Step(trouble=_missing_source(situation, sandbox) or _said_before(situation))
        case _:
            return _prepare(situation, pod, sandbox)


def _prepare(situation: Situation, pod: SeenPod, sandbox: AgentSandbox) -> Step:
    trouble = archiving.history_trouble(situation)
    if trouble is not None:
        return Step(trouble=(WORKSPACE_READY, trouble), wake_after=archiving.SHORTEST_DELAY)
    source = situation.content
    entries = orders.entries_document(sandbox.spec.workspace.entries)
    preparation = _preparation(situation, entries, writes_entries=source is None or situation.status.started_at is None)
    if isinstance(preparation, Trouble):
        return Step(trouble=(EGRESS_VERIFIED, preparation), wake_after=archiving.SHORTEST_DELAY)
    store = situation.store
    grant = None
    if source is not None and store is not None:
        holder = archiving.holder_of(situation, pod, store)
        grant = orders.restore_grant(holder, source, sandbox)
    parts = orders.entries_orders(pod.uid, preparation.entries)
    return Step(calls=(*parts, orders.prepare_order(pod.uid, preparation, grant)), wake_after=_ORDER_SECONDS)


def _preparation(situation: Situation, entries: bytes, *, writes_entries: bool) -> orders.Preparation | Trouble:
    probes = evidence.probes(situation.world.installation)
    if isinstance(probes, Unknown):
        return Trouble("ProbesUnknown", f"It is not known what the keeper shall try to reach: {probes.why}")
    return orders.Preparation(
        slot=situation.slot,
        epoch=situation.epoch,
        source=situation.content,
        entries=entries,
        writes_entries=writes_entries,
        probes=probes,
    )


def _failed(situation: Situation, pod: SeenPod, sandbox: AgentSandbox) -> Step:
    report = situation.report
    code = report.workspace_code
    message = report.workspace_message.rstrip(".") or "The keeper gave no message"
    if code not in _RETRYABLE:
        known = known_code(code) or RefusalCode.WORKSPACE_SETUP_FAILED
        return Step(refusal=(WORKSPACE_READY, refuse(known, f"The workspace could not be prepared: {message}")))
    why = Trouble("SnapshotStoreUnavailable", f"The archive could not be fetched: {message}. It is tried again.")
    delay = archiving.retry_in(situation, situation.seconds_since(pod.created))
    if delay > 0:
        return Step(trouble=(WORKSPACE_READY, why), wake_after=delay)
    again = _prepare(situation, pod, sandbox)
    return Step(again.calls, again.trouble or (WORKSPACE_READY, why), None, archiving.SHORTEST_DELAY)


def _missing_source(situation: Situation, sandbox: AgentSandbox) -> tuple[str, Trouble] | None:
    """The source that the keeper waits for. It says only which entry of the list; the names are those of the spec."""
    place = situation.report.waiting_for
    entries = sandbox.spec.workspace.entries
    source = entries[place].source if place is not None and place < len(entries) else None
    if source is None:
        return None
    name = f"{source.kind} {situation.session.metadata.namespace}/{source.name}"
    missing = "does not exist or is empty" if source.key is None else f"does not exist or has no key {source.key}"
    message = (
        f"spec.workspace.entries[{place}] of AgentSandbox {sandbox.metadata.name} is waited for: {name} {missing}. "
        "Create it; the kubelet shows it to the pod within about a minute."
    )
    return WORKSPACE_READY, Trouble(_SOURCE_MISSING, message)


def _said_before(situation: Situation) -> tuple[str, Trouble] | None:
    """What held the last attempt up stands until this one has come to an end."""
    found = conditions.find(situation.status.conditions, WORKSPACE_READY)
    if found is None or found.status != "False" or found.reason == _SOURCE_MISSING:
        return None
    return WORKSPACE_READY, Trouble(found.reason, found.message)


def _judge(situation: Situation, pod: SeenPod, sandbox: AgentSandbox) -> Step:
    report = situation.report
    if (report.marker_slot, report.marker_epoch) != (situation.slot, situation.epoch):
        message = "The workspace in the pod is marked as that of another slot or epoch"
        return Step(refusal=(WORKSPACE_READY, refuse(RefusalCode.WORKSPACE_SETUP_FAILED, message)))
    seen = report.evidence
    if seen is None:
        return _ask_for_evidence(situation, pod)
    if not report.challenge or seen.challenge != report.challenge:
        return Step()
    return _verdict(situation, pod, seen) or _open(situation, pod, sandbox)


def _verdict(situation: Situation, pod: SeenPod, seen: Evidence) -> Step | None:
    """What the evidence comes to; None when it holds."""
    expected = _expected_runtime(situation, pod)
    if isinstance(expected, Trouble):
        return Step(trouble=(RUNTIME_VERIFIED, expected), wake_after=archiving.SHORTEST_DELAY)
    verdict = evidence.judge(seen, expected)
    if isinstance(verdict, Unknown):
        message = f"Nothing is proved of the walls yet: {verdict.why}. It is tried again against a mover that is ready."
        return _ask_again(situation, pod, Trouble("MoverUnreached", message))
    return None if verdict is None else Step(refusal=(_ABOUT.get(verdict.code, EGRESS_VERIFIED), verdict))


def _ask_for_evidence(situation: Situation, pod: SeenPod) -> Step:
    """A keeper that started again knows its workspace and forgot what to dial. One that works on it says so soon."""
    reported = situation.keeper.reported_at if situation.keeper is not None else None
    rest = EVIDENCE_SECONDS - situation.seconds_since(reported) if reported is not None else 0.0
    return Step(wake_after=rest) if rest > 0 else _ask_again(situation, pod)


def _ask_again(situation: Situation, pod: SeenPod, why: Trouble | None = None) -> Step:
    """Have the keeper dial what is known now. Its workspace is ready, so that is all that this order does."""
    asked = _preparation(situation, b"", writes_entries=False)
    if isinstance(asked, Trouble):
        return Step(trouble=(EGRESS_VERIFIED, asked), wake_after=archiving.SHORTEST_DELAY)
    trouble = None if why is None else (EGRESS_VERIFIED, why)
    return Step(calls=(orders.prepare_order(pod.uid, asked, None),), trouble=trouble, wake_after=_ORDER_SECONDS)


def _open(situation: Situation, pod: SeenPod, sandbox: AgentSandbox) -> Step:
    """The fence, so that a start of a later pod can tell that this one may have written; then the word."""
    missing = walls.walls_trouble(situation, sandbox)
    if missing is not None:
        return Step(trouble=(EGRESS_VERIFIED, missing), wake_after=archiving.SHORTEST_DELAY)
    word: Order = orders.open_order(pod.uid, situation.report.challenge, sandbox, situation.session)
    store = situation.store
    if situation.keeps_archives is False or situation.is_fenced:
        return Step(calls=(word,), wake_after=_ORDER_SECONDS)
    if situation.history is None or store is None:
        trouble = archiving.history_trouble(situation)
        why = trouble or Trouble("SnapshotStoreUnavailable", "The store of the workspace is not known.")
        return Step(trouble=(WORKSPACE_READY, why), wake_after=archiving.SHORTEST_DELAY)
    content = situation.content
    parent = None if content is None else (content.epoch, content.sequence)
    return Step(calls=(Fence(store, situation.slot, situation.epoch, parent, pod.uid), word), wake_after=_ORDER_SECONDS)


def _expected_runtime(situation: Situation, pod: SeenPod) -> Runtime | Trouble:
    """The runtime behind the class that the pod is pinned to: what its tier promised when the pod was made."""
    name = str((pod.document.get("spec") or {}).get("runtimeClassName", ""))
    classes = situation.world.installation.runtime_classes
    if not isinstance(classes, Present):
        return Trouble("RuntimeUnknown", "The RuntimeClasses of the cluster are not known.")
    found = runtime_of(classes.value.get(name, ""))
    shown = conditions.printable(name, 253)
    return found or Trouble("RuntimeUnknown", f"RuntimeClass {shown} is gone or its handler cannot be told apart.")
