"""kopf as the pump, on a real API server: events come through, failures come out, nothing is written to any object."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import kopf
import pytest
from kubernetes_asyncio.client import Configuration

from sandhold import names
from sandhold.cluster.cache import Cache
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.memory import Memory
from sandhold.cluster.reading import INDICES
from sandhold.desired.world import KubeObject
from sandhold.handlers import kopf_pump, relist
from sandhold.handlers.kopf_pump import KopfPump
from sandhold.handlers.pump import WatchFailedError, watched_kinds
from sandhold.handlers.relist import Relister
from sandhold.handlers.routing import Router
from sandhold.heartbeats import Heartbeats
from sandhold.workqueue import Key, WorkQueue
from testkit.api_server import GROUP, ApiServer
from testkit.fault_proxy import FaultProxy

INSTALLATION = "pump-test"
KINDS = watched_kinds(INSTALLATION)
SECONDS = 30.0


async def eventually(holds: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another program
            await asyncio.sleep(0.02)
    assert holds(), what


class Rig:
    """Cache, queue and router behind a running pump."""

    def __init__(self, door: KubeDoor, configuration: Configuration, namespace: str) -> None:
        self.namespace = namespace
        self.cache = Cache(INDICES)
        self.queue = WorkQueue()
        self.memory = Memory()
        self.router = Router(self.cache, self.queue, self.memory)
        self.relister = Relister(door, self.cache, self.router, KINDS, every=300)
        self.pump = KopfPump(configuration, KINDS)
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.relister.sync()
        self.task = asyncio.create_task(self.pump.run(self.router))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
        self.queue.close()

    def session(self, name: str = "quill") -> KubeObject | None:
        return self.cache.get("SandboxSession", self.namespace, name)

    async def next_key(self) -> Key:
        """The next key of this test's own namespace."""
        while True:
            key = await asyncio.wait_for(self.queue.get(), SECONDS)
            self.queue.done(key)
            if key.namespace == self.namespace:
                return key


@pytest.fixture
async def rig(door: KubeDoor, configuration: Configuration, namespace: str) -> AsyncIterator[Rig]:
    made = Rig(door, configuration, namespace)
    yield made
    await made.stop()


def session(name: str = "quill") -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSession",
        "metadata": {"name": name},
        "spec": {"sandboxRef": {"name": "coder"}},
    }


