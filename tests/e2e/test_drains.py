"""Pods that go with a grace: deleted by hand, with an operator and without one, and drained from their node.

Both runtimes side by side: nothing of it depends on the other.
"""

import time
from functools import partial
from typing import Any

import pytest

from installation.client import Cluster, Object, until
from sandhold import names
from testbed import places
from testkit.cluster_client import START_SECONDS, Field, Session, folder_of, manifest, scaled_to_zero
from testkit.fault_matrix import Fault, FaultMatrix

pytestmark = pytest.mark.alone

TIERS = ("runc", "gvisor")
WORK = """
import os
os.makedirs("project/empty", exist_ok=True)
for number in range(40):
    with open(f"project/part-{number}", "wb") as file:
        file.write(os.urandom(100_000))
os.chmod("project/part-0", 0o700)
if not os.path.lexists("link"):
    os.symlink("project", "link")
"""


def started(field: Field) -> dict[str, Session]:
    """A session on each tier, at work. No checkpoint by the clock: what is found later is the keeper's last archive."""
    made = {}
    for tier in TIERS:
        field.sandbox(tier, tier, workspace={"size": "64Mi"}, snapshot={"intervalSeconds": 0})
        made[tier] = field.session(tier, tier)
    for session in made.values():
        session.wait_phase("Ready")
    return made


def work(session: Session) -> list[Object]:
    """New work that no archive has; returns what the workspace holds now."""
    session.python(WORK)
    return session.walk()


def delete_pod(session: Session) -> Object:
    """As a person does it; returns the pod."""
    pod = session.pod()
    name = pod["metadata"]["name"]
    session.field.cluster.kubectl("delete", "pod", "-n", session.field.namespace, name, "--wait=false")
    return pod


def wait_replaced(session: Session, first: str) -> None:
    """Wait until the session is Ready in another pod."""

    def holds(status: Object) -> bool:
        return status.get("phase") == "Ready" and status.get("podUid") not in (None, first)

    session.wait("Ready in another pod", holds, START_SECONDS)


def is_gone(field: Field, pod: Object) -> bool:
    return field.cluster.get("Pod", field.namespace, pod["metadata"]["name"]) is None


def judge(session: Session, fault: Fault, before: list[Object], first: str) -> None:
    """Another pod has everything that was there."""
    wait_replaced(session, first)
    fault.judge_workspace(before, session.walk(), is_same_pod=False)
    assert session.status()["recovery"] == "Repaired"


def test_a_pod_that_somebody_deletes_stores_its_work_by_itself(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    sessions = started(field)
    lost: dict[str, tuple[Any, ...]] = {}
    for tier, session in sessions.items():
        before = work(session)
        lost[tier] = (matrix.begin("pod deleted by hand", tier), before, delete_pod(session)["metadata"]["uid"])
    for tier, session in sessions.items():
        judge(session, *lost[tier])
    delete_without_an_operator(cluster, matrix, sessions)


def delete_without_an_operator(cluster: Cluster, matrix: FaultMatrix, sessions: dict[str, Session]) -> None:
    """The keeper alone archives within the grace, with the grant that it holds for that."""
    lost: dict[str, tuple[Any, ...]] = {}
    before = {tier: work(session) for tier, session in sessions.items()}
    points = {tier: session.status()["snapshot"] for tier, session in sessions.items()}
    with scaled_to_zero(cluster, "sandhold-operator"):
        began = time.monotonic()
        pods = {}
        for tier, session in sessions.items():
            fault = matrix.begin("pod deleted by hand while the operator is away", tier)
            pods[tier] = delete_pod(session)
            lost[tier] = (fault, before[tier], pods[tier]["metadata"]["uid"])
        for tier, session in sessions.items():
            grace = pods[tier]["spec"]["terminationGracePeriodSeconds"]
            until(
                f"the pod on {tier} goes",
                partial(is_gone, session.field, pods[tier]),
                seconds=grace,
            )
            assert time.monotonic() - began < grace, "nobody was killed at the end of the grace"
            header = manifest(folder_of(points[tier]["key"]) + "0000000002-0000000001")[0]
            assert header["final"], header
    for tier, session in sessions.items():
        judge(session, *lost[tier])


def test_a_drain_waits_for_sessions_that_stop_in_order_and_start_again_by_themselves(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    sessions = started(field)
    lost: dict[str, tuple[Any, ...]] = {}
    for tier, session in sessions.items():
        before, first = work(session), session.pod_uid()
        lost[tier] = (matrix.begin("node drained", tier), before, first)
    agents = f"--pod-selector={names.LABEL_KIND}={names.KIND_AGENT}"
    try:
        words = ("drain", places.NODE, "--delete-emptydir-data", agents, "--timeout=90s")
        drained = cluster.try_kubectl(*words, timeout=100)
        assert drained.returncode == 0, drained.stderr
        assert field.pods() == []
        assert "disruption budget" in drained.stderr, f"the drain waited for nobody: {drained.stderr}"
        for session in sessions.values():
            status = session.wait_phase("Suspended", seconds=60)["status"]
            assert status["stopReason"] == session.condition("Ready")["reason"] == "NodeCordoned"
            assert status["snapshot"]["epoch"] == 1
            assert manifest(status["snapshot"]["key"])[0]["final"]
    finally:
        cluster.kubectl("uncordon", places.NODE)
    for tier, session in sessions.items():
        judge(session, *lost[tier])
        assert session.found()["spec"]["operatingMode"] == "Running"
