"""Pods end for reasons of others, by hand and by a full disk, while another session stops."""

import pytest

from installation.client import Cluster, Object
from sandhold import names
from testkit import hostile
from testkit.cluster_client import STOP_SECONDS, Field, Session
from testkit.fault_matrix import FaultMatrix
from testkit.kept import STUBBORN, Kept

TIERS = ("runc", "gvisor")


@pytest.mark.long
def test_pods_deleted_by_hand_and_full_disks_while_another_stop_is_under_way(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    """Where the kubelet evicts it leaves a second of grace: what was archived before comes back."""
    hints = filler(field, "hints", "runc", f"{names.PATH_HINTS}/full")
    workspaces = {tier: filler(field, f"full-{tier}", tier, "/workspace/full") for tier in TIERS}
    field.sandbox("stubborn", "runc", command=["python3", "-c", STUBBORN])
    stops = field.session("stubborn", "stubborn")
    deleted = {tier: field.session(f"deleted-{tier}", field.sandbox(f"idle-{tier}", tier)) for tier in TIERS}
    full = {"hints": Kept(hints)} | {tier: Kept(session) for tier, session in workspaces.items()}
    for each in full.values():
        each.session.set_mode("Suspended")
    for each in full.values():
        each.session.wait_phase("Suspended", STOP_SECONDS)
        each.session.set_mode("Running")
    for each in full.values():
        each.session.wait_phase("Ready")
        each.remember()
    kept = {tier: Kept(session) for tier, session in deleted.items()}
    stop_kept = Kept(stops)
    of_the_disks = {"hints": matrix.begin("agent fills a volume of the pod", "runc")}
    of_the_disks |= {tier: matrix.begin("agent fills its workspace", tier) for tier in TIERS}
    for each in full.values():
        each.session.shell("touch /tmp/go")
    of_the_stop = matrix.begin("other pods taken away during a stop", "runc")
    stops.set_mode("Suspended")
    stops.wait_phase("Stopping")
    faults = {tier: matrix.begin("pod deleted by hand while another stop is under way", tier) for tier in TIERS}
    for session in deleted.values():
        cluster.delete("Pod", field.namespace, session.status()["podName"])
    for tier, one in kept.items():
        one.wait_replaced()
        one.judge(faults[tier])
    stops.wait_phase("Suspended", STOP_SECONDS)
    stops.resume()
    stop_kept.judge(of_the_stop)
    stops.shell("touch tame")
    for tier in TIERS:
        _is_given_room(full[tier])
    for name, each in full.items():
        each.wait_replaced()
        each.session.shell("rm -f full")
        each.judge(of_the_disks[name])


def filler(field: Field, name: str, tier: str, place: str) -> Session:
    """A session whose agent writes more than there is room for, at once, when it is told to."""
    command = ["python3", "-c", hostile.FILLS_ITS_DISK, place, "40"]
    field.sandbox(name, tier, command=command, workspace={"size": "8Mi"})
    return field.session(name, name)


def _is_given_room(each: Kept) -> None:
    """Either the session was stopped in order, and a person does what it says, or the kubelet was faster."""
    first = each.pod

    def is_over(status: Object) -> bool:
        is_stopped = status.get("stopReason") == "WorkspaceFull" and status["phase"] in ("Suspended", "Failed")
        return is_stopped or (status["phase"] == "Ready" and status.get("podUid") not in (None, first))

    found = each.session.wait("stopped in order or evicted", is_over, 120)
    if found["status"]["phase"] != "Ready":
        room = {"spec": {"workspace": {"size": "256Mi"}}}
        name = found["spec"]["sandboxRef"]["name"]
        each.session.field.cluster.patch("AgentSandbox", each.session.field.namespace, name, room)
        each.session.annotate(names.ANNOTATION_RETRY, "room")
