"""What a world says: known, confirmed absent, or unknown, and never one for the other."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from sandhold import names
from sandhold.api.session import SandboxSessionStatus
from sandhold.cluster.cache import Cache
from sandhold.cluster.installation import InstallationFacts
from sandhold.cluster.memory import Ending, Memory
from sandhold.cluster.observe import Observer
from sandhold.cluster.reading import INDICES
from sandhold.desired.plan import Fence, Reference
from sandhold.desired.session import plan_session
from sandhold.desired.situation import slot_of
from sandhold.desired.world import (
    ABSENT,
    Keeper,
    KeeperReport,
    Node,
    Present,
    SessionWorld,
    SlotHistory,
    StoreTrouble,
    Taint,
    Unknown,
)
from sandhold.errors import UnavailableError
from sandhold.settings import OperatorSettings
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.small_world import BACKENDS

NAMESPACE = "research"
HOME = "sandhold-system"
SETTINGS = OperatorSettings(namespace=HOME, keeper_image="keeper:1")
LISTED = ("AgentSandbox", "SandboxSession", "SandboxSnapshot", "Pod", "NetworkPolicy", "ServiceAccount")


class Movers:
    """A mover side with one answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.known: dict[str, Keeper] = {}

    def keepers(self) -> Mapping[str, Keeper]:
        return self.known

    async def history(self, store: str, slot: str) -> SlotHistory | StoreTrouble | Unknown:
        self.asked.append((store, slot))
        return SlotHistory(None, None)

    def subscribe(self, _: Any) -> None:
        raise NotImplementedError

    async def fence(self, _: Fence) -> StoreTrouble | None:
        raise NotImplementedError

    async def order(self, _uid: str, _order: Mapping[str, Any]) -> None:
        raise NotImplementedError


