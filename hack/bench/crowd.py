"""Many sessions at once: how long each waits for Ready, and how long all of them take to stop."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from bench import audit, figures, starts
from installation.client import Cluster, Object, path, until
from testbed.failure import TestbedError

SESSIONS = 50
_SANDBOX = "crowd"
_LONGEST = 300
_AT_ONCE = 10


def measure(cluster: Cluster) -> dict[str, Any]:
    """Create all, wait for all, suspend all, wait for all."""
    starts.sandbox(cluster, _SANDBOX, "runc", "64Mi")
    names = [f"crowd-{number}" for number in range(SESSIONS)]
    began = audit.now()
    version = cluster.call("GET", path("SandboxSession", starts.NAMESPACE))["metadata"]["resourceVersion"]
    created: dict[str, float] = {}

    def create(name: str) -> None:
        created[name] = time.monotonic()
        cluster.create(starts.document(_SANDBOX, name))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(create, names))
    ready = _until_all(cluster, version, set(names), "Ready")
    ended = audit.now()
    start = figures.summary([(ready[name] - created[name]) * 1000 for name in names])
    all_ready = max(ready.values()) - min(created.values())
    stop = _stop_all(cluster, names)
    return {
        "sessions": SESSIONS,
        "startMilliseconds": {key: value for key, value in start.items() if key != "samples"},
        "allReadySeconds": round(all_ready, 1),
        "allStoppedSeconds": round(stop, 1),
        "writesEach": round(len(audit.writes(began, ended)) / SESSIONS, 2),
    }


def _stop_all(cluster: Cluster, names: list[str]) -> float:
    began = time.monotonic()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: starts.set_mode(cluster, name, "Suspended"), names))
    until("all of them are Suspended", lambda: _count(cluster, names, "Suspended") == len(names), seconds=_LONGEST)
    taken = time.monotonic() - began
    for name in names:
        cluster.delete("SandboxSession", starts.NAMESPACE, name)
    until("all of them are gone", lambda: _count(cluster, names) == 0, seconds=_LONGEST)
    return taken


def _count(cluster: Cluster, names: list[str], phase: str = "") -> int:
    wanted = set(names)
    found = [each for each in cluster.list("SandboxSession", starts.NAMESPACE) if each["metadata"]["name"] in wanted]
    return sum(not phase or each.get("status", {}).get("phase") == phase for each in found)


def _until_all(cluster: Cluster, version: str, waiting: set[str], phase: str) -> dict[str, float]:
    """When each reached a phase, by one watch over all of them."""
    reached: dict[str, float] = {}
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_LONGEST)}
    try:
        with cluster.stream(path("SandboxSession", starts.NAMESPACE), query, _LONGEST + 10) as answer:
            for line in answer.iter_lines():
                found: Object = json.loads(line)["object"]
                name = found["metadata"]["name"]
                if name in waiting and found.get("status", {}).get("phase") == phase:
                    reached.setdefault(name, time.monotonic())
                    if len(reached) == len(waiting):
                        return reached
    except httpx.HTTPError as error:
        raise TestbedError(f"the watch of the sessions broke: {error}") from error
    missing = sorted(waiting - set(reached))
    raise TestbedError(f"{len(missing)} of {len(waiting)} sessions were not {phase} within {_LONGEST} s: {missing[:5]}")
