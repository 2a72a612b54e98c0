"""Archives and restores of a mixed gigabyte through real pods, beside restic on the same tree and the same store.

Ours are timed as a user sees them: from the PATCH that suspends until the archive is verified in the store, and from
the PATCH that resumes until Ready, the start of the pod included. What a start without a workspace takes is given too.
"""

import time
from typing import Any

from bench import restic, starts
from bench.tree import SCRIPT
from installation import bucket
from installation.client import Cluster, until
from testbed.failure import TestbedError

_SANDBOX = "archives"
_SESSION = "archives"
_LONGEST = 600.0
MEGABYTE = 1_000_000


def measure(cluster: Cluster, run: str) -> dict[str, Any]:
    """Ours first, then restic; nothing else runs meanwhile."""
    ours = _ours(cluster)
    prefix = f"bench-restic-{run}"
    try:
        theirs = restic.measure(cluster, prefix)
    finally:
        for key in bucket.sizes(f"{prefix}/"):
            bucket.remove(key)
    if ours["bytes"] != theirs["bytes"]:
        raise TestbedError(f"two trees: ours has {ours['bytes']} bytes, restic's {theirs['bytes']}")
    size = ours.pop("bytes")
    theirs.pop("bytes")
    return {
        "bytes": int(size),
        "unit": "seconds",
        "sandhold": ours,
        "restic": {key: round(value, 2) for key, value in theirs.items()} | {"version": restic.VERSION},
        "megabytesPerSecond": {
            key: {"sandhold": round(size / MEGABYTE / ours[key], 1), "restic": round(size / MEGABYTE / theirs[key], 1)}
            for key in ("full", "restore")
        },
        "fasterThanRestic": {key: ours[key] < theirs[key] for key in ("full", "restore", "unchanged", "changed")},
    }


def _ours(cluster: Cluster) -> dict[str, float]:
    starts.sandbox(cluster, _SANDBOX, "runc", "2Gi")
    empty = starts.session(cluster, _SANDBOX, _SESSION) / 1000
    _, size = _python(cluster, "make")
    found = {"bytes": float(size), "emptyStart": round(empty, 2), "full": _suspend(cluster)}
    found["restore"] = _resume(cluster)
    found["unchanged"] = _suspend(cluster)
    _resume(cluster)
    _python(cluster, "change")
    found["changed"] = _suspend(cluster)
    starts.remove_session(cluster, _SESSION)
    return found


def _python(cluster: Cluster, what: str) -> tuple[int, int]:
    pod = starts.pod_of(cluster, _SESSION)["metadata"]["name"]
    words = ("python3", "-c", SCRIPT, "/workspace/tree", what)
    files, size = cluster.execute(starts.NAMESPACE, pod, *words, timeout=_LONGEST).split()
    return int(files), int(size)


def _suspend(cluster: Cluster) -> float:
    """Seconds until the archive is there: the pod may go then, and does."""
    before = _sequence(cluster)
    seconds = _timed(cluster, "Suspended", lambda: _sequence(cluster) != before, "the archive is verified")
    _wait_phase(cluster, "Suspended")
    return seconds


def _resume(cluster: Cluster) -> float:
    return _timed(cluster, "Running", lambda: _phase(cluster) == "Ready", "the session is Ready")


def _timed(cluster: Cluster, mode: str, holds: Any, claim: str) -> float:
    began = time.monotonic()
    starts.set_mode(cluster, _SESSION, mode)
    until(claim, holds, seconds=_LONGEST, every=0.05)
    return round(time.monotonic() - began, 2)


def _wait_phase(cluster: Cluster, phase: str) -> None:
    until(f"the session is {phase}", lambda: _phase(cluster) == phase, seconds=_LONGEST)


def _phase(cluster: Cluster) -> str:
    found = cluster.get("SandboxSession", starts.NAMESPACE, _SESSION) or {}
    return str(found.get("status", {}).get("phase", ""))


def _sequence(cluster: Cluster) -> tuple[int, int] | None:
    """Epoch and sequence of the newest final archive that the index calls verified."""
    found = [
        (status["epoch"], status["sequence"])
        for each in cluster.list("SandboxSnapshot", starts.NAMESPACE)
        if each["spec"]["sessionRef"]["name"] == _SESSION
        if (status := each.get("status") or {}).get("phase") == "Ready" and status.get("final")
    ]
    return max(found, default=None)
