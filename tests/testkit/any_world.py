"""Hypothesis strategies for worlds: every combination of facts that a cluster could show, likely or not."""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from sandhold import names
from sandhold.api.meta import time_text
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.backends.admit import Admission
from sandhold.desired.situation import admission_of
from sandhold.desired.world import (
    ABSENT,
    Guard,
    Keeper,
    Kept,
    Manifest,
    Observed,
    Present,
    RefusedRecord,
    SandboxWorld,
    SessionWorld,
    SlotHistory,
    StoreTrouble,
    Unknown,
)
from testkit import worlds
from testkit.worlds import NOW

UNKNOWN = Unknown("no read succeeded")
_PHASES = (None, "Starting", "Ready", "Stopping", "Suspended", "Finished", "Failed")
_REASONS = (
    *("Requested", "Deleted", "TtlExpired", "AgentExited", "Refused", "StartTimeout"),
    *("WorkspaceFull", "NodeCordoned"),
)


def _or_not(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Observed[Any]]:
    """A fact, its confirmed absence, or neither; mostly the fact."""
    return st.one_of(value.map(Present), value.map(Present), value.map(Present), st.just(ABSENT), st.just(UNKNOWN))


@cache
def _all_sandboxes() -> tuple[AgentSandbox, ...]:
    """Made once: a few hundred worlds share them."""
    contents: tuple[dict[str, Any], ...] = (
        {},
        {"ports": [{"name": "http", "port": 8080}]},
        {"workspace": {"entries": [{"path": "a/b", "file": {"content": "hello"}}]}},
        {"workspace": {"entries": [{"path": "a", "configMap": {"name": "c"}}, {"path": "b", "secret": {"name": "s"}}]}},
    )
    return tuple(
        worlds.a_sandbox(
            {"tier": tier, "snapshot": {"onStop": on_stop}, **content},
            **({"deletionTimestamp": time_text(NOW)} if is_deleted else {}),
        )
        for tier in ("gvisor", "gvisor", "runc", "kata", "gone", "nowhere")
        for on_stop in (True, True, False)
        for content in contents
        for is_deleted in (False, False, False, True)
    )


def sandboxes() -> st.SearchStrategy[AgentSandbox]:
    """AgentSandboxes, a few of them inadmissible or being deleted."""
    return st.sampled_from(_all_sandboxes())


@st.composite
def sessions(draw: st.DrawFn, epoch: int) -> SandboxSession:
    """SandboxSessions in every phase, asked for everything that may be asked for."""
    spec: dict[str, Any] = {"operatingMode": draw(st.sampled_from(("Running", "Suspended")))}
    if draw(st.booleans()):
        spec["ttlSeconds"] = draw(st.sampled_from((10, 3600)))
    phase = draw(st.sampled_from(_PHASES))
    status: dict[str, Any] | None = None
    if phase is not None:
        since = NOW - timedelta(seconds=draw(st.sampled_from((0, 3, 7, 20, 700))))
        status = worlds.a_status(phase, epoch, since=since)
        if phase != "Stopping":
            status.pop("stopReason", None)
        if phase not in ("Starting", "Ready") and draw(st.booleans()):
            status["stopReason"] = draw(st.sampled_from(_REASONS))
        status["archivesOnStop"] = draw(st.sampled_from((None, True, False)))
        if draw(st.booleans()):
            status["restarts"] = draw(st.integers(0, 6))
        if draw(st.sampled_from((False, False, True))):
            archive = worlds.an_archive(draw(st.integers(1, epoch)))
            status["snapshot"] = {"epoch": archive.epoch, "sequence": archive.sequence}
    return worlds.a_session(spec, status, **draw(_metadata()))


@st.composite
def _metadata(draw: st.DrawFn) -> dict[str, Any]:
    metadata: dict[str, Any] = {"annotations": {}}
    if draw(st.sampled_from((False, False, False, True))):
        metadata["annotations"][names.ANNOTATION_DISCARD] = "true"
    if draw(st.booleans()):
        metadata["annotations"][names.ANNOTATION_RETRY] = "1"
    if draw(st.booleans()):
        metadata |= {"deletionTimestamp": time_text(NOW), "finalizers": ["someone.else/theirs"]}
        if draw(st.sampled_from((True, True, False))):
            metadata["finalizers"].append(names.FINALIZER_WORKSPACE)
    elif draw(st.sampled_from((False, False, False, True))):
        metadata["finalizers"] = ["someone.else/theirs"]
    return metadata


