"""The object store goes away, at a stop and at a start, and comes back: nothing is lost, nobody has to do anything.

One outage for all: each session waits for itself, and none has anything to do with another.
"""

import json
from functools import partial

import pytest

from installation import bucket
from installation.client import Object, until
from sandhold import names
from testkit.cli_on_cluster import told, typed
from testkit.cluster_client import Field, Session, store_away
from testkit.fault_matrix import FaultMatrix
from testkit.kept import Kept

pytestmark = pytest.mark.alone

SEES_ITS_START = ["sh", "-c", "ls -A > /tmp/seen-at-start; exec sleep infinity"]
BACK_SECONDS = 150
SECRET = "s3cr3t-of-the-agent"


def test_the_store_is_away_and_everything_waits_for_it(field: Field, matrix: FaultMatrix) -> None:
    """A stop, a deletion and a start wait and go on by themselves; a person may give a workspace up meanwhile."""
    field.sandbox("coder", command=SEES_ITS_START, env=[{"name": "TOKEN", "value": SECRET}])
    made = [field.session(name, "coder") for name in ("stops", "leaves", "starts", "given-up")]
    kept = {session.name: Kept(session, "echo precious > file") for session in made}
    stops, leaves, starts, given_up = made
    starts.suspend()
    faults = {
        "stops": matrix.begin("store unreachable at a stop", "runc"),
        "leaves": matrix.begin("store unreachable at a deletion", "runc"),
        "starts": matrix.begin("store unreachable at a start", "runc"),
    }
    with store_away():
        stops.set_mode("Suspended")
        leaves.delete()
        given_up.delete()
        starts.set_mode("Running")
        _a_stop_waits(stops, kept["stops"])
        _a_deletion_waits(leaves)
        _a_start_waits(starts)
        _a_person_gives_it_up(given_up)
        _the_operator_says_what_it_waits_for(stops)
    _the_stop_ends_by_itself(stops)
    leaves.wait_gone(BACK_SECONDS)
    _the_start_did_not_begin_empty(starts)
    kept["starts"].judge(faults["starts"])
    field.session("leaves", "coder")
    stops.set_mode("Running")
    for session in (leaves, stops):
        session.wait_phase("Ready")
        kept[session.name].judge(faults[session.name])


def _a_stop_waits(session: Session, kept: Kept) -> None:
    told_why = session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
    assert "main" in told_why["message"]
    held = session.found()
    assert held["status"]["phase"] == "Stopping"
    assert names.FINALIZER_WORKSPACE in held["metadata"]["finalizers"]
    pod = session.pod()
    assert pod["metadata"]["uid"] == kept.pod
    assert "deletionTimestamp" not in pod["metadata"]


def _a_deletion_waits(session: Session) -> None:
    session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
    assert session.found()["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in session.pod()["metadata"]


def _a_start_waits(session: Session) -> None:
    session.wait_condition("Ready", "SnapshotStoreUnavailable")
    assert session.status()["phase"] == "Starting"
    assert _pods(session) == []


def _pods(session: Session) -> list[str]:
    found = [str(pod["metadata"]["name"]) for pod in session.field.pods()]
    return [name for name in found if name.startswith(f"{session.name}-")]


def _a_person_gives_it_up(session: Session) -> None:
    """The way out without an archive is taken only on a person's order."""
    session.wait_condition("Snapshotted", "SnapshotStoreUnavailable")
    assert session.field.events("WorkspaceDiscarded") == []
    session.annotate(names.ANNOTATION_DISCARD, "true")
    session.wait_gone()
    until("its pod goes", lambda: not _pods(session), seconds=90)
    assert len(session.field.events("WorkspaceDiscarded")) == 1


def _the_operator_says_what_it_waits_for(session: Session) -> None:
    """What it waits for, until when, and what it does then: look again. No secret shows."""
    field, target = session.field, f"session/{session.name}"
    settled = partial(_settled_plan, field, target)
    plan = until("the plan is to wait", settled, seconds=90)
    assert plan["observed"]["store"].startswith("snapshot_store_unavailable: store main"), plan["observed"]
    assert plan["wakeAfterSeconds"] > 0
    explained = told(field, "explain", target)
    assert explained["wished"] == "Suspended"
    assert explained["waitsFor"]
    assert [limit["limit"] for limit in explained["limits"]] == ["lifecycle.stopTimeoutSeconds"]
    text = typed(field, "explain", target).stdout.decode()
    assert "Waits for:" in text
    assert "It looks again in" in text
    assert SECRET not in json.dumps(plan) + json.dumps(explained) + text


def _settled_plan(field: Field, target: str) -> Object | None:
    plan: Object = told(field, "plan", target, "--timeout", "60s")
    return plan if plan["settled"] else None


def _the_stop_ends_by_itself(session: Session) -> None:
    touched = session.found()["metadata"]["generation"]
    found = session.wait_phase("Suspended", BACK_SECONDS)
    assert found["metadata"]["generation"] == touched, "nobody touched the session"
    assert "refusal" not in found["status"]
    assert found["status"]["snapshot"]["key"] in bucket.sizes()
    assert _pods(session) == []


def _the_start_did_not_begin_empty(session: Session) -> None:
    session.wait_phase("Ready", BACK_SECONDS)
    assert session.shell("cat /tmp/seen-at-start").split() == ["file"]
    assert session.status()["recovery"] == "Restored"
    assert "refusal" not in session.status()
