"""The chart gives our programs all the rights they use: the API server's audit log knows of no refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from installation.client import Cluster, until
from testbed import places
from testkit.cluster_client import SYSTEM, Field, restart_programs

pytestmark = pytest.mark.alone

_OURS = f"system:serviceaccount:{SYSTEM}:sandhold-"
# What everybody is refused in a namespace that is being deleted is no missing right.
_NO_RIGHT = "cannot"


def _audit_log() -> Path:
    return places.state() / "logs" / "audit.jsonl"


def _refused(since: int) -> list[str]:
    """Requests of ours that were refused for want of a right, from this place in the log on."""
    found = []
    assert _audit_log().stat().st_size >= since, "the log was rotated meanwhile: run this test again"
    with _audit_log().open() as log:
        log.seek(since)
        for line in log:
            if '"code":403' not in line:
                continue
            event: dict[str, Any] = json.loads(line)
            actor = event.get("impersonatedUser", event["user"])["username"]
            message = str(event.get("responseStatus", {}).get("message", ""))
            if actor.startswith(_OURS) and _NO_RIGHT in message:
                found.append(message)
    return found


def test_nothing_that_our_programs_do_is_forbidden(cluster: Cluster, field: Field) -> None:
    """A whole life: start, stop, start, deletion, and the operator's own start with it."""
    began = _audit_log().stat().st_size
    restart_programs(cluster, "sandhold-operator", "sandhold-mover")
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.suspend()
    session.resume()
    session.delete()
    session.wait_gone()
    field.cluster.delete("AgentSandbox", field.namespace, "coder")
    until("the sandbox goes", lambda: cluster.get("AgentSandbox", field.namespace, "coder") is None, seconds=90)
    assert _refused(began) == []


def test_the_log_would_tell(cluster: Cluster) -> None:
    began = _audit_log().stat().st_size
    account = f"--as=system:serviceaccount:{SYSTEM}:sandhold-operator"
    refused = cluster.try_kubectl("get", "secrets", "-n", "default", account)
    assert refused.returncode != 0
    assert any("secrets" in message for message in _refused(began)), _refused(began)
