"""What our own programs say and cost: the operator's metrics, and the memory of a keeper at rest."""

import re
import time
from pathlib import Path

import httpx

from installation.client import Cluster, Object
from installation.deploying import NAMESPACE as SYSTEM
from testbed.failure import TestbedError

_SEEN_TO_POST = "sandhold_session_seen_to_pod_post_seconds"
_REST_SECONDS = 5.0


class Operator:
    """The active operator's metrics, read from its pod."""

    def __init__(self, cluster: Cluster) -> None:
        pods = cluster.list("Pod", SYSTEM, "app.kubernetes.io/component=operator")
        running = [pod for pod in pods if pod["status"].get("podIP") and "deletionTimestamp" not in pod["metadata"]]
        if len(running) != 1:
            raise TestbedError(f"one operator should run, there are {len(running)}")
        self._url = f"http://{running[0]['status']['podIP']}:8080/metrics"

    def seen_to_post(self) -> tuple[int, float]:
        """How many pods were POSTed for new sessions, and the sum of their delays in seconds."""
        samples = self._samples()
        return int(samples.get((f"{_SEEN_TO_POST}_count", ""), 0)), samples.get((f"{_SEEN_TO_POST}_sum", ""), 0.0)

    def _samples(self) -> dict[tuple[str, str], float]:
        try:
            text = httpx.get(self._url, timeout=10, trust_env=False).raise_for_status().text
        except httpx.HTTPError as error:
            raise TestbedError(f"{self._url}: {error}") from error
        lines = re.findall(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", text, re.MULTILINE)
        return {(name, labels): float(value) for name, labels, value in lines}


def keeper_memory(pod: Object) -> dict[str, int]:
    """Resident memory of a pod's keeper after some seconds of rest, in bytes, as the node's kernel counts it.

    Under gVisor the keeper is no process of the node's, so this is only to be had under runc.
    """
    time.sleep(_REST_SECONDS)  # not a wait for a condition: rest is what is being measured
    uid = pod["metadata"]["uid"]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if command[:2] != [b"/sandhold-keeper", b"keeper"] or uid not in (folder / "cgroup").read_text():
                continue
            rollup = dict(re.findall(r"^(\w+):\s+(\d+) kB$", (folder / "smaps_rollup").read_text(), re.MULTILINE))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        return {"rss": int(rollup["Rss"]) * 1024, "private": int(rollup["Private_Dirty"]) * 1024}
    raise TestbedError(f"no keeper process of the pod {uid} was found on this machine")
