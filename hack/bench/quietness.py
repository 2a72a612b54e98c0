"""How many API writes a session costs: its cold start, what follows it, a time of rest, and its stop."""

import time
from typing import Any

from bench import audit, starts
from installation.client import Cluster, until
from testbed.failure import TestbedError

MOST_AT_START = 4
SETTLE_SECONDS = 40.0
REST_SECONDS = 60.0
_TIER = "runc"


def measure(cluster: Cluster) -> dict[str, Any]:
    """Count the writes of the second session of an AgentSandbox, whose walls and account the first one found made."""
    starts.session(cluster, _TIER, "writes-first")
    _settle()
    began = audit.now()
    starts.session(cluster, _TIER, "writes-second")
    ready = audit.now()
    _settle()
    settled = audit.now()
    time.sleep(REST_SECONDS)  # not a wait for a condition: rest is what is being measured
    rested = audit.now()
    _suspend(cluster, "writes-second")
    stopped = audit.now()
    for name in ("writes-first", "writes-second"):
        starts.remove_session(cluster, name)
    start = _counted(began, ready)
    rest = _counted(settled, rested)
    return {
        "coldStart": start | {"target": MOST_AT_START, "reached": start["count"] <= MOST_AT_START},
        "afterReady": _counted(ready, settled) | {"seconds": SETTLE_SECONDS},
        "atRest": rest | {"seconds": REST_SECONDS, "target": 0, "reached": rest["count"] == 0},
        "stop": _counted(rested, stopped),
    }


def _settle() -> None:
    """Let what is put off on purpose (the count of sessions in an AgentSandbox's status) be written."""
    time.sleep(SETTLE_SECONDS)


def _suspend(cluster: Cluster, name: str) -> None:
    starts.set_mode(cluster, name, "Suspended")

    def is_suspended() -> bool:
        found = cluster.get("SandboxSession", starts.NAMESPACE, name)
        if found is None:
            raise TestbedError(f"the session {name} went while it was being suspended")
        return str(found["status"].get("phase")) == "Suspended"

    until(f"{name} is Suspended", is_suspended, seconds=90)


def _counted(begin: str, end: str) -> dict[str, Any]:
    found = audit.writes(begin, end)
    return {"count": len(found), "requests": [one.as_text() for one in found]}
