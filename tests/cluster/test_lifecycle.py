"""The cluster's whole life on this machine, in one test because each part of it costs seconds: it comes up although
the first attempt was killed, heals what is killed under it, runs pods under both runtimes, and leaves nothing behind.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import inventory, network, places, processes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CLUSTER = str(Path(__file__).parents[2] / "hack" / "cluster")
NAMESPACE = "lifecycle-test"


def hack_cluster(*arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CLUSTER, *arguments], check=False, capture_output=True, text=True, timeout=within
    )


def must(*arguments: str, within: float = 120) -> str:
    done = hack_cluster(*arguments, within=within)
    assert done.returncode == 0, f"hack/cluster {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        [str(places.cache() / "bin" / "kubectl"), "--request-timeout=10s", *arguments],
        env={"KUBECONFIG": str(places.kubeconfig()), "HOME": str(places.state())},
        check=False,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def eventually(holds: Callable[[], bool], claim: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never within {seconds} s: {claim}"
        time.sleep(0.02)


def pods() -> str:
    """A pod of each runtime, of the only image that is surely there."""
    documents = []
    for runtime in ("runc", "gvisor"):
        container = {"name": "c", "image": "sandhold.test/pause:1", "imagePullPolicy": "Never"}
        spec = {"runtimeClassName": runtime, "containers": [container]}
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": runtime, "namespace": NAMESPACE},
                "spec": spec,
            }
        )
    return "\n---\n".join(json.dumps(document) for document in documents)


@pytest.fixture(scope="module")
def emptied() -> Iterator[None]:
    """Begin without a cluster, and afterwards have one again if there was one before."""
    was_up = network.exists()
    must("down")
    yield
    if was_up:
        must("up")


def kill_up_midway() -> None:
    """Kill `up` when some daemons run and others do not: the worst place, because it leaves half of everything."""
    with subprocess.Popen(
        [sys.executable, CLUSTER, "up"], stdout=subprocess.DEVNULL, start_new_session=True
    ) as starting:
        eventually(lambda: processes.running("containerd") is not None, "the killed `up` starts containerd")
        os.killpg(starting.pid, signal.SIGKILL)
    assert processes.running("etcd"), "the kill came too early to prove anything"
    assert not processes.running("kubelet"), "the kill came too late to prove anything"


def kill_daemons(*names: str) -> None:
    for name in names:
        record = processes.running(name)
        assert record, f"{name} does not run"
        os.kill(record.pid, signal.SIGKILL)
        eventually(lambda name=name: processes.running(name) is None, f"{name} is dead")  # type: ignore[misc]


def check_one_of_each() -> None:
    """Every daemon serves, and none runs twice: a second etcd would be a second truth."""
    status = must("status")
    assert "NOT" not in status, status
    programs = [line.split()[1].rpartition("/")[2] for line in inventory.take().processes]
    for name in ("etcd", "kube-apiserver", "kubelet", "containerd", "kube-router", "versitygw"):
        assert programs.count(name) == 1, f"{name} in {programs}"


@pytest.mark.usefixtures("emptied")
def test_a_cluster_comes_up_heals_and_leaves_nothing() -> None:
    before = inventory.take()
    assert not before.processes, "down left processes, or a foreign cluster runs here"

    kill_up_midway()
    must("up")
    check_one_of_each()

    began = time.monotonic()
    assert "all was running" in must("up")
    assert time.monotonic() - began < 5, "a second `up` on a healthy cluster should be quick"

    kubectl("create", "namespace", NAMESPACE)
    eventually(lambda: "default" in kubectl("get", "serviceaccounts", "-n", NAMESPACE), "the service account is there")
    kubectl("apply", "-f", "-", stdin=pods())
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "--all", "--timeout=50s")

    kill_daemons("kubelet", "containerd", "etcd")
    must("stop", "s3")
    assert hack_cluster("status").returncode == 1, "status should say that something does not run"
    must("up")
    check_one_of_each()
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "--all", "--timeout=50s")
    restarts = "{.items[*].status.containerStatuses[0].restartCount}"
    assert kubectl("get", "pods", "-n", NAMESPACE, "-o", f"jsonpath={restarts}") == "0 0", "pods outlive their daemons"

    metadata = "import urllib.request as u; print(u.urlopen('http://169.254.169.254/', timeout=5).read())"
    assert "metadata" in must("exec-net", "--", sys.executable, "-c", metadata)
    assert "default" not in must("exec-net", "--", "ip", "route"), "nothing in there may lead outside"

    must("down")
    assert inventory.take().difference(before) == []


@pytest.mark.usefixtures("emptied")
def test_what_a_killed_up_left_is_taken_down_too() -> None:
    before = inventory.take()
    kill_up_midway()
    assert inventory.take().difference(before)
    must("down")
    assert inventory.take().difference(before) == []
