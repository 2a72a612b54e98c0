"""The peer: restic on the same tree and the same object store, in a pod of the same image without our walls.

It gets everything that it is built for: a local cache, all the processor that it wants, its default of compression.
"""

import base64
import json
from typing import Any

from bench import starts
from bench.tree import SCRIPT
from installation.client import Cluster, Object, condition, until
from testbed import places
from testbed.build import Component, build_all
from testbed.failure import TestbedError

VERSION = "0.18.1"
POD = "restic"
_COMPONENT = Component("restic", VERSION, places.HACK / "bench" / "go" / "restic")
_LONGEST = 600.0
_PLACE = """
import base64, os, sys
with open("/tmp/restic", "wb") as file:
    file.write(base64.b64decode(sys.stdin.read()))
os.chmod("/tmp/restic", 0o755)
"""
_RUN = """
import subprocess, sys, time
began = time.monotonic()
done = subprocess.run(["/tmp/restic", "--quiet", *sys.argv[1:]], capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stdout + done.stderr)
print(time.monotonic() - began)
"""


class Restic:
    """A pod with restic and a tree of its own."""

    def __init__(self, cluster: Cluster, runtime_class: str | None, bucket_prefix: str) -> None:
        self._cluster = cluster
        binary = build_all((_COMPONENT,), places.cache())["restic"] / "restic"
        cluster.create(_pod(runtime_class, bucket_prefix))
        until("the pod of restic is ready", self._is_ready, seconds=90)
        self._python(_PLACE, stdin=base64.b64encode(binary.read_bytes()).decode())

    def make(self, what: str) -> tuple[int, int]:
        """Make or change the tree; how many files and bytes it holds then."""
        files, size = self._python(SCRIPT, "/workspace/tree", what).split()
        return int(files), int(size)

    def run(self, *words: str) -> float:
        """One command of restic's; its seconds, by a clock in the pod."""
        return float(self._python(_RUN, *words))

    def remove(self) -> None:
        """Delete the pod."""
        starts.remove_pod(self._cluster, POD)

    def _is_ready(self) -> bool:
        return str(condition(self._cluster.get("Pod", starts.NAMESPACE, POD), "Ready")["status"]) == "True"

    def _python(self, script: str, *words: str, stdin: str | None = None) -> str:
        command = ("python3", "-c", script, *words)
        return self._cluster.execute(starts.NAMESPACE, POD, *command, stdin=stdin, timeout=_LONGEST)


def _pod(runtime_class: str | None, bucket_prefix: str) -> Object:
    environment = {
        "AWS_ACCESS_KEY_ID": places.S3_ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": places.S3_SECRET_KEY,
        "RESTIC_REPOSITORY": f"s3:{places.S3_URL}/{places.S3_BUCKET}/{bucket_prefix}",
        "RESTIC_PASSWORD": "bench",
        "RESTIC_CACHE_DIR": "/tmp/cache",  # noqa: S108 - a path in a pod of its own
    }
    container: dict[str, Any] = {
        "name": "agent",
        "image": starts.IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": [{"name": "work", "mountPath": "/workspace"}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
        "securityContext": {"runAsUser": 10001, "allowPrivilegeEscalation": False},
    }
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": 10001},
        "containers": [container],
        "volumes": [{"name": name, "emptyDir": {}} for name in ("work", "tmp")],
    }
    if runtime_class is not None:
        spec["runtimeClassName"] = runtime_class
    metadata = {"namespace": starts.NAMESPACE, "name": POD}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def measure(cluster: Cluster, prefix: str) -> dict[str, float]:
    """Seconds of a first backup, an unchanged one, one of 1 % changed, and a restore into an empty folder."""
    peer = Restic(cluster, None, prefix)
    try:
        _, size = peer.make("make")
        peer.run("init")
        # From within the folder on: the same paths whether or not restic decides by them.
        found = {"bytes": float(size), "full": peer.run("backup", "/workspace/tree")}
        found["restore"] = peer.run("restore", "latest", "--target", "/workspace/restored")
        found["unchanged"] = peer.run("backup", "/workspace/tree")
        peer.make("change")
        found["changed"] = peer.run("backup", "/workspace/tree")
    except (TestbedError, ValueError) as error:
        raise TestbedError(f"restic: {error}; {json.dumps({'repository': prefix})}") from error
    finally:
        peer.remove()
    return found
