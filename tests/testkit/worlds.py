"""Worlds for plans: builders whose defaults are a session that goes well, and a check that rejects impossible ones.

A test says only what is different. Everything is built by the same pure code that the operator uses for what it asks
for, then given what the API server adds (UIDs, defaults, statuses), so no test holds a second idea of a pod.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sandhold import names
from sandhold.api.meta import time_text
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession, SessionPhase
from sandhold.backends.admit import Admission
from sandhold.backends.model import Backends
from sandhold.desired import budget, network, pod, snapshot, status
from sandhold.desired.conditions import yes
from sandhold.desired.plan import Create, WriteStatus
from sandhold.desired.sandbox import service_account
from sandhold.desired.seen import Trouble, see_pod
from sandhold.desired.situation import Situation, admission_of, read_situation, slot_of
from sandhold.desired.world import (
    ABSENT,
    Evidence,
    Guard,
    Installation,
    Keeper,
    KeeperReport,
    Kept,
    KubeObject,
    Manifest,
    Node,
    Present,
    ProbeOutcome,
    SandboxWorld,
    SessionWorld,
    SlotHistory,
)
from sandhold.reasons import EGRESS_VERIFIED, SNAPSHOTTED, RefusalCode, refuse
from testkit.clock import START

NOW = START
NAMESPACE = "research"
SESSION_UID = "5e551011-0000-4000-8000-000000000001"
SANDBOX_UID = "5a4d8011-0000-4000-8000-000000000001"
ACCOUNT_UID = "acc00411-0000-4000-8000-000000000001"
BUDGET_UID = "b0d9e700-0000-4000-8000-000000000001"
POLICY_UID = "b01c1011-0000-4000-8000-000000000001"
CHALLENGE = "c" * 32
GVISOR = "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016"
RUNC = "Linux version 6.12.0 (builder@host) #1 SMP PREEMPT_DYNAMIC"
PROBES = ("canary", "mover", "metadata", "api-service", "api-endpoint-1")
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

BACKENDS: Mapping[str, Any] = {
    "installation_id": "demo",
    "default_tier": "gvisor",
    "tiers": {
        "gvisor": {"runtime_class": "gvisor", "egress": {"cni": {}}},
        "runc": {"runtime_class": "runc", "egress": {"cni": {}}},
        "kata": {"runtime_class": "kata", "egress": {"cni": {}}},
        "gone": {"runtime_class": "gone", "egress": {"cni": {}}},
    },
    "stores": {"main": {"type": "s3", "endpoint": "http://s3.local:7070", "bucket": "workspaces"}},
}


def an_installation(**changes: Any) -> Installation:
    """An installation that knows everything."""
    return replace(_KNOWING, **changes)


def _knowing() -> Installation:
    known: dict[str, Any] = {
        "id": "demo",
        "operator_namespace": "sandhold-system",
        "backends": Backends.model_validate(BACKENDS),
        "keeper_image": "sandhold-keeper:test",
        "keeper_image_pull_policy": "IfNotPresent",
        "mover_address": Present("10.96.0.20:7443"),
        "mover_canary": Present(("10.244.0.7", 7445)),
        "mover_ca": Present(CA),
        "api_server": Present((("10.96.0.1", 443), ("172.31.0.10", 6443))),
        "runtime_classes": Present({"gvisor": "runsc", "runc": "runc", "kata": "kata-qemu"}),
    }
    return Installation(**known)


_KNOWING = _knowing()


def a_sandbox(spec: Mapping[str, Any] | None = None, **metadata: Any) -> AgentSandbox:
    """An AgentSandbox as the API server holds it."""
    return AgentSandbox.model_validate(
        {
            "metadata": {
                "name": "coder",
                "namespace": NAMESPACE,
                "uid": SANDBOX_UID,
                "generation": 1,
                "finalizers": [names.FINALIZER_WALLS],
                **metadata,
            },
            "spec": {"image": "agent:test", "command": ["python3", "agent.py"], **(spec or {})},
        }
    )


def a_session(
    spec: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **metadata: Any
) -> SandboxSession:
    """A SandboxSession as the API server holds it; brand-new unless status says otherwise."""
    finalizers = [names.FINALIZER_WORKSPACE] if status else []
    return SandboxSession.model_validate(
        {
            "metadata": {
                "name": "quill",
                "namespace": NAMESPACE,
                "uid": SESSION_UID,
                "generation": 1,
                "finalizers": finalizers,
                **metadata,
            },
            "spec": {"sandboxRef": {"name": "coder"}, **(spec or {})},
            "status": status or {},
        }
    )


SLOT = slot_of(a_session(), "demo")


def a_status(phase: str, epoch: int = 1, **changes: Any) -> dict[str, Any]:
    """The status of a session in a phase, as an operator wrote it when the phase began."""
    since = changes.pop("since", NOW - timedelta(seconds=20))
    return {**deepcopy(_status_of(phase, epoch, since)), **changes}


@cache
def _status_of(phase: str, epoch: int, since: datetime) -> dict[str, Any]:
    """Written phase by phase, each on top of the one before."""
    starting = _as_written(status.new_start(_situation({}, since), "gvisor", "gvisor", epoch))
    if phase == "Starting":
        return starting
    if phase == "Failed":
        refusal = refuse(RefusalCode.EGRESS_CNI_NOT_ENFORCED, "The walls did not hold")
        return _as_written(status.failed(_situation(starting, since), "Refused", refusal, EGRESS_VERIFIED))
    pod = see_pod({**a_pod(epoch), "status": pod_status(since)}, a_session())
    if pod is None:
        raise ValueError("impossible world: a pod whose name does not fit its epoch")
    changes: dict[str, Any] = {"started_at": since, "expires_at": None, "recovery": "Initialized"}
    running = _as_written(status.running(_situation(starting, since), pod, **changes))
    if phase == "Ready":
        return running
    why = Trouble("Suspended", "The session was told to stop by spec.operatingMode.")
    stopping = _as_written(status.stopping(_situation(running, since), "Requested", why))
    if phase == "Stopping":
        return stopping
    stored = yes(SNAPSHOTTED, "Stored", "The workspace of the last stop is stored and verified.")
    ended: SessionPhase = "Finished" if phase == "Finished" else "Suspended"
    return _as_written(status.at_rest(_situation(stopping, since), ended, "Requested", why, stored))


def _situation(written: dict[str, Any], now: datetime) -> Situation:
    return read_situation(a_world(session=a_session(status=written), now=now))


def _as_written(new: Mapping[str, Any] | None) -> dict[str, Any]:
    if new is None:
        raise ValueError("impossible world: a phase that nobody wrote")
    return dict(new)


def pod_name(epoch: int = 1) -> str:
    """Name of the pod of an epoch."""
    return names.pod_name("quill", SESSION_UID, epoch)


def pod_uid(epoch: int = 1) -> str:
    """UID of the pod of an epoch."""
    return f"90d00000-0000-4000-8000-{epoch:012d}"


def a_policy(sandbox: AgentSandbox | None = None, installation: Installation | None = None) -> KubeObject:
    """The NetworkPolicy as it should be, seen in the API server."""
    built = network.network_policy(installation or an_installation(), sandbox or a_sandbox())
    if not isinstance(built, dict):
        raise TypeError(f"impossible world: a policy that cannot be built is there: {built.why}")
    return with_server_metadata(built, POLICY_UID)


def an_account(sandbox: AgentSandbox | None = None) -> KubeObject:
    """The ServiceAccount, seen in the API server."""
    nothing = {"policy": ABSENT, "service_account": ABSENT, "disruption_budget": ABSENT}
    world = a_sandbox_world(sandbox=sandbox or a_sandbox(), **nothing)
    return with_server_metadata(service_account(world), ACCOUNT_UID)


def a_budget(sandbox: AgentSandbox | None = None) -> KubeObject:
    """The PodDisruptionBudget, seen in the API server."""
    return with_server_metadata(budget.disruption_budget("demo", sandbox or a_sandbox()), BUDGET_UID)


def a_pod(
    epoch: int = 1,
    *,
    sandbox: AgentSandbox | None = None,
    session: SandboxSession | None = None,
    created: datetime = NOW - timedelta(seconds=5),
    terminating_for: float | None = None,
    is_dead: bool = False,
) -> dict[str, Any]:
    """The pod of an epoch as the API server shows it: with its defaults, its UID and a status."""
    sandbox, session = sandbox or a_sandbox(), session or a_session()
    admission = admission_of(sandbox, an_installation(), session.spec.env)
    if not isinstance(admission, Admission):
        raise TypeError(f"impossible world: a pod of a sandbox that is not admitted: {admission}")
    material = pod.PodMaterial("demo", admission, ACCOUNT_UID, "sandhold-keeper:test", "IfNotPresent", MOVER, CA)
    asked = pod.sandbox_pod(material, sandbox, session, epoch)
    stored = with_server_defaults(with_server_metadata(asked, pod_uid(epoch), created))
    if terminating_for is not None:
        grace = pod.grace_seconds(sandbox)
        end = NOW - timedelta(seconds=terminating_for) + timedelta(seconds=grace)
        stored["metadata"] |= {"deletionTimestamp": time_text(end), "deletionGracePeriodSeconds": grace}
    stored["status"] = pod_status(created, is_dead=is_dead)
    return stored


MOVER = "10.96.0.20:7443"


def pod_status(created: datetime, *, is_dead: bool = False) -> dict[str, Any]:
    """The status of a pod whose containers run, or whose containers have ended for good."""
    running = {"running": {"startedAt": time_text(created)}}
    state = {"terminated": {"exitCode": 137}} if is_dead else running
    return {
        "phase": "Failed" if is_dead else "Running",
        "podIP": "10.244.0.9",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "initContainerStatuses": [{"name": "keeper", "state": state}],
        "containerStatuses": [{"name": "agent", "state": state}],
    }


def with_server_metadata(document: Mapping[str, Any], uid: str, created: datetime = NOW) -> dict[str, Any]:
    """A document after its POST."""
    stored = deepcopy(dict(document))
    stored["metadata"] |= {"uid": uid, "resourceVersion": "1", "creationTimestamp": time_text(created)}
    return stored


def with_server_defaults(document: dict[str, Any]) -> dict[str, Any]:
    """What the API server and the admission plugins that are always on add to a pod."""
    spec = document["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        spec.pop(key, None)
    spec |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "nodeName": "node-1", "priority": 0}
    spec |= {"serviceAccount": spec["serviceAccountName"], "preemptionPolicy": "PreemptLowerPriority"}
    spec["tolerations"] = [
        *spec.get("tolerations", ()),
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]
    for container in (*spec["initContainers"], *spec["containers"]):
        container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("resources", {})
        if "readinessProbe" in container:
            container["readinessProbe"]["successThreshold"] = 1
    for volume in spec["volumes"]:
        if "emptyDir" in volume:
            volume["emptyDir"] |= {"sizeLimit": _canonical(volume["emptyDir"]["sizeLimit"])}
        for key in ("projected", "downwardAPI"):
            if key in volume:
                volume[key]["defaultMode"] = 420
    return document


def _canonical(size: str) -> str:
    """A whole number of bytes as the API server may show it."""
    return f"{int(size) >> 20}Mi" if int(size) % (1 << 20) == 0 else size


def some_evidence(challenge: str = CHALLENGE, version: str = GVISOR, **outcomes: str) -> Evidence:
    """A round in which everything holds, but for the outcomes given (`api_service="Connected"`)."""
    outcomes = {"mover": "Connected", **outcomes}
    changed = {name.replace("_", "-"): outcome for name, outcome in outcomes.items()}
    return Evidence(challenge, version, tuple(ProbeOutcome(name, changed.get(name, "Refused")) for name in PROBES))


HELD = Kept(int((NOW + timedelta(hours=24)).timestamp()), int((NOW + timedelta(hours=24)).timestamp()))
"""Both standing grants, just given."""
GUARDED = Guard("Normal", 1 << 30, 2 << 30, 300)
"""What the keeper of `a_sandbox` is to guard."""


def a_report(state: str = "Empty", epoch: int = 1, **changes: Any) -> KeeperReport:
    """A keeper's report at a stage: Empty, Preparing, Ready (with evidence), Open (agent running), Ended, Stored."""
    report = KeeperReport(challenge=CHALLENGE, agent_state="Waiting", workspace_state=state)
    if state in ("Ready", "Open", "Ended", "Stored"):
        marked: dict[str, Any] = {"marker_slot": SLOT, "marker_epoch": epoch, "marker_recovery": "Initialized"}
        report = replace(report, workspace_state="Ready", evidence=some_evidence(), **marked)
    if state in ("Open", "Ended", "Stored"):
        report = replace(report, opened=CHALLENGE, agent_state="Running" if state == "Open" else "Ended")
    if state in ("Ended", "Stored"):
        report = replace(report, agent_exit_code=0)
    if state == "Stored":
        report = replace(report, archive_sequence=1, archive_state="Stored")
    if state in ("Open", "Ended", "Stored"):
        report = replace(report, kept=HELD, guard=GUARDED)
    if report.archive_state or changes.get("archive_state"):
        report = replace(report, archive_is_final=True)
    return replace(report, **changes)


