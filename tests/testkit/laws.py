"""The laws of a plan, each told once, independently of the code that keeps them: given a world, may this be planned?

A law raises AssertionError with a sentence. The property tests hold generated worlds and whole stories against them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

from sandhold import names
from sandhold.api.meta import moment
from sandhold.desired.plan import Apply, Create, Delete, Fence, Order, Plan, to_yaml
from sandhold.desired.sandbox import plan_sandbox
from sandhold.desired.session import plan_session
from sandhold.desired.situation import OVERDUE_SECONDS, SETTLE_SECONDS
from sandhold.desired.world import KubeObject, Present, SandboxWorld, SessionWorld, Unknown

World = SessionWorld | SandboxWorld


def decide(world: World) -> Plan:
    """The plan for a world of either kind."""
    return plan_session(world) if isinstance(world, SessionWorld) else plan_sandbox(world)


def pure(world: World) -> None:
    """Equal worlds give equal plans, byte for byte."""
    first, second = decide(world), decide(replace(world))
    assert first == second
    assert to_yaml(first) == to_yaml(second)


def honest(world: SessionWorld, plan: Plan) -> None:
    """Status mentions no object that is not in the world."""
    status = plan.status
    if status is None:
        return
    pods = {(pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in _pods(world)}
    said = (status.get("podName"), status.get("podUid"))
    before = (world.session.status.pod_name, world.session.status.pod_uid)
    is_kept = said == before and (not isinstance(world.pods, Present) or status["phase"] == "Stopping")
    assert said == (None, None) or said in pods or is_kept, f"status names pod {said}, which nobody saw"
    snapshot = status.get("snapshot") or {}
    seen = world.snapshots.value if isinstance(world.snapshots, Present) else ()
    last = world.session.status.snapshot
    known = {each["metadata"]["name"] for each in seen} | ({last.name} if last is not None else set())
    assert snapshot.get("name") in {None, *known}, f"status names snapshot {snapshot.get('name')}, which nobody saw"


def owning(world: World, plan: Plan) -> None:
    """No delete or apply targets an object that is not ours."""
    foreign = {each["metadata"]["uid"] for each in _foreign(world)}
    ours = {each["metadata"]["uid"]: each["metadata"]["name"] for each in _ours(world)}
    names_of_foreign = {(each["kind"], each["metadata"]["name"]) for each in _foreign(world) if "kind" in each}
    for write in plan.writes:
        if isinstance(write, Delete):
            assert write.uid not in foreign, f"delete of a foreign object {write.reference}"
            assert ours.get(write.uid) == write.reference.name, f"delete of an object that nobody saw {write.reference}"
        if isinstance(write, Apply | Create):
            target = (write.object["kind"], write.object["metadata"]["name"])
            assert target not in names_of_foreign, f"write over a foreign object {target}"


def walls_first(world: SessionWorld, plan: Plan) -> None:
    """No plan contains a pod unless the policy that selects it is in the world, whole."""
    for write in plan.writes:
        if isinstance(write, Create) and write.object["kind"] == "Pod":
            assert isinstance(world.policy, Present), "a pod without walls"
            selector = world.policy.value["spec"]["podSelector"]["matchLabels"]
            labels = write.object["metadata"]["labels"]
            assert selector.items() <= labels.items(), "a pod that its policy does not select"
            assert {"Ingress", "Egress"} == set(world.policy.value["spec"]["policyTypes"])
            assert "deletionTimestamp" not in world.policy.value["metadata"]


def nothing_lost(world: SessionWorld, plan: Plan) -> None:
    """No delete of a pod whose gate was or may have been opened, unless nothing can be lost with it."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in _pods(world)}
    for write in plan.writes:
        if isinstance(write, Delete) and write.reference.kind == "Pod":
            pod = by_uid[write.uid]
            assert not _may_have_run(world, pod) or _is_safe(world, pod), f"delete of work: {write.cause}"


