"""Orphans on the real cluster: what lost its owner goes, what only looks like it stays, and no work is lost by it.

The installation of the tests sweeps every few seconds, by the same settings that people have.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from demonstration.leftovers import make_as_operator, pod_of_nobody
from installation import bucket
from installation.client import CallError, Object, until
from installation.deploying import INSTALLATION
from sandhold import names
from testkit.cluster_client import SYSTEM, Field, Session, folder_of, scaled_to_zero

SWEEPS_SECONDS = 90
SPARED: dict[str, tuple[str, dict[str, str]]] = {
    "webui by our mark": (INSTALLATION, {names.LABEL_KIND: names.KIND_WEBUI}),
    "webui by the foreign mark": (INSTALLATION, {names.LABEL_FOREIGN_WEBUI: "webui"}),
    "webui by the foreign mark of another value": (INSTALLATION, {names.LABEL_FOREIGN_WEBUI: "terminal"}),
    "another installation": ("another-one", {}),
    "managed by somebody else": (INSTALLATION, {names.LABEL_MANAGED_BY: "somebody"}),
}


def uids(field: Field) -> set[str]:
    """UIDs of the pods that are there and stay."""
    return {pod["metadata"]["uid"] for pod in field.pods() if "deletionTimestamp" not in pod["metadata"]}


def is_gone(field: Field, pod: Object) -> Callable[[], bool]:
    return lambda: field.cluster.get("Pod", field.namespace, pod["metadata"]["name"]) is None


def test_an_orphan_goes_and_everything_that_only_looks_like_one_stays(field: Field) -> None:
    orphan = pod_of_nobody(field.namespace, INSTALLATION, "lost")
    spared = {
        what: pod_of_nobody(field.namespace, installation, f"spared-{number}", **labels)
        for number, (what, (installation, labels)) in enumerate(SPARED.items())
    }
    theirs = pod_of_nobody(field.namespace, INSTALLATION, "by-hand")
    make_as_operator(field.cluster, orphan, *spared.values())
    field.cluster.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    before = uids(field)
    lost = field.cluster.get("Pod", field.namespace, orphan["metadata"]["name"])
    assert lost is not None
    until("the orphan goes", is_gone(field, orphan), seconds=SWEEPS_SECONDS)
    (event,) = until("an Event tells of it", lambda: field.events("OrphanCollected"), seconds=60)
    assert event["regarding"]["uid"] == lost["metadata"]["uid"]
    assert "is absent" in event["note"]
    # Two sweeps more, seen by what they collect: nothing else goes with that.
    second = pod_of_nobody(field.namespace, INSTALLATION, "lost-too")
    make_as_operator(field.cluster, second)
    until("the second orphan goes", is_gone(field, second), seconds=SWEEPS_SECONDS)
    assert uids(field) == before - {lost["metadata"]["uid"]}
    log = field.cluster.kubectl("logs", "-n", SYSTEM, "deployment/sandhold-operator", "--since=300s")
    told = [line for line in log.splitlines() if theirs["metadata"]["name"] in line]
    assert any("NotOurs" in line for line in told), "what somebody else labelled is left alone and told"


def test_what_stands_around_pods_goes_after_them_when_its_sandbox_was_taken_by_force(field: Field) -> None:
    """The pod of a session lives on behind its walls, although nobody owns them any more."""
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    kinds = ("NetworkPolicy", "ServiceAccount")
    name = session.pod()["spec"]["serviceAccountName"]
    field.cluster.delete("AgentSandbox", field.namespace, "coder")
    field.cluster.patch("AgentSandbox", field.namespace, "coder", {"metadata": {"finalizers": None}})
    witness = pod_of_nobody(field.namespace, INSTALLATION, "witness")
    make_as_operator(field.cluster, witness)
    until("a sweep collects the witness", is_gone(field, witness), seconds=SWEEPS_SECONDS)
    assert all(field.cluster.get(kind, field.namespace, name) is not None for kind in kinds), "walls went before pods"
    give_up(field, session)
    until("the pod goes", lambda: not field.pods(), seconds=SWEEPS_SECONDS)
    for kind in kinds:
        until(f"{kind} goes", partial(_is_absent, field, kind, name), seconds=SWEEPS_SECONDS)


def _is_absent(field: Field, kind: str, name: str) -> bool:
    return field.cluster.get(kind, field.namespace, name) is None


def give_up(field: Field, session: Session) -> None:
    """The session is deleted, and its finalizer taken off by hand: the pod is left behind."""
    session.delete()
    field.cluster.patch("SandboxSession", field.namespace, session.name, {"metadata": {"finalizers": None}})


@pytest.mark.alone
def test_the_work_of_an_orphan_is_archived_and_a_new_session_has_it(field: Field) -> None:
    """While the operator is away its session is taken by force; the sweep ends the pod with its full grace."""
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo precious > work.txt")
    pod = session.pod()
    slot: str = session.status()["slot"]["key"]
    with scaled_to_zero(field.cluster, "sandhold-operator"):
        give_up(field, session)
        until("the session is gone", session.is_gone, seconds=60)
    until("the orphan goes", is_gone(field, pod), seconds=SWEEPS_SECONDS + 60)
    (event,) = until("an Event tells of it", lambda: field.events("OrphanCollected"), seconds=60)
    assert slot in event["note"], "the Event says where the work is"
    again = field.session("quill", "coder")
    again.wait_phase("Ready")
    assert again.shell("cat work.txt").strip() == "precious"
    assert again.status()["recovery"] == "Restored"
    stored = bucket.sizes(folder_of(again.suspend()["key"]))
    assert any(key.rpartition("/")[2].startswith(f"{1:010d}-") for key in stored), stored


def evict(field: Field, pod: Object) -> Object:
    """Ask for an eviction as a drain does."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": field.namespace, "name": name}}
    return field.cluster.call("POST", f"/api/v1/namespaces/{field.namespace}/pods/{name}/eviction", body)


def test_an_eviction_waits_and_a_stop_in_order_does_not(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    where = f"/apis/policy/v1/namespaces/{field.namespace}/poddisruptionbudgets"

    def counted() -> dict[str, Any] | None:
        budgets = field.cluster.call("GET", where)["items"]
        seen: dict[str, Any] = (budgets[0].get("status") or {}) if budgets else {}
        return seen if seen.get("expectedPods") == 1 and seen.get("currentHealthy") == 1 else None

    status = until("the budget counts the pod", counted, seconds=90)
    assert status["disruptionsAllowed"] == 0
    pod = session.pod()
    with pytest.raises(CallError) as refused:
        evict(field, pod)
    assert refused.value.code == 429
    began = time.monotonic()
    session.suspend()
    assert time.monotonic() - began < 60
    assert is_gone(field, pod)()