def some_nodes(**states: str) -> Present[Mapping[str, Node]]:
    """Nodes by name, each `ready`, `cordoned` or `lost`; `node_1` is `node-1`."""
    return Present(
        {
            name.replace("_", "-"): Node(is_cordoned=state == "cordoned", is_ready=state != "lost")
            for name, state in states.items()
        }
    )


def a_keeper(state: str = "Empty", *, epoch: int = 1, connected: bool = True, ago: float = 60, **report: Any) -> Keeper:
    """A keeper whose last report came so many seconds ago."""
    since = NOW - timedelta(seconds=ago)
    return Keeper(connected, a_report(state, epoch, **report), since, since if connected else None)


def an_archive(epoch: int = 1, sequence: int = 1, *, final: bool = True) -> Manifest:
    """A verified archive."""
    key = f"demo/{SLOT}/{epoch:010d}-{sequence:010d}"
    parent = (epoch - 1, 1) if epoch > 1 else None
    created = time_text(NOW - timedelta(hours=1))
    return Manifest(epoch, sequence, "Archive", final, key, "d" * 64, 1000, 400, 3, created, parent)


def a_fence(epoch: int = 1, parent: Manifest | None = None) -> Manifest:
    """The fence of an epoch."""
    key = f"demo/{SLOT}/{epoch:010d}-{0:010d}"
    source = None if parent is None else (parent.epoch, parent.sequence)
    return Manifest(
        epoch=epoch,
        sequence=0,
        kind="Fence",
        final=False,
        key=key,
        digest="f" * 64,
        bytes=0,
        stored_bytes=0,
        files=0,
        created_at=time_text(NOW - timedelta(hours=1)),
        parent=source,
    )


