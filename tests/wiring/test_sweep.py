"""Sweeps and disruption budgets against a real API server: what it notes of managers, and what its preconditions do."""

import urllib.error
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandhold import names
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.kinds import reference_to
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.sweep import survey
from sandhold.desired import budget
from sandhold.desired.orphans import Outcome
from sandhold.desired.plan import Reference
from sandhold.errors import NotFoundError
from sandhold.handlers.sweeper import Sweeper, SweepReport
from sandhold.settings import OperatorSettings
from testkit import worlds
from testkit.api_server import ApiServer

SETTINGS = OperatorSettings(namespace="default", keeper_image="keeper:1", sweep_grace_seconds=60)
SESSION_UID = "5e550000-0000-4000-8000-00000000abcd"


def orphan_pod(namespace: str, installation: str, name: str = "quill", **labels: str) -> dict[str, Any]:
    """A pod as small as the API server takes it, with everything by which a sweep knows it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": names.pod_name(name, SESSION_UID, 1),
            "labels": {
                names.LABEL_INSTALLATION: installation,
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_KIND: names.KIND_AGENT,
                names.LABEL_SANDBOX: "coder",
                names.LABEL_SESSION_UID: SESSION_UID,
                **labels,
            },
            "annotations": {
                names.ANNOTATION_OWNER: names.owner_value("SandboxSession", namespace, name, SESSION_UID),
                names.ANNOTATION_EPOCH: "1",
            },
        },
        "spec": {"containers": [{"name": "agent", "image": "example.invalid/agent"}]},
    }


class Sweeps:
    """A sweeper whose clock a test moves."""

    def __init__(self, door: KubeDoor, installation: str) -> None:
        self._passed = 0.0
        self._sweeper = Sweeper(
            door=door,
            recorder=Recorder(door, "operator-1"),
            settings=SETTINGS,
            installation_id=lambda: installation,
            leads=lambda: True,
            clock=lambda: datetime.now(UTC) + timedelta(seconds=self._passed),
            monotonic=lambda: self._passed,
        )

    async def twice(self) -> SweepReport:
        """Two sweeps, both graces apart."""
        self._passed += 61
        await self._sweeper.sweep_once()
        self._passed += 61
        return await self._sweeper.sweep_once()


@pytest.fixture
def installation(namespace: str) -> str:
    return f"sweep-{namespace}"


async def exists(door: KubeDoor, reference: Reference) -> bool:
    try:
        found = await door.get(reference)
    except NotFoundError:
        return False
    return "deletionTimestamp" not in found["metadata"]


async def test_what_our_manager_made_and_nobody_owns_is_collected(
    door: KubeDoor, namespace: str, installation: str
) -> None:
    target = reference_to(await door.create(orphan_pod(namespace, installation)))
    report = await Sweeps(door, installation).twice()
    assert [one.result for one in report.collected] == ["Collected"]
    assert not await exists(door, target)
    events, _ = await door.list("events.k8s.io/v1", "Event", namespace)
    assert [(each["reason"], each["regarding"]["name"]) for each in events] == [("OrphanCollected", target.name)]


async def test_the_same_object_posted_by_a_person_is_left_alone_and_told(
    door: KubeDoor, api_server: ApiServer, namespace: str, installation: str
) -> None:
    document = orphan_pod(namespace, installation)
    api_server.request("POST", f"/api/v1/namespaces/{namespace}/pods?fieldManager=kubectl-create", document)
    report = await Sweeps(door, installation).twice()
    assert [(each.outcome, each.is_orphan) for each in report.plan.verdicts] == [(Outcome.NOT_OURS, False)]
    assert await exists(door, reference_to(document))


@pytest.mark.parametrize("label", [names.LABEL_INSTALLATION, names.LABEL_SESSION_UID])
async def test_a_label_that_a_person_wrote_over_is_not_ours_any_more(
    door: KubeDoor, api_server: ApiServer, namespace: str, installation: str, label: str
) -> None:
    document = orphan_pod(namespace, installation)
    made = await door.create(document)
    path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}?fieldManager=kubectl-label"
    value = document["metadata"]["labels"][label]
    for each in ("something-else", value):
        api_server.request("PATCH", path, {"metadata": {"labels": {label: each}}})
    report = await Sweeps(door, installation).twice()
    assert [each.outcome for each in report.plan.verdicts] == [Outcome.NOT_OURS]
    assert await exists(door, reference_to(document))


async def test_our_own_later_patch_of_a_pod_leaves_the_labels_ours(
    door: KubeDoor, namespace: str, installation: str
) -> None:
    """The mover's address is applied to pods that were POSTed: the labels then have two entries of our manager."""
    document = orphan_pod(namespace, installation)
    made = await door.create(document)
    kept = (names.LABEL_INSTALLATION, names.LABEL_SESSION_UID)
    metadata = {
        "namespace": namespace,
        "name": made["metadata"]["name"],
        "labels": {key: document["metadata"]["labels"][key] for key in kept},
        "annotations": {names.ANNOTATION_MOVER_ADDRESS: "10.96.0.1:7443"},
    }
    await door.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    report = await Sweeps(door, installation).twice()
    assert [one.result for one in report.collected] == ["Collected"]


