"""Cordoned nodes and nodes that are not heard of: who has to leave, who may come, whose pod is gone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold import names
from sandhold.desired import placement
from sandhold.desired.plan import Create, Delete, Order, Plan
from sandhold.desired.situation import Situation, read_situation
from sandhold.desired.world import ABSENT, Node, Observed, Present, Taint, Unknown
from testkit import laws, worlds
from testkit.worlds import NOW

FENCED = worlds.a_history(worlds.a_fence())
STORED = worlds.a_history(worlds.an_archive())
WELL = Node(is_cordoned=False, is_ready=True)


def rests(**status: Any) -> Any:
    return worlds.a_session(status=worlds.a_status("Suspended", stopReason="NodeCordoned", **status))


def with_nodes(nodes: Observed[Mapping[str, Node]], **world: Any) -> dict[str, Any]:
    known = {"session": worlds.a_session(status=worlds.a_status("Ready")), "pods": [worlds.a_pod()], "history": FENCED}
    known |= {"keepers": worlds.a_keeper("Open")} if "pods" not in world else {}
    return {**known, "installation": worlds.an_installation(nodes=nodes), **world}


def plan_of(nodes: Observed[Mapping[str, Node]], **world: Any) -> Plan:
    return laws.every_session_law(worlds.a_world(**with_nodes(nodes, **world)))


def situation_of(nodes: Observed[Mapping[str, Node]], **world: Any) -> Situation:
    return read_situation(worlds.a_world(**with_nodes(nodes, **world)))


@pytest.mark.parametrize(
    "nodes",
    [
        ABSENT,
        Unknown("not listed"),
        Present({}),
        worlds.some_nodes(node_1="ready"),
        worlds.some_nodes(node_1="ready", node_2="cordoned"),
    ],
)
def test_a_session_stays_on_a_node_that_nobody_cordoned(nodes: Observed[Mapping[str, Node]]) -> None:
    plan = plan_of(nodes)
    assert plan == Plan(wake_after=plan.wake_after)


def test_a_session_leaves_a_cordoned_node_in_order() -> None:
    plan = plan_of(worlds.some_nodes(node_1="cordoned"))
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Stopping", "NodeCordoned")
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["end"]
    assert plan.writes == ()
    assert [(event.type, event.reason) for event in plan.events] == [("Normal", "Stopping")]


def test_a_pod_that_was_never_opened_leaves_at_once() -> None:
    starting = worlds.a_session(status=worlds.a_status("Starting"))
    world = {"session": starting, "pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Ready")}
    plan = plan_of(worlds.some_nodes(node_1="cordoned"), history=worlds.a_history(), **world)
    assert [type(write) for write in plan.writes] == [Delete]


def test_content_that_ends_with_its_pod_is_not_ended_early() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"onStop": False}})
    session = worlds.a_session(status=worlds.a_status("Ready", archivesOnStop=False))
    world = {"sandbox": sandbox, "session": session, "pods": [worlds.a_pod(sandbox=sandbox)], "history": ABSENT}
    plan = plan_of(worlds.some_nodes(node_1="cordoned"), keepers=worlds.a_keeper("Open"), **world)
    assert plan.status is None


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"operator": "Exists"}, True),
        ({"key": names.TAINT_CORDONED, "operator": "Exists"}, True),
        ({"key": names.TAINT_CORDONED, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": names.TAINT_CORDONED, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "example.com/gpu", "operator": "Exists"}, False),
        ({"key": names.TAINT_CORDONED, "operator": "Equal", "value": "x"}, False),
    ],
)
def test_a_pod_that_may_be_put_on_cordoned_nodes_again_stays(toleration: dict[str, str], *, stays: bool) -> None:
    sandbox = worlds.a_sandbox({"pod": {"tolerations": [toleration]}})
    world = {"sandbox": sandbox, "pods": [worlds.a_pod(sandbox=sandbox)], "keepers": worlds.a_keeper("Open")}
    assert placement.must_leave(situation_of(worlds.some_nodes(node_1="cordoned"), **world)) is not stays


@pytest.mark.parametrize(
    ("node", "takes"),
    [
        (WELL, True),
        (replace(WELL, is_cordoned=True), False),
        (replace(WELL, is_ready=False), False),
        (replace(WELL, taints=(Taint("node-role.kubernetes.io/control-plane", "", "NoSchedule"),)), False),
        (replace(WELL, taints=(Taint("dedicated", "agents", "NoExecute"),)), False),
        (replace(WELL, taints=(Taint("dedicated", "agents", "PreferNoSchedule"),)), True),
    ],
)
def test_a_node_takes_a_pod_when_labels_and_taints_allow_it(node: Node, *, takes: bool) -> None:
    assert placement.can_be_placed(situation_of(Present({"n": node}), session=rests(), pods=[])) is takes


def test_selector_and_tolerations_count() -> None:
    fussy = worlds.a_sandbox(
        {
            "pod": {
                "nodeSelector": {"pool": "agents"},
                "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "agents"}],
            }
        }
    )
    fits = Node(
        is_cordoned=False,
        is_ready=True,
        labels={"pool": "agents", "zone": "a"},
        taints=(Taint("dedicated", "agents", "NoSchedule"),),
    )
    for node, takes in (
        (fits, True),
        (replace(fits, labels={"pool": "web"}), False),
        (replace(fits, taints=(Taint("dedicated", "web", "NoSchedule"),)), False),
    ):
        situation = situation_of(Present({"n": node}), sandbox=fussy, session=rests(), pods=[])
        assert placement.can_be_placed(situation) is takes


@pytest.mark.parametrize(
    "nodes", [Unknown("not listed"), ABSENT, Present({}), worlds.some_nodes(node_1="cordoned", node_2="lost")]
)
def test_a_session_that_left_waits_while_no_node_takes_it(nodes: Observed[Mapping[str, Node]]) -> None:
    assert plan_of(nodes, session=rests(), pods=[], history=STORED) == Plan()


def test_a_session_that_left_goes_on_with_the_same_run() -> None:
    started = worlds.a_status("Suspended")["startedAt"]
    plan = plan_of(worlds.some_nodes(node_1="cordoned", node_2="ready"), session=rests(), pods=[], history=STORED)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["slot"]["epoch"]) == ("Starting", 2)
    assert plan.status["startedAt"] == started
    assert "stopReason" not in plan.status


def test_a_retry_starts_it_whatever_the_nodes() -> None:
    session = worlds.a_session(
        status=worlds.a_status("Suspended", stopReason="NodeCordoned"), annotations={names.ANNOTATION_RETRY: "now"}
    )
    plan = plan_of(worlds.some_nodes(node_1="cordoned"), session=session, pods=[], history=STORED)
    assert plan.status is not None
    assert plan.status["phase"] == "Starting"


def test_its_time_limit_goes_on_while_it_waits_for_a_node() -> None:
    session = worlds.a_session({"ttlSeconds": 60}, worlds.a_status("Suspended", stopReason="NodeCordoned"))
    cordoned = worlds.some_nodes(node_1="cordoned")
    plan = plan_of(cordoned, session=session, pods=[], history=STORED)
    assert plan == Plan(wake_after=40)
    over = plan_of(cordoned, session=session, pods=[], history=STORED, now=NOW + timedelta(seconds=40))
    assert over.status is not None
    assert (over.status["phase"], over.status["stopReason"]) == ("Suspended", "TtlExpired")


def test_a_pod_that_was_drained_is_not_replaced_where_nothing_takes_it() -> None:
    world = {"pods": [], "history": STORED, "snapshots": [worlds.a_snapshot()]}
    plan = plan_of(worlds.some_nodes(node_1="cordoned"), **world)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Suspended", "NodeCordoned")
    assert plan.status["snapshot"]["name"] == "quill-" + worlds.SLOT[:10] + "-1"
    elsewhere = plan_of(worlds.some_nodes(node_1="cordoned", node_2="ready"), **world)
    assert elsewhere.status is not None
    assert elsewhere.status["phase"] == "Starting"


@pytest.mark.parametrize(
    ("state", "connected", "terminating_for", "gone"),
    [
        ("lost", False, 16, True),
        ("lost", False, 14, False),
        ("lost", True, 16, False),
        ("ready", False, 16, False),
        ("lost", False, None, False),
        ("ready", False, 1000, True),
    ],
)
def test_a_deleted_pod_on_a_node_that_is_not_heard_of_is_not_waited_for(
    state: str, terminating_for: float | None, *, connected: bool, gone: bool
) -> None:
    pods = [worlds.a_pod(terminating_for=terminating_for)]
    keepers = worlds.a_keeper("Open", connected=connected)
    situation = situation_of(worlds.some_nodes(node_1=state), pods=pods, keepers=keepers)
    assert situation.pod is not None
    assert placement.is_gone(situation, situation.pod) is gone


def test_a_node_that_does_not_exist_any_more_is_not_heard_of() -> None:
    situation = situation_of(worlds.some_nodes(node_2="ready"), pods=[worlds.a_pod(terminating_for=16)], keepers={})
    assert situation.pod is not None
    assert placement.is_gone(situation, situation.pod)


def test_the_pod_of_a_lost_node_is_fenced_off_by_a_new_epoch_beside_it() -> None:
    checkpoint = worlds.an_archive(1, 2, final=False)
    stuck = worlds.a_pod(1, terminating_for=16)
    lost = worlds.some_nodes(node_1="lost", node_2="ready")
    keepers = worlds.a_keeper("Open", connected=False)
    first = plan_of(lost, pods=[stuck], keepers=keepers, history=worlds.a_history(checkpoint))
    assert first.status is not None
    assert first.status["slot"]["epoch"] == 2
    assert not any(isinstance(write, Delete) for write in first.writes)
    session = worlds.a_session(status=worlds.a_status("Starting", 2))
    second = plan_of(lost, session=session, pods=[stuck], keepers=keepers, history=worlds.a_history(checkpoint))
    (write,) = second.writes
    assert isinstance(write, Create)
    assert write.object["metadata"]["name"] == worlds.pod_name(2)


def test_a_pod_on_a_node_that_is_not_heard_of_yet_is_left_alone() -> None:
    plan = plan_of(
        worlds.some_nodes(node_1="lost"), pods=[worlds.a_pod()], keepers=worlds.a_keeper("Open", connected=False)
    )
    assert plan == Plan(wake_after=plan.wake_after)