class Bench:
    """An observer on the fake cluster, with a cache that holds what the cluster holds."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock)
        self.cluster.add_namespace(NAMESPACE)
        self.cluster.add_namespace(HOME)
        self.movers = Movers()
        self.memory = Memory()
        self.cache = Cache(INDICES)
        self.facts = InstallationFacts(self.cluster, self.cache, SETTINGS, lambda: BACKENDS, "PEM")
        self.observer = Observer(
            door=self.cluster,
            movers=self.movers,
            cache=self.cache,
            facts=self.facts,
            memory=self.memory,
            clock=self.clock,
            monotonic=self.clock.monotonic,
        )

    def add(self, kind: str, name: str, api_version: str = names.API_VERSION, **body: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": NAMESPACE, **body.pop("metadata", {})}
        made = self.cluster.objects.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})
        self.cache.put(made)
        return made

    def list_all(self, *but: str) -> None:
        for kind in LISTED:
            if kind not in but:
                found = self.cluster.objects.all(kind, None)
                self.cache.replace_all(kind, list(found), self.cluster.objects.version)

    async def session(self, name: str = "quill") -> SessionWorld:
        view = await self.observer.session(NAMESPACE, name)
        assert view is not None
        return view.world


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.add("AgentSandbox", "coder", spec={"image": "agent:1"})
    made.add("SandboxSession", "quill", spec={"sandboxRef": {"name": "coder"}})
    return made


async def test_what_was_not_listed_is_unknown_and_then_absent(bench: Bench) -> None:
    world = await bench.session()
    assert isinstance(world.pods, Unknown)
    assert isinstance(world.policy, Unknown)
    assert isinstance(world.installation.runtime_classes, Unknown)
    bench.list_all()
    world = await bench.session()
    assert world.pods == Present(())
    assert world.policy == ABSENT
    assert world.snapshots == Present(())


async def test_a_session_that_is_gone_has_no_world(bench: Bench) -> None:
    assert await bench.observer.session(NAMESPACE, "nobody") is None
    assert await bench.observer.sandbox(NAMESPACE, "nobody") is None


async def test_an_unknown_sandbox_is_absent_only_after_a_list(bench: Bench) -> None:
    bench.add("SandboxSession", "lost", spec={"sandboxRef": {"name": "nobody"}})
    assert isinstance((await bench.session("lost")).sandbox, Unknown)
    bench.list_all()
    assert (await bench.session("lost")).sandbox == ABSENT
    assert bench.movers.asked == [], "without a sandbox there is no store to ask"


async def test_the_history_is_asked_of_the_right_store_and_again_only_when_needed(bench: Bench) -> None:
    bench.list_all()
    for _ in range(3):
        assert (await bench.session()).history == Present(SlotHistory(None, None))
    assert [store for store, _ in bench.movers.asked] == ["main"]
    uid = (await bench.session()).session.metadata.uid
    labels = {names.LABEL_SESSION_UID: uid, names.LABEL_INSTALLATION: "demo"}
    pod = bench.add("Pod", "quill-1", "v1", metadata={"labels": labels}, spec={"containers": []})
    await bench.session()
    asked = len(bench.movers.asked)
    report = KeeperReport(archive_sequence=1, archive_state="Stored")
    keeper = Keeper(connected=True, report=report)
    bench.movers.known = {pod["metadata"]["uid"]: keeper, "another": keeper}
    world = await bench.session()
    assert len(bench.movers.asked) == asked + 1, "a stored archive changes what the store holds"
    assert list(world.keepers) == [pod["metadata"]["uid"]], "other sessions' keepers are none of its business"


async def test_each_checkpoint_asks_anew_and_one_that_runs_does_not(bench: Bench) -> None:
    bench.list_all()
    uid = (await bench.session()).session.metadata.uid
    labels = {names.LABEL_SESSION_UID: uid, names.LABEL_INSTALLATION: "demo"}
    pod = bench.add("Pod", "quill-1", "v1", metadata={"labels": labels}, spec={"containers": []})

    async def asked(at: float, **report: Any) -> int:
        before = len(bench.movers.asked)
        reported = bench.clock() + timedelta(seconds=at)
        keeper = Keeper(connected=True, report=KeeperReport(**report), reported_at=reported)
        bench.movers.known = {pod["metadata"]["uid"]: keeper}
        await bench.session()
        return len(bench.movers.asked) - before

    assert await asked(0) == 1
    assert await asked(1, archive_sequence=1, archive_state="Running") == 0
    assert await asked(2, archive_sequence=1, archive_state="Stored") == 1
    assert await asked(3, archive_sequence=1, archive_state="Stored", agent_state="Running") == 0
    assert await asked(4, archive_sequence=2, archive_state="Running") == 0
    assert await asked(5, archive_sequence=2, archive_state="Stored") == 1
    assert await asked(6, archive_sequence=2, archive_state="Failed") == 1, "its keeper may not have heard the verdict"
    assert await asked(7, archive_sequence=2, archive_state="Running") == 0
    assert await asked(8, archive_sequence=2, archive_state="Failed") == 1, "nor this time"
    assert await asked(9, archive_sequence=2, archive_state="Stored", archive_is_final=True) == 1


async def test_a_session_at_rest_asks_nothing_of_the_store(bench: Bench) -> None:
    bench.list_all()
    made = bench.cache.get("SandboxSession", NAMESPACE, "quill")
    assert made is not None
    condition = {
        "type": "Snapshotted",
        "status": "True",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
        "reason": "Stored",
        "message": "It is stored.",
    }
    stored: dict[str, Any] = {"epoch": 1, "sequence": 1, "name": "quill-entry"}
    status = {"phase": "Suspended", "conditions": [condition], "snapshot": stored}

    async def asks(reason: str, mode: str, version: int, **annotations: str) -> bool:
        before = len(bench.movers.asked)
        metadata = {**made["metadata"], "resourceVersion": str(version), "annotations": annotations}
        spec = {**made["spec"], "operatingMode": mode}
        bench.cache.put({**made, "metadata": metadata, "spec": spec, "status": {**status, "stopReason": reason}})
        bench.observer.histories.forget("main", slot_of((await bench.session()).session, "demo"))
        await bench.session()
        return len(bench.movers.asked) > before

    assert not await asks("Requested", "Suspended", 1001)
    assert not await asks("TtlExpired", "Running", 1002)
    assert not await asks("AgentExited", "Running", 1003)
    assert await asks("Requested", "Running", 1004), "it is to start"
    assert await asks("TtlExpired", "Running", 1005, **{names.ANNOTATION_RETRY: "now"}), "it is to start"
    assert await asks("NodeCordoned", "Running", 1006), "it may start at any moment"
    stored.pop("name")
    assert await asks("Requested", "Suspended", 1007), "its archive has no entry yet"
    assert await asks("AgentExited", "Running", 1008), "its archive has no entry yet"
    assert isinstance((await bench.session()).history, Present)


async def test_a_pod_of_another_namespace_is_nothing_to_a_session_whatever_its_labels_say(bench: Bench) -> None:
    """Whoever may make pods in one namespace must not cost another one's sessions a question to the store."""
    uid = (await bench.session()).session.metadata.uid
    labels = {names.LABEL_INSTALLATION: "demo", names.LABEL_SESSION_UID: uid}
    bench.list_all()
    await bench.session()
    asked = len(bench.movers.asked)
    for number in range(3):
        bench.add("Pod", f"forged-{number}", "v1", metadata={"namespace": HOME, "labels": labels})
        assert (await bench.session()).pods == Present(())
    assert len(bench.movers.asked) == asked
    bench.add("Pod", "near", "v1", metadata={"labels": labels})
    assert (await bench.session()).pods != Present(())


