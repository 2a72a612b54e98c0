"""SandboxSnapshots that a quota does not let be written: no work waits for them, and a deletion says that it does.

Three sessions at once: one that is suspended, one whose pod is lost, one that is deleted. Nobody touches them when the
quota is lifted.
"""

from installation.client import Cluster, Object, condition, until
from sandhold import names
from testkit.cluster_client import STOP_SECONDS, Field
from testkit.fault_matrix import FaultMatrix
from testkit.kept import Kept
from testkit.pod_on_node import PodOnNode

QUOTA = "no-cards"
INTERVAL_SECONDS = 10
COUNTED = "count/sandboxsnapshots.sandhold.dev"
LIFTED_SECONDS = 40
"""A refused entry is tried again after a quarter of the time that it has failed for, 15 s at least."""


def test_a_quota_that_allows_no_snapshot_objects_holds_up_a_deletion_and_nothing_else(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    allow_none(field)
    field.sandbox("coder", snapshot={"intervalSeconds": INTERVAL_SECONDS})
    made = [field.session(name, "coder") for name in ("rests", "loses", "goes")]
    suspended, lost, deleted = (Kept(session) for session in made)
    of_a_stop = matrix.begin("SandboxSnapshots over quota: suspended", "runc")
    of_a_loss = matrix.begin("SandboxSnapshots over quota: pod and all its processes gone after a checkpoint", "runc")
    of_a_deletion = matrix.begin("SandboxSnapshots over quota: session deleted", "runc")
    suspended.session.set_mode("Suspended")
    deleted.session.delete()
    lose_after_checkpoint(lost)

    lost.wait_replaced()
    lost.judge(of_a_loss)
    rests = suspended.session.wait_phase("Suspended", STOP_SECONDS)
    waits = deleted.session.wait("the deletion says that it waits", says_why, STOP_SECONDS)
    until("its pod is gone", lambda: not of(field, "goes"), seconds=30)
    assert says_why(rests["status"])
    assert says_why(lost.session.status())
    assert rests["status"]["snapshot"].get("name") is None
    assert condition(rests, "Snapshotted")["status"] == "True"
    assert names.FINALIZER_WORKSPACE in waits["metadata"]["finalizers"]
    assert {each["regarding"]["name"] for each in field.events("Unrecorded")} == {"rests", "loses", "goes"}
    assert cluster.list("SandboxSnapshot", field.namespace) == []

    cluster.kubectl("delete", "resourcequota", QUOTA, "-n", field.namespace)
    until("the deleted session goes", deleted.session.is_gone, seconds=LIFTED_SECONDS)
    again = field.session("goes", "coder")
    found = suspended.session.wait("its archive has an entry", is_recorded, LIFTED_SECONDS)
    assert found["metadata"]["generation"] == rests["metadata"]["generation"], "nobody touched the session"
    suspended.session.resume()
    suspended.judge(of_a_stop)
    again.wait_phase("Ready")
    of_a_deletion.judge_workspace(deleted.walk, again.walk(), is_same_pod=False)
    lost.session.wait("its archive has an entry", is_recorded, LIFTED_SECONDS)
    listed = {each["spec"]["sessionRef"]["name"] for each in cluster.list("SandboxSnapshot", field.namespace)}
    assert listed == {"rests", "loses", "goes"}


def lose_after_checkpoint(kept: Kept) -> None:
    """All processes of the pod are killed and it is deleted by force, once status names what it would go on from."""
    session = kept.session
    session.wait("a checkpoint", lambda status: bool(status.get("snapshot")), 4 * INTERVAL_SECONDS)
    assert PodOnNode(kept.pod).kill() > 1
    session.field.cluster.delete("Pod", session.field.namespace, session.status()["podName"], gracePeriodSeconds=0)


def allow_none(field: Field) -> None:
    """A quota for our kind, in force."""
    metadata = {"namespace": field.namespace, "name": QUOTA}
    field.cluster.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {COUNTED: "0"}}}
    )
    place = f"/api/v1/namespaces/{field.namespace}/resourcequotas/{QUOTA}"
    until(
        "the quota is in force",
        lambda: COUNTED in field.cluster.call("GET", place).get("status", {}).get("hard", {}),
        seconds=30,
    )


def of(field: Field, session: str) -> list[Object]:
    """The pods of a session."""
    return [pod for pod in field.pods() if pod["metadata"]["name"].startswith(f"{session}-")]


def says_why(status: Object) -> bool:
    """Whether the condition names the object, the API server's answer and the next step."""
    told = condition({"status": status}, "Snapshotted")
    words = ("SandboxSnapshot ", f"exceeded quota: {QUOTA}", "raise the quota", "tried again by itself")
    return told["reason"] == "Unrecorded" and all(word in told["message"] for word in words)


def is_recorded(status: Object) -> bool:
    """Whether status names the SandboxSnapshot, and says no more that there is none."""
    told = condition({"status": status}, "Snapshotted")
    return bool(status["snapshot"].get("name")) and told["status"] == "True" and told["reason"] != "Unrecorded"