def pod(name: str, session_uid: str, installation: str) -> dict[str, Any]:
    labels = {names.LABEL_INSTALLATION: installation, names.LABEL_SESSION_UID: session_uid}
    spec = {"containers": [{"name": "c", "image": "example.invalid/c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def test_events_reach_cache_and_queue_and_leave_no_trace_on_the_object(rig: Rig, api_server: ApiServer) -> None:
    await rig.start()
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    made = api_server.request("POST", path, session())
    assert await rig.next_key() == Key("SandboxSession", rig.namespace, "quill")
    await eventually(lambda: rig.session() is not None, "the session is cached")
    changed = api_server.request("PATCH", f"{path}/quill", {"spec": {"operatingMode": "Suspended"}})
    assert await rig.next_key() == Key("SandboxSession", rig.namespace, "quill")
    found = rig.session()
    assert found is not None
    assert found["spec"]["operatingMode"] == "Suspended"
    api_server.request("DELETE", f"{path}/quill")
    await eventually(lambda: rig.session() is None, "the deletion is seen")
    assert made["metadata"].get("finalizers") is None
    assert changed["metadata"].get("annotations") is None
    assert int(changed["metadata"]["generation"]) == 2


async def test_a_new_session_is_timed_from_its_first_event(rig: Rig, api_server: ApiServer) -> None:
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    old = api_server.request("POST", path, session("old"))
    await rig.start()
    # From here on kopf has its list, and what is made later comes as an event.
    await eventually(lambda: rig.relister._events["SandboxSession"] > 0, "kopf has listed")
    new = api_server.request("POST", path, session("new"))
    await eventually(lambda: rig.session("new") is not None, "the session is cached")
    assert rig.memory.seen.get(new["metadata"]["uid"]) is not None
    assert rig.memory.seen.get(old["metadata"]["uid"]) is None


async def test_a_pod_wakes_its_session_and_a_foreign_pod_never_arrives(rig: Rig, api_server: ApiServer) -> None:
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    await rig.start()  # first: what is there before is told twice, by our list and by kopf's
    uid = api_server.request("POST", path, session())["metadata"]["uid"]
    await rig.next_key()
    pods = f"/api/v1/namespaces/{rig.namespace}/pods"
    api_server.request("POST", pods, pod("theirs", uid, "another-installation"))
    api_server.request("POST", pods, pod("ours", uid, INSTALLATION))
    assert await rig.next_key() == Key("SandboxSession", rig.namespace, "quill")
    found = rig.cache.select("Pod", "session", f"{rig.namespace}/{uid}")
    assert [each["metadata"]["name"] for each in found] == ["ours"]
    assert rig.cache.get("Pod", rig.namespace, "theirs") is None


async def test_a_keepers_report_wakes_the_session_of_its_pod(rig: Rig, api_server: ApiServer) -> None:
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    uid = api_server.request("POST", path, session())["metadata"]["uid"]
    made = api_server.request("POST", f"/api/v1/namespaces/{rig.namespace}/pods", pod("ours", uid, INSTALLATION))
    await rig.relister.sync()
    await rig.next_key()
    rig.router.keeper_changed(made["metadata"]["uid"])
    assert await rig.next_key() == Key("SandboxSession", rig.namespace, "quill")


async def test_a_deletion_that_no_watch_told_is_found_by_a_list(rig: Rig, api_server: ApiServer) -> None:
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    api_server.request("POST", path, session())
    await rig.relister.sync()
    await rig.next_key()
    api_server.request("DELETE", f"{path}/quill")
    assert rig.session() is not None, "nobody told"
    assert await rig.relister.list_once("SandboxSession") == 1
    assert rig.session() is None
    assert await rig.next_key() == Key("SandboxSession", rig.namespace, "quill")


async def test_a_mute_watch_is_found_out(rig: Rig, api_server: ApiServer) -> None:
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    await rig.relister.sync()

    async def differences() -> int:
        return await rig.relister.list_once("SandboxSession")

    api_server.request("POST", path, session("one"))
    assert rig.relister.weigh("SandboxSession", await differences()), "another list should follow"
    assert not rig.relister.weigh("SandboxSession", await differences()), "nothing happened since"
    rig.relister.heard("SandboxSession")
    api_server.request("POST", path, session("two"))
    assert rig.relister.weigh("SandboxSession", await differences()), "it spoke between, so this is a new suspicion"
    rig.relister.weigh("SandboxSession", await differences())
    api_server.request("POST", path, session("three"))
    with pytest.raises(WatchFailedError, match="SandboxSession is mute"):
        rig.relister.weigh("SandboxSession", await differences())


async def test_a_mute_watch_ends_the_lists(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relist, "AFTER_START_SECONDS", 0.05)
    monkeypatch.setattr(relist, "PROOF_SECONDS", 0.05)

    async def always_differs(_: str) -> int:
        return 1

    monkeypatch.setattr(rig.relister, "list_once", always_differs)
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(rig.relister.run(), SECONDS)
    assert caught.group_contains(WatchFailedError, match="mute")


async def test_a_watch_that_speaks_is_not_suspected(
    rig: Rig, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relist, "AFTER_START_SECONDS", 0.1)
    monkeypatch.setattr(relist, "PROOF_SECONDS", 0.05)
    rig.relister._every = 0.05
    await rig.start()
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    running = asyncio.create_task(rig.relister.run())
    for number in range(30):
        await asyncio.to_thread(api_server.request, "POST", path, session(f"quill-{number}"))
    await eventually(lambda: rig.session("quill-29") is not None, "all are seen")
    assert not running.done()
    running.cancel()


async def test_an_error_of_the_sink_ends_the_pump(
    rig: Rig, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Key) -> None:
        raise RuntimeError("the queue is full")

    await rig.start()
    monkeypatch.setattr(rig.queue, "add", fail)
    api_server.request("POST", f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions", session())
    assert rig.task is not None
    with pytest.raises(WatchFailedError, match="queue is full"):
        await asyncio.wait_for(rig.task, SECONDS)


@pytest.fixture
async def proxy(api_server: ApiServer, configuration: Configuration) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(api_server.url, api_server.token).serving() as made:
        configuration.host = f"http://127.0.0.1:{made.port}"
        yield made


async def test_an_error_in_a_stream_ends_the_pump(proxy: FaultProxy, rig: Rig) -> None:
    await rig.start()
    await eventually(lambda: proxy.watches == len(KINDS), "every kind is watched")
    await proxy.inject(500, "pods")
    assert rig.task is not None
    with pytest.raises(WatchFailedError, match="injected"):
        await asyncio.wait_for(rig.task, SECONDS)


async def test_a_lost_place_in_the_stream_is_listed_anew_and_deletions_of_the_gap_are_found(
    proxy: FaultProxy, rig: Rig, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relist, "AFTER_START_SECONDS", 300)
    monkeypatch.setattr(relist, "AFTER_LIBRARY_LIST_SECONDS", 0.1)
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    for name in ("stays", "goes"):
        await asyncio.to_thread(api_server.request, "POST", path, session(name))
    await rig.start()
    lists = asyncio.create_task(rig.relister.run())
    await eventually(lambda: proxy.watches == len(KINDS), "every kind is watched")
    # kopf lists anew after a 410 and never tells what vanished meanwhile.
    proxy.swallows = True
    await asyncio.to_thread(api_server.request, "DELETE", f"{path}/goes")
    await eventually(lambda: b"DELETED" in proxy.swallowed, "the event is lost")
    proxy.swallows = False
    assert rig.session("goes") is not None
    await proxy.inject(410, "sandboxsessions")
    await eventually(lambda: rig.session("goes") is None, "the deletion is found")
    assert rig.session("stays") is not None
    assert rig.task is not None
    assert not rig.task.done()
    lists.cancel()


async def test_a_cut_watch_is_opened_again_without_a_list(proxy: FaultProxy, rig: Rig, api_server: ApiServer) -> None:
    await rig.start()
    await eventually(lambda: proxy.watches == len(KINDS), "every kind is watched")
    lists = proxy.lists
    proxy.cut()
    path = f"{GROUP}/namespaces/{rig.namespace}/sandboxsessions"
    await asyncio.to_thread(api_server.request, "POST", path, session())
    await eventually(lambda: rig.session() is not None, "the session is seen")
    assert proxy.lists == lists


def test_kopf_is_told_to_keep_its_hands_off(configuration: Configuration) -> None:
    settings = KopfPump(configuration, KINDS)._settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.watching.inactivity_timeout == 70
    assert settings.watching.server_timeout
    registry = KopfPump(configuration, KINDS)._registry(None, None)  # type: ignore[arg-type]
    assert isinstance(registry, kopf.OperatorRegistry)
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()


async def test_watchers_are_a_sign_of_life_and_a_missing_one_is_missed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf_pump, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(kopf_pump, "WATCHERS_SECONDS", 3.0)
    heartbeats = Heartbeats()
    rig.pump = KopfPump(rig.pump._configuration, KINDS, heartbeats=heartbeats)
    await rig.start()
    await eventually(lambda: "watches" in heartbeats.ages(), "the loop began")
    beat = heartbeats._beats["watches"]
    began = beat._due
    await eventually(lambda: beat._due > began, "all watchers are there")
    watcher = next(task for task in asyncio.all_tasks() if task.get_name().startswith("watcher for pods"))
    watcher.set_name("hidden")
    await eventually(lambda: bool(heartbeats.late()), "one is missing")
    watcher.set_name("watcher for pods.v1@None")
    await eventually(lambda: not heartbeats.late(), "it is back")