def gate_kept(world: SessionWorld, plan: Plan) -> None:
    """No order to open unless the evidence for that very challenge holds, and the policy stands."""
    for call in plan.calls:
        if isinstance(call, Order) and call.verb == "open":
            keeper = world.keepers[call.pod_uid]
            report = keeper.report
            assert keeper.connected, "an order to a keeper that is not there"
            assert report is not None
            assert report.workspace_state == "Ready"
            assert report.evidence is not None
            assert call.arguments["challenge"] == report.challenge == report.evidence.challenge != ""
            assert _holds(report.evidence.runtime_version, report.evidence.probes, world, call.pod_uid)
            assert isinstance(world.policy, Present)


def fenced(world: SessionWorld, plan: Plan) -> None:
    """The fence comes before the first order to open of its epoch, and only for the epoch that status names."""
    slot = world.session.status.slot
    is_known = _fence_is_known(world, slot.epoch) if slot is not None else False
    for call in plan.calls:
        if isinstance(call, Fence):
            assert slot is not None
            assert call.epoch == slot.epoch
            is_known = True
        if isinstance(call, Order) and call.verb == "open":
            assert is_known or not _keeps_archives(world), "the gate is opened before its fence is written"


def standing(world: SessionWorld, plan: Plan) -> None:
    """Standing grants go to the open keeper of this session's epoch, for its slot and epoch, and not for ever."""
    slot = world.session.status.slot
    for call in plan.calls:
        if not isinstance(call, Order) or call.verb not in ("keep", "guard"):
            continue
        pod = next(pod for pod in _ours(world) if pod["metadata"]["uid"] == call.pod_uid)
        report = world.keepers[call.pod_uid].report
        assert world.keepers[call.pod_uid].connected, "an order to a keeper that is not there"
        assert report is not None
        assert report.opened, "a keeper whose gate is shut holds nothing"
        assert "deletionTimestamp" not in pod["metadata"], "a pod that goes gets nothing new"
        assert slot is not None
        assert int(pod["metadata"]["annotations"][names.ANNOTATION_EPOCH]) == slot.epoch
        if call.verb == "keep":
            _held(world, call, (slot.key, slot.epoch))


def _held(world: SessionWorld, call: Order, place: tuple[str, int]) -> None:
    grant = call.grant
    assert grant is not None
    assert _keeps_archives(world), "a standing grant where nothing is archived"
    assert (grant["slot"], grant["epoch"]) == place, "a grant for another slot or epoch"
    assert (grant["podUid"], grant["verb"]) == (call.pod_uid, "archive")
    assert grant["installation"] == world.installation.id
    assert grant["final"] is call.arguments["final"]
    assert grant["expires"] == call.arguments["expires"]
    assert 0 < grant["expires"] - world.now.timestamp() <= 24 * 3600


def once(world: SessionWorld, plan: Plan) -> None:
    """A keeper that holds a final grant is not told to archive what it is about to archive by itself."""
    pods = {pod["metadata"]["uid"]: pod for pod in _pods(world)}
    for call in plan.calls:
        if isinstance(call, Order) and call.verb == "archive":
            report = world.keepers[call.pod_uid].report
            kept = report.kept if report is not None else None
            end = moment(pods[call.pod_uid]["metadata"].get("deletionTimestamp"))
            grace = pods[call.pod_uid]["metadata"].get("deletionGracePeriodSeconds", 0)
            since = (world.now - end).total_seconds() + grace if end is not None else None
            holds = kept is not None and kept.final > world.now.timestamp()
            assert since is None or not holds or since >= 10, "an order to archive that comes twice"


def let_go_last(world: SessionWorld, plan: Plan) -> None:
    """The finalizer comes off a deleted session alone, and only when its pods are confirmed absent.

    A pod of another epoch whose grace ended long ago is stuck on a node that is lost; its epoch fences it.
    """
    if plan.finalizer_remove is not None:
        assert world.session.metadata.deletion_timestamp is not None
        assert isinstance(world.pods, Present), "let go without knowing of the pods"
        assert not [pod for pod in _ours(world) if pod["kind"] == "Pod" and not _is_stuck(world, pod)], "a pod is there"