def a_history(head: Manifest | None = None, content: Manifest | None = None) -> Present[SlotHistory]:
    """What the store holds; an archive as head is its own content."""
    if content is None and head is not None and head.kind == "Archive":
        content = head
    if content is not None and (head is None or (content.epoch, content.sequence) > (head.epoch, head.sequence)):
        raise ValueError("impossible world: content newer than the head")
    return Present(SlotHistory(head, content))


def a_snapshot(archive: Manifest | None = None, session: SandboxSession | None = None) -> dict[str, Any]:
    """The SandboxSnapshot of an archive, as an earlier pass made it."""
    archived = snapshot.Archived("demo", SLOT, "main", archive or an_archive())
    create, say = snapshot.snapshot_writes(session or a_session(), archived, NOW)
    if not isinstance(create, Create) or not isinstance(say, WriteStatus):
        raise TypeError("impossible world: an entry is made and then given its status")
    stored = with_server_metadata(create.object, f"5a900000-0000-4000-8000-{archived.manifest.epoch:012d}")
    return {**stored, "status": dict(say.status)}


def a_world(**changes: Any) -> SessionWorld:
    """A session's world. `pods` and `snapshots` may be plain lists, `keepers` the keeper of the only pod."""
    pods = changes.get("pods", ())
    if isinstance(pods, list | tuple):
        changes["pods"] = Present(tuple(pods))
    if isinstance(changes.get("snapshots", ()), list | tuple):
        changes["snapshots"] = Present(tuple(changes.get("snapshots", ())))
    if isinstance(changes.get("keepers"), Keeper):
        changes["keepers"] = {changes["pods"].value[0]["metadata"]["uid"]: changes["keepers"]}
    sandbox = changes.get("sandbox", Present(a_sandbox()))
    changes["sandbox"] = Present(sandbox) if isinstance(sandbox, AgentSandbox) else sandbox
    built_for = changes["sandbox"].value if isinstance(changes["sandbox"], Present) else a_sandbox()
    known: dict[str, Any] = {"now": NOW, "squatter": ABSENT, "keepers": {}}
    makers: dict[str, Callable[[], Any]] = {
        "installation": an_installation,
        "session": a_session,
        "policy": lambda: Present(a_policy(built_for)),
        "service_account": lambda: Present(an_account(built_for)),
        "history": a_history,
    }
    known |= {name: make() for name, make in makers.items() if name not in changes}
    world = SessionWorld(**{**known, **changes})
    reject_impossible(world)
    return world


