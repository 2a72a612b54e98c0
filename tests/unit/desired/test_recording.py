"""An archive whose SandboxSnapshot cannot be written, pass by pass: what goes on, what waits, what is said."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold import names
from sandhold.api.session import SandboxSession
from sandhold.desired.plan import Create, Delete, Plan, WriteStatus
from sandhold.desired.world import RefusedRecord, Unknown
from testkit import laws, worlds
from testkit.worlds import NOW

ANSWER = 'sandboxsnapshots "quill" is forbidden: exceeded quota: cards (HTTP 403)'
READY = worlds.a_session(status=worlds.a_status("Ready"))
STOPPING = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
DELETED = worlds.a_session(status=worlds.a_status("Stopping"), deletionTimestamp="2026-03-01T12:00:00Z")
FINAL = worlds.an_archive(1, 1)
CHECKPOINT = worlds.an_archive(1, 2, final=False)


def refused(ago: float = 5, *, since: float | None = None, epoch: int = 1, is_an_answer: bool = True) -> RefusedRecord:
    """The entry of an epoch, tried so many seconds ago."""
    name = names.snapshot_name("quill", worlds.SLOT, epoch)
    first, last = NOW - timedelta(seconds=ago if since is None else since), NOW - timedelta(seconds=ago)
    return RefusedRecord(name, f"SandboxSnapshot {name} was not written: {ANSWER}", first, last, is_an_answer)


def plan_of(**world: Any) -> Plan:
    known: dict[str, Any] = {"record_refused": refused()}
    return laws.every_session_law(worlds.a_world(**{**known, **world}))


def running(**world: Any) -> Plan:
    stored: dict[str, Any] = {"archive_state": "Stored", "archive_sequence": 2, "archive_is_final": False}
    known = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Open", **stored)}
    return plan_of(**{"session": READY, "history": worlds.a_history(CHECKPOINT), **known, **world})


def after(plan: Plan, session: SandboxSession) -> SandboxSession:
    assert plan.status is not None
    return SandboxSession.model_validate({**session.wire(), "status": dict(plan.status)})


def told(plan: Plan) -> tuple[str, str, str]:
    assert plan.status is not None
    found = next(one for one in plan.status["conditions"] if one["type"] == "Snapshotted")
    return found["status"], found["reason"], found["message"]


def kinds(plan: Plan) -> list[type]:
    return [type(write) for write in plan.writes]


def test_a_running_session_says_so_once_and_names_what_it_would_go_on_from() -> None:
    plan = running()
    status, reason, message = told(plan)
    assert (status, reason) == ("True", "Unrecorded")
    assert "Archive 1-2 of the workspace is stored and verified" in message
    assert f"SandboxSnapshot quill-{worlds.SLOT[:10]}-1 was not written: {ANSWER}" in message
    assert "Free or raise the quota" in message
    assert [event.reason for event in plan.events] == ["Unrecorded"]
    assert plan.status is not None
    assert plan.status["phase"] == "Ready"
    assert (plan.status["snapshot"]["sequence"], plan.status["snapshot"].get("name")) == (2, None)
    assert plan.writes == ()
    again = running(session=after(plan, READY))
    assert again == Plan(wake_after=10), "it is tried again 15 s after it was tried last"


def test_it_is_tried_alone_and_the_longer_it_fails_the_rarer() -> None:
    session = after(running(), READY)
    assert kinds(running(session=session, record_refused=refused(15))) == [Create, WriteStatus]
    assert running(session=session, record_refused=refused(15, since=95)).wake_after == 5
    assert running(session=session, record_refused=refused(59, since=86400)).wake_after == 1
    assert kinds(running(session=session, record_refused=refused(60, since=86400))) == [Create, WriteStatus]
    assert running(record_refused=refused(15)).writes == (), "what is new to say comes first"


def test_a_standing_order_is_never_planned_after_a_write_that_was_just_refused() -> None:
    """The pass that tries ends at the refusal. The one that follows it has to carry out all the rest."""
    keeper = replace(worlds.a_keeper("Open"), report=replace(worlds.a_report("Open"), kept=None, guard=None))
    plan = running(session=after(running(), READY), keepers=keeper, record_refused=refused(5.1))
    assert plan.calls != ()
    assert plan.writes == ()


def test_an_entry_that_was_written_ends_it() -> None:
    session = after(running(), READY)
    plan = running(session=session, record_refused=None, snapshots=[worlds.a_snapshot(CHECKPOINT)])
    assert told(plan)[:2] == ("True", "Checkpointed")
    assert plan.status is not None
    assert plan.status["snapshot"]["name"] == f"quill-{worlds.SLOT[:10]}-1"
    assert plan.writes == ()
    stale = running(session=session, snapshots=[worlds.a_snapshot(CHECKPOINT)])
    assert told(stale)[:2] == ("True", "Checkpointed"), "what is there counts, not what was said before"


def test_a_new_operator_tries_at_once_and_says_what_its_predecessor_said() -> None:
    plan = running(session=after(running(), READY), record_refused=None)
    assert kinds(plan) == [Create, WriteStatus]
    assert plan.status is None


def test_no_answer_is_waited_for_and_then_it_is_like_a_no() -> None:
    young = running(record_refused=refused(1, since=9, is_an_answer=False))
    assert kinds(young) == [Create, WriteStatus]
    assert young.status is None
    assert told(running(record_refused=refused(1, since=10, is_an_answer=False)))[1] == "Unrecorded"


@pytest.mark.parametrize("epoch", [2, 3])
def test_the_refusal_of_another_epochs_entry_says_nothing_of_this_one(epoch: int) -> None:
    plan = running(record_refused=refused(epoch=epoch))
    assert kinds(plan) == [Create, WriteStatus]
    assert plan.status is None


def test_a_lost_pod_is_replaced() -> None:
    plan = running(pods=(), keepers={})
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["slot"]["epoch"], plan.status["restarts"]) == ("Starting", 2, 1)
    assert told(plan)[:2] == ("True", "Unrecorded")
    assert plan.writes == ()
    assert [event.reason for event in plan.events] == ["PodLost", "Unrecorded"]


def test_the_entry_that_an_earlier_epoch_left_without_is_made_when_that_works_again() -> None:
    lost = after(running(pods=(), keepers={}), READY)
    status = {**worlds.a_status("Ready", 2), "snapshot": lost.wire()["status"]["snapshot"]}
    conditions = [one for one in lost.wire()["status"]["conditions"] if one["type"] == "Snapshotted"]
    status["conditions"] = [one for one in status["conditions"] if one["type"] != "Snapshotted"] + conditions
    world: dict[str, Any] = {
        "session": worlds.a_session(status=status),
        "pods": [worlds.a_pod(2)],
        "keepers": worlds.a_keeper("Open", epoch=2),
        "history": worlds.a_history(worlds.a_fence(2, CHECKPOINT), CHECKPOINT),
    }
    assert plan_of(**world).writes == ()
    due = plan_of(**world, record_refused=refused(15))
    assert kinds(due) == [Create, WriteStatus]
    assert isinstance(due.writes[1], WriteStatus)
    assert due.writes[1].reference.name == f"quill-{worlds.SLOT[:10]}-1"
    made = plan_of(**world, record_refused=None, snapshots=[worlds.a_snapshot(CHECKPOINT)])
    assert told(made)[:2] == ("True", "Checkpointed")
    assert made.status is not None
    assert made.status["snapshot"]["name"] == f"quill-{worlds.SLOT[:10]}-1"


def test_a_pod_goes_when_its_final_archive_is_stored() -> None:
    world = {"session": STOPPING, "pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Stored")}
    plan = plan_of(**world, history=worlds.a_history(FINAL))
    (delete,) = plan.writes
    assert isinstance(delete, Delete)
    assert delete.cause == "archive 1-1 is stored and verified"
    checkpoint = plan_of(**world, history=worlds.a_history(worlds.an_archive(1, 1, final=False)))
    assert not [write for write in checkpoint.writes if isinstance(write, Delete)], "an archive is still needed"


def test_a_stop_comes_to_rest_and_the_entry_is_made_from_there() -> None:
    world = {"pods": (), "history": worlds.a_history(FINAL)}
    plan = plan_of(session=STOPPING, **world)
    assert plan.status is not None
    assert plan.status["phase"] == "Suspended"
    assert told(plan)[:2] == ("True", "Unrecorded")
    assert [event.reason for event in plan.events] == ["Suspended", "Unrecorded"]
    rests = after(plan, STOPPING)
    assert plan_of(session=rests, **world) == Plan(wake_after=10)
    assert kinds(plan_of(session=rests, **world, record_refused=refused(20))) == [Create, WriteStatus]
    made = plan_of(session=rests, **world, record_refused=None, snapshots=[worlds.a_snapshot(FINAL)])
    assert told(made)[:2] == ("True", "Stored")
    assert made.events == (), "it was suspended long ago"
    settled = after(made, rests)
    assert settled.status.snapshot is not None
    assert settled.status.snapshot.name is not None
    assert plan_of(session=settled, **world, snapshots=[worlds.a_snapshot(FINAL)], record_refused=None) == Plan()


@pytest.mark.parametrize("reason", ["TtlExpired", "AgentExited", "WorkspaceFull"])
def test_every_rest_makes_up_for_the_entry(reason: str) -> None:
    rests = after(plan_of(session=STOPPING, pods=(), history=worlds.a_history(FINAL)), STOPPING).wire()
    rests["spec"]["operatingMode"], rests["status"]["stopReason"] = "Running", reason
    session = SandboxSession.model_validate(rests)
    world = {"session": session, "pods": (), "history": worlds.a_history(FINAL)}
    assert plan_of(**world) == Plan(wake_after=10)
    assert kinds(plan_of(**world, record_refused=refused(20))) == [Create, WriteStatus]
    made = plan_of(**world, record_refused=None, snapshots=[worlds.a_snapshot(FINAL)])
    assert told(made)[:2] == ("True", "Stored")


def test_a_deleted_session_is_the_last_that_names_its_archive_and_stays() -> None:
    world = {"pods": (), "history": worlds.a_history(FINAL)}
    plan = plan_of(session=DELETED, **world)
    assert plan.finalizer_remove is None
    assert told(plan)[:2] == ("False", "Unrecorded")
    assert "Only the deletion of the session waits for it." in told(plan)[2]
    assert [event.reason for event in plan.events] == ["Unrecorded"]
    waits = after(plan, DELETED)
    assert plan_of(session=waits, **world) == Plan(wake_after=10)
    due = plan_of(session=waits, **world, record_refused=refused(20))
    assert kinds(due) == [Create, WriteStatus]
    assert due.finalizer_remove is None
    made = plan_of(session=waits, **world, snapshots=[worlds.a_snapshot(FINAL)])
    assert made.finalizer_remove == names.FINALIZER_WORKSPACE


def at_rest() -> SandboxSession:
    rests = after(plan_of(session=STOPPING, pods=(), history=worlds.a_history(FINAL)), STOPPING).wire()
    rests["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return SandboxSession.model_validate(rests)


@pytest.mark.parametrize(
    "world",
    [
        {},
        {"record_refused": None},
        {"history": Unknown("no mover answered"), "record_refused": None},
        {"snapshots": Unknown("not listed"), "record_refused": None},
        {"sandbox": Unknown("not listed"), "record_refused": None},
    ],
)
def test_one_that_is_deleted_at_rest_waits_too_whatever_is_not_known(world: dict[str, Any]) -> None:
    plan = plan_of(**{"session": at_rest(), "pods": (), "history": worlds.a_history(FINAL), **world})
    assert plan.finalizer_remove is None
    assert plan.wake_after is not None


@pytest.mark.parametrize(
    "world",
    [
        {"snapshots": [worlds.a_snapshot(FINAL)]},
        {"snapshots": [worlds.a_snapshot(FINAL)], "history": Unknown("no mover answered")},
        {"namespace_terminating": True},
        {"history": worlds.a_history()},
    ],
    ids=["entry made", "entry made, store away", "namespace going", "archive taken away"],
)
def test_and_goes_where_an_entry_is_there_or_makes_no_sense(world: dict[str, Any]) -> None:
    plan = plan_of(**{"session": at_rest(), "pods": (), "history": worlds.a_history(FINAL), **world})
    assert plan.finalizer_remove == names.FINALIZER_WORKSPACE


def test_a_person_may_let_it_go_without_an_entry() -> None:
    discards = {**DELETED.wire()["metadata"], "annotations": {names.ANNOTATION_DISCARD: "true"}}
    session = SandboxSession.model_validate({**DELETED.wire(), "metadata": discards})
    plan = plan_of(session=session, pods=(), history=worlds.a_history(FINAL))
    assert plan.finalizer_remove == names.FINALIZER_WORKSPACE


def test_a_foreign_object_under_the_entrys_name_holds_a_deletion_and_is_named() -> None:
    theirs = worlds.a_snapshot(FINAL)
    theirs["metadata"]["labels"] = {}
    plan = plan_of(session=DELETED, pods=(), history=worlds.a_history(FINAL), snapshots=[theirs], record_refused=None)
    assert plan.finalizer_remove is None
    assert told(plan)[:2] == ("False", "ForeignObject")


def test_a_start_that_is_held_up_makes_up_for_the_entry_meanwhile() -> None:
    rests = after(plan_of(session=STOPPING, pods=(), history=worlds.a_history(FINAL)), STOPPING).wire()
    rests["spec"]["operatingMode"] = "Running"
    world = {"sandbox": worlds.a_sandbox({"tier": "gone"}), "pods": (), "history": worlds.a_history(FINAL)}
    refuses = plan_of(session=SandboxSession.model_validate(rests), **world)
    assert refuses.status is not None
    assert refuses.status["refusal"]["code"] == "runtime_class_missing"
    assert refuses.writes == ()
    session = after(refuses, SandboxSession.model_validate(rests))
    assert plan_of(session=session, **world) == Plan(wake_after=10)
    assert kinds(plan_of(session=session, **world, record_refused=refused(20))) == [Create, WriteStatus]


def test_a_session_that_rests_without_an_entry_starts_from_its_archive() -> None:
    rests = after(plan_of(session=STOPPING, pods=(), history=worlds.a_history(FINAL)), STOPPING).wire()
    rests["spec"]["operatingMode"] = "Running"
    plan = plan_of(session=SandboxSession.model_validate(rests), pods=(), history=worlds.a_history(FINAL))
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["slot"]["epoch"]) == ("Starting", 2)
    assert told(plan)[:2] == ("True", "Unrecorded")
