"""Who is woken by what."""

import time
from typing import Any

import pytest

from sandhold import names
from sandhold.cluster.cache import Cache
from sandhold.cluster.memory import Memory
from sandhold.cluster.ours import may_be_seen
from sandhold.cluster.reading import INDICES
from sandhold.handlers.routing import Router
from sandhold.workqueue import Key, WorkQueue

SESSION = Key("SandboxSession", "a", "quill")
OTHER = Key("SandboxSession", "a", "other")
SANDBOX = Key("AgentSandbox", "a", "coder")
LABELS = {names.LABEL_INSTALLATION: "i", names.LABEL_SANDBOX: "coder", names.LABEL_SESSION_UID: "quill-uid"}


def obj(kind: str, name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "a",
        "name": name,
        "uid": f"{name}-uid",
        "resourceVersion": str(version),
        "generation": 1,
        **more.pop("metadata", {}),
    }
    return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, **more}


def session(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    return obj("SandboxSession", name, version, **{"spec": {"sandboxRef": {"name": "coder"}}, **more})


class Bench:
    def __init__(self) -> None:
        self.cache = Cache(INDICES, admits=may_be_seen)
        self.queue = WorkQueue()
        self.memory = Memory()
        self.router = Router(self.cache, self.queue, self.memory)

    def woken(self) -> set[Key]:
        """Every key that waits, now or delayed; all of them are taken."""
        keys = {key for keys in self.queue._turns.values() for key in keys} | set(self.queue._due)
        self.queue.close()
        self.queue = self.router._queue = WorkQueue()
        return keys

    def hear(self, document: dict[str, Any]) -> set[Key]:
        self.router.changed(document, is_listed=False)
        return self.woken()


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    made.hear(obj("AgentSandbox", "coder"))
    made.hear(session("quill"))
    made.hear(session("other"))
    return made


async def test_a_session_wakes_itself_and_its_sandbox_only_when_it_counts(bench: Bench) -> None:
    assert bench.hear(session("quill", 2, metadata={"annotations": {"a": "b"}})) == {SESSION}
    assert bench.hear(session("quill", 3, status={"phase": "Ready"})) == {SESSION}
    bench.router.deleted(session("quill", 4))
    assert bench.woken() == {SESSION, SANDBOX}


async def test_sessions_are_counted_in_bursts_but_a_sandbox_that_goes_lets_go_soon(bench: Bench) -> None:
    bench.router.changed(session("another"), is_listed=False)
    assert bench.queue._due[SANDBOX] - time.monotonic() > 20
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [names.FINALIZER_WALLS]}
    bench.hear(obj("AgentSandbox", "coder", 2, metadata=metadata))
    bench.router.deleted(session("another", 3))
    assert bench.queue._due[SANDBOX] - time.monotonic() < 1


async def test_a_sandbox_wakes_its_sessions_when_its_spec_changed_not_its_status(bench: Bench) -> None:
    assert bench.hear(obj("AgentSandbox", "coder", 2, status={"sessions": 2})) == {SANDBOX}
    assert bench.hear(obj("AgentSandbox", "coder", 3, metadata={"generation": 2})) == {SANDBOX, SESSION, OTHER}


async def test_a_pod_wakes_the_session_of_its_label(bench: Bench) -> None:
    pod = obj("Pod", "quill-1", metadata={"labels": LABELS})
    assert bench.hear(pod) == {SESSION, SANDBOX}
    assert bench.hear({**pod, "metadata": {**pod["metadata"], "resourceVersion": "2"}}) == {SESSION}
    bench.router.keeper_changed("quill-1-uid")
    assert bench.woken() == {SESSION}
    bench.router.keeper_changed("nobody")
    assert bench.woken() == set()


@pytest.mark.parametrize("kind", ["Pod", "NetworkPolicy", "ServiceAccount", "PodDisruptionBudget"])
async def test_what_another_namespace_holds_wakes_nobody_here(bench: Bench, kind: str) -> None:
    """Labels and annotations are anybody's to write: who may do so in one namespace must not keep another one busy."""
    annotations = {names.ANNOTATION_OWNER: names.owner_value("AgentSandbox", "a", "coder", "coder-uid")}
    metadata = {"namespace": "b", "labels": LABELS, "annotations": annotations}
    assert bench.hear(obj(kind, "coder-1", metadata=metadata, spec={"a": 1})) == set()
    bench.router.keeper_changed("coder-1-uid")
    assert bench.woken() == set()


