"""What a real API server makes of what we ask for: defaults it adds must not look like alterations, and vice versa."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.backends.admit import Admission
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.kinds import reference_to
from sandhold.desired import network, snapshot
from sandhold.desired.difference import is_outdated, pod_differences
from sandhold.desired.ownership import belongs_to_sandbox, is_pod_of
from sandhold.desired.plan import Create, WriteStatus
from sandhold.desired.pod import PodMaterial, sandbox_pod
from sandhold.desired.sandbox import service_account
from sandhold.desired.situation import admission_of
from testkit import worlds

SANDBOX: dict[str, Any] = {
    "tier": "gvisor",
    "ports": [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
    "env": [{"name": "EMPTY", "value": ""}, {"name": "PRICE", "value": "$(HOME) 5$"}],
    "imagePullSecrets": [{"name": "registry"}],
    "resources": {"requests": {"cpu": "0.5"}, "limits": {"cpu": "1.5", "memory": "1024Mi", "ephemeral-storage": "2G"}},
    "pod": {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "agents", "operator": "Exists"}]},
    "workspace": {"size": "1500M"},
}


@pytest.fixture
async def sandbox(door: KubeDoor, namespace: str) -> AgentSandbox:
    sandbox = worlds.a_sandbox(SANDBOX, namespace=namespace)
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runsc"}
    await door.apply({**runtime, "metadata": {"name": "gvisor"}})
    await door.apply(service_account(worlds.a_sandbox_world(sandbox=sandbox)))
    return sandbox


@pytest.fixture
def asked(sandbox: AgentSandbox, namespace: str) -> dict[str, Any]:
    session = worlds.a_session(namespace=namespace)
    admission = admission_of(sandbox, worlds.an_installation())
    assert isinstance(admission, Admission)
    material = PodMaterial("demo", admission, "acc", "keeper:test", "IfNotPresent", worlds.MOVER, worlds.CA)
    return sandbox_pod(material, sandbox, session, 1)


async def test_a_pod_is_stored_as_it_was_asked_for(
    door: KubeDoor, asked: dict[str, Any], sandbox: AgentSandbox
) -> None:
    stored = await door.create(asked)
    assert pod_differences(asked, stored) == ()
    assert not is_outdated(asked, stored)
    session = worlds.a_session(namespace=sandbox.metadata.namespace)
    assert is_pod_of(stored, "demo", session)


@pytest.mark.parametrize("cpu", ["0.3333", "0.0625", "62.5m", "100n", "1e-9", "123456789.123456789"])
async def test_an_amount_that_the_server_rounds_is_no_alteration(
    door: KubeDoor, asked: dict[str, Any], cpu: str
) -> None:
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": cpu}}
    stored = await door.create(asked)
    assert stored["spec"]["containers"][0]["resources"]["limits"]["cpu"] != cpu
    assert pod_differences(asked, stored) == ()


async def test_what_a_webhook_would_add_is_a_difference(door: KubeDoor, asked: dict[str, Any]) -> None:
    altered = deepcopy(asked)
    altered["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] = ["NET_ADMIN"]
    altered["spec"]["initContainers"].append({"name": "mesh", "image": "mesh"})
    altered["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    stored = await door.create(altered)
    assert set(pod_differences(asked, stored)) == {
        "spec.containers[agent].securityContext.capabilities.add was added",
        "spec.initContainers[mesh] was added",
        "spec.volumes[host] was added",
    }


async def test_walls_stand_as_stored(door: KubeDoor, sandbox: AgentSandbox) -> None:
    for spec in (SANDBOX, {}):
        walled = worlds.a_sandbox(spec, namespace=sandbox.metadata.namespace)
        wanted = network.network_policy(worlds.an_installation(), walled)
        assert isinstance(wanted, dict)
        stored = await door.apply(wanted)
        assert network.walls_stand(stored, wanted)
        assert belongs_to_sandbox(stored, "demo", walled)
        other = network.network_policy(worlds.an_installation(), worlds.a_sandbox({"ports": SANDBOX["ports"][:1]}))
        assert isinstance(other, dict)
        assert not network.walls_stand(stored, other)


@pytest.mark.parametrize("phase", ["Starting", "Ready", "Stopping", "Suspended", "Failed"])
async def test_a_status_is_stored_as_it_was_written(door: KubeDoor, namespace: str, phase: str) -> None:
    made = await door.create(
        {
            "apiVersion": "sandhold.dev/v1alpha1",
            "kind": "SandboxSession",
            "metadata": {"name": f"quill-{phase.lower()}", "namespace": namespace},
            "spec": {"sandboxRef": {"name": "coder"}},
        }
    )
    wanted = worlds.a_status(phase)
    operations = [{"op": "add", "path": "/status", "value": wanted}]
    stored = await door.json_patch(reference_to(made), operations, "status")
    assert stored["status"] == wanted
    assert SandboxSession.model_validate(stored).status.wire() == wanted


async def test_an_entry_of_the_index_is_stored_as_it_was_written(door: KubeDoor, namespace: str) -> None:
    session = worlds.a_session(namespace=namespace)
    archived = snapshot.Archived("demo", worlds.SLOT, "main", replace(worlds.an_archive(), files=3))
    create, status = snapshot.snapshot_writes(session, archived, worlds.NOW)
    assert isinstance(create, Create)
    assert isinstance(status, WriteStatus)
    made = await door.create(create.object)
    operations = [{"op": "add", "path": "/status", "value": dict(status.status)}]
    stored = await door.json_patch(status.reference, operations, "status")
    assert made["metadata"]["name"] == status.reference.name
    assert stored["status"] == dict(status.status)
    (entry,) = snapshot.entries([stored], worlds.SLOT).values()
    assert (entry.epoch, entry.sequence, entry.is_final) == (1, 1, True)
