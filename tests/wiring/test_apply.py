"""Plans carried out on a real API server: idempotent, tested against what was observed, quiet when nothing is new."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandhold import names
from sandhold.cluster.apply import Applier, Outcome
from sandhold.cluster.cache import Cache
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.history import Histories
from sandhold.cluster.kinds import reference_to
from sandhold.cluster.memory import Memory
from sandhold.cluster.orders import Orders
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.writes import Writes
from sandhold.desired.plan import Apply, Create, Delete, Event, Fence, Order, Plan, Reference, WriteStatus
from sandhold.desired.world import Keeper, KubeObject, SlotHistory, StoreTrouble, Unknown
from sandhold.errors import ConflictError, InvalidError, UnavailableError
from testkit.api_server import ApiServer

INSTALLATION = "test-installation"


class NoMovers:
    """A mover side that records what it was asked."""

    def __init__(self) -> None:
        self.orders: list[Mapping[str, Any]] = []
        self.fences: list[Fence] = []
        self.known: dict[str, Keeper] = {}
        self.trouble: StoreTrouble | None = None

    def keepers(self) -> Mapping[str, Keeper]:
        return self.known

    def subscribe(self, _: Any) -> None:
        raise NotImplementedError

    async def history(self, _store: str, _slot: str) -> SlotHistory | StoreTrouble | Unknown:
        return SlotHistory(None, None)

    async def fence(self, fence: Fence) -> StoreTrouble | None:
        self.fences.append(fence)
        return self.trouble

    async def order(self, _: str, order: Mapping[str, Any]) -> None:
        self.orders.append(order)


class CountingDoor(KubeDoor):
    """The real door, counting writes."""

    writes = 0

    async def _send(self, request: Any) -> dict[str, Any]:
        self.writes += request.method != "GET"
        return await super()._send(request)


class Bench:
    """An applier on a real server, and one session that plans are for."""

    def __init__(self, door: CountingDoor, namespace: str) -> None:
        self.door = door
        self.namespace = namespace
        self.cache = Cache()
        self.memory = Memory()
        self.movers = NoMovers()
        self.leads: Callable[[int], bool] = lambda _: True
        """Whether it leads, after so many writes."""
        self.applier = self.fresh_applier()
        self.subject: KubeObject = {}

    def fresh_applier(self) -> Applier:
        """As after a restart: nothing remembered but the cache."""
        orders = Orders(self.movers, Histories(self.movers), self.memory, Ed25519PrivateKey.generate())
        writes = Writes(self.door, self.cache, self.memory)
        recorder = Recorder(self.door, "test")
        return Applier(self.cache, self.memory, writes, orders, recorder, leads=lambda: self.leads(self.door.writes))

    async def setup(self) -> None:
        self.subject = await self.door.create(
            {
                "apiVersion": names.API_VERSION,
                "kind": "SandboxSession",
                "metadata": {"namespace": self.namespace, "name": "quill"},
                "spec": {"sandboxRef": {"name": "coder"}},
            }
        )
        self.cache.put(self.subject)
        self.door.writes = 0

    @property
    def session(self) -> KubeObject:
        found = self.cache.get("SandboxSession", self.namespace, "quill")
        assert found is not None
        return found

    async def apply(self, plan: Plan) -> Outcome:
        return await self.applier.apply(self.session, plan, datetime.now(UTC))

    def labels(self) -> dict[str, str]:
        return {
            names.LABEL_INSTALLATION: INSTALLATION,
            names.LABEL_SESSION_UID: self.subject["metadata"]["uid"],
            names.LABEL_SANDBOX: "coder",
        }

    def pod(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self.namespace,
                "name": "quill-1",
                "labels": self.labels(),
                "annotations": {names.ANNOTATION_EPOCH: "1"},
            },
            "spec": {"containers": [{"name": "agent", "image": "example.invalid/agent"}]},
        }

    def policy(self) -> dict[str, Any]:
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"namespace": self.namespace, "name": "coder-1", "labels": self.labels()},
            "spec": {
                "podSelector": {"matchLabels": {names.LABEL_SANDBOX: "coder"}},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [{"ports": [{"port": 7443}]}],
            },
        }


@pytest.fixture
async def bench(configuration: Any, namespace: str) -> AsyncIterator[Bench]:
    door = CountingDoor(configuration)
    made = Bench(door, namespace)
    await made.setup()
    yield made
    await door.close()


async def test_a_whole_plan_and_then_nothing(bench: Bench) -> None:
    status = {"phase": "Starting", "slot": {"key": "abc", "epoch": 1}}
    plan = Plan(
        finalizer_add=names.FINALIZER_WORKSPACE,
        writes=(Apply(bench.policy()), Create(bench.pod())),
        status=status,
        events=(Event("Normal", "Starting", "the pod was asked for"),),
    )
    outcome = await bench.apply(plan)
    assert (outcome.applied, outcome.wrote_status, outcome.again) == (2, True, True)
    assert bench.session["metadata"]["finalizers"] == [names.FINALIZER_WORKSPACE]
    assert bench.session["status"] == status
    assert bench.door.writes == 5
    events, _ = await bench.door.list("events.k8s.io/v1", "Event", bench.namespace)
    assert [(e["reason"], e["note"], e["regarding"]["name"]) for e in events] == [
        ("Starting", "the pod was asked for", "quill")
    ]
    again = await bench.apply(plan)
    assert (again.applied, again.wrote_status, again.again) == (0, False, False)
    assert bench.door.writes == 5, "a plan that wants what the world has writes nothing"


async def test_the_same_pod_made_by_an_earlier_process_is_success(bench: Bench) -> None:
    made = await bench.door.create(bench.pod())
    outcome = await bench.apply(Plan(writes=(Create(bench.pod()),)))
    assert outcome.again
    cached = bench.cache.get("Pod", bench.namespace, "quill-1")
    assert cached is not None
    assert cached["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_foreign_pod_under_our_name_is_noted_and_not_touched(bench: Bench) -> None:
    foreign = bench.pod()
    foreign["metadata"]["labels"] = {"app": "somebody-elses"}
    before = await bench.door.create(foreign)
    with pytest.raises(ConflictError, match="not ours"):
        await bench.apply(Plan(writes=(Create(bench.pod()),), status={"phase": "Ready"}))
    assert bench.memory.suspects.get(reference_to(before)) == before["metadata"]["uid"]
    assert await bench.door.get(reference_to(before)) == before
    assert "status" not in bench.session, "the first failure ends the pass"


async def test_labels_that_somebody_else_wrote_do_not_make_a_pod_ours(bench: Bench, api_server: ApiServer) -> None:
    api_server.request("POST", f"/api/v1/namespaces/{bench.namespace}/pods?fieldManager=kubectl", bench.pod())
    with pytest.raises(ConflictError, match="not ours"):
        await bench.apply(Plan(writes=(Create(bench.pod()),)))


async def test_an_apply_does_not_take_a_foreign_policy_over(bench: Bench, api_server: ApiServer) -> None:
    foreign = bench.policy()
    foreign["metadata"]["labels"] = {}
    path = f"/apis/networking.k8s.io/v1/namespaces/{bench.namespace}/networkpolicies"
    before = api_server.request("POST", path, foreign)
    with pytest.raises(ConflictError, match="not ours"):
        await bench.apply(Plan(writes=(Apply(bench.policy()),)))
    after = api_server.request("GET", f"{path}/coder-1")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_an_apply_mends_what_somebody_changed_and_costs_nothing_otherwise(
    bench: Bench, api_server: ApiServer
) -> None:
    plan = Plan(writes=(Apply(bench.policy()),))
    await bench.apply(plan)
    await bench.apply(plan)
    assert bench.door.writes == 1
    path = f"/apis/networking.k8s.io/v1/namespaces/{bench.namespace}/networkpolicies/coder-1"
    harmless = api_server.request("PATCH", path, {"metadata": {"annotations": {"note": "hello"}}})
    bench.cache.put(harmless)
    await bench.apply(plan)
    assert bench.door.writes == 1, "an addition of somebody else's is no difference"
    bench.cache.put(api_server.request("PATCH", path, {"spec": {"policyTypes": ["Ingress"]}}))
    outcome = await bench.apply(plan)
    assert outcome.again
    live = api_server.request("GET", path)
    assert live["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert live["metadata"]["annotations"] == {"note": "hello"}


async def test_after_a_restart_an_unchanged_apply_changes_nothing(bench: Bench) -> None:
    plan = Plan(writes=(Apply(bench.policy()),))
    await bench.apply(plan)
    bench.applier = bench.fresh_applier()
    outcome = await bench.apply(plan)
    assert not outcome.again


async def test_a_status_write_on_a_stale_object_is_a_conflict_and_mends_the_cache(
    bench: Bench, api_server: ApiServer
) -> None:
    path = f"/apis/{names.API_VERSION}/namespaces/{bench.namespace}/sandboxsessions/quill"
    changed = api_server.request("PATCH", path, {"metadata": {"annotations": {"a": "b"}}})
    with pytest.raises(ConflictError):
        await bench.apply(Plan(status={"phase": "Ready"}))
    assert bench.session["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    outcome = await bench.apply(Plan(status={"phase": "Ready"}))
    assert outcome.wrote_status


async def test_a_write_never_hits_a_later_object_of_the_same_name(bench: Bench, api_server: ApiServer) -> None:
    path = f"/apis/{names.API_VERSION}/namespaces/{bench.namespace}/sandboxsessions"
    old = bench.session
    api_server.request("DELETE", f"{path}/quill")
    body = {"apiVersion": names.API_VERSION, "kind": "SandboxSession"}
    spec = {"sandboxRef": {"name": "coder"}}
    later = api_server.request("POST", path, {**body, "metadata": {"name": "quill"}, "spec": spec})
    for plan in (Plan(finalizer_add=names.FINALIZER_WORKSPACE), Plan(status={"phase": "Failed"})):
        with pytest.raises(ConflictError):
            await bench.applier.apply(old, plan, datetime.now(UTC))
    live = api_server.request("GET", f"{path}/quill")
    assert live["metadata"]["resourceVersion"] == later["metadata"]["resourceVersion"]


async def test_a_delete_is_by_uid_once_and_gone_is_success(bench: Bench) -> None:
    made = await bench.door.create(bench.pod())
    reference = reference_to(made)
    other = await bench.apply(Plan(writes=(Delete(reference, "another-uid", "test"),)))
    assert other.deleted == 0
    assert (await bench.door.get(reference))["metadata"]["uid"] == made["metadata"]["uid"]
    wanted = Plan(writes=(Delete(reference, made["metadata"]["uid"], "test", grace_seconds=0),))
    assert (await bench.apply(wanted)).deleted == 1
    before = bench.door.writes
    assert (await bench.apply(wanted)).again is False
    assert bench.door.writes == before, "asked a moment ago is enough"


async def test_the_cache_learns_from_a_delete_that_found_nothing(bench: Bench) -> None:
    made = await bench.door.create(bench.pod())
    bench.cache.put(made)
    await bench.door.delete(reference_to(made), made["metadata"]["uid"], grace_seconds=0)
    outcome = await bench.apply(Plan(writes=(Delete(reference_to(made), made["metadata"]["uid"], "test"),)))
    assert outcome.again
    assert bench.cache.get("Pod", bench.namespace, "quill-1") is None


async def test_the_finalizer_goes_last_and_the_object_with_it(bench: Bench, api_server: ApiServer) -> None:
    await bench.apply(Plan(finalizer_add=names.FINALIZER_WORKSPACE))
    path = f"/apis/{names.API_VERSION}/namespaces/{bench.namespace}/sandboxsessions/quill"
    bench.cache.put(api_server.request("DELETE", path))
    await bench.apply(Plan(finalizer_remove=names.FINALIZER_WORKSPACE))
    assert bench.cache.get("SandboxSession", bench.namespace, "quill") is None


async def test_only_our_finalizer_is_removed(bench: Bench, api_server: ApiServer) -> None:
    path = f"/apis/{names.API_VERSION}/namespaces/{bench.namespace}/sandboxsessions/quill"
    theirs = "example.com/theirs"
    bench.cache.put(api_server.request("PATCH", path, {"metadata": {"finalizers": [theirs]}}))
    await bench.apply(Plan(finalizer_add=names.FINALIZER_WORKSPACE))
    assert bench.session["metadata"]["finalizers"] == [theirs, names.FINALIZER_WORKSPACE]
    await bench.apply(Plan(finalizer_remove=names.FINALIZER_WORKSPACE))
    assert bench.session["metadata"]["finalizers"] == [theirs]


async def test_a_snapshot_gets_its_status_in_the_pass_that_made_it(bench: Bench) -> None:
    snapshot = {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSnapshot",
        "metadata": {"namespace": bench.namespace, "name": "quill-abc-1-1", "labels": bench.labels()},
        "spec": {"sessionRef": {"name": "quill"}},
    }
    reference = Reference(names.API_VERSION, "SandboxSnapshot", bench.namespace, "quill-abc-1-1")
    plan = Plan(writes=(Create(snapshot), WriteStatus(reference, {"phase": "Ready", "epoch": 1})))
    outcome = await bench.apply(plan)
    assert outcome.applied == 2
    assert (await bench.door.get(reference))["status"] == {"phase": "Ready", "epoch": 1}
    assert not (await bench.apply(plan)).again


async def test_a_status_that_the_server_prunes_is_written_once(bench: Bench) -> None:
    plan = Plan(status={"phase": "Ready", "ofANewerVersion": 1})
    assert (await bench.apply(plan)).wrote_status
    assert not (await bench.apply(plan)).wrote_status


async def test_a_refused_pod_is_remembered_for_the_next_world(bench: Bench) -> None:
    wrong = bench.pod()
    wrong["spec"]["containers"][0]["image"] = ""
    with pytest.raises(InvalidError):
        await bench.apply(Plan(writes=(Create(wrong),)))
    uid = bench.subject["metadata"]["uid"]
    refused = bench.memory.refused.get(uid)
    assert refused is not None
    assert refused.code == "sandbox_create_failed"
    assert "image" in refused.message
    await bench.apply(Plan(writes=(Create(bench.pod()),)))
    assert bench.memory.refused.get(uid) is None


async def test_a_quota_says_so(bench: Bench, api_server: ApiServer) -> None:
    path = f"/api/v1/namespaces/{bench.namespace}/resourcequotas"
    api_server.request("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    # No controller fills in the quota's status here, and admission goes by the status.
    status = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    api_server.request("PATCH", f"{path}/none/status", status)
    with pytest.raises(Exception, match="quota"):
        await bench.apply(Plan(writes=(Create(bench.pod()),)))
    refused = bench.memory.refused.get(bench.subject["metadata"]["uid"])
    assert refused is not None
    assert refused.code == "quota_exceeded"


async def test_an_order_is_given_once_and_again_when_its_keeper_changed(bench: Bench) -> None:
    order = Order("pod-1", "end", {"graceSeconds": 10})
    first, second = await bench.apply(Plan(calls=(order,))), await bench.apply(Plan(calls=(order,)))
    assert (first.calls, second.calls) == (1, 0)
    assert second.wake_after is not None, "a repeated order is looked at again when it may be repeated"
    bench.movers.known["pod-1"] = Keeper(connected=True, report=None)
    await bench.apply(Plan(calls=(order,)))
    assert bench.movers.orders == [{"verb": "end", "graceSeconds": 10}] * 2


async def test_a_grant_is_signed_and_its_expiry_makes_no_new_order(bench: Bench) -> None:
    grant = {
        "installation": INSTALLATION,
        "podUid": "pod-1",
        "slot": "abc",
        "epoch": 1,
        "verb": "archive",
        "store": "main",
        "sequence": 1,
        "maxBytes": 1,
        "maxFiles": 1,
    }
    for expires in (1000, 2000):
        order = Order("pod-1", "archive", {"sequence": 1}, grant={**grant, "expires": expires})
        await bench.apply(Plan(calls=(order,)))
    assert len(bench.movers.orders) == 1
    assert bench.movers.orders[0]["grant"].count(".") == 1
    with pytest.raises(InvalidError, match="epoch"):
        await bench.apply(Plan(calls=(Order("pod-2", "archive", {}, grant={**grant, "epoch": 0, "expires": 1}),)))


async def test_no_order_after_a_fence_that_failed(bench: Bench) -> None:
    fence = Fence("main", "abc", 1, None, "pod-1")
    plan = Plan(calls=(fence, Order("pod-1", "open", {"challenge": "c"})))
    bench.movers.trouble = StoreTrouble("snapshot_store_unavailable", "away", retryable=True)
    with pytest.raises(UnavailableError, match="away"):
        await bench.apply(plan)
    bench.movers.trouble = StoreTrouble("stale_generation", "a higher epoch", retryable=False)
    with pytest.raises(ConflictError, match="higher"):
        await bench.apply(plan)
    assert not bench.movers.orders
    bench.movers.trouble = None
    await bench.apply(plan)
    await bench.apply(plan)
    assert len(bench.movers.orders) == 1
    assert len(bench.movers.fences) == 3, "a fence that is known to stand is not asked for again"


async def test_an_event_that_cannot_be_written_fails_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: KubeObject) -> KubeObject:
        raise UnavailableError("no")

    await bench.apply(Plan(finalizer_add=names.FINALIZER_WORKSPACE))
    monkeypatch.setattr(bench.door, "create", refuse)
    event = Event("Warning", "Trouble", "something")
    await bench.apply(Plan(events=(event,), finalizer_remove=names.FINALIZER_WORKSPACE))
    assert not bench.session["metadata"].get("finalizers")


async def test_the_same_event_is_said_once_and_a_flood_is_cut_off(bench: Bench) -> None:
    same = Event("Warning", "Trouble", "something")
    for _ in range(3):
        await bench.apply(Plan(events=(same,)))
    await bench.apply(Plan(events=tuple(Event("Normal", "Flood", str(number)) for number in range(40))))
    events, _ = await bench.door.list("events.k8s.io/v1", "Event", bench.namespace)
    assert len([e for e in events if e["reason"] == "Trouble"]) == 1
    assert len([e for e in events if e["reason"] == "Flood"]) <= 20


@pytest.mark.parametrize("text", ["ä" * 1024, "x" + "磁盘已满" * 400, "x" * 5000, "\ud800", "two\nlines"])
async def test_an_event_of_any_text_is_one_that_the_server_takes(bench: Bench, text: str) -> None:
    """Its limit counts bytes, and what a webhook says may be of any language."""
    await bench.apply(Plan(events=(Event("Warning", "Trouble", text),)))
    (event,), _ = await bench.door.list("events.k8s.io/v1", "Event", bench.namespace)
    assert event["note"][:1] == text[:1].encode(errors="replace").decode()
    assert len(event["note"].encode()) <= 1024


@pytest.mark.parametrize("name", ["a" * 199 + "-b", "a" * 199 + ".b", "a" * 253])
async def test_an_object_of_any_name_has_events(bench: Bench, name: str) -> None:
    long = {**bench.subject, "metadata": {"namespace": bench.namespace, "name": name}}
    made = await bench.door.create({key: long[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    await Recorder(bench.door, "test").record(made, [Event("Warning", "Trouble", "something")], datetime.now(UTC))
    events, _ = await bench.door.list("events.k8s.io/v1", "Event", bench.namespace)
    assert [event["regarding"]["name"] for event in events] == [name]


async def test_an_ending_namespace_is_a_world_that_moved_on(bench: Bench, api_server: ApiServer) -> None:
    await bench.apply(Plan(finalizer_add=names.FINALIZER_WORKSPACE))
    api_server.request("DELETE", f"/api/v1/namespaces/{bench.namespace}")
    for write in (Create(bench.pod()), Apply(bench.policy())):
        bench.memory.ending.pop(bench.namespace)
        with pytest.raises(ConflictError, match="terminated"):
            await bench.apply(Plan(writes=(write,)))
        assert bench.memory.ending.get(bench.namespace) is not None, "the next world asks for the namespace"
    assert bench.memory.refused.get(bench.subject["metadata"]["uid"]) is None
    await bench.apply(Plan(events=(Event("Warning", "Late", "nobody hears this"),)))


@pytest.mark.parametrize("most", [0, 1, 2])
async def test_one_that_does_not_lead_any_more_stops_in_the_middle_of_a_plan(bench: Bench, most: int) -> None:
    """A process that slept over its Lease: another one leads, and may have decided otherwise."""
    bench.leads = lambda writes: writes < most
    plan = Plan(
        finalizer_add=names.FINALIZER_WORKSPACE,
        writes=(Create(bench.pod()),),
        calls=(Fence("main", "slot", 1, None, "pod"),),
        status={"phase": "Starting"},
    )
    with pytest.raises(UnavailableError, match="Lease"):
        await bench.apply(plan)
    assert bench.door.writes == most
    assert bench.movers.fences == []
