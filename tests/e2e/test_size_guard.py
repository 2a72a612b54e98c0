"""Workspaces that grow too large: saved early, frozen and saved, stopped in order; never evicted by the kubelet.

Two sessions on each tier at once: half a minute lies between two checkpoints of the guard in one.
"""

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from installation.client import Cluster, Object, until
from testkit.cluster_client import STOP_SECONDS, Field, Session, manifest, scaled_to_zero
from testkit.fault_matrix import Fault, FaultMatrix
from testkit.pod_on_node import PodOnNode

pytestmark = pytest.mark.alone

TIERS = ("runc", "gvisor")
SIZE_MIB = 64
HIGH_MIB = SIZE_MIB * 85 // 100
FULL_MIB = SIZE_MIB * 105 // 100
CRITICAL_MIB = SIZE_MIB * 190 // 100
MEASURED_SECONDS = 90
# Fills the workspace when it is told to, and shows that it goes on. Whoever fills it by an exec would be frozen too.
FILLER = """
import os, pathlib, time
order, block, made = pathlib.Path("/tmp/order"), os.urandom(1 << 20), 0
turns = open("/tmp/turns", "ab", buffering=0)
while True:
    wanted = int(order.read_text() or 0) if order.exists() else 0
    while made < wanted:
        pathlib.Path(f"part-{made:03}").write_bytes(block)
        made += 1
    turns.write(b".")
    time.sleep(0.05)
"""


def started(field: Field, purpose: str) -> dict[str, Session]:
    """A session on each tier whose checkpoints only the size guard asks for; it is not waited for."""
    made = {}
    for tier in TIERS:
        name, size = f"{purpose}-{tier}", {"size": f"{SIZE_MIB}Mi"}
        field.sandbox(name, tier, command=["python3", "-c", FILLER], workspace=size, snapshot={"intervalSeconds": 0})
        made[tier] = field.session(name, name)
    return made


def fill(session: Session, mebibytes: int) -> None:
    """Have the agent fill its workspace; what comes then may stop it at any moment."""
    session.shell(f"echo {mebibytes} > /tmp/order.new; mv /tmp/order.new /tmp/order")


def turns(pod: PodOnNode) -> int:
    """How often the agent has gone round."""
    return (pod.volume("tmp") / "turns").stat().st_size


def stored(session: Session) -> list[Object]:
    """The files of the archive that is the recovery point."""
    return [record for record in manifest(session.status()["snapshot"]["key"])[1] if record["type"] == "file"]


def goes_on(pod: PodOnNode, seen: int) -> bool:
    return turns(pod) > seen


def is_stuck(pod: PodOnNode) -> bool:
    return pod.level() == "Critical" and pod.is_frozen()


def is_saved(session: Session) -> bool:
    """Whether the recovery point is what filled the workspace, and not a checkpoint from while it was being filled."""
    return "snapshot" in session.status() and len(stored(session)) >= SIZE_MIB


def warnings(session: Session) -> list[Object]:
    """Events that warn of its size."""
    return [one for one in session.field.events("WorkspaceFull") if one["regarding"]["name"] == session.name]


def each(claim: str, looks: Iterable[Callable[[], bool]], seconds: float) -> None:
    """Wait until each came true once, at any time: they do not stay true."""
    missing = list(looks)

    def look() -> bool:
        missing[:] = [one for one in missing if not one()]
        return not missing

    until(claim, look, seconds=seconds, every=0.01)