@st.composite
def pods(draw: st.DrawFn, epoch: int, sandbox: AgentSandbox, session: SandboxSession) -> dict[str, Any]:
    """Pods of an epoch: alive, terminating, stuck, dead, altered, outdated, or only pretending to be ours."""
    admissible = isinstance(admission_of(sandbox, worlds.an_installation(), session.spec.env), Admission)
    pod = worlds.a_pod(
        epoch,
        sandbox=sandbox if admissible else worlds.a_sandbox(),
        session=session,
        created=NOW - timedelta(seconds=draw(st.sampled_from((1, 25, 400)))),
        terminating_for=draw(st.sampled_from((None, None, None, 1.0, 10.0, 100.0))),
        is_dead=draw(st.sampled_from((False, False, False, True))),
    )
    match draw(st.sampled_from(("as asked", "as asked", "as asked", "altered", "outdated", "pretender", "elsewhere"))):
        case "altered":
            pod["spec"]["containers"].append({"name": "sidecar", "image": "mesh"})
        case "outdated":
            pod["metadata"]["annotations"][names.ANNOTATION_INTENT] = "0" * 32
        case "pretender":
            pod["metadata"]["annotations"][names.ANNOTATION_OWNER] = "SandboxSession/research/quill/another-uid"
        case "elsewhere":
            pod["metadata"]["labels"][names.LABEL_INSTALLATION] = "another"
    return pod


@st.composite
def keepers(draw: st.DrawFn, epoch: int) -> Keeper:
    """Keepers at every stage, connected or silent, with evidence good and bad."""
    stage = draw(st.sampled_from(("Empty", "Preparing", "Failed", "Ready", "Ready", "Open", "Open", "Ended", "Stored")))
    report: dict[str, Any] = {}
    if stage == "Preparing":
        report = {"waiting_for": draw(st.sampled_from((None, 0, 1, 2, 4095)))}
    if stage == "Failed":
        codes = ("invalid_snapshot", "workspace_setup_failed", "snapshot_store_unavailable", "nonsense")
        report = {"workspace_code": draw(st.sampled_from(codes))}
    if stage == "Ready":
        version = draw(st.sampled_from((worlds.GVISOR, worlds.RUNC, "")))
        outcome = draw(st.sampled_from(("Refused", "TimedOut", "Connected", "Failed")))
        challenge = draw(st.sampled_from((worlds.CHALLENGE, worlds.CHALLENGE, "d" * 32)))
        mover = draw(st.sampled_from(("Connected", "Connected", "Refused", "TimedOut")))
        report = {"evidence": worlds.some_evidence(challenge, version, canary=outcome, mover=mover)}
        if draw(st.booleans()):
            report["opened"] = "e" * 32
    if stage in ("Open", "Ended") and draw(st.booleans()):
        report = {"archive_state": draw(st.sampled_from(("Running", "Failed", "Stored"))), "archive_sequence": 1}
        report["archive_code"] = "snapshot_store_unavailable" if report["archive_state"] == "Failed" else ""
        report["archive_is_final"] = stage == "Ended" and draw(st.booleans())
    if stage in ("Open", "Ended", "Stored"):
        times = [int((NOW + timedelta(hours=hours)).timestamp()) for hours in (-1, 1, 24)]
        one_of = st.sampled_from((0, *times))
        report["kept"] = draw(st.one_of(st.none(), st.builds(Kept, one_of, one_of)))
        levels = [replace(worlds.GUARDED, level=level) for level in ("Normal", "High", "Full", "Critical")]
        report["guard"] = draw(st.sampled_from((None, *levels, Guard())))
    return worlds.a_keeper(stage, epoch=epoch, connected=draw(st.sampled_from((True, True, False))), **report)


@st.composite
def histories(draw: st.DrawFn) -> Observed[SlotHistory] | StoreTrouble:
    """What a store may answer."""
    archives = [worlds.an_archive(number, final=draw(st.booleans())) for number in draw(st.sets(st.integers(1, 4)))]
    content: Manifest | None = max(archives, key=lambda each: each.epoch, default=None)
    head = content
    if draw(st.booleans()):
        fence = worlds.a_fence(draw(st.integers(1, 5)), content)
        if content is None or fence.epoch > content.epoch:
            head = fence
    known: Observed[SlotHistory] = worlds.a_history(head, content)
    code = draw(st.sampled_from(("invalid_snapshot", "manifest_missing", "snapshot_store_unavailable")))
    trouble = StoreTrouble(code, "The store said so.", retryable=code == "snapshot_store_unavailable")
    return draw(st.sampled_from((known, known, known, known, ABSENT, UNKNOWN, trouble)))


