"""No instruction of the agent runs before the walls were seen to hold, whatever becomes of kubelet and mover."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from installation.client import Cluster, Object, until
from testbed import places
from testbed.failure import TestbedError
from testkit.cluster_client import Field, Session, daemon, scaled_to_zero

TIERS = ("runc", "gvisor")
FIRST = ["sh", "-c", "echo $$ > first; exec sleep infinity"]


@pytest.mark.alone
def test_a_kubelet_that_is_killed_does_not_open_the_gate(cluster: Cluster, field: Field) -> None:
    """The pods wait for a node until the mover is away: else their gates would be open before we could look."""
    label = f"sandhold-e2e-{field.namespace[-6:]}"
    for tier in TIERS:
        field.sandbox(tier, tier, command=FIRST, pod={"nodeSelector": {label: "here"}})
    sessions = [field.session(tier, tier) for tier in TIERS]
    until("pods wait for a node", lambda: len(field.pods()) == len(TIERS), seconds=60)
    pods = {session.name: _pod(session)["metadata"] for session in sessions}
    with scaled_to_zero(cluster, "sandhold-mover"), _labelled(cluster, label):
        for session in sessions:
            until("the agent's container runs, at the gate", partial(_waits_at_gate, session), seconds=90)
            assert _workspace(session) == []
        daemon("stop", "kubelet")
        daemon("start", "kubelet")
        for session in sessions:
            until("the new kubelet serves execs", partial(_answers, session), seconds=90)
            assert _workspace(session) == []
            assert session.status()["phase"] == "Starting"
            assert session.condition("Ready")["status"] == "False"
    for session in sessions:
        session.wait_phase("Ready", seconds=120)
        assert session.pod_uid() == pods[session.name]["uid"]
        assert session.shell("cat first").strip().isdigit()


@contextmanager
def _labelled(cluster: Cluster, label: str) -> Iterator[None]:
    cluster.kubectl("label", "node", places.NODE, f"{label}=here")
    try:
        yield
    finally:
        cluster.kubectl("label", "node", places.NODE, f"{label}-")


def _pod(session: Session) -> Object:
    """Its one pod, which no status names yet."""
    (pod,) = (each for each in session.field.pods() if each["metadata"]["name"].startswith(f"{session.name}-"))
    return pod


def _waits_at_gate(session: Session) -> bool:
    for container in _pod(session)["status"].get("containerStatuses", []):
        if container["name"] == "agent" and "running" in container["state"]:
            return _answers(session)
    return False


def _answers(session: Session) -> bool:
    try:
        session.field.cluster.execute(session.field.namespace, _pod(session)["metadata"]["name"], "true", timeout=20)
    except TestbedError:
        return False
    return True


def _workspace(session: Session) -> list[str]:
    return session.field.execute(_pod(session)["metadata"]["name"], "ls", "-A", "/workspace").split()


def test_the_walls_hold_from_inside(field: Field) -> None:
    """What the agent itself can reach: the mover's keeper port, and none of what a sandbox must not see."""
    field.sandbox("coder", "gvisor")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    reached = session.python(
        """
import socket, sys
for target in sys.argv[1:]:
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 2).close()
        print(target, "reached")
    except OSError:
        print(target, "walled")
""",
        "169.254.169.254:80", "10.96.0.1:443", "172.31.0.2:6443", "172.31.0.2:10250", "172.31.0.2:7070",
    )  # fmt: skip
    assert [line.split()[1] for line in reached.splitlines()] == ["walled"] * 5, reached