def held(world: SessionWorld, plan: Plan) -> None:
    """A session that runs or stops is held by our finalizer, whoever took it off."""
    session, status = world.session, world.session.status
    is_live = status.phase == "Stopping" or (status.phase == "Ready" and status.stop_reason is None)
    has_epoch = status.slot is not None and status.slot.epoch > 0
    if is_live and has_epoch and session.metadata.deletion_timestamp is None:
        holders = (*session.metadata.finalizers, plan.finalizer_add)
        assert names.FINALIZER_WORKSPACE in holders, "nothing holds a session that may have work"


def listed_to_the_last(world: SessionWorld, plan: Plan) -> None:
    """A session is not let go while nothing else names its last archive, unless that was wished or nothing can."""
    status, history = world.session.status, world.history
    discards = world.session.metadata.annotations.get(names.ANNOTATION_DISCARD) == "true"
    if plan.finalizer_remove is None or world.namespace_terminating or discards or not isinstance(history, Present):
        return
    content, slot, named = history.value.content, status.slot, status.snapshot
    is_begun = status.phase in ("Starting", "Ready") and status.stop_reason is None
    is_underway = is_begun or status.phase == "Stopping"
    is_owed = _keeps_archives(world) if is_underway else named is not None and named.name is None
    if content is None or slot is None or content.epoch != slot.epoch or not is_owed:
        return
    entries = [each["status"] for each in world.snapshots.value] if isinstance(world.snapshots, Present) else []
    found = [each for each in entries if each.get("epoch") == content.epoch and each["sequence"] >= content.sequence]
    assert found, f"let go while nothing names archive {content.epoch}-{content.sequence}"


def _is_stuck(world: SessionWorld, pod: KubeObject) -> bool:
    ends = moment(pod["metadata"].get("deletionTimestamp"))
    slot = world.session.status.slot
    is_of_another_epoch = slot is None or pod["metadata"]["annotations"][names.ANNOTATION_EPOCH] != str(slot.epoch)
    return ends is not None and is_of_another_epoch and (world.now - ends).total_seconds() > OVERDUE_SECONDS


def cautious(world: World) -> None:
    """Replacing known facts by unknown ones never adds a delete, nor takes a finalizer off."""
    plan = decide(world)
    for blind in _blinded(world):
        other = decide(blind)
        assert _deletes(other) <= _deletes(plan), "a delete that only an unknown allows"
        assert other.finalizer_remove is None or plan.finalizer_remove is not None


def quiet(world: World) -> None:
    """Messages do not change when only the time does."""
    later = replace(world, now=world.now + timedelta(seconds=1.5))
    first, second = _messages(decide(world)), _messages(decide(later))
    for key in first.keys() & second.keys():
        assert first[key] == second[key], f"the message of {key} depends on the time"


def every_session_law(world: SessionWorld) -> Plan:
    """All of them; the plan that they were held against."""
    plan = plan_session(world)
    for law in (honest, owning, walls_first, nothing_lost, gate_kept, fenced, standing, once, let_go_last, held):
        law(world, plan)
    listed_to_the_last(world, plan)
    return plan


def _pods(world: World) -> Iterable[Mapping[str, Any]]:
    return world.pods.value if isinstance(world.pods, Present) else ()


def _ours(world: World) -> list[Mapping[str, Any]]:
    """What carries the installation, its owner with the UID, and a name of ours."""
    owned = world.session if isinstance(world, SessionWorld) else world.sandbox
    owner = names.owner_value(owned.kind, owned.metadata.namespace, owned.metadata.name, owned.metadata.uid)
    return [each for each in _everything(world) if _says_ours(each, world.installation.id, owner)]


def _says_ours(each: Mapping[str, Any], installation: str, owner: str) -> bool:
    metadata = each["metadata"]
    annotations = metadata.get("annotations", {})
    is_marked = metadata.get("labels", {}).get(names.LABEL_INSTALLATION) == installation
    return bool(is_marked and annotations.get(names.ANNOTATION_OWNER) == owner)


def _foreign(world: World) -> list[Mapping[str, Any]]:
    ours = [id(each) for each in _ours(world)]
    return [each for each in _everything(world) if id(each) not in ours]


def _everything(world: World) -> list[Mapping[str, Any]]:
    found = list(_pods(world))
    if isinstance(world, SessionWorld):
        found += [world.squatter.value] if isinstance(world.squatter, Present) else []
    else:
        made = (world.policy, world.service_account, world.disruption_budget)
        found += [each.value for each in made if isinstance(each, Present)]
        found += list(world.squatters)
    return found