def a_sandbox_world(**changes: Any) -> SandboxWorld:
    """An AgentSandbox's world: walls and account in place, no sessions."""
    sandbox = changes.pop("sandbox", None) or a_sandbox()
    known: dict[str, Any] = {
        "now": NOW,
        "installation": an_installation(),
        "sandbox": sandbox,
        "sessions": Present(()),
        "pods": Present(()),
    }
    if "policy" not in changes:
        known["policy"] = Present(a_policy(sandbox))
    if "service_account" not in changes:
        known["service_account"] = Present(an_account(sandbox))
    if "disruption_budget" not in changes:
        known["disruption_budget"] = Present(a_budget(sandbox))
    return SandboxWorld(**{**known, **changes})


def reject_impossible(world: SessionWorld) -> None:
    """Fail for a world that no cluster could show: a test of it would prove nothing."""
    pods = world.pods.value if isinstance(world.pods, Present) else ()
    uids = [pod["metadata"]["uid"] for pod in pods]
    keys = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
    status = world.session.status
    complaints = {
        "two pods with one UID": len(set(uids)) != len(uids),
        "two pods with one name": len(set(keys)) != len(keys),
        "a keeper of a pod that nobody listed": isinstance(world.pods, Present) and not set(world.keepers) <= set(uids),
        "a deleted session without any finalizer": world.session.metadata.deletion_timestamp is not None
        and not world.session.metadata.finalizers,
        "a phase with an epoch and no slot": status.phase in ("Ready", "Stopping") and status.slot is None,
        "a running session without its pod's name": status.phase == "Ready"
        and not (status.pod_name and status.pod_uid),
    }
    wrong = [complaint for complaint, holds in complaints.items() if holds]
    if wrong:
        raise ValueError(f"impossible world: {'; '.join(wrong)}")