def test_a_workspace_that_grows_is_saved_in_time_and_stopped_before_it_is_evicted(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    high, full = started(field, "high"), started(field, "full")
    for session in (*high.values(), *full.values()):
        session.wait_phase("Ready")
    reach_high(high)
    reach_full(matrix, full)
    faults = {tier: matrix.begin("workspace fills up to its volume's limit", tier) for tier in TIERS}
    for session in high.values():
        fill(session, CRITICAL_MIB)
    for tier, session in high.items():
        is_stopped(session, faults[tier])
    fill_up_without_an_operator(cluster, matrix, full)
    assert field.events("Evicted") == []


def reach_high(sessions: dict[str, Session]) -> None:
    """A checkpoint, and nobody notices."""
    for session in sessions.values():
        fill(session, HIGH_MIB)
    for session in sessions.values():
        session.wait("a checkpoint", lambda status: "snapshot" in status, MEASURED_SECONDS)
        assert PodOnNode.of(session).level() == "High"
        assert warnings(session) == []


def reach_full(matrix: FaultMatrix, sessions: dict[str, Session]) -> None:
    """Frozen, saved as a whole, thawed, and said."""
    pods = {tier: PodOnNode.of(session) for tier, session in sessions.items()}
    faults = {tier: matrix.begin("workspace grows beyond its size", tier) for tier in sessions}
    for session in sessions.values():
        fill(session, FULL_MIB)
    each("everybody is frozen", (pod.is_frozen for pod in pods.values()), MEASURED_SECONDS)
    for tier, session in sessions.items():
        pod = pods[tier]
        until(f"{tier}: what was there when it was full is stored", partial(is_saved, session), seconds=90)
        until(f"{tier}: thawed", pod.is_thawed, seconds=60)
        seen = turns(pod)
        until(f"{tier}: the agent goes on", partial(goes_on, pod, seen), seconds=60)
        (event,) = until(f"{tier}: an Event warns", partial(warnings, session), seconds=60)
        assert event["type"] == "Warning"
        ready = session.condition("WorkspaceReady")
        assert (ready["status"], ready["reason"]) == ("True", "WorkspaceFull")
        assert not manifest(session.status()["snapshot"]["key"])[0]["final"]
        faults[tier].judge_ending([1 << 20] * SIZE_MIB, [record["size"] for record in stored(session)][:SIZE_MIB])


def is_stopped(session: Session, fault: Fault) -> None:
    """Stopped in order, with everything that it had written when it was frozen."""
    status = session.wait_phase("Suspended", STOP_SECONDS + MEASURED_SECONDS)["status"]
    fault.judge_ending("WorkspaceFull", status["stopReason"])
    assert session.condition("Ready")["reason"] == "WorkspaceFull"
    assert manifest(status["snapshot"]["key"])[0]["final"]
    files = stored(session)
    assert len(files) > CRITICAL_MIB * 9 // 10
    assert [record["path"] for record in files] == [f"part-{number:03}" for number in range(len(files))]
    assert {record["sha256"] for record in files[:-1]} == {files[0]["sha256"]}


def fill_up_without_an_operator(cluster: Cluster, matrix: FaultMatrix, sessions: dict[str, Session]) -> None:
    """The keeper freezes the agent, which stays frozen until the operator is back and stops the session in order."""
    pods = {tier: PodOnNode.of(session) for tier, session in sessions.items()}
    faults = {}
    with scaled_to_zero(cluster, "sandhold-operator"):
        for tier, session in sessions.items():
            faults[tier] = matrix.begin("workspace fills up to its volume's limit while the operator is away", tier)
            fill(session, CRITICAL_MIB)
        for tier, pod in pods.items():
            until(
                f"{tier}: frozen at its limit",
                partial(is_stuck, pod),
                seconds=MEASURED_SECONDS,
            )
        seen = {tier: turns(pod) for tier, pod in pods.items()}
        before = {tier: pod.walk() for tier, pod in pods.items()}
        assert seen == {tier: turns(pod) for tier, pod in pods.items()}, "somebody who is frozen went on"
    for session in sessions.values():
        session.wait_phase("Suspended", STOP_SECONDS)
        field, larger = session.field, {"spec": {"workspace": {"size": f"{4 * SIZE_MIB}Mi"}}}
        field.cluster.patch("AgentSandbox", field.namespace, session.name, larger)
        session.annotate("sandhold.dev/retry", "larger")
    for tier, session in sessions.items():
        session.wait_phase("Ready")
        faults[tier].judge_workspace(before[tier], session.walk(), is_same_pod=False)
