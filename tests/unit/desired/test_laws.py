"""The laws can fail: each is held against a plan that breaks it. And impossible worlds are rejected."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold.desired import orders
from sandhold.desired.plan import Apply, Create, Delete, Fence, Order, Plan, Reference
from sandhold.desired.world import ABSENT, SessionWorld, Unknown
from testkit import laws, worlds
from testkit.worlds import NOW

POD = Reference("v1", "Pod", worlds.NAMESPACE, worlds.pod_name())
READY = worlds.a_session(status=worlds.a_status("Ready"))
FENCED = worlds.a_history(worlds.a_fence())
RUNNING = worlds.a_world(session=READY, pods=[worlds.a_pod()], keepers=worlds.a_keeper("Open"), history=FENCED)
STARTING = worlds.a_world(
    session=worlds.a_session(status=worlds.a_status("Starting")),
    pods=[worlds.a_pod()],
    keepers=worlds.a_keeper("Ready"),
)
DELETE = Plan(writes=(Delete(POD, worlds.pod_uid(), "just so"),))
OPEN = Plan(calls=(Fence("main", worlds.SLOT, 1, None, "u"), Order(worlds.pod_uid(), "open", {"challenge": "c" * 32})))
LET_GO = Plan(finalizer_remove="sandhold.dev/workspace")
GOING = worlds.a_session(status=worlds.a_status("Stopping"), deletionTimestamp="2026-03-01T12:00:00Z")
SQUATTER = {"kind": "Pod", "metadata": {"name": worlds.pod_name(), "uid": "theirs"}}


def having(world: SessionWorld, **changes: Any) -> SessionWorld:
    known = {field: getattr(world, field) for field in world.__slots__}
    return worlds.a_world(**{**known, **changes})


def keeper(stage: str, **changes: Any) -> dict[str, Any]:
    return {"keepers": {worlds.pod_uid(): worlds.a_keeper(stage, **changes)}}


def keep(**changes: Any) -> Plan:
    """The order of a standing grant, with something in the grant that is not as it should be."""
    holder = orders.Holder("demo", worlds.pod_uid(), worlds.SLOT, 1, "main", NOW)
    order = orders.keep_order(worlds.pod_uid(), orders.standing_grant(holder, worlds.a_sandbox(), final=False))
    grant = {**(order.grant or {}), **changes}
    told = {"expires": changes["expires"]} if "expires" in changes else {}
    return Plan(calls=(replace(order, grant=grant, arguments={**order.arguments, **told}),))


BROKEN: dict[str, tuple[Callable[[SessionWorld, Plan], None], SessionWorld, Plan]] = {
    "a status that names a pod nobody saw": (
        laws.honest,
        worlds.a_world(),
        Plan(status={"phase": "Ready", "podName": "x", "podUid": "y"}),
    ),
    "a status that names an entry nobody saw": (
        laws.honest,
        worlds.a_world(),
        Plan(status={"phase": "Ready", "snapshot": {"name": "x"}}),
    ),
    "a delete of a foreign object": (
        laws.owning,
        worlds.a_world(squatter=laws.Present(SQUATTER)),
        Plan(writes=(Delete(POD, "theirs", "in the way"),)),
    ),
    "a delete of what nobody saw": (laws.owning, worlds.a_world(), DELETE),
    "an apply over a foreign object": (
        laws.owning,
        worlds.a_world(squatter=laws.Present(SQUATTER)),
        Plan(writes=(Apply({"kind": "Pod", "metadata": {"name": worlds.pod_name()}}),)),
    ),
    "a pod without walls": (
        laws.walls_first,
        worlds.a_world(policy=ABSENT),
        Plan(writes=(Create(worlds.a_pod()),)),
    ),
    "a pod that its walls do not select": (
        laws.walls_first,
        worlds.a_world(),
        Plan(writes=(Create({"kind": "Pod", "metadata": {"labels": {}}}),)),
    ),
    "a delete of work": (laws.nothing_lost, RUNNING, DELETE),
    "a delete of perhaps work": (laws.nothing_lost, having(STARTING, history=FENCED, **keeper("Ready")), DELETE),
    "a delete on an unknown": (laws.nothing_lost, having(STARTING, history=Unknown("x"), keepers={}), DELETE),
    "a delete after an archive that is not final": (
        laws.nothing_lost,
        having(RUNNING, history=worlds.a_history(worlds.an_archive(final=False))),
        DELETE,
    ),
    "a delete after another epoch's archive": (
        laws.nothing_lost,
        having(RUNNING, history=worlds.a_history(worlds.an_archive(2))),
        DELETE,
    ),
    "an opening without evidence": (laws.gate_kept, having(STARTING, **keeper("Ready", evidence=None)), OPEN),
    "an opening on old evidence": (laws.gate_kept, having(STARTING, **keeper("Ready", challenge="d" * 32)), OPEN),
    "an opening through a hole": (
        laws.gate_kept,
        having(STARTING, **keeper("Ready", evidence=worlds.some_evidence(canary="Connected"))),
        OPEN,
    ),
    "an opening under another runtime": (
        laws.gate_kept,
        having(STARTING, **keeper("Ready", evidence=worlds.some_evidence(version=worlds.RUNC))),
        OPEN,
    ),
    "an opening without walls": (laws.gate_kept, having(STARTING, policy=ABSENT), OPEN),
    "an opening without a fence": (laws.fenced, STARTING, Plan(calls=OPEN.calls[1:])),
    "a fence of another epoch": (laws.fenced, STARTING, Plan(calls=(Fence("main", worlds.SLOT, 2, None, "u"),))),
    "a finalizer off a living session": (laws.let_go_last, worlds.a_world(session=READY), LET_GO),
    "a delete after a checkpoint that has its entry": (
        laws.nothing_lost,
        having(
            RUNNING,
            history=worlds.a_history(worlds.an_archive(1, 3, final=False)),
            snapshots=[worlds.a_snapshot(worlds.an_archive(1, 3, final=False))],
        ),
        DELETE,
    ),
    "a delete where a run began with archives": (
        laws.nothing_lost,
        having(RUNNING, sandbox=worlds.a_sandbox({"snapshot": {"onStop": False}})),
        DELETE,
    ),
    "a grant for another slot": (laws.standing, RUNNING, keep(slot="another")),
    "a grant for another epoch": (laws.standing, RUNNING, keep(epoch=2)),
    "a grant for another pod": (laws.standing, RUNNING, keep(podUid="another")),
    "a grant for another thing": (laws.standing, RUNNING, keep(verb="restore")),
    "a grant that is final in secret": (laws.standing, RUNNING, keep(final=True)),
    "a grant for ever": (laws.standing, RUNNING, keep(expires=2**40)),
    "a grant before the gate": (laws.standing, STARTING, keep()),
    "a grant for a keeper that is not there": (
        laws.standing,
        having(RUNNING, **keeper("Open", connected=False)),
        keep(),
    ),
    "a grant for a pod that goes": (laws.standing, having(RUNNING, pods=[worlds.a_pod(terminating_for=1)]), keep()),
    "a grant where nothing is archived": (
        laws.standing,
        having(
            RUNNING,
            sandbox=worlds.a_sandbox({"snapshot": {"onStop": False}}),
            session=worlds.a_session(status=worlds.a_status("Ready", archivesOnStop=False)),
        ),
        keep(),
    ),
    "an order that comes twice": (
        laws.once,
        having(RUNNING, pods=[worlds.a_pod(terminating_for=5)]),
        Plan(calls=(Order(worlds.pod_uid(), "archive", {"sequence": 1}),)),
    ),
    "a finalizer off while a pod is there": (laws.let_go_last, having(RUNNING, session=GOING), LET_GO),
    "a finalizer off the last that names an archive": (
        laws.listed_to_the_last,
        worlds.a_world(session=GOING, history=worlds.a_history(worlds.an_archive())),
        LET_GO,
    ),
    "a finalizer off while an entry names an older archive": (
        laws.listed_to_the_last,
        worlds.a_world(
            session=GOING, history=worlds.a_history(worlds.an_archive(1, 2)), snapshots=[worlds.a_snapshot()]
        ),
        LET_GO,
    ),
    "a finalizer off on an unknown": (laws.let_go_last, worlds.a_world(session=GOING, pods=Unknown("x")), LET_GO),
}


@pytest.mark.parametrize(("law", "world", "plan"), BROKEN.values(), ids=BROKEN.keys())
def test_a_law_fails_for_the_plan_that_breaks_it(
    law: Callable[[SessionWorld, Plan], None], world: SessionWorld, plan: Plan
) -> None:
    with pytest.raises(AssertionError):
        law(world, plan)


LAWFUL = {
    "an opening on good evidence": (laws.gate_kept, STARTING, OPEN),
    "a fence, then the word": (laws.fenced, STARTING, OPEN),
    "a standing grant for an open keeper": (laws.standing, RUNNING, keep()),
    "an order for a keeper that does not do it by itself": (
        laws.once,
        having(RUNNING, pods=[worlds.a_pod(terminating_for=12)]),
        Plan(calls=(Order(worlds.pod_uid(), "archive", {"sequence": 1}),)),
    ),
    "a delete before the gate": (laws.nothing_lost, STARTING, DELETE),
    "a delete after the archive": (
        laws.nothing_lost,
        having(RUNNING, history=worlds.a_history(worlds.an_archive())),
        DELETE,
    ),
}


@pytest.mark.parametrize(("law", "world", "plan"), LAWFUL.values(), ids=LAWFUL.keys())
def test_a_law_holds_for_the_plan_that_keeps_it(
    law: Callable[[SessionWorld, Plan], None], world: SessionWorld, plan: Plan
) -> None:
    law(world, plan)


def test_a_plan_that_tells_the_time_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def chatty(world: SessionWorld) -> Plan:
        one = {"type": "Ready", "status": "False", "reason": "Waiting", "message": f"since {world.now}"}
        return Plan(status={"conditions": [one]})

    monkeypatch.setattr(laws, "decide", chatty)
    with pytest.raises(AssertionError, match="depends on the time"):
        laws.quiet(worlds.a_world())


def test_a_plan_that_deletes_what_it_cannot_see_is_not_cautious(monkeypatch: pytest.MonkeyPatch) -> None:
    def rash(world: SessionWorld) -> Plan:
        return DELETE if isinstance(world.history, Unknown) else Plan()

    monkeypatch.setattr(laws, "decide", rash)
    with pytest.raises(AssertionError, match="only an unknown allows"):
        laws.cautious(RUNNING)


def test_a_plan_that_is_another_each_time_is_not_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(10))
    monkeypatch.setattr(laws, "decide", lambda world: Plan(wake_after=next(numbers)))  # noqa: ARG005
    with pytest.raises(AssertionError):
        laws.pure(worlds.a_world())


IMPOSSIBLE: dict[str, Callable[[], Any]] = {
    "twins": lambda: worlds.a_world(pods=[worlds.a_pod(), worlds.a_pod()]),
    "a keeper of no pod": lambda: worlds.a_world(keepers={"nobody": worlds.a_keeper()}),
    "a deleted session that nothing holds": lambda: worlds.a_world(
        session=worlds.a_session(deletionTimestamp="2026-03-01T12:00:00Z")
    ),
    "a running session without a slot": lambda: worlds.a_world(session=worlds.a_session(status={"phase": "Ready"})),
    "content above the head": lambda: worlds.a_history(worlds.a_fence(1), worlds.an_archive(2)),
}


@pytest.mark.parametrize("build", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_an_impossible_world_is_rejected(build: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="impossible world"):
        build()


def test_the_settling_window_of_the_law_is_the_codes() -> None:
    moment = NOW - timedelta(seconds=laws.SETTLE_SECONDS - 1)
    session = worlds.a_session(status={**worlds.a_status("Stopping", since=moment), "podUid": None, "podName": None})
    world = having(STARTING, session=session, history=FENCED)
    with pytest.raises(AssertionError):
        laws.nothing_lost(world, DELETE)