@st.composite
def session_worlds(draw: st.DrawFn) -> SessionWorld:
    """Worlds of a session."""
    epoch = draw(st.integers(1, 3))
    sandbox, session = draw(sandboxes()), draw(sessions(epoch))
    there = [draw(pods(each, sandbox, session)) for each in sorted(draw(st.sets(st.integers(1, 3))))]
    known_keepers = {
        pod["metadata"]["uid"]: draw(keepers(int(pod["metadata"]["annotations"][names.ANNOTATION_EPOCH])))
        for pod in there
        if draw(st.sampled_from((True, True, True, False)))
    }
    policy = worlds.a_policy(sandbox)
    if draw(st.sampled_from((False, False, False, True))):
        policy = {**policy, "spec": {**policy["spec"], "egress": [{}]}}
    archives = [worlds.an_archive(number, final=draw(st.booleans())) for number in draw(st.sets(st.integers(1, 3)))]
    is_free = all(pod["metadata"]["name"] != worlds.pod_name(epoch) for pod in there)
    taken = (Present(_squatter(epoch)),) if is_free else ()
    return worlds.a_world(
        sandbox=draw(_or_not(st.just(sandbox))),
        session=session,
        policy=draw(_or_not(st.just(policy))),
        service_account=draw(_or_not(st.just(worlds.an_account(sandbox)))),
        pods=draw(st.sampled_from((Present(tuple(there)), Present(tuple(there)), Present(tuple(there)), UNKNOWN))),
        squatter=draw(st.sampled_from((ABSENT, ABSENT, ABSENT, UNKNOWN, *taken))),
        keepers=known_keepers,
        history=draw(histories()),
        snapshots=draw(_or_not(st.just(tuple(worlds.a_snapshot(each) for each in archives)))),
        namespace_terminating=draw(st.sampled_from((False, False, True))),
        fenced_epoch=draw(st.sampled_from((None, epoch, epoch - 1))),
        record_refused=draw(st.one_of(st.none(), refused_records(epoch))),
        installation=draw(installations()),
    )


@st.composite
def refused_records(draw: st.DrawFn, epoch: int) -> RefusedRecord:
    """SandboxSnapshots of this epoch or another one that could not be written, just now or for long."""
    name = names.snapshot_name("quill", worlds.SLOT, draw(st.sampled_from((epoch, epoch, max(epoch - 1, 1)))))
    at = NOW - timedelta(seconds=draw(st.sampled_from((0, 5, 20, 100))))
    since = at - timedelta(seconds=draw(st.sampled_from((0, 12, 900))))
    return RefusedRecord(name, f"SandboxSnapshot {name} was not written: no.", since, at, draw(st.booleans()))


def _squatter(epoch: int) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": worlds.pod_name(epoch), "namespace": worlds.NAMESPACE, "uid": "theirs"}}


@st.composite
def installations(draw: st.DrawFn) -> Any:
    """Installations, some facts of which are not known."""
    changes: dict[str, Any] = {}
    for name in ("mover_address", "mover_canary", "mover_ca", "api_server", "runtime_classes"):
        match draw(st.integers(0, 11)):
            case 0:
                changes[name] = UNKNOWN
            case 1:
                changes[name] = ABSENT
    states = st.sampled_from(("ready", "ready", "cordoned", "lost"))
    known = worlds.some_nodes(node_1=draw(states), node_2=draw(states))
    changes["nodes"] = draw(st.sampled_from((known, known, ABSENT, UNKNOWN)))
    if draw(st.integers(0, 7)) == 0:
        changes["mover_address"] = Present("10.96.0.21:7443")
    return worlds.an_installation(**changes)


@st.composite
def sandbox_worlds(draw: st.DrawFn) -> SandboxWorld:
    """Worlds of an AgentSandbox."""
    sandbox = draw(sandboxes())
    finalizers = draw(st.sampled_from(([], [names.FINALIZER_WALLS], ["someone.else/theirs", names.FINALIZER_WALLS])))
    if sandbox.metadata.deletion_timestamp is not None and not finalizers:
        finalizers = ["someone.else/theirs"]
    metadata = sandbox.metadata.model_copy(update={"finalizers": tuple(finalizers)})
    sandbox = sandbox.model_copy(update={"metadata": metadata})
    policy, account, budget = map(
        dict, (worlds.a_policy(sandbox), worlds.an_account(sandbox), worlds.a_budget(sandbox))
    )
    for document in (policy, account, budget):
        if draw(st.sampled_from((False, False, False, True))):
            document["metadata"] = {**document["metadata"], "labels": {}}
    squatters: tuple[dict[str, Any], ...] = ()
    if draw(st.sampled_from((False, False, False, True))):
        squatters = ({"kind": "NetworkPolicy", "metadata": {"name": policy["metadata"]["name"], "uid": "theirs"}},)
    session = {"kind": "SandboxSession", "metadata": {"name": "quill", "uid": worlds.SESSION_UID}}
    return worlds.a_sandbox_world(
        sandbox=sandbox,
        policy=ABSENT if squatters else draw(_or_not(st.just(policy))),
        service_account=draw(_or_not(st.just(account))),
        disruption_budget=draw(_or_not(st.just(budget))),
        sessions=draw(_or_not(st.sampled_from(((), (session,))))),
        pods=draw(_or_not(st.sampled_from(((), (worlds.a_pod(),))))),
        squatters=squatters,
        installation=draw(installations()),
    )
