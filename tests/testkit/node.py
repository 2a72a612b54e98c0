"""The test cluster's node as its root sees it: processes behind containers, what they have read, and their sudden ends.

For faults that no API offers: a SIGKILL at a chosen moment. Containers are told apart by id, never by a name.
"""

from pathlib import Path

from installation.client import Cluster, Object
from testbed import places
from testbed.commands import run

_CTR_SECONDS = 20


def container_id(pod: Object, name: str) -> str:
    """The id of a running container of a pod."""
    status = pod["status"]
    found = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    return str(next(each["containerID"] for each in found if each["name"] == name)).removeprefix("containerd://")


def process_id(pod: Object, name: str) -> int:
    """The first process of a container, as the node numbers it (under gVisor: of the sandbox that emulates it)."""
    wanted = container_id(pod, name)
    lines = (line.split() for line in _ctr("tasks", "ls").splitlines())
    return next(int(words[1]) for words in lines if words and words[0] == wanted)


def bytes_read(pid: int) -> int:
    """How much a process has read so far, from files and connections."""
    facts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(facts["rchar"])


def kill(pod: Object, name: str) -> None:
    """SIGKILL to every process of a container; the kubelet starts it again."""
    _ctr("tasks", "kill", "--all", "--signal", "SIGKILL", container_id(pod, name))


def the_pod_of(cluster: Cluster, namespace: str, component: str) -> Object:
    """The one pod of one of our programs."""
    (pod,) = cluster.list("Pod", namespace, f"app.kubernetes.io/component={component}")
    return pod


def _ctr(*arguments: str) -> str:
    program = [str(places.cache() / "bin" / "ctr"), "-a", str(places.containerd_socket()), "-n", "k8s.io"]
    return run([*program, *arguments], timeout=_CTR_SECONDS)
