"""What a running pod's keeper holds: ordered on a difference, renewed in time, for its own slot and epoch alone."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold.desired import orders, standing
from sandhold.desired.plan import Order, Plan
from sandhold.desired.session import plan_session
from sandhold.desired.world import ABSENT, Guard, Kept
from sandhold.mover.grant import Grant
from testkit import laws, worlds
from testkit.worlds import GUARDED, HELD, NOW

FENCED = worlds.a_history(worlds.a_fence())
READY = worlds.a_session(status=worlds.a_status("Ready"))


def plan_of(*, keeper: dict[str, Any] | None = None, **world: Any) -> Plan:
    known = {"session": READY, "pods": [worlds.a_pod()], "history": FENCED}
    keepers = worlds.a_keeper("Open", **(keeper or {}))
    return laws.every_session_law(worlds.a_world(**{"keepers": keepers, **known, **world}))


def told(plan: Plan) -> list[tuple[str, Any]]:
    return [(call.verb, call.arguments.get("final")) for call in plan.calls if isinstance(call, Order)]


def until(hours: float) -> int:
    return int((NOW + timedelta(hours=hours)).timestamp())


def test_a_keeper_that_holds_everything_is_left_in_peace() -> None:
    plan = plan_of()
    assert plan == Plan(wake_after=plan.wake_after)
    assert plan.wake_after == pytest.approx(12 * 3600, abs=2), "looked at again when a grant is half spent"


def test_a_keeper_that_holds_nothing_gets_both_grants_and_the_sizes() -> None:
    plan = plan_of(keeper={"kept": None, "guard": None})
    assert told(plan) == [("keep", False), ("keep", True), ("guard", None)]
    assert plan.status is None
    assert plan.writes == ()


def test_an_entry_that_cannot_be_written_keeps_no_grant_from_a_keeper() -> None:
    """A quota or a policy may refuse it for days, and a write that fails ends the pass."""
    world = {"history": worlds.a_history(worlds.an_archive(1, 1, final=False))}
    lacking = plan_of(keeper={"kept": None}, **world)
    assert (lacking.writes, told(lacking)) == ((), [("keep", False), ("keep", True)])
    assert len(plan_of(**world).writes) == 2


def test_the_grants_are_what_a_mover_accepts_for_a_day() -> None:
    plan = plan_of(keeper={"kept": None})
    for call in plan.calls:
        assert isinstance(call, Order)
        grant = Grant.model_validate(call.grant)
        assert (grant.verb, grant.slot, grant.epoch, grant.pod_uid) == ("archive", worlds.SLOT, 1, worlds.pod_uid())
        assert (grant.sequence, grant.final) == (1, call.arguments["final"])
        assert grant.expires == call.arguments["expires"] == until(24)


@pytest.mark.parametrize(
    ("kept", "ordered"),
    [
        (Kept(until(24), until(24)), []),
        (Kept(until(12.01), until(24)), []),
        (Kept(until(11.9), until(24)), [False]),
        (Kept(until(24), until(11.9)), [True]),
        (Kept(until(-1), 0), [False, True]),
    ],
)
def test_what_is_half_spent_is_renewed_and_nothing_else(kept: Kept, ordered: list[bool]) -> None:
    assert told(plan_of(keeper={"kept": kept})) == [("keep", final) for final in ordered]


@pytest.mark.parametrize(
    "guard",
    [replace(GUARDED, size_bytes=1), replace(GUARDED, limit_bytes=1), replace(GUARDED, interval_seconds=0), Guard()],
)
def test_a_guard_that_differs_is_told_again(guard: Guard) -> None:
    (call,) = plan_of(keeper={"guard": guard}).calls
    assert isinstance(call, Order)
    assert call.arguments == {"sizeBytes": 1 << 30, "limitBytes": 2 << 30, "intervalSeconds": 300}


def test_a_level_is_no_difference() -> None:
    assert told(plan_of(keeper={"guard": replace(GUARDED, level="High")})) == []


def test_the_sizes_are_those_of_the_pod_whatever_the_sandbox_says_by_now() -> None:
    larger = worlds.a_sandbox({"workspace": {"size": "10Gi"}, "snapshot": {"intervalSeconds": 60}})
    plan = plan_of(sandbox=larger, keeper={"guard": None})
    (call,) = plan.calls
    assert isinstance(call, Order)
    assert call.arguments == {"sizeBytes": 1 << 30, "limitBytes": 2 << 30, "intervalSeconds": 60}


def test_without_archives_there_are_sizes_and_no_grants() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"onStop": False}})
    session = worlds.a_session(status=worlds.a_status("Ready", archivesOnStop=False))
    world = {"sandbox": sandbox, "session": session, "history": ABSENT, "pods": [worlds.a_pod(sandbox=sandbox)]}
    plan = plan_of(keeper={"kept": None, "guard": None}, **world)
    (call,) = plan.calls
    assert isinstance(call, Order)
    assert (call.verb, call.arguments["intervalSeconds"]) == ("guard", 0)


@pytest.mark.parametrize(
    "world",
    [
        {"keepers": worlds.a_keeper("Open", connected=False, kept=None, guard=None)},
        {"keepers": worlds.a_keeper("Ready", kept=None, guard=None)},
        {"keepers": worlds.a_keeper("Open", kept=None, guard=None, marker_epoch=2)},
        {"keepers": worlds.a_keeper("Open", kept=None, guard=None, marker_slot="another")},
        {"pods": [worlds.a_pod(terminating_for=1)], "keepers": worlds.a_keeper("Open", kept=None, guard=None)},
        {"sandbox": ABSENT, "keepers": worlds.a_keeper("Open", kept=None, guard=None)},
        {
            "session": worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Ready")),
            "keepers": worlds.a_keeper("Open", kept=None, guard=None),
        },
    ],
    ids=["silent", "shut", "another epoch", "another slot", "going", "sandbox unknown", "stopping"],
)
def test_nothing_is_given_to_a_keeper_that_may_not_have_it(world: dict[str, Any]) -> None:
    assert not {"keep", "guard"} & {verb for verb, _ in told(plan_of(**world))}


def test_becoming_ready_does_not_wait_for_standing_orders() -> None:
    starting = worlds.a_session(status=worlds.a_status("Starting"))
    plan = plan_of(session=starting, keeper={"kept": None, "guard": None})
    assert plan.status is not None
    assert plan.status["phase"] == "Ready"
    assert plan.calls == ()


def test_a_grant_whose_limits_were_found_too_narrow_is_given_anew_but_not_all_the_time() -> None:
    failed = {"archive_state": "Failed", "archive_is_final": False, "archive_code": "snapshot_too_large"}
    assert told(plan_of(keeper={**failed, "kept": HELD})) == []
    older = Kept(HELD.checkpoint - standing.WIDEN_SECONDS - 1, HELD.final)
    assert told(plan_of(keeper={**failed, "kept": older})) == [("keep", False)]
    other = {**failed, "archive_code": "snapshot_store_unavailable"}
    assert told(plan_of(keeper={**other, "kept": older})) == []


def test_a_renewal_comes_at_the_time_that_it_was_waited_for() -> None:
    world = worlds.a_world(session=READY, pods=[worlds.a_pod()], history=FENCED, keepers=worlds.a_keeper("Open"))
    first = plan_session(world)
    assert first.wake_after is not None
    later = replace(world, now=NOW + timedelta(seconds=first.wake_after))
    assert told(plan_session(later)) == [("keep", False), ("keep", True)]
    sooner = replace(world, now=NOW + timedelta(seconds=first.wake_after - 5))
    assert told(plan_session(sooner)) == []


def test_a_limit_is_told_to_the_keeper_and_stands_in_the_grant() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"maxBytes": "10Mi"}})
    grant = orders.standing_grant(orders.Holder("demo", "uid", worlds.SLOT, 1, "main", NOW), sandbox, final=True)
    assert orders.keep_order("uid", grant).arguments["maxBytes"] == grant["maxBytes"] == 10 << 20
