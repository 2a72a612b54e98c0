"""Somebody ends the operator, the mover or a pod while sessions stop: each stop ends as if nothing had happened.

Two kinds of stops are under way at once: one whose agent ignores SIGTERM until its grace is over, and one whose
archive is large enough to be caught in the middle. Each fault has a pair of its own: all start together, twice.
"""

from collections.abc import Callable

import pytest

from installation.client import Cluster, Object, until
from testkit.cluster_client import STOP_SECONDS, SYSTEM, Field, Session
from testkit.fault_matrix import Fault, FaultMatrix
from testkit.kept import STUBBORN, WORK, Kept
from testkit.node import bytes_read, kill, process_id, the_pod_of

pytestmark = pytest.mark.alone

OPERATOR = "sandhold-operator"
LARGE_MB = 160
GENEROUS: Object = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"},
}


LARGE_WORK = f"for n in 1 2 3 4; do head -c {LARGE_MB // 4}M /dev/urandom > data-$n; done"


def pair(field: Field, number: int) -> dict[str, Session]:
    """A session whose archive takes a moment, and one whose stop takes as long as its agent's grace."""
    return {
        "runc": field.session(f"large-{number}", "large"),
        "gvisor": field.session(f"stubborn-{number}", "stubborn"),
    }


def replace_operator(cluster: Cluster) -> None:
    """The pod of the operator is deleted, and another one comes."""
    pod = the_pod_of(cluster, SYSTEM, "operator")
    cluster.delete("Pod", SYSTEM, pod["metadata"]["name"])
    until("another operator is ready", lambda: _is_served(cluster, OPERATOR, pod), seconds=120)


def scale_operator(cluster: Cluster) -> None:
    """Nobody is there for a while."""
    cluster.scale(SYSTEM, OPERATOR, 0)
    cluster.scale(SYSTEM, OPERATOR, 1)


def kill_mover(cluster: Cluster) -> None:
    """Its process gets SIGKILL in the middle of the archive."""
    kill(the_pod_of(cluster, SYSTEM, "mover"), "mover")


def _is_served(cluster: Cluster, deployment: str, earlier: Object) -> bool:
    found = cluster.get("Deployment", SYSTEM, deployment)
    gone = cluster.get("Pod", SYSTEM, earlier["metadata"]["name"]) is None
    return gone and found is not None and found["status"].get("readyReplicas", 0) == found["spec"]["replicas"]


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "mover killed in the middle of an archive": kill_mover,
    "operator's pod deleted during a stop": replace_operator,
    "operator scaled to nothing and back during a stop": scale_operator,
}


def test_programs_are_replaced_while_sessions_stop(cluster: Cluster, field: Field, matrix: FaultMatrix) -> None:
    """One fault after the other, each over two stops; then all start again."""
    field.sandbox("large", "runc", workspace={"size": "512Mi"}, resources=GENEROUS)
    field.sandbox("stubborn", "gvisor", command=["python3", "-c", STUBBORN])
    pairs = {name: pair(field, number) for number, name in enumerate(FAULTS)}
    kept = {name: _at_work(sessions) for name, sessions in pairs.items()}
    faults: dict[tuple[str, str], Fault] = {}
    for name, happens in FAULTS.items():
        _be_caught_in_the_middle(pairs[name])
        faults |= {(name, tier): matrix.begin(name, tier) for tier in pairs[name]}
        happens(cluster)
        for session in pairs[name].values():
            session.wait_phase("Suspended", STOP_SECONDS)
    assert field.pods() == []
    for sessions in pairs.values():
        for session in sessions.values():
            session.set_mode("Running")
    for name, tier in faults:
        session = pairs[name][tier]
        session.wait_phase("Ready")
        kept[name][tier].judge(faults[name, tier])
        assert session.status().get("restarts", 0) == 0
    assert field.events("WorkspaceDiscarded") == []
    for sessions in pairs.values():
        sessions["gvisor"].shell("touch tame")


def _at_work(sessions: dict[str, Session]) -> dict[str, Kept]:
    return {"runc": Kept(sessions["runc"], f"{WORK}; {LARGE_WORK}"), "gvisor": Kept(sessions["gvisor"])}


def _be_caught_in_the_middle(sessions: dict[str, Session]) -> None:
    """Stop both: one waits for its agent's grace to be over, half of the other's archive has gone."""
    keeper = process_id(sessions["runc"].pod(), "keeper")
    half = bytes_read(keeper) + LARGE_MB * (1 << 19)
    sessions["gvisor"].set_mode("Suspended")
    sessions["gvisor"].wait_phase("Stopping")
    sessions["runc"].set_mode("Suspended")
    until("half of the workspace was read", lambda: bytes_read(keeper) > half, seconds=60, every=0.01)