async def test_nodes_are_known_by_what_keeps_pods_on_them(bench: Bench) -> None:
    assert isinstance((await bench.session()).installation.nodes, Unknown)
    taint = {"key": names.TAINT_CORDONED, "effect": "NoSchedule", "timeAdded": "2026-03-01T12:00:00Z"}
    spec = {"unschedulable": True, "taints": [taint], "podCIDR": "10.0.0.0/24"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T12:00:00Z"}
    metadata = {"namespace": "", "labels": {"pool": "agents"}}
    bench.add("Node", "node-1", "v1", metadata=metadata, spec=spec, status={"conditions": [ready]})
    lost = {"conditions": [{**ready, "status": "Unknown"}]}
    bench.add("Node", "node-2", "v1", metadata={"namespace": ""}, spec={}, status=lost)
    bench.add("Node", "node-3", "v1", metadata={"namespace": ""})
    bench.list_all()
    found = bench.cluster.objects.all("Node", None)
    bench.cache.replace_all("Node", list(found), bench.cluster.objects.version)
    nodes = (await bench.session()).installation.nodes
    assert isinstance(nodes, Present)
    cordon = (Taint(names.TAINT_CORDONED, "", "NoSchedule"),)
    assert nodes.value["node-1"] == Node(is_cordoned=True, is_ready=True, labels={"pool": "agents"}, taints=cordon)
    assert nodes.value["node-2"] == Node(is_cordoned=False, is_ready=False)
    assert nodes.value["node-3"] == Node(is_cordoned=False, is_ready=True)
    kept = bench.cache.get("Node", "", "node-1")
    assert kept is not None
    assert kept["status"]["conditions"] == [{"type": "Ready", "status": "True"}], "heartbeats are no change"


async def test_a_run_that_began_with_archives_asks_though_they_were_turned_off(bench: Bench) -> None:
    bench.add("AgentSandbox", "brief", spec={"image": "agent:1", "snapshot": {"onStop": False}})
    made = bench.add("SandboxSession", "short", spec={"sandboxRef": {"name": "brief"}})
    metadata = {**made["metadata"], "resourceVersion": str(int(made["metadata"]["resourceVersion"]) + 1)}
    bench.cache.put({**made, "metadata": metadata, "status": {"archivesOnStop": True, "phase": "Ready"}})
    assert isinstance((await bench.session("short")).history, Present)


async def test_a_session_without_snapshots_asks_nothing(bench: Bench) -> None:
    bench.add("AgentSandbox", "brief", spec={"image": "agent:1", "snapshot": {"onStop": False}})
    bench.add("SandboxSession", "short", spec={"sandboxRef": {"name": "brief"}})
    assert (await bench.session("short")).history == ABSENT
    assert bench.movers.asked == []


async def test_a_session_whose_archives_were_turned_off_still_asks_for_its_last_one(bench: Bench) -> None:
    bench.add("AgentSandbox", "brief", spec={"image": "agent:1", "snapshot": {"onStop": False}})
    made = bench.add("SandboxSession", "short", spec={"sandboxRef": {"name": "brief"}})
    metadata = {**made["metadata"], "resourceVersion": str(int(made["metadata"]["resourceVersion"]) + 1)}
    bench.cache.put({**made, "metadata": metadata, "status": {"snapshot": {"epoch": 1, "sequence": 1}}})
    assert isinstance((await bench.session("short")).history, Present)


async def test_a_store_that_is_not_configured_is_trouble_not_emptiness(bench: Bench) -> None:
    bench.add("AgentSandbox", "else", spec={"image": "agent:1", "snapshot": {"store": "elsewhere"}})
    bench.add("SandboxSession", "there", spec={"sandboxRef": {"name": "else"}})
    history = (await bench.session("there")).history
    assert isinstance(history, StoreTrouble)
    assert history.code == "snapshot_store_unavailable"
    assert "elsewhere" in history.message


async def test_whatever_has_the_name_of_this_epochs_entry_is_seen(bench: Bench) -> None:
    """A create would meet it in every pass and say nothing: whoever owns it must be told."""
    bench.list_all()
    key = slot_of((await bench.session()).session, bench.facts.current().id)
    taken = names.snapshot_name("quill", key, 3)
    for name in (taken, names.snapshot_name("quill", key, 2)):
        bench.add("SandboxSnapshot", name, spec={"sessionRef": {"name": "somebody-elses"}})
    bench.cluster.objects.change(
        Reference(names.API_VERSION, "SandboxSession", NAMESPACE, "quill"),
        lambda it: it.update(status={"phase": "Ready", "slot": {"key": key, "epoch": 3}}),
    )
    bench.list_all()
    snapshots = (await bench.session()).snapshots
    assert isinstance(snapshots, Present)
    assert [each["metadata"]["name"] for each in snapshots.value] == [taken]


async def test_only_snapshots_of_this_slot_count(bench: Bench) -> None:
    bench.list_all()
    slot = slot_of((await bench.session()).session, "demo")
    mine = names.snapshot_name("quill", slot, 1)
    for name in (mine, names.snapshot_name("quill", "0" * 32, 9)):
        bench.add("SandboxSnapshot", name, spec={"sessionRef": {"name": "quill"}})
    snapshots = (await bench.session()).snapshots
    assert isinstance(snapshots, Present)
    assert [each["metadata"]["name"] for each in snapshots.value] == [mine]


async def test_an_object_that_cannot_be_read_says_which_field(bench: Bench) -> None:
    raw = bench.cache.get("SandboxSession", NAMESPACE, "quill")
    assert raw is not None
    broken = {**raw, "spec": {"sandboxRef": {"name": "coder"}, "ttlSeconds": "soon"}}
    bench.cache.put({**broken, "metadata": {**raw["metadata"], "resourceVersion": "999"}})
    world = await bench.session()
    assert world.invalid is not None
    assert "ttlSeconds" in world.invalid.message
    assert "soon" not in world.invalid.message
    assert world.session.spec.sandbox_ref.name == "coder"


async def test_a_status_that_another_version_wrote_hides_nothing_that_can_be_read(bench: Bench) -> None:
    """An operator of an older version must not take a session with archives for a new one."""
    raw = bench.cache.get("SandboxSession", NAMESPACE, "quill")
    assert raw is not None
    slot, stored = {"key": "f" * 32, "epoch": 3}, {"epoch": 3, "sequence": 1}
    status = {"phase": "Suspended", "stopReason": "OfALaterVersion", "slot": slot, "snapshot": stored, "conditions": 7}
    bench.cache.put({**raw, "status": status, "metadata": {**raw["metadata"], "resourceVersion": "999"}})
    bench.list_all("SandboxSession")
    world = await bench.session()
    assert world.invalid is not None
    assert "OfALaterVersion" not in world.invalid.message
    seen = world.session.status
    assert seen.slot is not None
    assert (seen.slot.key, seen.slot.epoch, seen.phase, seen.stop_reason) == ("f" * 32, 3, "Suspended", None)
    assert seen.snapshot is not None
    assert plan_session(world).status is None, "what may be hidden is not written over"


@pytest.mark.parametrize("status", [None, {}, {"slot": "none"}, {"slot": {"epoch": -1}}])
async def test_a_status_without_anything_readable_is_an_empty_one(bench: Bench, status: Any) -> None:
    raw = bench.cache.get("SandboxSession", NAMESPACE, "quill")
    assert raw is not None
    spec = {"sandboxRef": {"name": "coder"}, "ttlSeconds": "soon"}
    broken = {**raw, "spec": spec, "status": status}
    bench.cache.put({**broken, "metadata": {**raw["metadata"], "resourceVersion": "999"}})
    assert (await bench.session()).session.status == SandboxSessionStatus()


async def test_a_squatter_is_looked_at_only_when_a_create_met_it_and_until_it_goes(bench: Bench) -> None:
    status = {"phase": "Starting", "slot": {"key": "abc", "epoch": 2}}
    raw = bench.cache.get("SandboxSession", NAMESPACE, "quill")
    assert raw is not None
    bench.cache.put({**raw, "status": status, "metadata": {**raw["metadata"], "resourceVersion": "998"}})
    name = names.pod_name("quill", raw["metadata"]["uid"], 2)
    squatter = bench.cluster.objects.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": NAMESPACE, "name": name}, "spec": {}}
    )
    assert (await bench.session()).squatter == ABSENT, "nobody has met it yet"
    reference = Reference("v1", "Pod", NAMESPACE, name)
    bench.memory.suspects.put(reference, squatter["metadata"]["uid"])
    found = (await bench.session()).squatter
    assert isinstance(found, Present)
    assert found.value["metadata"]["uid"] == squatter["metadata"]["uid"]
    bench.cluster.objects.vanish(reference)
    assert (await bench.session()).squatter == ABSENT
    assert bench.memory.suspects.get(reference) is None


