"""Whole sweeps over the fake API server: what they read, what they delete, and what they say of it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY

from sandhold import names
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.sweep import survey
from sandhold.desired.orphans import Outcome
from sandhold.desired.plan import Reference
from sandhold.desired.world import Keeper, Kept, Present, Unknown
from sandhold.errors import InvalidError, UnavailableError
from sandhold.handlers.sweeper import Sweeper, SweepReport
from sandhold.settings import OperatorSettings
from testkit import worlds
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.leftovers import INSTALLATION, KINDS, WEBUI, Case, a_leftover
from testkit.object_store import Document, reference_to

SETTINGS = OperatorSettings(namespace="sandhold-system", pod_name="operator-1", keeper_image="keeper:1")


class FaultyDoor:
    """A door on which reads can fail, and which writes down what was asked of it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.fails: Callable[[str, str], Exception | None] = lambda _verb, _kind: None
        self.asked: list[tuple[str, str, str]] = []
        self.deletions: list[tuple[Reference, str, str | None, int | None]] = []

    def _ask(self, verb: str, kind: str, what: str) -> None:
        self.asked.append((verb, kind, what))
        error = self.fails(verb, kind)
        if error is not None:
            raise error

    async def get(self, reference: Reference) -> Mapping[str, Any]:
        self._ask("get", reference.kind, reference.name)
        return await self._cluster.get(reference)

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        self._ask("list", kind, selector or "")
        return await self._cluster.list(api_version, kind, namespace, selector)

    async def delete(
        self, reference: Reference, uid: str, resource_version: str | None = None, grace_seconds: int | None = None
    ) -> None:
        self._ask("delete", reference.kind, reference.name)
        self.deletions.append((reference, uid, resource_version, grace_seconds))
        await self._cluster.delete(reference, uid, resource_version, grace_seconds)

    async def create(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._cluster.create(document)

    async def apply(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError

    async def replace(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> Mapping[str, Any]:
        raise NotImplementedError


class Yard:
    """A cluster with leftovers, and a sweeper."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock)
        self.door = FaultyDoor(self.cluster)
        self.leads = True
        self.keepers: dict[str, Keeper] = {}
        for namespace in (worlds.NAMESPACE, "sandhold-system"):
            self.cluster.add_namespace(namespace)
        self.sweeper = self.new_sweeper()

    def new_sweeper(self) -> Sweeper:
        return Sweeper(
            door=self.door,
            recorder=Recorder(self.door, "operator-1", self.clock.monotonic),
            settings=SETTINGS,
            installation_id=lambda: INSTALLATION,
            leads=lambda: self.leads,
            keepers=lambda: self.keepers,
            clock=self.clock,
            monotonic=self.clock.monotonic,
        )

    def put(self, document: Document) -> Reference:
        self.cluster.objects.create(document)
        return reference_to(document)

    def is_there(self, reference: Reference) -> bool:
        found = self.cluster.objects.look(reference)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    async def sweep(self, *, seconds: float = 601, dry_run: bool = False) -> SweepReport:
        self.clock.advance(seconds)
        return await self.sweeper.sweep_once(dry_run=dry_run)

    async def sweep_thrice(self) -> SweepReport:
        """Once to see, once to have seen it twice, and once more for whatever might come late."""
        await self.sweep()
        await self.sweep()
        return await self.sweep()

    def events(self) -> list[Document]:
        return self.cluster.objects.all("Event")


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def test_a_pod_that_would_take_its_work_along_stays_until_it_would_not(yard: Yard) -> None:
    target = yard.put(a_leftover())
    uid = yard.cluster.objects.get(target)["metadata"]["uid"]
    yard.keepers[uid] = worlds.a_keeper("Open", kept=Kept(0, 0))
    report = await yard.sweep_thrice()
    assert (report.plan.verdicts[0].outcome, yard.is_there(target)) == (Outcome.WORK_STRANDED, True)
    del yard.keepers[uid]
    await yard.sweep_thrice()
    assert not yard.is_there(target)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_second_sweep_collects_with_preconditions_and_the_pods_own_grace(yard: Yard, kind: str) -> None:
    target = yard.put(a_leftover(kind))
    stored = yard.cluster.objects.get(target)["metadata"]
    first = await yard.sweep()
    assert (first.plan.verdicts[0].outcome, yard.is_there(target)) == (Outcome.FIRST_SEEN, True)
    second = await yard.sweep()
    assert [one.result for one in second.collected] == ["Collected"]
    assert yard.door.deletions == [(target, stored["uid"], stored["resourceVersion"], None)]
    assert not yard.is_there(target)
    third = await yard.sweep()
    assert third.collected == ()


async def test_the_evidence_stands_in_event_log_and_metric(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sandhold")
    target = yard.put(a_leftover())
    before = REGISTRY.get_sample_value("sandhold_sweep_objects_total", {"kind": "Pod", "outcome": "Collected"}) or 0
    await yard.sweep_thrice()
    after = REGISTRY.get_sample_value("sandhold_sweep_objects_total", {"kind": "Pod", "outcome": "Collected"})
    assert after == before + 1
    (event,) = yard.events()
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("OrphanCollected", "Warning", target.name)
    assert "SandboxSession" in event["note"]
    assert worlds.SESSION_UID in event["note"]
    lines = [record for record in caplog.records if record.getMessage() == "an orphan"]
    assert [vars(line)["outcome"] for line in lines] == ["Collected"]


async def test_an_owner_that_is_there_keeps_what_is_its_own_without_a_read_of_it(yard: Yard) -> None:
    session = {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSession",
        "metadata": {"namespace": worlds.NAMESPACE, "name": "quill"},
        "spec": {"sandboxRef": {"name": "coder"}},
    }
    made = yard.cluster.objects.create(session)
    document = a_leftover()
    document["metadata"]["labels"][names.LABEL_SESSION_UID] = made["metadata"]["uid"]
    owner = names.owner_value("SandboxSession", worlds.NAMESPACE, "quill", made["metadata"]["uid"])
    document["metadata"]["annotations"][names.ANNOTATION_OWNER] = owner
    document["metadata"]["name"] = names.pod_name("quill", made["metadata"]["uid"], 1)
    target = yard.put(document)
    report = await yard.sweep_thrice()
    assert report.plan.verdicts[0].outcome is Outcome.OWNED
    assert yard.is_there(target)
    assert not [each for each in yard.door.asked if each[0] == "get"]
    # Another session took its name.
    yard.cluster.objects.vanish(reference_to(session))
    yard.cluster.objects.create(session)
    await yard.sweep_thrice()
    assert not yard.is_there(target)


async def test_a_cluster_that_lost_its_owners_for_a_moment_loses_nothing(yard: Yard) -> None:
    """One sweep saw it as an orphan, the next does not, the one after that begins anew."""
    target = yard.put(a_leftover())
    await yard.sweep()
    yard.door.fails = lambda _verb, kind: UnavailableError("gone") if kind == "SandboxSession" else None
    report = await yard.sweep()
    assert report.plan.verdicts[0].outcome is Outcome.OWNER_UNKNOWN
    yard.door.fails = lambda _verb, _kind: None
    report = await yard.sweep()
    assert report.plan.verdicts[0].outcome is Outcome.FIRST_SEEN
    assert yard.is_there(target)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failing", ["get SandboxSession", "get AgentSandbox", "get Namespace", "list Pod"])
async def test_a_read_that_fails_keeps_everything_that_needs_it(yard: Yard, kind: str, failing: str) -> None:
    owner = "SandboxSession" if kind == "Pod" else "AgentSandbox"
    needed = failing in (f"get {owner}", "get Namespace", "list Pod")
    target = yard.put(a_leftover(kind))
    yard.door.fails = lambda verb, read: UnavailableError("no answer") if f"{verb} {read}" == failing else None
    await yard.sweep_thrice()
    assert yard.is_there(target) is needed


async def test_a_kind_that_cannot_be_listed_is_told_and_the_others_go_on(yard: Yard) -> None:
    pod, policy = yard.put(a_leftover("Pod")), yard.put(a_leftover("NetworkPolicy", 7))
    yard.door.fails = lambda verb, kind: (
        UnavailableError("no answer") if (verb, kind) == ("list", "NetworkPolicy") else None
    )
    report = await yard.sweep_thrice()
    assert set(report.plan.unread) == {"NetworkPolicy"}
    assert (yard.is_there(pod), yard.is_there(policy)) == (False, True)


@pytest.mark.parametrize("spoil", WEBUI.values(), ids=WEBUI)
async def test_webui_pods_stay(yard: Yard, spoil: Callable[[Case], object]) -> None:
    case = Case(a_leftover())
    spoil(case)
    target = yard.put(case.document)
    report = await yard.sweep_thrice()
    assert yard.is_there(target)
    assert [each for each in report.plan.verdicts if each.is_orphan] == []


async def test_the_list_leaves_webui_pods_and_foreign_installations_out(yard: Yard) -> None:
    for number, label in enumerate((names.LABEL_KIND, names.LABEL_FOREIGN_WEBUI), 1):
        case = Case(a_leftover("Pod", number))
        case.set_label(label, "webui")
        yard.put(case.document)
    foreign = Case(a_leftover("Pod", 3))
    foreign.set_label(names.LABEL_INSTALLATION, "another")
    target = yard.put(foreign.document)
    report = await yard.sweep_thrice()
    assert report.plan.verdicts == ()
    assert yard.is_there(target)


async def test_walls_and_account_stay_while_any_pod_stands_behind_them(yard: Yard) -> None:
    """An interactive pod counts as well, and so does one that is nobody's orphan."""
    walls = [yard.put(a_leftover(kind)) for kind in KINDS if kind != "Pod"]
    case = Case(a_leftover("Pod", 4))
    case.set_label(names.LABEL_SANDBOX_UID, worlds.SANDBOX_UID)
    case.set_label(names.LABEL_KIND, "webui")
    pod = yard.put(case.document)
    report = await yard.sweep_thrice()
    assert all(yard.is_there(each) for each in walls)
    assert {each.outcome for each in report.plan.verdicts} == {Outcome.PODS_BEHIND}
    yard.cluster.objects.vanish(pod)
    await yard.sweep_thrice()
    assert not any(yard.is_there(each) for each in walls)


async def test_a_namespace_that_is_being_deleted_is_left_to_kubernetes(yard: Yard) -> None:
    target = yard.put(a_leftover())
    home = Reference("v1", "Namespace", "", worlds.NAMESPACE)
    yard.cluster.objects.change(home, lambda each: each["metadata"].update(finalizers=["kubernetes"]))
    uid = yard.cluster.objects.get(home)["metadata"]["uid"]
    yard.cluster.objects.delete(home, uid)
    report = await yard.sweep_thrice()
    assert report.plan.verdicts[0].outcome is Outcome.NAMESPACE_ENDING
    assert yard.is_there(target)


async def test_an_object_that_changed_since_it_was_judged_is_left_for_the_next_sweep(yard: Yard) -> None:
    target = yard.put(a_leftover())
    await yard.sweep()

    def change(verb: str, _kind: str) -> None:
        if verb == "delete":
            yard.cluster.objects.change(target, lambda each: each["metadata"]["annotations"].update(a="b"))

    yard.door.fails = change
    report = await yard.sweep()
    assert [one.result for one in report.collected] == ["Changed"]
    assert yard.is_there(target)
    yard.door.fails = lambda _verb, _kind: None
    assert [one.result for one in (await yard.sweep()).collected] == ["Collected"]


async def test_a_dry_sweep_deletes_nothing_and_says_the_same(yard: Yard) -> None:
    target = yard.put(a_leftover())
    await yard.sweep(dry_run=True)
    report = await yard.sweep(dry_run=True)
    assert [each.sighting.reference for each in report.plan.collect] == [target]
    assert (report.collected, yard.door.deletions, yard.events()) == ((), [], [])


async def test_the_row_is_not_handed_on_to_another_process(yard: Yard) -> None:
    target = yard.put(a_leftover())
    await yard.sweep()
    yard.sweeper = yard.new_sweeper()
    await yard.sweep()
    assert yard.is_there(target)


async def test_a_sweep_that_did_not_come_to_its_end_breaks_the_row(yard: Yard) -> None:
    target = yard.put(a_leftover())
    await yard.sweep()
    yard.door.fails = lambda _verb, _kind: RuntimeError("the process is in trouble")
    with pytest.raises(RuntimeError):
        await yard.sweep()
    yard.door.fails = lambda _verb, _kind: None
    report = await yard.sweep()
    assert report.plan.verdicts[0].outcome is Outcome.FIRST_SEEN
    assert yard.is_there(target)


async def test_who_does_not_lead_deletes_nothing(yard: Yard) -> None:
    target = yard.put(a_leftover())
    await yard.sweep()
    yard.leads = False
    with pytest.raises(UnavailableError, match="Lease"):
        await yard.sweep()
    assert yard.is_there(target)


async def test_the_breaker_says_so_on_the_operators_own_pod(yard: Yard) -> None:
    own = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "sandhold-system", "name": "operator-1"}}
    yard.put(own)
    targets = [yard.put(a_leftover("Pod", number)) for number in range(1, 9)]
    report = await yard.sweep_thrice()
    assert report.plan.stopped is not None
    assert all(yard.is_there(each) for each in targets)
    assert {event["reason"] for event in yard.events()} == {"SweepStopped"}
    assert {event["regarding"]["name"] for event in yard.events()} == {"operator-1"}
    assert REGISTRY.get_sample_value("sandhold_sweep_breaker_open") == 1
    for target in targets[3:]:
        yard.cluster.objects.vanish(target)
    await yard.sweep()
    assert not any(yard.is_there(each) for each in targets)
    assert REGISTRY.get_sample_value("sandhold_sweep_breaker_open") == 0


async def test_a_sweep_without_an_installation_id_looks_at_nothing(yard: Yard) -> None:
    with pytest.raises(InvalidError, match="installation id"):
        await survey(yard.door, "")
    assert yard.door.asked == []


async def test_more_reads_than_a_sweep_may_make_are_unknown(yard: Yard) -> None:
    for number in range(1, 5):
        yard.put(a_leftover("Pod", number))
    found = await survey(yard.door, INSTALLATION, most_reads=3)
    assert sum(isinstance(each, Unknown) for each in found.owners.values()) == 1
    assert found.namespaces == {worlds.NAMESPACE: Present(value=False)}
