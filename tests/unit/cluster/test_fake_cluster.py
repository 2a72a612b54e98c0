"""The fake API server by itself: what a crash sweep relies on. Its likeness to the real one is judged in e2e."""

from datetime import timedelta
from typing import Any

import pytest

from sandhold.cluster.cache import Cache
from sandhold.desired.plan import Reference
from sandhold.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.faults import Faults, Killed, Kind
from testkit.object_store import Document, reference_to

POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "namespace": "research"},
    "spec": {"containers": [{"name": "agent", "image": "x"}]},
}
SESSION: Document = {
    "apiVersion": "sandhold.dev/v1alpha1",
    "kind": "SandboxSession",
    "metadata": {"name": "quill", "namespace": "research", "finalizers": ["sandhold.dev/workspace"]},
    "spec": {"sandboxRef": {"name": "coder"}},
}
REF = reference_to(SESSION)


def cluster_with(faults: Faults | None = None) -> FakeCluster:
    cluster = FakeCluster(FakeClock(), faults)
    cluster.add_namespace("research")
    return cluster


async def test_a_status_is_written_through_its_subresource_only() -> None:
    cluster = cluster_with()
    made = await cluster.create({**SESSION, "status": {"phase": "Ready"}})
    assert "status" not in made
    patched = await cluster.json_patch(REF, [{"op": "add", "path": "/status", "value": {"phase": "Ready"}}])
    assert patched == made, "the main resource ignores the status"
    operations: list[Document] = [
        {"op": "add", "path": "/status", "value": {"phase": "Ready"}},
        {"op": "replace", "path": "/spec/operatingMode", "value": "Suspended"},
    ]
    patched = await cluster.json_patch(REF, operations, "status")
    assert patched["status"] == {"phase": "Ready"}
    assert patched["spec"]["operatingMode"] == "Running"
    assert patched["metadata"]["generation"] == 1


async def test_generation_counts_changes_of_the_spec_alone() -> None:
    cluster = cluster_with()
    await cluster.create(SESSION)
    suspended = cluster.objects.change(REF, lambda each: each["spec"].update(operatingMode="Suspended"))
    assert suspended["metadata"]["generation"] == 2
    labelled = cluster.objects.change(REF, lambda each: each["metadata"].update(labels={"a": "b"}))
    assert labelled["metadata"]["generation"] == 2
    again = cluster.objects.change(REF, lambda each: each["metadata"].update(labels={"a": "b"}))
    assert again["metadata"]["resourceVersion"] == labelled["metadata"]["resourceVersion"]


async def test_unknown_fields_vanish_and_wrong_ones_are_refused() -> None:
    cluster = cluster_with()
    await cluster.create(SESSION)
    value: dict[str, Any] = {"phase": "Ready", "surprise": 1}
    patched = await cluster.json_patch(REF, [{"op": "add", "path": "/status", "value": value}], "status")
    assert patched["status"] == {"phase": "Ready"}
    with pytest.raises(InvalidError, match="phase"):
        await cluster.json_patch(REF, [{"op": "add", "path": "/status", "value": {"phase": "Fine"}}], "status")


