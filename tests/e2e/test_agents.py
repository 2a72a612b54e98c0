"""How agents end: by themselves, when they are told to, when they will not, and when their time is over."""

import pytest

from installation.client import until
from testkit.cluster_client import STOP_SECONDS, Field

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("stubborn", "w").write("running")
while True:
    time.sleep(1)
"""


@pytest.mark.long
def test_all_ways_to_end(field: Field) -> None:
    """One namespace, all at once: none has anything to do with another."""
    field.sandbox("stubborn", command=["python3", "-c", STUBBORN])
    field.sandbox("short", command=["sh", "-c", "echo done > result; exit 0"])
    field.sandbox("failing", command=["sh", "-c", "echo partly > result; exit 7"])
    field.sandbox("absent", command=["/no/such/program"])
    field.sandbox("idle")
    stubborn, short, failing, absent = (field.session(n, n) for n in ("stubborn", "short", "failing", "absent"))
    limited = field.session("limited", "idle", ttlSeconds=5)

    found = short.wait_phase("Finished")
    assert short.condition("Ready")["reason"] == "Finished"
    assert found["status"]["snapshot"]["key"]

    found = failing.wait_phase("Failed")
    assert failing.condition("Ready")["reason"] == "AgentFailed"
    assert "7" in failing.condition("Ready")["message"]
    assert found["status"]["snapshot"]["key"]

    absent.wait_phase("Failed")
    assert "127" in absent.condition("Ready")["message"]

    found = limited.wait_phase("Suspended")
    assert limited.condition("Ready")["reason"] == "TtlExpired"
    assert found["spec"]["operatingMode"] == "Running"
    assert found["status"]["snapshot"]["key"]

    stubborn.wait_phase("Ready")
    stubborn.shell("cat stubborn")
    stubborn.set_mode("Suspended")
    stubborn.wait_phase("Suspended", STOP_SECONDS)
    assert field.pods() == []

    limited.annotate("sandhold.dev/retry", "again")
    limited.wait_phase("Ready")
    stubborn.resume()
    assert stubborn.shell("cat stubborn").strip() == "running"


def test_a_session_deleted_before_it_was_ready_goes_and_leaves_nothing(field: Field) -> None:
    field.sandbox("coder", "gvisor", pod={"nodeSelector": {"no": "such-node"}})
    session = field.session("quill", "coder")
    until("a pod waits for a node", lambda: bool(field.pods()), seconds=60)
    assert session.status()["phase"] == "Starting"
    session.delete()
    until("the session goes", session.is_gone, seconds=90)
    assert field.pods() == []
    assert field.cluster.list("SandboxSnapshot", field.namespace) == []


def test_a_sandbox_goes_last_and_takes_its_walls_along(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    assert len(field.cluster.list("NetworkPolicy", field.namespace)) == 1
    field.cluster.delete("AgentSandbox", field.namespace, "coder")
    session.shell("true")
    assert len(field.cluster.list("NetworkPolicy", field.namespace)) == 1
    session.delete()
    words = ("wait", "--for=delete", "-n", field.namespace, "agentsandbox/coder", "--timeout=90s")
    field.cluster.kubectl(*words, timeout=100)
    assert field.cluster.list("NetworkPolicy", field.namespace) == []
    assert [a["metadata"]["name"] for a in field.cluster.list("ServiceAccount", field.namespace)] == ["default"]
