"""Single passes over an AgentSandbox."""

from typing import Any

import pytest

from sandhold import names
from sandhold.desired.plan import Apply, Delete, Plan
from sandhold.desired.sandbox import plan_sandbox
from sandhold.desired.world import ABSENT, Present, Unknown
from testkit import worlds

UNKNOWN = Unknown("no answer")
NEW = worlds.a_sandbox(finalizers=[])
SETTLED = worlds.a_sandbox()
GOING = {"deletionTimestamp": "2026-03-01T11:00:00Z"}


def plan_of(**world: Any) -> Plan:
    return plan_sandbox(worlds.a_sandbox_world(**world))


def told(plan: Plan, name: str = "Ready") -> tuple[str, str]:
    assert plan.status is not None
    found = next(one for one in plan.status["conditions"] if one["type"] == name)
    return found["status"], found["reason"]


def kinds(plan: Plan) -> list[str]:
    return [
        write.object["kind"] if isinstance(write, Apply) else write.reference.kind
        for write in plan.writes
        if isinstance(write, Apply | Delete)
    ]


def test_walls_come_before_the_account_and_the_finalizer_before_both() -> None:
    plan = plan_of(sandbox=NEW, policy=ABSENT, service_account=ABSENT, disruption_budget=ABSENT)
    assert plan.finalizer_add == names.FINALIZER_WALLS
    assert kinds(plan) == ["NetworkPolicy", "ServiceAccount", "PodDisruptionBudget"]
    assert told(plan) == ("False", "Progressing")
    assert told(plan, "Accepted") == ("True", "Accepted")


def test_what_is_in_place_is_not_written_again() -> None:
    first = plan_of()
    assert told(first) == ("True", "Accepted")
    assert first.writes == ()
    assert first.status is not None
    assert (first.status["tier"], first.status["runtimeClassName"]) == ("gvisor", "gvisor")
    assert (first.status["egressMechanism"], first.status["sessions"]) == ("cni", 0)
    settled = SETTLED.model_validate({**SETTLED.wire(), "status": first.status})
    assert plan_of(sandbox=settled) == Plan()


def test_a_finalizer_that_somebody_took_off_is_put_back() -> None:
    assert plan_of(sandbox=NEW).finalizer_add == names.FINALIZER_WALLS


@pytest.mark.parametrize("spoilt", [{"spec": {}}, {"spec": {**worlds.a_policy()["spec"], "egress": [{}]}}])
def test_walls_that_were_changed_are_put_right(spoilt: dict[str, Any]) -> None:
    plan = plan_of(policy=Present({**worlds.a_policy(), **spoilt}))
    assert kinds(plan) == ["NetworkPolicy"]
    assert told(plan, "WallsInPlace") == ("False", "Progressing")


def test_an_account_that_would_hand_out_tokens_is_put_right() -> None:
    account = {**worlds.an_account(), "automountServiceAccountToken": True}
    assert kinds(plan_of(service_account=Present(account))) == ["ServiceAccount"]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"minAvailable": 0},
        {"selector": {}},
        {"selector": {"matchLabels": {names.LABEL_SANDBOX_UID: "another"}}},
        {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
    ],
)
def test_a_budget_that_would_let_pods_be_evicted_is_put_right(spoilt: dict[str, Any]) -> None:
    budget = {**worlds.a_budget(), "spec": {**worlds.a_budget()["spec"], **spoilt}}
    assert kinds(plan_of(disruption_budget=Present(budget))) == ["PodDisruptionBudget"]


def test_a_budget_that_is_there_is_left_alone_whatever_its_status_says() -> None:
    told = {**worlds.a_budget(), "status": {"disruptionsAllowed": 0, "expectedPods": 3}}
    assert plan_of(disruption_budget=Present(told)).writes == ()


def test_sessions_do_not_wait_for_the_budget() -> None:
    assert told(plan_of(disruption_budget=ABSENT)) == ("True", "Accepted")


def test_the_budget_selects_the_pods_of_this_sandbox_and_of_no_other() -> None:
    built = worlds.a_budget()["spec"]
    pod, other = worlds.a_pod(), worlds.a_pod(sandbox=worlds.a_sandbox(uid="5a9d0000-0000-4000-8000-0000000000ff"))
    selected = built["selector"]["matchLabels"].items()
    assert selected <= pod["metadata"]["labels"].items()
    assert not selected <= other["metadata"]["labels"].items()
    assert built["minAvailable"] == 2147483647


def test_a_refused_sandbox_gets_nothing_and_says_why() -> None:
    sandbox = worlds.a_sandbox({"tier": "gone"}, finalizers=[])
    plan = plan_of(sandbox=sandbox, policy=ABSENT, service_account=ABSENT, disruption_budget=ABSENT)
    assert plan.writes == ()
    assert plan.finalizer_add is None
    assert told(plan) == told(plan, "Accepted") == ("False", "RuntimeClassMissing")
    assert told(plan, "Stalled") == ("True", "RuntimeClassMissing")
    assert [event.reason for event in plan.events] == ["RuntimeClassMissing"]


def test_a_refused_sandbox_keeps_the_walls_that_it_has() -> None:
    sandbox = worlds.a_sandbox({"tier": "gone"})
    assert kinds(plan_of(sandbox=sandbox, policy=ABSENT)) == ["NetworkPolicy"]