@pytest.mark.parametrize("kind", ["NetworkPolicy", "ServiceAccount"])
async def test_a_wall_wakes_its_sandbox_and_those_who_wait_for_it(bench: Bench, kind: str) -> None:
    annotations = {names.ANNOTATION_OWNER: names.owner_value("AgentSandbox", "a", "coder", "coder-uid")}
    wall = obj(kind, "coder-1", metadata={"labels": LABELS, "annotations": annotations}, spec={"a": 1})
    assert bench.hear(wall) == {SANDBOX, SESSION, OTHER}
    assert bench.hear({**wall, "metadata": {**wall["metadata"], "resourceVersion": "2"}}) == {SANDBOX}
    bench.router.deleted({**wall, "metadata": {**wall["metadata"], "resourceVersion": "3"}})
    assert bench.woken() == {SANDBOX, SESSION, OTHER}


async def test_what_our_own_write_put_into_the_cache_wakes_like_an_event(bench: Bench) -> None:
    bench.cache.put(obj("NetworkPolicy", "coder-1", metadata={"labels": LABELS}))
    assert SESSION in bench.woken()


async def test_a_snapshot_wakes_its_session(bench: Bench) -> None:
    assert bench.hear(obj("SandboxSnapshot", "s", spec={"sessionRef": {"name": "quill"}})) == {SESSION}
    assert bench.hear(obj("SandboxSnapshot", "t", spec={"sessionRef": {"name": "nobody"}})) == set()


async def test_a_runtime_class_wakes_everybody_when_its_handler_changed(bench: Bench) -> None:
    everybody = {SANDBOX, SESSION, OTHER}
    assert bench.hear(obj("RuntimeClass", "runc", handler="runc")) == everybody
    assert bench.hear(obj("RuntimeClass", "runc", 2, handler="runc")) == set()
    assert bench.hear(obj("RuntimeClass", "runc", 3, handler="other")) == everybody


async def test_an_address_is_told_only_when_it_changed(bench: Bench) -> None:
    told: list[str] = []
    bench.router.on_addresses = lambda: told.append("told")
    bench.hear(obj("EndpointSlice", "m", endpoints=[{"addresses": ["10.0.0.1"]}]))
    bench.hear(obj("EndpointSlice", "m", 2, endpoints=[{"addresses": ["10.0.0.1"]}]))
    bench.hear(obj("Node", "n", status={"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}))
    noise = {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}], "images": ["many"]}
    bench.hear(obj("Node", "n", 2, status=noise))
    assert told == ["told", "told"]


async def test_a_node_wakes_who_is_on_it_and_who_waits_for_one(bench: Bench) -> None:
    def node(version: int, **more: Any) -> dict[str, Any]:
        metadata = {"namespace": "", "resourceVersion": str(version)}
        return obj("Node", "n", metadata=metadata, **{"status": {"conditions": []}, **more})

    bench.hear(node(1))
    bench.hear(obj("Pod", "quill-1", metadata={"labels": LABELS}, spec={"nodeName": "n"}))
    cordoned = {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}}
    assert bench.hear(node(2, **cordoned)) == {SESSION}
    assert bench.hear(node(3, **cordoned)) == set(), "a heartbeat"
    bench.hear(session("other", 2, status={"phase": "Suspended", "stopReason": "NodeCordoned"}))
    assert bench.hear(node(4, spec={"taints": cordoned["spec"]["taints"]})) == {SESSION, OTHER}
    assert bench.hear(node(5)) == {SESSION, OTHER}, "the taint goes a moment later"
    bench.hear(session("other", 3, status={"phase": "Ready", "nodeName": "n"}))
    bench.router.deleted(obj("Pod", "quill-1", 9, metadata={"labels": LABELS}))
    bench.woken()
    unheard = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "t"}]}}
    assert bench.hear(node(6, **unheard)) == {OTHER}
    bench.router.deleted(node(7))
    assert bench.woken() == {OTHER}


async def test_a_pod_with_our_labels_that_we_did_not_put_there_is_not_seen(bench: Bench) -> None:
    label: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{names.LABEL_INSTALLATION}": {}}}}
    for manager, is_seen in (("kubectl", False), (names.FIELD_MANAGER, True)):
        metadata = {"labels": LABELS, "managedFields": [{"manager": manager, "fieldsV1": label}]}
        bench.hear(obj("Pod", f"by-{manager}", metadata=metadata))
        assert (bench.cache.get("Pod", "a", f"by-{manager}") is not None) is is_seen
    ours = obj("Pod", "by-sandhold", 2, metadata={"labels": LABELS, "managedFields": [{"manager": "x"}]})
    bench.hear(ours)
    assert bench.cache.get("Pod", "a", "by-sandhold") == {
        **ours,
        "metadata": {key: value for key, value in ours["metadata"].items() if key != "managedFields"},
    }, "what was ours once stays ours, whoever touched it since"


async def test_a_new_session_is_timed_and_a_listed_one_is_not(bench: Bench) -> None:
    bench.router.changed(session("new"), is_listed=False)
    bench.router.changed(session("listed"), is_listed=True)
    assert bench.memory.seen.get("new-uid") is not None
    assert bench.memory.seen.get("listed-uid") is None
    bench.woken()