async def test_a_finalizer_keeps_an_object_until_it_is_taken_off() -> None:
    cluster = cluster_with()
    made = await cluster.create(SESSION)
    await cluster.delete(REF, made["metadata"]["uid"])
    deleting = cluster.objects.get(REF)
    assert deleting["metadata"]["deletionTimestamp"]
    with pytest.raises(InvalidError, match="finalizers"):
        await cluster.json_patch(REF, [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.y/z"}])
    await cluster.json_patch(REF, [{"op": "remove", "path": "/metadata/finalizers/0"}])
    with pytest.raises(NotFoundError):
        await cluster.get(REF)


async def test_a_pod_on_a_node_stays_for_its_grace_and_one_without_goes_at_once() -> None:
    cluster = cluster_with()
    made = await cluster.create(POD)
    await cluster.delete(reference_to(POD), made["metadata"]["uid"])
    with pytest.raises(NotFoundError):
        await cluster.get(reference_to(POD))
    made = await cluster.create({**POD, "spec": {**POD["spec"], "nodeName": "n"}})
    await cluster.delete(reference_to(POD), made["metadata"]["uid"], grace_seconds=5)
    stays = cluster.objects.get(reference_to(POD))
    assert stays["metadata"]["deletionGracePeriodSeconds"] == 5
    cluster.objects.delete(reference_to(POD), grace=0)
    with pytest.raises(NotFoundError):
        await cluster.get(reference_to(POD))


async def test_preconditions_hold() -> None:
    cluster = cluster_with()
    made = await cluster.create(SESSION)
    with pytest.raises(ConflictError, match="uid"):
        await cluster.delete(REF, "another")
    with pytest.raises(ConflictError, match="resourceVersion"):
        await cluster.delete(REF, made["metadata"]["uid"], "1")
    with pytest.raises(ConflictError, match="already exists"):
        await cluster.create(SESSION)
    with pytest.raises(ConflictError, match="resourceVersion"):
        await cluster.replace({**made, "metadata": {**made["metadata"], "resourceVersion": "1"}})
    with pytest.raises(ConflictError, match="test"):
        await cluster.json_patch(REF, [{"op": "test", "path": "/metadata/uid", "value": "another"}])
    with pytest.raises(NotFoundError):
        await cluster.delete(Reference("v1", "Pod", "research", "none"), "x")


async def test_an_apply_takes_back_what_it_no_longer_says() -> None:
    cluster = cluster_with()
    document: Document = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "a", "namespace": "research", "labels": {"one": "1", "two": "2"}},
    }
    await cluster.apply(document)
    cluster.objects.change(reference_to(document), lambda each: each["metadata"]["labels"].update(theirs="3"))
    document["metadata"]["labels"] = {"one": "1"}
    changed = await cluster.apply(document)
    assert changed["metadata"]["labels"] == {"one": "1", "theirs": "3"}
    again = await cluster.apply(document)
    assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_nothing_is_created_in_a_namespace_that_ends_or_is_not_there() -> None:
    cluster = cluster_with()
    with pytest.raises(NotFoundError):
        await cluster.create({**POD, "metadata": {"name": "one", "namespace": "nowhere"}})
    home = Reference("v1", "Namespace", "", "research")
    cluster.objects.change(home, lambda each: each["metadata"].update(finalizers=["kubernetes"]))
    cluster.objects.delete(home)
    with pytest.raises(ConflictError):
        await cluster.create(POD)


@pytest.mark.parametrize(
    ("kind", "error", "is_stored"),
    [
        (Kind.CUT_BEFORE, Killed, False),
        (Kind.CUT_AFTER, Killed, True),
        (Kind.CONFLICT, ConflictError, False),
        (Kind.TOO_MANY, UnavailableError, False),
        (Kind.SERVER_ERROR, UnavailableError, False),
        (Kind.FORBIDDEN, ForbiddenError, False),
        (Kind.DROPPED_ANSWER, UnavailableError, True),
    ],
)
async def test_a_fault_happens_at_its_call_and_on_its_side_of_the_commit(
    kind: Kind, error: type[BaseException], *, is_stored: bool
) -> None:
    cluster = cluster_with(Faults({1: kind}))
    await cluster.create(SESSION)
    with pytest.raises(error):
        await cluster.create(POD)
    assert bool(cluster.objects.all("Pod")) is is_stored
    assert cluster.faults.calls == ["create SandboxSession research/quill", "create Pod research/one"]
    assert len(cluster.faults.raised) == 1


async def test_watchers_see_every_change_in_order() -> None:
    cluster = cluster_with()
    seen: list[tuple[str, str]] = []
    cluster.objects.watch(lambda event, each: seen.append((event, each["metadata"]["name"])))
    made = await cluster.create(SESSION)
    await cluster.delete(REF, made["metadata"]["uid"])
    await cluster.json_patch(REF, [{"op": "remove", "path": "/metadata/finalizers"}])
    assert seen == [("ADDED", "quill"), ("MODIFIED", "quill"), ("DELETED", "quill")]


async def test_lists_select_by_label() -> None:
    cluster = cluster_with()
    for name, labels in (("a", {"k": "1"}), ("b", {"k": "2", "x": ""}), ("c", {})):
        await cluster.create({**POD, "metadata": {"name": name, "namespace": "research", "labels": labels}})
    for selector, expected in (("k=1", "a"), ("k", "ab"), ("!k", "c"), ("k!=1", "bc"), ("k=2,x", "b"), (None, "abc")):
        found, version = await cluster.list("v1", "Pod", None, selector)
        assert "".join(each["metadata"]["name"] for each in found) == expected
        assert version == cluster.objects.version


def test_time_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    start = clock()
    clock.advance(2.5)
    assert clock() - start == timedelta(seconds=2.5)
    clock.move_to(start)
    assert clock() - start == timedelta(seconds=2.5)


async def test_a_cache_forgets_an_object_by_the_answer_that_took_its_last_finalizer_off() -> None:
    cluster, cache = cluster_with(), Cache()
    made = await cluster.create(SESSION)
    await cluster.delete(REF, made["metadata"]["uid"])
    cache.put(await cluster.get(REF))
    answer = await cluster.json_patch(REF, [{"op": "remove", "path": "/metadata/finalizers/0"}])
    assert cache.put(answer) is not None
    assert cache.find(REF) is None