def test_a_refused_sandbox_whose_finalizer_somebody_took_off_keeps_the_walls_that_it_has() -> None:
    """Pods may stand behind them: a tier that went, and a replace by a tool that drops finalizers, in either order."""
    plan = plan_of(sandbox=worlds.a_sandbox({"tier": "gone"}, finalizers=[]), disruption_budget=ABSENT)
    assert plan.finalizer_add == names.FINALIZER_WALLS
    assert kinds(plan) == ["PodDisruptionBudget"]
    assert told(plan, "Accepted")[0] == "False"


def test_a_handler_that_evidence_cannot_tell_apart_is_refused_early() -> None:
    plan = plan_of(sandbox=worlds.a_sandbox({"tier": "kata"}))
    assert told(plan, "Accepted") == ("False", "RuntimeClassMismatch")


@pytest.mark.parametrize("field", ["policy", "service_account", "disruption_budget"])
def test_an_object_of_our_name_that_is_not_ours_is_told_and_not_touched(field: str) -> None:
    theirs = {"kind": "Thing", "metadata": {"name": "coder-996b0bc362", "namespace": worlds.NAMESPACE, "uid": "theirs"}}
    plan = plan_of(**{field: Present(theirs)})
    assert plan.writes == ()
    assert told(plan) == told(plan, "WallsInPlace") == ("False", "ForeignObject")
    assert plan.wake_after is not None
    plan = plan_of(**{field: ABSENT}, squatters=(theirs,))
    assert plan.writes == ()
    assert told(plan) == ("False", "ForeignObject")


@pytest.mark.parametrize(
    "world",
    [
        {"installation": worlds.an_installation(api_server=UNKNOWN)},
        {"installation": worlds.an_installation(runtime_classes=UNKNOWN)},
        {"policy": UNKNOWN},
        {"service_account": UNKNOWN},
        {"disruption_budget": UNKNOWN},
    ],
)
def test_what_is_not_known_is_looked_at_again_and_not_overwritten(world: dict[str, Any]) -> None:
    plan = plan_of(**world)
    assert plan.writes == ()
    assert plan.wake_after == 5
    if "disruption_budget" not in world:
        assert told(plan)[0] == "False"


def test_nothing_is_made_in_a_namespace_that_is_going() -> None:
    nothing = dict.fromkeys(("policy", "service_account", "disruption_budget"), ABSENT)
    assert plan_of(sandbox=NEW, namespace_terminating=True, **nothing).writes == ()


@pytest.mark.parametrize(
    "world",
    [
        {"sessions": Present(({"metadata": {"name": "quill"}},))},
        {"pods": Present((worlds.a_pod(),))},
        {"sessions": UNKNOWN},
        {"pods": UNKNOWN},
        {"policy": UNKNOWN},
        {"service_account": UNKNOWN},
        {"disruption_budget": UNKNOWN},
    ],
)
def test_a_deleted_sandbox_keeps_its_walls_until_everything_behind_them_is_gone(world: dict[str, Any]) -> None:
    plan = plan_of(sandbox=worlds.a_sandbox(**GOING), **world)
    assert plan.writes == ()
    assert plan.finalizer_remove is None
    assert told(plan) == ("False", "Deleted")


def test_a_deleted_sandbox_takes_what_is_ours_along() -> None:
    plan = plan_of(sandbox=worlds.a_sandbox(**GOING))
    assert kinds(plan) == ["NetworkPolicy", "ServiceAccount", "PodDisruptionBudget"]
    uids = [write.uid for write in plan.writes if isinstance(write, Delete)]
    assert uids == [worlds.POLICY_UID, worlds.ACCOUNT_UID, worlds.BUDGET_UID]
    assert plan.finalizer_remove == names.FINALIZER_WALLS
    theirs = {**worlds.a_policy(), "metadata": {**worlds.a_policy()["metadata"], "annotations": {}}}
    left = kinds(plan_of(sandbox=worlds.a_sandbox(**GOING), policy=Present(theirs)))
    assert left == ["ServiceAccount", "PodDisruptionBudget"]


def test_a_deleted_sandbox_that_we_never_held_is_left_alone() -> None:
    assert plan_of(sandbox=worlds.a_sandbox(finalizers=["theirs"], **GOING)) == Plan()


def test_walls_stay_in_place_while_a_deleted_sandbox_waits_for_its_pods() -> None:
    """Its agents still run: a policy that somebody removes meanwhile comes back, as does one that a node changed."""
    sandbox, pods = worlds.a_sandbox(**GOING), Present((worlds.a_pod(),))
    assert kinds(plan_of(sandbox=sandbox, pods=pods)) == []
    assert kinds(plan_of(sandbox=sandbox, pods=pods, policy=ABSENT)) == ["NetworkPolicy"]
    nodes = worlds.an_installation(node_addresses=Present(("44.55.66.77",)))
    assert kinds(plan_of(sandbox=sandbox, pods=pods, installation=nodes)) == ["NetworkPolicy"]
    assert kinds(plan_of(sandbox=sandbox, pods=pods, policy=ABSENT, namespace_terminating=True)) == []