def _may_have_run(world: SessionWorld, pod: Mapping[str, Any]) -> bool:
    status, uid = world.session.status, pod["metadata"]["uid"]
    epoch = int(pod["metadata"]["annotations"][names.ANNOTATION_EPOCH])
    keeper = world.keepers.get(uid)
    report = keeper.report if keeper is not None else None
    if (report is not None and report.opened) or status.pod_uid == uid:
        return True
    stopping = [each for each in status.conditions if each.type == "Snapshotted" and each.status == "False"]
    since = stopping[0].last_transition_time if stopping and status.phase == "Stopping" else None
    has_settled = since is not None and (world.now - since).total_seconds() >= SETTLE_SECONDS
    denies = keeper is not None and keeper.connected and report is not None and has_settled
    return not denies and (not isinstance(world.history, Present) or _fence_is_known(world, epoch))


def _fence_is_known(world: SessionWorld, epoch: int) -> bool:
    head = world.history.value.head if isinstance(world.history, Present) else None
    return world.fenced_epoch == epoch or (head is not None and head.epoch >= epoch)


def _is_safe(world: SessionWorld, pod: Mapping[str, Any]) -> bool:
    epoch = int(pod["metadata"]["annotations"][names.ANNOTATION_EPOCH])
    content = world.history.value.content if isinstance(world.history, Present) else None
    is_final = content is not None and content.epoch == epoch and content.final and content.kind == "Archive"
    is_dead = pod["status"]["phase"] in ("Failed", "Succeeded")
    asked = world.session.metadata.annotations.get(names.ANNOTATION_DISCARD) == "true"
    slot = world.session.status.slot
    is_stale = slot is None or slot.epoch != epoch
    return is_final or is_dead or asked or not _keeps_archives(world) or (is_stale and _is_indexed(world, epoch))


def _is_indexed(world: SessionWorld, epoch: int) -> bool:
    seen = world.snapshots.value if isinstance(world.snapshots, Present) else ()
    found = [each["status"] for each in seen if each["status"].get("epoch") == epoch]
    return any(status.get("phase") == "Ready" and status.get("final") is True for status in found)


def _keeps_archives(world: SessionWorld) -> bool:
    began_with_them = bool(world.session.status.archives_on_stop)
    return began_with_them or not isinstance(world.sandbox, Present) or world.sandbox.value.spec.snapshot.on_stop


def _holds(version: str, probes: Iterable[Any], world: SessionWorld, uid: str) -> bool:
    pod = next(pod for pod in _pods(world) if pod["metadata"]["uid"] == uid)
    is_gvisor = pod["spec"]["runtimeClassName"] == "gvisor"
    outcomes = {probe.name: probe.outcome for probe in probes}
    fits = ("gvisor" in version.lower()) == is_gvisor
    walled = {"canary", "metadata", "api-service", "api-endpoint-1"} <= outcomes.keys()
    is_controlled = outcomes.pop("mover", None) == "Connected"
    is_shut = "Connected" not in outcomes.values() and outcomes["canary"] != "Failed"
    return fits and walled and is_controlled and is_shut


def _blinded(world: World) -> Iterable[World]:
    """The same world, with one fact or another not known."""
    for field in fields(world):
        if isinstance(getattr(world, field.name), Present):
            change: Any = {field.name: Unknown("no read succeeded")}
            yield replace(world, **change)
    for field in fields(world.installation):
        if isinstance(getattr(world.installation, field.name), Present):
            change = {field.name: Unknown("no read succeeded")}
            yield replace(world, installation=replace(world.installation, **change))


def _deletes(plan: Plan) -> set[str]:
    return {write.uid for write in plan.writes if isinstance(write, Delete)}


def _messages(plan: Plan) -> dict[tuple[str, str, str], str]:
    found = {}
    for one in (plan.status or {}).get("conditions", ()):
        found[one["type"], one["status"], one["reason"]] = one["message"]
    for event in plan.events:
        found["event", event.type, event.reason] = event.message
    return found
