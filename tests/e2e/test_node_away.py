"""A node whose kubelet is away for a while, and evictions that are put off, while another session stops.

That a drain goes on when sessions have stopped in order is tested in `test_drains.py`.
"""

import json
import time

import pytest

from installation.client import CallError, Cluster, until
from testbed import places
from testkit.cluster_client import STOP_SECONDS, Field, Session, daemon
from testkit.fault_matrix import FaultMatrix
from testkit.kept import STUBBORN, Kept

pytestmark = pytest.mark.alone

TIERS = ("runc", "gvisor")
NOT_READY_SECONDS = 90


def test_a_node_is_away_and_pods_are_evicted_while_another_stop_is_under_way(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    field.sandbox("stubborn", "runc", command=["python3", "-c", STUBBORN])
    made = {tier: field.session(tier, field.sandbox(f"idle-{tier}", tier)) for tier in TIERS}
    stops = Kept(field.session("stubborn", "stubborn"))
    kept = {tier: Kept(session) for tier, session in made.items()}
    _node_is_away_for_a_while(cluster, kept, matrix)
    of_the_stop = matrix.begin("evictions asked for during a stop", "runc")
    stops.session.set_mode("Suspended")
    stops.session.wait_phase("Stopping")
    for tier, each in kept.items():
        fault = matrix.begin("pod evicted through the API while another stop is under way", tier)
        fault.judge_refusal(evicted(each.session), each.walk, each.session.walk())
        assert each.session.pod_uid() == each.pod
    stops.session.wait_phase("Suspended", STOP_SECONDS)
    stops.session.resume()
    stops.judge(of_the_stop)
    stops.session.shell("touch tame")


def _node_is_away_for_a_while(cluster: Cluster, kept: dict[str, Kept], matrix: FaultMatrix) -> None:
    """Nothing says that its pods have ended: no second pod while the first one may still run."""
    faults = {tier: matrix.begin("node not ready for a while", tier) for tier in kept}
    field = next(iter(kept.values())).session.field
    pods = {pod["metadata"]["uid"] for pod in field.pods()}
    daemon("stop", "kubelet")
    try:
        until("the node is not ready", lambda: not _node_is_ready(cluster), seconds=NOT_READY_SECONDS)
        settled = time.monotonic() + 3
        until("the operator had time to do harm", lambda: time.monotonic() > settled, seconds=10)
        assert {pod["metadata"]["uid"] for pod in field.pods()} == pods
    finally:
        daemon("start", "kubelet")
    until("the node is ready", lambda: _node_is_ready(cluster), seconds=60)
    for tier, each in kept.items():
        each.session.wait_phase("Ready")
        each.judge(faults[tier])
        assert each.session.pod_uid() == each.pod


def _node_is_ready(cluster: Cluster) -> bool:
    node = json.loads(cluster.kubectl("get", "node", places.NODE, "-o", "json"))
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


def evicted(session: Session) -> str:
    """Ask for an eviction, as a drain does; why it was put off."""
    namespace, pod = session.field.namespace, session.status()["podName"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": pod}}
    try:
        session.field.cluster.call("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)
    except CallError as error:
        if error.code != 429:
            raise
        return error.message
    return ""
