"""Checkpoints of running workspaces: they follow what changes, cost nothing at rest, and a lost pod goes on from them.

Both runtimes side by side: nothing of it depends on the other.
"""

import time
from datetime import datetime
from functools import partial

import pytest

from bench import audit
from installation import bucket
from installation.client import Cluster, Object, until
from testkit.cluster_client import START_SECONDS, Field, Session, folder_of, manifest, scaled_to_zero
from testkit.fault_matrix import FaultMatrix
from testkit.pod_on_node import PodOnNode

pytestmark = pytest.mark.alone

TIERS = ("runc", "gvisor")
INTERVAL_SECONDS = 10
QUIET_SECONDS = 30
POINT_SECONDS = 90
SETTLED_SECONDS = 4
"""What changed so long before a checkpoint is not stored again by the next one: 2 s, and as much for clocks."""


def started(field: Field, purpose: str) -> dict[str, Session]:
    """A session with checkpoints on each tier; it is not waited for."""
    made = {}
    for tier in TIERS:
        name = f"{purpose}-{tier}"
        field.sandbox(name, tier, workspace={"size": "64Mi"}, snapshot={"intervalSeconds": INTERVAL_SECONDS})
        made[tier] = field.session(name, name)
    return made


def change(session: Session, content: str) -> float:
    """Change the workspace; returns when."""
    session.shell(f"echo {content} > {content}; mkdir -p folder; echo {content} >> folder/file")
    return time.time()


def wait_point(session: Session, sequence: int) -> Object:
    """Wait until the recovery point of the session's first pod has at least this number."""

    def reached(status: Object) -> bool:
        point = status.get("snapshot") or {}
        return point.get("epoch") == 1 and point["sequence"] >= sequence

    found = session.wait(f"recovery point 1-{sequence}", reached, POINT_SECONDS)
    point: Object = found["status"]["snapshot"]
    return point


def wait_settled(session: Session, changed: float) -> Object:
    """Wait for a checkpoint that saw nothing young, so that the next one has nothing to do.

    Where it was made so soon after the change that this is not certain, the next one has had its turn.
    """
    point = wait_point(session, 1)
    made = datetime.fromisoformat(manifest(point["key"])[0]["createdAt"]).timestamp()

    def settled() -> Object | None:
        newest: Object = session.status()["snapshot"]
        is_over = newest["sequence"] > point["sequence"] or time.time() > made + 3 * INTERVAL_SECONDS / 2
        return newest if is_over or made - changed > SETTLED_SECONDS else None

    return until(f"{session.name} is settled", settled, seconds=POINT_SECONDS)


def entry(session: Session) -> Object:
    """The status of the only SandboxSnapshot that its first pod has."""
    found = session.field.cluster.list("SandboxSnapshot", session.field.namespace)
    mine = [one["status"] for one in found if one["spec"]["sessionRef"]["name"] == session.name]
    (status,) = (one for one in mine if one["epoch"] == 1)
    return dict(status)


def archives(folder: str, epoch: int) -> set[int]:
    """Numbers of the archives that the store has of an epoch, fences left out."""
    names = [key.rpartition("/")[2] for key in bucket.sizes(folder) if "/layers/" not in key]
    return {int(number) for first, _, number in (name.partition("-") for name in names) if int(first) == epoch} - {0}


def has_archive(folder: str, number: int) -> bool:
    return number in archives(folder, 1)


def test_checkpoints_follow_changes_and_are_what_a_lost_pod_goes_on_from(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    quiet, lost = started(field, "quiet"), started(field, "lost")
    for session in (*quiet.values(), *lost.values()):
        session.wait_phase("Ready")
    changed = {session.name: change(session, "first") for session in (*quiet.values(), *lost.values())}
    points = {
        session.name: wait_settled(session, changed[session.name]) for session in (*lost.values(), *quiet.values())
    }
    for session in (*quiet.values(), *lost.values()):
        point, status = points[session.name], entry(session)
        assert (status["sequence"], status["key"], status["final"]) == (point["sequence"], point["key"], False)
        assert session.condition("Snapshotted")["reason"] == "Checkpointed"

    began, before = audit.now(), {name: bucket.sizes(folder_of(point["key"])) for name, point in points.items()}
    rest_began = time.monotonic()
    for tier, session in lost.items():
        lose(matrix, tier, session, points[session.name])
    # Not a wait for a condition: rest is what is being measured.
    time.sleep(max(0.0, rest_began + QUIET_SECONDS - time.monotonic()))
    written = [one.as_text() for one in audit.writes(began, audit.now()) if field.namespace in one.what]
    assert [line for line in written if f"{field.namespace}/quiet-" in line] == []
    assert any(f"{field.namespace}/lost-" in line for line in written), "the audit log shows what is written here"
    for session in quiet.values():
        assert bucket.sizes(folder_of(points[session.name]["key"])) == before[session.name]
    for session in lost.values():
        assert archives(folder_of(points[session.name]["key"]), 2) == set(), "nothing changed since the restore"
    go_on_without_an_operator(cluster, quiet, points)


def lose(matrix: FaultMatrix, tier: str, session: Session, point: Object) -> None:
    """All processes of the pod are killed and the pod is deleted by force: a lost node, as far as one has no other."""
    saved, first = session.walk(), session.pod()
    pod = PodOnNode(first["metadata"]["uid"])
    fault = matrix.begin("pod and all its processes gone at once, after a checkpoint", tier)
    (pod.volume("workspace") / "unsaved").write_text("what came after the last checkpoint is what a lost node costs")
    assert pod.kill() > 1
    session.field.cluster.delete("Pod", session.field.namespace, first["metadata"]["name"], gracePeriodSeconds=0)
    wait_replaced(session, first["metadata"]["uid"])
    fault.judge_workspace(saved, session.walk(), is_same_pod=False)
    assert session.status()["recovery"] == "Repaired"
    (event,) = (one for one in session.field.events("PodLost") if one["regarding"]["name"] == session.name)
    assert f"its last checkpoint is 1-{point['sequence']}, made at" in event["note"]


def wait_replaced(session: Session, first: str) -> None:
    """Wait until the session is Ready in another pod."""

    def holds(status: Object) -> bool:
        return status.get("phase") == "Ready" and status.get("podUid") not in (None, first)

    session.wait("Ready in another pod", holds, START_SECONDS)


def go_on_without_an_operator(cluster: Cluster, sessions: dict[str, Session], points: dict[str, Object]) -> None:
    """Checkpoints are the keepers' own business; the operator learns of them when it is back."""
    folders = {session.name: folder_of(points[session.name]["key"]) for session in sessions.values()}
    with scaled_to_zero(cluster, "sandhold-operator"):
        for session in sessions.values():
            change(session, "alone")
        for session in sessions.values():
            folder, known = folders[session.name], points[session.name]["sequence"]
            until(
                f"{session.name}: a checkpoint without an operator",
                partial(has_archive, folder, known + 1),
                seconds=POINT_SECONDS,
            )
            assert session.status()["snapshot"]["sequence"] == known, "nobody was there to say it"
    for session in sessions.values():
        point = wait_point(session, points[session.name]["sequence"] + 1)
        assert entry(session)["sequence"] >= point["sequence"]
        newest = entry(session)["sequence"]
        assert {newest, newest - 1} <= archives(folders[session.name], 1), "the newest two stay"
        assert any(record["path"] == "alone" for record in manifest(point["key"])[1])
