"""The gate and its evidence, when what was dialled is no proof: a mover that went while its canary was probed."""

from typing import Any

import pytest

from sandhold.desired.plan import Fence, Order, Plan
from sandhold.desired.world import ABSENT, Present
from testkit import laws, worlds

REPLACED = worlds.an_installation(mover_canary=Present(("10.244.0.99", 7445)))
"""What holds once another mover has taken over."""


def plan_of(**changes: Any) -> Plan:
    session = changes.pop("session", worlds.a_session(status=worlds.a_status("Starting")))
    return laws.every_session_law(worlds.a_world(session=session, pods=[worlds.a_pod()], **changes))


def seen(**outcomes: str) -> Any:
    return worlds.a_keeper("Ready", evidence=worlds.some_evidence(**outcomes))


def told(plan: Plan) -> dict[str, Any]:
    assert plan.status is not None
    return next(one for one in plan.status["conditions"] if one["type"] == "EgressVerified")


def asked(plan: Plan) -> list[dict[str, Any]]:
    """The probes that a plan asks for, which opens nothing."""
    assert not [call for call in plan.calls if isinstance(call, Fence) or call.verb == "open"]
    (order,) = [call for call in plan.calls if isinstance(call, Order) and call.verb == "prepare"]
    return list(order.arguments["probes"])


@pytest.mark.parametrize("dead", ["Refused", "TimedOut", "Failed"])
def test_a_dead_mover_is_no_wall_and_the_living_one_is_asked(dead: str) -> None:
    plan = plan_of(keepers=seen(canary=dead, mover=dead), installation=REPLACED)
    assert plan.writes == ()
    assert asked(plan)[:2] == [
        {"name": "canary", "address": "10.244.0.99", "port": 7445},
        {"name": "mover", "address": "10.244.0.99", "port": 7443},
    ]
    assert (told(plan)["status"], told(plan)["reason"]) == ("False", "MoverUnreached")
    assert plan.wake_after is not None


def test_what_else_was_seen_beside_a_dead_mover_is_no_verdict_either() -> None:
    """The keeper did not wait for walls: its canary was silent from the beginning."""
    plan = plan_of(keepers=seen(canary="TimedOut", mover="TimedOut", api_service="Connected"))
    assert plan.writes == ()
    assert asked(plan)


def test_while_no_mover_is_ready_nothing_is_asked_and_it_is_told() -> None:
    unknown = worlds.an_installation(mover_canary=ABSENT)
    plan = plan_of(keepers=seen(mover="TimedOut"), installation=unknown)
    assert (plan.writes, plan.calls) == ((), ())
    assert told(plan)["reason"] == "ProbesUnknown"


def test_an_agent_that_started_again_beside_a_dead_mover_waits_and_is_not_stopped() -> None:
    ready = worlds.a_session(status=worlds.a_status("Ready"))
    keeper = worlds.a_keeper("Ready", opened="e" * 32, evidence=worlds.some_evidence(mover="Refused"))
    fenced = worlds.a_history(worlds.a_fence())
    plan = plan_of(session=ready, keepers=keeper, history=fenced)
    assert plan.writes == ()
    assert asked(plan)
    assert plan.status is not None
    assert plan.status["phase"] != "Stopping"


def test_a_mover_that_answers_beside_a_silent_canary_opens_the_gate() -> None:
    plan = plan_of(keepers=seen())
    assert [call.verb for call in plan.calls if not isinstance(call, Fence)] == ["open"]
