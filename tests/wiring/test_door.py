"""The door against a real API server: what each answer becomes."""

import asyncio
from typing import Any

import pytest
from kubernetes_asyncio.client import Configuration

from sandhold import names
from sandhold.cluster.answers import NamespaceEndingError
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.kinds import reference_to
from sandhold.desired.plan import Reference
from sandhold.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from testkit.api_server import GROUP, ApiServer


def pod(namespace: str, name: str = "one", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}]},
    }


def lease(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": "lease"},
        "spec": {"holderIdentity": "a"},
    }


def session(namespace: str, name: str = "quill") -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSession",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"sandboxRef": {"name": "coder"}},
    }


async def test_what_is_created_can_be_read(door: KubeDoor, namespace: str) -> None:
    made = await door.create(pod(namespace))
    read = await door.get(reference_to(made))
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["metadata"]["managedFields"][0]["manager"] == names.FIELD_MANAGER


async def test_absence_of_an_object_is_not_absence_of_a_kind(door: KubeDoor, namespace: str) -> None:
    with pytest.raises(NotFoundError, match=r"Pod .*/nobody"):
        await door.get(Reference("v1", "Pod", namespace, "nobody"))
    with pytest.raises(NotFoundError, match="SandboxSession"):
        await door.get(Reference(names.API_VERSION, "SandboxSession", namespace, "nobody"))


async def test_a_kind_that_is_not_served_is_no_absence(
    door: KubeDoor, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandhold.cluster.kinds.Resource.path", lambda *_: f"{GROUP}/namespaces/{namespace}/gone/x")
    with pytest.raises(UnavailableError, match="installed"):
        await door.get(Reference("v1", "Pod", namespace, "x"))


async def test_a_taken_name_is_a_conflict(door: KubeDoor, namespace: str) -> None:
    await door.create(pod(namespace))
    with pytest.raises(ConflictError):
        await door.create(pod(namespace))


async def test_a_list_is_paged_and_its_items_know_their_kind(
    door: KubeDoor, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandhold.cluster.client.PAGE", 2)
    for number in range(5):
        await door.create(pod(namespace, f"pod-{number}", mine="yes" if number else "no"))
    items, version = await door.list("v1", "Pod", namespace, "mine=yes")
    assert [item["metadata"]["name"] for item in items] == ["pod-1", "pod-2", "pod-3", "pod-4"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "Pod")}
    assert int(version) >= max(int(item["metadata"]["resourceVersion"]) for item in items)


async def test_a_failed_test_is_a_conflict_and_a_bad_value_is_invalid(door: KubeDoor, namespace: str) -> None:
    reference = reference_to(await door.create(session(namespace)))
    stale = [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]
    add = [{"op": "add", "path": "/status", "value": {"phase": "Ready"}}]
    with pytest.raises(ConflictError):
        await door.json_patch(reference, [*stale, *add], "status")
    with pytest.raises(ConflictError):
        await door.json_patch(reference, [{"op": "test", "path": "/metadata/uid", "value": "other"}, *add], "status")
    with pytest.raises(InvalidError, match="phase"):
        await door.json_patch(reference, [{"op": "add", "path": "/status", "value": {"phase": "Nonsense"}}], "status")
    patched = await door.json_patch(reference, add, "status")
    assert patched["status"] == {"phase": "Ready"}


async def test_an_apply_is_repeatable_and_a_uid_in_it_is_a_precondition(door: KubeDoor, namespace: str) -> None:
    policy: dict[str, Any] = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": "walls"},
        "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress", "Egress"]},
    }
    first = await door.apply(policy)
    second = await door.apply(policy)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    other = {**policy, "metadata": {**policy["metadata"], "uid": "0000"}}
    with pytest.raises(ConflictError):
        await door.apply(other)
    absent = {**other, "metadata": {**other["metadata"], "name": "absent"}}
    with pytest.raises(ConflictError):
        await door.apply(absent)


async def test_a_replace_without_version_is_refused_and_with_an_old_one_a_conflict(
    door: KubeDoor, namespace: str
) -> None:
    made = await door.create(lease(namespace))
    with pytest.raises(LookupError, match="resourceVersion"):
        await door.replace(lease(namespace))
    changed = {**made, "spec": {"holderIdentity": "b"}}
    await door.replace(changed)
    with pytest.raises(ConflictError):
        await door.replace(changed)


async def test_a_replace_of_a_deleted_lease_does_not_create_it(door: KubeDoor, namespace: str) -> None:
    made = await door.create(lease(namespace))
    await door.delete(reference_to(made), made["metadata"]["uid"])
    with pytest.raises((ConflictError, NotFoundError)):
        await door.replace(made)
    with pytest.raises(NotFoundError):
        await door.get(reference_to(made))


async def test_a_delete_hits_one_uid_only(door: KubeDoor, namespace: str) -> None:
    made = await door.create(pod(namespace))
    reference = reference_to(made)
    with pytest.raises(ConflictError):
        await door.delete(reference, "another-uid")
    with pytest.raises(ConflictError):
        await door.delete(reference, made["metadata"]["uid"], resource_version="1")
    await door.delete(reference, made["metadata"]["uid"], grace_seconds=0)
    with pytest.raises(NotFoundError):
        await door.delete(reference, made["metadata"]["uid"])


async def test_what_the_schema_refuses_is_invalid(door: KubeDoor, namespace: str) -> None:
    wrong = session(namespace)
    wrong["spec"]["ttlSeconds"] = -1
    with pytest.raises(InvalidError, match="ttlSeconds"):
        await door.create(wrong)


async def test_wrong_credentials_are_forbidden(configuration: Configuration, namespace: str) -> None:
    configuration.api_key = {"BearerToken": "Bearer nonsense"}
    stranger = KubeDoor(configuration)
    with pytest.raises(ForbiddenError):
        await stranger.get(Reference("v1", "Pod", namespace, "any"))
    await stranger.close()


async def test_a_server_that_is_away_or_silent_is_unavailable(configuration: Configuration) -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    configuration.host = f"http://127.0.0.1:{port}"
    door = KubeDoor(configuration, request_seconds=0.2)
    with pytest.raises(UnavailableError, match="Timeout"):
        await door.get(Reference("v1", "Pod", "a", "b"))
    silent.close()
    await silent.wait_closed()
    with pytest.raises(UnavailableError):
        await door.get(Reference("v1", "Pod", "a", "b"))
    await door.close()


async def test_a_create_in_an_ending_namespace_says_so(door: KubeDoor, api_server: ApiServer, namespace: str) -> None:
    await door.create(pod(namespace))
    api_server.request("DELETE", f"/api/v1/namespaces/{namespace}")
    with pytest.raises(NamespaceEndingError):
        await door.create(pod(namespace, "late"))