async def test_a_foreign_policy_under_our_name_is_a_squatter_of_the_sandbox(bench: Bench) -> None:
    sandbox = bench.cache.get("AgentSandbox", NAMESPACE, "coder")
    assert sandbox is not None
    name = names.sandbox_object_name("coder", sandbox["metadata"]["uid"])
    metadata = {"namespace": NAMESPACE, "name": name}
    bench.cluster.objects.create(
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": {}}
    )
    view = await bench.observer.sandbox(NAMESPACE, "coder")
    assert view is not None
    assert view.world.policy == ABSENT
    assert [each["kind"] for each in view.world.squatters] == ["NetworkPolicy"]
    assert view.world.service_account == ABSENT


async def test_a_read_that_fails_is_unknown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Reference) -> Any:
        raise UnavailableError("request 4711 failed at 12:00")

    monkeypatch.setattr(bench.cluster, "get", fail)
    view = await bench.observer.sandbox(NAMESPACE, "coder")
    assert view is not None
    assert isinstance(view.world.policy, Unknown)
    assert "4711" not in view.world.policy.why, "reasons hold no numbers of requests"
    await bench.facts.refresh()
    assert isinstance(bench.facts.current().mover_address, Unknown)


async def test_an_ending_namespace_is_noticed_and_not_asked_for_without_reason(bench: Bench) -> None:
    assert not (await bench.session()).namespace_terminating
    bench.memory.ending.put(NAMESPACE, Ending(bench.clock.monotonic()))
    assert not (await bench.session()).namespace_terminating, "it is asked for, and is not ending"
    reference = Reference("v1", "Namespace", "", NAMESPACE)
    bench.cluster.objects.change(reference, lambda each: each["metadata"].update(finalizers=["example.com/stays"]))
    bench.cluster.objects.delete(reference)
    bench.memory.ending.put(NAMESPACE, Ending(bench.clock.monotonic()))
    assert (await bench.session()).namespace_terminating


