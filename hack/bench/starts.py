"""Cold starts, timed from the outside: a session until Ready, and a bare pod made of that session's own pod.

The bare pod has the same image, volumes, mounts, security context, account and runtime class; what it lacks is the
keeper, the gate and the walls. Both are watched over one connection, so that nothing is rounded to a poll.
"""

import copy
import json
import time
from collections.abc import Callable

import httpx

from installation.client import Cluster, Object, condition, path, until
from testbed.failure import TestbedError

NAMESPACE = "sandhold-bench"
IMAGE = "localhost/sample-agent:dev"
_START_SECONDS = 120


def prepare(cluster: Cluster, tiers: tuple[str, ...]) -> None:
    """An empty namespace with one AgentSandbox a tier."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for session in cluster.list("SandboxSession", NAMESPACE):
        _delete(cluster, "SandboxSession", session["metadata"]["name"])
    for pod in cluster.list("Pod", NAMESPACE):
        _delete(cluster, "Pod", pod["metadata"]["name"])
    for tier in tiers:
        sandbox(cluster, tier, tier, "256Mi")


def sandbox(cluster: Cluster, name: str, tier: str, size: str) -> None:
    """An AgentSandbox that asks for little, without checkpoints in between, which nobody measures here."""
    small = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "1Gi"}}
    spec = {
        "image": IMAGE,
        "tier": tier,
        "resources": small,
        "workspace": {"size": size},
        "snapshot": {"intervalSeconds": 0},
    }
    metadata = {"namespace": NAMESPACE, "name": name}
    cluster.apply({"apiVersion": "sandhold.dev/v1alpha1", "kind": "AgentSandbox", "metadata": metadata, "spec": spec})
    until(f"the sandbox {name} is Ready", lambda: _sandbox_is_ready(cluster, name), seconds=60)


def _sandbox_is_ready(cluster: Cluster, name: str) -> bool:
    return str(condition(cluster.get("AgentSandbox", NAMESPACE, name), "Ready")["status"]) == "True"


def document(of: str, name: str) -> Object:
    """A session of an AgentSandbox."""
    metadata = {"namespace": NAMESPACE, "name": name}
    spec = {"sandboxRef": {"name": of}}
    return {"apiVersion": "sandhold.dev/v1alpha1", "kind": "SandboxSession", "metadata": metadata, "spec": spec}


def session(cluster: Cluster, of: str, name: str) -> float:
    """Milliseconds from the POST of a session of an AgentSandbox until its phase is Ready."""
    return _timed(cluster, document(of, name), lambda found: found.get("status", {}).get("phase") == "Ready")


def set_mode(cluster: Cluster, name: str, mode: str) -> None:
    """Ask a session to be `Running` or `Suspended`."""
    cluster.patch("SandboxSession", NAMESPACE, name, {"spec": {"operatingMode": mode}})


def bare_pod(cluster: Cluster, model: Object, name: str) -> float:
    """Milliseconds from the POST of a bare pod until its condition Ready."""
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": name, "annotations": model["metadata"].get("annotations", {})},
        "spec": _stripped(model["spec"]),
    }
    return _timed(cluster, bare, lambda found: condition(found, "Ready")["status"] == "True")


def pod_of(cluster: Cluster, name: str) -> Object:
    """The pod of a session that is Ready."""
    found = cluster.get("SandboxSession", NAMESPACE, name)
    pod = cluster.get("Pod", NAMESPACE, (found or {}).get("status", {}).get("podName", "none"))
    if pod is None:
        raise TestbedError(f"the session {name} has no pod")
    return pod


def remove_session(cluster: Cluster, name: str) -> None:
    """Delete a session; its pod is gone when it is."""
    _delete(cluster, "SandboxSession", name)


def remove_pod(cluster: Cluster, name: str) -> None:
    """Delete a pod at once and wait until it is gone."""
    _delete(cluster, "Pod", name, gracePeriodSeconds=0)


def _delete(cluster: Cluster, kind: str, name: str, **options: int) -> None:
    cluster.delete(kind, NAMESPACE, name, **options)
    until(f"{kind} {name} goes", lambda: cluster.get(kind, NAMESPACE, name) is None, seconds=120)


def _stripped(spec: Object) -> Object:
    """The same pod without the keeper and the gate: its agent's container idles from its first instruction."""
    bare = copy.deepcopy(spec)
    bare.pop("initContainers", None)
    bare.pop("nodeName", None)
    [agent] = bare["containers"]
    agent["command"] = ["sleep", "infinity"]
    agent.pop("args", None)
    agent.pop("readinessProbe", None)
    return bare


def _timed(cluster: Cluster, wanted: Object, holds: Callable[[Object], bool]) -> float:
    """POST and watch from the POST's own version on, so that no change can fall between the two."""
    began = time.monotonic()
    made = cluster.create(wanted)
    name, version = made["metadata"]["name"], made["metadata"]["resourceVersion"]
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={name}",
        "resourceVersion": version,
        "timeoutSeconds": str(_START_SECONDS),
    }
    last: Object = made
    try:
        with cluster.stream(path(wanted["kind"], NAMESPACE), query, _START_SECONDS + 10) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                last = event["object"]
                if event["type"] == "MODIFIED" and holds(last):
                    return (time.monotonic() - began) * 1000
    except httpx.HTTPError as error:
        raise TestbedError(f"the watch of {name} broke: {error}") from error
    shown = json.dumps(last.get("status"))[:3000]
    raise TestbedError(f"{wanted['kind']} {name} was not ready within {_START_SECONDS} s: {shown}")
