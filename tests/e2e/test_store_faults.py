"""The object store goes away, at a stop and at a start, and comes back: nothing is lost, nobody has to do anything."""

import pytest

from installation import bucket
from installation.client import until
from sandhold import names
from testkit.cluster_client import STOP_SECONDS, Field, store_away
from testkit.fault_matrix import FaultMatrix

pytestmark = pytest.mark.alone


def test_a_stop_waits_for_the_store_and_then_ends_by_itself(field: Field, matrix: FaultMatrix) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo precious > file")
    uid, before = session.pod_uid(), session.walk()
    fault = matrix.begin("store unreachable at a stop", "runc")
    with store_away():
        session.set_mode("Suspended")
        told = session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
        assert "main" in told["message"]
        held = session.found()
        assert held["status"]["phase"] == "Stopping"
        assert names.FINALIZER_WORKSPACE in held["metadata"]["finalizers"]
        pod = session.pod()
        assert pod["metadata"]["uid"] == uid
        assert "deletionTimestamp" not in pod["metadata"]
    touched = session.found()["metadata"]["generation"]
    found = session.wait_phase("Suspended", seconds=150)
    assert found["metadata"]["generation"] == touched, "nobody touched the session"
    assert "refusal" not in found["status"]
    assert found["status"]["snapshot"]["key"] in bucket.sizes()
    assert field.pods() == []
    session.resume()
    fault.judge_workspace(before, session.walk(), is_same_pod=session.pod_uid() == uid)


def test_a_deletion_waits_for_the_store_too(field: Field, matrix: FaultMatrix) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo precious > file")
    before = session.walk()
    fault = matrix.begin("store unreachable at a deletion", "runc")
    with store_away():
        session.delete()
        session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
        assert session.found()["metadata"]["deletionTimestamp"]
        assert "deletionTimestamp" not in session.pod()["metadata"]
    field.cluster.kubectl(
        "wait", "--for=delete", "-n", field.namespace, "sandboxsession/quill", "--timeout=150s", timeout=160
    )
    again = field.session("quill", "coder")
    again.wait_phase("Ready")
    fault.judge_workspace(before, again.walk(), is_same_pod=False)


def test_a_start_waits_for_the_store_and_never_begins_empty(field: Field, matrix: FaultMatrix) -> None:
    field.sandbox("coder", command=["sh", "-c", "ls -A > /tmp/seen-at-start; exec sleep infinity"])
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo precious > file")
    before, uid = session.walk(), session.pod_uid()
    session.suspend()
    fault = matrix.begin("store unreachable at a start", "runc")
    with store_away():
        session.set_mode("Running")
        session.wait_condition("Ready", "SnapshotStoreUnavailable")
        assert session.status()["phase"] == "Starting"
        assert field.pods() == []
    session.wait_phase("Ready", seconds=150)
    assert session.shell("cat /tmp/seen-at-start").split() == ["file"]
    assert session.status()["recovery"] == "Restored"
    assert "refusal" not in session.status()
    fault.judge_workspace(before, session.walk(), is_same_pod=session.pod_uid() == uid)
    session.set_mode("Suspended")
    session.wait_phase("Suspended", STOP_SECONDS)


def test_the_way_out_without_an_archive_is_taken_only_on_a_person_s_order(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    with store_away():
        session.delete()
        session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
        session.annotate(names.ANNOTATION_DISCARD, "true")
        until("the session goes", session.is_gone, seconds=60)
        until("its pod goes", lambda: not field.pods(), seconds=60)
    assert len(field.events("WorkspaceDiscarded")) == 1