@pytest.mark.parametrize("mark", [{names.LABEL_KIND: "webui"}, {names.LABEL_FOREIGN_WEBUI: "webui"}])
async def test_the_server_itself_leaves_webui_pods_out_of_the_list(
    door: KubeDoor, namespace: str, installation: str, mark: dict[str, str]
) -> None:
    target = reference_to(await door.create(orphan_pod(namespace, installation, **mark)))
    assert (await survey(door, installation)).sightings == ()
    await Sweeps(door, installation).twice()
    assert await exists(door, target)


async def test_an_owner_of_that_name_with_another_uid_is_no_owner(
    door: KubeDoor, namespace: str, installation: str
) -> None:
    session = {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSession",
        "metadata": {"namespace": namespace, "name": "quill"},
        "spec": {"sandboxRef": {"name": "coder"}},
    }
    made = await door.create(session)
    target = reference_to(await door.create(orphan_pod(namespace, installation)))
    report = await Sweeps(door, installation).twice()
    assert made["metadata"]["uid"] in report.plan.verdicts[0].message
    assert not await exists(door, target)


async def test_a_namespace_that_is_being_deleted_keeps_its_own_order(
    door: KubeDoor, api_server: ApiServer, namespace: str, installation: str
) -> None:
    """No controller empties it here, so it stays in that state."""
    target = reference_to(await door.create(orphan_pod(namespace, installation)))
    api_server.request("DELETE", f"/api/v1/namespaces/{namespace}")
    report = await Sweeps(door, installation).twice()
    assert [each.outcome for each in report.plan.verdicts] == [Outcome.NAMESPACE_ENDING]
    assert await exists(door, target)


def a_budget(namespace: str, uid: str) -> dict[str, Any]:
    sandbox = worlds.a_sandbox(namespace=namespace, uid=uid)
    return budget.disruption_budget("demo", sandbox)


async def test_the_budget_is_taken_as_it_is_and_stays_as_it_is(door: KubeDoor, namespace: str) -> None:
    wanted = a_budget(namespace, "5a9d0000-0000-4000-8000-000000000011")
    made = await door.apply(wanted)
    assert made["spec"]["minAvailable"] == budget.MORE_THAN_THERE_ARE
    assert budget.holds(made, wanted)
    version = made["metadata"]["resourceVersion"]
    assert (await door.apply(wanted))["metadata"]["resourceVersion"] == version


async def test_an_eviction_is_refused_and_a_deletion_of_ours_is_not(
    door: KubeDoor, api_server: ApiServer, namespace: str
) -> None:
    """No controller counts pods here: its answer is written by hand, as it would be for one healthy pod."""
    uid = "5a9d0000-0000-4000-8000-000000000012"
    wanted = await door.apply(a_budget(namespace, uid))
    document = orphan_pod(namespace, "demo", **{names.LABEL_SANDBOX_UID: uid})
    pod = await door.create(document)
    place = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    healthy = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api_server.request("PATCH", f"{place}/status", {"status": healthy})
    counted = {
        "observedGeneration": wanted["metadata"]["generation"],
        "currentHealthy": 1,
        "desiredHealthy": budget.MORE_THAN_THERE_ARE,
        "disruptionsAllowed": 0,
        "expectedPods": 1,
    }
    where = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{wanted['metadata']['name']}/status"
    api_server.request("PATCH", where, {"status": counted})
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": pod["metadata"]["name"]},
    }
    with pytest.raises(urllib.error.HTTPError) as refused:
        api_server.request("POST", f"{place}/eviction", eviction)
    assert refused.value.code == 429
    assert "disruption budget" in refused.value.read().decode()
    await door.delete(reference_to(pod), pod["metadata"]["uid"])
    assert not await exists(door, reference_to(pod))