async def test_the_installation_knows_where_things_are(bench: Bench) -> None:
    for name, namespace, address in ((names.MOVER_SERVICE, HOME, "10.96.0.5"), ("kubernetes", "default", "10.96.0.1")):
        if namespace == "default":
            bench.cluster.add_namespace("default")
        metadata = {"namespace": namespace, "name": name}
        spec = {"clusterIP": address}
        bench.cluster.objects.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        bench.cache.put(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "namespace": namespace,
                    "name": f"{name}-x",
                    "uid": name,
                    "resourceVersion": "5",
                    "labels": {"kubernetes.io/service-name": name},
                },
                "ports": [{"port": 6443}],
                "endpoints": [
                    {"addresses": ["172.31.0.9"], "conditions": {"ready": False, "serving": True}},
                    {"addresses": ["172.31.0.3"], "conditions": {"ready": True}},
                    {"addresses": ["172.31.0.2"], "conditions": {"ready": True}},
                ],
            }
        )
    node = {"addresses": [{"type": "InternalIP", "address": "172.31.0.2"}, {"type": "Hostname", "address": "n1"}]}
    metadata = {"name": "n1", "uid": "n1", "resourceVersion": "6"}
    bench.cache.replace_all("Node", [{"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": node}], "7")
    bench.cache._listed["EndpointSlice"] = 0
    await bench.facts.refresh()
    facts = bench.facts.current()
    assert facts.mover_address == Present("10.96.0.5:7443")
    assert facts.mover_canary == Present(("172.31.0.2", 7445))
    expected = (("10.96.0.1", 443), ("172.31.0.2", 6443), ("172.31.0.3", 6443))
    assert facts.api_server == Present(expected)
    assert facts.node_addresses == Present(("172.31.0.2",))
    assert bench.facts.mover_operators() == ("172.31.0.2:7444", "172.31.0.3:7444", "172.31.0.9:7444")


async def test_one_gather_asks_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions of a pass overlap: together they take as long as the slowest."""
    together = asyncio.Barrier(2)

    async def history(_store: str, _slot: str) -> SlotHistory:
        await asyncio.wait_for(together.wait(), 1)
        return SlotHistory(None, None)

    async def get(reference: Reference) -> Any:
        await asyncio.wait_for(together.wait(), 1)
        return bench.cluster.objects.get(reference)

    monkeypatch.setattr(bench.movers, "history", history)
    monkeypatch.setattr(bench.cluster, "get", get)
    bench.memory.ending.put(NAMESPACE, Ending(bench.clock.monotonic()))
    assert (await bench.session()).history == Present(SlotHistory(None, None))
